#include "cudart/copy.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "cudart/runtime.h"

namespace assay::cudart {
namespace {

using vgpu::MemoryKind;

bool is_mapped(const void* pointer, uint64_t bytes) {
  if (bytes == 0) return true;
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto start = reinterpret_cast<uintptr_t>(pointer) & ~(page - 1);
  uintptr_t end = reinterpret_cast<uintptr_t>(pointer) + bytes;
  if (end < start) return false;
  return msync(reinterpret_cast<void*>(start), end - start, MS_ASYNC) == 0;
}

// Bytes from the first to the last that a pitched range touches.
uint64_t span_of(uint64_t width, uint64_t height, uint64_t depth, uint64_t pitch, uint64_t slice) {
  if (width == 0 || height == 0 || depth == 0) return 0;
  return (depth - 1) * slice + (height - 1) * pitch + width;
}

// What is called device memory must be known to the device; what is called host memory may be anything.
bool fits(CopyKind kind, Where to, Where from) {
  bool to_device = kind == CopyKind::HostToDevice || kind == CopyKind::DeviceToDevice;
  bool from_device = kind == CopyKind::DeviceToHost || kind == CopyKind::DeviceToDevice;
  return !(to_device && to == Where::Pageable) && !(from_device && from == Where::Pageable);
}

vgpu::Place place_of(Where where, const void* pointer, uint64_t pitch, uint64_t slice) {
  vgpu::Place place;
  if (where == Where::Pageable)
    place.host = static_cast<std::byte*>(const_cast<void*>(pointer));
  else
    place.address = reinterpret_cast<vgpu::Address>(pointer);
  place.row_pitch = pitch;
  place.slice_pitch = slice;
  return place;
}

// Reads a pageable source now, as CUDA does.
void stage(const CopyRequest& request, vgpu::CopyWork& work) {
  uint64_t row = request.width, slice = row * request.height;
  work.staged = std::make_shared<std::vector<std::byte>>(slice * request.depth);
  for (uint64_t z = 0; z < request.depth; ++z)
    for (uint64_t y = 0; y < request.height; ++y)
      std::memcpy(work.staged->data() + z * slice + y * row,
                  work.from.host + z * request.from_slice + y * request.from_pitch, row);
  work.from = {0, work.staged->data(), row, slice};
}

}  // namespace

Where where_is(Context& context, const void* pointer, uint64_t bytes) {
  auto address = reinterpret_cast<vgpu::Address>(pointer);
  if (auto allocation = context.memory().find(address)) {
    if (!allocation->contains(address, bytes)) return Where::Nowhere;
    switch (allocation->kind) {
      case MemoryKind::Managed:
        return Where::Managed;
      case MemoryKind::Pinned:
        return Where::Pinned;
      default:
        return Where::Device;
    }
  }
  if (context.memory().is_device_address(address)) return Where::Nowhere;
  return pointer && is_mapped(pointer, bytes) ? Where::Pageable : Where::Nowhere;
}

Copy3D params_of(const CopyRequest& request) {
  Copy3D params{};
  params.from = {const_cast<void*>(request.from), request.from_pitch, request.width, request.height};
  params.to = {request.to, request.to_pitch, request.width, request.height};
  params.extent = {request.width, request.height, request.depth};
  params.kind = request.kind;
  return params;
}

Status request_of(const Copy3D& params, CopyRequest& request) {
  if (params.from_array || params.to_array) return Status::NotSupported;
  auto slice = [](const PitchedPointer& pointer) { return pointer.pitch * pointer.height; };
  auto offset = [&](const PitchedPointer& pointer, const Position& position) {
    return position.z * slice(pointer) + position.y * pointer.pitch + position.x;
  };
  request.to = static_cast<std::byte*>(params.to.pointer) + offset(params.to, params.to_position);
  request.from = static_cast<std::byte*>(params.from.pointer) + offset(params.from, params.from_position);
  request.to_pitch = params.to.pitch;
  request.from_pitch = params.from.pitch;
  request.to_slice = slice(params.to);
  request.from_slice = slice(params.from);
  request.width = params.extent.width;
  request.height = params.extent.height;
  request.depth = params.extent.depth;
  request.kind = params.kind;
  bool many_rows = request.height > 1 || request.depth > 1;
  if (many_rows && (request.width > request.to_pitch || request.width > request.from_pitch))
    return Status::InvalidPitchValue;
  return Status::Success;
}

Status make_copy_spec(Context& context, const CopyRequest& request, CopySpec& spec) {
  if (static_cast<unsigned>(request.kind) > static_cast<unsigned>(CopyKind::Default))
    return Status::InvalidMemcpyDirection;
  spec.params = params_of(request);
  spec.work.width = request.width;
  spec.work.height = request.height;
  spec.work.depth = request.depth;
  if (request.width == 0 || request.height == 0 || request.depth == 0) {
    spec.work.width = 0;
    return Status::Success;
  }
  auto extent = [&](uint64_t pitch, uint64_t slice) {
    return span_of(request.width, request.height, request.depth, pitch, slice);
  };
  Where to = where_is(context, request.to, extent(request.to_pitch, request.to_slice));
  Where from = where_is(context, request.from, extent(request.from_pitch, request.from_slice));
  if (to == Where::Nowhere || from == Where::Nowhere || !fits(request.kind, to, from))
    return Status::InvalidValue;
  spec.work.to = place_of(to, request.to, request.to_pitch, request.to_slice);
  spec.work.from = place_of(from, request.from, request.from_pitch, request.from_slice);
  return Status::Success;
}

Status make_memset_spec(Context& context, const MemsetParams& params, uint64_t depth, uint64_t slice,
                        MemsetSpec& spec) {
  spec.params = params;
  if (params.element_size != 1 && params.element_size != 2 && params.element_size != 4)
    return Status::InvalidValue;
  uint64_t width = params.width * params.element_size;
  spec.work = {.to = {},
               .width = width,
               .height = params.height,
               .depth = depth,
               .value = params.value,
               .value_bytes = params.element_size};
  if (width == 0 || params.height == 0 || depth == 0) {
    spec.work.width = 0;
    return Status::Success;
  }
  if ((params.height > 1 || depth > 1) && params.pitch < width) return Status::InvalidValue;
  Where where = where_is(context, params.to, span_of(width, params.height, depth, params.pitch, slice));
  if (where == Where::Pageable || where == Where::Nowhere) return Status::InvalidValue;
  spec.work.to = place_of(where, params.to, params.pitch, slice);
  return Status::Success;
}

Status copy(Context& context, StreamHandle& stream, const CopyRequest& request, bool synchronous) {
  CopySpec spec;
  if (Status status = make_copy_spec(context, request, spec); status != Status::Success) return status;
  bool capturing = stream.capture != nullptr;
  bool to_pageable = spec.work.to.host, from_pageable = spec.work.from.host;
  bool between_host_memories = request.kind == CopyKind::HostToHost || (to_pageable && from_pageable);
  if (!capturing && !synchronous && from_pageable && !to_pageable) stage(request, spec.work);
  // Between device memories even cudaMemcpy does not wait.
  bool device_only = spec.work.to.address && spec.work.from.address && !between_host_memories &&
                     where_is(context, request.to, 1) == Where::Device &&
                     where_is(context, request.from, 1) == Where::Device;
  bool wait = !capturing && (synchronous ? !device_only : to_pageable || between_host_memories);
  vgpu::OperationId operation = 0;
  if (Status status = dispatch(context, &stream, std::move(spec), &operation); status != Status::Success)
    return status;
  if (!wait) {
    const bool to_host = where_is(context, request.to, 1) != Where::Device && !device_only;
    if (HostCheck* check = context.host_check(); check && operation && to_host)
      check->copied_to_host(operation);
    return Status::Success;
  }
  return synchronised(context, [&] { context.streams().synchronise(operation); });
}

Status fill(Context& context, StreamHandle& stream, const MemsetParams& params, uint64_t depth,
            uint64_t slice, bool synchronous) {
  MemsetSpec spec;
  if (Status status = make_memset_spec(context, params, depth, slice, spec); status != Status::Success)
    return status;
  // Of device memory even cudaMemset does not wait.
  const bool wait = synchronous && !stream.capture && where_is(context, params.to, 1) != Where::Device;
  vgpu::OperationId operation = 0;
  const Status status = dispatch(context, &stream, spec, &operation);
  if (!wait || status != Status::Success) return status;
  return synchronised(context, [&] { context.streams().synchronise(operation); });
}

}  // namespace assay::cudart
