#include "assayd/sample_judge.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.h"
#include "finding/message.h"
#include "judge/masked.h"
#include "judge/numbers.h"

namespace assay::assayd {

using contract::Tensor;
using judge::Element;

namespace {

// Up to which probability an element counts as one that seldom differs.
constexpr double kRare = 1e-3;
// Multiple of the expected differences that errors common to a call stay below: as judge/thresholds.h, kEnergyFactor.
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

}  // namespace

Result<SampleVerdict> SampleJudge::judge(const contract::Bindings& bindings,
                                         const monitor::CapturedOutputs& outputs, uint64_t seed) const {
  SampleVerdict verdict;
  for (const contract::TensorSpec* spec : contract_.outputs()) {
    const auto tensor = outputs.find(spec->name);
    if (tensor == outputs.end() || tensor->second->count() == 0) continue;
    const auto done = judge_output(bindings, *spec, *tensor->second, mix(seed, hash(spec->name)), verdict);
    if (!done) return done.error();
  }
  verdict.mean *= kCommonErrors;
  return verdict;
}

Result<void> SampleJudge::judge_output(const contract::Bindings& bindings, const contract::TensorSpec& spec,
                                       const Tensor& tensor, uint64_t seed, SampleVerdict& verdict) const {
  const std::vector<int64_t> elements = choose(tensor, settings_.elements, seed);
  const reference::BudgetOptions budget{.tensor_cores = tensor_cores_, .threads = 1};
  const auto expected = reference_.expect(bindings, spec.name, elements, budget);
  if (!expected) return expected.error();
  const bool coherent = judge::sums_are_coherent(bindings, reference_.summed_inputs(spec.name));
  const judge::MeasureOptions how{contract_.require.rtol, contract_.require.atol,
                                  contract_.reference.accumulate, coherent, 1};
  judge::Measured measured = judge::measure(spec.name, tensor, *expected, how);
  if (auto admitted = judge::admit_masked(reference_, bindings, tensor, budget, measured); !admitted)
    return admitted.error();
  const judge::Gauge gauge(tensor, *expected, how);
  const bool independent = reference_.is_elementwise(spec.name);
  const bool class_counts = contract_.require.nonfinite == contract::NonfiniteRule::Propagate;
  int64_t last_row = -1;
  for (std::size_t i = 0; i < measured.elements.size(); ++i) {
    const Element& element = measured.elements[i];
    ++verdict.judged;
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
    verdict.mean += difference.probability;
  }
  return {};
}

}  // namespace assay::assayd
