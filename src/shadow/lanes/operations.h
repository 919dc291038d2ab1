// Floating-point operations in FP64: their results, and their derivatives.
#pragma once

#include "shadow/lanes/lanes.h"

namespace assay::shadow::ASSAY_BUILD {

namespace {

// An operation: what it does to doubles, and its derivatives by each source.
struct Gradient {
  double a, b, c;
};

struct Plain {
  // Of finite operands its result is finite, however large: an infinity has overflowed even FP64.
  static constexpr bool kIsFinite = false;
};

struct Add : Plain {
  static constexpr uint32_t kSources = 2;
  static double apply(double a, double b, double) { return a + b; }
  static Gradient slope(double, double, double, double) { return {1, 1, 0}; }
};
struct Sub : Plain {
  static constexpr uint32_t kSources = 2;
  static double apply(double a, double b, double) { return a - b; }
  static Gradient slope(double, double, double, double) { return {1, -1, 0}; }
};
struct Mul : Plain {
  static constexpr uint32_t kSources = 2;
  static double apply(double a, double b, double) { return a * b; }
  static Gradient slope(double a, double b, double, double) { return {b, a, 0}; }
};
struct Fma : Plain {
  static constexpr uint32_t kSources = 3;
  // A product of floats is exact in a double, but not one of doubles.
  static double apply(double a, double b, double c) { return __builtin_fma(a, b, c); }
  static Gradient slope(double a, double b, double, double) { return {b, a, 1}; }
};
struct Div : Plain {
  static constexpr uint32_t kSources = 2;
  static double apply(double a, double b, double) { return a / b; }
  static Gradient slope(double, double b, double, double r) { return {1 / b, -r / b, 0}; }
};
struct Rcp : Plain {
  static constexpr uint32_t kSources = 1;
  static double apply(double a, double, double) { return 1 / a; }
  static Gradient slope(double, double, double, double r) { return {-r * r, 0, 0}; }
};
struct Sqrt : Plain {
  static constexpr uint32_t kSources = 1;
  static double apply(double a, double, double) { return std::sqrt(a); }
  static Gradient slope(double, double, double, double r) { return {0.5 / r, 0, 0}; }
};
struct Rsqrt : Plain {
  static constexpr uint32_t kSources = 1;
  static double apply(double a, double, double) { return 1 / std::sqrt(a); }
  static Gradient slope(double, double, double, double r) { return {-0.5 * r * r * r, 0, 0}; }
};
// 2^x to a few ulps of a double, as code that becomes a vector: 2^n · e^(r ln 2), |r| ≤ ½, by its series.
inline double exp2_of(double x) {
  const double in = x < -1100 ? -1100 : x > 1100 ? 1100 : x;
  const double magic = in + 0x1.8p52, n = magic - 0x1.8p52;
  const double r = (in - n) * 0.69314718055994530942;
  // Written out: a loop inside would keep the loop over lanes from becoming a vector.
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  // In two steps, so that results below the normal numbers are reached.
  const int64_t n_bits = static_cast<int64_t>(numerics::bits_of(magic) & 0xfffffffffffff) - 0x8000000000000;
  const int64_t half = n_bits >> 1, rest = n_bits - half;
  const double y = p * numerics::f64_of(static_cast<uint64_t>(half + 1023) << 52) *
                   numerics::f64_of(static_cast<uint64_t>(rest + 1023) << 52);
  return x != x ? x : y;
}

// log2 of a positive normal number: the exponent, and 2 atanh((m − 1)/(m + 1)) of the rest by its series.
inline double log2_of(double x) {
  const uint64_t bits = numerics::bits_of(x);
  const uint64_t shifted = bits - 0x3fe6a09e667f3bcd;  // so that the rest lies around one
  const int64_t e = static_cast<int64_t>(shifted) >> 52;
  const double m = numerics::f64_of(bits - (static_cast<uint64_t>(e) << 52));
  const double s = (m - 1) / (m + 1), z = s * s;
  double p = 1.0 / 21;
  p = p * z + 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  const double y = static_cast<double>(e) + 2 * 1.4426950408889634074 * s * p;
  return x > 0 ? (x < INFINITY ? y : x) : x == 0 ? -INFINITY : NAN;
}

struct Ex2 : Plain {
  static constexpr uint32_t kSources = 1;
  static constexpr bool kIsFinite = true;
  static double apply(double a, double, double) { return exp2_of(a); }
  static Gradient slope(double, double, double, double r) { return {0.6931471805599453 * r, 0, 0}; }
};
struct Lg2 : Plain {
  static constexpr uint32_t kSources = 1;
  static double apply(double a, double, double) { return log2_of(a); }
  static Gradient slope(double a, double, double, double) { return {1.4426950408889634 / a, 0, 0}; }
};
struct Sin : Plain {
  static constexpr uint32_t kSources = 1;
  static double apply(double a, double, double) { return ::sin(a); }
  static Gradient slope(double a, double, double, double) { return {::cos(a), 0, 0}; }
};
struct Cos : Plain {
  static constexpr uint32_t kSources = 1;
  static double apply(double a, double, double) { return ::cos(a); }
  static Gradient slope(double a, double, double, double) { return {-::sin(a), 0, 0}; }
};
struct Tanh : Plain {
  static constexpr uint32_t kSources = 1;
  static double apply(double a, double, double) { return ::tanh(a); }
  static Gradient slope(double, double, double, double r) { return {1 - r * r, 0, 0}; }
};
struct Neg : Plain {
  static constexpr uint32_t kSources = 1;
  static double apply(double a, double, double) { return -a; }
  static Gradient slope(double, double, double, double) { return {-1, 0, 0}; }
};
struct Abs : Plain {
  static constexpr uint32_t kSources = 1;
  static double apply(double a, double, double) { return std::fabs(a); }
  static Gradient slope(double a, double, double, double) { return {a < 0 ? -1.0 : 1.0, 0, 0}; }
};
struct Min : Plain {
  static constexpr uint32_t kSources = 2;
  static double apply(double a, double b, double) { return b < a || a != a ? b : a; }
  static Gradient slope(double a, double b, double, double) {
    return b < a ? Gradient{0, 1, 0} : Gradient{1, 0, 0};
  }
};
struct Max : Plain {
  static constexpr uint32_t kSources = 2;
  static double apply(double a, double b, double) { return b > a || a != a ? b : a; }
  static Gradient slope(double a, double b, double, double) {
    return b > a ? Gradient{0, 1, 0} : Gradient{1, 0, 0};
  }
};
struct Copysign : Plain {  // copysign d, a, b: the sign of a, the magnitude of b
  static constexpr uint32_t kSources = 2;
  static double apply(double a, double b, double) { return std::copysign(b, a); }
  static Gradient slope(double a, double b, double, double) {
    return {0, std::signbit(a) != std::signbit(b) ? -1.0 : 1.0, 0};
  }
};
struct Convert : Plain {
  static constexpr uint32_t kSources = 1;
  static double apply(double a, double, double) { return a; }
  static Gradient slope(double, double, double, double) { return {1, 0, 0}; }
};

}  // namespace

}  // namespace assay::shadow::ASSAY_BUILD
