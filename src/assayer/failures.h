// From a failing trial to a finding in the report.
//
//   confirm   the failure must recur in a new process; otherwise it is noted as seen once
//   cause     the trial again under changed conditions (experiments.cpp)
//   shrink    a smaller trial with the same failure (trial/shrink.h)
//   locate    shadow execution names the line where the error enters (shadow_run.h)
//
// Each stage has its own time limit. A finding whose cause could not be found in time says so. With
// keep_going, a failure with a known cause (judge/same_cause.h) is counted and not reported again.
#pragma once

#include <span>

#include "assayer/coverage.h"
#include "assayer/limits.h"
#include "assayer/page_data.h"
#include "assayer/trial_runner.h"
#include "judge/same_cause.h"

namespace assay::assayer {

// What a check works with, once its subject is built.
struct CheckParts {
  const contract::Contract& contract;
  const CheckOptions& options;
  const subject::Subject& subject;
  const std::vector<Finding>& notes;  // from the code
  TrialRunner& trials;
  Coverage& coverage;
  PageData& page;
  Timeline& timeline;
};

class Failures {
 public:
  Failures(CheckParts parts, report::Report& report) : parts_(parts), report_(report) {}

  // A failure becomes findings of the report; false where it does not show again, and the check goes on.
  // `only`: of these kinds; empty: all.
  bool settle(trial::Trial trial, TrialResult result, std::span<const Kind> only = {});
  // Whether the failure is of one of these kinds, or has a cause that is.
  bool is_of(const trial::Trial& trial, const TrialResult& result, std::span<const Kind> kinds);
  // The trial of an earlier report's finding of this kind, made again.
  void report_replayed(const trial::Trial& trial, TrialResult result, Kind kind);
  // Whether a call that did not end in time never ends (TrialRunner::never_ends), in so many seconds.
  bool never_ends(trial::Trial& trial, TrialResult& slow, double seconds = kHangSeconds,
                  int doublings = kAllDoublings);
  // Whether the report has this cause already.
  bool knows(const Finding& finding) const { return causes_.knows(finding); }

  // Warnings of trials that otherwise pass: relations that do not hold, and what the device saw; each once.
  void keep_warnings(const trial::Trial& trial, const TrialResult& result);
  void keep_host_warnings(const TrialResult& result);
  // A Python subject that computes its outputs without a kernel of its own, as in this trial.
  void report_no_kernel(const trial::Trial& trial, Finding finding);
  // In how many trials each cause was seen.
  void count_trials();

 private:
  void say(const std::string& text) const;
  bool is_new(const trial::Trial& trial, TrialResult& result);
  void begin_stage(double seconds);
  void end_stage() { parts_.trials.set_time_left(std::nullopt); }
  bool is_same_failure(const Finding& found, const Finding& small) const;
  trial::Trial smallest(const trial::Trial& trial, Finding& finding);
  void report_findings(const trial::Trial& trial, const TrialResult& result, bool shrinking,
                       const std::vector<Finding>& seen);
  void report_finding(Finding finding, const trial::Trial& trial, const trial::Trial& small,
                      const TrialResult& result);

  CheckParts parts_;
  report::Report& report_;
  judge::KnownCauses causes_;
  int rechecks_ = 0;  // of failures that may have a known cause
};

}  // namespace assay::assayer
