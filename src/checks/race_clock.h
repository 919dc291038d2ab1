// Vector clocks: the happens-before relation within a launch, as the race check uses it.
//
// Every warp counts its synchronising events in a tick, and an access remembers its warp's tick. Each lane
// knows, for every other warp, up to which tick that warp's accesses happen before its own. Synchronisation
// raises these numbers:
//
//   - warp barriers: between the lanes that they name;
//   - block barriers: between the warps that arrive;
//   - cluster barriers and mbarriers: from those that arrive to those that wait (race_cluster.h);
//   - fences with strong accesses: a fence publishes what its warp knows; a strong write (atomic, volatile,
//     release) attaches that to its location; a strong read picks it up, and takes effect at the next fence or
//     barrier. After a barrier, every thread may publish what any of them had fenced before it.
//
// Knowledge of other blocks is kept per warp, not per lane, and a location's clock only grows. Both can hide
// a race, because an order may be assumed that is not there; neither can invent one.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "vgpu/warp.h"

namespace assay::checks {

using BlockId = uint32_t;
using Ticks = std::vector<uint32_t>;  // by warp of a block: accesses with a smaller tick are known

// What has been published through a location, or by a fence.
struct SharedClock {
  std::unordered_map<BlockId, Ticks> blocks;
  std::vector<std::shared_ptr<SharedClock>> sources;  // and all that these hold
  // What a barrier knew at the end of a phase: it changes no more, and the next version holds all of it.
  uint64_t family = 0, version = 0;

  void merge(BlockId block, const Ticks& ticks);
  void follow(const std::shared_ptr<SharedClock>& source);
  // All that another one holds; versions of a family are not followed, but taken over as they are.
  void absorb(const SharedClock& other);
  bool knows(BlockId block, uint32_t warp, uint32_t tick) const;
};

struct WarpClock {
  uint32_t tick = 1;
  uint32_t all_lanes = 0;  // accesses of this warp with a smaller tick are known to all its lanes
  Ticks known;             // of the block's warps
  std::unique_ptr<std::array<std::array<uint32_t, 32>, 32>>
      lanes;                                         // after warp barriers that name some lanes only
  std::vector<std::shared_ptr<SharedClock>> others;  // what is known of other blocks
  std::vector<std::shared_ptr<SharedClock>>
      pending;                          // read by strong reads; known after the next fence or barrier
  std::vector<uint64_t> missed;         // places where strong reads found nothing published, since the last
                                        // fence: a table by address; 0: none
  std::shared_ptr<SharedClock> fenced;  // what the last fence published

  // The same within the block, by fences and strong accesses of block scope.
  std::vector<std::shared_ptr<SharedClock>> pending_in_block;
  std::shared_ptr<SharedClock> fenced_in_block;

  // Of other blocks' warps, what was asked lately and is known.
  struct Remembered {
    BlockId block = 0;
    uint32_t warp = 0, below = 0;
  };
  std::array<Remembered, 16> remembered{};

  // Nothing is known and nothing has happened, in a block of so many warps.
  void begin(size_t warp_count);
  // It knows of no fence and of no other block.
  bool is_plain() const {
    return others.empty() && pending.empty() && pending_in_block.empty() && missed.empty() && !fenced &&
           !fenced_in_block;
  }
  void miss(uint64_t place);
  // What will be known after the next fence.
  void expect(const std::shared_ptr<SharedClock>& clock);
  // `wide`: also what came from other blocks.
  void accept_pending(bool wide);
};

// Warps that a barrier has brought together: what the fences of one have published, all publish.
void share_fences(std::vector<WarpClock*> warps);

struct BlockClock {
  BlockId id = 0;
  std::vector<WarpClock> warps;

  explicit BlockClock(BlockId block, size_t warp_count);
  // As a new one, in the memory of this one.
  void begin(BlockId block, size_t warp_count);
  void sync_warp(uint32_t warp, uint32_t lanes, uint32_t live);
  void sync_block(const std::vector<uint32_t>& arrived, const vgpu::Block& block);
  // Those with a tick in `early` came then and did not wait: they are known up to it, and learn nothing.
  void sync_block(const std::vector<uint32_t>& arrived, const Ticks& early, const vgpu::Block& block);
  // The same when every warp comes with all its live lanes and waits. False: it has to be done the other way, because
  // there is more to share than ticks.
  bool sync_whole_block();
  // Whether any warp has taken over what was published: then a barrier is not the block's own business.
  bool follows_others() const;
  // `wide`: reaches beyond the block.
  void fence(uint32_t warp, bool wide);
  // A warp has waited for what this says. What its lanes brought there, all of them know.
  void learn(uint32_t warp, const std::shared_ptr<SharedClock>& clock);

  // Whether an access by (warp, lane) at `tick` comes before what (reader_warp, reader_lane) does now.
  bool is_before(uint32_t warp, uint32_t lane, uint32_t tick, uint32_t reader_warp, uint32_t reader_lane);
  bool is_before(BlockId block, uint32_t warp, uint32_t tick, uint32_t reader_warp);
  // The same where it was asked before; false: ask.
  bool remembers(BlockId block, uint32_t warp, uint32_t tick, uint32_t reader_warp) const;
};

}  // namespace assay::checks
