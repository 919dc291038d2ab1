// Loops of which iterations can be left out.
//
// A thread of a grid-stride or persistent kernel walks through a whole tensor. In a sample of a giant grid a few of its
// iterations say as much as all of them, if one can go from iteration i to iteration j without those between. That is so
// for a *regular* loop: all that one iteration hands to the next in registers are sums that grow by the same amount
// each time (with the wrap-around of their own width), or what the iteration computes from these; and whether it goes on
// depends on nothing else. Then iteration j begins with r + j * step in each of the sums.
//
//     for (int64_t i = first; i < n; i += stride) z[i] = a * x[i] + y[i];     regular
//     for (int i = lane; i < n; i += 32) sum += x[i];                          not: sum
//     while (!done) done = flag[0];                                            not: ends when memory says so
//
// What iterations hand on through shared or local memory is not followed: loops that write it are not regular. What
// they hand on through device memory is for listeners to say (Listener::may_skip).
#pragma once

#include <cstdint>
#include <vector>

#include "vgpu/code.h"

namespace assay::vgpu {

struct RegularLoop {
  uint32_t head = 0;            // position in Function::code
  bool has_collective = false;  // lanes exchange values: those of a warp leave out the same iterations

  struct Carried {
    PlaneOffset plane;
    uint32_t bytes;  // of a lane, 4 or 8
    bool is_sum;     // it grows evenly; else the iteration before computes it from sums
  };
  std::vector<Carried> carried;
  // Positions in Function::code, in order: what an iteration does to these, and to what its exits compare.
  std::vector<uint32_t> steps;
  // Values of 32 bits that are carried or computed on the way: comparisons may change their mind where these wrap.
  static constexpr uint32_t kAtHead = 0xffffffff;
  struct Narrow {
    PlaneOffset plane;
    uint32_t step;  // that computes it: an index into `steps`, or kAtHead
  };
  std::vector<Narrow> narrow;

  enum class Compare : uint8_t { Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual };
  struct Side {
    bool is_constant = false;
    PlaneOffset plane = 0;
    uint64_t bits = 0;
  };
  struct Exit {  // taken when `left compare right` is `when`; the comparison is steps[step]
    Side left, right;
    uint32_t bytes = 4;
    bool is_signed = true;
    Compare compare = Compare::Equal;
    bool when = true;
    bool narrow = false;  // a number of 32 bits that changes decides it
    uint32_t step = 0;
    uint32_t branch = 0;  // position of the jump, for its line
  };
  std::vector<Exit> exits;
};

// `join`: the handler of the places where branches meet (Engine::join).
std::vector<RegularLoop> regular_loops(const Function& function, Handler join);

}  // namespace assay::vgpu
