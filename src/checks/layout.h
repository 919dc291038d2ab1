// How the addresses of a warp lie.
#pragma once

#include "vgpu/watch.h"

namespace assay::checks {

// Those of `lanes` whose addresses lie in the 64 bytes from `row` * 64 on.
uint32_t lanes_in_row(const vgpu::Address* addresses, uint64_t row, uint32_t lanes);

// Whether an access lies in [low, high), where its shape tells that from two addresses.
inline bool lies_inside(const vgpu::Access& access, vgpu::Address low, vgpu::Address high) {
  using vgpu::Shape;
  if (access.shape == Shape::Other) return false;
  const bool runs = access.shape == Shape::Unit || access.shape == Shape::HalfUnit;
  const uint64_t bytes = uint64_t{access.bytes} * (runs ? 16 : 1);
  const auto inside = [&](vgpu::Address at) { return at >= low && at <= high && high - at >= bytes; };
  return inside(access.addresses[0]) && inside(access.addresses[16]);
}

// The lanes of an access whose bytes do not all lie in [low, high).
uint32_t lanes_outside(const vgpu::Access& access, vgpu::Address low, vgpu::Address high);

}  // namespace assay::checks
