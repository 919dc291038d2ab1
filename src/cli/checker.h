// A check: from a contract to a report. Joins the plan, the worker, the judge and shrinking.
#pragma once

#include <functional>
#include <string>

#include "contract/reference.h"
#include "report/report.h"
#include "subject/runner.h"
#include "trial/trial.h"

namespace assay::cli {

struct CheckOptions {
  subject::Device device = subject::Device::Virtual;
  uint64_t seed = 1;
  double budget = 20;  // seconds of trials
  std::string cache;   // of builds; empty: the user's
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
// Runs one trial, as a report holds it, and says what it shows.
CheckOutcome replay(const contract::Contract& contract, const trial::Trial& trial,
                    const CheckOptions& options);

}  // namespace assay::cli
