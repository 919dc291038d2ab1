// The last store to device memory of each thread of the engine. A store is announced to the checks before it is made, so
// another thread may judge a store of the same value to the same place when memory does not hold that value yet.
#pragma once

#include <array>
#include <cstring>

#include "checks/race_clock.h"
#include "checks/spin_lock.h"
#include "vgpu/watch.h"

namespace assay::checks {

class StoresInFlight {
 public:
  void announce(uint32_t thread, BlockId block, const vgpu::Access& access) {
    Store& store = stores_[thread % kThreads];
    std::lock_guard lock(store.lock);
    store.block = block;
    store.lanes = access.bytes <= kMostBytes ? access.lanes : 0;
    store.bytes = access.bytes;
    if (store.lanes == 0) return;
    std::memcpy(store.addresses, access.addresses, sizeof store.addresses);
    std::memcpy(store.values, access.values, size_t{access.bytes} * vgpu::kWarpSize);
  }

  // Whether the last store of a thread that runs this block puts this value there.
  bool holds(BlockId block, vgpu::Address address, const std::byte* value, uint32_t count) const {
    for (const Store& store : stores_) {
      if (store.block != block) continue;
      std::lock_guard lock(store.lock);
      if (store.block != block) continue;
      for (uint32_t lanes = store.lanes; lanes; lanes &= lanes - 1) {
        const auto lane = static_cast<uint32_t>(std::countr_zero(lanes));
        const uint64_t offset = address - store.addresses[lane];
        if (offset < store.bytes && offset + count <= store.bytes &&
            std::memcmp(store.values + size_t{lane} * store.bytes + offset, value, count) == 0)
          return true;
      }
    }
    return false;
  }

 private:
  static constexpr uint32_t kThreads = 256;   // more of them share
  static constexpr uint32_t kMostBytes = 32;  // of a lane: the widest vector
  struct Store {
    mutable SpinLock lock;
    std::atomic<BlockId> block = 0;
    uint32_t lanes = 0, bytes = 0;
    vgpu::Address addresses[vgpu::kWarpSize];
    std::byte values[size_t{kMostBytes} * vgpu::kWarpSize];
  };
  std::array<Store, kThreads> stores_;
};

}  // namespace assay::checks
