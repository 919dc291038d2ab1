// How the addresses of a warp's access lie, and fast tests of where they are.
#pragma once

#include "vgpu/watch.h"

namespace assay::checks {

// Those of `lanes` whose addresses lie in the 64 bytes from `row` * 64 on.
uint32_t lanes_in_row(const vgpu::Address* addresses, uint64_t row, uint32_t lanes);

// Where an access lies, as far as its shape says.
struct AddressPattern {
  vgpu::Shape shape;
  uint32_t bytes;               // per lane
  vgpu::Address first, second;  // of lanes 0 and 16

  AddressPattern(const vgpu::Access& a)
      : shape(a.shape), bytes(a.bytes), first(a.addresses[0]), second(a.addresses[16]) {}
  AddressPattern(const vgpu::ShapedLoad& l)
      : shape(l.shape), bytes(l.bytes), first(l.first), second(l.second) {}
};

// Whether it is known to lie in [low, high).
inline bool lies_inside(const AddressPattern& pattern, vgpu::Address low, vgpu::Address high) {
  using vgpu::Shape;
  if (pattern.shape == Shape::Other) return false;
  const bool runs = pattern.shape == Shape::Unit || pattern.shape == Shape::HalfUnit;
  const uint64_t bytes = uint64_t{pattern.bytes} << (runs ? 4 : 0), size = high - low;
  return (size >= bytes) & (pattern.first - low <= size - bytes) & (pattern.second - low <= size - bytes);
}

inline bool lies_inside(const vgpu::ShapedLoad& load, vgpu::Address low, vgpu::Address high) {
  if (load.shape != vgpu::Shape::Other) return lies_inside(AddressPattern(load), low, high);
  const uint64_t size = high - low;
  const vgpu::Address last = load.second + 15 * load.distance();  // lane 31
  return (size >= load.bytes) & (load.first - low <= size - load.bytes) & (last - low <= size - load.bytes);
}

// The lanes of an access whose bytes do not all lie in [low, high).
uint32_t lanes_outside(const vgpu::Access& access, vgpu::Address low, vgpu::Address high);

}  // namespace assay::checks
