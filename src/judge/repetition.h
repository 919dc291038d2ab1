// Compares two runs of one trial: do their errors differ from run to run?
//
// A kernel may round nondeterministically (sums in another order) and be wrong for another reason, which is then
// the same in every run. So if the bits of two runs differ, only elements that are wrong in one of them count,
// and only if they differ by more than nondeterministic rounding explains.
//
// Example:
//
//     const Outputs first, second;  // of two calls with the same inputs
//     std::vector<Finding> found;   // by judge() about the first; and about the second: none
//     if (auto text = differing_error(contract, reference, bindings, {first, found}, {second, {}}))
//       use(*text);  // "y[3] is first 1.5, then 2"
#pragma once

#include <optional>
#include <span>
#include <string>

#include "judge/judge.h"

namespace assay::judge {

struct Repetition {
  const Outputs& outputs;
  std::span<const Finding> findings;  // about these outputs
};

// The first element found that differs so: "y[3] is 1.5 and then 2".
std::optional<std::string> differing_error(const contract::Contract& contract,
                                           const reference::Reference& reference,
                                           const contract::Bindings& bindings, const Repetition& first,
                                           const Repetition& second,
                                           const reference::BudgetOptions& options = {});

}  // namespace assay::judge
