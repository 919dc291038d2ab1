// What a trial costs, before anything is known of the kernel: elements, bytes, and the steps that the formula
// takes when it is evaluated the plain way. Attention over S keys is S^2 steps, though its tensors hold S
// elements.
#pragma once

#include <vector>

#include "trial/trial.h"

namespace assay::trial {

class Work {
 public:
  explicit Work(const contract::Contract& contract);

  // An error where an extent cannot be evaluated.
  Result<Size> of(const contract::Shape& shape) const;

 private:
  const contract::Contract* contract_;
  std::vector<std::vector<contract::IntExpr>> loops_;  // steps: the sum of the products of these
};

}  // namespace assay::trial
