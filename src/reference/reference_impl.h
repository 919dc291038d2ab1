// What is behind a Reference: a compiled formula, the process of a PyTorch function, or neither. Its parts:
//   reference.cpp       making one; asking for elements
//   expect_formula.cpp  elements of a formula: values, simulations, the weights of choices
//   expect_foreign.cpp  elements of references that are not formulas
//   formula_parts.cpp   what a formula consists of: sums, products, inputs
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "contract/contract.h"
#include "reference/compiled_formula.h"
#include "reference/evaluation.h"
#include "reference/reference.h"
#include "reference/torch_server.h"

namespace assay::reference {

struct Reference::Impl {
  Contract contract;
  ReferenceProvider provider;

  Result<int> tensor_of(const std::string& output) const;  // its index in the contract

  // Of formulas.
  std::shared_ptr<const CompiledFormula> compiled;
  std::vector<Reference> cases;  // by ReferenceSpec::cases
  Result<void> compile_formula(bool as_written);
  // The reference of the case that these bindings choose; null: this one.
  const Reference* chosen(const Bindings& bindings) const;
  template <class Question>
  bool any_case(Question question) const {
    return std::ranges::any_of(cases, question);
  }
  Result<Expectation> expect_formula(const Bindings& bindings, int tensor, std::span<const int64_t> elements,
                                     const BudgetOptions& options) const;
  Result<void> add_alternatives(Evaluation& evaluation, int definition, Expectation& e) const;
  // Every definition that a result of `definition` may depend on, itself included.
  std::vector<int> behind(int definition) const;
  double asked_terms(const ShapedFormula& shaped, int definition) const;
  // The definitions behind an output whose parts can be named; none where cases switch the formula: a site is
  // one of one formula, and which, depends on the call.
  std::vector<int> with_sites(const std::string& output) const;
  bool uses_products(int definition) const;
  int weights_of(const Choice& choice) const;
  // Whether everything that the kernel chooses on the way to a definition is given.
  bool is_known(int definition, const Bindings& bindings) const;

  // Of references that are not formulas: the outputs for the inputs last asked about are kept, since a judge
  // asks for one output after the other.
  using Outputs = std::map<std::string, Tensor>;
  mutable std::mutex foreign_lock;
  mutable std::optional<Bindings> foreign_inputs;
  mutable std::shared_ptr<const Outputs> foreign_outputs;
  Result<std::shared_ptr<const Outputs>> foreign(const Bindings& bindings) const;
  Result<Expectation> expect_foreign(const Bindings& bindings, int tensor,
                                     std::span<const int64_t> elements) const;

  // Of `torch` references: likewise.
  mutable std::unique_ptr<TorchServer> torch_server;
  mutable std::shared_ptr<const TorchAnswer> torch_answer;
  mutable bool torch_tensor_cores = false;
  mutable std::set<std::string> rests_on;
  Result<std::shared_ptr<const TorchAnswer>> torch(const Bindings& bindings, bool tensor_cores) const;
  Result<Expectation> expect_torch(const Bindings& bindings, int tensor, std::span<const int64_t> elements,
                                   const BudgetOptions& options) const;
};

}  // namespace assay::reference
