// Which elements of an output to look at.
#pragma once

#include <vector>

#include "contract/tensor.h"

namespace assay::judge {

// All elements if there are at most `most`; else whole rows: the first and last ones, those with the
// largest sums of squares, those with anything nonfinite, and random ones; and where rows are longer than
// `most` allows, the ends of each and random elements between. Sorted, each once.
std::vector<int64_t> choose_elements(const contract::Tensor& output, int64_t most, uint64_t seed);

}  // namespace assay::judge
