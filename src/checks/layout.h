// How the addresses of a warp lie.
#pragma once

#include "vgpu/watch.h"

namespace assay::checks {

// Those of `lanes` whose addresses lie in the 64 bytes from `row` * 64 on.
uint32_t lanes_in_row(const vgpu::Address* addresses, uint64_t row, uint32_t lanes);

// The lanes of an access whose bytes do not all lie in [low, high).
uint32_t lanes_outside(const vgpu::Access& access, vgpu::Address low, vgpu::Address high);

}  // namespace assay::checks
