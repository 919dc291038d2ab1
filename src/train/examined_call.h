// The results of one call, judged by the contract: every element against its exact value and what rounding may do to it.
//
// Example:
//
//     const judge::Outputs outputs;  // by name, as the kernel left them
//     const auto calls = CallJudge::make(contract);
//     if (!calls) return use(calls.error().text());
//     if (const auto call = (*calls)->legal(bindings)) use((*calls)->judged(*call, outputs, false, {}).findings);
//
// A training run meets inputs that the contract excludes: logits beyond `real(-20, 20)`, a learning rate that is none of its values. A
// kernel may be wrong there and right all the same, so such inputs are moved to the nearest that the contract allows.
//
// Inputs that belong together may no longer do so afterwards: a backward pass gets the logarithm of a sum of exponentials (lse) that the forward
// pass made of the same logits, so exp(logits - lse) is at most 1; with lse = 150 moved to 9 it is infinite. No kernel can be blamed for
// what it then returns. So a call with moved inputs counts only if its exact results, and what they are computed from, stay within the precision.
#pragma once

#include <memory>
#include <optional>

#include "contract/contract.h"
#include "judge/judge.h"
#include "reference/reference.h"
#include "train/slots.h"

namespace assay::train {

struct LegalCall {
  contract::Bindings bindings;
  bool is_moved = false;  // some value is not what the model had
};

class CallJudge {
 public:
  static Result<std::shared_ptr<const CallJudge>> make(const contract::Contract& contract);

  // The nearest inputs that the contract allows; none: it allows nothing like them.
  std::optional<LegalCall> legal(contract::Bindings bindings) const;
  Examined judged(const LegalCall& call, const judge::Outputs& outputs, bool tensor_cores,
                  const ExamineOptions& options) const;

 private:
  CallJudge(contract::Contract contract, reference::Reference reference)
      : contract_(std::move(contract)), reference_(std::move(reference)) {}

  contract::Contract contract_;
  reference::Reference reference_;
};

}  // namespace assay::train
