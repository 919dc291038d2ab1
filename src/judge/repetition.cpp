#include "judge/repetition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "judge/measure.h"
#include "judge/numbers.h"
#include "judge/thresholds.h"

namespace assay::judge {

using contract::Tensor;
using reference::Expectation;

namespace {

// The elements of an output that findings name as the worst.
std::set<int64_t> worst_elements(std::span<const Finding> findings, const std::string& output,
                                 const Tensor& tensor) {
  std::set<int64_t> elements;
  for (const Finding& finding : findings) {
    const auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence);
    if (!numeric || numeric->output != output || !numeric->worst) continue;
    if (numeric->worst->index.size() != tensor.extents.size()) continue;
    int64_t element = 0;
    for (std::size_t i = 0; i < tensor.extents.size(); ++i)
      element = element * tensor.extents[i] + numeric->worst->index[i];
    if (element < tensor.count()) elements.insert(element);
  }
  return elements;
}

// Those whose bits differ; of many, some from all over the output.
std::vector<int64_t> differing(const Tensor& a, const Tensor& b) {
  std::vector<int64_t> all;
  if (a.bytes == b.bytes) return all;
  const auto size = static_cast<std::size_t>(a.item_bytes());
  for (int64_t e = 0; e < a.count(); ++e)
    if (std::memcmp(a.at(e), b.at(e), size) != 0) all.push_back(e);
  if (all.size() <= kMostRepeated) return all;
  std::vector<int64_t> some(kMostRepeated);
  for (std::size_t i = 0; i < kMostRepeated; ++i) some[i] = all[i * all.size() / kMostRepeated];
  return some;
}

double error_of(const Expectation& expected, std::size_t i, const Tensor& tensor, int64_t at) {
  if (expected.integer.empty()) return std::abs(tensor.load(at) - expected.value[i]);
  return std::abs(static_cast<double>(tensor.load_int(at)) - static_cast<double>(expected.integer[i]));
}

// By more than rounding by chance makes them: than all that right results may differ, or than a part of the
// error itself. Of an error that rounding can explain at worst (only many of them are proof) the part tells.
bool differs_in_error(const Expectation& expected, std::size_t i, const Tensor& a, const Tensor& b) {
  const int64_t at = expected.element[i];
  const double x = a.load(at), y = b.load(at);
  if (!std::isfinite(x) || !std::isfinite(y)) return !(std::isnan(x) && std::isnan(y));
  const double error = std::max(error_of(expected, i, a, at), error_of(expected, i, b, at));
  if (!std::isfinite(error)) return x != y;  // NaN or infinity is right, and neither is that
  const double apart =
      expected.integer.empty()
          ? std::abs(x - y)
          : std::abs(static_cast<double>(a.load_int(at)) - static_cast<double>(b.load_int(at)));
  return apart > std::min(expected.high[i] - expected.low[i], kChangedPart * error);
}

}  // namespace

std::optional<std::string> differing_error(const contract::Contract& contract,
                                           const reference::Reference& reference,
                                           const contract::Bindings& bindings, const Repetition& first,
                                           const Repetition& second,
                                           const reference::BudgetOptions& options) {
  const MeasureOptions how{.rtol = contract.require.rtol,
                           .atol = contract.require.atol,
                           .accumulate = contract.reference.accumulate};
  for (const auto& [name, tensor] : first.outputs) {
    const auto found = second.outputs.find(name);
    if (found == second.outputs.end() || found->second->count() != tensor->count()) continue;
    const Tensor &a = *tensor, &b = *found->second;
    std::vector<int64_t> elements = differing(a, b);
    if (elements.empty()) continue;
    std::set<int64_t> worst = worst_elements(first.findings, name, a);
    worst.merge(worst_elements(second.findings, name, b));
    const auto size = static_cast<std::size_t>(a.item_bytes());
    for (const int64_t e : worst)
      if (std::memcmp(a.at(e), b.at(e), size) != 0) elements.push_back(e);
    const auto expected = reference.expect(bindings, name, elements, options);
    if (!expected) continue;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const int64_t e = elements[i];
      if (expected->flags[i] & reference::kUnspecified) continue;
      const bool right = Gauge(a, *expected, how)(i).admitted && Gauge(b, *expected, how)(i).admitted;
      if ((right && !worst.count(e)) || !differs_in_error(*expected, i, a, b)) continue;
      return fmt::format("{}{} is first {}, then {}", name, contract::coordinates(a.extents, e),
                         element_text(a, e), element_text(b, e));
    }
  }
  return std::nullopt;
}

}  // namespace assay::judge
