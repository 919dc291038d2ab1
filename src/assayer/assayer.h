// The assayer: from a contract to a report. Joins the plan, the worker, the judge and shrinking.
//
//   CheckOutcome outcome = check(contract, {.budget = 20});     // plan, trials, findings, verdict
//   CheckOutcome again = replay(contract, trial, kind, {});     // one trial of a report
//
// A check takes trials from the plan as long as they can be afforded. The first that shows an error is
// confirmed in a new process, its cause is looked for under changed conditions, and it is made small.
//
//   attempt.h    one trial, run and judged; what its failure is a failure of; whether it ever ends
//   causes.h     which findings have one cause
//   course.h     how it went, so that it can be repeated exactly
//   locate.h     which source line a numeric finding is about
//   coverage.h   what was tried; records of trials
//   gallery.h    notes from the code; what the report's page draws
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "assayer/course.h"
#include "contract/reference.h"
#include "report/report.h"
#include "subject/runner.h"
#include "trial/trial.h"

namespace assay::assayer {

struct CheckOptions {
  subject::Device device = subject::Device::Virtual;
  uint64_t seed = 1;
  double budget = 20;            // seconds of trials
  double min_coverage = 0;       // share of the planned trials below which a check cannot pass
  std::optional<Course> course;  // of an earlier check, to be followed exactly
  std::string cache;             // of builds; empty: the user's
  int threads = 0;               // of the judge; 0: as many as the machine has
  bool pictures = false;         // the report gets what its page draws
  bool keep_going = false;       // after a finding: until the budget is spent, for other causes
  subject::RunnerOptions runner;
  std::function<void(const std::string&)> progress;  // a short line, often
  std::function<void(const std::string&)> trace;     // a line for every trial
};

struct CheckOutcome {
  report::Report report;
  bool contract_wrong = false;  // exit status 2; `problem` says why
  std::string problem;
};

// Runs the whole plan, or until something is found.
CheckOutcome check(const contract::Contract& contract, const CheckOptions& options);
// Runs one trial, as a report holds it for a finding of this kind, and says what it shows.
CheckOutcome replay(const contract::Contract& contract, const trial::Trial& trial, std::string_view kind,
                    const CheckOptions& options);

}  // namespace assay::assayer
