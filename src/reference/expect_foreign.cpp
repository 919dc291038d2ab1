#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/expectation.h"
#include "reference/foreign.h"
#include "reference/reference_impl.h"

namespace assay::reference {

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
      fill_nearest_integer(e, i, v);
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
      fill_nearest_integer(e, i, v);
      continue;
    }
    e.bound[i] = budget.bound(elements[i]);
    e.sigma[i] = budget.variance(elements[i]);
    fill_real(e, i, to);
  }
  override_budget(contract.require, e);
  return e;
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

}  // namespace assay::reference
