#include "reference/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <numeric>

#include "contract/formula_case.h"
#include "reference/compiled_formula.h"
#include "reference/defects.h"
#include "reference/describe.h"
#include "reference/evaluation.h"
#include "reference/foreign.h"
#include "reference/shaped_formula.h"
#include "reference/torch_server.h"

namespace assay::reference {
namespace {

// Tensor cores add so many products at a time and cut the sum: the share of a unit in the last place that
// each such step leans toward zero on average.
constexpr double kTensorCoreTerms = 16, kTensorCoreLean = 0.36;
constexpr double kMostInteger = 9e18;  // of a double that becomes an integer

// Room for `count` elements of a definition.
struct Storage {
  std::vector<double> v, b, s, magnitude, terms;
  std::vector<uint8_t> f;

  explicit Storage(std::size_t count)
      : v(count), b(count), s(count), magnitude(count), terms(count), f(count) {}
  Elements elements() { return {v.data(), b.data(), s.data(), magnitude.data(), terms.data(), f.data()}; }
};

// The output keeps all that the declared precision holds: storing does not round again.
bool is_wide(DType dtype, const Precision& precision) {
  const numerics::FormatInfo& to = numerics::info(info(dtype).format);
  const numerics::FormatInfo& own = numerics::info(info(precision.dtype).format);
  return to.precision() >= own.precision() && to.exponent_bits >= own.exponent_bits;
}

// The output's format, with what every element asks of it.
struct Store {
  DType dtype;
  bool wide;
  double max;
  int fraction_bits, min_exponent;
  double eta;

  Store(DType the_dtype, const Precision& precision)
      : dtype(the_dtype), wide(is_float(the_dtype) && is_wide(the_dtype, precision)), eta(precision.eta) {
    const numerics::Format format = info(dtype).format;
    max = numerics::max_finite(format);
    fraction_bits = numerics::info(format).fraction_bits;
    min_exponent = numerics::info(format).min_exponent();
  }

  // The deviation of a rounding to nearest at v: ulp / sqrt(12); none where v is stored exactly.
  double sigma(double v, double nearest) const {
    if (wide || nearest == v || !(std::abs(v) <= max)) return 0;
    const int exponent = static_cast<int>(std::bit_cast<uint64_t>(v) >> 52 & 0x7ff) - 1023;
    const int ulp = std::max(exponent, min_exponent) - fraction_bits;
    return std::bit_cast<double>(static_cast<uint64_t>(ulp + 1023) << 52) * 0.28867513459481287;
  }

  Interval range(double nearest, double low, double high) const {
    Interval result{rounded(dtype, low), rounded(dtype, high)};
    if (!wide) return result;
    if (std::isfinite(result.low)) result.low = std::min(low, nearest);
    if (std::isfinite(result.high)) result.high = std::max(high, nearest);
    return result;
  }
};

// e.value, e.bound and e.flags are there; e.sigma holds the variance so far.
void fill_real(Expectation& e, std::size_t i, const Store& to) {
  const double v = e.value[i], b = e.bound[i], nearest = rounded(to.dtype, v), store = to.sigma(v, nearest);
  double s = e.sigma[i];
  uint8_t flags = e.flags[i];
  if (b > 0) s = std::max(s, to.eta * to.eta);  // tiny values have a floor
  if (!std::isfinite(v)) flags |= kNonfiniteValue;
  if (b == 0) flags |= kExact;
  const double rest = std::sqrt(s);
  if (rest < 0.1 * store) flags = static_cast<uint8_t>(flags & ~kCoherent);
  const Interval admitted = b == 0 ? Interval{nearest, nearest} : to.range(nearest, v - b, v + b);
  e.low[i] = admitted.low;
  e.high[i] = admitted.high;
  e.sigma_rest[i] = rest;
  e.sigma[i] = store == 0 ? rest : std::sqrt(s + store * store);
  e.flags[i] = flags;
}

void fill_integer(Expectation& e, std::size_t i, int64_t v) {
  std::byte cell[8];
  store_int(e.dtype, cell, v);
  e.integer[i] = load_int(e.dtype, cell);
  e.value[i] = static_cast<double>(e.integer[i]);
  e.low[i] = e.value[i] - e.bound[i];
  e.high[i] = e.value[i] + e.bound[i];
  e.sigma[i] = e.sigma_rest[i] = 0;
  if (e.bound[i] == 0) e.flags[i] |= kExact;
}

// The vectors that evaluation does not give.
void make_room(Expectation& e) {
  const std::size_t count = e.value.size();
  for (std::vector<double>* list : {&e.low, &e.high, &e.sigma_rest, &e.bias}) list->assign(count, 0);
  if (!is_float(e.dtype)) e.integer.assign(count, 0);
}

// Room for these elements, each without rounding and of one term.
Expectation unfilled(DType dtype, std::span<const int64_t> elements) {
  Expectation e;
  e.dtype = dtype;
  e.element.assign(elements.begin(), elements.end());
  for (std::vector<double>* list : {&e.value, &e.bound, &e.sigma, &e.magnitude})
    list->assign(elements.size(), 0);
  e.terms.assign(elements.size(), 1);
  e.flags.assign(elements.size(), 0);
  make_room(e);
  return e;
}

void override_budget(const Require& require, Expectation& e) {
  if (!require.rtol && !require.atol) return;
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (!std::isfinite(e.value[i])) continue;
    e.bound[i] = require.rtol.value_or(0) * std::abs(e.value[i]) + require.atol.value_or(0);
    e.low[i] = e.value[i] - e.bound[i];
    e.high[i] = e.value[i] + e.bound[i];
  }
}

}  // namespace

