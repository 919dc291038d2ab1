// Facts about products for the solver.
//
// To a linear solver a product of atoms is one more unknown. These are the facts about it that correct kernels
// turn out to need, each true of all integers:
//   L1  g >= 0 and c >= 0 give g c >= 0, for a known fact g about a factor x of the product x c.
//       (row < rows becomes row * columns + columns <= rows * columns.)
//   L2  for c >= 0: x >= 1 gives x c >= c; x <= 0 gives x c <= 0; x <= 1 gives x c <= c; x = 0 gives x c = 0.
//   L3  for c >= 0: x >= y + 1 gives x c >= y c + c; x = y gives x c = y c.
// A product also lies within the interval that its factors give it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "prove/lower.h"

namespace assay::prove {

class Lemmas {
 public:
  Lemmas(const Lowering& lowering, bool nonlinear) : lowering_(lowering), nonlinear_(nonlinear) {}

  // The formula as SMT-LIB. Products that it mentions are remembered.
  std::string text(const Formula& formula);
  std::string declarations() const { return declarations_; }
  // Assertions about all products mentioned so far. Empty in nonlinear questions.
  std::string about_products(const std::vector<Formula>& facts);

 private:
  std::string text(const Poly& poly);
  std::string product(const Monomial& monomial);
  std::string multiples(const std::vector<Formula>& facts, bool again);
  std::string orders();
  std::string comparisons();
  bool nonnegative(const Monomial& monomial) const;

  const Lowering& lowering_;
  bool nonlinear_;
  std::string declarations_;
  std::map<Monomial, std::string> products_;  // of two factors or more
  std::map<std::pair<Monomial, size_t>, bool> done_;
};

}  // namespace assay::prove
