// NaN and infinities that a factor of zero keeps out of a result.
//
// `mask[i] * x[i]` is NaN where the mask is 0 and x is NaN. A kernel that skips masked elements gives 0
// there, and no author would call it wrong: the result does not depend on x. An element is independent of the
// nonfinite inputs when the reference gives the same finite value whatever finite numbers stand in their
// place; then that value is admitted too.
//
// `p - r * (u + w * p)` is inf - inf where p is infinite, and `p * (1 - r * w) - r * u`, the same sum, is inf. A NaN that
// no input holds comes from the order in which the formula happens to be written: an infinity is admitted in its
// place, a finite value is not.
#pragma once

#include "judge/measure.h"

namespace assay::judge {

Result<void> admit_masked(const reference::Reference& reference, const contract::Bindings& bindings,
                          const contract::Tensor& tensor, const reference::BudgetOptions& budget,
                          Measured& measured);
void admit_infinities(const contract::Bindings& bindings, Measured& measured);

}  // namespace assay::judge
