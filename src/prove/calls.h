// Functions that were not inlined: which of them a kernel may call and still be proved.
//
// A function that only computes (`pow`, say) touches no memory but its own parameters, meets no other thread, ends no thread
// and has no loops. To its caller such a call is an instruction whose result is unknown: it cannot leave an array, race, or
// keep a thread from a barrier. A call of anything else is not modelled, and the kernel stays unproved.
#pragma once

#include "ptx/module.h"

namespace assay::prove {

// Whether the instruction is a direct call of a function that only computes, with results in parameters.
bool calls_a_computation(const ptx::Module& module, const ptx::Instruction& call);

// Whether an instruction touches no memory and orders nothing: where no rule gives its result, it is unknown.
bool is_pure(ptx::Opcode opcode);

}  // namespace assay::prove
