// What the parts of the race check share: who acts, what a block knows, and the order of everything.
#pragma once

#include <atomic>
#include <mutex>
#include <vector>

#include "checks/checks.h"
#include "checks/race_clock.h"
#include "checks/race_cluster.h"
#include "checks/race_in_flight.h"
#include "checks/race_lanes.h"
#include "checks/race_order.h"
#include "checks/race_proxy.h"
#include "checks/race_shadow.h"
#include "checks/race_shared.h"
#include "checks/race_sites.h"
#include "checks/race_words.h"

namespace assay::checks {

// What one block, or one copy, needs: its clock, its shared memory, its operation.
struct BlockState {
  const Operation* operation = nullptr;
  uint32_t ordered_below = 0;  // numbers below come before the operation
  uint32_t first_author =
      SingleWords::kNoGrid;  // of accesses to single words: those before come before the operation
  BlockClock clock;
  SharedShadow shared;
  LaneRaces lanes;
  SiteCache sites;
  WordAuthors word_authors;
  uint32_t waited = ~0u;  // by warp: has waited for the grid that its own may overlap
  UnfencedWrites unfenced;
  bool settles = false;     // nothing orders the blocks of its grid
  bool exhausted = false;   // ticks have run out: say nothing more
  bool hands_over = false;  // its kernel polls device memory (race_handover.h)
  bool meets_reads =
      false;  // its writes have to be compared with reads of other operations (race_grid_reads.h)
  // By barrier and warp: lanes that arrived at this phase without waiting, and the tick of the last of them.
  struct Arrival {
    uint32_t lanes = 0, tick = 0;
  };
  std::map<std::pair<uint32_t, uint32_t>, Arrival> arrivals;
  bool met = false;                           // it has waited for the others to begin
  uint32_t neighbours = 0;                    // other blocks of its cluster that reach its memory
  ClusterMeeting meeting;                     // of the cluster's first block
  std::map<uint32_t, BarrierClock> barriers;  // mbarriers in its shared memory, by offset
  CopyClock copies;                           // into its shared memory
  BlockState(BlockId number, size_t warps) : clock(number, warps) {}
};

inline void note_exhaustion(BlockState& state) {
  for (const WarpClock& warp : state.clock.warps) state.exhausted |= warp.tick >= kMostTicks;
}

// A thread has synchronised other than at a barrier of its block, with others of its grid: it is taken to know what any of them has waited for.
inline void share_wait(BlockState& state) {
  if (state.waited != ~0u && __atomic_load_n(&state.operation->waits, __ATOMIC_RELAXED)) state.waited = ~0u;
}

// Who does something now: a warp's instruction, or a copy or fill (then `warp` is null).
struct Actor {
  BlockState& state;
  vgpu::AccessKind kind;
  Who who;
  bool shared = false;
  const vgpu::Warp* warp = nullptr;
  const vgpu::Inst* inst = nullptr;
  const vgpu::Access* access = nullptr;
  const vgpu::Block* owner = nullptr;  // of the shared memory, where that is another block
  bool noncoherent = false;            // a load through the read-only cache
};

inline bool writes(vgpu::AccessKind kind) {
  return kind != vgpu::AccessKind::Load;
}
inline bool reads(vgpu::AccessKind kind) {
  return kind == vgpu::AccessKind::Load || kind == vgpu::AccessKind::Atomic;
}
inline bool is_strong(uint32_t order) {
  return order == kStrongInBlock || order == kStrong;
}

struct RaceContext {
  const vgpu::BlockStates<BlockState> states;  // of the blocks under way
  FindingLog& log;
  const vgpu::Memory& memory;
  const RaceScope scope;
  RaceSites sites;
  std::mutex mutex;  // of what follows, and of every SharedClock
  OperationOrder order;
  // Conflicts of the host with grids that still run, by key: whether they count shows at the end
  // (race_report.h).
  struct HostRace {
    const Operation* grid = nullptr;
    const Operation* by_host = nullptr;
    std::string key;
    Finding finding;
  };
  std::map<Occurrence, HostRace> host_races;
  std::vector<const Operation*> syncing_grids;  // grids that synchronise with the host through memory
  uint64_t families = 0;                        // of SharedClock
  StoresInFlight in_flight;
};

}  // namespace assay::checks
