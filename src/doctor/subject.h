// Files of device code.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace assay::doctor {

// The fatbinaries in a library or program.
std::vector<std::string_view> containers_in(std::string_view bytes);

}  // namespace assay::doctor
