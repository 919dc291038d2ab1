// The order of trials: what can still change the verdict comes first.
//
// A wrong kernel is usually wrong in a plain call at a middling shape, in a long sum, at a tail, or
// for a NaN; so a few trials of each kind open the plan. Then every family, the edges of every dim,
// the conditions, the contract's own shapes, the widest shapes (a dim beyond 2^15 and 2^16, or at its
// largest), and random ones without end. Kinds of trial take turns by what they cost.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "trial/random.h"
#include "trial/trial.h"
#include "trial/work.h"

namespace assay::trial {

struct PlanOptions {
  uint64_t seed = 1;
  double max_bytes = 512e6;        // of one trial, all buffers
  double max_elements = 8e7;       // of one trial
  double max_sparse_bytes = 10e9;  // of a trial that touches few of them
  double quick_elements = 3e5;     // of the trials that open the plan
  double quick_steps = 4e6;        // of the formula, likewise
};

struct PlannedTrial {
  Trial trial;
  std::string_view stage;  // "plain", "long sums", …: for the report
  bool required = false;   // one of the contract's own shapes: it runs whatever it costs
  bool brief = false;      // worth a try though it may be slow: it runs, but not for long
};

class Plan {
 public:
  Plan(const contract::Contract& contract, PlanOptions options);

  // Whether there is time for a trial at this shape.
  using Affordable = std::function<bool(const contract::Shape&)>;
  // The next trial that can be afforded (required ones always can). Never ends.
  PlannedTrial next(const Affordable& affordable);
  // The next of those that run whatever they cost; none once all have.
  std::optional<PlannedTrial> next_required();

  std::size_t planned() const { return planned_; }    // before the random ones
  std::size_t left() const { return queue_.size(); }  // of those
  const Work& work() const { return work_; }

 private:
  void build();
  void add(std::string_view stage, contract::Shape shape,
           std::map<std::string, Family, std::less<>> families = {}, Condition condition = {},
           bool required = false);
  void add_plain_and_long();
  void add_required();
  void add_nonfinite();
  void add_families();
  void add_conditions();
  void add_edges();
  void add_wide();
  double shape_cost(const contract::Shape& shape) const;
  double cost(const PlannedTrial& planned) const;
  contract::Shape quick(contract::Shape shape, double share = 1, std::string_view keep = "") const;
  PlannedTrial random_trial(const Affordable& affordable);
  std::map<std::string, Family, std::less<>> random_families();
  void fill_scalars(Trial& trial, bool first);
  Condition rotating_condition();

  const contract::Contract& contract_;
  PlanOptions options_;
  Work work_;
  Random random_;
  std::deque<PlannedTrial> queue_;
  std::vector<std::vector<PlannedTrial>> stages_;
  std::size_t planned_ = 0;
  uint64_t trials_ = 0;
};

}  // namespace assay::trial
