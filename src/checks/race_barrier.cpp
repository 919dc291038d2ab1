#include "checks/race_barrier.h"

#include <algorithm>

namespace assay::checks {

namespace {

// By warp: the lanes that have come to a barrier, those that have exited among them.
std::vector<uint32_t> arrived_at(const vgpu::Block& block, uint32_t barrier, bool whole) {
  std::vector<uint32_t> arrived = block.barriers[barrier].arrived;
  for (const vgpu::Warp& warp : block.warps)
    if (whole && warp.live == 0) arrived[warp.index] = vgpu::kAllLanes;
  return arrived;
}

// Ticks of warps all of whose lanes came to this phase without waiting.
Ticks take_arrivals(BlockState& state, uint32_t barrier, const std::vector<uint32_t>& arrived) {
  Ticks early(arrived.size(), 0);
  if (state.arrivals.empty()) return early;
  for (uint32_t w = 0; w < arrived.size(); ++w) {
    const auto found = state.arrivals.find({barrier, w});
    if (found == state.arrivals.end()) continue;
    if (found->second.lanes == arrived[w]) early[w] = found->second.tick;
    state.arrivals.erase(found);
  }
  return early;
}

// A barrier at which not everybody waits, or after which there is more to know than ticks. Whether all have waited.
bool sync_partly(Published& published, BlockState& state, const vgpu::Block& block, uint32_t barrier,
                 bool whole) {
  const std::vector<uint32_t> arrived = arrived_at(block, barrier, whole);
  for (WarpClock& clock : state.clock.warps)
    if (!clock.missed.empty()) published.look_again(clock);
  const Ticks early = take_arrivals(state, barrier, arrived);
  state.clock.sync_block(arrived, early, block);
  return whole && std::all_of(early.begin(), early.end(), [](uint32_t tick) { return tick == 0; });
}

// Warps have met at a barrier: what one has waited for, all have.
void share_wait(BlockState& state, const std::vector<uint32_t>& arrived) {
  uint32_t here = 0;
  for (uint32_t w = 0; w < arrived.size(); ++w) here |= (arrived[w] != 0 ? 1u : 0u) << w;
  if ((state.waited & here) != 0) state.waited |= here;
}

}  // namespace

void note_arrival(BlockState& state, const vgpu::Warp& warp, uint32_t lanes) {
  const uint32_t tick = ++state.clock.warps[warp.index].tick;
  for (uint32_t id = 0; id < vgpu::kBlockBarriers; ++id) {
    auto& arrival = state.arrivals[{id, warp.index}];
    const uint32_t there = warp.block->barriers[id].arrived[warp.index];
    if ((there & lanes) == lanes && (arrival.lanes & lanes) != lanes) arrival = {arrival.lanes | lanes, tick};
  }
  state.shared.advance(state.clock, warp.index);
  note_exhaustion(state);
}

void meet_at_barrier(Published& published, BlockState& state, const vgpu::Block& block, uint32_t barrier) {
  bool whole = true;
  for (const vgpu::Warp& warp : block.warps)
    whole &= (warp.live & ~block.barriers[barrier].arrived[warp.index]) == 0;
  const bool all_came = whole;
  if (!whole || !state.arrivals.empty() || !state.clock.sync_whole_block())
    whole = sync_partly(published, state, block, barrier, whole);
  state.shared.advance(state.clock, whole && state.neighbours == 0);  // other blocks know nothing of it
  if (whole) state.lanes.clear();
  if (state.waited != ~0u) share_wait(state, arrived_at(block, barrier, all_came));
  note_exhaustion(state);
}

}  // namespace assay::checks
