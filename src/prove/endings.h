// Which loops are known to end.
//
// A loop ends if the facts about iteration k bound k: if they exclude k = 2^61, no thread ever gets that far. It also ends if
// its condition tests a register that is shifted right in each iteration, and fails once that register is 0.
//
// A loop that waits for another block's flag ends if that block sets the flag. A block need not start while others wait. But a
// block that has drawn a number knows that the blocks with smaller numbers have started, and a block that has started makes
// progress. So let a loop wait for the flag of a number e below its own block's number:
//   1. each smaller number was drawn by some block (GridTicket), so e was;
//   2. in every block, one thread stores to the flag of the number that the block drew, whatever path the block takes, provided
//      that the loops before that store end;
//   3. every value stored there ends the waiting loop, and nothing else is stored there.
// By induction over the numbers, all such loops end: block e itself waits for smaller numbers only. The numbers must come from
// one counter, since two counters may give opposite orders. If one of the loops is not understood, none is taken to end.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "prove/messages.h"

namespace assay::prove {

// Whether a kernel has an instruction by which a thread can learn what others do while it runs.
bool can_listen(const ptx::Function& kernel);

class Endings {
 public:
  explicit Endings(Setting& setting);

  // Loops from which an instruction can be reached all end.
  bool before(const ptx::Instruction& instruction);
  // Loops that wait for what another thread writes all end. (Of the others nothing is said.)
  bool of_waiting();
  // Loops in which a thread can learn what others do all end: those that wait for a flag, and those with any other strong load or
  // atomic operation, which may wait in a way that is not understood (a lock, a shared flag, a flag that an inner loop reads).
  bool of_listening();

 private:
  // A loop that goes on as long as a strong load finds certain values.
  struct Waiting {
    const Loop* loop = nullptr;
    const FlagRead* read = nullptr;
    Term goes_on = kNoTerm;  // speaks of what was found alone
  };

  bool ends(uint32_t head);
  bool listens(uint32_t head) const;
  bool stops_at_zero(const Loop& loop);
  bool is_bounded(const Loop& loop);
  bool is_bounded(const Loop& loop, bool whole_entry);

  void find_waiting();
  bool understood(const Waiting& waiting, const GridTicket& ticket);
  bool leaves_with(const Waiting& waiting, const Access& store);
  bool is_apart(const Waiting& waiting, const Access& store);
  bool is_set(const Waiting& waiting, const Access& store, const GridTicket& ticket);
  bool is_of_a_smaller_number(const Waiting& waiting, const Access& store, const GridTicket& ticket);
  Term by_number(Term term);
  const Access* access_of(const ptx::Instruction& instruction) const;

  Setting& setting_;
  std::map<uint32_t, Var> loops_;  // by head
  std::map<uint32_t, bool> known_;
  std::vector<Waiting> waiting_;
  std::optional<bool> waiting_end_;
};

}  // namespace assay::prove
