// Where the elements of a tensor are, as functions of the dims.
//
// A tensor with strides is a plain array under another order of its axes (channels last, transposed), or it has gaps: bytes
// between its elements, which are the caller's. An access within the array is then not yet one of the tensor's own bytes.
//
//     elements: base + item * (i0 * s0 + i1 * s1 + …), 0 <= i < extent
//
// Elements of 4 bits share bytes; to the prover such a tensor is an array of bytes.
#pragma once

#include <optional>
#include <vector>

#include "prove/expr.h"
#include "prove/lower.h"

namespace assay::prove {

// One axis of a tensor: elements that differ by one in it lie `stride` bytes apart.
struct TensorAxis {
  Term extent = kNoTerm, stride = kNoTerm;
};

struct TensorMemory {
  Term bytes = kNoTerm;  // from its first byte to its last; kNoTerm: not understood
  bool never_empty = false;
  bool gaps = false;  // bytes between its elements, for some shapes
  uint32_t item = 1;  // bytes that are written together: of an element, or of two halves of a byte
  // The outermost first. Without gaps each is as many of the next as that has; of a packed tensor, of bytes. Empty: not
  // understood.
  std::vector<TensorAxis> axes;
  // With gaps: fewer axes for the same elements, where the last element of one axis is as far from the next one's first as
  // its elements are from each other. Rows of every other element, say, that follow each other without a break.
  std::vector<TensorAxis> joined;
};

TensorMemory memory_of(Terms& terms, Dims& dims, const contract::TensorSpec& tensor);

// Formulas that together say that `bytes` bytes at this offset belong to elements of a tensor with gaps: they lie in one
// element, or in one row of elements that follow each other. None: the offset is not built from the strides.
// `axes` are the memory's, or the joined ones.
std::optional<std::vector<Formula>> within_elements(Lowering& lowering, const TensorMemory& memory,
                                                    const std::vector<TensorAxis>& axes, const Poly& offset,
                                                    Int bytes);

}  // namespace assay::prove