struct Reference::Impl {
  Contract contract;
  std::shared_ptr<const CompiledFormula> compiled;  // of formulas
  std::vector<Reference> cases;                     // of formulas, by ReferenceSpec::cases
  ReferenceProvider provider;

  // The reference of the case that these bindings choose; null: this one.
  const Reference* chosen(const Bindings& bindings) const {
    if (cases.empty()) return nullptr;
    const FormulaCase* one = contract::chosen_case(contract, bindings.shape, bindings.scalars);
    return one ? &cases[static_cast<std::size_t>(one - contract.reference.cases.data())] : nullptr;
  }
  template <class Question>
  bool any_case(Question question) const {
    return std::ranges::any_of(cases, question);
  }

  static Result<Reference> of_case(const Contract& contract, const FormulaCase& one, bool as_written) {
    const Contract own = contract::with_case(contract, one);
    return as_written ? Reference::as_written(own) : Reference::make(own);
  }

  Result<int> tensor_of(const std::string& output) const {
    const TensorSpec* spec = contract.tensor(output);
    if (!spec || !spec->is_output())
      return Error{fmt::format("`{}` is not an output of the contract", output)};
    return static_cast<int>(spec - contract.tensors.data());
  }

  Result<Expectation> expect_formula(const Bindings& bindings, int tensor, std::span<const int64_t> elements,
                                     const BudgetOptions& options) const;
  // Of references that are not formulas: the outputs for the inputs last asked about are kept, since a judge
  // asks for one output after the other.
  using Outputs = std::map<std::string, Tensor>;
  Result<std::shared_ptr<const Outputs>> foreign(const Bindings& bindings) const;
  mutable std::mutex foreign_lock;
  mutable std::optional<Bindings> foreign_inputs;
  mutable std::shared_ptr<const Outputs> foreign_outputs;

  Result<Expectation> expect_foreign(const Bindings& bindings, int tensor,
                                     std::span<const int64_t> elements) const;

  // Of `torch` references: likewise.
  Result<std::shared_ptr<const TorchAnswer>> torch(const Bindings& bindings, bool tensor_cores) const;
  mutable std::unique_ptr<TorchServer> torch_server;
  mutable std::shared_ptr<const TorchAnswer> torch_answer;
  mutable bool torch_tensor_cores = false;
  mutable std::set<std::string> rests_on;
  Result<Expectation> expect_torch(const Bindings& bindings, int tensor, std::span<const int64_t> elements,
                                   const BudgetOptions& options) const;
  Result<void> add_alternatives(Evaluation& evaluation, int definition, Expectation& e) const;
  std::vector<int> behind(int definition) const;
  int weights_of(const Choice& choice) const;
  // Whether everything that the kernel chooses on the way to a definition is given.
  bool is_known(int definition, const Bindings& bindings) const;
  bool uses_products(int definition) const;
};

