// Slots whose formula a contract's formula computes, so that they need not be named.
//
// Example:
//
//     const std::vector<Recognised> found = recognise(contract);
//     if (!found.empty()) use(found.front().binding.slot->name);
//
// Tensors are assigned to the slot's in every way that roles, kinds of numbers and extents allow: with other names,
// with axes in another order, two of the slot's tensors packed into one (h[T, 2, F], or one after the other in
// h[T, 2 * F]), flattened, with a batch dim more. Both formulas are then evaluated exactly at a small shape with random
// inputs. They compute the same if all outputs agree: for formulas of this kind, agreement of random values by chance
// does not happen.
#pragma once

#include <vector>

#include "train/binding.h"

namespace assay::train {

struct Recognised {
  Binding binding;
  int changes = 0;  // of layouts and names: the least is likeliest to be what is meant
};

// The slots that fit, the likeliest first; empty: none, or the reference is not a formula.
std::vector<Recognised> recognise(const contract::Contract& contract);

}  // namespace assay::train
