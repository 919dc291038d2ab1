#include "trial/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "trial/plan_limits.h"
#include "trial/shapes.h"

namespace assay::trial {

using contract::Contract;
using contract::Shape;

namespace {

constexpr std::string_view kRandom = "random";  // a stage without end

// What is particular about a trial but for its shape and its numbers.
std::string kind_of(const Trial& trial) {
  std::string text;
  for (const auto& [input, family] : trial.families)
    if (family != Family::Natural) text += fmt::format("{} {},", input, to_string(family));
  for (const auto& [input, sizes] : trial.runs) text += fmt::format("{} {},", input, fmt::join(sizes, "/"));
  for (const std::string& kind : kinds_of(trial.condition)) text += kind + ",";
  return text;
}

}  // namespace

Plan::Plan(const Contract& contract, PlanOptions options)
    : contract_(contract),
      options_(std::move(options)),
      work_(contract),
      thresholds_(contract, options_.constants),
      random_(mix(options_.seed, kPlanStream)) {
  build();
}

double Plan::shape_cost(const Shape& shape) const {
  const auto size = work_.of(shape);
  return (size ? size->steps * kStepCost : 0) +
         static_cast<double>(leading_extent(contract_, shape)) * kRowCost;
}

double Plan::cost(const PlannedTrial& planned) const {
  const Condition& condition = planned.trial.condition;
  const double calls = condition.looped || condition.loaded         ? kManyCalls
                       : condition.overlapped || condition.repeated ? 2
                                                                    : 1;
  const double share = planned.brief ? kBriefCostShare : 1;
  if (planned.trial.sampled) return kSampledCost;
  return share * calls * (kTrialCost + (planned.trial.sparse.empty() ? shape_cost(planned.trial.shape) : 0));
}

// Stages take turns by what their trials cost, so that no kind of trial waits for all of another, and many
// small ones do not wait for a large one.
void Plan::interleave() {
  const std::size_t opening = std::min(stages_[0].size(), kOpening);
  std::vector<std::size_t> next(stages_.size(), 0);
  std::vector<double> spent(stages_.size(), 0);
  for (; next[0] < opening; ++next[0]) queue_.push_back(stages_[0][next[0]]);
  for (;;) {
    std::size_t turn = stages_.size();
    double least = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      if (next[s] == stages_[s].size()) continue;
      const double then = spent[s] + cost(stages_[s][next[s]]);
      if (turn < stages_.size() && then >= least) continue;
      turn = s;
      least = then;
    }
    if (turn == stages_.size()) break;
    spent[turn] = least;
    queue_.push_back(std::move(stages_[turn][next[turn]++]));
  }
  stages_.clear();
}

namespace {

double elements_of(const Contract& contract, const Trial& trial) {
  const Result<Size> size = size_of(contract, trial.shape);
  return size ? size->elements : 0;
}

// Whether what an input holds can show: not where another is all zeros.
bool tells(const Contract& contract, const Trial& trial, const std::string& input) {
  return std::none_of(trial.families.begin(), trial.families.end(), [&](const auto& other) {
    const contract::TensorSpec* spec = contract.tensor(other.first);
    return other.first != input && other.second == Family::Zeros && spec && contract::is_float(spec->dtype);
  });
}

}  // namespace

// What a pass requires of conditions and inputs follows from what the plan holds: a stage that brings a new
// kind of condition need not say that it is required.
void Plan::require_each_kind() {
  for (const PlannedTrial& planned : queue_) {
    if (planned.brief) continue;
    for (const std::string& kind : kinds_of(planned.trial.condition)) {
      requirements_.add(RequirementGroup::Conditions, kind, [kind](const Trial& trial) {
        const std::vector<std::string> kinds = kinds_of(trial.condition);
        return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
      });
    }
    for (const auto& [input, family] : planned.trial.families) {
      // A NaN may be lost in one input and not in another; other families are about sums and ranges.
      const std::string where = is_nonfinite(family) ? input : "";
      const double elements = std::min(kTellingElements, elements_of(contract_, planned.trial));
      requirements_.add(
          RequirementGroup::Inputs, fmt::format("{}{}{}", where, where.empty() ? "" : " ", to_string(family)),
          [&contract = contract_, where, elements, family = family](const Trial& trial) {
            return elements_of(contract, trial) >= elements &&
                   std::any_of(trial.families.begin(), trial.families.end(), [&](const auto& f) {
                     return f.second == family && (where.empty() || where == f.first) &&
                            tells(contract, trial, f.first);
                   });
          });
    }
  }
  for (const Shape& shape : contract_.shapes)
    requirements_.add(RequirementGroup::Shapes, contract::to_string(shape),
                      [shape](const Trial& trial) { return trial.shape == shape; });
}

