// What an x86 instruction that faulted wanted of memory.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace assay::cudart {

struct Operand {
  uint64_t bytes =
      1;  // from the address that faulted on: never too many, 1 when the instruction is not known
  bool repeats = false;  // a string instruction, of whose range this is the rest
};

// Of the instruction at which `context` stands, whose access to `address` faulted. Fit for a signal handler.
Operand operand_at(uint64_t address, bool writes, const ucontext_t& context);

}  // namespace assay::cudart
