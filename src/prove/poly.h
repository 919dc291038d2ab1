// Polynomials with integer coefficients over numbered atoms, and formulas over them.
//
// Coefficients are exact up to 2^120; beyond, an operation throws TooHard, which makes the obligation
// unknown.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "prove/term.h"

namespace assay::prove {

struct TooHard {
  std::string why;
};

using Atom = uint32_t;
using Monomial = std::vector<Atom>;    // sorted
using Poly = std::map<Monomial, Int>;  // no zero coefficients

inline constexpr Int kInfinity = Int{1} << 120;
Int saturated_add(Int a, Int b);
Int saturated_mul(Int a, Int b);

Poly constant_poly(Int value);
Poly atom_poly(Atom atom, Int by = 1);
Poly add(const Poly& a, const Poly& b, Int times = 1);
Poly multiply(const Poly& a, const Poly& b);
Poly scale(const Poly& a, Int by);
Poly plus(const Poly& a, Int constant);
std::string decimal(Int value);
Int floor_div(Int a, Int b);
Int common_divisor(Int a, Int b);  // at least 0
Monomial without(const Monomial& all, const Monomial& part);

struct Formula {
  enum class Kind : uint8_t { AtLeastZero, All, Any, Bool } kind = Kind::All;
  Poly poly;                   // AtLeastZero: poly >= 0
  std::vector<Formula> parts;  // All, Any
  Var var = 0;                 // Bool
  bool positive = true;
};
Formula at_least_zero(Poly poly);
Formula equal_to_zero(const Poly& poly);
Formula all_of(std::vector<Formula> parts);
Formula any_of(std::vector<Formula> parts);
Formula negated(const Formula& formula);

}  // namespace assay::prove
