// Witnesses: a counterexample of the solver, shown on the virtual GPU.
//
// A model is a shape and a thread, under an abstraction that may know too little. So the kernel is run at
// that shape, with inputs that reach the ends of their ranges, under all checks; only a finding of an apt
// kind refutes the obligation, and it is the finding that is reported. A counterexample that no run shows is
// a gap of the prover.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "contract/contract.h"
#include "finding/finding.h"

namespace assay::prove {

// What shows that an obligation fails, by the obligation's name.
std::span<const Kind> kinds_of(std::string_view obligation);

// The first finding of such a kind at this shape. None: no run showed one, or the shape is too large to run.
std::optional<Finding> shown(const contract::Contract& contract, const contract::Shape& shape,
                             std::string_view obligation);

}  // namespace assay::prove
