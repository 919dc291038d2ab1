#include "judge/far_draws.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "judge/draws.h"

namespace assay::judge {

using contract::Bindings;
using contract::Tensor;
using reference::Choice;
using reference::ChoiceKind;
using reference::Reference;

namespace {

// Where counters of 32 bits end, and those of 31 and of two draws at a time.
constexpr int kEnds[] = {32, 31, 33};
// Pairs that are compared. Chosen: of draws that are true nine times in ten, 130 equal ones are proof.
constexpr std::size_t kMostPairs = 4096;

// Elements e for which e and e + distance were written.
std::vector<int64_t> pairs_at(const Ranges& written, int64_t distance) {
  std::vector<int64_t> found;
  for (const auto& [first, count] : written)
    for (const auto& [other, others] : written) {
      const int64_t low = std::max(first, other - distance),
                    high = std::min(first + count, other - distance + others);
      for (int64_t e = low; e < high && found.size() < kMostPairs; ++e) found.push_back(e);
    }
  return found;
}

class FarDraws {
 public:
  FarDraws(const Reference& reference, const Bindings& bindings, const Outputs& outputs,
           const Options& options)
      : reference_(reference), bindings_(bindings), outputs_(outputs) {
    budget_ = {.tensor_cores = options.tensor_cores, .threads = options.threads};
    // What was chosen is an input of the reference that need not be generated.
    budget_.on_read = [on_read = options.on_read, &choice = choice_](const std::string& input,
                                                                     std::span<const int64_t> elements) {
      return input == choice || on_read(input, elements);
    };
  }

  // An output of which each element tells one draw of its own; none where there is none.
  std::string output_of(const Choice& choice) const {
    if (choice.kind != ChoiceKind::Random) return "";
    if (choice.is_output) return choice.name;
    for (const Choice::Told& told : choice.told) {
      const auto output = outputs_.find(told.output);
      if (output == outputs_.end() || told.dimensions.size() != output->second->extents.size()) continue;
      bool in_order = true;
      for (std::size_t d = 0; d < told.dimensions.size(); ++d)
        in_order &= told.dimensions[d] == static_cast<int>(d);
      if (in_order) return told.output;
    }
    return "";
  }

  Result<Draws> draws_at(const Choice& choice, const std::string& name,
                         const std::vector<int64_t>& elements) {
    const Tensor& output = *outputs_.at(name);
    choice_ = reference::choice_input(choice.name);
    const auto weights = reference_.weights(bindings_, choice, elements, budget_);
    if (!weights) return weights.error();
    Draws found;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const double p = weights->value[i], b = weights->bound[i];
      const bool known = (weights->flags[i] & kNotKnown) == 0 && p + b >= 0 && p - b <= 1;
      found.low.push_back(std::clamp(p - b, 0.0, 1.0));
      found.high.push_back(std::clamp(p + b, 0.0, 1.0));
      found.outcome.push_back(static_cast<int8_t>(!known             ? -1
                                                  : choice.is_output ? output.load(elements[i]) != 0
                                                                     : 0));
    }
    if (choice.is_output) return found;
    // Which of the two results each element is.
    std::vector<reference::Expectation> expected;
    for (const int64_t outcome : {0, 1}) {
      auto drawn = std::make_shared<Tensor>(Tensor::zeros(contract::DType::boolean, output.extents));
      for (const int64_t element : elements) drawn->store_int(element, outcome);
      Bindings given = bindings_;
      given.inputs[choice_] = std::move(drawn);
      auto one = reference_.expect(given, name, elements, budget_);
      if (!one) return one.error();
      expected.push_back(std::move(*one));
    }
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const bool no = expected[0].admits(i, output, elements[i]),
                 yes = expected[1].admits(i, output, elements[i]);
      if (found.outcome[i] >= 0) found.outcome[i] = static_cast<int8_t>(no == yes ? -1 : yes);
    }
    return found;
  }

 private:
  const Reference& reference_;
  const Bindings& bindings_;
  const Outputs& outputs_;
  reference::BudgetOptions budget_;
  std::string choice_;  // the name of its input
};

// Whether the draws of each pair are the same, as draws themselves.
Draws agreement(const Draws& first, const Draws& second, const std::string& name, int end) {
  Draws same;
  same.name = name;
  same.extents = {static_cast<int64_t>(first.outcome.size())};
  same.yes = fmt::format("the same 2^{} elements apart", end);
  for (std::size_t i = 0; i < first.outcome.size(); ++i) add_agreement(same, first, i, second, i);
  return same;
}

}  // namespace

std::vector<Finding> judge_far_draws(const Reference& reference, const Bindings& bindings,
                                     const Outputs& outputs, const std::map<std::string, Ranges>& written,
                                     const Options& options) {
  FarDraws far(reference, bindings, outputs, options);
  for (const Choice& choice : reference.choices(bindings)) {
    const std::string name = far.output_of(choice);
    const auto ranges = written.find(name);
    if (name.empty() || ranges == written.end() || !outputs.contains(name)) continue;
    for (const int end : kEnds) {
      const std::vector<int64_t> near = pairs_at(ranges->second, int64_t{1} << end);
      if (near.empty()) continue;
      std::vector<int64_t> other = near;
      for (int64_t& element : other) element += int64_t{1} << end;
      const auto first = far.draws_at(choice, name, near), second = far.draws_at(choice, name, other);
      if (!first || !second) break;  // more inputs than can be made
      const auto odd = least_probable(agreement(*first, *second, name, end));
      if (!odd) continue;
      evidence::Numeric numeric;
      numeric.output = name;
      numeric.misfit = odd->text;
      numeric.judged = static_cast<int64_t>(near.size());
      return {{.kind = Kind::WrongDistribution, .severity = Severity::Error, .evidence = std::move(numeric)}};
    }
  }
  return {};
}

}  // namespace assay::judge
