// f16 and bf16 arithmetic on codes, and on packed pairs of them.
//
// Every function rounds once. f16 needs no more than float: a product of two
// f16 is exact in 24 bits, a sum rounded to 24 >= 2 * 11 + 2 bits may be rounded
// again, and fma rounds its float sum to odd before the last rounding. bf16 has
// float's exponents, so its products go through double.
#pragma once

#include "numerics/arith.h"

namespace assay::numerics {

inline bool is_nan_f16(uint16_t code) {
  return (code & 0x7fffu) > 0x7c00u;
}
inline bool is_nan_bf16(uint16_t code) {
  return (code & 0x7fffu) > 0x7f80u;
}

// The float nearest to odd of s + e, where s = RN(s + e).
inline float to_odd(float s, float e) {
  const uint32_t b = bits_of(s);
  // In arithmetic, not conditions: the vectoriser follows it.
  const uint32_t opposite = (b ^ bits_of(e)) >> 31;  // e takes s towards zero
  const uint32_t even = ~b & 1;
  const uint32_t inexact = (e > 0 ? 1 : 0) + (e < 0 ? 1 : 0);
  return f32_of(b + (even & inexact) - 2 * (even & inexact & opposite));
}

inline float sum_to_odd(float a, float b) {
  const float s = a + b;
  const float v = s - a;
  const float e = (a - (s - v)) + (b - v);
  return to_odd(s, e);
}

// What an instruction does to a result besides rounding it.
struct HalfMode {
  bool ftz = false;   // f16 only
  bool sat = false;   // to [+0, 1], NaN to +0
  bool relu = false;  // negative to +0, NaN to the canonical NaN
};

// ---- the two types --------------------------------------------------------

struct F16 {
  static constexpr uint16_t kNan = kNanF16;
  static constexpr uint16_t kInf = 0x7c00u;
  static constexpr uint16_t kOne = 0x3c00u;
  // With .ftz, tiny is what is below the normal numbers after rounding to 11 bits.
  static constexpr float kTiny = 0x1.ffep-15f;
  static float widen(uint16_t code) { return f16_to_f32(code); }
  static uint16_t narrow(float x) { return f32_to_f16_rn(x); }
  static float product(uint16_t a, uint16_t b) { return widen(a) * widen(b); }  // exact
  // Infinities and NaN make the error term NaN, and the sum stays as it is.
  static float fma(uint16_t a, uint16_t b, uint16_t c) { return sum_to_odd(product(a, b), widen(c)); }
};

struct BF16 {
  static constexpr uint16_t kNan = kNanBF16;
  static constexpr uint16_t kInf = 0x7f80u;
  static constexpr uint16_t kOne = 0x3f80u;
  static float widen(uint16_t code) { return bf16_to_f32(code); }
  static uint16_t narrow(float x) { return f32_to_bf16_rn(x); }
  static uint16_t narrow(double x) { return f32_to_bf16_rn(round_to_f32<Rounding::Odd>(x)); }
  static double product(uint16_t a, uint16_t b) {
    return static_cast<double>(widen(a)) * static_cast<double>(widen(b));  // exact
  }
  static double fma(uint16_t a, uint16_t b, uint16_t c) {
    return sum_to_odd(product(a, b), static_cast<double>(widen(c)));
  }
};

template <class H>
inline bool is_nan_code(uint16_t code) {
  return (code & 0x7fffu) > H::kInf;
}

// Subnormals to zeros of the same sign.
template <class H>
inline uint16_t flush_code(uint16_t code) {
  const uint16_t exponent = code & H::kInf;
  return pick<uint16_t>(exponent == 0, code & 0x8000u, code);
}

template <class H, HalfMode M>
inline uint16_t half_operand(uint16_t code) {
  return M.ftz ? flush_code<H>(code) : code;
}

// The last rounding of x (exact, or rounded to odd), and what the mode does to it.
template <class H, HalfMode M, class Wide>
inline uint16_t half_result(Wide x) {
  uint16_t code = H::narrow(x);
  const bool nan = is_nan_code<H>(code);
  if constexpr (M.ftz) code = pick<uint16_t>(std::fabs(x) < F16::kTiny, code & 0x8000u, code);
  const bool negative = (code & 0x8000u) != 0;
  if constexpr (M.sat) {
    code = pick<uint16_t>(code > H::kOne, H::kOne, code);
    code = pick<uint16_t>(negative | nan, 0, code);
  }
  if constexpr (M.relu) code = pick<uint16_t>(negative & !nan, 0, code);
  return code;
}

template <class H, HalfMode M = HalfMode{}>
inline uint16_t add_half(uint16_t a, uint16_t b) {
  const float x = H::widen(half_operand<H, M>(a));
  const float y = H::widen(half_operand<H, M>(b));
  return half_result<H, M>(x + y);
}
template <class H, HalfMode M = HalfMode{}>
inline uint16_t sub_half(uint16_t a, uint16_t b) {
  return add_half<H, M>(a, static_cast<uint16_t>(b ^ 0x8000u));
}
template <class H, HalfMode M = HalfMode{}>
inline uint16_t mul_half(uint16_t a, uint16_t b) {
  return half_result<H, M>(H::product(half_operand<H, M>(a), half_operand<H, M>(b)));
}
template <class H, HalfMode M = HalfMode{}>
inline uint16_t fma_half(uint16_t a, uint16_t b, uint16_t c) {
  return half_result<H, M>(H::fma(half_operand<H, M>(a), half_operand<H, M>(b), half_operand<H, M>(c)));
}

// fma.oob: if a or b is the NaN that marks an element as out of bounds, the result is +0.
inline constexpr uint16_t kOutOfBounds = 0x7ff7u;  // of either sign
template <class H, HalfMode M = HalfMode{}>
inline uint16_t fma_oob_half(uint16_t a, uint16_t b, uint16_t c) {
  const bool out = ((a & 0x7fffu) == kOutOfBounds) | ((b & 0x7fffu) == kOutOfBounds);
  return pick<uint16_t>(out, 0, fma_half<H, M>(a, b, c));
}

template <class H, bool Ftz = false>
inline uint16_t neg_half(uint16_t a) {
  constexpr HalfMode kMode{Ftz, false, false};
  const uint16_t x = half_operand<H, kMode>(a);
  return pick<uint16_t>(is_nan_code<H>(x), H::kNan, x ^ 0x8000u);
}
template <class H, bool Ftz = false>
inline uint16_t abs_half(uint16_t a) {
  constexpr HalfMode kMode{Ftz, false, false};
  const uint16_t x = half_operand<H, kMode>(a);
  return pick<uint16_t>(is_nan_code<H>(x), H::kNan, x & 0x7fffu);
}

template <class H, bool Max, bool Ftz = false, bool Nan = false, bool XorSign = false>
inline uint16_t minmax_half(uint16_t a, uint16_t b) {
  constexpr HalfMode kMode{Ftz, false, false};
  a = half_operand<H, kMode>(a);
  b = half_operand<H, kMode>(b);
  const auto sign = static_cast<uint16_t>((a ^ b) & 0x8000u);
  const bool a_nan = is_nan_code<H>(a);
  const bool b_nan = is_nan_code<H>(b);
  if constexpr (XorSign) {
    a &= 0x7fffu;
    b &= 0x7fffu;
  }
  const auto key = [](uint16_t code) {
    const auto s = static_cast<int16_t>(code);
    return static_cast<int16_t>(s ^ ((s >> 15) & 0x7fff));
  };
  uint16_t r = pick<uint16_t>((key(a) < key(b)) != Max, a, b);
  r = pick<uint16_t>(b_nan, a, r);
  r = pick<uint16_t>(a_nan, b, r);
  if constexpr (XorSign) r = static_cast<uint16_t>((r & 0x7fffu) | sign);
  const bool nan = Nan ? a_nan | b_nan : a_nan & b_nan;
  return pick<uint16_t>(nan, H::kNan, r);
}

// ---- pairs ------------------------------------------------------------------

inline uint16_t low_half(uint32_t pair) {
  return static_cast<uint16_t>(pair);
}
inline uint16_t high_half(uint32_t pair) {
  return static_cast<uint16_t>(pair >> 16);
}
inline uint32_t make_pair(uint16_t low, uint16_t high) {
  return static_cast<uint32_t>(low) | static_cast<uint32_t>(high) << 16;
}

// The same function on both halves: `each<add_half<F16>>(a, b)`.
template <auto Function>
inline uint32_t each(uint32_t a) {
  return make_pair(Function(low_half(a)), Function(high_half(a)));
}
template <auto Function>
inline uint32_t each(uint32_t a, uint32_t b) {
  return make_pair(Function(low_half(a), low_half(b)), Function(high_half(a), high_half(b)));
}
template <auto Function>
inline uint32_t each(uint32_t a, uint32_t b, uint32_t c) {
  return make_pair(Function(low_half(a), low_half(b), low_half(c)),
                   Function(high_half(a), high_half(b), high_half(c)));
}

}  // namespace assay::numerics
