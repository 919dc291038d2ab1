// Segments and integers of chosen sizes.
//
// A kernel that sums rows of more than 256 elements in another way has to be tried with rows of 255, 256 and 257. Where
// rows lie between offsets, or their lengths are numbers in a tensor, the dims say nothing of that, and numbers drawn at random
// hardly ever hold them. A trial may name the sizes that an input has (Trial::runs): its first part has the first of
// them, the next part the second, and so on. Neighbours are alike, so that what goes wrong for one row in seven of such a
// length, or for many long rows in one block, is met as well.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "trial/trial.h"

namespace assay::trial {

// Whether an input may be in runs: offsets, and integers that may be lengths (of 32 bits or more, from a range).
bool has_sizes(const contract::TensorSpec& spec);

// The input in runs, as far as its sizes are legal at this shape. Between offsets, segments are cut off where the total
// ends, and the last has what is left of it.
Result<contract::Tensor> draw_runs(const contract::TensorSpec& spec, const contract::Shape& shape,
                                   const std::vector<int64_t>& sizes);

// How many segments, or integers, have this size in the trial; 0 where the input is not in runs.
int64_t run_of(const contract::TensorSpec& spec, const Trial& trial, int64_t size);

// The largest size that the promise allows.
int64_t largest_size(const contract::Contract& contract, const contract::TensorSpec& spec);

// A legal shape with room for so many of each size, or for as many as the promise allows; other dims are small. None: not
// every size has one.
std::optional<contract::Shape> shape_for(const contract::Contract& contract, const contract::TensorSpec& spec,
                                         const std::vector<int64_t>& sizes, int64_t of_each, int64_t others);

// The same shape, made larger or smaller so that the offsets of `spec` end where these segments do, as far as that is possible.
contract::Shape with_total(const contract::Contract& contract, const contract::TensorSpec& spec,
                           contract::Shape shape, const std::vector<int64_t>& sizes);

}  // namespace assay::trial
