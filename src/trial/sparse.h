// Tensors beyond 2^31 and 2^32 elements, without that much memory.
//
// A table that is reached only through indices need not be filled: the indices of a sparse trial name a few
// rows (the first, the last, those where an offset outgrows 31 and 32 bits), and only these rows hold values.
// All others are pages that nobody touches, unless the kernel computes a wrong offset.
#pragma once

#include <string>
#include <vector>

#include "base/random.h"
#include "trial/trial.h"

namespace assay::trial {

// Rows [first, first + count) along the first extent.
struct Rows {
  int64_t first = 0, count = 0;
};
std::vector<Rows> filled_rows(const std::vector<int64_t>& extents);

// Whether this tensor is mostly empty in the trial, and whether its values name rows of one that is.
bool is_sparse(const contract::TensorSpec& spec, const Trial& trial);
bool names_sparse_rows(const contract::TensorSpec& spec, const Trial& trial);

// A dim that sizes inputs reached only through indices, and nothing else; with a shape in which such an input
// has more than `elements` elements while all else is small. None where the promise is smaller, or the bytes
// too many.
struct SparseShape {
  std::string dim;
  contract::Shape shape;
};
std::vector<SparseShape> sparse_shapes(const contract::Contract& contract, double elements, double max_bytes);

Result<contract::Tensor> draw_sparse(const contract::Contract& contract, const contract::TensorSpec& spec,
                                     const Trial& trial, Family family, uint64_t seed);

}  // namespace assay::trial
