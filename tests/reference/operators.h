// Forty operators as contracts, with inputs: what the tests of values, of budgets
// and of simulated kernels run over.
#pragma once

#include <string>
#include <vector>

#include "support.h"

namespace assay::reference::testing {

struct Operator {
  std::string name;
  std::string dims;                  // "N=5 D=33"
  std::vector<std::string> tensors;  // "x bf16 N,D activations", "y bf16 N,D out"
  std::vector<std::string> scalars;  // "eps f32 1e-5"
  std::string formula;
  std::string settings;  // more lines of [reference]
};

const std::vector<Operator>& operators();
const Operator& operator_named(const std::string& name);

std::string toml_of(const Operator& op);
// Inputs drawn as the contract's `values` say, at the operator's shape.
Bindings draw_bindings(const Contract& contract, unsigned seed);

}  // namespace assay::reference::testing