bool Expectation::admits(std::size_t i, double stored) const {
  if ((flags[i] & kUnspecified) != 0) return true;
  const bool overflow = (flags[i] & kMayOverflow) != 0;
  if (std::isnan(stored)) return std::isnan(value[i]) || overflow;
  if (std::isinf(stored) && overflow) return true;
  if (low[i] <= stored && stored <= high[i]) return true;
  if (first_alternative.empty()) return false;
  for (int64_t a = first_alternative[i]; a < first_alternative[i + 1]; ++a) {
    const Interval& other = alternatives[static_cast<std::size_t>(a)];
    if (other.low <= stored && stored <= other.high) return true;
  }
  return false;
}

bool Expectation::admits(std::size_t i, const Tensor& output, int64_t at) const {
  if (integer.empty()) return admits(i, output.load(at));
  const int64_t stored = output.load_int(at);
  if (stored == integer[i]) return true;
  // A double does not tell large neighbours apart; an exact element has no others.
  return (flags[i] & kExact) == 0 && admits(i, static_cast<double>(stored));
}

Result<Reference> Reference::make(const Contract& contract, ReferenceProvider provider,
                                  std::shared_ptr<TorchProcess> process) {
  auto impl = std::make_shared<Impl>();
  impl->contract = contract;
  impl->provider = std::move(provider);
  if (contract.reference.kind == ReferenceKind::Formula) {
    Result<std::shared_ptr<const CompiledFormula>> compiled = compile(contract);
    if (!compiled) return compiled.error();
    impl->compiled = *compiled;
    for (const FormulaCase& one : contract.reference.cases) {
      Result<Reference> made = Impl::of_case(contract, one, false);
      if (!made) return made.error();
      impl->cases.push_back(std::move(*made));
    }
  }
  if (contract.reference.kind == ReferenceKind::Torch)
    impl->torch_server = std::make_unique<TorchServer>(impl->contract, std::move(process));
  Reference reference;
  reference.impl_ = std::move(impl);
  return reference;
}

Result<Reference> Reference::as_written(const Contract& contract) {
  Result<Reference> reference = make(contract);
  if (!reference || !reference->impl_->compiled) return reference;
  Result<std::shared_ptr<const CompiledFormula>> compiled = compile(contract, true);
  if (!compiled) return compiled.error();
  auto impl = std::make_shared<Impl>();
  impl->contract = contract;
  impl->compiled = *compiled;
  for (const FormulaCase& one : contract.reference.cases) {
    Result<Reference> made = Impl::of_case(contract, one, true);
    if (!made) return made.error();
    impl->cases.push_back(std::move(*made));
  }
  reference->impl_ = std::move(impl);
  return reference;
}

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

namespace {

// The very same inputs: their tensors are shared, not equal by chance.
bool same_inputs(const Bindings& a, const Bindings& b) {
  if (a.shape != b.shape || a.inputs != b.inputs || a.scalars.size() != b.scalars.size()) return false;
  return std::ranges::equal(a.scalars, b.scalars, [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.dtype == y.second.dtype && x.second.bits == y.second.bits;
  });
}

}  // namespace

Result<std::shared_ptr<const Reference::Impl::Outputs>> Reference::Impl::foreign(
    const Bindings& bindings) const {
  const std::scoped_lock lock(foreign_lock);
  if (foreign_inputs && same_inputs(*foreign_inputs, bindings)) return foreign_outputs;
  Result<Outputs> outputs = run_foreign(contract, bindings, provider);
  if (!outputs) return outputs.error();
  foreign_inputs = bindings;
  foreign_outputs = std::make_shared<const Outputs>(std::move(*outputs));
  return foreign_outputs;
}

Result<std::shared_ptr<const TorchAnswer>> Reference::Impl::torch(const Bindings& bindings,
                                                                  bool tensor_cores) const {
  const std::scoped_lock lock(foreign_lock);
  if (foreign_inputs && torch_tensor_cores == tensor_cores && same_inputs(*foreign_inputs, bindings))
    return torch_answer;
  Result<TorchAnswer> answer = torch_server->expect(bindings, tensor_cores);
  if (!answer) return answer.error();
  if (!answer->rests_on.empty()) rests_on.insert(answer->rests_on);
  foreign_inputs = bindings;
  torch_tensor_cores = tensor_cores;
  torch_answer = std::make_shared<const TorchAnswer>(std::move(*answer));
  return torch_answer;
}

