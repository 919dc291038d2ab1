// What fences and strong accesses carry from thread to thread: a fence publishes what its warp knows, a strong write
// attaches that to a location, and a strong read picks it up (race_clock.h).
#pragma once

#include <atomic>
#include <memory>
#include <unordered_map>
#include <vector>

#include "checks/race_state.h"

namespace assay::checks {

class Published {
 public:
  explicit Published(RaceContext& context) : context_(context) {}
  // A strong access.
  void synchronise(BlockState& state, const vgpu::Warp& warp, const vgpu::Access& access);

  // Under the context's mutex:

  // A fence that reaches further than its thread.
  void fence(BlockState& state, const vgpu::Warp& warp, vgpu::Scope scope);
  // Locations where reads of a warp found nothing, once more.
  void look_again(WarpClock& clock);
  void clear();

 private:
  using Address = vgpu::Address;

  // A location, for everybody and for this block alone. The key of a shared location holds its block.
  struct Keys {
    Address key, in_block;
  };
  Keys keys_of(const BlockState& state, const vgpu::Warp& warp, const vgpu::Access& access,
               uint32_t lane) const;
  // What was published through a location is known from now on, or after the next fence.
  void take(Address key, std::vector<std::shared_ptr<SharedClock>>& to);
  // An access is reported before it happens, and a block on another thread may be the first to publish in
  // between. Who acquires follows the location from now on; who does not looks once more at the fence.
  void await(Address key, WarpClock& clock, bool acquires);
  void publish(Address key, const std::shared_ptr<SharedClock>& clock);

  RaceContext& context_;
  std::atomic<bool> has_fences_{false};
  std::unordered_map<Address, std::shared_ptr<SharedClock>> locations_;  // under the context's mutex
};

}  // namespace assay::checks
