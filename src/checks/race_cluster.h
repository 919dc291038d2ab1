// Order between the blocks of a cluster, and of asynchronous writes: cluster barriers and mbarriers.
//
// Cluster barrier. An arrival with release publishes everything the thread did before; a relaxed arrival
// publishes only what it had fenced. A wait acquires what all arrivals published. Accesses between a thread's
// arrival and its wait are covered by neither.
//
// mbarrier. An arrival with release publishes what the thread did before. A thread that finds a phase
// complete acquires what was published in that phase and in earlier ones, and nothing of the current phase.
//
// Asynchronous writes that an mbarrier counts (bulk copies, st.async) belong to no thread. Copies into a
// block's shared memory get an author number of their own next to the block's, with a tick for each of 32
// groups of mbarriers. A write is remembered with the next tick of its group, and published to the mbarrier
// when it arrives. So it is ordered before the threads that found the phase complete, and those that
// synchronised with them, and before no others.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "checks/race_clock.h"
#include "vgpu/device.h"

namespace assay::checks {

struct BlockState;
struct RaceContext;

struct BarrierClock {
  std::shared_ptr<SharedClock> known = std::make_shared<SharedClock>();  // of the phases that have ended
  SharedClock arriving;                                                  // of the one under way
  bool phase = false;                                                    // its parity
};

struct ClusterMeeting {
  std::shared_ptr<SharedClock> clock;  // of this phase, so far
  std::shared_ptr<SharedClock> met;    // of the last one; null: everybody knew all of everybody
  // Those who arrived with release and wait at once: what they bring is asked for in the end.
  std::vector<std::pair<BlockState*, uint32_t>> waiting;
  bool whole = true;  // all are such
};

struct CopyClock {
  static constexpr uint32_t kGroups = 32;
  BlockId id = 0;  // 0: the kernel has no such copies
  std::array<uint32_t, kGroups> ticks{};
  static uint32_t group_of(vgpu::Address barrier) { return static_cast<uint32_t>(barrier / 8 % kGroups); }
};

// Whether a kernel may have writes that an mbarrier counts, and whether it may reach other blocks' shared
// memory.
bool has_counted_copies(const vgpu::Kernel& kernel);
bool reaches_other_blocks(const vgpu::Kernel& kernel);

// The block of a cluster that a shared address leads to, and the offset there.
struct SharedPlace {
  const vgpu::Block* block;
  vgpu::Address offset;
};
SharedPlace shared_place(const vgpu::Block& block, vgpu::Address address);

// All under the context's mutex.

// A warp's operation on the mbarrier at an address, before it takes effect. A test that passes is an acquire.
void at_mbarrier(RaceContext& context, BlockState& state, const vgpu::Warp& warp, const vgpu::Access& access);
// Counted copies have arrived.
void bring_copies(RaceContext& context, const vgpu::Warp& warp, const vgpu::Access& access);

void arrive_at_cluster(RaceContext& context, BlockState& state, const vgpu::Warp& warp,
                       const vgpu::Inst& inst, bool releases);
void end_cluster_phase(RaceContext& context, const vgpu::Cluster& cluster);
void wait_at_cluster(RaceContext& context, BlockState& state, const vgpu::Warp& warp);

}  // namespace assay::checks
