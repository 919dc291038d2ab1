// Control flow and data flow of one PTX function.
//
// PTX as compilers write it is nearly in SSA form: most registers are defined once, and those that carry a
// value around a loop are defined before it and in it. Definitions that reach a use are found by the usual
// data-flow equations, over the registers defined more than once only.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ptx/module.h"

namespace assay::lint {

using Index = uint32_t;  // of an instruction in Function::body

// How an instruction uses a register.
enum class Role : uint8_t { Value, Address, Guard };

struct Use {
  uint32_t reg = 0;
  Role role = Role::Value;
};

struct Loop {
  Index first = 0;                // of its head
  std::vector<bool> holds;        // by block
  std::vector<uint32_t> members;  // blocks
};

class Flow {
 public:
  explicit Flow(const ptx::Function& function);

  const ptx::Function& function() const { return function_; }
  const ptx::Instruction& at(Index i) const { return function_.body[i]; }
  Index size() const { return static_cast<Index>(function_.body.size()); }

  const std::vector<uint32_t>& defined(Index i) const { return defined_[i]; }
  const std::vector<Use>& uses(Index i) const { return uses_[i]; }
  // The definitions of `reg` that reach instruction i.
  std::vector<Index> reaching(Index i, uint32_t reg) const;
  // The instructions that use a value that instruction i defines.
  const std::vector<Index>& users(Index i) const { return users_[i]; }

  bool is_reachable(Index i) const { return order_[block_of_[i]] >= 0; }
  const std::vector<Loop>& loops() const { return loops_; }
  // The smallest loop around an instruction, if any.
  const Loop* loop_around(Index i) const;
  bool is_in(const Loop& loop, Index i) const { return loop.holds[block_of_[i]]; }

  // What an operand is if it is a constant: itself, or the only definition of its register is a mov of one.
  std::optional<uint64_t> constant(Index i, const ptx::Operand& operand) const;
  // The instruction whose value an operand is, through plain moves; none if several reach it.
  std::optional<Index> source(Index i, const ptx::Operand& operand) const;

 private:
  using Bits = std::vector<uint64_t>;
  struct Block {
    Index first = 0, end = 0;
    std::vector<uint32_t> next, previous;
  };

  void collect();
  void make_blocks();
  void order_blocks();
  void find_loops();
  void solve();

  const ptx::Function& function_;
  std::vector<std::vector<uint32_t>> defined_;
  std::vector<std::vector<Use>> uses_;
  std::vector<std::vector<Index>> users_;
  std::vector<std::vector<Index>> definitions_;  // by register
  std::vector<Block> blocks_;
  std::vector<uint32_t> block_of_;  // by instruction
  std::vector<int> order_;          // reverse post-order number of a block; -1: unreachable
  std::vector<uint32_t> sequence_;  // blocks in that order
  std::vector<uint32_t> dominator_;
  std::vector<Loop> loops_;  // the smallest first

  // Definitions of registers that have several: their number among themselves, and which reach each block.
  std::vector<uint32_t> number_;  // by instruction: first of its numbers
  std::vector<std::pair<Index, uint32_t>> numbered_;
  std::vector<std::vector<uint32_t>> numbers_of_;  // by register
  std::vector<Bits> reaching_in_;                  // by block
};

}  // namespace assay::lint