// The server's bounds and deviations are those of a formula's evaluation: before the store.
Result<Expectation> Reference::Impl::expect_torch(const Bindings& bindings, int tensor,
                                                  std::span<const int64_t> elements,
                                                  const BudgetOptions& options) const {
  const TensorSpec& spec = contract.tensors[static_cast<std::size_t>(tensor)];
  const auto answer = torch(bindings, options.tensor_cores);
  if (!answer) return answer.error();
  const TorchOutput& output = (*answer)->outputs.at(spec.name);
  const Precision precision = precision_of(contract.reference);
  const Store to(spec.dtype, precision);
  const double steps =
      options.tensor_cores ? std::ceil(longest_sum(contract, bindings, spec) / kTensorCoreTerms) : 0;
  Expectation e = unfilled(spec.dtype, elements);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] < 0 || elements[i] >= output.exact.count())
      return Error{fmt::format("`{}` has no element {}", spec.name, elements[i])};
    const double v = output.exact.load(elements[i]), bound = output.bound.load(elements[i]),
                 sigma = output.sigma.load(elements[i]);
    const bool bounded = std::isfinite(bound) && std::isfinite(sigma);
    e.value[i] = v;
    e.magnitude[i] = std::abs(v);
    e.bound[i] = std::isfinite(bound) ? bound : std::numeric_limits<double>::infinity();
    if (!is_float(e.dtype)) {
      fill_integer(e, i, std::abs(v) < kMostInteger ? static_cast<int64_t>(std::nearbyint(v)) : 0);
      continue;
    }
    if (!bounded) e.flags[i] |= kUndecided | kUnspecified;  // nothing is required of it
    e.sigma[i] = bounded ? sigma * sigma : 0;
    e.bias[i] = std::min(e.bound[i], kTensorCoreLean * 2 * precision.u * steps * std::abs(v));
    fill_real(e, i, to);
  }
  override_budget(contract.require, e);
  return e;
}

Result<Expectation> Reference::Impl::expect_foreign(const Bindings& bindings, int tensor,
                                                    std::span<const int64_t> elements) const {
  const TensorSpec& spec = contract.tensors[static_cast<std::size_t>(tensor)];
  const auto outputs = foreign(bindings);
  if (!outputs) return outputs.error();
  Result<ForeignOutput> output = foreign_output(contract, bindings, **outputs, spec.name);
  if (!output) return output.error();
  const Precision precision = precision_of(contract.reference);
  const ForeignBudget budget(*output, precision);
  Expectation e = unfilled(spec.dtype, elements);
  const Store to(e.dtype, precision);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (elements[i] < 0 || elements[i] >= output->exact.count())
      return Error{fmt::format("`{}` has no element {}", spec.name, elements[i])};
    const double v = output->exact.load(elements[i]);
    e.magnitude[i] = std::abs(v);
    e.value[i] = v;
    if (!is_float(e.dtype)) {
      fill_integer(e, i, std::abs(v) < kMostInteger ? static_cast<int64_t>(std::nearbyint(v)) : 0);
      continue;
    }
    e.bound[i] = budget.bound(elements[i]);
    e.sigma[i] = budget.variance(elements[i]);
    fill_real(e, i, to);
  }
  override_budget(contract.require, e);
  return e;
}

Result<Expectation> Reference::expect(const Bindings& bindings, const std::string& output,
                                      std::span<const int64_t> elements, const BudgetOptions& options) const {
  Result<int> tensor = impl_->tensor_of(output);
  if (!tensor) return tensor.error();
  if (const Reference* one = impl_->chosen(bindings)) return one->expect(bindings, output, elements, options);
  try {
    if (impl_->compiled) return impl_->expect_formula(bindings, *tensor, elements, options);
    if (impl_->torch_server) return impl_->expect_torch(bindings, *tensor, elements, options);
    return impl_->expect_foreign(bindings, *tensor, elements);
  } catch (const std::bad_alloc&) {
    return Error{
        fmt::format("not enough memory to evaluate `{}` at {}", output, contract::to_string(bindings.shape))};
  }
}

