// Sums and extremes in progress, one in each lane, with everything that their
// rounding budget needs.
#pragma once

#include <cstdint>
#include <optional>

#include "reference/arithmetic.h"

namespace assay::reference {

struct Accumulator {
  int n = 0;
  // Lanes are parts of one sum, to which the terms go in turn: what they came to before these terms.
  std::optional<double> together;
  double* sum = nullptr;  // sums: compensated by low_part; extremes: the chosen value
  double* low_part = nullptr;
  double* magnitude = nullptr;  // of |t|
  double* squares = nullptr;    // of t²
  double* bound = nullptr;      // of the terms' own budgets
  double* variance = nullptr;
  double* walk = nullptr;  // of squared partial sums, in the order of the loops
  double* lost = nullptr;  // of terms so small beside the partial sum that adding them hardly changes it
  // Of the sizes by whose exponents a tensor core aligns products; 0: those that they have.
  double* aligned = nullptr;
  double* aligned_squares = nullptr;
  double* weighted = nullptr;  // the sizes of what shifted exps are multiplied by (Definition::weighted)
  double* count = nullptr;
  double* low = nullptr;  // extremes: the admitted interval
  double* high = nullptr;
  double* about_zero = nullptr;  // a sum of squares about a mean: the same about zero; null elsewhere
  double* partial = nullptr;     // simulated partial sums
  double* partial_count = nullptr;
  int64_t* which = nullptr;  // argmax
  numerics::int128* integer = nullptr;
  uint8_t* flags = nullptr;

  static Accumulator make(Arena& arena, int n, Reduce reduce);
};

// How terms enter a sum.
struct SumRules {
  bool values_only = false;
  const Defect* simulated = nullptr;
  DType accumulate = DType::f32;
  int64_t partial_terms = 0;  // simulated partial sums
  double unit = 0;            // roundoff of a kernel's partial sums
};

// Adds terms t[0..n) to lanes map[0..n), or 0..n if map is null.
void add_terms(Accumulator& total, const Lanes& t, int n, const int* map, const SumRules& rules);
// Of the types of two factors; 0 where subnormals are no matter.
struct LeastNormals {
  double a = 0, b = 0;
};
// Adds the sizes by whose exponents a tensor core aligns the products a * b: those of factors below `least_normal`, but for
// zeros, count as if they were that.
void add_aligned(Accumulator& total, const Lanes& a, const Lanes& b, const LeastNormals& least_normal, int n,
                 const int* map);
// Multiplies lanes by terms. `sum` is the product, `magnitude` that of the sizes above 1, `bound` and `variance` those of
// the product.
void multiply_terms(Accumulator& total, const Lanes& t, int n, const int* map);
void add_integers(Accumulator& total, const Lanes& t, int n, const int* map);
// How far a value that is offered to an extreme may be off. Of one that may have overflowed, and so be anything, an index must
// tell; as an extreme itself it says so by its flag.
double budget_of_offer(const Lanes& t, int l, Reduce reduce);
// Offers values to an extreme; `which` is the index of each, for argmax.
void offer(Accumulator& total, const Lanes& t, int n, const int* map, Reduce reduce, const int64_t* which,
           int64_t uniform_which, bool hides_nan);

// All lanes of `parts` as one lane of `total`.
void fold(const Accumulator& parts, int used, Accumulator& total, int at, Reduce reduce, bool is_integer);

// One rounding of a simulated sum.
double round_sum(double value, DType dtype, bool toward_zero);

}  // namespace assay::reference
