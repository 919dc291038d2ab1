#include "checks/race_judge.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>
#include <string_view>
#include <thread>

#include "checks/race_report.h"
#include "vgpu/grid.h"

namespace assay::checks {

namespace {

using vgpu::Access;
using vgpu::AccessKind;
using vgpu::Address;

// Within a warp. Where several lanes are meant and some of them are ordered, all are taken to be.
bool lanes_are_ordered(BlockClock& clock, const Touch& before, const Touch& now) {
  const Who a = before.who, b = now.who;
  const WarpClock& warp = clock.warps[b.warp()];
  if (a.tick() < warp.all_lanes) return true;
  if (!before.several && !now.several)
    return clock.is_before(a.warp(), before.lane, a.tick(), b.warp(), now.lane);
  if (!warp.lanes) return false;
  for (uint32_t x = 0; x < 32; ++x) {
    if (!before.several && x != before.lane) continue;
    for (uint32_t y = 0; y < 32; ++y) {
      if ((!now.several && y != now.lane) || x == y) continue;
      if (clock.is_before(a.warp(), x, a.tick(), b.warp(), y)) return true;
    }
  }
  return false;
}

bool conflicts(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now) {
  BlockState& state = actor.state;
  const Who a = before.who, b = now.who;
  if ((before.bytes & now.bytes) == 0 || a.block() < state.ordered_below) return false;
  const bool same_block = a.block() == b.block();
  const bool both_strong = is_strong(a.order()) && is_strong(b.order());
  if (both_strong && (same_block || (a.order() == kStrong && b.order() == kStrong))) return false;
  if (a.block() < state.operation->first || a.block() > state.operation->last) {
    if (!context.scope.between_operations) return false;
    std::lock_guard lock(context.mutex);
    return !context.order.is_before(a.block(), *state.operation, (state.waited >> b.warp() & 1) != 0);
  }
  if (!context.scope.within_launches || !actor.warp) return false;
  // The read-only cache may hold what was there before a write of the same launch, whatever orders the two.
  if (actor.noncoherent) return true;
  const bool same_thread =
      same_block && a.warp() == b.warp() && before.lane == now.lane && !before.several && !now.several;
  if (a.order() == kInFlight) return !same_thread || actor.kind == AccessKind::Load;
  if (same_thread) return false;
  if (same_block && a.warp() == b.warp()) {
    if (lanes_are_ordered(state.clock, before, now)) return false;  // else perhaps by a lock, below
  } else if (same_block && a.tick() < state.clock.warps[b.warp()].known[a.warp()]) {
    return false;
  }
  if (state.clock.remembers(a.block(), a.warp(), a.tick(), b.warp())) return false;
  std::lock_guard lock(context.mutex);
  return !state.clock.is_before(a.block(), a.warp(), a.tick(), b.warp());
}

// A store that leaves the bytes as they are, or as another lane of the same instruction sets them.
bool stores_the_same(const RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                     Address address) {
  const Access& access = *actor.access;
  const auto first = static_cast<uint32_t>(std::countr_zero(uint32_t{now.bytes}));
  const auto count = static_cast<uint32_t>(std::popcount(uint32_t{now.bytes}));
  address += first;
  const std::byte* value =
      access.values + size_t{now.lane} * access.bytes + (address - access.addresses[now.lane]);
  if (before.who == now.who && (access.lanes >> before.lane & 1) != 0) {
    // Of this instruction; one that stands on the same line stored elsewhere.
    const uint64_t theirs = address - access.addresses[before.lane];
    if (theirs < access.bytes)
      return theirs + count <= access.bytes &&
             std::memcmp(value, access.values + size_t{before.lane} * access.bytes + theirs, count) == 0;
  }
  const vgpu::Block& owner = actor.owner ? *actor.owner : *actor.warp->block;
  // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): the block of a running warp has its shared memory
  const std::byte* there = actor.shared ? owner.shared + address : context.memory.host(address, count);
  return there && std::memcmp(value, there, count) == 0;
}

// A kernel with this pragma was compiled from tensors, by Triton: one element may be held by several threads, which
// all load it and of which one stores it (python/assay/virtual/triton.py).
constexpr std::string_view kThreadsHoldCopies = "assay_threads_hold_copies";

bool threads_hold_copies(const Actor& actor) {
  const auto& pragmas = actor.warp->grid->entry->ptx->pragmas;
  return std::find(pragmas.begin(), pragmas.end(), kThreadsHoldCopies) != pragmas.end();
}

// Threads of a block store their copies to shared memory with one instruction. After a reduction whose steps round
// differently when their sides are swapped (Welford's, or a sum of products fused into its first step), copies differ
// in their last bits; any of them will do.
bool stores_a_copy(const Actor& actor, const Touch& before, const Touch& now) {
  return actor.shared && actor.kind == AccessKind::Store && before.who.block() == now.who.block() &&
         before.who.site() == now.who.site();
}

// One thread of a block updates an element that another has a copy of, whose value it does not use.
bool updates_a_copy(const RaceContext& context, const Actor& actor, const Touch& before, const Touch& now) {
  if (actor.shared || before.who.block() != now.who.block()) return false;
  const RaceSite* other = context.sites.at(before.who.site());
  if (!other || other->kind == actor.kind) return false;
  if (actor.kind == AccessKind::Store && other->kind == AccessKind::Load)
    return context.sites.is_update(before.who.site(), now.who.site());
  return actor.kind == AccessKind::Load && other->kind == AccessKind::Store &&
         context.sites.is_update(now.who.site(), before.who.site());
}

// Where blocks run on several threads of the host, a store may be known here and not be in memory yet: its own thread is
// between telling of it and doing it. So what looks like another value gets the time that a thread may have to wait for a
// processor; until that has been in vain once, as a race that is there shows again and again.
constexpr auto kMostOfAStore = std::chrono::milliseconds(250);
constexpr auto kBetweenLooks = std::chrono::microseconds(50);

bool comes_to_be_the_same(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
                          Address address) {
  const bool may_be_under_way =
      actor.warp && actor.warp->grid->threads > 1 && !actor.shared && before.who.block() != now.who.block();
  if (!may_be_under_way || context.waited_in_vain) return false;
  const auto end = std::chrono::steady_clock::now() + kMostOfAStore;
  while (std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(kBetweenLooks);
    if (stores_the_same(context, actor, before, now, address)) return true;
  }
  context.waited_in_vain = true;
  return false;
}

}  // namespace

bool is_race(RaceContext& context, const Actor& actor, const Touch& before, const Touch& now,
             Address address) {
  if (!before || !conflicts(context, actor, before, now)) return false;
  if (actor.warp && threads_hold_copies(actor) &&
      (stores_a_copy(actor, before, now) || updates_a_copy(context, actor, before, now)))
    return false;
  if (!actor.access || !actor.access->values) return true;
  if (!stores_the_same(context, actor, before, now, address) &&
      !comes_to_be_the_same(context, actor, before, now, address))
    return true;
  if (context.scope.same_values) report_same_value(context, actor, before, now, address);
  return false;
}

}  // namespace assay::checks
