// Loops whose stride is not a constant (gridDim * blockDim), and which a compiler has unrolled.
//
// Such a loop begins with a division: of n - 1 - i, the distance to go, by the stride s. From the quotient q the compiler
// decides how many single steps precede the steps by four, and the loop itself then tests i + R s < n for every fourth R only.
// That the three after it are below n as well follows from their number alone: R <= q, and q + 1 minus the single steps is a
// multiple of four. The products R s hide that from a solver, so facts and goals about x - R s are replaced by facts and goals
// about q - R, which are linear.
//
// With x = d q + r and 0 <= r < d, for integers and d >= 1:
//     R d <= x      if and only if  R <= q        R d <= x < d (q + 1); R d <= q d <= x
//     R d >= x      implies         R >= q        R d >= x >= q d
//     R d >= x + 1  implies         R >= q + 1    R d > q d
#include <algorithm>

#include "prove/lower.h"

namespace assay::prove {

namespace {

// p >= 0 for integers, divided by what all coefficients but the constant have in common.
Poly reduced(const Poly& poly) {
  Int divisor = 0;
  for (const auto& [monomial, by] : poly)
    if (!monomial.empty()) divisor = common_divisor(divisor, by);
  if (divisor <= 1) return poly;
  Poly result;
  for (const auto& [monomial, by] : poly) {
    const Int part = monomial.empty() ? floor_div(by, divisor) : by / divisor;
    if (part != 0) result[monomial] = part;
  }
  return result;
}

// poly = R d + e with a constant e.
struct Multiple {
  Poly times;
  Int rest = 0;
};
std::optional<Multiple> multiple_of(const Poly& poly, const Poly& d) {
  if (d.size() != 1 || d.begin()->first.empty() || d.begin()->second <= 0) return std::nullopt;
  const auto& [factors, by] = *d.begin();
  Multiple result;
  for (const auto& [monomial, times] : poly) {
    if (monomial.empty()) {
      result.rest = times;
      continue;
    }
    if (times % by != 0 || !std::includes(monomial.begin(), monomial.end(), factors.begin(), factors.end()))
      return std::nullopt;
    result.times[without(monomial, factors)] += times / by;
  }
  return result;
}

}  // namespace

// What a fact says of the quotient, put beside it wherever it stands: a fact may be one of several cases.
std::optional<Formula> Lowering::with_quotients(const Formula& formula, const Division& division) const {
  if (formula.kind == Formula::Kind::All || formula.kind == Formula::Kind::Any) {
    Formula result = formula;
    bool changed = false;
    for (Formula& part : result.parts)
      if (auto more = with_quotients(part, division)) {
        part = std::move(*more);
        changed = true;
      }
    return changed ? std::optional(std::move(result)) : std::nullopt;
  }
  if (formula.kind != Formula::Kind::AtLeastZero) return std::nullopt;
  const Poly fact = reduced(formula.poly), quotient = atom_poly(division.quotient);
  // x - R d + e >= 0
  if (const auto below = multiple_of(add(division.value, fact, -1), division.divisor);
      below && below->rest >= 0)
    return all_of({formula, at_least_zero(add(quotient, below->times, -1))});
  // R d - x + e >= 0
  if (const auto above = multiple_of(add(fact, division.value), division.divisor); above && above->rest <= 0)
    return all_of({formula, at_least_zero(plus(add(above->times, quotient, -1), above->rest < 0 ? -1 : 0))});
  return std::nullopt;
}

void Lowering::take_quotients(const Formula& fact, const std::function<Poly(const Poly&)>& same) {
  std::vector<Formula> found;
  for (const auto& [operands, results] : divisions_) {
    const auto& [value, divisor] = operands;
    if (auto more = with_quotients(fact, {same(value), divisor, results.first, results.second}))
      found.push_back(std::move(*more));
  }
  for (const Formula& one : found) assume(one);
}

std::optional<Poly> Lowering::enough_by_quotient(const Poly& poly) const {
  const Poly goal = reduced(poly);
  for (const auto& [operands, results] : divisions_) {
    const auto& [value, divisor] = operands;
    const auto below = multiple_of(add(value, goal, -1), divisor);
    if (below && below->rest <= 0 && !below->times.empty())
      return add(atom_poly(results.first), below->times, -1);
  }
  return std::nullopt;
}

}  // namespace assay::prove
