// Where control goes in a kernel's code, which registers are needed where, and which may differ from their planes.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/operation.h"

namespace assay::compiler {

using Registers = std::vector<uint64_t>;  // a set, as bits

inline bool contains(const Registers& set, uint32_t reg) {
  return set[reg / 64] >> (reg % 64) & 1;
}
template <class F>
void for_each(const Registers& set, F&& f) {
  for (size_t w = 0; w < set.size(); ++w)
    for (uint64_t rest = set[w]; rest != 0; rest &= rest - 1)
      f(static_cast<uint32_t>(w * 64 + static_cast<size_t>(__builtin_ctzll(rest))));
}

struct Flow {
  std::vector<InstRange> ranges;      // by body index
  std::vector<Operation> operations;  // by body index
  std::vector<bool> starts_block;
  std::vector<bool> is_entry;
  // A barrier that all lanes pass together, with an entry behind it: whoever leaves there comes back with the same registers.
  std::vector<bool> is_passed_together;
  std::vector<Registers> live;  // before each instruction, and at the end
};

Flow flow_of(const vgpu::CompileRequest& request);

// Before each instruction: registers that may differ from their planes. Of `first_lanes` only the lanes that entries read are
// written where code leaves at a barrier that is passed together.
std::vector<Registers> dirty_of(const vgpu::CompileRequest& request, const Flow& flow,
                                const Registers& first_lanes);

// Of a lane as its plane holds it; 1 for a predicate.
unsigned bits_of(const vgpu::Function& kernel, uint32_t reg);

}  // namespace assay::compiler