Result<Expectation> Reference::expect_all(const Bindings& bindings, const std::string& output,
                                          const BudgetOptions& options) const {
  const TensorSpec* spec = impl_->contract.tensor(output);
  if (!spec) return Error{fmt::format("`{}` is not an output of the contract", output)};
  Result<std::vector<int64_t>> extents = spec->extents(bindings.shape);
  if (!extents) return extents.error();
  int64_t count = 1;
  for (const int64_t extent : *extents) count *= extent;
  std::vector<int64_t> elements(static_cast<std::size_t>(count));
  std::iota(elements.begin(), elements.end(), int64_t{0});
  return expect(bindings, output, elements, options);
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

// Every definition that a result of `definition` may depend on, itself included.
std::vector<int> Reference::Impl::behind(int definition) const {
  // Definitions refer to earlier sources only, so the walk ends.
  std::vector<int> waiting = {definition}, found;
  std::vector<char> seen(compiled->definitions.size(), 0);
  while (!waiting.empty()) {
    const int id = waiting.back();
    waiting.pop_back();
    if (seen[static_cast<std::size_t>(id)]++) continue;
    found.push_back(id);
    for (const Node& node : compiled->definitions[static_cast<std::size_t>(id)].nodes) {
      if (node.op != Op::Load) continue;
      const Source& source = compiled->sources[static_cast<std::size_t>(node.ref)];
      if (!source.is_input) waiting.push_back(source.definition);
    }
  }
  return found;
}

bool Reference::Impl::uses_products(int definition) const {
  return std::ranges::any_of(behind(definition), [&](int id) {
    const Definition& made = compiled->definitions[static_cast<std::size_t>(id)];
    return made.reduce == Reduce::Sum && !made.reduced.empty() && Evaluator::is_product(made);
  });
}

std::vector<Site> Reference::sums(const std::string& output) const {
  std::vector<Site> sites;
  const Result<int> tensor = impl_->tensor_of(output);
  // A site is one of one formula: which, depends on the call.
  if (!tensor || !impl_->compiled || !impl_->cases.empty()) return sites;
  const CompiledFormula& compiled = *impl_->compiled;
  for (const int id : impl_->behind(compiled.final_definition[static_cast<std::size_t>(*tensor)])) {
    const Definition& made = compiled.definitions[static_cast<std::size_t>(id)];
    const bool sum = made.reduce == Reduce::Sum || made.reduce == Reduce::Mean;
    if (sum && made.type() == Type::Float && !made.reduced.empty()) sites.push_back({-1, id, made.name});
  }
  return sites;
}

std::vector<Site> Reference::values(const std::string& output) const {
  std::vector<Site> sites;
  const Result<int> tensor = impl_->tensor_of(output);
  // A site is one of one formula: which, depends on the call.
  if (!tensor || !impl_->compiled || !impl_->cases.empty()) return sites;
  const CompiledFormula& compiled = *impl_->compiled;
  for (const int id : impl_->behind(compiled.final_definition[static_cast<std::size_t>(*tensor)])) {
    const Definition& made = compiled.definitions[static_cast<std::size_t>(id)];
    for (std::size_t n = 0; n < made.nodes.size(); ++n) {
      const Node& node = made.nodes[n];
      const bool computes = node.op >= Op::Add && node.op != Op::If;
      if (node.type == Type::Float && computes) sites.push_back({static_cast<int>(n), id, made.name});
    }
  }
  return sites;
}

namespace {

// By node: whether an index of some element depends on it.
std::vector<char> in_subscripts(const std::vector<Node>& nodes) {
  std::vector<char> found(nodes.size(), 0);
  const auto mark = [&](int id) {
    if (id >= 0) found[static_cast<std::size_t>(id)] = 1;
  };
  // Operands come before what is computed from them.
  for (std::size_t n = nodes.size(); n-- > 0;) {
    for (const int subscript : nodes[n].subscripts) mark(subscript);
    if (!found[n]) continue;
    for (const int operand : {nodes[n].a, nodes[n].b, nodes[n].c}) mark(operand);
  }
  return found;
}

}  // namespace

std::set<std::string> Reference::summed_inputs(const std::string& output) const {
  std::set<std::string> names;
  Result<int> tensor = impl_->tensor_of(output);
  if (!tensor) return names;
  if (!impl_->compiled) {
    for (const TensorSpec* spec : impl_->contract.inputs()) names.insert(spec->name);
    return names;
  }
  const CompiledFormula& compiled = *impl_->compiled;
  for (const int id : impl_->behind(compiled.final_definition[static_cast<std::size_t>(*tensor)])) {
    const Definition& made = compiled.definitions[static_cast<std::size_t>(id)];
    const bool sums = made.reduce == Reduce::Sum || made.reduce == Reduce::Mean;
    if (!sums || made.type() != Type::Float) continue;
    for (const int under : impl_->behind(id)) {
      const std::vector<Node>& nodes = compiled.definitions[static_cast<std::size_t>(under)].nodes;
      const std::vector<char> selects = in_subscripts(nodes);
      for (std::size_t n = 0; n < nodes.size(); ++n) {
        if (nodes[n].op != Op::Load || (nodes[n].type != Type::Float && !selects[n])) continue;
        const Source& source = compiled.sources[static_cast<std::size_t>(nodes[n].ref)];
        if (source.is_input)
          names.insert(impl_->contract.tensors[static_cast<std::size_t>(source.tensor)].name);
      }
    }
  }
  for (const Reference& one : impl_->cases) names.merge(one.summed_inputs(output));
  return names;
}

bool Reference::has_products(const std::string& output) const {
  Result<int> tensor = impl_->tensor_of(output);
  if (!tensor || !impl_->compiled) return false;
  if (impl_->any_case([&](const Reference& one) { return one.has_products(output); })) return true;
  return impl_->uses_products(impl_->compiled->final_definition[static_cast<std::size_t>(*tensor)]);
}

std::string Reference::describe(const Shape& shape) const {
  if (!impl_->compiled) return "";
  Result<std::string> text = reference::describe(impl_->contract, *impl_->compiled, shape);
  return text ? *text : text.error().text();
}

void Reference::start() const {
  if (impl_->torch_server) impl_->torch_server->start();
}

void Reference::wait() const {
  const std::scoped_lock lock(impl_->foreign_lock);
  if (impl_->torch_server) impl_->torch_server->wait();
}

void Reference::expect_ahead(const Bindings& bindings, bool tensor_cores) const {
  if (impl_->torch_server) (void)impl_->torch(bindings, tensor_cores);
}

pid_t Reference::process() const {
  return impl_->torch_server ? impl_->torch_server->process() : 0;
}

Result<std::map<std::string, Tensor>> Reference::problem_inputs(const Shape& shape, uint64_t seed) const {
  if (!impl_->contract.generator) return std::map<std::string, Tensor>();
  const std::scoped_lock lock(impl_->foreign_lock);
  return impl_->torch_server->inputs(shape, seed);
}

std::set<std::string> Reference::budgets_rest_on() const {
  const std::scoped_lock lock(impl_->foreign_lock);
  return impl_->rests_on;
}

bool Reference::is_formula() const {
  return impl_->compiled != nullptr;
}

bool Reference::is_elementwise(const std::string& output) const {
  const Result<int> tensor = impl_->tensor_of(output);
  if (!tensor || !impl_->compiled) return false;
  if (impl_->any_case([&](const Reference& one) { return !one.is_elementwise(output); })) return false;
  const CompiledFormula& compiled = *impl_->compiled;
  const int last = compiled.final_definition[static_cast<std::size_t>(*tensor)];
  return std::ranges::none_of(impl_->behind(last), [&](int id) {
    const Definition& made = compiled.definitions[static_cast<std::size_t>(id)];
    return made.reduce != Reduce::None || made.is_scatter();
  });
}

bool Reference::applies(const Defect& defect) const {
  if (impl_->any_case([&](const Reference& one) { return one.applies(defect); })) return true;
  return impl_->compiled && defect_applies(*impl_->compiled, impl_->contract, defect);
}

}  // namespace assay::reference
