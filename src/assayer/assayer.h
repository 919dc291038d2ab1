// The assayer: from a contract to a report. Joins the plan, the worker, the judge and shrinking.
//
// Example:
//
//     CheckOutcome outcome = check(contract, {.budget = 20});             // plan, trials, findings, verdict
//     CheckOutcome again = replay(contract, trial, Kind::DataRace, {});  // one trial of a report
//     CheckOutcome shown = investigate(contract, std::span(&trial, 1), std::array{Kind::DataRace}, {});
//
// A check takes trials from the plan as long as they can be afforded. The first that shows an error is
// confirmed in a new process, its cause is looked for under changed conditions, and it is made small.
//
//   trial_runner.h   one trial, run and judged; the experiments that show its cause; whether it ever ends
//   seen.h           what the device and the process reported, as findings
//   shadow_run.h     a trial with shadow execution
//   timeline.h       which choices depended on time, so that a check can be repeated exactly
//   two_devices.cpp  a check on the virtual device and on a real GPU
//   locate.h         which source line a numeric finding is about
//   coverage.h       what was tried; records of trials
//   page_data.h      notes from the code; what the report's page draws
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "assayer/timeline.h"
#include "reference/reference.h"
#include "report/report.h"
#include "subject/runner.h"
#include "subject/subject.h"
#include "trial/trial.h"

namespace assay::assayer {

struct CheckOptions {
  subject::Device device = subject::Device::Virtual;
  std::string
      device_problem;  // why a GPU cannot be used, if it turns out that it cannot; else what the runtime says
  uint64_t seed = 1;
  double budget = 20;  // seconds of trials
  // When trials end that a pass does not require, the budget spent or not.
  std::optional<std::chrono::steady_clock::time_point> deadline{};
  double min_coverage = 0;           // share of the planned trials below which a check cannot pass
  std::optional<Timeline> timeline;  // of an earlier check, to be followed exactly
  std::string cache;                 // of builds; empty: the user's
  int threads = 0;                   // of the judge; 0: as many as the machine has
  bool margins = false;              // the report says how close outputs came to the gates
  bool pictures = false;             // the report gets what its page draws
  bool keep_going = false;           // after a finding: until the budget is spent, for other causes
  std::vector<std::string>
      sanitizers;              // on a real GPU: tools of compute-sanitizer that observe a few trials, too
  bool verdict_only = false;   // a failure that shows again is enough: neither its cause nor a smallest case
  trial::Generator generator;  // of the contract's [inputs]; a check fills it in
  subject::RunnerOptions runner;
  // What was started ahead of the check, where it was: they import torch, which takes seconds.
  std::shared_ptr<reference::TorchProcess> torch;
  std::shared_ptr<subject::Interpreter> interpreter;
  // Called after each trial with what it asked of the device (Observation::recorded); empty: that is not recorded.
  std::function<void(const trial::Trial&, const subject::Observation&)> launched;
  // Asked between trials: whether what is being looked for was found elsewhere.
  std::function<bool()> stopped;
  std::function<void(const std::string&)> progress;  // a short line, often
  std::function<void(const std::string&)> trace;     // a line for every trial
};

struct CheckOutcome {
  report::Report report;
  bool contract_wrong = false;  // exit status 2; `problem` says why
  std::string problem;          // as a terminal shows it (base/diagnostic.h)
};

// Runs the whole plan, or until something is found.
CheckOutcome check(const contract::Contract& contract, const CheckOptions& options);
// The same on the virtual device and on a real GPU at the same time, with one report: each finding says which device saw
// it. The first failure ends both, and is looked for on the other device (two_devices.cpp). `apart`: neither waits for
// the other, and the coverage says what each would have said alone.
CheckOutcome check_on_both(const contract::Contract& contract, const CheckOptions& options,
                           bool apart = false);
// Runs one trial, as a report holds it for a finding of this kind, and says what it shows.
CheckOutcome replay(const contract::Contract& contract, const trial::Trial& trial, Kind kind,
                    const CheckOptions& options);
// Runs these trials in turn, within the budget, until one shows an error of one of these kinds. That one is
// treated as a check treats a failure: confirmed in a new process, made small, recorded for `assay replay`.
// Errors of other kinds are not reported: the caller has a reason to expect these. Without kinds: an error of any.
CheckOutcome investigate(const contract::Contract& contract, std::span<const trial::Trial> trials,
                         std::span<const Kind> kinds, const CheckOptions& options);

}  // namespace assay::assayer
