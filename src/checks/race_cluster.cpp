#include "checks/race_cluster.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "checks/race_state.h"
#include "vgpu/grid.h"
#include "vgpu/mbarrier.h"
#include "vgpu/program.h"

namespace assay::checks {

namespace {

using vgpu::Access;
using vgpu::AccessKind;
using vgpu::Address;
using vgpu::Order;

vgpu::BarrierWord word_at(const SharedPlace& place) {
  uint64_t word;
  std::memcpy(&word, place.block->shared + place.offset, sizeof word);
  return vgpu::BarrierWord::unpack(word);
}

void end_phase(RaceContext& context, BarrierClock& barrier) {
  auto next = std::make_shared<SharedClock>(*barrier.known);
  next->absorb(barrier.arriving);
  if (next->family == 0) next->family = ++context.families;
  ++next->version;
  barrier.known = std::move(next);
  barrier.arriving = {};
}

// The clock of the mbarrier at a place, as of now: between two looks at most one phase ends.
BarrierClock& clock_at(RaceContext& context, const SharedPlace& place, const vgpu::BarrierWord& word) {
  auto& barriers = context.states[*place.block].barriers;
  const auto [it, fresh] = barriers.try_emplace(static_cast<uint32_t>(place.offset));
  BarrierClock& barrier = it->second;
  if (!fresh && barrier.phase != word.phase) end_phase(context, barrier);
  barrier.phase = word.phase;
  return barrier;
}

uint32_t lanes_at(const Access& access, Address address) {
  uint32_t lanes = 0;
  for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    lanes |= uint32_t{access.addresses[lane] == address} << lane;
  }
  return lanes;
}

void bring(ClusterMeeting& meeting, BlockState& state, uint32_t warp) {
  state.clock.fence(warp, true);
  if (!meeting.clock) meeting.clock = std::make_shared<SharedClock>();
  meeting.clock->absorb(*state.clock.warps[warp].fenced);
  state.shared.advance(state.clock, warp);
}

// Whether a warp that has arrived does nothing until it waits.
bool waits_next(const vgpu::Warp& warp, const vgpu::Inst& inst) {
  const auto& body = warp.frame->function->ptx->body;
  return inst.source + 1 < body.size() && body[inst.source + 1].opcode == ptx::Opcode::barrier_cluster_wait &&
         body[inst.source + 1].guard == ptx::kNone;
}

// In the kernel itself or, where it calls anything, in any function of its module.
template <class F>
bool has_instruction(const vgpu::Kernel& kernel, F&& is_meant) {
  const auto any_of = [](const ptx::Function& function, auto&& what) {
    return std::any_of(function.body.begin(), function.body.end(), what);
  };
  const ptx::Function& entry = *kernel.function->ptx;
  const auto calls = [](const ptx::Instruction& inst) { return inst.opcode == ptx::Opcode::call; };
  if (any_of(entry, is_meant)) return true;
  if (!any_of(entry, calls)) return false;
  const auto& functions = kernel.program->module.functions;
  return std::any_of(functions.begin(), functions.end(),
                     [&](const ptx::Function& function) { return any_of(function, is_meant); });
}

ClusterMeeting& meeting_of(RaceContext& context, const vgpu::Cluster& cluster) {
  return context.states[cluster.blocks.front()].meeting;
}

// Everybody knows all of everybody.
void meet_whole(RaceContext& context, const vgpu::Cluster& cluster) {
  auto clock = std::make_shared<SharedClock>();
  clock->family = ++context.families;
  for (const vgpu::Block& block : cluster.blocks) {
    BlockState& state = context.states[block];
    if (!vgpu::has_ended(block)) {
      const std::vector<uint32_t> everybody(block.warps.size(), vgpu::kAllLanes);
      state.clock.sync_block(everybody, block);
      state.shared.advance(state.clock, true);
      state.shared.forget_outside(state.copies.id);
    }
    for (uint32_t w = 0; w < state.clock.warps.size(); ++w) {
      const WarpClock& warp = state.clock.warps[w];
      Ticks known = warp.known;
      known[w] = std::max(known[w], warp.tick + vgpu::has_ended(block));
      clock->merge(state.clock.id, known);
      for (const auto& other : warp.others) other->family != 0 ? clock->absorb(*other) : clock->follow(other);
    }
  }
  std::vector<WarpClock*> all;
  for (const vgpu::Block& block : cluster.blocks) {
    if (vgpu::has_ended(block)) continue;
    for (WarpClock& warp : context.states[block].clock.warps) {
      std::erase_if(warp.others, [](const auto& other) { return other->family != 0; });
      warp.others.push_back(clock);
      all.push_back(&warp);
    }
  }
  share_fences(std::move(all));
}

}  // namespace

bool has_counted_copies(const vgpu::Kernel& kernel) {
  return has_instruction(kernel, [](const ptx::Instruction& inst) {
    return inst.opcode == ptx::Opcode::cp_async_bulk || inst.opcode == ptx::Opcode::cp_reduce_async_bulk ||
           inst.opcode == ptx::Opcode::st_async || inst.opcode == ptx::Opcode::red_async;
  });
}

