// A warp's access as a few regular pieces: runs of lanes at consecutive places, or at one place.
#pragma once

#include "vgpu/watch.h"

namespace assay::checks {

struct Piece {
  vgpu::Address address = 0;  // of its first lane
  uint32_t lane = 0;          // the first one
  uint32_t lanes = 0;         // how many
  bool uniform = false;       // all at one address; else lane after lane
};

inline constexpr uint32_t kMostPieces = 8;

// Fills `pieces` and says how many; 0: the access is irregular.
uint32_t split(const vgpu::Access& access, Piece* pieces);

}  // namespace assay::checks
