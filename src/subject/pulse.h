// How much of its time a process has had.
#pragma once

#include <sys/types.h>

#include <chrono>

namespace assay::subject {

// A limit in elapsed time accuses a process of what the machine's load did to it. This clock goes as fast as
// the process computes; while none of its threads wants to run (it sleeps, or waits for something that does
// not come) it goes as fast as the wall's. It never stands still, so every limit is reached in the end.
class Pulse {
 public:
  explicit Pulse(pid_t process);
  // Seconds since it was made.
  double seconds();
  // At the last look.
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
