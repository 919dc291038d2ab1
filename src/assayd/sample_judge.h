// A sample against its contract: which of its elements no rounding explains, and how many differ from the correct rounding.
//
// Example:
//
//     const SampleJudge judge(contract, reference, monitor::Settings{}, false);
//     Result<SampleVerdict> verdict = judge.judge(bindings, {}, 7);
//     if (verdict->violations > 0) use(verdict->worst.text);  // proof
//     use(verdict->differing, verdict->mean);                 // evidence, for monitor::Detector
//
// Only the elements that are looked at are evaluated: a random one of each of many random rows. Two questions are asked of
// each. Is it within what rounding can explain at worst? If not, that is proof. And does it differ from the correctly
// rounded value? A correct kernel's seldom do; how seldom, the budget says: with d the difference and E[d²] its expected
// square, P(|d| >= t) <= E[d²] / t² by Chebyshev's inequality, whatever the distribution. t is 1, one ulp, where differences
// are rare, and so large that p is kRare where rounding noise is larger than an ulp. Elements whose roundings may be
// coherent do not count; nor do several of one row, unless the formula computes every element by itself. Of an output with
// one dim, elements that share no sum count all.
//
// What a kernel chooses (draws, orders of equals: judge/choices.h) is judged first, and everything else given the choice.
#pragma once

#include "judge/error_profile.h"
#include "judge/measure.h"
#include "monitor/sample.h"
#include "monitor/settings.h"
#include "reference/reference.h"

namespace assay::assayd {

struct Violation {
  std::string element;    // "y[3, 7]"
  std::string text;       // "is 16843912, should be 16843908 (error 4, 3.2 times the budget of 1.25)"
  bool is_class = false;  // NaN or infinity where there is none, or hidden
};

struct SampleVerdict {
  int64_t judged = 0;          // elements
  int64_t violations = 0;      // that no rounding explains
  int64_t of_class = 0;        // of those
  Violation worst;             // of those; the first
  uint64_t differing = 0;      // from the correct rounding, of those that count
  double mean = 0;             // how many may do so on average at most; 0: none count
  std::vector<double> shares;  // errors as parts of what rounding can explain
  judge::ErrorProfile errors;  // beside the noise of rounding
};

class SampleJudge {
 public:
  SampleJudge(const contract::Contract& contract, const reference::Reference& reference,
              const monitor::Settings& settings, bool tensor_cores)
      : contract_(contract), reference_(reference), settings_(settings), tensor_cores_(tensor_cores) {}

  // An Error: the formula cannot be evaluated for these inputs, which the contract then does not allow.
  Result<SampleVerdict> judge(const contract::Bindings& bindings, const monitor::CapturedOutputs& outputs,
                              uint64_t seed) const;

 private:
  Result<void> judge_output(const contract::Bindings& bindings, const contract::TensorSpec& spec,
                            const contract::Tensor& tensor, const std::vector<int64_t>& elements,
                            SampleVerdict& verdict) const;

  const contract::Contract& contract_;
  const reference::Reference& reference_;
  const monitor::Settings& settings_;
  bool tensor_cores_;
};

}  // namespace assay::assayd
