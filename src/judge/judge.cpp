#include "judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/parallel.h"
#include "judge/buckets.h"
#include "judge/choices.h"
#include "judge/defect_match.h"
#include "judge/masked.h"
#include "judge/measure.h"
#include "judge/sample.h"
#include "judge/screen.h"
#include "judge/thresholds.h"

namespace assay::judge {

using contract::Bindings;
using contract::Contract;
using reference::Reference;

namespace {

// What went wrong with one output, before it has a name.
struct Failure {
  int64_t outside = 0;        // elements not admitted
  int64_t class_differs = 0;  // of those
  int64_t hidden = 0;         // of those: the value is not finite, the stored result is
  const Element* worst = nullptr;
  std::size_t worst_at = 0;
  evidence::ComparedText text;  // of the worst
  std::vector<Bucket> failing;  // by the energy gate, most unlikely first
  bool any() const { return outside > 0 || !failing.empty(); }
};

double badness(const Element& element) {
  constexpr double kNoNumber = 1e12;  // deviations that NaN and infinity count as
  return std::isfinite(element.z) ? std::abs(element.z) : kNoNumber;
}

Failure find_failure(const Measured& measured) {
  Failure failure;
  double worst = -1, worst_flip = -1;
  const Element* flipped = nullptr;
  std::size_t flipped_at = 0;
  for (std::size_t i = 0; i < measured.elements.size(); ++i) {
    const Element& element = measured.elements[i];
    if (element.counts && std::abs(element.difference) > worst_flip) {
      worst_flip = std::abs(element.difference);
      flipped = &element;
      flipped_at = i;
    }
    if (element.admitted) continue;
    ++failure.outside;
    failure.class_differs += element.class_differs;
    failure.hidden += element.class_differs && std::isfinite(element.stored);
    if (badness(element) > worst) {
      worst = badness(element);
      failure.worst = &element;
      failure.worst_at = i;
    }
  }
  for (Bucket& bucket : buckets(measured)) {
    if (bucket.fails()) failure.failing.push_back(std::move(bucket));
  }
  std::stable_sort(failure.failing.begin(), failure.failing.end(),
                   [](const Bucket& a, const Bucket& b) { return a.log_p < b.log_p; });
  if (!failure.worst) {
    failure.worst = flipped;
    failure.worst_at = flipped_at;
  }
  return failure;
}

// Elements whose differences say what the errors are: those of the statistics, and all that fail.
bool is_telling(const Element& element) {
  return element.counts || !element.admitted;
}

// How far differences lean away from (+1) or toward (-1) zero.
double lean(const Measured& measured) {
  double sum = 0, total = 0;
  for (const Element& element : measured.elements) {
    if (!is_telling(element) || element.value == 0) continue;
    sum += element.difference * (element.value > 0 ? 1 : -1);
    total += std::abs(element.difference);
  }
  return total > 0 ? sum / total : 0;
}

// A good part of all results is the neighbour of the right one, and none is further off. Where neighbours are
// as close as in f32, nothing but a rounding comes so near, and one is enough.
bool one_ulp_off(const Measured& measured, Margins& margins) {
  const bool fine = numerics::unit_roundoff(contract::info(measured.dtype).format) < kFineUnit;
  double off = 0, all = 0, largest = 0;
  for (const Element& element : measured.elements) {
    if (!is_telling(element)) continue;
    if (!(element.scale > 0)) return false;  // outside, and not for want of digits
    largest = std::max(largest, std::abs(element.difference));
    off += element.difference != 0;
    all += 1;
  }
  const bool many = fine ? off > 0 : off > kLeastOff && off > kLeastOffShare * all;
  const Condition near[] = {at_most(Gate::OneUlp, largest, kOneUlp)};
  return many && all_hold(near, margins);
}

// How large the errors are beside what was summed.
struct Inaccuracy {
  double worst = 0;   // of an element
  double energy = 0;  // of all
};

Inaccuracy inaccuracy_of(const Measured& measured) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  double ee = 0, yy = 0, largest = 0, worst = 0;
  for (const Element& element : measured.elements) {
    if (std::isfinite(element.value)) largest = std::max(largest, std::abs(element.value));
  }
  for (const Element& element : measured.elements) {
    if (element.flags & (reference::kUnspecified | reference::kNonfiniteValue)) continue;
    if (!std::isfinite(element.error)) return {kInfinite, kInfinite};
    const double scale = std::max({std::abs(element.value), element.magnitude, kNegligible * largest});
    if (element.error != 0) worst = std::max(worst, std::abs(element.error) / scale);
    ee += element.error * element.error;
    yy += element.value * element.value;
  }
  return {worst, ee / yy};
}

// The energy of the errors relative to that of the values.
double relative_energy(const Measured& measured) {
  double ee = 0, yy = 0;
  for (const Element& element : measured.elements) {
    if (!std::isfinite(element.error) || !std::isfinite(element.value)) continue;
    ee += element.error * element.error;
    yy += element.value * element.value;
  }
  return yy > 0 ? ee / yy : 0;
}

// Whether rounding could have made the errors so large, in some precision. Where nothing is added up, one
// rounding too many was tried in every place (diagnose.h): what is left must be small to be one.
bool is_of_rounding_size(const Measured& measured, const Reference& reference, const Bindings& bindings,
                         Margins& margins) {
  if (!reference.is_formula()) return true;
  const bool sums = !reference.sums(measured.output).empty();
  const double size = size_beside_bf16(reference, bindings, measured);
  const Condition small[] = {sums ? at_most(Gate::RoundingSizeOfSums, size, kRoundingSizeOfSums)
                                  : at_most(Gate::RoundingSize, size, kRoundingSize)};
  return all_hold(small, margins) && (sums || !exceeds_every_rounding(reference, bindings, measured));
}

// Errors without a preferred sign and small beside what was summed: a matter of precision, not of wrong elements.
bool is_noise(const Measured& measured, double leaning, Margins& margins) {
  const Inaccuracy inaccuracy = inaccuracy_of(measured);
  const Condition conditions[] = {at_most(Gate::NoiseLean, std::abs(leaning), kNoiseLean),
                                  at_most(Gate::Inaccurate, inaccuracy.worst, kInaccurate),
                                  at_most(Gate::InaccurateEnergy, inaccuracy.energy, kInaccurateEnergy)};
  return all_hold(conditions, margins);
}

struct Named {
  Kind kind = Kind::WrongResult;
  std::optional<DefectMatch> diagnosis;  // none where nothing explains it
};

Named name_failure(const Measured& measured, const Failure& failure, const Reference& reference,
                   const Bindings& bindings, const Options& options, Margins& margins) {
  Named named;
  if (!contract::is_float(measured.dtype)) {
    return named;
  }
  if (options.diagnose) named.diagnosis = match_defect(reference, bindings, measured, options.hints, margins);
  // Errors of the right size alone are no proof when they are as large as the results.
  if (named.diagnosis && named.diagnosis->by_profile && !named.diagnosis->defect.one_pass_variance) {
    const Condition small[] = {at_most(Gate::AsLargeAsResults, relative_energy(measured), kAsLargeAsResults)};
    if (!all_hold(small, margins)) named.diagnosis.reset();
  }
  if (failure.class_differs > 0) {
    named.kind = Kind::Nonfinite;
  } else if (named.diagnosis) {
    named.kind = named.diagnosis->defect.kind;
  } else {
    const double leaning = lean(measured);
    const Condition toward_zero[] = {at_least(Gate::BiasedLean, -leaning, kBiasedLean)};
    if (all_hold(toward_zero, margins) && one_ulp_off(measured, margins)) {
      named.kind = Kind::BiasedRounding;
      return named;
    }
    // Noise is inaccuracy; what leans, or is larger than any loss of precision makes it, is another formula.
    const bool noise = is_noise(measured, leaning, margins) &&
                       (!options.diagnose || is_of_rounding_size(measured, reference, bindings, margins));
    named.kind = noise ? Kind::PrecisionLoss : Kind::WrongResult;
  }
  return named;
}

constexpr std::size_t kMostParts = 5;  // of an output that are reported

evidence::Part part_of(const Bucket& bucket) {
  return {bucket.name,
          bucket.count,
          bucket.observed,
          bucket.expected,
          bucket.log_p / std::log(10.0),
          bucket.sum_yy > 0 ? bucket.sum_ey / bucket.sum_yy : 0,
          bucket.by_terms};
}

evidence::Numeric evidence_of(const Measured& measured, const Failure& failure, const Named& named) {
  evidence::Numeric numeric;
  numeric.output = measured.output;
  numeric.is_integer = !contract::is_float(measured.dtype);
  numeric.judged = static_cast<int64_t>(measured.elements.size());
  numeric.outside = failure.outside;
  numeric.class_differs = failure.class_differs;
  numeric.hidden = failure.hidden;
  if (failure.worst) {
    const Element& worst = *failure.worst;
    numeric.worst = evidence::Worst{contract::index_of(measured.extents, worst.at),
                                    worst.stored,
                                    worst.value,
                                    measured.low[failure.worst_at],
                                    measured.high[failure.worst_at],
                                    worst.z,
                                    worst.terms,
                                    failure.text};
  }
  for (std::size_t i = 0; i < std::min(failure.failing.size(), kMostParts); ++i)
    numeric.parts.push_back(part_of(failure.failing[i]));
  numeric.lean = lean(measured);
  if (named.diagnosis)
    numeric.diagnosis = evidence::Diagnosis{std::string(named.diagnosis->defect.name),
                                            named.diagnosis->description, named.diagnosis->correlation,
                                            named.diagnosis->explained, named.diagnosis->by_profile};
  return numeric;
}

void add_margins(const Gauge& gauge, const Measured& measured, Margins& margins) {
  for (std::size_t i = 0; i < measured.elements.size(); ++i) {
    const double share = gauge.share_of_limit(i);
    margins.add(Gate::Bound, share, share > kBoundGate);
  }
  for (const Bucket& bucket : buckets(measured)) {
    const Condition conditions[] = {
        {Gate::Energy, bucket.log_p / kEnergyGate, bucket.log_p < kEnergyGate, bucket.log_p < kEnergyGate},
        at_least(Gate::Flips, bucket.observed, kLeastFlips)};
    all_hold(conditions, margins);
  }
}

// An output that only hides what is not finite may be a warning: the contract says so.
Severity severity_of(const Contract& contract, const Failure& failure) {
  const bool only_hides = failure.hidden > 0 && failure.hidden == failure.outside && failure.failing.empty();
  return only_hides && contract.require.nonfinite == contract::NonfiniteRule::Warn ? Severity::Warning
                                                                                   : Severity::Error;
}

bool overflows(const Element& element) {
  constexpr uint8_t kBeyond = reference::kNonfiniteValue | reference::kMayOverflow | reference::kUnspecified;
  return (element.flags & kBeyond) != 0 && (element.flags & reference::kNonfiniteInput) == 0;
}

// No more than `most`, evenly, both ends included.
std::vector<int64_t> some_of(const std::vector<int64_t>& elements, int64_t most) {
  const auto count = static_cast<int64_t>(elements.size());
  if (count <= most || most < 2) return elements;
  std::vector<int64_t> some;
  for (int64_t i = 0; i < most; ++i)
    some.push_back(elements[static_cast<std::size_t>(i * (count - 1) / (most - 1))]);
  return some;
}

// How many of these elements the work allows, knowing the length of the sums only after a first look.
Result<int64_t> affordable(const Reference& reference, const Bindings& bindings, const std::string& output,
                           const std::vector<int64_t>& elements, const reference::BudgetOptions& budget,
                           const Options& options) {
  const auto all = static_cast<int64_t>(elements.size());
  double inputs = 1;  // about as many terms as a sum has, at most
  for (const auto& [name, input] : bindings.inputs) inputs += static_cast<double>(input->count());
  const bool is_cheap = elements.size() <= kLeastAffordable &&
                        static_cast<double>(all) * inputs <= kMostOverwork * options.max_work;
  if (elements.size() <= kProbeElements || is_cheap || reference.is_elementwise(output)) return all;
  std::vector<int64_t> probe;
  for (std::size_t i = 0; i < kProbeElements; ++i)
    probe.push_back(elements[i * (elements.size() - 1) / (kProbeElements - 1)]);
  const auto first = reference.expect(bindings, output, probe, budget);
  if (!first) return first.error();
  const double terms =
      std::max(*std::max_element(first->terms.begin(), first->terms.end()), first->asked_terms);
  const double affordable = options.max_work / (std::max(1.0, terms) * reference.cost_of_term(output));
  const double least = std::min(static_cast<double>(kLeastAffordable), kMostOverwork * affordable);
  const double most = std::max({affordable, least, static_cast<double>(kProbeElements)});
  return most < static_cast<double>(all) ? static_cast<int64_t>(most) : all;
}

Result<std::vector<int64_t>> elements_of(const Reference& reference, const Bindings& bindings,
                                         const std::string& output, const contract::Tensor& tensor,
                                         const reference::BudgetOptions& budget, const Options& options) {
  const auto choose = [&](int64_t most) {
    return options.on_read ? some_of(options.elements.find(output)->second, most)
                           : choose_elements(tensor, most, options.seed);
  };
  std::vector<int64_t> elements = choose(options.max_elements);
  const auto most = affordable(reference, bindings, output, elements, budget, options);
  if (!most) return most.error();
  return *most < static_cast<int64_t>(elements.size()) ? choose(*most) : std::move(elements);
}

// Elements that depend on no others are looked at in pieces, most of them only once.
bool is_screened(const Reference& reference, const std::string& output, std::size_t elements,
                 const Options& options) {
  return elements > kFewElements && !options.margins && !options.on_read && reference.is_elementwise(output);
}

const reference::Expectation* foreseen(const Options& options, const std::string& output) {
  if (!options.foreseen || options.foreseen->tensor_cores != options.tensor_cores) return nullptr;
  const auto found = options.foreseen->outputs.find(output);
  return found == options.foreseen->outputs.end() ? nullptr : &found->second;
}

Result<void> judge_output(const Contract& contract, const Reference& reference, const Bindings& bindings,
                          const std::string& output, const contract::Tensor& tensor, const Options& options,
                          const std::vector<int64_t>* told, Judgement& judgement) {
  const bool partly = static_cast<bool>(options.on_read);
  const reference::BudgetOptions budget{
      .tensor_cores = options.tensor_cores, .threads = options.threads, .on_read = options.on_read};
  const reference::Expectation* known = told ? nullptr : foreseen(options, output);
  const auto elements = told    ? Result<std::vector<int64_t>>(*told)
                        : known ? Result<std::vector<int64_t>>(known->element)
                                : elements_of(reference, bindings, output, tensor, budget, options);
  if (!elements) return elements.error();
  judgement.judged += static_cast<int64_t>(elements->size());
  const MeasureOptions how{contract.require.rtol, contract.require.atol, contract.reference.accumulate,
                           partly || sums_are_coherent(bindings, reference, output),
                           useful_threads(options.threads)};
  if (is_screened(reference, output, elements->size(), options)) {
    const auto seen = screen(reference, bindings, output, tensor, *elements, budget, how);
    if (!seen) return seen.error();
    if (!seen->suspicious) {
      judgement.undecided += seen->undecided;
      return {};
    }
  }
  const auto asked = known ? Result<reference::Expectation>(reference::Expectation{})
                           : reference.expect(bindings, output, *elements, budget);
  if (!asked) return asked.error();
  const reference::Expectation& expected = known ? *known : *asked;
  Measured measured = measure(output, tensor, expected, how);
  if (!partly) {
    const auto admitted = admit_masked(reference, bindings, tensor, budget, measured);
    if (!admitted) return admitted.error();
    admit_infinities(bindings, measured);
  }
  judgement.undecided += measured.undecided;
  for (const Element& element : measured.elements) {
    judgement.errors.add(element);
    judgement.overflowing += overflows(element);
  }
  Failure failure = find_failure(measured);
  if (partly) failure.failing.clear();
  if (options.margins) add_margins(Gauge(tensor, expected, how), measured, judgement.margins);
  if (!failure.any()) return {};
  if (failure.worst) failure.text = text_of(Gauge(tensor, expected, how).compared(failure.worst_at));
  const Named named = name_failure(measured, failure, reference, bindings, options, judgement.margins);
  judgement.findings.push_back({.kind = named.kind,
                                .severity = severity_of(contract, failure),
                                .evidence = evidence_of(measured, failure, named)});
  return {};
}

}  // namespace

