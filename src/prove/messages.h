// What threads tell each other through memory: values that one thread leaves for its block, numbers that blocks draw, and
// the order that follows from them. (For flags that blocks wait for, see flags.h.)
//
// The block that finishes last adds up what the others have left:
//
//     if (tid == 0) {
//       partial[block] = sum;                            // (1)
//       __threadfence();
//       last = atomicAdd(&done, 1) == blocks - 1;        // `done` was 0 when the kernel began
//     }
//     __syncthreads();                                   // `last` is in shared memory
//     if (last) { __threadfence(); … partial[i] … }      // (2)
//
// Three rules put (1) before (2):
//   - broadcast: what one thread stores in a shared variable before a barrier is what every thread reads behind it;
//   - grid tickets: if each block draws one number from a counter that starts at 0, the numbers differ and are below the number
//     of blocks, and the block with the highest number was the last to draw;
//   - order: what a block does before a fence and its draw happens before what the last block does after its draw and a fence.
// messages.cpp and block_order.cpp give the reasons.
#pragma once

#include "prove/flags.h"
#include "prove/obligation.h"
#include "prove/race_intervals.h"
#include "prove/shared_use.h"

namespace assay::prove {

// Gives facts to the variables of values that come from such messages, and fills in Setting::grid_tickets. Whether facts were
// found that hold only if all threads of a block get to its barriers (Summary::exchanges).
bool describe_messages(Setting& setting);

// Whether a thread gets to an access only if its block drew the last number.
bool implies_last(Setting& setting, const Access& access, const GridTicket& ticket);

// An instruction by which one thread of a block tells other blocks something.
struct Signal {
  const ptx::Instruction* instruction = nullptr;
  ThreadIndex thread{};
};

// What is ordered between blocks.
class BlockOrder {
 public:
  // `intervals`: of the barriers of the block, with all accesses to global memory.
  BlockOrder(Setting& setting, const Intervals& intervals, const std::set<uint32_t>& barriers);

  // Whether the first, by any thread of one block, happens before the second, by any thread of another.
  bool is_before(const Access& first, const Access& second);

  // Whether a block that has given the signal has made the access before that, with a fence in between.
  bool is_released(const Access& access, const Signal& signal);
  // Whether a thread that comes from one instruction to another has passed a fence.
  bool fences_between(const ptx::Instruction& from, uint32_t to) const;
  // The same, or the first is a load that acquires: what follows it needs no fence, but what precedes a signal does.
  bool acquires_between(const ptx::Instruction& from, uint32_t to) const;
  // Whether all threads of a block have come to this barrier when one is at the instruction.
  bool is_behind(const ptx::Instruction& barrier, uint32_t at) const;
  uint32_t at(const ptx::Instruction& instruction) const;

 private:
  bool is_last(const Access& access, const GridTicket& ticket);
  bool is_by(const Access& access, const Signal& signal);
  bool is_acquired(const Access& access, const Signal& signal);

  Setting& setting_;
  const Intervals& intervals_;
  const std::set<uint32_t>& barriers_;
  std::set<uint32_t> fences_;
  std::map<std::pair<const Access*, Var>, bool> last_;
  std::map<std::pair<const Access*, const ptx::Instruction*>, bool> by_;
  FlagOrder flags_;
};

}  // namespace assay::prove
