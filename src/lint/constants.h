// The integers with which code compares sizes, from PTX and from source text (base/size_constants.h).
//
// Hints, not facts: they choose what else is tried. From PTX come those that are compared with values which
// follow from kernel parameters and launch dimensions alone; source text also has what only the host
// compares, and what it picks with templates, macros and `case`.
#pragma once

#include <string_view>

#include "base/size_constants.h"
#include "ptx/module.h"

namespace assay::lint {

// Both add what they find and is not there yet.
void constants_of(const ptx::Module& module, SizeConstants& found);
void constants_of(std::string_view source, SizeConstants& found);

}  // namespace assay::lint
