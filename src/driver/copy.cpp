#include "driver/copy.h"

#include <initializer_list>

#include "driver/driver.h"

namespace assay::driver {
namespace {

using cudart::CopyKind;

bool is_host(const CopySide3D& side) {
  return side.type == MemoryType::Host;
}

cudart::PitchedPointer pitched(const CopySide3D& side, size_t width, size_t height) {
  return {is_host(side) ? side.host : side.device, side.pitch, width, side.height ? side.height : height};
}

// The numbers of the kinds: 0 host to host, 1 host to device, 2 device to host, 3 device to device.
CopyKind kind_of(const CopySide3D& from, const CopySide3D& to) {
  if (from.type == MemoryType::Unified || to.type == MemoryType::Unified) return CopyKind::Default;
  return static_cast<CopyKind>((is_host(from) ? 0 : 2) + (is_host(to) ? 0 : 1));
}

CopySide3D side_of(const cudart::PitchedPointer& pointer, const cudart::Position& position, bool host,
                   bool known) {
  CopySide3D side{};
  side.x = position.x;
  side.y = position.y;
  side.z = position.z;
  side.type = !known ? MemoryType::Unified : host ? MemoryType::Host : MemoryType::Device;
  (host && known ? side.host : side.device) = pointer.pointer;
  side.pitch = pointer.pitch;
  side.height = pointer.height;
  return side;
}

CopySide3D deepened(const CopySide2D& side, size_t width, size_t height) {
  CopySide3D deep{};
  deep.x = side.x;
  deep.y = side.y;
  deep.type = side.type;
  deep.host = side.host;
  deep.device = side.device;
  deep.array = side.array;
  deep.pitch = side.pitch ? side.pitch : side.x + width;  // 0: rows without gaps
  deep.height = side.y + height;
  return deep;
}

bool is_memory(const CopySide3D& side) {
  return side.type == MemoryType::Host || side.type == MemoryType::Device || side.type == MemoryType::Unified;
}

}  // namespace

Status runtime_copy(const DriverCopy3D& copy, cudart::Copy3D& params) {
  for (const CopySide3D* side : {&copy.from, &copy.to}) {
    if (side->type == MemoryType::Array) return cudart::assay_not_supported("a copy to or from an array");
    if (!is_memory(*side)) return Status::InvalidValue;
  }
  params = {.from_array = nullptr,
            .from_position = {copy.from.x, copy.from.y, copy.from.z},
            .from = pitched(copy.from, copy.width, copy.height),
            .to_array = nullptr,
            .to_position = {copy.to.x, copy.to.y, copy.to.z},
            .to = pitched(copy.to, copy.width, copy.height),
            .extent = {copy.width, copy.height, copy.depth},
            .kind = kind_of(copy.from, copy.to)};
  return Status::Success;
}

DriverCopy3D driver_copy(const cudart::Copy3D& params) {
  const bool known = params.kind != CopyKind::Default;
  const bool from_host = params.kind == CopyKind::HostToHost || params.kind == CopyKind::HostToDevice;
  const bool to_host = params.kind == CopyKind::HostToHost || params.kind == CopyKind::DeviceToHost;
  return {.from = side_of(params.from, params.from_position, from_host, known),
          .to = side_of(params.to, params.to_position, to_host, known),
          .width = params.extent.width,
          .height = params.extent.height,
          .depth = params.extent.depth};
}

DriverCopy3D deepened(const DriverCopy2D& copy) {
  return {.from = deepened(copy.from, copy.width, copy.height),
          .to = deepened(copy.to, copy.width, copy.height),
          .width = copy.width,
          .height = copy.height,
          .depth = 1};
}

}  // namespace assay::driver