Foreseen foresee(const Contract& contract, const Reference& reference, const Bindings& bindings,
                 const Options& options) {
  Foreseen seen{options.tensor_cores, {}};
  if (!reference.is_formula() || options.on_read || !reference.choices(bindings).empty()) return seen;
  // What cannot be told now, an error among it, judge() will ask again.
  const reference::BudgetOptions budget{.tensor_cores = options.tensor_cores, .threads = options.threads};
  for (const contract::TensorSpec* spec : contract.outputs()) {
    const auto extents = spec->extents(bindings.shape);
    if (!extents) continue;
    int64_t count = 1;
    for (const int64_t extent : *extents) count *= extent;
    if (count == 0 || count > options.max_elements) continue;
    std::vector<int64_t> all(static_cast<std::size_t>(count));
    std::iota(all.begin(), all.end(), int64_t{0});
    if (is_screened(reference, spec->name, all.size(), options)) continue;
    const auto most = affordable(reference, bindings, spec->name, all, budget, options);
    if (!most || *most < count) continue;
    auto expected = reference.expect(bindings, spec->name, all, budget);
    if (expected) seen.outputs.emplace(spec->name, std::move(*expected));
  }
  return seen;
}

Result<Judgement> judge(const Contract& contract, const Reference& reference, const Bindings& bindings,
                        const Outputs& outputs, const Options& options) {
  Judgement judgement;
  Choices choices{bindings, {}};
  const bool chooses = !reference.choices(bindings).empty() && !options.on_read;
  if (chooses) {
    auto made = judge_choices(reference, bindings, outputs, options, judgement);
    if (!made) return made.error();
    choices = std::move(*made);
  }
  for (const contract::TensorSpec* spec : contract.outputs()) {
    const auto found = outputs.find(spec->name);
    if (found == outputs.end()) continue;
    const contract::Tensor& tensor = *found->second;
    judgement.elements += tensor.count();
    if (tensor.count() == 0) continue;
    if (options.on_read && !options.elements.contains(spec->name)) continue;
    if (std::ranges::any_of(reference.choices(bindings),
                            [&](const reference::Choice& choice) { return choice.name == spec->name; }))
      continue;  // judged as a choice
    const auto told = choices.told.find(spec->name);
    const auto done = judge_output(contract, reference, choices.bindings, spec->name, tensor, options,
                                   told == choices.told.end() ? nullptr : &told->second, judgement);
    if (!done) return done.error();
  }
  return judgement;
}

}  // namespace assay::judge
