// Where precision is lost, in words.
#pragma once

#include <string>
#include <string_view>

#include "finding/profile.h"

namespace assay::cli {

// A profile as lines of text, each after `prefix`: the outputs with the lines their errors come from, the
// lines by what they introduce, decisions, and what could not be tracked.
std::string profile_text(const Profile& profile, std::string_view prefix);

}  // namespace assay::cli
