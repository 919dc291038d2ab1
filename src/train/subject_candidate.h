// A kernel as a candidate: calls of a slot become calls of the kernel in its worker process.
//
// Example:
//
//     const Result<Binding> binding = bind(contract, *slot_named("swiglu"));
//     const subject::BuildOutcome built = subject::build(contract, {});
//     const subject::RunnerOptions options{.timeout = kCallSeconds};
//     if (binding && built.subject) use(subject_candidate(contract, *binding, *built.subject, options));  // a Result<Candidate>
//
// One worker makes all calls, on the virtual GPU without checks: those are what `assay check` is for. A call that fails, changes an
// input or writes past a tensor is a finding all the same (call_findings.h).
//
// A batch that is larger than the contract allows is divided: where every output of the slot begins with the dim T, H or
// n, its slices are independent, and the kernel is called for each.
#pragma once

#include "contract/contract.h"
#include "subject/runner.h"
#include "subject/subject.h"
#include "train/binding.h"
#include "train/slots.h"

namespace assay::train {

inline constexpr double kCallSeconds = 300;  // that a call may take: hundreds of times what calls do take

// Keeps copies of all that it needs, and its worker until the last copy of the candidate is gone.
Result<Candidate> subject_candidate(const contract::Contract& contract, const Binding& binding,
                                    const subject::Subject& subject, subject::RunnerOptions options);

}  // namespace assay::train
