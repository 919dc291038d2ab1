// The stage of a plan that is about sizes which no dim gives: those of segments between offsets, and of rows whose lengths are
// in a tensor.
#include <fmt/format.h>

#include <algorithm>

#include "trial/plan.h"
#include "trial/plan_inputs.h"
#include "trial/plan_limits.h"
#include "trial/runs.h"
#include "trial/shapes.h"

namespace assay::trial {

using contract::Shape;
using contract::TensorSpec;

namespace {

std::vector<const TensorSpec*> inputs_with_sizes(const contract::Contract& contract) {
  std::vector<const TensorSpec*> inputs = contract.inputs();
  std::erase_if(inputs, [](const TensorSpec* spec) { return !has_sizes(*spec); });
  return inputs;
}

// In place of a family, of which nothing is tried here.
void set_runs(Trial& trial, const TensorSpec& spec, std::vector<int64_t> sizes) {
  trial.families.erase(spec.name);
  trial.runs[spec.name] = std::move(sizes);
}

}  // namespace

void Plan::add_runs() {
  stages_.emplace_back();
  for (const TensorSpec* spec : inputs_with_sizes(contract_)) {
    const int64_t most = largest_size(contract_, *spec);
    const Thresholds::Sizes sizes = thresholds_.sizes(most);
    add_runs(*spec, sizes.required, true);
    std::vector<int64_t> beyond = thresholds_.beyond(most);
    if (beyond.size() > kMostAlike) beyond.resize(kMostAlike);
    for (const int64_t size : beyond) add_alike(*spec, size);
    add_runs(*spec, sizes.others, false);
  }
}

// Several sizes in one trial, as many as are cheap.
void Plan::add_runs(const TensorSpec& spec, const std::vector<int64_t>& sizes, bool required) {
  std::vector<int64_t> together;
  Shape shape;
  std::size_t trials = 0;
  const auto fits = [&](const std::vector<int64_t>& group, int64_t of_each, double elements, double steps) {
    const auto found = shape_for(contract_, spec, group, of_each, kBesideRun);
    if (!found || !within(*found, elements, steps, kNamedRows)) return false;
    shape = *found;
    return true;
  };
  const auto flush = [&] {
    if (together.empty() || (!required && ++trials > kMostOtherRuns)) return;
    add("thresholds", shape, turns(contract_, trials_), rotating_condition());
    Trial& trial = stages_.back().back().trial;
    set_runs(trial, spec, together);
    for (const int64_t size : together)
      if (required) require_run(spec, size, run_of(spec, trial, size));
    together.clear();
  };
  for (const int64_t size : sizes) {
    std::vector<int64_t> wider = together;
    wider.push_back(size);
    if (wider.size() <= kMostSizesAtOnce && fits(wider, kRun, kEdgeElements, kEdgeSteps)) {
      together = wider;
      continue;
    }
    flush();
    int64_t of_each = kRun;
    for (; of_each > 0 && together.empty(); of_each /= 2)
      if (fits({size}, of_each, kCornerElements, kCornerSteps)) together = {size};
    if (together.empty() && fits({size}, 1, kNamedElements, kNamedSteps)) together = {size};
  }
  flush();
}

// Long rows alone: a queue of them is full, none of their partners is short.
void Plan::add_alike(const TensorSpec& spec, int64_t size) {
  int64_t rows = kAlikeRows;
  for (int fewer = 0; fewer < kMostFewer; ++fewer, rows /= 2) {
    const auto shape = shape_for(contract_, spec, {size}, rows, kBesideRun);
    if (!shape || !within(*shape, kNamedElements, kNamedSteps, kNamedRows)) continue;
    add("thresholds", *shape, turns(contract_, trials_), rotating_condition());
    Trial& trial = stages_.back().back().trial;
    set_runs(trial, spec, {size});
    require_run(spec, size, run_of(spec, trial, size));
    return;
  }
}

void Plan::require_run(const TensorSpec& spec, int64_t size, int64_t count) {
  if (count == 0) return;
  requirements_.add(RequirementGroup::Thresholds, fmt::format("{} of {} in {}", count, size, spec.name),
                    [&spec, size, count](const Trial& trial) {
                      return trial.sparse.empty() && run_of(spec, trial, size) >= count;
                    });
}

// Now and then in random trials, so that such sizes meet other dims of all kinds.
void Plan::draw_runs(Trial& trial, const Affordable& affordable) {
  for (const TensorSpec* spec : inputs_with_sizes(contract_)) {
    if (!random_.chance(kRunsShare)) continue;
    const Thresholds::Sizes known = thresholds_.sizes(largest_size(contract_, *spec));
    std::vector<int64_t> sizes;
    for (int64_t left = random_.between(1, kMostRandomSizes); left > 0; --left) {
      const std::vector<int64_t>& from =
          known.others.empty() || random_.chance(kThresholdShare) ? known.required : known.others;
      sizes.push_back(
          from[static_cast<std::size_t>(random_.between(0, static_cast<int64_t>(from.size()) - 1))]);
    }
    Shape shape = with_total(contract_, *spec, trial.shape, sizes);
    const Limits limits{options_.quick_elements * kUnhurried, options_.max_bytes,
                        options_.quick_steps * kUnhurried};
    const auto size = work_.of(shape);
    const bool cheap = size && size->elements <= limits.elements && size->bytes <= limits.bytes &&
                       size->steps <= limits.steps && affordable(shape, false);
    if (cheap) trial.shape = std::move(shape);
    set_runs(trial, *spec, std::move(sizes));
  }
}

}  // namespace assay::trial
