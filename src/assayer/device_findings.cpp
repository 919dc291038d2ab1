#include "assayer/device_findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "finding/message.h"
#include "judge/same_cause.h"

namespace assay::assayer {

bool is_error(const Finding& finding) {
  return finding.severity == Severity::Error;
}

bool is_on_gpu(const Finding& finding) {
  const auto& devices = finding.found.devices;
  return std::find(devices.begin(), devices.end(), kCudaDevice) != devices.end();
}

void add_evidence_of_gpu(Finding& seen, const Finding& real) {
  if (seen.found.witness.empty()) seen.found.witness = real.found.witness;
  if (is_on_gpu(seen)) return;
  seen.found.devices = {kVirtualDevice, kCudaDevice};
  seen.found.other_shows = fmt::format("{}: {}", to_string(real.kind), message(real));
}

Finding* same_error(std::vector<Finding>& seen, const Finding& real, bool one_per_kind) {
  const auto same = std::find_if(seen.begin(), seen.end(), [&](const Finding& finding) {
    return is_error(finding) &&
           ((one_per_kind && finding.kind == real.kind) || judge::is_same_cause(finding, real));
  });
  return same == seen.end() ? nullptr : &*same;
}

std::vector<Finding> join_errors(std::vector<Finding>& seen, std::vector<Finding> real, bool one_per_kind) {
  for (Finding& finding : seen)
    if (is_error(finding)) finding.found.devices = {kVirtualDevice};
  std::vector<Finding> others;
  for (Finding& finding : real) {
    if (!is_error(finding)) continue;
    if (Finding* same = same_error(seen, finding, one_per_kind))
      add_evidence_of_gpu(*same, finding);
    else
      others.push_back(std::move(finding));
  }
  return others;
}

}  // namespace assay::assayer
