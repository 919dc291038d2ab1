#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "reference/defects.h"
#include "reference/expectation.h"
#include "reference/reference_impl.h"
#include "reference/shaped_formula.h"

namespace assay::reference {

namespace {

// Room for `count` elements of a definition.
struct Storage {
  std::vector<double> v, b, s, magnitude, terms;
  std::vector<uint8_t> f;

  explicit Storage(std::size_t count)
      : v(count), b(count), s(count), magnitude(count), terms(count), f(count) {}
  Elements elements() { return {v.data(), b.data(), s.data(), magnitude.data(), terms.data(), f.data()}; }
};

}  // namespace

Result<Expectation> Reference::Impl::expect_formula(const Bindings& bindings, int tensor,
                                                    std::span<const int64_t> elements,
                                                    const BudgetOptions& options) const {
  Result<ShapedFormula> shaped = at_shape(contract, *compiled, bindings.shape);
  if (!shaped) return shaped.error();
  Evaluation evaluation(contract, *compiled, std::move(*shaped), bindings, options, nullptr);
  if (Result<void> checked = evaluation.check(); !checked) return checked.error();
  const int definition = compiled->final_definition[static_cast<std::size_t>(tensor)];
  const Definition& made = compiled->definitions[static_cast<std::size_t>(definition)];
  const int64_t count = evaluation.shaped.definitions[static_cast<std::size_t>(definition)].count;
  for (const int64_t element : elements)
    if (element < 0 || element >= count)
      return Error{fmt::format("`{}` has no element {}", made.name, element)};

  if (!is_known(definition, bindings)) {
    Expectation unknown = unfilled(contract.tensors[static_cast<std::size_t>(tensor)].dtype, elements);
    std::ranges::fill(unknown.flags, static_cast<uint8_t>(kUnspecified));
    return unknown;
  }
  Storage found(elements.size());
  if (Result<void> done = evaluation.compute(definition, elements, found.elements()); !done)
    return done.error();
  Expectation e;
  e.dtype = contract.tensors[static_cast<std::size_t>(tensor)].dtype;
  e.element.assign(elements.begin(), elements.end());
  e.value = std::move(found.v);
  e.bound = std::move(found.b);
  e.sigma = std::move(found.s);
  e.magnitude = std::move(found.magnitude);
  e.terms = std::move(found.terms);
  e.asked_terms = asked_terms(evaluation.shaped, definition);
  e.flags = std::move(found.f);
  make_room(e);
  const bool leans = options.tensor_cores && uses_products(definition);
  const Store to(e.dtype, evaluation.precision);
  const auto fill = [&](int64_t first, int64_t n) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(first + n); ++i) {
      if (is_float(e.dtype))
        fill_real(e, i, to);
      else
        fill_integer(e, i, std::bit_cast<int64_t>(e.value[i]));
      if (leans)
        e.bias[i] = kTensorCoreLean * 2 * evaluation.precision.u * std::ceil(e.terms[i] / kTensorCoreTerms) *
                    std::abs(e.value[i]);
    }
  };
  in_parallel(evaluation.threads(), static_cast<int64_t>(elements.size()), 1 << 14, fill);
  if (Result<void> done = add_alternatives(evaluation, definition, e); !done) return done.error();
  override_budget(contract.require, e);
  return e;
}

// Undecided elements: the exact set where the outermost operation tells it.
Result<void> Reference::Impl::add_alternatives(Evaluation& evaluation, int definition, Expectation& e) const {
  const auto undecided = [](uint8_t flags) { return (flags & kUndecided) != 0; };
  if (std::ranges::none_of(e.flags, undecided)) return {};
  const Store to(e.dtype, evaluation.precision);
  e.first_alternative.assign(e.size() + 1, 0);
  for (std::size_t i = 0; i < e.size(); ++i) {
    e.first_alternative[i + 1] = static_cast<int64_t>(e.alternatives.size());
    if (!undecided(e.flags[i])) continue;
    Result<std::vector<AdmittedResult>> admitted_results =
        evaluation.admitted_results(definition, e.element[i]);
    if (!admitted_results) return admitted_results.error();
    for (std::size_t k = 0; k < admitted_results->size(); ++k) {
      const AdmittedResult& outcome = (*admitted_results)[k];
      const Interval admitted = is_float(e.dtype)
                                    ? to.range(rounded(e.dtype, outcome.value), outcome.low, outcome.high)
                                    : Interval{outcome.low, outcome.high};
      if (k > 0) {
        e.alternatives.push_back(admitted);
        continue;
      }
      e.low[i] = admitted.low;
      e.high[i] = admitted.high;
    }
    e.first_alternative[i + 1] = static_cast<int64_t>(e.alternatives.size());
  }
  return {};
}

