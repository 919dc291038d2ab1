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

  bool empty() const { return loops.empty(); }
};
LoopPlan plan_loops(const Function& kernel, Handler join, std::vector<double> shares);

// How far the running lanes of a warp are through a loop.
struct LoopVisit {
  uint64_t arrivals = 0;  // at its head
  uint64_t done = 0;      // iterations, those that were left out among them
  uint64_t limit =
      0;  // of a loop without an end: iterations after which nothing new can happen; 0: not known yet
};

// Runs a warp's turn, leaving out iterations of regular loops.
void run_leaving_out(Warp& warp, int64_t slice);

// For tests: after how many more iterations one of the running lanes leaves the loop at whose head they stand; none: it
// goes on for ever. `wraps`: iterations at whose begin a number of 32 bits has wrapped, in order.
struct Outlook {
  bool ends = false;
  uint64_t exit = 0;
  std::vector<uint64_t> wraps;
};
Outlook look_ahead(Warp& warp, const RegularLoop& loop);

}  // namespace assay::vgpu
