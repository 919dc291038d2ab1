// A clock for time limits that a loaded machine does not distort.
#pragma once

#include <sys/types.h>

#include <chrono>

namespace assay::subject {

// On a busy machine elapsed time says little about a process. This clock advances by the processor time that
// the process uses; while none of its threads can run (it sleeps, or waits) it advances with elapsed time. It
// never stops, so every limit is reached in the end.
class ProcessClock {
 public:
  explicit ProcessClock(pid_t process);
  // Since its construction.
  double seconds();
  // Of the process, at the last call of seconds().
  int threads() const { return threads_; }

 private:
  struct Reading {
    double processor = 0;  // seconds, of all threads
    bool wants_to_run = false;
    int threads = 0;
  };
  Reading read() const;

  pid_t process_;
  std::chrono::steady_clock::time_point last_;
  double processor_ = 0;
  double seconds_ = 0;
  int threads_ = 0;
};

}  // namespace assay::subject
