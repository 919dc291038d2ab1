// NaN and infinities that a factor of zero keeps out of a result.
//
// `mask[i] * x[i]` is NaN where the mask is 0 and x is NaN. A kernel that skips masked elements gives 0
// there, and no author would call it wrong: the result does not depend on x. An element is independent of the
// nonfinite inputs when the reference gives the same finite value whatever finite numbers stand in their
// place; then that value is admitted too.
#pragma once

#include "judge/measure.h"

namespace assay::judge {

Result<void> admit_masked(const reference::Reference& reference, const contract::Bindings& bindings,
                          const contract::Tensor& tensor, const reference::BudgetOptions& budget,
                          Measured& measured);

}  // namespace assay::judge
