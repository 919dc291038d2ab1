// f32 and f64 arithmetic in the four rounding modes, with .ftz and .sat.
//
// Rounding to nearest is the CPU's own. The directed modes of f32 go through
// double: the exact result is rounded to odd at 53 bits (inexact results get an
// odd last bit), which leaves enough for one correct rounding to 24 bits in any
// mode, subnormals and overflow included, without changing the CPU's rounding
// mode. The directed modes of f64 do change it, in arith.cpp.
#pragma once

#include <limits>

#include "numerics/formats.h"

namespace assay::numerics {

// ---- rounding to odd ------------------------------------------------------

// The double nearest to odd of s + e, where s = RN(s + e).
inline double to_odd(double s, double e) {
  const uint64_t b = bits_of(s);
  // In arithmetic, not conditions: the vectoriser follows it.
  const uint64_t opposite = (b ^ bits_of(e)) >> 63;  // e takes s towards zero
  const uint64_t even = ~b & 1;
  const uint64_t inexact = (e > 0 ? 1 : 0) + (e < 0 ? 1 : 0);
  return f64_of(b + (even & inexact) - 2 * (even & inexact & opposite));
}

inline double sum_to_odd(double a, double b) {
  const double s = a + b;
  const double v = s - a;
  const double e = (a - (s - v)) + (b - v);
  return to_odd(s, e);
}

// One rounding of x to f32: to nearest first, then one code back if that went the wrong way.
template <Rounding R>
inline float round_to_f32(double x) {
  const float f = static_cast<float>(x);
  const double back = f;
  const uint32_t b = bits_of(f);
  const bool negative = (b >> 31) != 0;
  if constexpr (R == Rounding::TowardZero) {
    return f32_of(b - pick<uint32_t>(std::fabs(back) > std::fabs(x), 1, 0));
  } else if constexpr (R == Rounding::Down) {
    return f32_of(b + pick<uint32_t>(back > x, pick<uint32_t>(negative, 1, ~0u), 0));
  } else if constexpr (R == Rounding::Up) {
    return f32_of(b + pick<uint32_t>(back < x, pick<uint32_t>(negative, ~0u, 1), 0));
  } else if constexpr (R == Rounding::Odd) {
    const bool above = std::fabs(back) > std::fabs(x);
    return f32_of((b - pick<uint32_t>(above, 1, 0)) | pick<uint32_t>((back < x) | (back > x), 1, 0));
  } else {
    return f;
  }
}

// ---- f32 ------------------------------------------------------------------

inline float saturate(float x) {  // to [+0, 1]; NaN and -0 become +0
  const float low = pick(x > 0.0f, x, 0.0f);
  return pick(low < 1.0f, low, 1.0f);
}

template <bool Ftz>
inline float operand(float x) {
  return Ftz ? flush(x) : x;
}

// With .ftz a result is tiny if it is below the normal numbers once it is rounded
// to 24 bits, as though exponents had no lower end: 2^-126 - 2^-151 becomes 2^-126,
// and 2^-126 - 2^-150 becomes zero. `scaled` is that rounding of 2^48 times the
// exact result; an overflow of it (infinity or NaN) is never tiny.
inline float flush_tiny(float x, float scaled) {
  return pick(std::fabs(scaled) < 0x1p-78f, f32_of(bits_of(x) & 0x80000000u), x);
}
inline constexpr float kScale = 0x1p48f;

template <bool Sat>
inline float result(float x) {
  return Sat ? saturate(x) : canonical(x);
}

// One rounding of an exact value, or one rounded to odd.
template <Rounding R, bool Ftz, bool Sat>
inline float result_of(double exact) {
  float r = round_to_f32<R>(exact);
  if constexpr (Ftz) r = flush_tiny(r, round_to_f32<R>(exact * kScale));
  return result<Sat>(r);
}

template <Rounding R = Rounding::NearestEven, bool Ftz = false, bool Sat = false>
inline float add_f32(float a, float b) {
  a = operand<Ftz>(a);
  b = operand<Ftz>(b);
  float r;
  if constexpr (R == Rounding::NearestEven) {
    r = a + b;
  } else {
    r = round_to_f32<R>(sum_to_odd(a, b));
    if constexpr (R == Rounding::Down) {  // an exact zero is negative, unless both operands are +0
      r = pick(r == 0.0f, f32_of(bits_of(r) | ((bits_of(a) | bits_of(b)) & 0x80000000u)), r);
    }
  }
  return result<Sat>(Ftz ? flush(r) : r);  // tiny sums are exact
}

template <Rounding R = Rounding::NearestEven, bool Ftz = false, bool Sat = false>
inline float sub_f32(float a, float b) {
  return add_f32<R, Ftz, Sat>(a, -b);
}

template <Rounding R = Rounding::NearestEven, bool Ftz = false, bool Sat = false>
inline float mul_f32(float a, float b) {
  a = operand<Ftz>(a);
  b = operand<Ftz>(b);
  if constexpr (R != Rounding::NearestEven) {
    return result_of<R, Ftz, Sat>(static_cast<double>(a) * static_cast<double>(b));
  } else {
    const float r = a * b;
    return result<Sat>(Ftz ? flush_tiny(r, (a * kScale) * b) : r);
  }
}

template <Rounding R = Rounding::NearestEven, bool Ftz = false, bool Sat = false>
inline float fma_f32(float a, float b, float c) {
  a = operand<Ftz>(a);
  b = operand<Ftz>(b);
  c = operand<Ftz>(c);
  if constexpr (R == Rounding::NearestEven) {
    const float r = std::fma(a, b, c);
    return result<Sat>(Ftz ? flush_tiny(r, std::fma(a * kScale, b, c * kScale)) : r);
  } else {
    const double product = static_cast<double>(a) * static_cast<double>(b);
    float r = result_of<R, Ftz, Sat>(sum_to_odd(product, c));
    if constexpr (R == Rounding::Down && !Sat) {
      const bool exact_zero = (product + static_cast<double>(c)) == 0.0;
      const uint32_t sign = ((bits_of(a) ^ bits_of(b)) | bits_of(c)) & 0x80000000u;
      r = pick(exact_zero, f32_of(sign), r);
    }
    return r;
  }
}

template <Rounding R = Rounding::NearestEven, bool Ftz = false>
inline float div_f32(float a, float b) {
  a = operand<Ftz>(a);
  b = operand<Ftz>(b);
  if constexpr (R == Rounding::NearestEven) {
    const float r = a / b;
    return result<false>(Ftz ? flush_tiny(r, (a * kScale) / b) : r);
  } else {
    const double x = a;
    const double y = b;
    const double q = x / y;
    const double remainder = std::fma(-q, y, x);
    return result_of<R, Ftz, false>(to_odd(q, pick(y > 0, remainder, -remainder)));
  }
}

template <Rounding R = Rounding::NearestEven, bool Ftz = false>
inline float rcp_f32(float a) {
  return div_f32<R, Ftz>(1.0f, a);
}

template <Rounding R = Rounding::NearestEven, bool Ftz = false>
inline float sqrt_f32(float a) {  // never tiny
  a = operand<Ftz>(a);
  if constexpr (R == Rounding::NearestEven) {
    return result<false>(__builtin_sqrtf(a));
  } else {
    const double x = a;
    const double root = __builtin_sqrt(x);
    return result_of<R, false, false>(to_odd(root, std::fma(-root, root, x)));
  }
}

template <bool Ftz = false>
inline float neg_f32(float a) {
  return result<false>(-operand<Ftz>(a));
}
template <bool Ftz = false>
inline float abs_f32(float a) {
  return result<false>(std::fabs(operand<Ftz>(a)));
}

// The sign of a on the magnitude of b; bits only, so NaNs keep theirs.
inline float copysign_f32(float a, float b) {
  return f32_of((bits_of(b) & 0x7fffffffu) | (bits_of(a) & 0x80000000u));
}
inline double copysign_f64(double a, double b) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  return f64_of((bits_of(b) & ~kSign) | (bits_of(a) & kSign));
}

