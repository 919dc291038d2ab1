// Arithmetic on batches of up to 256 values, each with its rounding budget.
//
// A lane of type Float is a value v (exact, in FP64), a hard bound b on how far a
// sound kernel's value may be from it, and a variance s of that difference. Every
// operation passes the operands' b and s on by its derivatives, and adds its own
// rounding in the precision that the contract declares:
//
//   v = x * y    b = |x| b_y + |y| b_x + b_x b_y + u |v|    s = x² s_y + y² s_x + (0.425 u v)²
//
// Blocks without rounding (b is null) pay nothing for it. A lane of type Int is an
// int64; of type Bool 0 or 1; there b is how far a different outcome of a
// comparison, cast or floor within the budget could move it (0: decided).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

#include "base/arena.h"
#include "reference/compiled_formula.h"
#include "reference/reference.h"

namespace assay::reference {

inline constexpr int kLanes = 256;
// The rms of a rounding to nearest, in units of u |v|, for a significand that is
// distributed as the reciprocal.
inline constexpr double kRms = 0.425;

inline constexpr double kInf = std::numeric_limits<double>::infinity();

inline bool representable(DType dtype, double value) {
  return rounded(dtype, value) == value;
}

// Rounded towards minus infinity, as formulas divide integers.
inline int64_t floor_div(int64_t a, int64_t b) {
  return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0);
}

struct Lanes {
  double* v = nullptr;   // Float
  int64_t* i = nullptr;  // Int, Bool
  double* b = nullptr;   // null: exact
  double* s = nullptr;   // Float only, together with b
  uint8_t* f = nullptr;  // flags; null: none
  int bits = 64;         // exact Float: significand bits that hold every lane
};

// The precision that the contract allows for intermediate values.
struct Precision {
  DType dtype = DType::f32;
  Math math = Math::Standard;
  double u = 0;      // one operation's relative error; for f64 the reference's own is in it
  double eta = 0;    // one operation's absolute error where values are tiny
  double added = 0;  // the same for one addition to a sum
  double max = 0;
  double min_normal = 0;
  int bits = 24;
};
Precision precision_of(const ReferenceSpec& reference);

// How batches are computed: exactly with budgets, exactly without, or as a kernel
// would (every operation rounded, and perhaps a defect).
struct Arithmetic {
  Arena* arena = nullptr;
  const Precision* precision = nullptr;
  bool budget = true;
  const Defect* simulated = nullptr;

  Lanes unary(const Node& node, const Lanes& x, int n) const;
  Lanes binary(const Node& node, const Lanes& x, const Lanes& y, int n) const;
  // `exp` of a sum or difference: in log2 units, or as a product of exps, it is as good as its operands are
  // precise. `size` is the sum of their sizes, `squares` of their squares.
  void widen_exponential(Lanes& r, const double* size, const double* squares, int n) const;
  // A sum of a few terms, added in another order: `size` is the sum of their sizes.
  void widen_order(Lanes& r, const double* size, int n) const;
  // m + log(y), where a kernel may take the logarithm of y exp(m) itself: its error is that of a logarithm
  // as large as the result. `size`, the sum of the sizes of m's terms: if m is of one element only, the exps
  // under it have errors of their own; if m is a difference, as of log(exp(a) / b), so have the logarithms.
  enum class LogOf : uint8_t { Shared = 1, OneElement = 2, Quotient = 3 };
  void widen_logarithm(Lanes& r, const double* size, int n, LogOf what) const;
  // A quotient of exps: a kernel may have shifted both by a maximum, and x - max is
  // rounded where x was not.
  void settle_infinities(Lanes& r, int n) const;
  void widen_quotient(Lanes& r, int n) const;
  // r is a sum or product of x, or x divided by something. An operand beyond the precision is infinite in a kernel, and r infinite or NaN
  // whatever its exact value is: exp(100) * 0. Operands mostly have their flag already. Functions do not set it, because where the result is
  // a divisor nothing is lost (1 / exp(100) is 0).
  void flag_infinite_operand(Lanes& r, const Lanes& x, int n) const;
  Lanes real(double value, int n) const;
  Lanes integer(int64_t value, int n) const;
  // A cast through `dtype` that an implementation may make. `rescaled`: of x times a factor that is not known and is
  // divided out again, so that it is not known where between two powers of two it is rounded.
  Lanes cast(DType dtype, const Lanes& x, int n, bool rescaled = false) const;
  Lanes to_integer(DType dtype, const Lanes& x, int n, bool nearest) const;
  Lanes to_float(const Lanes& x, int n) const;
  // Values whose format is wider than the declared precision may be rounded to it.
  void narrow(Lanes& x, int n) const;

  void need_budget(Lanes& x, int n) const;  // b and s exist, zero if they did not
  void need_flags(Lanes& x, int n) const;
  void flag_nonfinite(Lanes& x, int n) const;  // inputs
  DType simulated_dtype() const;
  double simulate_rounding(double value) const;

 private:
  Lanes merged(const Lanes& x, const Lanes* y, int n) const;
  void own_rounding(Lanes& r, int n, double relative, double rms, bool unless_representable = false) const;
  void settle(Lanes& r, int n) const;
  void admit(Lanes& r, int l, double value) const;
  void admit_limits(Lanes& r, const Lanes& x, int n, std::initializer_list<double> limits) const;
  void flag_beyond(Lanes& r, const Lanes& x, const Lanes& y, int n) const;
  void flag_zero_times_infinity(Lanes& r, const Lanes& x, const Lanes& y, int n) const;
  void forget_beyond(Lanes& r, int n) const;
  void round_all(Lanes& r, int n) const;
  Lanes add(const Lanes& x, const Lanes& y, int n, double sign) const;
  Lanes multiply(const Lanes& x, const Lanes& y, int n) const;
  Lanes divide(const Lanes& x, const Lanes& y, int n, bool of_integers) const;
  Lanes extreme(const Lanes& x, const Lanes& y, int n, bool largest) const;
  Lanes power(const Lanes& x, int64_t exponent, int n) const;
  Lanes power(const Lanes& x, const Lanes& y, int n) const;
  Lanes compare(Op op, const Lanes& x, const Lanes& y, int n) const;
  Lanes integer_binary(const Node& node, const Lanes& x, const Lanes& y, int n) const;
  Lanes function(Op op, const Lanes& x, int n) const;
  Lanes rounding(Op op, const Lanes& x, int n) const;
  Lanes shift(const Lanes& x, int n, bool of_one_element) const;

 public:
  // Set when an integer result does not fit 64 bits or a divisor is zero.
  mutable const char* trouble = nullptr;
};

// A smooth function of one argument (functions.cpp).
struct FunctionInfo {
  double (*value)(double);
  double (*slope)(double x, double value);
  // Largest error of one evaluation at x, relative to the value and absolute, in
  // units of u, standard and fast.
  void (*error)(double x, double value, const Precision& precision, double& relative, double& absolute);
};
const FunctionInfo& function_info(Op op);

}  // namespace assay::reference
