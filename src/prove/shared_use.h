// Who reads and writes the shared memory of a kernel, and between which barriers.
//
// The rules about values that threads leave for one another in shared memory (counters.h, broadcast.h) ask the same questions:
// does another thread write while this one reads? Is the variable set on every path to a barrier? Can it be read before that? The
// answers hold if all threads of a block pass the same barriers (the obligation `barrier`).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "prove/obligation.h"
#include "prove/race_intervals.h"

namespace assay::prove {

using ThreadIndex = std::array<Term, 3>;  // of a block, 32 bits

class SharedUse {
 public:
  explicit SharedUse(Setting& setting);

  // False: it is not clear what is written to shared memory, and nothing else here means anything.
  bool is_clear() const { return clear_; }

  // By the name of the array.
  const std::vector<const Access*>& reads(const std::string& place) { return reads_[place]; }
  const std::vector<const Access*>& writes(const std::string& place) { return writes_[place]; }
  const std::map<std::string, std::vector<const Access*>>& writes() const { return writes_; }
  const std::map<std::string, std::vector<const Access*>>& reads() const { return reads_; }

  uint32_t at(const ptx::Instruction& instruction) const {
    return static_cast<uint32_t>(&instruction - setting_.kernel.body.data());
  }
  uint32_t at(const Access& access) const { return at(*access.instruction); }
  const std::set<uint32_t>& barriers() const { return barriers_; }
  const Intervals& intervals() const { return *intervals_; }

  // Whether two threads may make these accesses between the same barriers.
  bool meet(uint32_t a, uint32_t b) const { return !intervals_->meetings(a, b).empty(); }
  // The barrier that comes next after a store on every way, without going round a loop, if this thread, which every block
  // has, makes the store whenever it comes to the barrier.
  std::optional<uint32_t> set_before(const Access& store, const ThreadIndex& thread);
  // Whether an instruction can be reached from the kernel's beginning without passing one of these barriers.
  bool reaches_before(const std::set<uint32_t>& barriers, uint32_t to) const;

  // Compilers write one address with 64 bits (a symbol) and with 32 (a register); shared addresses lie below 2^24.
  Term in_shared(Term address);
  // The variables that hold what is read at the address of this access.
  std::vector<Var> loaded_by(const Access& read);

 private:
  std::optional<uint32_t> next_barrier(uint32_t from) const;

  Setting& setting_;
  Terms& terms_;
  const Summary& summary_;
  bool clear_ = true;
  std::map<std::string, std::vector<const Access*>> reads_, writes_;
  std::set<uint32_t> barriers_, accesses_;
  std::unique_ptr<Intervals> intervals_;
};

// The thread 0, 0, 0.
ThreadIndex first_thread(Terms& terms);
// The one thread of a block that gets to an access, if the path says so: the first or the last one.
std::optional<ThreadIndex> only_thread(Setting& setting, const Access& access);

}  // namespace assay::prove
