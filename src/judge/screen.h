// A first look at an output whose elements depend on nothing in common: piece by piece, on all cores, and
// nothing is kept of an element once it has been seen. A sound kernel needs no other look.
#pragma once

#include "judge/measure.h"

namespace assay::judge {

struct Screening {
  bool suspicious = false;  // something is not as a sound kernel has it: measure and diagnose
  int64_t undecided = 0;
};

Result<Screening> screen(const reference::Reference& reference, const contract::Bindings& bindings,
                         const std::string& output, const contract::Tensor& tensor,
                         std::span<const int64_t> elements, const reference::BudgetOptions& budget,
                         const MeasureOptions& options);

}  // namespace assay::judge