// A key whose signed order is the order of the numbers, with -0 below +0.
inline int32_t order_key(float x) {
  const auto b = static_cast<int32_t>(bits_of(x));
  return b ^ ((b >> 31) & 0x7fffffff);
}
inline int64_t order_key(double x) {
  const auto b = static_cast<int64_t>(bits_of(x));
  return b ^ ((b >> 63) & 0x7fffffffffffffff);
}

// Nan: any NaN operand makes the result NaN; else a NaN operand is ignored.
// XorSign: magnitudes are compared, and the sign is the exclusive or of both.
template <bool Max, bool Ftz = false, bool Nan = false, bool XorSign = false>
inline float minmax_f32(float a, float b) {
  a = operand<Ftz>(a);
  b = operand<Ftz>(b);
  const uint32_t sign = (bits_of(a) ^ bits_of(b)) & 0x80000000u;
  if constexpr (XorSign) {
    a = std::fabs(a);
    b = std::fabs(b);
  }
  const bool first = (order_key(a) < order_key(b)) != Max;
  float r = pick(first, a, b);
  r = pick(b != b, a, r);
  r = pick(a != a, b, r);
  if constexpr (Nan) r = pick((a != a) | (b != b), f32_of(kNanF32), r);
  r = canonical(r);
  if constexpr (XorSign) r = pick(r != r, r, f32_of((bits_of(r) & 0x7fffffffu) | sign));
  return r;
}

