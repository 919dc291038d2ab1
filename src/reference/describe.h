// A resolved formula at one shape, in words.
#pragma once

#include <string>

#include "reference/compiled_formula.h"

namespace assay::reference {

Result<std::string> describe(const Contract& contract, const CompiledFormula& compiled, const Shape& shape);

}  // namespace assay::reference
