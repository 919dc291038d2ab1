// Calls of the subject to the CUDA runtime that pass through the worker.
//
// The loader finds a function in the program before it finds it in a library, so the subject's cudaMalloc is this program's.
// On the virtual device each goes straight on to the runtime, which watches by itself. On a real GPU
//
//   memory       that is allocated is filled, so that nothing can rely on zeros; what is held is counted (leaks)
//   the machine  presents itself as a GPU with fewer multiprocessors and less memory, where the setup says so
//   device code  is replaced by other code that computes the same (subject/perturb.h), where the setup says so
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "finding/finding.h"
#include "subject/worker/runtime.h"

namespace assay::worker {

// To be called when the runtime has been loaded, before any of the subject's code runs.
void pass_runtime_calls();

struct RuntimeWatch {
  uint32_t multiprocessors = 0;  // that the GPU presents; 0: those it has
  uint64_t bytes = 0;            // of its memory, likewise
  bool fills = true;             // new memory
  std::string code;              // file of the code that takes the place of the subject's; empty: none
};
// An empty string, or what is wrong.
std::string watch_runtime_calls(const Runtime& runtime, const RuntimeWatch& watch);

// What calls leave behind on a real GPU, as cudart/growth.h sees it on the virtual device.
class HeldByCalls {
 public:
  void call_ended();
  // A finding where the calls held more and more; forgets them.
  std::optional<Finding> judge();

 private:
  std::vector<uint64_t> bytes_, streams_, events_, graphs_;
};

}  // namespace assay::worker
