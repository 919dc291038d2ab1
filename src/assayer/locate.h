// Which source line a numeric finding is about.
#pragma once

#include "contract/contract.h"
#include "judge/finding.h"

namespace assay::assayer {

// For low-precision accumulation, the line whose code adds in a narrow type; for biased rounding, the
// line that rounds toward zero: found in the PTX that the source compiles to. Else the line on which the
// entry or the kernel begins.
void locate(const contract::Contract& contract, Finding& finding);

// Whether the code adds in a type narrower than f32 somewhere, and where.
bool adds_narrowly(const contract::Contract& contract, Where& where);

// A path as the user would name it: relative to where they are, if it is below.
std::string shown(const std::string& path);

}  // namespace assay::assayer
