// Block barriers and the cluster barrier.
//
// Threads that have exited count as arrived, as on hardware: a whole-block barrier is complete when
// every live lane of every warp has arrived. A barrier with a count is complete when that many threads
// have arrived, a warp all of whose live lanes are there counting 32.
#include <algorithm>
#include <bit>

#include "vgpu/program.h"
#include "vgpu/run.h"

namespace assay::vgpu {

namespace {

bool complete(const Block& block, const BlockBarrier& barrier) {
  if (!barrier.open) return false;
  uint32_t threads = 0;
  bool everybody = true;
  for (const Warp& w : block.warps) {
    const uint32_t there = barrier.arrived[w.index];
    everybody &= (w.live & ~there) == 0;
    threads += (there != 0 && (w.live & ~there) == 0) ? kWarpSize : static_cast<uint32_t>(std::popcount(there));
  }
  const bool whole = barrier.threads == 0 || barrier.threads >= block.threads;
  return whole ? everybody : threads >= barrier.threads;
}

void finish(Block& block, uint32_t id) {
  BlockBarrier& barrier = block.barriers[id];
  ++block.cluster->barriers;
  for (Listener* listener : block.grid->listeners) listener->on_block_barrier(block, id);
  barrier.last_votes = barrier.votes;
  barrier.last_voters = barrier.voters;
  barrier.votes = barrier.voters = 0;
  barrier.open = false;
  barrier.threads = 0;
  std::fill(barrier.arrived.begin(), barrier.arrived.end(), 0);
  for (Warp& w : block.warps)
    for (Fragment& f : w.others)
      if (f.wait == Wait::Barrier && f.key == id) f.wait = Wait::None;
}

}  // namespace

const Inst* arrive(Warp& w, const Inst& inst, uint32_t id, uint32_t threads, uint32_t lanes, bool waits) {
  Block& block = *w.block;
  BlockBarrier& barrier = block.barriers[id];
  barrier.open = true;
  if (threads) barrier.threads = threads;
  barrier.arrived[w.index] |= lanes;
  if (complete(block, barrier)) {
    finish(block, id);
    return &inst + 1;
  }
  return waits ? park(w, &inst + 1, Wait::Barrier, id, 0) : &inst + 1;
}

void recheck_barriers(Block& block) {
  for (uint32_t id = 0; id < kBlockBarriers; ++id)
    if (complete(block, block.barriers[id])) finish(block, id);
}

void recheck_cluster(Cluster& cluster) {
  uint32_t threads = 0;
  for (const Block& b : cluster.blocks) threads += b.threads;
  if (cluster.arrived == 0 || cluster.arrived + cluster.exited < threads) return;
  for (Listener* listener : cluster.blocks.front().grid->listeners) listener->on_cluster_barrier(cluster);
  cluster.arrived = 0;
  ++cluster.phase;
  ++cluster.barriers;
  for (Block& b : cluster.blocks)
    for (Warp& w : b.warps)
      for (Fragment& f : w.others)
        if (f.wait == Wait::Cluster) f.wait = Wait::None;
}

void arrive_cluster(Warp& w, uint32_t lanes) {
  Cluster& cluster = *w.block->cluster;
  w.cluster_phase = cluster.phase;
  cluster.arrived += static_cast<uint32_t>(std::popcount(lanes));
  recheck_cluster(cluster);
}

const Inst* wait_cluster(Warp& w, const Inst& inst) {
  if (w.block->cluster->phase != w.cluster_phase) return &inst + 1;
  return park(w, &inst + 1, Wait::Cluster, 0, 0);
}

}  // namespace assay::vgpu
