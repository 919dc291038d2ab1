// `python = "ref.py:function"`: the function in a child process, with NumPy.
#pragma once

#include <map>
#include <string>

#include "reference/reference.h"

namespace assay::reference {

// Outputs by name in float64, and what they lose in the working precision (foreign.h).
Result<std::map<std::string, Tensor>> run_python(const Contract& contract, const Bindings& bindings);

}  // namespace assay::reference
