// Bounds of an offset that is built from rows and columns, stride by stride.
//
// To the solver row * C is a product of unknowns, and what it can be told about products (lemmas.h) makes
// long questions. But most offsets are mixed-radix numbers, ((a * B + b) * C + c) * element, and of those
// bounds follow digit by digit, from facts that have no products:
//
//     size = E * s,  offset = R * s + rest,  s >= 0
//     0 <= R <= E - 1  and  0 <= rest  and  rest + bytes <= s
//     give  0 <= offset  and  offset + bytes <= (E - 1) * s + s = size
//
// and `rest` within s is a question of the same kind. The rule is sufficient, not necessary: a flat index
// that is bounded as a whole has other digits, and is left to the general question.
#pragma once

#include <optional>
#include <vector>

#include "prove/lower.h"

namespace assay::prove {

// Formulas that together imply 0 <= offset and offset + bytes <= size. None: the offset has no strides, or one
// that does not divide the size.
std::optional<std::vector<Formula>> bounds_by_strides(const Lowering& lowering, const Poly& offset,
                                                      const Poly& size, Int bytes);

}  // namespace assay::prove
