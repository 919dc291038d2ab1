// cudaMemcpy*, cudaMemset*: everything that moves or fills memory.
#include "cudart/copy.h"
#include "cudart/runtime.h"

using namespace assay::cudart;

namespace {

CopyRequest flat(void* to, const void* from, size_t bytes, CopyKind kind) {
  return {.to = to, .from = from, .width = bytes, .kind = kind};
}

CopyRequest rows(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                 CopyKind kind) {
  return {.to = to,
          .from = from,
          .to_pitch = to_pitch,
          .from_pitch = from_pitch,
          .width = width,
          .height = height,
          .kind = kind};
}

Status copy_flat(void* to, const void* from, size_t bytes, CopyKind kind, StreamHandle* handle,
                 bool synchronous) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    return copy(context, stream, flat(to, from, bytes, kind), synchronous);
  });
}

Status copy_rows(const CopyRequest& request, StreamHandle* handle, bool synchronous) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (request.height > 1 && (request.width > request.to_pitch || request.width > request.from_pitch))
      return Status::InvalidPitchValue;
    return copy(context, stream, request, synchronous);
  });
}

Status copy_3d(const Copy3D* params, StreamHandle* handle, bool synchronous) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!params) return Status::InvalidValue;
    CopyRequest request;
    if (Status status = request_of(*params, request); status != Status::Success) {
      return status == Status::NotSupported ? not_supported("cudaMemcpy3D of arrays") : status;
    }
    return copy(context, stream, request, synchronous);
  });
}

Copy3D without_devices(const PeerCopy3D& params) {
  return {params.from_array, params.from_position, params.from,      params.to_array, params.to_position,
          params.to,         params.extent,        CopyKind::Default};
}

// Between a variable of the device and memory.
Status copy_symbol(void* memory, const void* symbol, size_t bytes, size_t offset, CopyKind kind,
                   bool to_symbol, StreamHandle* handle, bool synchronous) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    void* address = nullptr;
    if (Status status = Runtime::get().modules().part_of_variable(symbol, offset, bytes, context, address);
        status != Status::Success)
      return status;
    return copy(context, stream,
                to_symbol ? flat(address, memory, bytes, kind) : flat(memory, address, bytes, kind),
                synchronous);
  });
}

MemsetParams set_params(void* to, size_t pitch, int value, size_t width, size_t height) {
  return {to, pitch, static_cast<unsigned>(value) & 0xff, 1, width, height};
}

Status set(const MemsetParams& params, uint64_t depth, uint64_t slice, StreamHandle* handle,
           bool synchronous) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    return fill(context, stream, params, depth, slice, synchronous);
  });
}

Status set_3d(const PitchedPointer& to, int value, const Extent& extent, StreamHandle* stream,
              bool synchronous) {
  return set(set_params(to.pointer, to.pitch, value, extent.width, extent.height), extent.depth,
             to.pitch * to.height, stream, synchronous);
}

}  // namespace

// ---- Copies ----

ASSAY_API Status cudaMemcpy(void* to, const void* from, size_t bytes, CopyKind kind) {
  return copy_flat(to, from, bytes, kind, kLegacyStream, true);
}
ASSAY_API Status cudaMemcpy_ptds(void* to, const void* from, size_t bytes, CopyKind kind) {
  return copy_flat(to, from, bytes, kind, kPerThreadStream, true);
}
ASSAY_API Status cudaMemcpyAsync(void* to, const void* from, size_t bytes, CopyKind kind,
                                 StreamHandle* stream) {
  return copy_flat(to, from, bytes, kind, stream, false);
}
ASSAY_API_PTSZ(cudaMemcpyAsync,
               (void* to, const void* from, size_t bytes, CopyKind kind, StreamHandle* stream), to, from,
               bytes, kind, own_stream(stream))

ASSAY_API Status cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device, size_t bytes) {
  if (to_device != 0 || from_device != 0) return note(Status::InvalidDevice);
  return copy_flat(to, from, bytes, CopyKind::Default, kLegacyStream, true);
}
ASSAY_API Status cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                     StreamHandle* stream) {
  if (to_device != 0 || from_device != 0) return note(Status::InvalidDevice);
  return copy_flat(to, from, bytes, CopyKind::Default, stream, false);
}

