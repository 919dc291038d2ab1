// How long a check has worked: elapsed time without the time that its processes waited for a processor.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <vector>

namespace assay::assayer {

// Seconds that a task could run and had no processor, since it began; 0 where the system does not tell.
double waited_for_processor(pid_t task);

// On a machine that has a processor for each process of the check own time is elapsed time.
class OwnTime {
 public:
  // Own seconds since construction, without `apart`, the elapsed seconds so far that are not to count.
  // `at_once`: the processes that work for the check beside this thread. Those of a group take turns; groups work at
  // the same time, so that the one that waits longest counts. Numbers that are 0 stand for no process.
  double seconds(const std::vector<std::vector<pid_t>>& at_once, double apart);

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::map<pid_t, double> waited_ = {{0, waited_for_processor(0)}};  // at the last look; 0: this thread
  double counted_ = 0;                                               // elapsed seconds at the last look
  double own_ = 0;
};

}  // namespace assay::assayer
