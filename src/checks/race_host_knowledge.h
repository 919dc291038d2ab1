// What the host knows to be done, from waits and calls that return: an access of host code is ordered after that and
// nothing else.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

#include "checks/race_order.h"

namespace assay::checks {

class HostKnowledge {
 public:
  // Grows with everything that the host learns. Fit for a signal handler.
  uint64_t version() const { return version_.load(); }

  // Under the mutex of the operations' order:

  // The host knows that an operation is done, and what that knew.
  void learn(const Operation& operation);
  bool is_known_done(const Operation& operation) const;
  // By chain: what was known at a version, or at the oldest that is kept. 0: nothing.
  std::vector<uint32_t> at(uint64_t version) const;

 private:
  std::atomic<uint64_t> version_{0};
  std::deque<std::vector<uint32_t>> known_;  // by chain: the last versions
};

}  // namespace assay::checks
