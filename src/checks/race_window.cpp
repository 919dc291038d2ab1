#include "checks/race_window.h"

#include <bit>

#include "checks/race_report.h"
#include "vgpu/grid.h"

namespace assay::checks {

namespace {

using vgpu::Access;
using vgpu::Address;

bool leaves_block(const Access& access) {
  Address all = 0;
  for (uint32_t rest = access.lanes; rest; rest &= rest - 1) all |= access.addresses[std::countr_zero(rest)];
  return all >> vgpu::kSharedRankShift != 0;
}

// A block's memory is there once it has begun: its cluster's barrier says so, or anything that came from
// it.
void find_early(RaceContext& context, const Actor& actor) {
  if (!context.scope.within_launches) return;
  {
    std::lock_guard lock(context.mutex);
    const BlockClock& owner = context.states[*actor.owner].clock;
    for (uint32_t w = 0; w < owner.warps.size(); ++w)
      if (actor.state.clock.is_before(owner.id, w, 0, actor.who.warp())) return;
  }
  report_early(context, actor);
}

// For each block that the lanes of an access lead to, with offsets in its memory.
template <class F>
void by_owner(RaceContext& context, const Actor& actor, F&& f) {
  const vgpu::Block& here = *actor.warp->block;
  for (uint32_t rest = actor.access->lanes; rest;) {
    const vgpu::Block* owner = shared_place(here, actor.access->addresses[std::countr_zero(rest)]).block;
    Address offsets[vgpu::kWarpSize] = {};
    Access access = *actor.access;
    access.lanes = 0;
    access.shape = vgpu::Shape::Other;
    access.addresses = offsets;
    for (uint32_t left = rest; left; left &= left - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(left));
      const SharedPlace place = shared_place(here, actor.access->addresses[lane]);
      if (place.block != owner) continue;
      access.lanes |= 1u << lane;
      offsets[lane] = place.offset;
    }
    rest &= ~access.lanes;
    Actor part{actor.state, actor.kind, actor.who, actor.shared, actor.warp, actor.inst, &access};
    if (owner != &here) {
      part.owner = owner;
      if (!actor.state.met) find_early(context, part);
    }
    f(part);
  }
}

}  // namespace

void access_shared(RaceContext& context, const Actor& actor) {
  BlockState& state = actor.state;
  if (state.neighbours == 0 || !leaves_block(*actor.access)) return state.shared.access(context, actor);
  by_owner(context, actor, [&](const Actor& part) {
    if (!part.owner) return state.shared.access(context, part);
    context.states[*part.owner].shared.access_from_outside(context, part, part.who);
  });
}

void copy_in_cluster(RaceContext& context, const Actor& asker) {
  const Access& access = *asker.access;
  if (access.order == vgpu::Order::Acquire) {
    std::lock_guard lock(context.mutex);
    return bring_copies(context, *asker.warp, access);
  }
  by_owner(context, asker, [&](const Actor& part) {
    BlockState& owner = part.owner ? context.states[*part.owner] : asker.state;
    for (uint32_t rest = part.access->lanes; rest; rest &= rest - 1) {
      Access one = *part.access;
      one.lanes = rest & -rest;
      Actor actor = part;
      actor.access = &one;
      const Address barrier = access.barriers[std::countr_zero(rest)];
      const uint32_t group = CopyClock::group_of(shared_place(*asker.warp->block, barrier).offset);
      const uint32_t tick = ++owner.copies.ticks[group];
      if (tick >= kMostTicks) continue;  // it has gone on for too long: say nothing more
      const Who copy = Who::make(owner.copies.id, group, tick, asker.who.order(), asker.who.site());
      owner.shared.access_from_outside(context, actor, copy);
    }
  });
}

void find_outlived(RaceContext& context, const vgpu::Block& block) {
  BlockState& state = context.states[block];
  if (state.neighbours == 0 || state.exhausted || !context.scope.within_launches) return;
  std::unique_lock lock(context.mutex);
  for (WarpClock& warp : state.clock.warps) warp.accept_pending(true);
  for (const SharedShadow::Outside& access : state.shared.weak_from_outside(state.copies.id)) {
    bool known = false;
    for (uint32_t w = 0; w < state.clock.warps.size() && !known; ++w)
      known = state.clock.is_before(access.who.block(), access.who.warp(), access.who.tick(), w);
    if (known) continue;
    lock.unlock();
    report_outlived(context, block, access);
    lock.lock();
  }
}

}  // namespace assay::checks
