// Which accesses of two threads can happen between the same two barriers, and in which iterations.
//
// A barrier orders everything before it with everything after it, for all threads that take part. So two
// accesses of different threads are unordered only if both threads passed the same barrier last. (That all
// threads pass the same barriers in the same order is an obligation of its own, `barrier`; a proof of one
// rests on the other.) From each barrier, and from the kernel's beginning, the control flow is followed up to
// the next barriers; what is met on the way is the interval of that barrier.
//
// Both threads passed the barrier in the same iteration of every loop around it. An access behind it in the
// same turn of such a loop belongs to that iteration, one behind a back edge to the next. So iterations of
// different threads are related: by a difference for each loop that has a barrier (`Meeting::ahead`), or, where
// only one of the accesses is in the loop and the loop was entered after the barrier, by being the first. A loop
// that is not listed leaves the iterations open.
//
// An asynchronous copy (cp.async) touches memory at any time between its instruction and the point where its
// thread has waited for its group: it belongs to the interval of every barrier that the thread passes before
// that.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "prove/graph.h"
#include "ptx/module.h"

namespace assay::prove {

// A barrier that all threads of the block take part in.
bool orders_block(const ptx::Instruction& instruction);

// How the iterations of two accesses are related, for loops (by their heads) where that is known.
struct Meeting {
  std::map<uint32_t, int> ahead;                     // the second access's iteration less the first's
  std::set<uint32_t> first[2];                       // loops in whose first iteration the access is
  auto operator<=>(const Meeting&) const = default;  // NOLINT(modernize-use-nullptr): the 0 is the compiler's
};

class Intervals {
 public:
  // `barriers`: instructions that order the threads in question; `accesses`: those to be placed.
  Intervals(const Graph& graph, const ptx::Function& kernel, const std::set<uint32_t>& barriers,
            const std::set<uint32_t>& accesses);

  // How the two may meet in one interval; nothing: they never do. None of the answers implies another.
  std::set<Meeting> meetings(uint32_t first, uint32_t second) const;

  // The barriers that begin an interval with this access in it; ptx::kNone stands for the kernel's beginning.
  std::set<uint32_t> begun_by(uint32_t access) const;

  // Accesses that a thread may make while its own copy `async` is under way.
  const std::map<uint32_t, std::set<Meeting>>& during(uint32_t async) const;

 private:
  // Where an access stands in the loops around it: `from` iterations after the barrier's,
  // or, with `first`, in the first iteration of a loop entered since. Loops not listed: anywhere.
  struct Turn {
    bool first = false;
    int from = 0;
    auto operator<=>(const Turn&) const = default;  // NOLINT(modernize-use-nullptr): the 0 is the compiler's
  };
  using Place = std::map<uint32_t, Turn>;

  void follow(uint32_t barrier);
  void follow_copy(uint32_t async);
  Place after(const Place& place, uint32_t from, uint32_t to, const std::vector<uint32_t>& heads) const;
  bool in_loop(uint32_t head, uint32_t block) const;

  const Graph& graph_;
  const ptx::Function& kernel_;
  const std::set<uint32_t>& barriers_;
  const std::set<uint32_t>& accesses_;
  std::vector<uint32_t> block_of_;   // by instruction
  std::vector<uint32_t> heads_;      // of loops with barriers
  std::vector<uint32_t> all_heads_;  // of all loops
  // By barrier (or kNone, the beginning): accesses of its interval.
  std::map<uint32_t, std::map<uint32_t, std::set<Place>>> intervals_;
  std::map<uint32_t, std::map<uint32_t, std::set<Meeting>>> during_;
};

// Removes what a weaker member of the set implies.
void keep_weakest(std::set<Meeting>& set);

}  // namespace assay::prove
