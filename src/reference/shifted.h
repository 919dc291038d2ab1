// Quotients and logarithms of exps, rewritten so that nothing in them overflows.
//
// exp(x[i]) / sum[k](exp(x[k])) is a number between 0 and 1, but its exps leave every format: for x = 800
// that of the reference, too. What the formula means, and what a sound kernel computes, is the same with all
// exps shifted by some number, say the maximum. So that is what the reference evaluates:
//
//   exp(x[i]) / sum[k](exp(x[k]))    exp(x[i] - M) / sum[k](exp(x[k] - M))         M = max[k](x[k])
//   log(sum[k](exp(x[k])))           M + log(sum[k](exp(x[k] - M)))                M = max[k](x[k])
//   exp(x) / (1 + exp(x))            1 / (exp(-x) + 1)
//   log(1 + exp(x))                  M + log(exp(-M) + exp(x - M))                 M = max(x, 0)
//   exp(a) * exp(b)                  exp(a + b)
//
// Values, budgets, admitted overflows and simulated defects are then those of the formula that has the
// maximum in it, whichever of the two was written; only formulas with such exps pay for it.
//
// How: the scale of an expression is an expression for about the logarithm of its size, if exps make it
// large or small (of exp(x) it is x, of a product the sum, of a sum the maximum, of anything without exp
// none). It need not be exact, since e = rescaled(e, M) * exp(M) holds for every M. Where a quotient has a
// scale above and below, or a logarithm a scale inside, both parts are rescaled by it. Names stand for what
// was assigned to them. A sum that the formula itself shifts by its maximum has no scale, and stays as it is.
#pragma once

#include "contract/formula.h"
#include "reference/names.h"

namespace assay::reference {

// Functions that only a rewritten formula has.
// kShift(m): m where it is finite, else 0. What is shifted by it can be shifted by anything.
// kPivot(m): the same, m depending on one element only.
// kLogOfScaled(m, l): m + l, as the logarithm of a number that is never computed.
inline constexpr std::string_view kShift = "'shift", kPivot = "'pivot", kLogOfScaled = "'log";

Formula shift_exponentials(const Contract& contract, const Formula& formula);

}  // namespace assay::reference
