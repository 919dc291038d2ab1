// Whether the program was asked to stop: SIGINT, SIGTERM, SIGHUP. The one thing that is global, because
// signals are; cli/signals.h installs the handlers. Whatever may take long looks here and ends early.
#pragma once

#include <atomic>

namespace assay {

namespace detail {
inline std::atomic<int> interruption{0};
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler stores it
}  // namespace detail

// The signal; 0: none came.
inline int interrupted() {
  return detail::interruption.load(std::memory_order_relaxed);
}

inline void interrupt(int signal) {
  detail::interruption.store(signal, std::memory_order_relaxed);
}

}  // namespace assay
