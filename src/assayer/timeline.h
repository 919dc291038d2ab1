// How a check went where that depended on time: which trials were too expensive, which did not end, how long
// the search for a smaller case was. A check that follows the timeline of another makes the same trials and
// finds the same, however fast the machine is by then.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "finding/json.h"

namespace assay::assayer {

class Timeline {
 public:
  // One step for each trial that the plan is asked for.
  struct Step {
    int passed_over = 0;       // trials before it that were too expensive
    bool out_of_time = false;  // only those that run whatever they cost
    std::string slow;          // why it was given up; empty: it ended
  };

  void add(Step step) { steps_.push_back(std::move(step)); }
  Step& last() { return steps_.back(); }
  const std::vector<Step>& steps() const { return steps_; }

  // One for each failure that became findings.
  struct Settled {
    int runs = 0;       // to confirm it and to find its cause, if time ended that; else kAll
    int shrinking = 0;  // attempts to make the failing trial smaller
  };
  static constexpr int kAll = -1;
  std::vector<Settled> settled;
  // Steps whose call did not end, and it was not known whether it ever does until more time was spent on that; or why that
  // is still not known.
  std::map<std::size_t, std::string> unexplained;
  int64_t postponed = -1;    // the step from which giant shapes waited for what a pass requires; -1: none
  double budget_needed = 0;  // seconds with which the check would have been a verdict; 0: it was one

  Json json() const;
  static Result<Timeline> from_json(const Json& json);

 private:
  std::vector<Step> steps_;
};

}  // namespace assay::assayer
