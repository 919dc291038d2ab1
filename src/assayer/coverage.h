// What was tried, for the report; and the record of a trial, for `assay replay`.
#pragma once

#include <map>
#include <set>

#include "assayer/attempt.h"

namespace assay::assayer {

class Coverage {
 public:
  explicit Coverage(const contract::Contract& contract) : contract_(contract) {}

  void add(const trial::Trial& trial, std::string_view stage, const Attempt& attempt);
  void miss(std::string what) { missed_.push_back(std::move(what)); }
  // Promised values of dims that no trial reached.
  void miss_dims();
  int trials() const { return trials_; }
  Json json() const;

 private:
  const contract::Contract& contract_;
  int trials_ = 0;
  int64_t judged_ = 0, elements_ = 0, undecided_ = 0;
  std::map<std::string, int> stages_;
  std::set<std::string> shapes_, families_;
  std::map<std::string, std::pair<int64_t, int64_t>> dims_;
  std::vector<std::string> missed_;
};

// The contract and what the subject was built from, each {"path", "text"}: enough to do it all again. Empty
// where that is too much for a report.
Json files_of(const contract::Contract& contract, const subject::Subject& subject);

// Where the record lies; empty where it could not be written.
std::string save_trial(const contract::Contract& contract, const CheckOptions& options,
                       const Finding& finding, const trial::Trial& trial, const Json& files);

}  // namespace assay::assayer
