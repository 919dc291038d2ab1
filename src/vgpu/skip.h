// Iterations that a sampled launch leaves out (loops.h): which ones are run, and whether a loop ends at all.
#pragma once

#include <cstdint>
#include <vector>

#include "vgpu/loops.h"

namespace assay::vgpu {

struct Warp;

// What a launch knows of its kernel's loops.
struct LoopPlan {
  std::vector<RegularLoop> loops;
  std::vector<uint8_t>
      loop_at;  // by position in the kernel's code: 1 + index of the loop that begins there; 0: none
  std::vector<double> shares;  // of a loop's iterations: which are worth running, beside both ends
  uint64_t seed = 0;           // of those that each warp adds by chance

  bool empty() const { return loops.empty(); }
};
LoopPlan plan_loops(const Function& kernel, Handler join, std::vector<double> shares, uint64_t seed);

// How far the running lanes of a warp are through a loop.
struct LoopVisit {
  uint64_t arrivals = 0;  // at its head
  uint64_t done = 0;      // iterations, those that were left out among them
  uint32_t lanes = 0;     // that the following is about; 0: nothing is known yet
  bool ends = false;
  uint64_t last = 0;  // the iteration in which the first of them leaves; of a loop without an end, enough
  uint64_t endless_after = 0;   // iterations, of a loop without an end: everything has wrapped by then
  std::vector<uint64_t> worth;  // running, in order
};

// Runs a warp's turn, leaving out iterations of regular loops.
void run_leaving_out(Warp& warp, int64_t slice);

}  // namespace assay::vgpu
