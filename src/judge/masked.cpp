#include "judge/masked.h"

#include <algorithm>
#include <cmath>

namespace assay::judge {

using contract::Bindings;
using contract::Tensor;
using reference::Expectation;

namespace {

// Small, large and negative: no maximum, clamp or even function stays the same under all three. The sizes
// were chosen; tests/judge/masked_test.cpp (Masked.AMaximumThatIgnoresNanIsNotForgiven) needs one above 3.
constexpr double kReplacements[] = {1, 0x1p13, -0x1p13};

std::shared_ptr<const Tensor> without_nonfinite(const std::shared_ptr<const Tensor>& tensor,
                                                double replacement) {
  if (!contract::is_float(tensor->dtype)) return tensor;
  std::shared_ptr<Tensor> copy;
  for (int64_t i = 0; i < tensor->count(); ++i) {
    if (std::isfinite(tensor->load(i))) continue;
    if (!copy) copy = std::make_shared<Tensor>(*tensor);
    copy->store(i, replacement);
  }
  return copy ? copy : tensor;
}

// In one input, or in all.
Bindings without_nonfinite(Bindings bindings, const std::string* input, double replacement) {
  for (auto& [name, tensor] : bindings.inputs)
    if (!input || name == *input) tensor = without_nonfinite(tensor, replacement);
  return bindings;
}

bool holds_nan(const Bindings& bindings) {
  return std::any_of(bindings.inputs.begin(), bindings.inputs.end(), [](const auto& input) {
    const Tensor& tensor = *input.second;
    if (!contract::is_float(tensor.dtype)) return false;
    for (int64_t i = 0; i < tensor.count(); ++i)
      if (std::isnan(tensor.load(i))) return true;
    return false;
  });
}

bool same(const Expectation& a, const Expectation& b, std::size_t i) {
  return std::isfinite(a.value[i]) && a.value[i] == b.value[i];
}

}  // namespace

Result<void> admit_masked(const reference::Reference& reference, const Bindings& bindings,
                          const Tensor& tensor, const reference::BudgetOptions& budget, Measured& measured) {
  std::vector<std::size_t> hidden;
  std::vector<int64_t> places;
  for (std::size_t i = 0; i < measured.elements.size(); ++i) {
    const Element& element = measured.elements[i];
    if (element.admitted || !std::isfinite(element.stored) || std::isfinite(element.value)) continue;
    hidden.push_back(i);
    places.push_back(element.at);
  }
  if (hidden.empty() || !reference.is_formula()) return {};
  const auto admit_without = [&](const std::string* input) -> Result<void> {
    std::vector<Expectation> expectations;
    for (const double replacement : kReplacements) {
      auto expected =
          reference.expect(without_nonfinite(bindings, input, replacement), measured.output, places, budget);
      if (!expected) return expected.error();
      expectations.push_back(std::move(*expected));
    }
    for (std::size_t i = 0; i < hidden.size(); ++i) {
      const bool independent =
          std::all_of(expectations.begin(), expectations.end(),
                      [&](const Expectation& other) { return same(expectations[0], other, i); });
      if (!independent || !expectations[0].admits(i, tensor, places[i])) continue;
      Element& element = measured.elements[hidden[i]];
      element.admitted = true;
      element.class_differs = false;
    }
    return {};
  };
  if (auto all = admit_without(nullptr); !all) return all;
  // An infinity may be what makes the factor zero that another one meets: a score of minus infinity, and an infinite value.
  std::vector<std::string> inputs;
  for (const auto& [name, input] : bindings.inputs)
    if (without_nonfinite(input, 0) != input) inputs.push_back(name);
  for (const std::string& name : inputs)
    if (inputs.size() > 1)
      if (auto one = admit_without(&name); !one) return one;
  return {};
}

void admit_infinities(const Bindings& bindings, Measured& measured) {
  const auto is_one = [](const Element& element) {
    return !element.admitted && std::isinf(element.stored) && std::isnan(element.value);
  };
  const bool any = std::any_of(measured.elements.begin(), measured.elements.end(), is_one);
  if (!any || holds_nan(bindings)) return;
  for (Element& element : measured.elements)
    if (is_one(element)) {
      element.admitted = true;
      element.class_differs = false;
    }
}

}  // namespace assay::judge