// Trials that a pass requires come first, in the order that they have among themselves: as soon as they have
// run, whatever the budget, a verdict can be given. The contract's own shapes, which may be large, follow:
// they run even when the budget is spent.
void Plan::put_needed_first() {
  Requirements open = requirements_;
  for (PlannedTrial& planned : queue_) {
    planned.needed = (!planned.brief || planned.trial.sampled) && open.wants(planned.trial);
    if (planned.needed) open.meet(planned.trial);
  }
  const auto rank = [&](const PlannedTrial& planned) {
    return planned.required ? 1 : planned.needed ? 0 : 2;
  };
  std::vector<std::vector<PlannedTrial>> ranked(3);
  for (PlannedTrial& planned : queue_)
    ranked[static_cast<std::size_t>(rank(planned))].push_back(std::move(planned));
  queue_.clear();
  for (std::vector<PlannedTrial>& part : ranked)
    for (PlannedTrial& planned : part) queue_.push_back(std::move(planned));
}

// Stages make shapes as small as the promise allows, which may still be too large.
void Plan::drop_too_large() {
  const auto is_whole = [](const PlannedTrial& planned) {
    return !planned.trial.sampled && planned.trial.sparse.empty();
  };
  std::erase_if(queue_, [&](const PlannedTrial& planned) {
    const auto size = size_of(contract_, planned.trial.shape);
    return is_whole(planned) && !planned.required && (!size || size->bytes > options_.max_bytes);
  });
  only_giants_ = std::none_of(queue_.begin(), queue_.end(), is_whole);
}

void Plan::build() {
  if (contract_.only_listed_shapes) {
    cheapest_ = contract_.shapes;
    std::stable_sort(cheapest_.begin(), cheapest_.end(),
                     [&](const Shape& a, const Shape& b) { return shape_cost(a) < shape_cost(b); });
    if (cheapest_.size() > kMostListed) cheapest_.resize(kMostListed);
  }
  add_plain_and_long();
  add_nonfinite();
  add_families();
  add_conditions();
  add_required();
  add_problem_inputs();
  if (!contract_.only_listed_shapes) {
    add_edges();
    add_corners();
    add_thresholds();
    add_runs();
    add_model_sizes();
    add_wide();
    add_giant();
    add_short_sums();
    add_scalar_values();
    add_conditions_of_several_blocks();
  }
  interleave();
  drop_too_large();
  planned_ = queue_.size();
  require_each_kind();
  put_needed_first();
  require_machines();
}

void Plan::require_machines() {
  if (!options_.machines) return;
  const auto on = [&](const char* text, auto met_by) {
    requirements_.add(RequirementGroup::Conditions, text,
                      [met_by](const Trial& trial) { return met_by(kGpus[trial.condition.gpu]); });
  };
  on("a full GPU", [](const Gpu& gpu) { return gpu.multiprocessors == kGpus[0].multiprocessors; });
  on("a slice of a GPU", [](const Gpu& gpu) { return gpu.slice; });
  on("a smaller GPU",
     [](const Gpu& gpu) { return !gpu.slice && gpu.multiprocessors < kGpus[0].multiprocessors; });
  requirements_.add(RequirementGroup::Conditions, "another date",
                    [](const Trial& trial) { return trial.condition.clock != 0; });
}

// The machine is that of the trial's place in the order in which trials are handed out, so that those that
// follow each other share a process.
PlannedTrial Plan::placed(PlannedTrial planned) {
  if (!options_.machines) return planned;
  std::size_t machine = 0, left = handed_out_++;
  for (; machine < std::size(kFirstStays) && left >= kFirstStays[machine]; ++machine)
    left -= kFirstStays[machine];
  if (machine == std::size(kFirstStays)) machine += left / kStay;
  // What is too large for a slice's memory stays on a full GPU.
  const auto gpu = static_cast<uint8_t>(machine % std::size(kGpus));
  const auto size = size_of(contract_, planned.trial.shape);
  const bool fits = size && size->bytes <= kMemoryShare * static_cast<double>(kGpus[gpu].bytes);
  planned.trial.condition.gpu = fits && !planned.trial.sampled ? gpu : uint8_t{0};
  planned.trial.condition.clock = kClocks[machine % std::size(kClocks)];
  return planned;
}

void Plan::hidden(const PlannedTrial& planned) {
  if (planned.trial.sparse.empty() && kinds_tried_.insert(kind_of(planned.trial)).second)
    hidden_.push_back(planned);
}

void Plan::judged_at(const Trial& trial) {
  kinds_tried_.insert(kind_of(trial));
  if (hidden_.empty() || !trial.sparse.empty() || trial.sampled) return;
  again_.push_back(std::move(hidden_.front()));
  hidden_.pop_front();
  again_.back().trial.shape = trial.shape;
  again_.back().required = again_.back().needed = again_.back().brief = false;
}

