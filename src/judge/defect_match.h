// Which defect explains the errors: the formula is evaluated with one defect at a time, and its errors
// are compared with the kernel's.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "judge/gates.h"
#include "judge/measure.h"

namespace assay::judge {

struct DefectMatch {
  reference::Defect defect;
  std::string description;  // after "as if"
  double correlation = 0;   // of the errors, compressed so that no few elements decide
  double explained = 0;     // share of their energy that the defect accounts for
  bool by_profile = false;  // matched by size against sum length, not element by element
};

// The best match, if any is good enough. `measured` holds failing elements among others. Defects of the kinds
// in `hints` are tried first, in that order: among equal matches the first one counts. Adds how far the candidates were
// from matching to `margins`.
std::optional<DefectMatch> match_defect(const reference::Reference& reference,
                                        const contract::Bindings& bindings, const Measured& measured,
                                        std::span<const Kind> hints, Margins& margins);

// How large the errors are beside those of a kernel that computes everything in bf16: 1 alike. Infinite where
// such a kernel makes none.
double size_beside_bf16(const reference::Reference& reference, const contract::Bindings& bindings,
                        const Measured& measured);

// Whether the errors of an element-wise output are larger than bf16 in any values on the way to it can make
// them.
bool exceeds_every_rounding(const reference::Reference& reference, const contract::Bindings& bindings,
                            const Measured& measured);

}  // namespace assay::judge
