// Which of a slot's tensors, dims and scalars those of a contract are.
//
// Example:
//
//     const Result<Binding> binding = bind(contract, *slot_named("swiglu"));
//     if (!binding) return use(binding.error().text());  // with the line of the contract
//     use(to_toml(*binding));                            // all of it, as [workload] says it
//
// A contract says it with three tables, on the left in its own words, on the right in the slot's:
//
//     [workload]
//     slot    = "swiglu"
//     tensors = { "h[t, 0, j]" = "gate[t, j]", "h[t, 1, j]" = "value[t, j]", out = "y" }
//     dims    = { H = "F" }
//     scalars = { epsilon = "eps" }
//
// What it does not say is found: a tensor or scalar that has a slot's name is that one, and dims follow from the
// extents of tensors. Without subscripts, a tensor holds the slot's elements in the same order, in the same shape or
// another: x[n] may be the slot's x[T, F], and x[B, S, D] its x[T, D], with B = 1. "x -> y" is a tensor that a kernel
// overwrites: it holds the slot's x before the call and y after it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "contract/bindings.h"
#include "train/slots.h"

namespace assay::train {

struct BoundTensor {
  std::string own;   // the contract's
  std::string from;  // the slot's that it holds before a call; empty: it is an output
  std::string to;    // … after it; empty: it is an input
  // Where the slot's element [indices] is in the contract's tensor. Both empty: in the same order.
  std::vector<std::string> indices;
  std::vector<contract::IntExpr> subscripts;  // over the indices, and the dims of both

  const std::string& slots() const { return from.empty() ? to : from; }
};

struct Binding {
  const Slot* slot = nullptr;
  std::vector<BoundTensor> tensors;
  std::map<std::string, contract::IntExpr, std::less<>> dims;  // the contract's, over the slot's
  std::map<std::string, std::string, std::less<>> scalars;     // the contract's: the slot's
  std::map<std::string, double, std::less<>>
      constants;  // of the slot: numbers that the formula has in their place

  Result<contract::Shape> own_shape(const contract::Shape& slot_shape) const;
};

// By what the contract says in [workload], and by names.
Result<Binding> bind(const contract::Contract& contract, const Slot& slot);

// The dims that follow from the extents of the bound tensors, added to those that are known. False: two tensors
// contradict each other. Of a contract's fixed extents, `fixed` gets what they say about the slot's dims.
bool add_dims(const contract::Contract& contract, Binding& binding, contract::Shape& fixed);

// What is missing of it; empty: nothing. Outputs that the slot needs, dims and scalars without a value.
std::string incomplete(const contract::Contract& contract, const Binding& binding);

// The table [workload] that says all of it.
std::string to_toml(const Binding& binding);

// Where the slot's elements of one tensor are in the contract's, at one shape.
struct Placement {
  std::vector<int64_t> slot_extents, own_extents;
  int64_t base = 0;
  std::vector<std::vector<int64_t>>
      offsets;  // by axis of the slot's tensor and index; empty: in the same order
};
Result<Placement> place(const contract::Contract& contract, const Binding& binding, const BoundTensor& bound,
                        const contract::Shape& slot_shape, const contract::Shape& own_shape);
// Copies the elements; both tensors have the same dtype.
void scatter(const Placement& placement, const contract::Tensor& slots, contract::Tensor& own);
void gather(const Placement& placement, const contract::Tensor& own, contract::Tensor& slots);

}  // namespace assay::train
