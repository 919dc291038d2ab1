// Copies and fills of ranges with up to three dimensions.
#include <fmt/format.h>

#include <cstring>

#include "vgpu/stream.h"

namespace assay::vgpu {
namespace {

RangeInfo range_of(const Place& place, uint64_t width, uint64_t height, uint64_t depth) {
  return {place.address, place.host, width, height, depth, place.row_pitch, place.slice_pitch};
}

FaultInfo bad_range(std::string_view what, Address address, uint64_t bytes) {
  return {
      FaultInfo::Kind::IllegalAddress,
      fmt::format("{} of {} bytes at {:#x}, which is outside every live allocation", what, bytes, address)};
}

// Calls `row(offset in to, offset in from, bytes)` for each contiguous piece of a 3D range.
template <class Row>
void for_rows(const Place& to, const Place& from, uint64_t width, uint64_t height, uint64_t depth, Row row) {
  auto is_dense = [&](const Place& place) {
    return (height == 1 || place.row_pitch == width) && (depth == 1 || place.slice_pitch == width * height);
  };
  if (is_dense(to) && is_dense(from)) {
    row(0, 0, width * height * depth);
    return;
  }
  for (uint64_t z = 0; z < depth; ++z)
    for (uint64_t y = 0; y < height; ++y)
      row(z * to.slice_pitch + y * to.row_pitch, z * from.slice_pitch + y * from.row_pitch, width);
}

std::byte* bytes_at(const Memory& memory, const Place& place, uint64_t offset, uint64_t bytes) {
  return place.host ? place.host + offset : memory.host(place.address + offset, bytes);
}

void fill_bytes(std::byte* to, uint64_t bytes, uint32_t value, uint32_t value_bytes) {
  if (value_bytes == 1) {
    std::memset(to, static_cast<int>(value), bytes);
    return;
  }
  for (uint64_t i = 0; i + value_bytes <= bytes; i += value_bytes) std::memcpy(to + i, &value, value_bytes);
}

}  // namespace

FaultInfo Streams::run(const Operation& operation, const CopyWork& work) {
  if (options_.leaves_out && options_.leaves_out(operation.work)) return {};
  Memory& memory = device_.memory();
  OperationInfo info{operation.id, operation.stream, OperationInfo::Kind::Copy, operation.after};
  for (Listener* listener : listeners_)
    listener->on_copy(info, range_of(work.to, work.width, work.height, work.depth),
                      range_of(work.from, work.width, work.height, work.depth));
  FaultInfo fault;
  for_rows(work.to, work.from, work.width, work.height, work.depth,
           [&](uint64_t to, uint64_t from, uint64_t bytes) {
             if (bytes == 0 || fault.kind != FaultInfo::Kind::None) return;
             std::byte* target = bytes_at(memory, work.to, to, bytes);
             const std::byte* source = bytes_at(memory, work.from, from, bytes);
             if (!target)
               fault = bad_range("copy to a range", work.to.address + to, bytes);
             else if (!source)
               fault = bad_range("copy from a range", work.from.address + from, bytes);
             else {
               std::memmove(target, source, bytes);
               if (work.to.host) return;
               if (work.from.host)
                 memory.mark_initialised(work.to.address + to, bytes);
               else
                 memory.copy_initialised(work.to.address + to, work.from.address + from, bytes);
             }
           });
  return fault;
}

FaultInfo Streams::run(const Operation& operation, const FillWork& work) {
  if (options_.leaves_out && options_.leaves_out(operation.work)) return {};
  Memory& memory = device_.memory();
  OperationInfo info{operation.id, operation.stream, OperationInfo::Kind::Fill, operation.after};
  for (Listener* listener : listeners_)
    listener->on_fill(info, range_of(work.to, work.width, work.height, work.depth));
  FaultInfo fault;
  for_rows(work.to, work.to, work.width, work.height, work.depth, [&](uint64_t to, uint64_t, uint64_t bytes) {
    if (bytes == 0 || fault.kind != FaultInfo::Kind::None) return;
    std::byte* target = bytes_at(memory, work.to, to, bytes);
    if (!target) {
      fault = bad_range("fill of a range", work.to.address + to, bytes);
      return;
    }
    fill_bytes(target, bytes, work.value, work.value_bytes);
    if (!work.to.host) memory.mark_initialised(work.to.address + to, bytes);
  });
  return fault;
}

}  // namespace assay::vgpu
