#include "assayd/sample_judge.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.h"
#include "finding/message.h"
#include "judge/choices.h"
#include "judge/masked.h"
#include "judge/numbers.h"

namespace assay::assayd {

using contract::Tensor;
using judge::Element;

namespace {

// Up to which probability an element counts as one that seldom differs.
constexpr double kRare = 1e-3;
// Multiple of the expected differences that errors common to a call stay below: as judge/thresholds.h, kEnergyFactor. Elements
// that are computed by themselves have none in common.
constexpr double kCommonErrors = 2.25;

// Elements of random rows, one of each; more of them where there are fewer rows. Both ends are among them.
std::vector<int64_t> choose(const Tensor& tensor, int64_t most, uint64_t seed) {
  const int64_t count = tensor.count();
  const int64_t columns = tensor.extents.empty() ? 1 : std::max<int64_t>(1, tensor.extents.back());
  const int64_t rows = count / columns;
  Random random(seed);
  const auto below = [&](int64_t n) {
    return static_cast<int64_t>(random.uniform() * static_cast<double>(n));
  };
  std::set<int64_t> chosen = {0, count - 1};
  if (count <= most) {
    for (int64_t i = 0; i < count; ++i) chosen.insert(i);
  } else {
    for (int64_t i = 0; i < most; ++i) chosen.insert(below(rows) * columns + below(columns));
  }
  return {chosen.begin(), chosen.end()};
}

struct Difference {
  bool differs = false;
  double probability = 0;  // that it does so though the kernel is right, at most
};

Difference difference_of(const Element& element) {
  const double threshold = std::max(1.0, std::sqrt(element.expected / kRare));
  return {std::abs(element.difference) >= threshold,
          std::min(1.0, element.expected / (threshold * threshold))};
}

// At most `most` of them, at random.
std::vector<int64_t> some_of(std::vector<int64_t> elements, int64_t most, uint64_t seed) {
  if (static_cast<int64_t>(elements.size()) <= most) return elements;
  Random random(seed);
  for (int64_t i = 0; i < most; ++i) {
    const auto left = static_cast<double>(elements.size()) - static_cast<double>(i);
    std::swap(elements[static_cast<std::size_t>(i)],
              elements[static_cast<std::size_t>(i + static_cast<int64_t>(random.uniform() * left))]);
  }
  elements.resize(static_cast<std::size_t>(most));
  std::ranges::sort(elements);
  return elements;
}

// A choice that is not legal, or that no chance explains, is proof.
void add_choice(const Finding& finding, SampleVerdict& verdict) {
  const auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence);
  if (verdict.violations++ == 0)
    verdict.worst = {numeric ? numeric->output : "", numeric ? numeric->misfit : message(finding), false};
}

}  // namespace

Result<SampleVerdict> SampleJudge::judge(const contract::Bindings& bindings,
                                         const monitor::CapturedOutputs& outputs, uint64_t seed) const {
  SampleVerdict verdict;
  const std::vector<reference::Choice>& choices = reference_.choices(bindings);
  judge::Choices chosen{bindings, {}};
  if (!choices.empty()) {
    judge::Judgement judgement;
    auto made = judge::judge_choices(
        reference_, bindings, outputs,
        {.tensor_cores = tensor_cores_, .threads = 1, .seed = seed, .diagnose = false}, judgement);
    if (!made) return made.error();
    chosen = std::move(*made);
    verdict.judged += judgement.judged;
    for (const Finding& finding : judgement.findings) add_choice(finding, verdict);
  }
  for (const contract::TensorSpec* spec : contract_.outputs()) {
    const auto tensor = outputs.find(spec->name);
    if (tensor == outputs.end() || tensor->second->count() == 0) continue;
    if (std::ranges::any_of(choices, [&](const auto& choice) { return choice.name == spec->name; })) continue;
    const uint64_t own = mix(seed, hash(spec->name));
    const auto told = chosen.told.find(spec->name);
    const std::vector<int64_t> elements = told == chosen.told.end()
                                              ? choose(*tensor->second, settings_.elements, own)
                                              : some_of(told->second, settings_.elements, own);
    const auto done = judge_output(chosen.bindings, *spec, *tensor->second, elements, verdict);
    if (!done) return done.error();
  }
  return verdict;
}

Result<void> SampleJudge::judge_output(const contract::Bindings& bindings, const contract::TensorSpec& spec,
                                       const Tensor& tensor, const std::vector<int64_t>& elements,
                                       SampleVerdict& verdict) const {
  const reference::BudgetOptions budget{.tensor_cores = tensor_cores_, .threads = 1};
  const auto expected = reference_.expect(bindings, spec.name, elements, budget);
  if (!expected) return expected.error();
  const bool coherent = judge::sums_are_coherent(bindings, reference_, spec.name);
  const judge::MeasureOptions how{contract_.require.rtol, contract_.require.atol,
                                  contract_.reference.accumulate, coherent, 1};
  judge::Measured measured = judge::measure(spec.name, tensor, *expected, how);
  if (auto admitted = judge::admit_masked(reference_, bindings, tensor, budget, measured); !admitted)
    return admitted.error();
  judge::admit_infinities(bindings, measured);
  const judge::Gauge gauge(tensor, *expected, how);
  const bool is_list = tensor.extents.size() == 1;  // one row: without this, a single element would count
  const bool independent =
      reference_.is_elementwise(spec.name) || (is_list && reference_.shares_nothing(spec.name));
  const bool class_counts = contract_.require.nonfinite == contract::NonfiniteRule::Propagate;
  int64_t last_row = -1;
  for (std::size_t i = 0; i < measured.elements.size(); ++i) {
    const Element& element = measured.elements[i];
    ++verdict.judged;
    verdict.errors.add(element);
    constexpr uint8_t kNonfinite = reference::kNonfiniteValue | reference::kNonfiniteInput;
    const bool is_excused = element.class_differs && !class_counts && (element.flags & kNonfinite);
    if (!element.admitted && !is_excused) {
      if (verdict.violations++ == 0)
        verdict.worst = {spec.name + index_text(contract::index_of(tensor.extents, element.at)),
                         sentence(judge::text_of(gauge.compared(i))), element.class_differs};
      verdict.of_class += element.class_differs;
    }
    verdict.shares.push_back(element.admitted ? gauge.share_of_limit(i) : 2);
    const int64_t row = element.at / measured.columns();
    if (!element.counts || (row == last_row && !independent)) continue;
    last_row = row;
    const Difference difference = difference_of(element);
    verdict.differing += difference.differs;
    verdict.mean += difference.probability * (independent ? 1 : kCommonErrors);
  }
  return {};
}

}  // namespace assay::assayd