ASSAY_API Status cudaMemcpy2D(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, CopyKind kind) {
  return copy_rows(rows(to, to_pitch, from, from_pitch, width, height, kind), kLegacyStream, true);
}
ASSAY_API Status cudaMemcpy2D_ptds(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                   size_t width, size_t height, CopyKind kind) {
  return copy_rows(rows(to, to_pitch, from, from_pitch, width, height, kind), kPerThreadStream, true);
}
ASSAY_API Status cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                   size_t width, size_t height, CopyKind kind, StreamHandle* stream) {
  return copy_rows(rows(to, to_pitch, from, from_pitch, width, height, kind), stream, false);
}
ASSAY_API_PTSZ(cudaMemcpy2DAsync,
               (void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width, size_t height,
                CopyKind kind, StreamHandle* stream),
               to, to_pitch, from, from_pitch, width, height, kind, own_stream(stream))

ASSAY_API Status cudaMemcpy3D(const Copy3D* params) {
  return copy_3d(params, kLegacyStream, true);
}
ASSAY_API Status cudaMemcpy3D_ptds(const Copy3D* params) {
  return copy_3d(params, kPerThreadStream, true);
}
ASSAY_API Status cudaMemcpy3DAsync(const Copy3D* params, StreamHandle* stream) {
  return copy_3d(params, stream, false);
}
ASSAY_API_PTSZ(cudaMemcpy3DAsync, (const Copy3D* params, StreamHandle* stream), params, own_stream(stream))

ASSAY_API Status cudaMemcpy3DPeer(const PeerCopy3D* params) {
  if (!params) return copy_3d(nullptr, kLegacyStream, true);
  Copy3D plain = without_devices(*params);
  return copy_3d(&plain, kLegacyStream, true);
}
ASSAY_API Status cudaMemcpy3DPeer_ptds(const PeerCopy3D* params) {
  if (!params) return copy_3d(nullptr, kPerThreadStream, true);
  Copy3D plain = without_devices(*params);
  return copy_3d(&plain, kPerThreadStream, true);
}
ASSAY_API Status cudaMemcpy3DPeerAsync(const PeerCopy3D* params, StreamHandle* stream) {
  if (!params) return copy_3d(nullptr, stream, false);
  Copy3D plain = without_devices(*params);
  return copy_3d(&plain, stream, false);
}
ASSAY_API_PTSZ(cudaMemcpy3DPeerAsync, (const PeerCopy3D* params, StreamHandle* stream), params,
               own_stream(stream))

ASSAY_API Status cudaMemcpyToSymbol(const void* symbol, const void* from, size_t bytes, size_t offset,
                                    CopyKind kind) {
  return copy_symbol(const_cast<void*>(from), symbol, bytes, offset, kind, true, kLegacyStream, true);
}
ASSAY_API Status cudaMemcpyToSymbol_ptds(const void* symbol, const void* from, size_t bytes, size_t offset,
                                         CopyKind kind) {
  return copy_symbol(const_cast<void*>(from), symbol, bytes, offset, kind, true, kPerThreadStream, true);
}
ASSAY_API Status cudaMemcpyToSymbolAsync(const void* symbol, const void* from, size_t bytes, size_t offset,
                                         CopyKind kind, StreamHandle* stream) {
  return copy_symbol(const_cast<void*>(from), symbol, bytes, offset, kind, true, stream, false);
}
ASSAY_API_PTSZ(cudaMemcpyToSymbolAsync,
               (const void* symbol, const void* from, size_t bytes, size_t offset, CopyKind kind,
                StreamHandle* stream),
               symbol, from, bytes, offset, kind, own_stream(stream))
