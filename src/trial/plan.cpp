#include "trial/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "trial/families.h"
#include "trial/shapes.h"
#include "trial/sparse.h"

namespace assay::trial {

using contract::Contract;
using contract::Dim;
using contract::Shape;
using contract::TensorSpec;
using contract::ValuesKind;
using Families = std::map<std::string, Family, std::less<>>;

namespace {

// What a trial costs before anything is known of the kernel: seconds of its own, for a step of the formula,
// and for a row, which is a block as a rule. Only to put trials in order, so it does not depend on the
// machine.
constexpr double kTrialCost = 0.01, kStepCost = 5e-8, kRowCost = 2e-5;
constexpr int64_t kStretched = 4099;  // what one dim is where sums are to be long

bool takes_nonfinite(const TensorSpec& spec) {
  switch (spec.values.kind) {
    case ValuesKind::Real:
    case ValuesKind::Activations:
    case ValuesKind::Gradients:
    case ValuesKind::Weights:
    case ValuesKind::Positive:
      return contract::is_float(spec.dtype);
    default:
      return false;
  }
}

// The families that make sums long and hard, as far as each input knows them.
Families hard_sums(const Contract& contract, Family floats, Family integers) {
  const bool largest_sums = floats == Family::SameSign || integers == Family::Extremes;
  Families families;
  for (const TensorSpec* spec : contract.inputs()) {
    Family wanted = contract::is_float(spec->dtype) ? floats : integers;
    if (largest_sums && spec->values.kind == ValuesKind::Integers) wanted = Family::NearTop;
    const std::vector<Family> known = families_for(*spec);
    families[spec->name] =
        std::find(known.begin(), known.end(), wanted) != known.end() ? wanted : known.front();
  }
  return families;
}

// The largest leading extent of any tensor: as a rule a launch has that many blocks or threads.
int64_t leading_extent(const Contract& contract, const Shape& shape) {
  int64_t most = 0;
  for (const TensorSpec& spec : contract.tensors) {
    if (spec.shape.size() < 2) continue;
    if (const auto n = spec.shape.front().eval(shape)) most = std::max(most, *n);
  }
  return most;
}

contract::Scalar scalar_of(const contract::ScalarSpec& spec, double value) {
  if (contract::is_float(spec.dtype)) return contract::Scalar::of(spec.dtype, value);
  return contract::Scalar::of_int(spec.dtype, static_cast<int64_t>(value));
}

Families all(const Contract& contract, Family floats) {
  return hard_sums(contract, floats, Family::Uniform);
}

}  // namespace

Plan::Plan(const Contract& contract, PlanOptions options)
    : contract_(contract), options_(options), work_(contract), random_(mix(options.seed, 1)) {
  build();
}

void Plan::add(std::string_view stage, Shape shape, Families families, Condition condition, bool required) {
  PlannedTrial planned;
  planned.stage = stage;
  planned.required = required;
  planned.trial.shape = std::move(shape);
  planned.trial.families = std::move(families);
  planned.trial.condition = condition;
  planned.trial.seed = mix(options_.seed, ++trials_) >> 16;  // short enough to read
  fill_scalars(planned.trial, trials_ <= 4);
  stages_.back().push_back(std::move(planned));
}

void Plan::fill_scalars(Trial& trial, bool first) {
  for (const contract::ScalarSpec& spec : contract_.scalars) {
    double value = 0;
    if (!spec.is_range()) {
      const auto pick = first ? 0 : random_.between(0, static_cast<int64_t>(spec.values.size()) - 1);
      value = spec.values[static_cast<std::size_t>(pick)];
    } else {
      const int64_t pick = first ? 2 : random_.between(0, 3);
      value = pick == 0 ? spec.low : pick == 1 ? spec.high : random_.uniform(spec.low, spec.high);
    }
    trial.scalars[spec.name] = scalar_of(spec, value);
  }
}

// Poisons, schedules and addresses take turns, so that breadth in shapes and inputs is breadth in
// conditions as well.
Condition Plan::rotating_condition() {
  static constexpr Poison kTurns[] = {Poison::Nan, Poison::Large, Poison::OtherNan, Poison::Zeros,
                                      Poison::Ones};
  Condition condition;
  condition.poison = kTurns[trials_ % std::size(kTurns)];
  condition.schedule = trials_ % 3 == 0 ? 0 : random_.bits() >> 40;
  condition.others_late = trials_ % 2 == 1;
  condition.moved = trials_ % 4 == 3;
  condition.repeated = trials_ % 8 == 5;
  return condition;
}

Shape Plan::quick(Shape shape, double share, std::string_view keep) const {
  const Limits limits{options_.quick_elements * share, options_.max_bytes, options_.quick_steps * share};
  return fit(contract_, work_, std::move(shape), limits, keep).shape;
}

void Plan::add_plain_and_long() {
  stages_.emplace_back();
  std::vector<Shape> stretched;
  for (const Dim& dim : contract_.dims) {
    if (dim.is_constant()) continue;
    Shape shape = uniform_shape(contract_, 24);
    shape[dim.name] = snap(dim, kStretched);
    stretched.push_back(quick(std::move(shape), 1, dim.name));
  }
  // What there are many of costs more than how long each is: sums first.
  std::stable_sort(stretched.begin(), stretched.end(), [&](const Shape& a, const Shape& b) {
    return leading_extent(contract_, a) < leading_extent(contract_, b);
  });
  add("plain", quick(uniform_shape(contract_, 41), 0.3), {}, {});
  for (const Shape& shape : stretched)
    add("long sums", shape, hard_sums(contract_, Family::Natural, Family::Zipf));
  add("plain", quick(uniform_shape(contract_, 67)), {}, {});
  add("plain", uniform_shape(contract_, 1), {}, rotating_condition());
  add("plain", quick(uniform_shape(contract_, 9), 0.2), all(contract_, Family::Zeros), rotating_condition());
  for (const Shape& shape : stretched) {
    add("long sums", shape, hard_sums(contract_, Family::SameSign, Family::FewValues), rotating_condition());
  }
  for (const Shape& shape : stretched) {
    add("long sums", shape, hard_sums(contract_, Family::LargeMean, Family::OneValue), rotating_condition());
  }
  add("plain", quick(uniform_shape(contract_, 130)), all(contract_, Family::IndexCoded),
      rotating_condition());
  add("plain", quick(uniform_shape(contract_, 33)), all(contract_, Family::SmallIntegers),
      rotating_condition());
}

void Plan::add_required() {
  stages_.emplace_back();
  for (const Shape& shape : contract_.shapes) {
    add("the contract's shapes", shape, {}, rotating_condition(), true);
  }
  for (const Shape& shape : contract_.shapes) {
    add("the contract's shapes", shape, hard_sums(contract_, Family::Outliers, Family::Uniform),
        rotating_condition());
  }
}

void Plan::add_nonfinite() {
  stages_.emplace_back();
  if (!contract_.require.nonfinite_propagate) return;
  for (const Family family :
       {Family::NanElement, Family::InfElement, Family::NanRow, Family::NegInfElement}) {
    for (const TensorSpec* spec : contract_.inputs()) {
      if (!takes_nonfinite(*spec)) continue;
      if (family == Family::NegInfElement && spec->values.kind == ValuesKind::Positive) continue;
      Shape shape = quick(uniform_shape(contract_, family == Family::NanRow ? 40 : 21), 0.2);
      add("NaN and infinity", std::move(shape), {{spec->name, family}}, rotating_condition());
    }
  }
}

void Plan::add_families() {
  stages_.emplace_back();
  // A sum of two inputs is small only where both are, and there each value of a small scalar (an epsilon,
  // say) tells: these come to all inputs together, then to one at a time.
  std::size_t values = 1;
  for (const contract::ScalarSpec& spec : contract_.scalars) values = std::max(values, spec.values.size());
  for (std::size_t i = 0; i < std::min<std::size_t>(values, 3); ++i) {
    add("input families", quick(uniform_shape(contract_, 96)), all(contract_, Family::SmallScale),
        rotating_condition());
    for (const contract::ScalarSpec& spec : contract_.scalars)
      if (i < spec.values.size())
        stages_.back().back().trial.scalars[spec.name] = scalar_of(spec, spec.values[i]);
  }
  add("input families", quick(uniform_shape(contract_, 96)), all(contract_, Family::HeavyTail),
      rotating_condition());
  std::size_t most = 0;
  for (const TensorSpec* spec : contract_.inputs()) most = std::max(most, families_for(*spec).size());
  for (std::size_t i = 1; i < most; ++i) {
    for (const TensorSpec* spec : contract_.inputs()) {
      const std::vector<Family> known = families_for(*spec);
      if (i >= known.size()) continue;
      Shape shape = quick(uniform_shape(contract_, i % 2 ? 96 : 200));
      add("input families", std::move(shape), {{spec->name, known[i]}}, rotating_condition());
    }
  }
}

void Plan::add_conditions() {
  stages_.emplace_back();
  const auto shape = [&](int64_t value) { return quick(uniform_shape(contract_, value), 0.5); };
  const bool aliases = std::any_of(contract_.tensors.begin(), contract_.tensors.end(),
                                   [](const TensorSpec& t) { return !t.may_alias.empty(); });
  uint64_t schedule = 0;
  for (const int64_t value : {48, 129, 5}) {
    if (aliases) add("aliasing", shape(value), {}, {.poison = Poison::OtherNan, .aliased = true});
    if (contract_.require.concurrent) {
      add("overlapping calls", shape(value), {}, {.schedule = schedule, .overlapped = true});
      add("overlapping calls", shape(value), {},
          {.schedule = schedule + 7, .ordered = false, .overlapped = true});
      schedule += 22;
    }
    // Sums of alike numbers come out the same in every order.
    if (contract_.require.deterministic && value == 48) {
      for (const int64_t longer : {600, 2100})
        add("repeated calls", quick(uniform_shape(contract_, longer)), all(contract_, Family::HeavyTail),
            {.schedule = 13, .repeated = true});
    }
    add("other streams late", shape(value), {}, {.others_late = true});
    add("repeated calls", shape(value), random_families(),
        {.poison = Poison::Large, .schedule = 11, .repeated = true});
    add("repeated calls", shape(value), {}, {.poison = Poison::Ones, .schedule = 12, .moved = true});
    add("earlier calls", shape(value), {}, {.warmed = true});
    if (value > 5) add("earlier calls", shape(value), {}, {.grown = true});
    add("related calls", shape(value), {}, {.related = true});
  }
}

void Plan::add_edges() {
  stages_.emplace_back();
  std::vector<std::vector<int64_t>> values;
  std::size_t most = 0;
  for (const Dim& dim : contract_.dims) {
    values.push_back(dim.is_constant() ? std::vector<int64_t>{} : interesting(dim, 20000));
    most = std::max(most, values.back().size());
  }
  // Some are divisors whose reciprocal, in fp32, rounds down.
  static constexpr int64_t kOthers[] = {17, 41, 3, 70, 129, 47, 24, 94, 55, 6};
  for (std::size_t i = 0; i < most; ++i) {
    for (std::size_t d = 0; d < contract_.dims.size(); ++d) {
      if (i >= values[d].size()) continue;
      Shape shape = uniform_shape(contract_, kOthers[(i + d) % std::size(kOthers)]);
      shape[contract_.dims[d].name] = values[d][i];
      const Limits limits{options_.quick_elements * 2, options_.max_bytes, options_.quick_steps * 2};
      Fitted fitted = fit(contract_, work_, std::move(shape), limits, contract_.dims[d].name);
      if (fitted.fits) add("edges", std::move(fitted.shape), random_families(), rotating_condition());
    }
  }
}

// Where 16 bits end, and the promise. Indices take their extremes, so that the far end is reached.
void Plan::add_wide() {
  stages_.emplace_back();
  const Limits limits{options_.max_elements, options_.max_bytes};
  const auto fitted = [&](const Dim& dim, int64_t value, int64_t others) {
    Shape shape = uniform_shape(contract_, others);
    shape[dim.name] = value;
    return fit(contract_, work_, std::move(shape), limits, dim.name);
  };
  std::vector<std::pair<const Dim*, Shape>> wide;
  for (const Dim& dim : contract_.dims) {
    if (dim.is_constant()) continue;
    Fitted widest = fitted(dim, dim.highest(), 1);
    int64_t reached = widest.fits ? widest.shape.at(dim.name) : dim.lowest();
    // Halving stops short of the limit, at a power of two as a rule.
    for (const double more : {1.9, 1.6, 1.3, 1.1}) {
      const int64_t value = snap(dim, static_cast<int64_t>(static_cast<double>(reached) * more));
      if (value <= reached || reached >= dim.highest()) continue;
      if (Fitted grown = fitted(dim, value, 1); grown.fits && grown.shape.at(dim.name) == value) {
        widest = std::move(grown);
        reached = value;
        break;
      }
    }
    std::vector<int64_t> values;
    for (const int64_t edge : {int64_t{65536 + 77}, int64_t{32768 + 77}}) {
      if (reached > edge - 77) values.push_back(snap(dim, std::min(edge, reached)));
    }
    // What the trials that open the plan are too short for, where a formula takes many steps for an element.
    const int64_t stretched = snap(dim, kStretched);
    Shape opening = uniform_shape(contract_, 24);
    opening[dim.name] = stretched;
    if (stretched < reached && quick(opening, 1, dim.name).at(dim.name) < stretched)
      values.push_back(stretched);
    if (values.empty() || reached > *std::max_element(values.begin(), values.end()))
      values.push_back(reached);
    for (const int64_t value : values) {
      if (Fitted f = fitted(dim, value, 5); f.fits && f.shape.at(dim.name) == value) {
        wide.emplace_back(&dim, std::move(f.shape));
      }
    }
    if (widest.fits) wide.emplace_back(&dim, widest.shape);
  }
  // The cheapest first: each of them shows that much is affordable.
  std::stable_sort(wide.begin(), wide.end(),
                   [&](const auto& a, const auto& b) { return shape_cost(a.second) < shape_cost(b.second); });
  for (const double elements : {0x1p31, 0x1p32}) {
    for (SparseShape& sparse : sparse_shapes(contract_, elements, options_.max_sparse_bytes)) {
      add("more than 2^31 elements", std::move(sparse.shape), {}, {.ordered = false});
      stages_.back().back().trial.sparse = sparse.dim;
      stages_.back().back().brief = true;
    }
  }
  for (auto& [dim, shape] : wide) {
    add("wide", std::move(shape), hard_sums(contract_, Family::Natural, Family::Extremes),
        rotating_condition());
    stages_.back().back().brief = true;
  }
}

double Plan::shape_cost(const Shape& shape) const {
  const auto size = work_.of(shape);
  return (size ? size->steps * kStepCost : 0) +
         static_cast<double>(leading_extent(contract_, shape)) * kRowCost;
}

double Plan::cost(const PlannedTrial& planned) const {
  const double calls = planned.trial.condition.overlapped || planned.trial.condition.repeated ? 2 : 1;
  // What must run anyway may as well run early, and what shows nothing but at large shapes is not to wait for
  // all that small ones can show.
  const double share = planned.required ? 0.25 : planned.brief ? 0.1 : 1;
  return share * calls * (kTrialCost + (planned.trial.sparse.empty() ? shape_cost(planned.trial.shape) : 0));
}

// Stages take turns by what their trials cost, so that no kind of trial waits for all of another, and many
// small ones do not wait for a large one.
void Plan::build() {
  add_plain_and_long();
  add_nonfinite();
  add_families();
  add_conditions();
  add_required();
  add_edges();
  add_wide();
  const std::size_t opening = std::min<std::size_t>(stages_[0].size(), 3);
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
  planned_ = queue_.size();
}

PlannedTrial Plan::next(const Affordable& affordable) {
  for (auto it = queue_.begin(); it != queue_.end(); ++it) {
    if (!it->required && !it->brief && !affordable(it->trial.shape)) continue;
    PlannedTrial planned = std::move(*it);
    queue_.erase(it);
    return planned;
  }
  return random_trial(affordable);
}

std::optional<PlannedTrial> Plan::next_required() {
  const auto it = std::find_if(queue_.begin(), queue_.end(),
                               [](const PlannedTrial& planned) { return planned.required; });
  if (it == queue_.end()) return std::nullopt;
  PlannedTrial planned = std::move(*it);
  queue_.erase(it);
  return planned;
}

Families Plan::random_families() {
  Families families;
  for (const TensorSpec* spec : contract_.inputs()) {
    const std::vector<Family> known = families_for(*spec);
    const auto pick = random_.chance(0.5) ? 0 : random_.between(0, static_cast<int64_t>(known.size()) - 1);
    families[spec->name] = known[static_cast<std::size_t>(pick)];
  }
  return families;
}

PlannedTrial Plan::random_trial(const Affordable& affordable) {
  stages_.assign(1, {});
  Shape shape;
  for (int64_t limit = 20000; limit > 0; limit /= 2) {
    shape = quick(random_shape(contract_, random_, limit), 2);
    if (affordable(shape)) break;
  }
  Condition condition = rotating_condition();
  if (contract_.require.concurrent && random_.chance(0.1)) condition.overlapped = true;
  add("random", std::move(shape), random_families(), condition);
  PlannedTrial planned = std::move(stages_[0][0]);
  stages_.clear();
  return planned;
}

}  // namespace assay::trial
