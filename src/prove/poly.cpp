#include "prove/poly.h"

#include <algorithm>
#include <utility>

namespace assay::prove {

namespace {

Int checked(Int value) {
  if (value > kInfinity || value < -kInfinity) throw TooHard{"numbers beyond 120 bits"};
  return value;
}

Int exact_mul(Int a, Int b) {
  Int product;
  if (__builtin_mul_overflow(a, b, &product)) throw TooHard{"numbers beyond 120 bits"};
  return checked(product);
}

constexpr size_t kMostTerms = 400;

void add_to(Poly& poly, const Monomial& monomial, Int by) {
  const auto [at, is_new] = poly.try_emplace(monomial, 0);
  at->second = checked(at->second + by);
  if (at->second == 0) poly.erase(at);
}

}  // namespace

Int saturated_add(Int a, Int b) {
  if (a >= kInfinity || b >= kInfinity) return kInfinity;
  if (a <= -kInfinity || b <= -kInfinity) return -kInfinity;
  return std::clamp(a + b, -kInfinity, kInfinity);
}

Int saturated_mul(Int a, Int b) {
  if (a == 0 || b == 0) return 0;
  Int product;
  if (__builtin_mul_overflow(a, b, &product)) return (a < 0) == (b < 0) ? kInfinity : -kInfinity;
  return std::clamp(product, -kInfinity, kInfinity);
}

Monomial without(const Monomial& all, const Monomial& part) {
  Monomial rest;
  std::set_difference(all.begin(), all.end(), part.begin(), part.end(), std::back_inserter(rest));
  return rest;
}

Int floor_div(Int a, Int b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

Poly constant_poly(Int value) {
  return value == 0 ? Poly{} : Poly{{{}, value}};
}
Poly atom_poly(Atom atom, Int by) {
  return by == 0 ? Poly{} : Poly{{{atom}, by}};
}

Poly add(const Poly& a, const Poly& b, Int times) {
  Poly sum = a;
  for (const auto& [monomial, by] : b) add_to(sum, monomial, exact_mul(by, times));
  return sum;
}

Poly multiply(const Poly& a, const Poly& b) {
  Poly product;
  for (const auto& [x, p] : a) {
    for (const auto& [y, q] : b) {
      Monomial both = x;
      both.insert(both.end(), y.begin(), y.end());
      std::sort(both.begin(), both.end());
      add_to(product, both, exact_mul(p, q));
    }
    if (product.size() > kMostTerms) throw TooHard{"a polynomial of very many terms"};
  }
  return product;
}

Poly scale(const Poly& a, Int by) {
  return add({}, a, by);
}
Poly plus(const Poly& a, Int constant) {
  return add(a, constant_poly(constant));
}

std::string decimal(Int value) {
  if (value == 0) return "0";
  std::string digits;
  for (Bits rest = value < 0 ? -static_cast<Bits>(value) : static_cast<Bits>(value); rest != 0; rest /= 10)
    digits += static_cast<char>('0' + static_cast<int>(rest % 10));
  if (value < 0) digits += '-';
  std::reverse(digits.begin(), digits.end());
  return digits;
}

Formula at_least_zero(Poly poly) {
  return {Formula::Kind::AtLeastZero, std::move(poly), {}, 0, true};
}
Formula all_of(std::vector<Formula> parts) {
  return {Formula::Kind::All, {}, std::move(parts), 0, true};
}
Formula any_of(std::vector<Formula> parts) {
  return {Formula::Kind::Any, {}, std::move(parts), 0, true};
}
Formula equal_to_zero(const Poly& poly) {
  return all_of({at_least_zero(poly), at_least_zero(scale(poly, -1))});
}

Formula negated(const Formula& formula) {
  Formula result = formula;
  switch (formula.kind) {
    case Formula::Kind::AtLeastZero:
      return at_least_zero(plus(scale(formula.poly, -1), -1));  // p < 0: -p - 1 >= 0
    case Formula::Kind::Bool:
      result.positive = !result.positive;
      return result;
    default:
      break;
  }
  result.kind = formula.kind == Formula::Kind::All ? Formula::Kind::Any : Formula::Kind::All;
  for (Formula& part : result.parts) part = negated(part);
  return result;
}

Int common_divisor(Int a, Int b) {
  while (b != 0) a = std::exchange(b, a % b);
  return a < 0 ? -a : a;
}

}  // namespace assay::prove
