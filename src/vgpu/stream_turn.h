// Shared by the files of Streams.
#pragma once

#include <chrono>

namespace assay::vgpu {

// Seconds, of a clock that never goes back.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// While one lives, its thread runs operations and no other does.
class RunningTurn {
 public:
  explicit RunningTurn(bool& taken) : taken_(taken) { taken_ = true; }
  ~RunningTurn() { taken_ = false; }
  RunningTurn(const RunningTurn&) = delete;
  RunningTurn& operator=(const RunningTurn&) = delete;

 private:
  bool& taken_;
};

}  // namespace assay::vgpu
