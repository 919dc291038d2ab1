// What every fuzzer of contracts does with text that was accepted.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "contract/contract.h"
#include "reference/describe.h"
#include "reference/reference.h"

namespace assay::fuzz {

using namespace assay::reference;

constexpr int64_t kSmall = 256;  // elements of a tensor worth evaluating

[[noreturn]] inline void report(const char* what, const std::string& detail) {
  std::fprintf(stderr, "%s\n%s\n", what, detail.c_str());
  std::abort();
}

inline bool bind_zeros(const Contract& contract, Bindings& bindings) {
  for (const Dim& dim : contract.dims) bindings.shape[dim.name] = dim.lowest();
  for (const TensorSpec& spec : contract.tensors) {
    Result<std::vector<int64_t>> extents = spec.extents(bindings.shape);
    if (!extents) return false;
    int64_t count = 1;
    for (const int64_t extent : *extents) {
      if (extent > kSmall || (count *= extent) > kSmall) return false;
    }
    if (spec.is_input())
      bindings.inputs[spec.name] = std::make_shared<const Tensor>(Tensor::zeros(spec.dtype, *extents));
  }
  for (const ScalarSpec& spec : contract.scalars)
    bindings.scalars[spec.name] = Scalar::of(spec.dtype, spec.is_range() ? spec.low : spec.values[0]);
  return true;
}

// Explicit ranges can ask for any number of iterations; those are not of interest here.
inline bool is_quick(std::string_view text) {
  int digits = 0;
  for (const char c : text) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > 3) return false;
  }
  return text.find("..") == std::string_view::npos || text.size() < 2000;
}

// Parses, explains and evaluates; nothing may hang, overflow or read out of bounds.
inline void try_contract(std::string_view text) {
  Result<Contract> contract = parse(text, "fuzz.toml");
  if (!contract) {
    if (contract.error().message.empty()) report("an error without a message", contract.error().text());
    return;
  }
  (void)describe(*contract);
  if (contract->reference.kind != ReferenceKind::Formula || !is_quick(contract->reference.formula_text))
    return;
  Result<Reference> reference = Reference::make(*contract);
  if (!reference) {
    if (reference.error().message.empty()) report("an error without a message", reference.error().text());
    return;
  }
  Bindings bindings;
  if (!bind_zeros(*contract, bindings)) return;
  BudgetOptions options;
  options.threads = 1;
  for (const TensorSpec* output : contract->outputs()) {
    Result<Expectation> e = reference->expect_all(bindings, output->name, options);
    if (!e) continue;
    for (std::size_t i = 0; i < e->size(); ++i)
      if (!(e->bound[i] >= 0)) report("a bound that is not one", output->name);
  }
}

}  // namespace assay::fuzz
