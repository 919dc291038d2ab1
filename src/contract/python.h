// `python = "ref.py:function"`: the function in a child process, with NumPy.
#pragma once

#include <map>
#include <string>

#include "contract/reference.h"

namespace assay::contract {

// Outputs by name in float64, and "name@working" as computed from float32 arrays.
Result<std::map<std::string, Tensor>> run_python(const Contract& contract, const Bindings& bindings);

}  // namespace assay::contract
