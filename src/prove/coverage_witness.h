// Which thread writes an element: a guess, by inverting the store's address.
//
// A store's offset is a sum such as 4 (C row + column), with row = 8 ctaid + tid / 32 and column = tid % 32 +
// 32 k. Read as a number in mixed radix, its digits are the indices: splitting the offset by the strides of
// the tensor gives the coordinates that the store writes, and dividing each by the factors of the indices in it
// gives the indices back. The result is a term for each thread and block index, over the element's coordinates
// and the dims.
//
// This is a guess and no more: coverage.cpp asks whether that thread does write the element. A wrong guess
// leaves an output unproved, never wrongly proved.
#pragma once

#include <optional>
#include <vector>

#include "prove/lower.h"
#include "prove/tensor_memory.h"

namespace assay::prove {

// One coordinate of an output as its stores see it: consecutive dims may be taken as one.
struct Coordinate {
  Term stride = kNoTerm;  // bytes
  Term extent = kNoTerm;
  Term index = kNoTerm;  // a variable below the extent: the element's
};
using View = std::vector<Coordinate>;  // the last has the smallest stride

// A polynomial of bytes, by the coordinate whose stride each of its monomials is a multiple of: the sum over i
// of parts[i] * (the stride's dims). The stride without its dims is `scale`.
struct Split {
  std::vector<Poly> parts;
  std::vector<Int> scale;
};
Split split(Lowering& lowering, const View& view, const Poly& offset);

// The finest of the views that these offsets suit: coordinates whose strides occur in one of them. Of a tensor with gaps
// each axis is a coordinate.
View view_of(Terms& terms, Lowering& lowering, const TensorMemory& memory, const std::vector<Poly>& offsets,
             const std::string& name);

// The same offset with a remainder where it was computed as x - (x / d) d, as compilers do.
Poly with_remainders(const Lowering& lowering, Poly offset);

struct ThreadOf {
  Term thread[3], block[3];  // 64 bits
  bool operator==(const ThreadOf&) const = default;
};

// The thread whose store with this offset writes the element of `view`. Several guesses, likely ones first.
std::vector<ThreadOf> threads_of(Terms& terms, Lowering& lowering, const Summary& summary, const View& view,
                                 const Poly& offset);

}  // namespace assay::prove
