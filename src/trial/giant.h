// Shapes at the corners of what a contract promises, however large: where 31 and 32 bits end, where a grid has more
// tiles than an axis may have, where a dim is at its largest. A trial at such a shape runs a sample of the blocks
// (Trial::sampled).
#pragma once

#include <vector>

#include "trial/trial.h"

namespace assay::trial {

// The corners of the promised box that fit into so many bytes, most telling first; only those that are larger than
// `whole` elements, which other trials run whole. Each dim at its largest with the others small; all at their largest;
// and for the largest tensor, numbers of elements just below, at and above 2^31 and 2^32.
std::vector<contract::Shape> giant_shapes(const contract::Contract& contract, double whole, double max_bytes);

// Where in a grid blocks are worth running at this shape: the shares of each tensor at which an index in elements or
// bytes passes 2^15, 2^16, 2^31 and 2^32, outputs first.
std::vector<double> telling_shares(const contract::Contract& contract, const contract::Shape& shape);

}  // namespace assay::trial
