// The verdict of a check.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "finding/finding.h"

namespace assay::judge {

enum class Verdict : uint8_t { Pass, Fail, Inconclusive };
std::string_view to_string(Verdict verdict);
int exit_status(Verdict verdict);

// A finding of severity Error fails a check, whatever else could not be checked. Without one, a check passes
// only where something was run and nothing was left open.
Verdict verdict_of(const std::vector<Finding>& findings, bool anything_ran, bool anything_left_open);

}  // namespace assay::judge