bool reaches_other_blocks(const vgpu::Kernel& kernel) {
  return has_instruction(kernel, [](const ptx::Instruction& inst) {
    return inst.opcode == ptx::Opcode::mapa || inst.has(ptx::Mod::multicast_cluster);
  });
}

SharedPlace shared_place(const vgpu::Block& block, Address address) {
  const uint64_t tag = address >> vgpu::kSharedRankShift;
  if (tag == 0) return {&block, address};
  return {&block.cluster->blocks[tag - 1], address & ((Address{1} << vgpu::kSharedRankShift) - 1)};
}

// ---- mbarriers ----

void at_mbarrier(RaceContext& context, BlockState& state, const vgpu::Warp& warp, const Access& access) {
  if (access.kind == AccessKind::Store) return;  // its end
  const bool arrives = access.kind != AccessKind::Load;
  const bool wide = access.scope != vgpu::Scope::Block;
  if (arrives && access.order == Order::Release) {
    state.clock.fence(warp.index, wide);
    state.shared.advance(state.clock, warp.index);
  }
  WarpClock& clock = state.clock.warps[warp.index];
  for (uint32_t rest = access.lanes; rest;) {
    const Address address = access.addresses[std::countr_zero(rest)];
    const uint32_t lanes = lanes_at(access, address);
    rest &= ~lanes;
    const SharedPlace place = shared_place(*warp.block, address);
    const vgpu::BarrierWord word = word_at(place);
    BarrierClock& barrier = clock_at(context, place, word);
    if (!arrives) {
      if (access.order == Order::Acquire) state.clock.learn(warp.index, barrier.known);
      if (access.order == Order::Relaxed) clock.expect(barrier.known);
      continue;
    }
    const bool own = place.block == warp.block;
    if (const auto& fenced = own ? clock.fenced_in_block : clock.fenced; fenced && (own || wide)) {
      barrier.arriving.absorb(*fenced);
      // Several phases end at once: it is not known which of them is whose.
      if (static_cast<uint32_t>(std::popcount(lanes)) > word.pending) end_phase(context, barrier);
    }
  }
}

void bring_copies(RaceContext& context, const vgpu::Warp& warp, const Access& access) {
  for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
    const SharedPlace place = shared_place(*warp.block, access.barriers[std::countr_zero(rest)]);
    const CopyClock& copies = context.states[*place.block].copies;
    const uint32_t group = CopyClock::group_of(place.offset);
    Ticks ticks(CopyClock::kGroups, 0);
    ticks[group] = copies.ticks[group] + 1;
    clock_at(context, place, word_at(place)).arriving.merge(copies.id, ticks);
  }
}

// ---- The cluster's barrier ----

void arrive_at_cluster(RaceContext& context, BlockState& state, const vgpu::Warp& warp,
                       const vgpu::Inst& inst, bool releases) {
  ClusterMeeting& meeting = meeting_of(context, *warp.block->cluster);
  if (releases && waits_next(warp, inst)) {
    meeting.waiting.emplace_back(&state, warp.index);
    return;
  }
  meeting.whole = false;
  if (releases)
    bring(meeting, state, warp.index);
  else if (const auto& fenced = state.clock.warps[warp.index].fenced) {
    if (!meeting.clock) meeting.clock = std::make_shared<SharedClock>();
    meeting.clock->absorb(*fenced);
  }
}

void end_cluster_phase(RaceContext& context, const vgpu::Cluster& cluster) {
  ClusterMeeting& meeting = meeting_of(context, cluster);
  if (std::exchange(meeting.whole, true)) {
    meeting.waiting.clear();
    meeting.met = nullptr;
    return meet_whole(context, cluster);
  }
  for (const auto& [state, warp] : meeting.waiting) bring(meeting, *state, warp);
  for (const vgpu::Block& block : cluster.blocks) {
    for (const vgpu::Warp& warp : block.warps)  // who has exited counts as arrived
      if (warp.live == 0) bring(meeting, context.states[block], warp.index);
    // An arrival that is relaxed does come after what its thread did.
    if (!vgpu::has_ended(block)) context.states[block].shared.keep_outside();
  }
  meeting.waiting.clear();
  meeting.met = std::exchange(meeting.clock, nullptr);
  if (!meeting.met) meeting.met = std::make_shared<SharedClock>();  // no thread had anything to publish
  meeting.met->family = ++context.families;
}

void wait_at_cluster(RaceContext& context, BlockState& state, const vgpu::Warp& warp) {
  state.met = true;
  const auto& met = meeting_of(context, *warp.block->cluster).met;
  if (!met) return;
  WarpClock& clock = state.clock.warps[warp.index];
  clock.accept_pending(true);
  state.clock.learn(warp.index, met);
  // What others had fenced before the barrier counts as fenced behind it.
  auto fenced = std::make_shared<SharedClock>(*met);
  fenced->family = 0;
  if (clock.fenced) fenced->absorb(*clock.fenced);
  clock.fenced = clock.fenced_in_block = std::move(fenced);
  state.shared.advance(state.clock, warp.index);
}

}  // namespace assay::checks
