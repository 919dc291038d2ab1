// Which defect explains the errors: the formula is evaluated with one defect at a time, and its errors
// are compared with the kernel's.
#pragma once

#include <optional>

#include "judge/measure.h"

namespace assay::judge {

struct Diagnosis {
  const contract::Defect* defect = nullptr;
  double correlation = 0;   // of the errors, compressed so that no few elements decide
  double explained = 0;     // share of their energy that the defect accounts for
  bool by_profile = false;  // matched by size against sum length, not element by element
};

// The best match, if any is good enough. `measured` holds failing elements among others.
std::optional<Diagnosis> diagnose(const contract::Reference& reference, const contract::Bindings& bindings,
                                  const Measured& measured);

}  // namespace assay::judge
