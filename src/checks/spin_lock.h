// A lock that is held for some nanoseconds.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>

namespace assay::checks {

struct alignas(64) SpinLock {  // not to share a line of the cache
  static constexpr int kTries = 100;
  std::atomic_flag flag = ATOMIC_FLAG_INIT;
  void lock() {
    // Who holds it may be waiting for a core that we have.
    for (int tries = 0; flag.test_and_set(std::memory_order_acquire); ++tries)
      while (flag.test(std::memory_order_relaxed))
        if (++tries > kTries) std::this_thread::yield();
  }
  void unlock() { flag.clear(std::memory_order_release); }
};

}  // namespace assay::checks
