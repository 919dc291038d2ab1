// From values and budgets to expectations: what storing in the output's format does to them, and which stored results are
// admitted. Formulas, PyTorch functions and other references all end here.
#pragma once

#include <cstdint>
#include <span>

#include "contract/contract.h"
#include "reference/arithmetic.h"
#include "reference/reference.h"

namespace assay::reference {

// Tensor cores add so many products at a time and cut the sum: the share of a unit in the last place that each such step
// leans toward zero on average.
inline constexpr double kTensorCoreTerms = 16, kTensorCoreLean = 0.36;

// The output's format, with what every element asks of it.
struct Store {
  DType dtype;
  bool either;  // ties may go either way
  bool wide;    // the output keeps all that the declared precision holds: storing does not round again
  double max;
  int fraction_bits, min_exponent;
  double eta;

  Store(DType the_dtype, const Precision& precision);
  // The deviation of a rounding to nearest at v: ulp / sqrt(12); none where v is stored exactly.
  double sigma(double v, double nearest) const;
  Interval range(double nearest, double low, double high) const;
};

// Room for these elements, each without rounding and of one term.
Expectation unfilled(DType dtype, std::span<const int64_t> elements);
// Makes the vectors that evaluation does not give as long as the values.
void make_room(Expectation& e);

// The rest of element i. Its value, bound and flags are there; e.sigma holds the variance so far.
void fill_real(Expectation& e, std::size_t i, const Store& to);
void fill_integer(Expectation& e, std::size_t i, int64_t v);
// The integer nearest to v; one that has no such integer counts as 0.
void fill_nearest_integer(Expectation& e, std::size_t i, double v);

// The contract's own tolerance, where it gives one.
void override_budget(const Require& require, Expectation& e);

}  // namespace assay::reference
