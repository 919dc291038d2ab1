// Barriers of a block: what the warps that meet there know from then on. bar.arrive releases but does not acquire.
#pragma once

#include "checks/race_published.h"
#include "checks/race_state.h"

namespace assay::checks {

// bar.arrive: what the warp does from now on is not covered by the barrier.
void note_arrival(BlockState& state, const vgpu::Warp& warp, uint32_t lanes);
// A phase of a barrier ends.
void meet_at_barrier(Published& published, BlockState& state, const vgpu::Block& block, uint32_t barrier);

}  // namespace assay::checks