ASSAY_API Status cudaMemcpyFromSymbol(void* to, const void* symbol, size_t bytes, size_t offset,
                                      CopyKind kind) {
  return copy_symbol(to, symbol, bytes, offset, kind, false, kLegacyStream, true);
}
ASSAY_API Status cudaMemcpyFromSymbol_ptds(void* to, const void* symbol, size_t bytes, size_t offset,
                                           CopyKind kind) {
  return copy_symbol(to, symbol, bytes, offset, kind, false, kPerThreadStream, true);
}
ASSAY_API Status cudaMemcpyFromSymbolAsync(void* to, const void* symbol, size_t bytes, size_t offset,
                                           CopyKind kind, StreamHandle* stream) {
  return copy_symbol(to, symbol, bytes, offset, kind, false, stream, false);
}
ASSAY_API_PTSZ(cudaMemcpyFromSymbolAsync,
               (void* to, const void* symbol, size_t bytes, size_t offset, CopyKind kind,
                StreamHandle* stream),
               to, symbol, bytes, offset, kind, own_stream(stream))

// The attributes of a batch are hints about access order and place; every copy of it is stream-ordered here.
ASSAY_API Status cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* bytes,
                                      size_t count, void*, size_t*, size_t, StreamHandle* handle) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!to || !from || !bytes || count == 0 || stream.id == assay::vgpu::kDefaultStream)
      return Status::InvalidValue;
    for (size_t i = 0; i < count; ++i)
      if (Status status = copy(context, stream, flat(to[i], from[i], bytes[i], CopyKind::Default), false);
          status != Status::Success)
        return status;
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaMemcpyBatchAsync,
               (void* const* to, const void* const* from, const size_t* bytes, size_t count, void* attributes,
                size_t* indices, size_t attribute_count, StreamHandle* stream),
               to, from, bytes, count, attributes, indices, attribute_count, own_stream(stream))

// ---- Fills ----

ASSAY_API Status cudaMemset(void* to, int value, size_t bytes) {
  return set(set_params(to, 0, value, bytes, 1), 1, 0, kLegacyStream, true);
}
ASSAY_API Status cudaMemset_ptds(void* to, int value, size_t bytes) {
  return set(set_params(to, 0, value, bytes, 1), 1, 0, kPerThreadStream, true);
}
ASSAY_API Status cudaMemsetAsync(void* to, int value, size_t bytes, StreamHandle* stream) {
  return set(set_params(to, 0, value, bytes, 1), 1, 0, stream, false);
}
ASSAY_API_PTSZ(cudaMemsetAsync, (void* to, int value, size_t bytes, StreamHandle* stream), to, value, bytes,
               own_stream(stream))
ASSAY_API Status cudaMemset2D(void* to, size_t pitch, int value, size_t width, size_t height) {
  return set(set_params(to, pitch, value, width, height), 1, 0, kLegacyStream, true);
}
ASSAY_API Status cudaMemset2D_ptds(void* to, size_t pitch, int value, size_t width, size_t height) {
  return set(set_params(to, pitch, value, width, height), 1, 0, kPerThreadStream, true);
}
ASSAY_API Status cudaMemset2DAsync(void* to, size_t pitch, int value, size_t width, size_t height,
                                   StreamHandle* stream) {
  return set(set_params(to, pitch, value, width, height), 1, 0, stream, false);
}
ASSAY_API_PTSZ(cudaMemset2DAsync,
               (void* to, size_t pitch, int value, size_t width, size_t height, StreamHandle* stream), to,
               pitch, value, width, height, own_stream(stream))
ASSAY_API Status cudaMemset3D(PitchedPointer to, int value, Extent extent) {
  return set_3d(to, value, extent, kLegacyStream, true);
}
ASSAY_API Status cudaMemset3D_ptds(PitchedPointer to, int value, Extent extent) {
  return set_3d(to, value, extent, kPerThreadStream, true);
}
ASSAY_API Status cudaMemset3DAsync(PitchedPointer to, int value, Extent extent, StreamHandle* stream) {
  return set_3d(to, value, extent, stream, false);
}
ASSAY_API_PTSZ(cudaMemset3DAsync, (PitchedPointer to, int value, Extent extent, StreamHandle* stream), to,
               value, extent, own_stream(stream))
