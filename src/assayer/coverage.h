// What was tried and whether it is enough for a pass, for the report; and the record of a trial, for `assay
// replay`.
#pragma once

#include <map>
#include <set>

#include "assayer/trial_runner.h"
#include "trial/plan.h"

namespace assay::assayer {

class Coverage {
 public:
  explicit Coverage(const contract::Contract& contract) : contract_(contract) {}

  void add(const trial::Trial& trial, std::string_view stage, const TrialResult& result);
  void miss(std::string what) { missed_.push_back(std::move(what)); }
  // Why a sample of the blocks told nothing, each reason once.
  void miss_sample(const std::string& why);
  // Promised values of dims that no trial reached.
  void miss_dims();
  // The plan as it stands at the end of a check.
  void conclude(const trial::Plan& plan);
  int trials() const { return trials_; }
  // Of the planned trials, 0 to 1.
  double share() const { return planned_ == 0 ? 1 : static_cast<double>(planned_ - left_) / planned_; }
  // Why this is not enough for a pass; empty: it is.
  std::string too_little(double min_share) const;
  Json json() const;

 private:
  Json errors() const;

  const contract::Contract& contract_;
  int trials_ = 0;
  int64_t judged_ = 0, elements_ = 0, undecided_ = 0;
  judge::Margins margins_;
  std::map<std::string, judge::ErrorProfile> errors_;  // by input family
  std::map<std::string, int> stages_;
  std::set<std::string> shapes_, families_, wider_;
  std::map<std::string, std::pair<int64_t, int64_t>> dims_;
  std::map<std::string, int64_t> sampled_dims_;  // the largest values of which a sample of the blocks was run
  int sampled_ = 0;                              // trials
  std::set<std::string> unsampled_, unjudged_;   // why not; why not the numbers
  std::vector<std::string> missed_;
  double largest_ = 0, largest_sparse_ = 0, largest_sampled_ = 0;  // elements of all tensors of one trial
  contract::Shape largest_shape_;

  int planned_ = 0, left_ = 0;  // trials; random ones are not planned
  trial::Requirements requirements_;
  std::vector<int64_t> thresholds_;  // of the kernel's code
};

// The contract and what the subject was built from, each {"path", "text"}: enough to do it all again. Empty
// where that is too much for a report.
Json files_of(const contract::Contract& contract, const subject::Subject& subject);

// Where the record lies; empty where it could not be written.
std::string save_trial(const contract::Contract& contract, const CheckOptions& options,
                       const Finding& finding, const trial::Trial& trial, const Json& files);

}  // namespace assay::assayer
