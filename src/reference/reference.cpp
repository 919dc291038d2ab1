#include "reference/reference.h"

#include <fmt/format.h>

#include <numeric>

#include "contract/formula_case.h"
#include "reference/describe.h"
#include "reference/reference_impl.h"

namespace assay::reference {

Result<int> Reference::Impl::tensor_of(const std::string& output) const {
  const TensorSpec* spec = contract.tensor(output);
  if (!spec || !spec->is_output()) return Error{fmt::format("`{}` is not an output of the contract", output)};
  return static_cast<int>(spec - contract.tensors.data());
}

const Reference* Reference::Impl::chosen(const Bindings& bindings) const {
  if (cases.empty()) return nullptr;
  const FormulaCase* one = contract::chosen_case(contract, bindings.shape, bindings.scalars);
  return one ? &cases[static_cast<std::size_t>(one - contract.reference.cases.data())] : nullptr;
}

Result<void> Reference::Impl::compile_formula(bool as_written) {
  Result<std::shared_ptr<const CompiledFormula>> made = compile(contract, as_written);
  if (!made) return made.error();
  compiled = *made;
  for (const FormulaCase& one : contract.reference.cases) {
    const Contract own = contract::with_case(contract, one);
    Result<Reference> reference = as_written ? Reference::as_written(own) : Reference::make(own);
    if (!reference) return reference.error();
    cases.push_back(std::move(*reference));
  }
  return {};
}

Result<Reference> Reference::make(const Contract& contract, ReferenceProvider provider,
                                  std::shared_ptr<TorchProcess> process) {
  auto impl = std::make_shared<Impl>();
  impl->contract = contract;
  impl->provider = std::move(provider);
  if (contract.reference.kind == ReferenceKind::Formula)
    if (Result<void> done = impl->compile_formula(false); !done) return done.error();
  if (contract.reference.kind == ReferenceKind::Torch)
    impl->torch_server = std::make_unique<TorchServer>(impl->contract, std::move(process));
  Reference reference;
  reference.impl_ = std::move(impl);
  return reference;
}

Result<Reference> Reference::as_written(const Contract& contract) {
  if (contract.reference.kind != ReferenceKind::Formula) return make(contract);
  auto impl = std::make_shared<Impl>();
  impl->contract = contract;
  if (Result<void> done = impl->compile_formula(true); !done) return done.error();
  Reference reference;
  reference.impl_ = std::move(impl);
  return reference;
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

std::string Reference::describe(const Shape& shape) const {
  if (!impl_->compiled) return "";
  Result<std::string> text = reference::describe(impl_->contract, *impl_->compiled, shape);
  return text ? *text : text.error().text();
}

bool Reference::is_formula() const {
  return impl_->compiled != nullptr;
}

}  // namespace assay::reference
