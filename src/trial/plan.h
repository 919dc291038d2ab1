// The order of trials: what can still change the verdict comes first.
//
// A wrong kernel is usually wrong in a plain call at a middling shape, in a long sum, at a tail, or for a
// NaN; so a few of these open the plan. Then comes what a pass requires (requirements.h): every family of
// inputs, every kind of condition, the edges and corners of every dim, the contract's own shapes, the
// kernel's own thresholds. Then the rest of each kind, sizes of real models, the widest shapes (a dim beyond
// 2^15 and 2^16, or at its largest), and random shapes without end. Kinds of trial take turns by what they
// cost.
//
// A fleet has more than one kind of GPU, and a kernel runs on any day: the first trials run on a full GPU, a
// slice of one and a smaller one, and later ones take turns, many trials on each. A process stays on its
// machine, and what a kernel remembers from call to call shows only in a process that goes on.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "contract/formula_case.h"
#include "trial/requirements.h"
#include "trial/thresholds.h"
#include "trial/trial.h"
#include "trial/work.h"

namespace assay::trial {

struct PlanOptions {
  uint64_t seed = 1;
  double max_bytes = 512e6;         // of one trial, all buffers
  double max_elements = 8e7;        // of one trial
  double max_sparse_bytes = 10e9;   // of a trial that touches few of them
  double max_sampled_bytes = 60e9;  // of a trial of which a sample of the blocks is run; a GPU has more
  double quick_elements = 3e5;      // of the trials that open the plan
  double quick_steps = 4e6;         // of the formula, likewise
  bool machines = true;             // the device can present itself as different GPUs, and takes schedules
  bool load = false;                // the device is a real GPU, which other kernels can fill
  bool presents = false;            // … and can present itself as a smaller one
  bool samples = false;             // the device can run some blocks of a grid
  SizeConstants constants;          // of the kernel's code
};

struct PlannedTrial {
  Trial trial;
  std::string_view stage;  // "plain", "long sums", …: for the report
  bool required = false;   // one of the contract's own shapes: it runs whatever it costs
  bool needed = false;     // a pass requires it
  bool brief = false;      // worth a try though it may be slow: it runs, but not for long
};

class Plan {
 public:
  Plan(const contract::Contract& contract, PlanOptions options);

  // Whether there is time for a trial at this shape, which a pass may need.
  using Affordable = std::function<bool(const contract::Shape&, bool needed)>;
  // The next trial that can be afforded (required ones always can). Never ends.
  PlannedTrial next(const Affordable& affordable);
  // The next of those that run whatever they cost; none once all have.
  std::optional<PlannedTrial> next_required();

  // What became of a trial: it was judged, or cannot be made (no legal inputs at this shape).
  void judged(const Trial& trial) { requirements_.meet(trial); }
  void skip(const PlannedTrial& skipped);
  // Or the device saw an error, and the numbers were not judged: what is particular about it is tried again at
  // a shape at which they were, so that one cause does not hide another.
  void hidden(const PlannedTrial& planned);
  void judged_at(const Trial& trial);
  // A trial of which a sample of the blocks was run told nothing: a pass does not require it, and the report says why. It
  // requires each dim beyond 16 bits instead, run whole.
  void waive_sampled(const Trial& trial);
  // No more of them: they tell nothing of this subject.
  void drop_sampled();
  // Giant shapes are promised that the device cannot run by a sample (PlanOptions::samples).
  bool leaves_out_giants() const { return leaves_out_giants_; }
  // Every shape that is promised is too large to be run whole: there are trials by a sample of the blocks, and no others.
  bool only_giants() const { return only_giants_; }
  // Those that are left wait for what a pass requires: they have had their share of the time.
  void postpone_sampled();

  const Requirements& requirements() const { return requirements_; }
  // Trials that a pass still requires.
  std::vector<const Trial*> needed_left() const;
  std::size_t planned() const { return planned_ - skipped_; }  // before the random ones
  std::size_t left() const { return queue_.size(); }           // of those
  const Thresholds& thresholds() const { return thresholds_; }
  const Work& work() const { return work_; }

 private:
  void build();
  void add(std::string_view stage, const contract::Shape& shape,
           std::map<std::string, Family, std::less<>> families = {}, Condition condition = {},
           bool required = false);
  void add_plain_and_long();
  void add_short_sums();
  void add_scalar_values();
  void add_required();
  void add_problem_inputs();
  contract::Shape listed(std::size_t turn) const;
  void add_nonfinite();
  void add_infinite_parts();
  void add_infinities_that_meet();
  void add_nan_times_zero();
  void add_levels();
  void add_products_below();
  void add_families();
  void add_presence();
  void add_cases();
  std::vector<contract::Shape> shapes_for_cases() const;
  std::vector<contract::Scalars> scalars_for_cases(const contract::Scalars& plain) const;
  void add_conditions();
  void add_conditions_of_several_blocks();
  void add_edges();
  void add_corners();
  void add_thresholds();
  void add_runs();
  void add_runs(const contract::TensorSpec& spec, const std::vector<int64_t>& sizes, bool required);
  void add_alike(const contract::TensorSpec& spec, int64_t size);
  void require_run(const contract::TensorSpec& spec, int64_t size, int64_t count);
  void draw_runs(Trial& trial, const Affordable& affordable);
  void add_joint(std::vector<contract::Shape> shapes);
  void add_model_sizes();
  void add_wide();
  void add_giant();
  void interleave();
  void drop_too_large();
  void require_each_kind();
  void require_wide();
  void put_needed_first();
  void require_dim(RequirementGroup group, const contract::Dim& dim, std::string_view relation,
                   int64_t value);
  contract::Shape stretch(const contract::Dim& dim) const;
  bool within_corners(const contract::Shape& shape) const;
  bool within(const contract::Shape& shape, double elements, double steps, int64_t rows) const;
  contract::Shape farthest(const contract::Dim& dim) const;
  double shape_cost(const contract::Shape& shape) const;
  double cost(const PlannedTrial& planned) const;
  contract::Shape quick(contract::Shape shape, double share = 1, std::string_view keep = "") const;
  contract::Shape with_special_size(contract::Shape shape, int64_t limit);
  PlannedTrial random_trial(const Affordable& affordable);
  std::map<std::string, Family, std::less<>> random_families();
  void fill_scalars(Trial& trial, bool first);
  void draw_inner_integers(Trial& trial);
  Condition rotating_condition();
  void add_load(const contract::Shape& shape);
  void add_other_machines();
  void require_machines();
  PlannedTrial placed(PlannedTrial planned);

  const contract::Contract& contract_;
  PlanOptions options_;
  Work work_;
  Thresholds thresholds_;
  Requirements requirements_;
  Random random_;
  std::deque<PlannedTrial> queue_;
  std::deque<PlannedTrial> hidden_, again_;  // the latter at their other shapes
  std::set<std::string> kinds_tried_;        // of inputs and conditions: judged, or in one of these
  std::vector<std::vector<PlannedTrial>> stages_;
  bool leaves_out_giants_ = false, only_giants_ = false;
  std::vector<contract::Shape>
      cheapest_;  // of only_listed_shapes: those that every kind of trial takes turns at
  std::size_t planned_ = 0, skipped_ = 0;
  uint64_t trials_ = 0;
  std::size_t handed_out_ = 0;
};

}  // namespace assay::trial
