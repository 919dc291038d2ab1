// What was understood of a contract, in words: for `assay formula`.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "reference/compiled_formula.h"

namespace assay::reference {

// Shapes, index ranges, reduction lengths, and the budget of each output.
Result<std::string> describe(const Contract& contract);
// The same for programs: dims, tensors with their layouts, what each statement defines, the lines of each budget.
Result<nlohmann::ordered_json> describe_json(const Contract& contract);
// The same of a compiled formula, at one shape.
Result<std::string> describe(const Contract& contract, const CompiledFormula& compiled, const Shape& shape);

}  // namespace assay::reference
