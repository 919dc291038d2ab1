// Findings that a user does not want to see: a file with one rule per line, `KIND [KERNEL [FILE:LINE]]`, in
// which
// * matches any text and # begins a comment.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "finding/finding.h"

namespace assay::cli {

struct Suppression {
  std::string kind, kernel;
  std::string file = "*";  // the end of its path
  int line = 0;            // 0: any
};
Result<std::vector<Suppression>> read_suppressions(const std::string& path);  // none where path is empty

bool is_suppressed(const Finding& finding, const std::vector<Suppression>& suppressions);

}  // namespace assay::cli