// testp: what a float is.
enum class Property : uint8_t { Finite, Infinite, Number, NotANumber, Normal, Subnormal };

template <class Float>
inline bool has_property(Property p, Float x) {
  const Float magnitude = std::fabs(x);
  constexpr Float kInf = std::numeric_limits<Float>::infinity();
  constexpr Float kMin = std::numeric_limits<Float>::min();
  switch (p) {
    case Property::Finite:
      return magnitude < kInf;
    case Property::Infinite:
      return magnitude == kInf;
    case Property::Number:
      return x == x;  // NOLINT(misc-redundant-expression): false for NaN
    case Property::NotANumber:
      return x != x;        // NOLINT(misc-redundant-expression): true for NaN
    case Property::Normal:  // zeros count as normal
      return magnitude < kInf && (magnitude >= kMin || x == 0);
    case Property::Subnormal:
      return magnitude < kMin && x != 0;
  }
  return false;
}

// ---- f64 ------------------------------------------------------------------

inline constexpr uint64_t kNanF64 = 0xfff8000000000000u;  // what an invalid operation makes

// A NaN operand's payload survives, made quiet. Of several, b's has precedence, then c's.
inline double quiet_f64(double x) {
  return f64_of(bits_of(x) | 0x0008000000000000u);
}
inline double nan_f64(double a, double b) {
  return pick(b != b, quiet_f64(b), pick(a != a, quiet_f64(a), f64_of(kNanF64)));
}
inline double nan_f64(double a, double b, double c) {
  return pick(b != b, quiet_f64(b), nan_f64(a, c));
}

// Rounded in any mode but to nearest even; the operands are numbers or infinities or NaN.
double add_f64_directed(Rounding rounding, double a, double b);
double mul_f64_directed(Rounding rounding, double a, double b);
double fma_f64_directed(Rounding rounding, double a, double b, double c);
double div_f64_directed(Rounding rounding, double a, double b);
double sqrt_f64_directed(Rounding rounding, double a);

template <Rounding R = Rounding::NearestEven>
inline double add_f64(double a, double b) {
  const double r = R == Rounding::NearestEven ? a + b : add_f64_directed(R, a, b);
  return pick(r != r, nan_f64(a, b), r);
}
template <Rounding R = Rounding::NearestEven>
inline double sub_f64(double a, double b) {
  const double r = R == Rounding::NearestEven ? a - b : add_f64_directed(R, a, -b);
  return pick(r != r, nan_f64(a, b), r);
}
template <Rounding R = Rounding::NearestEven>
inline double mul_f64(double a, double b) {
  const double r = R == Rounding::NearestEven ? a * b : mul_f64_directed(R, a, b);
  return pick(r != r, nan_f64(a, b), r);
}
template <Rounding R = Rounding::NearestEven>
inline double fma_f64(double a, double b, double c) {
  const double r = R == Rounding::NearestEven ? std::fma(a, b, c) : fma_f64_directed(R, a, b, c);
  return pick(r != r, nan_f64(a, b, c), r);
}
template <Rounding R = Rounding::NearestEven>
inline double div_f64(double a, double b) {
  const double r = R == Rounding::NearestEven ? a / b : div_f64_directed(R, a, b);
  return pick(r != r, nan_f64(b, a), r);
}
template <Rounding R = Rounding::NearestEven>
inline double rcp_f64(double a) {
  const double r = R == Rounding::NearestEven ? 1.0 / a : div_f64_directed(R, 1.0, a);
  return pick(r != r, nan_f64(a, a), r);
}
template <Rounding R = Rounding::NearestEven>
inline double sqrt_f64(double a) {
  const double r = R == Rounding::NearestEven ? __builtin_sqrt(a) : sqrt_f64_directed(R, a);
  return pick(r != r, nan_f64(a, a), r);
}
inline double neg_f64(double a) {
  return pick(a != a, quiet_f64(a), f64_of(bits_of(a) ^ (uint64_t{1} << 63)));
}
inline double abs_f64(double a) {
  return pick(a != a, quiet_f64(a), f64_of(bits_of(a) & ~(uint64_t{1} << 63)));
}

template <bool Max>
inline double minmax_f64(double a, double b) {
  const bool first = (order_key(a) < order_key(b)) != Max;
  double r = pick(first, a, b);
  r = pick(b != b, a, r);
  r = pick(a != a, b, r);
  return pick(r != r, nan_f64(a, b), r);
}

}  // namespace assay::numerics
