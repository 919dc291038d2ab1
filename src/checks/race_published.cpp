#include "checks/race_published.h"

#include <algorithm>
#include <bit>

#include "checks/shared_place.h"

namespace assay::checks {

namespace {

using vgpu::Access;
using vgpu::Address;
using vgpu::Order;

constexpr Address kInBlock = Address{1} << 62;  // of a location's key: what counts within one block

bool is_release(Order order) {
  return order == Order::Release || order == Order::AcquireRelease || order == Order::SequentiallyConsistent;
}
bool is_acquire(Order order) {
  return order == Order::Acquire || order == Order::AcquireRelease || order == Order::SequentiallyConsistent;
}
bool is_wide(vgpu::Scope scope) {
  return scope != vgpu::Scope::Thread && scope != vgpu::Scope::Block;
}

}  // namespace

void Published::fence(BlockState& state, const vgpu::Warp& warp, vgpu::Scope scope) {
  look_again(state.clock.warps[warp.index]);
  state.clock.fence(warp.index, is_wide(scope));
  state.shared.advance(state.clock, warp.index);
  has_fences_.store(true, std::memory_order_relaxed);
}

void Published::clear() {
  locations_.clear();
  has_fences_.store(false, std::memory_order_relaxed);
}

void Published::synchronise(BlockState& state, const vgpu::Warp& warp, const Access& access) {
  const bool releases = is_release(access.order) && writes(access.kind);
  if (releases) has_fences_.store(true, std::memory_order_relaxed);
  WarpClock& clock = state.clock.warps[warp.index];
  const bool wide = access.order == Order::Volatile || is_wide(access.scope);
  if (!has_fences_.load(std::memory_order_relaxed)) {  // nothing has been published yet
    if (!state.settles && wide && reads(access.kind) && access.space == ptx::Space::Global)
      for (uint32_t rest = access.lanes; rest; rest &= rest - 1)
        clock.miss(access.addresses[std::countr_zero(rest)]);
    return;
  }
  if (reads(access.kind)) share_wait(state);
  std::lock_guard lock(context_.mutex);
  if (releases) {
    look_again(clock);
    state.clock.fence(warp.index, wide);
    state.shared.advance(state.clock, warp.index);
  }
  for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
    const auto [key, in_block] = keys_of(state, warp, access, static_cast<uint32_t>(std::countr_zero(rest)));
    if (reads(access.kind)) {
      const bool acquires = is_acquire(access.order);
      if (wide && access.space == ptx::Space::Global) await(key, clock, acquires);
      if (wide) take(key, acquires ? clock.others : clock.pending);
      take(in_block, acquires ? clock.others : clock.pending_in_block);
    }
    if (writes(access.kind)) {
      if (wide) publish(key, clock.fenced);
      publish(in_block, clock.fenced_in_block);
    }
  }
}

Published::Keys Published::keys_of(const BlockState& state, const vgpu::Warp& warp, const Access& access,
                                   uint32_t lane) const {
  const auto of = [](const BlockState& s) { return Address{s.clock.id} << 32 | Address{1} << 63; };
  const Address address = access.addresses[lane];
  if (access.space != ptx::Space::Shared) return {address, address ^ of(state) ^ kInBlock};
  const SharedPlace place = shared_place(*warp.block, address);
  const Address key = place.offset | of(context_.states[*place.block]);
  return {key, key ^ kInBlock ^ (place.block == warp.block ? 0 : of(state))};
}

void Published::take(Address key, std::vector<std::shared_ptr<SharedClock>>& to) {
  const auto found = locations_.find(key);
  if (found != locations_.end() && std::find(to.begin(), to.end(), found->second) == to.end())
    to.push_back(found->second);
}

void Published::await(Address key, WarpClock& clock, bool acquires) {
  if (locations_.count(key) != 0) return;
  if (acquires)
    locations_.emplace(key, std::make_shared<SharedClock>());
  else
    clock.miss(key);
}

void Published::look_again(WarpClock& clock) {
  for (const Address key : clock.missed)
    if (key != 0) take(key, clock.pending);
  clock.missed.clear();
}

void Published::publish(Address key, const std::shared_ptr<SharedClock>& clock) {
  if (!clock) return;
  auto& location = locations_[key];
  if (!location) location = std::make_shared<SharedClock>();
  for (const auto& [id, ticks] : clock->blocks) location->merge(id, ticks);
  for (const auto& source : clock->sources) location->follow(source);
}

}  // namespace assay::checks
