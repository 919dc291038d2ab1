// Witnesses: a counterexample of the solver, shown on the virtual GPU.
//
// A model is a shape and a thread, under an abstraction that may be too coarse. So the kernel is run at that shape,
// with inputs that reach the ends of their ranges, with all checks on. Only an error of the obligation's own kind refutes
// it; like any failure of `assay check`, it is then confirmed in a new process, shrunk, and recorded for `assay replay`.
// A counterexample that no run reproduces is a limit of the prover.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "assayer/assayer.h"
#include "contract/contract.h"
#include "finding/json.h"
#include "trial/trial.h"

namespace assay::prove {

// What shows that an obligation fails, by the obligation's name.
std::span<const Kind> kinds_of(std::string_view obligation);

// The obligation that an error of this kind refutes, whatever its cause; empty: none.
std::string_view obligation_of(Kind kind);

struct Witness {
  std::vector<Finding> findings;  // the first refutes; others are its consequences
  Json files;                     // the contract and the sources, so that the report alone shows it again
};

// Trials that were run for an obligation: several launches of one call leave the same obligation open, and what one of them
// was run for need not be run for the next.
using Tried = std::set<std::string>;  // trial::to_string

// None: no run at these shapes showed such an error within the budget, or they are too large to run.
std::optional<Witness> shown(const contract::Contract& contract, std::span<const contract::Shape> shapes,
                             std::string_view obligation, const Tried& tried,
                             const assayer::CheckOptions& options);
// The same for trials, of which those that are too large to run are left out.
std::optional<Witness> shown_by(const contract::Contract& contract, std::vector<trial::Trial> trials,
                                std::string_view obligation, const assayer::CheckOptions& options);

// The same for errors of any kind that refutes an obligation but these: of kernels about which the prover has nothing to say.
std::optional<Witness> shown_at_usual_shapes(const contract::Contract& contract,
                                             std::span<const contract::Shape> shapes,
                                             std::span<const std::string> refuted,
                                             const assayer::CheckOptions& options);

// An index that wraps may stay within its tensor: then all there is to see is what an element in another's place does. That
// may have another cause, so it counts only if runs at `control`, where no index can wrap, show no error of any kind. At
// `shapes` one may wrap; an access out of bounds counts there in any case.
std::optional<Witness> shown_beside(const contract::Contract& contract,
                                    std::span<const contract::Shape> shapes, const contract::Shape& control,
                                    const Tried& tried, const assayer::CheckOptions& options);

}  // namespace assay::prove
