// The stages of a plan that are about inputs and conditions (plan_shapes.cpp: about shapes): the trials of each kind, the most
// telling first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "contract/formula.h"
#include "contract/formula_case.h"
#include "contract/legal_shape.h"
#include "trial/families.h"
#include "trial/plan.h"
#include "trial/plan_inputs.h"
#include "trial/plan_limits.h"
#include "trial/scalars.h"
#include "trial/shapes.h"

namespace assay::trial {

using contract::Contract;
using contract::Dim;
using contract::Shape;
using contract::TensorSpec;
using contract::ValuesKind;

namespace {

// Chosen: of two calls with equal draws, these are more than enough for the gate of draws (judge/thresholds.h).
constexpr int64_t kSeededDraws = 2048;

// Whether a random draw of the formula names its seed, so that calls with others are compared.
bool draws_by_seed(const contract::Expr& expr) {
  if (expr.kind == contract::ExprKind::Call && expr.children.size() > 1 &&
      (expr.name == "random" || contract::stochastic_rounding(expr.name)))
    return true;
  return std::any_of(expr.children.begin(), expr.children.end(),
                     [](const contract::ExprPtr& child) { return draws_by_seed(*child); });
}
bool draws_by_seed(const Contract& contract) {
  const auto& formula = contract.reference.formula;
  return formula && std::any_of(formula->statements.begin(), formula->statements.end(),
                                [](const contract::Statement& one) { return draws_by_seed(*one.body); });
}

// Whether a formula takes extremes or sums of exponentials: then a row, a window or a tensor that is infinite throughout is a
// case of its own (where a maximum starts, what a softmax divides by). What else sums and products make of infinities shows
// where one element is.
struct Ordering {
  bool reduces = false, orders = false;
};
void note_ordering(const contract::Expr& expr, Ordering& found) {
  static constexpr std::string_view kOrders[] = {
      "max",  "min",        "argmax",  "argmin",        "argmax_any", "argmin_any", "cummax",  "cummin",
      "topk", "topk_first", "argsort", "argsort_first", "exp",        "exp2",       "sigmoid", "softplus"};
  const bool reduces = expr.kind == contract::ExprKind::Reduce;
  found.reduces |= reduces;
  if (reduces || expr.kind == contract::ExprKind::Call)
    found.orders |= std::find(std::begin(kOrders), std::end(kOrders), expr.name) != std::end(kOrders);
  for (const contract::ExprPtr& child : expr.children) note_ordering(*child, found);
}
// Whether a formula takes an exponential or what is one in part.
bool takes_exponentials(const contract::Expr& expr) {
  static constexpr std::string_view kExponentials[] = {"exp",     "exp2", "expm1",   "log1p",
                                                       "sigmoid", "tanh", "softplus"};
  return (expr.kind == contract::ExprKind::Call &&
          std::ranges::find(kExponentials, expr.name) != std::end(kExponentials)) ||
         std::ranges::any_of(expr.children,
                             [](const contract::ExprPtr& child) { return takes_exponentials(*child); });
}
bool takes_exponentials(const Contract& contract) {
  const auto& formula = contract.reference.formula;
  return !formula || std::ranges::any_of(formula->statements, [](const contract::Statement& one) {
    return takes_exponentials(*one.body);
  });
}

bool orders_numbers(const Contract& contract) {
  const auto& formula = contract.reference.formula;
  if (!formula) return true;  // it may
  Ordering found;
  for (const contract::Statement& one : formula->statements) {
    found.reduces |= one.kind != contract::AssignKind::Set;
    found.orders |= one.kind == contract::AssignKind::Max || one.kind == contract::AssignKind::Min;
    note_ordering(*one.body, found);
  }
  return found.reduces && found.orders;
}

// Whether each of these inputs is of its family.
bool holds(const Trial& trial, const Families& families) {
  return std::ranges::all_of(families, [&](const auto& wanted) {
    const auto found = trial.families.find(wanted.first);
    return found != trial.families.end() && found->second == wanted.second;
  });
}

// Any number of a float may be NaN or infinite: `values` bounds the finite ones.
bool takes_nonfinite(const TensorSpec& spec) {
  return contract::is_float(spec.dtype) && contract::has_nan(spec.dtype) &&
         spec.values.kind != ValuesKind::Generated;
}

// … but not below what is never negative.
bool takes_negative(const TensorSpec& spec) {
  if (spec.values.kind == ValuesKind::RealRange) return spec.values.low < 0;
  return spec.values.kind != ValuesKind::Positive && spec.values.kind != ValuesKind::Probabilities;
}

// Scalars that are changed at once to find a call of a case, and calls that are considered at each shape. Chosen: a
// condition on three flags is rare, and one that is not met is reported.
constexpr std::size_t kMostScalarsChanged = 2, kMostScalarChoices = 400;

}  // namespace

void Plan::add(std::string_view stage, const Shape& shape, Families families, Condition condition,
               bool required) {
  // A real GPU runs threads in the order it likes.
  if (!options_.machines && is_extreme(schedule_kind(condition.schedule)))
    condition.schedule = schedule_of(ScheduleKind::Shuffled, condition.schedule);
  PlannedTrial planned;
  planned.stage = stage;
  planned.required = required;
  planned.trial.shape = required || cheapest_.empty() ? near_legal(contract_, shape) : listed(trials_);
  planned.trial.families = std::move(families);
  planned.trial.condition = condition;
  planned.trial.seed = mix(options_.seed, ++trials_) >> kSeedShift;
  fill_scalars(planned.trial, trials_ <= kFirstValueTrials);
  stages_.back().push_back(std::move(planned));
}

void Plan::fill_scalars(Trial& trial, bool first) {
  for (const contract::ScalarSpec& spec : contract_.scalars) {
    double value = 0;
    if (!spec.is_range()) {
      const auto pick = first ? 0 : random_.between(0, static_cast<int64_t>(spec.values.size()) - 1);
      value = spec.values[static_cast<std::size_t>(pick)];
    } else {
      const int64_t pick = first ? kInnerDraw : random_.between(0, kLastDraw);
      value = pick == kLowestDraw    ? spec.low
              : pick == kHighestDraw ? spec.high
                                     : random_.uniform(spec.low, spec.high);
    }
    trial.scalars[spec.name] = scalar_of(spec, value);
  }
}

// Integers from a range, seeds among them, somewhere between its ends: related calls change one bit of them, and a seed of
// few bits is still distinct when a kernel cuts it or takes it through a float.
void Plan::draw_inner_integers(Trial& trial) {
  for (const contract::ScalarSpec& spec : contract_.scalars)
    if (spec.is_range() && !contract::is_float(spec.dtype))
      trial.scalars[spec.name] = scalar_of(spec, random_.uniform(spec.low, spec.high));
}

// Poisons, schedules and addresses take turns, so that breadth in shapes and inputs is breadth in
// conditions as well.
Condition Plan::rotating_condition() {
  static constexpr Poison kTurns[] = {Poison::Nan, Poison::Large, Poison::OtherNan, Poison::Zeros,
                                      Poison::Ones};
  Condition condition;
  condition.poison = kTurns[trials_ % std::size(kTurns)];
  const uint64_t seed = random_.bits() >> kScheduleShift;
  condition.schedule =
      trials_ % kTextOrderEvery == kTextOrderTurn ? 0 : schedule_of(ScheduleKind::Shuffled, seed);
  condition.others_late = trials_ % kOthersLateEvery == kOthersLateTurn;
  condition.moved = trials_ % kMovedEvery == kMovedTurn;
  if (may_be_better_aligned(contract_) && trials_ % kAlignedEvery == kAlignedTurn)
    condition.alignment = kWellAligned + 1 + trials_;
  condition.repeated = trials_ % kRepeatedEvery == kRepeatedTurn;
  return condition;
}

Families Plan::random_families() {
  Families families;
  for (const TensorSpec* spec : contract_.inputs()) {
    const std::vector<Family> known = families_for(*spec);
    const auto pick =
        random_.chance(kFirstFamilyShare) ? 0 : random_.between(0, static_cast<int64_t>(known.size()) - 1);
    families[spec->name] = known[static_cast<std::size_t>(pick)];
  }
  return families;
}

Shape Plan::quick(Shape shape, double share, std::string_view keep) const {
  const Limits limits{options_.quick_elements * share, options_.max_bytes, options_.quick_steps * share};
  return fit(contract_, work_, std::move(shape), limits, keep).shape;
}

// A shape in which sums along this dim are long.
Shape Plan::stretch(const Dim& dim) const {
  Shape shape = uniform_shape(contract_, kBesideStretched);
  shape[dim.name] = snap(dim, kStretched);
  const Limits limits{options_.quick_elements, options_.max_bytes, kStretchedSteps};
  return fit(contract_, work_, std::move(shape), limits, dim.name).shape;
}

void Plan::add_plain_and_long() {
  stages_.emplace_back();
  std::vector<Shape> stretched;
  for (const Dim& dim : contract_.dims) {
    if (!dim.is_constant()) stretched.push_back(stretch(dim));
  }
  // What there are many of costs more than how long each is: sums first.
  std::stable_sort(stretched.begin(), stretched.end(), [&](const Shape& a, const Shape& b) {
    return leading_extent(contract_, a) < leading_extent(contract_, b);
  });
  add("plain", quick(uniform_shape(contract_, kFirstSize), kFirstShare), {}, {});
  for (const Shape& shape : stretched)
    add("long sums", shape, hard_sums(contract_, Family::Natural, Family::Zipf));
  add("plain", quick(uniform_shape(contract_, kPlainSize)), {}, {});
  add("plain", uniform_shape(contract_, 1), {}, rotating_condition());
  add("plain", quick(uniform_shape(contract_, kZerosSize), kZerosShare), all(contract_, Family::Zeros),
      rotating_condition());
  for (const Shape& shape : stretched) {
    add("long sums", shape, hard_sums(contract_, Family::SameSign, Family::FewValues), rotating_condition());
  }
  for (const Shape& shape : stretched) {
    add("long sums", shape, hard_sums(contract_, Family::LargeMean, Family::OneValue), rotating_condition());
  }
  // Statistics need many elements: where those were cut to be quick, once more at full size.
  for (const Dim& dim : contract_.dims) {
    if (dim.is_constant()) continue;
    Shape whole = uniform_shape(contract_, kBesideStretched);
    whole[dim.name] = snap(dim, kStretched);
    whole = quick(std::move(whole), 1, dim.name);
    if (whole == stretch(dim)) continue;
    for (const Family family : {Family::LargeMean, Family::Natural, Family::SameSign})
      add("long sums", whole, hard_sums(contract_, family, Family::OneValue), rotating_condition());
  }
  add("plain", quick(uniform_shape(contract_, kIndexCodedSize)), all(contract_, Family::IndexCoded),
      rotating_condition());
  add("plain", quick(uniform_shape(contract_, kSmallIntegersSize)), all(contract_, Family::SmallIntegers),
      rotating_condition());
}

// A long sum of numbers about a large mean may lose as much to rounding as a formula that cancels (a variance by the mean
// of squares), so that only short ones tell the two apart.
void Plan::add_short_sums() {
  stages_.emplace_back();
  const bool knows = std::ranges::any_of(contract_.inputs(), [](const TensorSpec* spec) {
    const std::vector<Family> known = families_for(*spec);
    return std::find(known.begin(), known.end(), Family::LargeMean) != known.end();
  });
  if (!knows) return;
  const Shape shape = quick(uniform_shape(contract_, kBesideStretched));
  add("short sums", shape, hard_sums(contract_, Family::LargeMean, Family::Uniform), rotating_condition());
  requirements_.add(RequirementGroup::Inputs, "large-mean in short sums", [shape](const Trial& trial) {
    return std::ranges::all_of(shape,
                               [&](const auto& dim) { return trial.shape.at(dim.first) <= dim.second; }) &&
           std::ranges::any_of(trial.families,
                               [](const auto& family) { return family.second == Family::LargeMean; });
  });
}

// Each value of each scalar in small shapes, where a count is less than the scalar: a shift of 3 in a row of 2.
void Plan::add_scalar_values() {
  stages_.emplace_back();
  for (const int64_t size : kScalarSizes)
    for (const contract::ScalarSpec& spec : contract_.scalars) {
      std::vector<double> values = spec.is_range() ? std::vector<double>{spec.low, spec.high} : spec.values;
      const bool is_presence = std::ranges::any_of(contract_.inputs(), [&](const TensorSpec* input) {
        return input->optional && spec.name == contract::presence_of(input->name);
      });
      if (is_presence || values.size() < 2) continue;
      if (values.size() > kMostValuesInSmallShapes) values.resize(kMostValuesInSmallShapes);
      const Shape shape = quick(uniform_shape(contract_, size), kEachShare);
      for (const double value : values) {
        const contract::Scalar scalar = scalar_of(spec, value);
        add("scalar values", shape, {}, rotating_condition());
        stages_.back().back().trial.scalars[spec.name] = scalar;
        if (size != kScalarSizes[0]) continue;
        requirements_.add(RequirementGroup::Inputs,
                          fmt::format("{} = {:.6g} in a small shape", spec.name, value),
                          [shape, name = spec.name, scalar](const Trial& trial) {
                            return trial.shape == shape && trial.scalars.at(name).bits == scalar.bits;
                          });
      }
    }
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

Shape Plan::listed(std::size_t turn) const {
  return cheapest_[turn % cheapest_.size()];
}

// What the problem itself tests with, at its own shapes or at a plain one.
void Plan::add_problem_inputs() {
  stages_.emplace_back();
  if (!contract_.generator) return;
  Families families;
  for (const TensorSpec* spec : contract_.inputs()) families[spec->name] = Family::Problem;
  std::vector<Shape> shapes = contract_.shapes;
  if (!contract_.only_listed_shapes) shapes.push_back(quick(uniform_shape(contract_, kPlainSize)));
  for (int i = 0; i < kProblemSeeds; ++i)
    for (const Shape& shape : shapes) {
      add("the problem's inputs", shape, families, rotating_condition());
      stages_.back().back().trial.shape = shape;
    }
}

void Plan::add_nonfinite() {
  stages_.emplace_back();
  if (contract_.require.nonfinite == contract::NonfiniteRule::Ignore) return;
  for (const Family family :
       {Family::NanElement, Family::InfElement, Family::NanRow, Family::NegInfElement}) {
    for (const TensorSpec* spec : contract_.inputs()) {
      if (!takes_nonfinite(*spec)) continue;
      if (family == Family::NegInfElement && !takes_negative(*spec)) continue;
      Shape shape = quick(uniform_shape(contract_, family == Family::NanRow ? kNanRowSize : kNanElementSize),
                          kNonfiniteShare);
      add("NaN and infinity", shape, {{spec->name, family}}, rotating_condition());
    }
  }
  add_infinite_parts();
  add_infinities_that_meet();
  add_nan_times_zero();
}

// A factor of zero (the beta of BLAS, a weight decay) makes NaN of a NaN, or is asked about: then what it would multiply is
// not looked at. Kernels mistake the one for the other.
void Plan::add_nan_times_zero() {
  for (const contract::ScalarSpec& scalar : contract_.scalars) {
    const bool may_be_zero = scalar.is_range() ? scalar.low == 0 || scalar.high == 0
                                               : std::ranges::find(scalar.values, 0.0) != scalar.values.end();
    if (!contract::is_float(scalar.dtype) || !may_be_zero) continue;
    const contract::Scalar zero = scalar_of(scalar, 0);
    for (const TensorSpec* spec : contract_.inputs()) {
      if (!takes_nonfinite(*spec)) continue;
      add("NaN and infinity", quick(uniform_shape(contract_, kNanElementSize), kNonfiniteShare),
          {{spec->name, Family::NanElement}}, rotating_condition());
      stages_.back().back().trial.scalars[scalar.name] = zero;
      requirements_.add(RequirementGroup::Inputs,
                        fmt::format("{} nan-element with {} = 0", spec->name, scalar.name),
                        [input = spec->name, name = scalar.name, zero](const Trial& trial) {
                          const auto found = trial.families.find(input);
                          return found != trial.families.end() && found->second == Family::NanElement &&
                                 trial.scalars.at(name).bits == zero.bits;
                        });
    }
  }
}

void Plan::add_infinite_parts() {
  if (!orders_numbers(contract_)) return;
  for (const Family family : {Family::NegInfPart, Family::InfPart, Family::AllNegInf, Family::AllInf})
    for (const TensorSpec* spec : contract_.inputs()) {
      const bool negative = family == Family::NegInfPart || family == Family::AllNegInf;
      if (!takes_nonfinite(*spec) || (negative && !takes_negative(*spec))) continue;
      add("NaN and infinity", quick(uniform_shape(contract_, kNanElementSize), kNonfiniteShare),
          {{spec->name, family}}, rotating_condition());
    }
}

// The first and the last element of every input at once: infinities that are equal, and infinities of both signs.
void Plan::add_infinities_that_meet() {
  std::vector<const TensorSpec*> inputs = contract_.inputs();
  std::erase_if(inputs, [](const TensorSpec* spec) { return !takes_nonfinite(*spec); });
  if (inputs.size() < 2) return;
  std::set<Families> tried;
  for (const auto& [even, odd] : {std::pair(Family::InfElement, Family::InfElement),
                                  std::pair(Family::NegInfElement, Family::NegInfElement),
                                  std::pair(Family::InfElement, Family::NegInfElement)}) {
    Families families;
    for (const TensorSpec* spec : inputs) {
      const Family wanted = families.size() % 2 == 0 ? even : odd;
      families[spec->name] = takes_negative(*spec) ? wanted : Family::InfElement;
    }
    if (!tried.insert(families).second) continue;
    add("NaN and infinity", quick(uniform_shape(contract_, kNanElementSize), kNonfiniteShare), families,
        rotating_condition());
    requirements_.add(RequirementGroup::Inputs,
                      even == odd ? fmt::format("{} in all inputs at once", to_string(even))
                                  : std::string("infinities of both signs in all inputs at once"),
                      [families](const Trial& trial) { return holds(trial, families); });
  }
}

void Plan::add_families() {
  stages_.emplace_back();
  // A sum of two inputs is small only where both are, and there each value of a small scalar (an epsilon,
  // say) tells: these come to all inputs together, then to one at a time.
  std::size_t values = 1;
  for (const contract::ScalarSpec& spec : contract_.scalars) values = std::max(values, spec.values.size());
  for (std::size_t i = 0; i < std::min(values, kMostScalarValues); ++i) {
    add("input families", quick(uniform_shape(contract_, kFamilySize), kEachShare),
        all(contract_, Family::SmallScale), rotating_condition());
    for (const contract::ScalarSpec& spec : contract_.scalars) {
      if (i >= spec.values.size()) continue;
      const contract::Scalar scalar = scalar_of(spec, spec.values[i]);
      stages_.back().back().trial.scalars[spec.name] = scalar;
      const bool is_small = std::ranges::any_of(stages_.back().back().trial.families, [](const auto& family) {
        return family.second == Family::SmallScale;
      });
      if (spec.values.size() < 2 || !contract::is_float(spec.dtype) || !is_small) continue;
      requirements_.add(RequirementGroup::Inputs,
                        fmt::format("small-scale with {} = {:.6g}", spec.name, spec.values[i]),
                        [name = spec.name, scalar](const Trial& trial) {
                          return trial.scalars.at(name).bits == scalar.bits &&
                                 std::ranges::any_of(trial.families, [](const auto& family) {
                                   return family.second == Family::SmallScale;
                                 });
                        });
    }
  }
  add("input families", quick(uniform_shape(contract_, kFamilySize), kEachShare),
      all(contract_, Family::HeavyTail), rotating_condition());
  add_levels();
  add_products_below();
  add_presence();
  add_cases();
  std::size_t most = 0;
  for (const TensorSpec* spec : contract_.inputs()) most = std::max(most, families_for(*spec).size());
  const std::vector<const TensorSpec*> inputs = contract_.inputs();
  for (std::size_t i = 1; i < most; ++i) {
    for (std::size_t j = 0; j < inputs.size(); ++j) {  // each time another input has the first turn
      const TensorSpec* spec = inputs[(i + j) % inputs.size()];
      const std::vector<Family> known = families_for(*spec);
      if (i >= known.size()) continue;
      Shape shape = quick(uniform_shape(contract_, i % 2 ? kFamilySize : kLargerFamilySize), kEachShare);
      add("input families", shape, {{spec->name, known[i]}}, rotating_condition());
    }
  }
}

// What a formula makes of 1 + exp(-x) is lost where x is large, and shows only in rows in which nothing else is added: all of x
// large, and all of what it is multiplied with at an end of its range (targets of 1).
void Plan::add_levels() {
  if (!takes_exponentials(contract_)) return;
  const Families families = all(contract_, Family::Levels);
  if (std::ranges::none_of(families, [](const auto& one) { return one.second == Family::Levels; })) return;
  add("input families", quick(uniform_shape(contract_, kFamilySize), kEachShare), families,
      rotating_condition());
  requirements_.add(RequirementGroup::Inputs, "levels in all inputs at once",
                    [families](const Trial& trial) { return holds(trial, families); });
}

// All products of two inputs, such as the scores of attention, are far below zero only where one input is and the others
// are above: then a maximum that starts from -1e5 shows.
void Plan::add_products_below() {
  if (!orders_numbers(contract_)) return;
  std::vector<const TensorSpec*> inputs = contract_.inputs();
  std::erase_if(inputs, [](const TensorSpec* spec) { return !contract::is_float(spec->dtype); });
  if (inputs.size() < 2) return;
  std::size_t tried = 0;
  for (const TensorSpec* spec : inputs) {
    const std::vector<Family> known = families_for(*spec);
    if (tried == kMostBelow || std::ranges::find(known, Family::Negative) == known.end()) continue;
    ++tried;
    for (const Family family : {Family::Negative, Family::FarBelow}) {
      if (std::ranges::find(known, family) == known.end()) continue;
      Families families = all(contract_, Family::SameSign);
      families[spec->name] = family;
      add("input families", quick(uniform_shape(contract_, kNanElementSize), kEachShare), families,
          rotating_condition());
      requirements_.add(RequirementGroup::Inputs,
                        fmt::format("{} {}, the others of one sign", spec->name, to_string(family)),
                        [families](const Trial& trial) { return holds(trial, families); });
    }
  }
}

// Optional tensors: all given, none, each alone, and all but each, so that any two of them are tried in every
// combination. A kernel may ask about one and use the other.
void Plan::add_presence() {
  std::vector<std::string> names;
  for (const TensorSpec* spec : contract_.inputs())
    if (spec->optional) names.push_back(spec->name);
  if (names.empty()) return;
  const auto is_present = [](const Trial& trial, const std::string& name) {
    return trial.scalars.at(contract::presence_of(name)).as_int() != 0;
  };
  for (const std::string& name : names)
    for (const bool present : {false, true})
      requirements_.add(RequirementGroup::Inputs, fmt::format("{} {}", name, present ? "present" : "absent"),
                        [=](const Trial& trial) { return is_present(trial, name) == present; });
  for (const std::string& one : names)
    for (const std::string& other : names)
      if (one != other)
        requirements_.add(
            RequirementGroup::Inputs, fmt::format("{} without {}", one, other),
            [=](const Trial& trial) { return is_present(trial, one) && !is_present(trial, other); });
  // `odd`: the one that is not as the others are; none: all are alike.
  const auto add_trial = [&](const std::string& odd, bool others) {
    add("input families", quick(uniform_shape(contract_, kFamilySize), kEachShare), {}, rotating_condition());
    for (const std::string& name : names)
      stages_.back().back().trial.scalars[contract::presence_of(name)] =
          contract::Scalar::of_int(contract::DType::boolean, name == odd ? !others : others);
  };
  for (const bool present : {false, true}) add_trial("", present);
  if (names.size() == 1) return;
  for (const std::string& name : names)
    for (const bool others : {false, true}) add_trial(name, others);
}

// Every case of the formula. One that no trial can be found for stays open: a pass would say nothing about it.
void Plan::add_cases() {
  if (contract_.reference.cases.empty()) return;
  const std::vector<Shape> shapes = shapes_for_cases();
  Trial plain;
  fill_scalars(plain, true);
  const std::vector<contract::Scalars> scalars = scalars_for_cases(plain.scalars);
  for (std::size_t i = 0; i <= contract_.reference.cases.size(); ++i) {
    const contract::FormulaCase* wanted =
        i < contract_.reference.cases.size() ? &contract_.reference.cases[i] : nullptr;
    bool found = false;
    for (std::size_t n = 0; n < shapes.size() * scalars.size() && !found; ++n) {
      const Shape& shape = shapes[n / scalars.size()];
      const contract::Scalars& values = scalars[n % scalars.size()];
      if (contract::chosen_case(contract_, shape, values) != wanted) continue;
      add("input families", shape, {}, rotating_condition());
      stages_.back().back().trial.scalars = values;
      found = true;
    }
    if (!found && !wanted) continue;  // the cases leave nothing to the formula of [reference]
    requirements_.add(RequirementGroup::Inputs,
                      wanted ? "the case " + wanted->when_text : "none of the cases",
                      [&contract = contract_, wanted](const Trial& trial) {
                        return contract::chosen_case(contract, trial.shape, trial.scalars) == wanted;
                      });
  }
}

// A plain shape, then each dim at its interesting values, then what is too large to be quick.
std::vector<Shape> Plan::shapes_for_cases() const {
  std::vector<Shape> shapes = {quick(uniform_shape(contract_, kFamilySize), kEachShare)}, large;
  for (const Dim& dim : contract_.dims) {
    if (dim.is_constant()) continue;
    for (const int64_t value : interesting(dim, dim.highest())) {
      Shape shape = uniform_shape(contract_, kSmallestConditionSize);
      shape[dim.name] = value;
      const std::optional<Shape> legal = contract::legal_shape(contract_, std::move(shape), dim.name);
      if (!legal) continue;
      const Shape cheap = quick(*legal, kEachShare, dim.name);
      shapes.push_back(cheap);
      if (cheap != *legal) large.push_back(*legal);
    }
  }
  std::erase_if(large, [&](const Shape& shape) {
    const auto size = work_.of(shape);
    return !size || size->elements > options_.max_elements || size->bytes > options_.max_bytes;
  });
  shapes.insert(shapes.end(), large.begin(), large.end());
  return shapes;
}

// As they are, then with one and two of the scalars at others of their values.
std::vector<contract::Scalars> Plan::scalars_for_cases(const contract::Scalars& plain) const {
  std::vector<contract::Scalars> found = {plain};
  for (std::size_t changed = 0, first = 0; changed < kMostScalarsChanged; ++changed) {
    const std::size_t last = found.size();
    for (std::size_t i = first; i < last; ++i)
      for (const contract::ScalarSpec& spec : contract_.scalars)
        for (const double value : spec.is_range() ? std::vector<double>{spec.low, spec.high} : spec.values) {
          contract::Scalars scalars = found[i];
          scalars[spec.name] = scalar_of(spec, value);
          if (found.size() < kMostScalarChoices) found.push_back(std::move(scalars));
        }
    first = last;
  }
  return found;
}

// On a real GPU. Races show under load, and where warps and lanes do not keep pace; some in long sums alone.
void Plan::add_load(const Shape& shape) {
  const auto families = hard_sums(contract_, Family::Natural, Family::FewValues);
  add("under load", shape, families,
      {.ordered = false, .overlapped = contract_.require.concurrent, .loaded = true});
  add("pauses in the kernel", shape, families, {.ordered = false, .loaded = true, .perturbed = true});
}

// A real GPU presents itself as a slice of one and as a smaller one, on other days.
void Plan::add_other_machines() {
  constexpr uint8_t kMachines[] = {1, 2};  // of kGpus, each with one of kClocks
  for (const uint8_t machine : kMachines)
    add("other machines", quick(uniform_shape(contract_, kConditionSize), kEachShare), {},
        {.ordered = false, .gpu = machine, .clock = kClocks[machine]});
  requirements_.add(RequirementGroup::Conditions, "a smaller GPU",
                    [](const Trial& trial) { return trial.condition.gpu != 0; });
  requirements_.add(RequirementGroup::Conditions, "another date",
                    [](const Trial& trial) { return trial.condition.clock != 0; });
}

void Plan::add_conditions() {
  stages_.emplace_back();
  if (options_.presents) add_other_machines();
  const auto shape = [&](int64_t value) { return quick(uniform_shape(contract_, value), kEachShare); };
  const bool aliases = std::any_of(contract_.tensors.begin(), contract_.tensors.end(),
                                   [](const TensorSpec& t) { return !t.may_alias.empty(); });
  const bool shares =
      std::any_of(contract_.tensors.begin(), contract_.tensors.end(), [&](const TensorSpec& t) {
        return &shared_input(contract_, t, uniform_shape(contract_, kConditionSize)) != &t;
      });
  add("many calls", shape(kManyCallsSize), {}, {.ordered = false, .looped = true});
  if (!cheapest_.empty()) stages_.back().back().trial.shape = cheapest_.front();  // dozens of calls
  uint64_t schedule = 0;
  std::size_t turn = 0;
  for (const int64_t value : kConditionSizes) {
    // Whoever comes in between is noticed where many want the same place.
    for (const ScheduleKind kind : kExtremeOrders[turn++]) {
      if (kind == ScheduleKind::Text || !options_.machines) continue;
      uint64_t order = schedule_of(kind, random_.bits() >> kScheduleShift);
      // One of each sort: at atomics, and everywhere.
      if (kind == ScheduleKind::Interleaved && interleaves_everywhere(order) != (turn % 2 == 0))
        order ^= kScheduleKinds;
      add("extreme schedules", shape(value), hard_sums(contract_, Family::Natural, Family::FewValues),
          {.schedule = order});
    }
    if (shares) add("shared inputs", shape(value), {}, {.shared_inputs = true});
    if (may_be_better_aligned(contract_)) {
      add("other alignments", shape(value), {}, {.alignment = kWellAligned});
      for (uint64_t seed = 1; seed <= kAlignmentSeeds; ++seed)
        add("other alignments", shape(value), {}, {.alignment = kWellAligned + seed});
    }
    if (aliases) add("aliasing", shape(value), {}, {.poison = Poison::OtherNan, .aliased = true});
    if (contract_.require.concurrent) {
      add("overlapping calls", shape(value), {}, {.schedule = schedule, .overlapped = true});
      add("overlapping calls", shape(value), {},
          {.schedule = schedule + kOverlapOther, .ordered = false, .overlapped = true});
      schedule += kOverlapStep;
    }
    // Sums of alike numbers come out the same in every order.
    if (contract_.require.deterministic && value == kConditionSize) {
      requirements_.add(
          RequirementGroup::Conditions, "sums of different numbers, repeated", [](const Trial& trial) {
            return trial.condition.repeated &&
                   std::any_of(trial.families.begin(), trial.families.end(),
                               [](const auto& family) { return family.second == Family::HeavyTail; });
          });
      for (const int64_t longer : kRepeatedSumSizes)
        add("repeated calls", quick(uniform_shape(contract_, longer)), all(contract_, Family::HeavyTail),
            {.schedule = kRepeatedSumSchedule, .repeated = true});
    }
    if (options_.load) add_load(shape(value));
    add("other streams late", shape(value), {}, {.others_late = true});
    add("repeated calls", shape(value), random_families(),
        {.poison = Poison::Large, .schedule = kRepeatedSchedule, .repeated = true});
    add("repeated calls", shape(value), {},
        {.poison = Poison::Ones, .schedule = kMovedSchedule, .moved = true});
    add("earlier calls", shape(value), {}, {.warmed = true});
    if (value > kSmallestConditionSize) add("earlier calls", shape(value), {}, {.grown = true});
    // Whether draws of two seeds are alike takes enough of them to tell.
    add("related calls", shape(draws_by_seed(contract_) ? std::max(value, kSeededDraws) : value), {},
        {.related = true});
    draw_inner_integers(stages_.back().back().trial);
  }
  if (!options_.load) return;
  for (const Dim& dim : contract_.dims)
    if (!dim.is_constant())
      add("pauses in the kernel", stretch(dim), hard_sums(contract_, Family::Natural, Family::FewValues),
          {.ordered = false, .loaded = true, .perturbed = true});
}

// Where a tensor has one dim, the sizes of conditions make one block or two. What blocks do to each other, and calls to blocks
// of other calls, takes several.
void Plan::add_conditions_of_several_blocks() {
  stages_.emplace_back();
  const auto elements = [&](const Shape& shape) {
    const Result<Size> size = size_of(contract_, shape);
    return size ? size->elements : 0;
  };
  const auto shape_of = [&](int64_t value) { return quick(uniform_shape(contract_, value), kEachShare); };
  Shape shape = shape_of(kLargerConditionSize);
  if (elements(shape) >= kElementsOfSeveralBlocks) return;
  for (const int64_t value : kSizesOfSeveralBlocks)
    if (elements(shape) < kElementsOfSeveralBlocks) shape = shape_of(value);
  if (elements(shape) < kElementsOfSeveralBlocks) return;  // the promise has no such shape
  const auto add_one = [&](std::string_view stage, const Condition& condition) {
    std::vector<std::string> wanted = {std::string(describe(schedule_kind(condition.schedule)))};
    if (condition.overlapped) wanted.emplace_back("two calls at once");
    add(stage, shape, hard_sums(contract_, Family::Natural, Family::FewValues), condition);
    requirements_.add(RequirementGroup::Conditions,
                      fmt::format("{} in several blocks", fmt::join(wanted, ", ")),
                      [&contract = contract_, wanted](const Trial& trial) {
                        const std::vector<std::string> kinds = kinds_of(trial.condition);
                        const Result<Size> size = size_of(contract, trial.shape);
                        return size && size->elements >= kElementsOfSeveralBlocks &&
                               std::ranges::all_of(wanted, [&](const std::string& kind) {
                                 return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
                               });
                      });
  };
  for (const ScheduleKind kind : kOrdersOfSeveralBlocks) {
    if (!options_.machines && is_extreme(kind)) continue;
    const uint64_t schedule = schedule_of(kind, random_.bits() >> kScheduleShift);
    if (is_extreme(kind)) add_one("extreme schedules", {.schedule = schedule});
    // Most are not ordered: behind inputs that come late, one call would have ended before the other begins.
    if (contract_.require.concurrent)
      add_one("overlapping calls",
              {.schedule = schedule, .ordered = kind == ScheduleKind::Interleaved, .overlapped = true});
  }
}

}  // namespace assay::trial
