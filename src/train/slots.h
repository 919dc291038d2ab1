// The operators of a training step, and what takes the place of one of them.
//
// A step is a sequence of operators over named tensors: forward, backward, and the update of the weights. Each
// operator is a slot: a row of slots() with its tensors, scalars and formula, which `assay train --slots` prints. A
// Candidate is a function with the signature of a slot; every other operator is computed by trusted code.
//
// An operator may occur several times in a step (each layer has norms and products): these are its sites. A candidate
// takes all sites whose shapes it accepts.
//
// Dims: T tokens of a batch, S tokens of a sequence, V vocabulary, D width of the model, F width of the feed-forward
// part, H heads (of attention: sequences × heads), P half the width of a head, K and N the inner and outer extent of a
// product, n elements of a parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "contract/bindings.h"
#include "finding/finding.h"

namespace assay::train {

enum class Phase : uint8_t { Forward, Backward, Update };
std::string_view to_string(Phase phase);

struct SlotTensor {
  std::string_view name;
  contract::DType dtype = contract::DType::bf16;  // where no contract says otherwise
  std::vector<std::string_view> dims;             // extents, outermost first: "T", "2 * P"
  contract::Role role = contract::Role::In;
  // An output that trusted code computes where the candidate has none. Every input may be left out.
  bool is_optional = false;
  std::string_view values;  // of an input, as a contract says it: "activations"
  std::string_view meaning;
};

struct SlotScalar {
  std::string_view name;
  contract::DType dtype = contract::DType::f32;
  double usual = 0;  // a value that it often has
  std::string_view meaning;
};

struct Slot {
  std::string_view name;  // never changes: contracts name it
  Phase phase = Phase::Forward;
  std::string_view summary;
  std::vector<SlotTensor> tensors;
  std::vector<SlotScalar> scalars;
  std::string_view formula;  // in the language of contracts, with these names

  const SlotTensor* tensor(std::string_view tensor_name) const;
  const SlotScalar* scalar(std::string_view scalar_name) const;
};

// All slots, in the order of a step.
std::span<const Slot> slots();
const Slot* slot_named(std::string_view name);  // null: there is none
// A first contract for a kernel that takes the slot. It names a source file, which need not exist.
std::string contract_text(const Slot& slot);

using Outputs = std::map<std::string, contract::Tensor, std::less<>>;

// Why a call gave no outputs that count.
struct CallFailure {
  std::vector<Finding>
      findings;  // what the kernel did that no correct kernel does; empty: nothing is known against it
  Error error;   // … and what happened, in a line
};
using CallResult = std::variant<Outputs, CallFailure>;

// A call whose results were judged one by one.
struct Examined {
  int64_t elements = 0;           // judged; 0: the contract excludes these inputs
  std::string problem;            // why they could not be judged; empty: they were
  std::vector<Finding> findings;  // errors
};
struct ExamineOptions {
  int threads = 0;
  bool diagnoses = true;  // off: kinds of findings are general, and found in a fraction of the time
};
using ExamineResult = std::variant<Examined, CallFailure>;

// What takes the place of an operator. All names are the slot's.
struct Candidate {
  const Slot* slot = nullptr;
  // The tensors that it has, with the dtypes that it wants; inputs that it does not have are not made for it. The
  // trusted runs that it is compared with round the slot's tensors to the same types.
  std::map<std::string, contract::DType, std::less<>> dtypes;
  // Values of the slot's scalars that the contract fixes (eps, base): the model uses these in place of its own.
  std::map<std::string, double, std::less<>> scalars;
  // Why it cannot be called with these dims; empty: it can. Null: it takes any.
  std::function<std::string(const contract::Shape&)> refuses;
  // One call: all outputs and inouts in `dtypes`, each with its extents. A failure ends the training run.
  std::function<CallResult(const contract::Bindings&)> call;
  // One call, its results judged by the rounding budgets of the contract (examined_call.h). Null: there is nothing to judge by.
  std::function<ExamineResult(const contract::Bindings&, const ExamineOptions&)> examine;
};

}  // namespace assay::train
