// The control flow of one kernel: basic blocks, dominators and natural loops.
//
// Only reducible graphs are taken: every cycle has one head that dominates it, which is what compilers make
// of structured code. A graph that is not, an indirect branch or a call (but for those of calls.h) is an Error, and the
// kernel stays unproved.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "ptx/module.h"

namespace assay::prove {

struct Block {
  uint32_t first = 0, end = 0;  // instructions
  // Where it goes: after a conditional branch first the target, then what follows.
  std::vector<uint32_t> next;
};

struct Graph {
  std::vector<Block> blocks;
  std::vector<uint32_t> order;                    // reachable blocks in reverse post-order
  std::vector<std::vector<uint32_t>> dominators;  // of each block, itself included, sorted
  std::vector<std::vector<uint32_t>> loops;       // by head: the blocks of its loop, sorted; empty: no head

  bool is_head(uint32_t block) const { return !loops[block].empty(); }
  bool dominates(uint32_t a, uint32_t b) const;
  uint32_t block_of(uint32_t instruction) const;
  bool is_in_loop(uint32_t instruction) const;
  // Whether some way leads from behind one instruction (ptx::kNone: from the beginning) to another without passing one of
  // `stops`.
  bool reaches(uint32_t from, uint32_t to, const std::set<uint32_t>& stops = {}) const;
};

Result<Graph> graph_of(const ptx::Module& module, const ptx::Function& function);

}  // namespace assay::prove
