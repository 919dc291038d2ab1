#include "judge/verdict.h"

namespace assay::judge {

std::string_view to_string(Verdict verdict) {
  constexpr std::string_view kNames[] = {"pass", "fail", "inconclusive"};
  return kNames[static_cast<std::size_t>(verdict)];
}

int exit_status(Verdict verdict) {
  constexpr int kStatus[] = {0, 1, 3};
  return kStatus[static_cast<std::size_t>(verdict)];
}

Verdict verdict_of(const std::vector<Finding>& findings, bool anything_ran, bool anything_left_open) {
  if (has_error(findings)) return Verdict::Fail;
  return anything_ran && !anything_left_open ? Verdict::Pass : Verdict::Inconclusive;
}

}  // namespace assay::judge
