#include "assayer/kernels_seen.h"

#include <fmt/format.h>

namespace assay::assayer {

void KernelsSeen::add(const trial::Trial& trial, const TrialResult& result) {
  if (result.state != TrialState::Judged || !result.launched || result.elements == 0) return;
  ++count_;
  if (*result.launched)
    ++with_;
  else if (!without_)
    without_ = trial;
}

std::optional<Finding> KernelsSeen::finding(const std::string& function) const {
  if (!without_) return std::nullopt;
  Finding finding{.kind = Kind::NoKernel};
  const int without = count_ - with_;
  std::string detail =
      with_ == 0 ? fmt::format("{} launched no kernel in {} trial{}: torch computes its outputs", function,
                               count_, count_ == 1 ? "" : "s")
                 : fmt::format(
                       "{} launched no kernel in {} of {} trials, at {} first: torch computes its outputs "
                       "there",
                       function, without, count_, contract::to_string(without_->shape));
  finding.severity = with_ == 0 ? Severity::Error : Severity::Warning;
  finding.evidence = evidence::Process{.detail = std::move(detail)};
  return finding;
}

}  // namespace assay::assayer