Result<std::vector<double>> Reference::simulate(const Bindings& bindings, const std::string& output,
                                                std::span<const int64_t> elements,
                                                const Defect& defect) const {
  Result<int> tensor = impl_->tensor_of(output);
  if (!tensor) return tensor.error();
  if (!impl_->compiled) return Error{"only a formula can be simulated"};
  if (const Reference* one = impl_->chosen(bindings))
    return one->simulate(bindings, output, elements, defect);
  Result<ShapedFormula> shaped = at_shape(impl_->contract, *impl_->compiled, bindings.shape);
  if (!shaped) return shaped.error();
  try {
    Evaluation evaluation(impl_->contract, *impl_->compiled, std::move(*shaped), bindings, {}, &defect);
    if (Result<void> checked = evaluation.check(); !checked) return checked.error();
    const int definition = impl_->compiled->final_definition[static_cast<std::size_t>(*tensor)];
    Storage found(elements.size());
    if (Result<void> done = evaluation.compute(definition, elements, found.elements()); !done)
      return done.error();
    const DType dtype = impl_->contract.tensors[static_cast<std::size_t>(*tensor)].dtype;
    std::vector<double> stored(elements.size());
    for (std::size_t i = 0; i < stored.size(); ++i) stored[i] = simulated_store(dtype, found.v[i], defect);
    return stored;
  } catch (const std::bad_alloc&) {
    return Error{fmt::format("not enough memory to evaluate `{}`", output)};
  }
}

std::string choice_input(std::string_view choice) {
  return "'" + std::string(choice);
}

const std::vector<Choice>& Reference::choices(const Bindings& bindings) const {
  static const std::vector<Choice> kNone;
  if (const Reference* one = impl_->chosen(bindings)) return one->choices(bindings);
  return impl_->compiled ? impl_->compiled->choices : kNone;
}

int Reference::Impl::weights_of(const Choice& choice) const {
  for (std::size_t i = 0; i < compiled->choices.size(); ++i)
    if (compiled->choices[i].name == choice.name) return compiled->weight_definitions[i];
  return -1;
}

bool Reference::Impl::is_known(int definition, const Bindings& bindings) const {
  if (compiled->choices.empty()) return true;
  const std::vector<int> needed = behind(definition);
  for (std::size_t i = 0; i < compiled->choices.size(); ++i)
    if (std::ranges::find(needed, compiled->choice_definitions[i]) != needed.end() &&
        !bindings.inputs.contains(choice_input(compiled->choices[i].name)))
      return false;
  return true;
}

Result<std::vector<int64_t>> Reference::weights_extents(const Bindings& bindings,
                                                        const Choice& choice) const {
  if (const Reference* one = impl_->chosen(bindings)) return one->weights_extents(bindings, choice);
  Result<ShapedFormula> shaped = at_shape(impl_->contract, *impl_->compiled, bindings.shape);
  if (!shaped) return shaped.error();
  return shaped->definitions[static_cast<std::size_t>(impl_->weights_of(choice))].extents;
}

Result<ChoiceWeights> Reference::weights(const Bindings& bindings, const Choice& choice,
                                         std::span<const int64_t> elements,
                                         const BudgetOptions& options) const {
  if (const Reference* one = impl_->chosen(bindings))
    return one->weights(bindings, choice, elements, options);
  Result<ShapedFormula> shaped = at_shape(impl_->contract, *impl_->compiled, bindings.shape);
  if (!shaped) return shaped.error();
  try {
    Evaluation evaluation(impl_->contract, *impl_->compiled, std::move(*shaped), bindings, options, nullptr);
    if (Result<void> checked = evaluation.check(); !checked) return checked.error();
    const int definition = impl_->weights_of(choice);
    Storage found(elements.size());
    if (!impl_->is_known(definition, bindings)) {
      std::ranges::fill(found.f, static_cast<uint8_t>(kUnspecified));
    } else if (Result<void> done = evaluation.compute(definition, elements, found.elements()); !done) {
      return done.error();
    }
    const Definition& made = impl_->compiled->definitions[static_cast<std::size_t>(definition)];
    if (reduced_type(made.reduce, made.type()) != Type::Float)
      for (double& value : found.v) value = static_cast<double>(std::bit_cast<int64_t>(value));
    return ChoiceWeights{std::move(found.v), std::move(found.b), std::move(found.f)};
  } catch (const std::bad_alloc&) {
    return Error{fmt::format("not enough memory to evaluate what `{}` is chosen by", choice.name)};
  }
}

}  // namespace assay::reference
