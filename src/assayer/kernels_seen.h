// Whether a Python subject launches kernels at all: torch, too, could compute the outputs. Decided from the
// device's launches on this side; what the subject says of itself does not count.
#pragma once

#include <optional>
#include <string>

#include "assayer/trial_runner.h"

namespace assay::assayer {

class KernelsSeen {
 public:
  void add(const trial::Trial& trial, const TrialResult& result);
  // Enough trials launched nothing to stop looking for one that does.
  bool seen_none() const { return with_ == 0 && count_ >= kEnough; }
  // The first trial that computed outputs without a launch.
  const std::optional<trial::Trial>& without() const { return without_; }
  // An error where no trial launched a kernel, a warning where some did not. `function`: the subject.
  std::optional<Finding> finding(const std::string& function) const;

 private:
  static constexpr int kEnough = 12;
  int with_ = 0, count_ = 0;  // trials
  std::optional<trial::Trial> without_;
};

}  // namespace assay::assayer
