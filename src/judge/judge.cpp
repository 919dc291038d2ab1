#include "judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "contract/parallel.h"
#include "judge/buckets.h"
#include "judge/diagnose.h"
#include "judge/masked.h"
#include "judge/measure.h"
#include "judge/sample.h"
#include "judge/screen.h"

namespace assay::judge {

using contract::Bindings;
using contract::Contract;
using contract::Reference;

namespace {

Json json_number(double x) {
  if (std::isfinite(x)) return x;
  return number_text(contract::DType::f64, x);
}

// What went wrong with one output, before it has a name.
struct Failure {
  int64_t outside = 0;        // elements not admitted
  int64_t class_differs = 0;  // of those
  int64_t hidden = 0;         // of those: the value is not finite, the stored result is
  const Element* worst = nullptr;
  std::size_t worst_at = 0;
  ComparedText text;            // of the worst
  std::vector<Bucket> failing;  // by the energy gate, most unlikely first
  bool any() const { return outside > 0 || !failing.empty(); }
};

double badness(const Element& element) {
  return std::isfinite(element.z) ? std::abs(element.z) : 1e12;
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

// How far differences lean away from (+1) or toward (-1) zero.
double lean(const Measured& measured) {
  double sum = 0, total = 0;
  for (const Element& element : measured.elements) {
    if (!element.counts || element.value == 0) continue;
    sum += element.difference * (element.value > 0 ? 1 : -1);
    total += std::abs(element.difference);
  }
  return total > 0 ? sum / total : 0;
}

// A good part of all results is the neighbour of the right one, and none is further off. Where neighbours are
// as close as in f32, nothing but a rounding comes so near, and one is enough.
bool one_ulp_off(const Measured& measured) {
  constexpr double kFine = 0x1p-20;
  const bool fine = numerics::unit_roundoff(contract::info(measured.dtype).format) < kFine;
  double off = 0, all = 0;
  for (const Element& element : measured.elements) {
    if (!element.counts) continue;
    if (std::abs(element.difference) > 1.5) return false;
    off += element.difference != 0;
    all += 1;
  }
  return fine ? off > 0 : off > 20 && off > 0.05 * all;
}

// Whether the errors are small beside what was summed: a matter of precision, not of wrong elements.
bool is_inaccuracy(const Measured& measured) {
  double ee = 0, yy = 0, largest = 0;
  for (const Element& element : measured.elements) {
    if (std::isfinite(element.value)) largest = std::max(largest, std::abs(element.value));
  }
  for (const Element& element : measured.elements) {
    if (element.flags & (contract::kUnspecified | contract::kNonfiniteValue)) continue;
    if (!std::isfinite(element.error)) return false;
    const double scale = std::max({std::abs(element.value), element.magnitude, 1e-6 * largest});
    if (std::abs(element.error) > 0.05 * scale) return false;
    ee += element.error * element.error;
    yy += element.value * element.value;
  }
  return ee < 1e-3 * yy;
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
bool is_of_rounding_size(const Measured& measured, const Reference& reference, const Bindings& bindings) {
  if (!reference.is_formula()) return true;
  const bool sums = !reference.sums(measured.output).empty();
  if (sums) return size_beside_bf16(reference, bindings, measured) < 4;
  return size_beside_bf16(reference, bindings, measured) < 0.1 &&
         !exceeds_every_rounding(reference, bindings, measured);
}

struct Named {
  std::string kind;
  std::string why;  // "as if …"; empty when nothing explains it
  std::optional<Diagnosis> diagnosis;
};

Named name_failure(const Measured& measured, const Failure& failure, const Reference& reference,
                   const Bindings& bindings, const Options& options) {
  Named named;
  if (!contract::is_float(measured.dtype)) {
    named.kind = "wrong-result";
    return named;
  }
  if (options.diagnose) named.diagnosis = diagnose(reference, bindings, measured, options.hints);
  // Errors of the right size alone are no proof when they are as large as the results.
  if (named.diagnosis && named.diagnosis->by_profile && !named.diagnosis->defect.one_pass_variance &&
      relative_energy(measured) > 0.05) {
    named.diagnosis.reset();
  }
  if (named.diagnosis) named.why = fmt::format(", as if {}", named.diagnosis->description);
  if (failure.class_differs > 0) {
    named.kind = "nonfinite";
  } else if (named.diagnosis) {
    named.kind = named.diagnosis->defect.kind;
  } else if (const double leaning = lean(measured); leaning < -0.8 && one_ulp_off(measured)) {
    named.kind = "biased-rounding";
  } else {
    // Noise is inaccuracy; what leans, or is larger than any loss of precision makes it, is another formula.
    const bool noise = std::abs(leaning) < 0.5 && is_inaccuracy(measured) &&
                       (!options.diagnose || is_of_rounding_size(measured, reference, bindings));
    named.kind = noise ? "precision-loss" : "wrong-result";
  }
  return named;
}

std::string worst_text(const Measured& measured, const Failure& failure) {
  return fmt::format("{}{} {}", measured.output, contract::coordinates(measured.extents, failure.worst->at),
                     failure.text.sentence);
}

// The most telling thing that can be said of where the errors are.
std::string extent_text(const Measured& measured, const Failure& failure) {
  const auto judged = static_cast<double>(measured.elements.size());
  std::string text;
  if (failure.outside > 0) {
    text = fmt::format("{} of {} elements judged {}", failure.outside, measured.elements.size(),
                       contract::is_float(measured.dtype) ? "lie outside what rounding can explain"
                       : failure.outside == 1             ? "is wrong"
                                                          : "are wrong");
  } else {
    const Bucket& bucket = failure.failing.front();
    const bool seldom = bucket.expected < bucket.count / 2;  // is a result not the nearest number
    text = seldom ? fmt::format("in {}, {:.3g} % of results are rounded wrongly where {:.2g} % is expected",
                                bucket.name, 100 * std::min(1.0, bucket.observed / bucket.count),
                                100 * bucket.expected / bucket.count)
                  : fmt::format("in {}, errors are {:.3g} times as large as rounding makes them", bucket.name,
                                std::sqrt(bucket.observed / bucket.expected));
  }
  for (const Bucket& bucket : failure.failing) {
    if (bucket.name.rfind("sums of", 0) != 0 || bucket.sum_yy <= 0) continue;
    const double gain = bucket.sum_ey / bucket.sum_yy;
    if (std::abs(gain) > 0.005) {
      text += fmt::format("; {} {} {:.1f} % of their value", bucket.name, gain < 0 ? "lose" : "gain",
                          100 * std::abs(gain));
      break;
    }
  }
  return judged > 0 ? text : "";
}

Json evidence_of(const Measured& measured, const Failure& failure, const Named& named) {
  Json json;
  json["output"] = measured.output;
  json["elements_judged"] = measured.elements.size();
  json["elements_outside"] = failure.outside;
  if (failure.class_differs > 0) json["nonfinite_differs"] = failure.class_differs;
  if (failure.worst) {
    const Element& worst = *failure.worst;
    json["worst"] = {
        {"element", contract::coordinates(measured.extents, worst.at)},
        {"stored", json_number(worst.stored)},
        {"exact", json_number(worst.value)},
        {"admitted",
         {json_number(measured.low[failure.worst_at]), json_number(measured.high[failure.worst_at])}},
        {"z", json_number(worst.z)},
        {"terms", worst.terms},
        {"text",
         {{"stored", failure.text.stored},
          {"exact", failure.text.exact},
          {"error", failure.text.error},
          {"budget", failure.text.budget},
          {"sentence", failure.text.sentence}}}};
  }
  Json parts = Json::array();
  for (std::size_t i = 0; i < std::min<std::size_t>(failure.failing.size(), 5); ++i) {
    const Bucket& bucket = failure.failing[i];
    parts.push_back({{"part", bucket.name},
                     {"elements", bucket.count},
                     {"observed", bucket.observed},
                     {"expected", bucket.expected},
                     {"log10_p", bucket.log_p / std::log(10.0)},
                     {"gain", bucket.sum_yy > 0 ? bucket.sum_ey / bucket.sum_yy : 0}});
  }
  if (!parts.empty()) json["parts"] = parts;
  json["lean"] = lean(measured);
  if (named.diagnosis) {
    json["diagnosis"] = {{"defect", named.diagnosis->defect.name},
                         {"correlation", named.diagnosis->correlation},
                         {"explained", named.diagnosis->explained},
                         {"by_profile", named.diagnosis->by_profile}};
  }
  return json;
}

std::string message_of(const Measured& measured, const Failure& failure, const Named& named) {
  if (failure.class_differs > 0) {
    const char* what =
        failure.hidden > 0 ? "hides a NaN or infinity" : "is NaN or infinite where the result is finite";
    if (failure.hidden == 0 && !std::isfinite(failure.worst->value)) what = "has the wrong NaN or infinity";
    return fmt::format("{} {} in {} element{}: {}{}", measured.output, what, failure.class_differs,
                       failure.class_differs == 1 ? "" : "s", worst_text(measured, failure), named.why);
  }
  return fmt::format("{}: {}{}: {}", measured.output, extent_text(measured, failure), named.why,
                     worst_text(measured, failure));
}

// As many elements as the work allows, knowing the length of the sums only after a first look.
Result<std::vector<int64_t>> affordable(const Reference& reference, const Bindings& bindings,
                                        const std::string& output, const contract::Tensor& tensor,
                                        const contract::BudgetOptions& budget, const Options& options) {
  std::vector<int64_t> elements = choose_elements(tensor, options.max_elements, options.seed);
  if (elements.size() <= 4096 || reference.is_elementwise(output)) return elements;
  std::vector<int64_t> probe;
  for (std::size_t i = 0; i < 16; ++i) probe.push_back(elements[i * (elements.size() - 1) / 15]);
  const auto first = reference.expect(bindings, output, probe, budget);
  if (!first) return first.error();
  const double terms = *std::max_element(first->terms.begin(), first->terms.end());
  const double most = std::max(4096.0, options.max_work / std::max(1.0, terms));
  if (most < static_cast<double>(elements.size())) {
    elements = choose_elements(tensor, static_cast<int64_t>(most), options.seed);
  }
  return elements;
}

Result<void> judge_output(const Contract& contract, const Reference& reference, const Bindings& bindings,
                          const std::string& output, const contract::Tensor& tensor, const Options& options,
                          Judgement& judgement) {
  const contract::BudgetOptions budget{.tensor_cores = options.tensor_cores, .threads = options.threads};
  const auto elements = affordable(reference, bindings, output, tensor, budget, options);
  if (!elements) return elements.error();
  judgement.judged += static_cast<int64_t>(elements->size());
  const MeasureOptions how{contract.require.rtol, contract.require.atol, contract.reference.accumulate,
                           sums_are_coherent(bindings, reference.summed_inputs(output)),
                           contract::useful_threads(options.threads)};
  constexpr std::size_t kFew = 1 << 13;  // looked at once, whatever they are
  if (elements->size() > kFew && reference.is_elementwise(output)) {
    const auto seen = screen(reference, bindings, output, tensor, *elements, budget, how);
    if (!seen) return seen.error();
    if (!seen->suspicious) {
      judgement.undecided += seen->undecided;
      return {};
    }
  }
  const auto expected = reference.expect(bindings, output, *elements, budget);
  if (!expected) return expected.error();
  Measured measured = measure(output, tensor, *expected, how);
  if (const auto admitted = admit_masked(reference, bindings, tensor, budget, measured); !admitted) {
    return admitted.error();
  }
  judgement.undecided += measured.undecided;
  Failure failure = find_failure(measured);
  if (!failure.any()) return {};
  if (failure.worst) failure.text = text_of(Gauge(tensor, *expected, how).compared(failure.worst_at));
  const Named named = name_failure(measured, failure, reference, bindings, options);
  Finding finding;
  finding.kind = named.kind;
  finding.message = message_of(measured, failure, named);
  finding.evidence = evidence_of(measured, failure, named);
  judgement.findings.push_back(std::move(finding));
  return {};
}

}  // namespace

Result<Judgement> judge(const Contract& contract, const Reference& reference, const Bindings& bindings,
                        const Outputs& outputs, const Options& options) {
  Judgement judgement;
  for (const contract::TensorSpec* spec : contract.outputs()) {
    const auto found = outputs.find(spec->name);
    if (found == outputs.end()) continue;
    const contract::Tensor& tensor = *found->second;
    judgement.elements += tensor.count();
    if (tensor.count() == 0) continue;
    const auto done = judge_output(contract, reference, bindings, spec->name, tensor, options, judgement);
    if (!done) return done.error();
  }
  return judgement;
}

}  // namespace assay::judge
