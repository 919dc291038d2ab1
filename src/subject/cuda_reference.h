// `cuda = { source, entry }` references: a naive kernel, run with its floats in FP64.
//
// Example:
//
//     auto reference = reference::Reference::make(contract, cuda_reference(contract, {}, {}));
//
// The source is compiled twice with a prelude that the compiler reads first (cuda_reference.cpp). In one
// build `float`, `half` and `__nv_bfloat16` are double, in the other they are float, and so are all float
// tensors and scalars of the call; conversions between them do nothing. The first gives the exact outputs,
// unrounded; what the second loses beside it is the budget (reference/foreign.h).
#pragma once

#include "reference/reference.h"
#include "subject/runner.h"

namespace assay::subject {

// Builds at once; runs on the virtual device, whatever the subject runs on.
reference::ReferenceProvider cuda_reference(const contract::Contract& contract, const BuildOptions& build,
                                            const RunnerOptions& runner);

// The contract of the reference itself: its source and entry, every float of type `dtype`, and the prelude
// among the flags.
contract::Contract reference_contract(const contract::Contract& contract, contract::DType dtype,
                                      const std::string& prelude);

}  // namespace assay::subject
