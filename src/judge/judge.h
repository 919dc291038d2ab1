// The judge: contract, inputs and outputs in, findings out. It knows nothing of devices or trials.
//
// Example:
//
//     const Outputs outputs = {{"dw", std::make_shared<const contract::Tensor>(dw)}};
//     Result<Judgement> judgement = judge(contract, reference, bindings, outputs);
//     for (const Finding& finding : judgement->findings) use(finding.kind);
//
// For each output it takes the elements (all, or a sample that holds edges, tails and extremes), asks the
// reference what each may be, and passes them through gates:
//
//   class    NaN and infinities where the exact value has them, and nowhere else    (proof)
//   bound    every element within what rounding can explain at worst                (proof)
//   energy   errors no larger than rounding is expected to make them, overall and   (statistics,
//            in every row, column, tail, decade of sum length, decade of magnitude   p < 1e-11)
//
// The energy gate does not ask how large an error is, but how it differs from the error that a correct
// kernel must make: the exact value is known, so its correct rounding r is known, and d = stored - r is zero
// for a sound kernel unless the value lies within its own rounding noise of a tie. How often that happens
// is a Poisson number whose mean follows from the budget. One undeclared bf16 rounding, a truncating store
// or a lost tail moves a tenth to a half of all elements where one in ten thousand is expected.
//
// What failed is then diagnosed: the formula is evaluated with one defect at a time, and the defect whose
// errors are those of the kernel gives the finding its kind.
//
//   verdict.h   verdicts                   sample.h     which elements to look at
//   choices.h   what the kernel chose: random draws, orders of equals
//   measure.h   elements as measured       defect_match.h  which defect explains them
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "finding/finding.h"
#include "judge/error_profile.h"
#include "judge/gates.h"
#include "reference/reference.h"

namespace assay::judge {

// What the judge asks of the reference whatever the outputs hold: all elements of outputs that are small enough. It can
// be evaluated while the kernel runs.
struct Foreseen {
  bool tensor_cores = false;  // as in Options: for budgets of the other kind, it is of no use
  std::map<std::string, reference::Expectation, std::less<>> outputs;
};

struct Options {
  bool tensor_cores = false;
  int threads = 0;
  int64_t max_elements = 1 << 17;      // of each output; larger ones are judged on a sample
  double max_work = 4e8;               // terms of sums evaluated for one output, about
  uint64_t seed = 1;                   // of the sample
  bool diagnose = true;                // off: kinds are general, but cheaper
  bool margins = false;                // measures how close outputs come to the gates
  std::vector<Kind> hints;             // kinds of finding that the code makes likely: tried first
  const Foreseen* foreseen = nullptr;  // of these bindings
  // Of outputs that are there in part, made from inputs that are made as they are read: these elements of each output
  // are judged, as many as can be afforded, by the hard gates alone. The inputs hold few different values, over and
  // over, so that rounding errors repeat, and statistics would count one error many times.
  std::map<std::string, std::vector<int64_t>, std::less<>> elements;
  decltype(reference::BudgetOptions::on_read) on_read;  // set: that is the case
};

using Outputs = std::map<std::string, std::shared_ptr<const contract::Tensor>, std::less<>>;

struct Judgement {
  std::vector<Finding> findings;
  Margins margins;       // of the gates that decide the verdict: if asked for
  int64_t elements = 0;  // of the outputs
  int64_t judged = 0;
  int64_t undecided = 0;    // a comparison or cast could go either way: several results admitted
  int64_t overflowing = 0;  // finite inputs give a value, or an intermediate one, beyond the precision
  ErrorProfile errors;      // of the elements that were measured one by one
};

// What judge() will want to know with these options, as far as that can be told without the outputs.
Foreseen foresee(const contract::Contract& contract, const reference::Reference& reference,
                 const contract::Bindings& bindings, const Options& options);

Result<Judgement> judge(const contract::Contract& contract, const reference::Reference& reference,
                        const contract::Bindings& bindings, const Outputs& outputs,
                        const Options& options = {});

}  // namespace assay::judge
