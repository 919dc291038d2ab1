// Which registers share a plane. PTX names thousands of virtual registers; few live at a time, and a
// warp whose planes fit the cache runs several times faster.
#pragma once

#include <cstdint>
#include <vector>

#include "vgpu/code.h"

namespace assay::vgpu {

// Gives every register of `function` a plane at or after `plane_bytes`, which grows. Registers whose
// lives do not meet may share one, if they have the same width. Lanes are independent and writes are
// masked, so the lives that count are those of a single thread. A register that might be read before
// it is written keeps a plane for itself: what it holds then is nobody else's value.
std::vector<PlaneOffset> place_registers(const ptx::Function& function, uint32_t& plane_bytes);

// The registers that an instruction reads and writes, its guard among them.
struct Effects {
  std::vector<uint32_t> reads, writes;
};
Effects effects_of(const ptx::Instruction& inst);

uint32_t lane_bytes_of(ptx::Type type);  // of a register's plane: 2, 4, 8, 16; 0 for a predicate
uint32_t plane_bytes_of(uint32_t lane_bytes);

}  // namespace assay::vgpu