void Plan::waive_sampled(const Trial& trial) {
  requirements_.waive(trial, {});
  require_wide();
}

// For each dim the first trial in which it is just beyond 2^16, as far as that is as cheap as sizes that a kernel's code
// names.
void Plan::require_wide() {
  for (const contract::Dim& dim : contract_.dims) {
    const auto is_wide = [&](const PlannedTrial& planned) {
      const int64_t value = planned.trial.shape.at(dim.name);
      return planned.stage == kWide && value > kEndsOf16Bits[0] && value <= kEndsOf16Bits[0] + 2 * kBeyond &&
             within(planned.trial.shape, kNamedElements, kNamedSteps, 2 * kEndsOf16Bits[0]);
    };
    const auto it = std::find_if(queue_.begin(), queue_.end(), is_wide);
    if (it == queue_.end() || it->needed) continue;
    it->needed = true;
    it->brief = false;
    require_dim(RequirementGroup::Corners, dim, ">=", it->trial.shape.at(dim.name));
    std::rotate(queue_.begin(), it, std::next(it));  // what is left of the time is best spent on it
  }
}

void Plan::drop_sampled() {
  for (const PlannedTrial& planned : queue_)
    if (planned.trial.sampled) waive_sampled(planned.trial);
  skipped_ += std::erase_if(queue_, [](const PlannedTrial& planned) { return planned.trial.sampled; });
}

void Plan::postpone_sampled() {
  const auto rank = [](const PlannedTrial& planned) {
    return !planned.needed && !planned.required ? 2 : planned.trial.sampled ? 1 : 0;
  };
  std::stable_sort(queue_.begin(), queue_.end(),
                   [&](const PlannedTrial& a, const PlannedTrial& b) { return rank(a) < rank(b); });
}

PlannedTrial Plan::next(const Affordable& affordable) {
  if (!again_.empty()) {
    PlannedTrial planned = std::move(again_.front());
    again_.pop_front();
    return placed(std::move(planned));
  }
  for (auto it = queue_.begin(); it != queue_.end(); ++it) {
    if (!it->required && !it->brief && !affordable(it->trial.shape, it->needed)) continue;
    PlannedTrial planned = std::move(*it);
    queue_.erase(it);
    return placed(std::move(planned));
  }
  return placed(random_trial(affordable));
}

void Plan::skip(const PlannedTrial& skipped) {
  std::vector<const Trial*> left;
  for (const PlannedTrial& planned : queue_) left.push_back(&planned.trial);
  Trial anywhere = skipped.trial;  // others will be on its machine, too
  anywhere.condition.gpu = 0;
  anywhere.condition.clock = 0;
  requirements_.waive(anywhere, left);
  skipped_ += skipped.stage != kRandom;
}

std::vector<const Trial*> Plan::needed_left() const {
  std::vector<const Trial*> left;
  for (const PlannedTrial& planned : queue_)
    if (planned.needed && requirements_.wants(planned.trial)) left.push_back(&planned.trial);
  return left;
}

std::optional<PlannedTrial> Plan::next_required() {
  const auto it = std::find_if(queue_.begin(), queue_.end(),
                               [](const PlannedTrial& planned) { return planned.required; });
  if (it == queue_.end()) return std::nullopt;
  PlannedTrial planned = std::move(*it);
  queue_.erase(it);
  return placed(std::move(planned));
}

// Now and then one dim takes a size of the kernel's code or of a model, so that these meet other dims of all
// kinds.
Shape Plan::with_special_size(Shape shape, int64_t limit) {
  for (const contract::Dim& dim : contract_.dims) {
    if (dim.is_constant() || !random_.chance(kSpecialShare)) continue;
    std::vector<int64_t> sizes = random_.chance(kThresholdShare) ? thresholds_.values(dim) : model_sizes(dim);
    std::erase_if(sizes, [&](int64_t size) { return size > limit; });
    if (!sizes.empty())
      shape[dim.name] =
          sizes[static_cast<std::size_t>(random_.between(0, static_cast<int64_t>(sizes.size()) - 1))];
  }
  return shape;
}

PlannedTrial Plan::random_trial(const Affordable& affordable) {
  stages_.assign(1, {});
  Shape shape;
  for (int64_t limit = kMostEdge; limit > 0; limit /= 2) {
    shape = quick(with_special_size(random_shape(contract_, random_, limit), limit), kUnhurried);
    if (affordable(shape, false)) break;
  }
  Condition condition = rotating_condition();
  if (contract_.require.concurrent && random_.chance(kOverlappedShare)) condition.overlapped = true;
  add(kRandom, std::move(shape), random_families(), condition);
  PlannedTrial planned = std::move(stages_[0][0]);
  stages_.clear();
  draw_runs(planned.trial, affordable);
  return planned;
}

}  // namespace assay::trial
