// How many parameters a source gives a function.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace assay::subject {

// Of the definition of `name` in CUDA C++ text; nothing where the text alone does not tell (no definition or
// several, macros, a parameter without a type).
std::optional<int> parameters_of(std::string_view text, std::string_view name);

}  // namespace assay::subject
