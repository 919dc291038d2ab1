// What a report shows besides its findings: notes from the code, the trials in words, pictures and numbers.
#pragma once

#include "assayer/trial_runner.h"
#include "lint/lint.h"
#include "subject/tensor_cores.h"

namespace assay::assayer {

// What the subject's PTX says, read from what was built. No notes where it cannot be read: they are no
// verdict.
struct CodeReading {
  std::vector<Finding> notes;
  subject::TensorCores tensor_cores;
  std::string problem;  // PTX of the contract's own that the virtual GPU cannot read; empty: none
};
CodeReading read_code(const contract::Contract& contract, const subject::Subject& subject);
// Notes from PTX that a Python subject loaded.
std::vector<Finding> read_loaded(const contract::Contract& contract, const std::string& ptx);

// Collects what the page draws. Costs nothing unless the options ask for it.
class PageData {
 public:
  PageData(const contract::Contract& contract, const CheckOptions& options)
      : contract_(contract), options_(options) {}

  // Every trial that was judged; the largest sound one with telling inputs is drawn if nothing fails.
  void add(const trial::Trial& trial, const TrialResult& result);
  // The trial that failed, and the smallest that does, run once more for its numbers. Of several findings the
  // first that numbers tell something of is drawn.
  void add_failure(const Finding& finding, const trial::Trial& trial, const TrialResult& result,
                   const trial::Trial& small, TrialRunner& lab);

  // Puts what was collected into the report.
  void add_to(report::Report& report, const reference::Reference& reference) const;

 private:
  struct Shown {
    trial::Trial trial;
    judge::Outputs outputs;
    bool tensor_cores = false;  // its budgets allow for them
  };

  judge::Options options_for(const Shown& shown) const;

  const contract::Contract& contract_;
  const CheckOptions& options_;
  std::vector<report::TrialRow> rows_;
  Shown sound_, failed_, smallest_;
  bool drawn_of_numbers_ = false;
  std::pair<bool, double> most_telling_{false, -1};  // of the sound ones: inputs worth a look, elements
};

}  // namespace assay::assayer
