#include "assayer/own_time.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/file.h"

namespace assay::assayer {

namespace {

// Share of elapsed time that counts however long the processes wait, so that every limit is reached.
constexpr double kLeastShare = 0.05;

}  // namespace

// proc(5): the nanoseconds that the task ran, that it waited to run, and the number of its time slices.
double waited_for_processor(pid_t task) {
  std::istringstream fields(text_of(fmt::format("/proc/{0}/task/{0}/schedstat", task ? task : gettid())));
  double ran = 0, waited = 0;
  return fields >> ran >> waited ? waited * 1e-9 : 0;
}

double OwnTime::seconds(const std::vector<std::vector<pid_t>>& at_once, double apart) {
  const double elapsed =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count() - apart;
  const auto look = [&](pid_t process) {
    const double now = waited_for_processor(process), before = std::exchange(waited_[process], now);
    return std::max(0.0, now - before);
  };
  double longest = 0;
  for (const std::vector<pid_t>& group : at_once) {
    double sum = 0;
    for (const pid_t process : group) sum += process > 0 ? look(process) : 0;
    longest = std::max(longest, sum);
  }
  const double waited = look(0) + longest;
  const double passed = std::max(0.0, elapsed - counted_);
  own_ += passed - std::min(waited, (1 - kLeastShare) * passed);
  counted_ = std::max(counted_, elapsed);
  return own_;
}

}  // namespace assay::assayer
