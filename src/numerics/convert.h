// cvt: between all scalar types, in all rounding modes.
//
// `convert` does any conversion that PTX has, from a description of it; the
// inline templates do the common ones in vector loops. Pairs and quads (cvt to
// f16x2, e4m3x2, cvt.pack) are built from these.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "numerics/arith.h"
#include "numerics/half.h"

namespace assay::numerics {

// The scalar types of cvt. Values travel as the low bits of a uint64_t.
enum class Num : uint8_t { U8, S8, U16, S16, U32, S32, U64, S64, F16, BF16, F32, F64, TF32, E4M3, E5M2 };

inline bool is_integer(Num n) {
  return n <= Num::S64;
}
inline bool is_signed_integer(Num n) {
  return is_integer(n) && (static_cast<int>(n) & 1) != 0;
}
inline int width_of_integer(Num n) {
  return 8 << (static_cast<int>(n) / 2);
}
Format format_of(Num n);  // of a floating-point type

struct Conversion {
  Num to = Num::F32;
  Num from = Num::F32;
  Rounding rounding = Rounding::NearestEven;
  bool to_integral = false;  // .rni .rzi .rmi .rpi: the result is a whole number
  bool ftz = false;          // f32 subnormals, on both sides
  bool sat = false;          // integers: to the range of the target; floats: to [+0, 1]
  bool relu = false;         // negative to +0, NaN stays
  bool satfinite = false;    // floats: no infinities
};

uint64_t convert(const Conversion& conversion, uint64_t code);

// ---- float to integer -----------------------------------------------------

template <Rounding R, class Float>
inline Float round_integral(Float x) {
  if constexpr (R == Rounding::TowardZero) return std::trunc(x);
  if constexpr (R == Rounding::Down) return std::floor(x);
  if constexpr (R == Rounding::Up) return std::ceil(x);
  if constexpr (R == Rounding::NearestEven) return std::nearbyint(x);
}

// Out of range is clamped. NaN is 0, except that from f64 or to 64 bits it is the top bit alone.
template <class Int, Rounding R, class Float>
inline Int to_integer(Float x) {
  const Float whole = round_integral<R>(x);
  constexpr int kBits = std::numeric_limits<Int>::digits;
  constexpr Float kLimit = static_cast<Float>(uint64_t{1} << (kBits - 1)) * 2;
  constexpr Float kLow = std::is_signed_v<Int> ? -kLimit : Float{0};
  const bool high = whole >= kLimit;
  const bool low = whole < kLow;
  const bool nan = x != x;  // NOLINT(misc-redundant-expression)
  const Float safe = pick(high | low | nan, Float{0}, whole);
  Int r = static_cast<Int>(safe);
  r = pick(high, std::numeric_limits<Int>::max(), r);
  r = pick(low, std::numeric_limits<Int>::min(), r);
  constexpr bool kTopBit = sizeof(Float) == 8 || sizeof(Int) == 8;
  constexpr auto kTop = static_cast<Int>(std::make_unsigned_t<Int>{1} << (sizeof(Int) * 8 - 1));
  return pick(nan, kTopBit ? kTop : Int{0}, r);
}

// ---- integer to float -----------------------------------------------------

float u64_to_f32_directed(Rounding rounding, uint64_t x);
float s64_to_f32_directed(Rounding rounding, int64_t x);
double u64_to_f64_directed(Rounding rounding, uint64_t x);
double s64_to_f64_directed(Rounding rounding, int64_t x);

template <Rounding R = Rounding::NearestEven, class Int>
inline float integer_to_f32(Int x) {
  if constexpr (R == Rounding::NearestEven) {
    return static_cast<float>(x);
  } else if constexpr (sizeof(Int) < 8) {
    return round_to_f32<R>(static_cast<double>(x));
  } else if constexpr (std::is_signed_v<Int>) {
    return s64_to_f32_directed(R, x);
  } else {
    return u64_to_f32_directed(R, x);
  }
}

template <Rounding R = Rounding::NearestEven, class Int>
inline double integer_to_f64(Int x) {
  if constexpr (R == Rounding::NearestEven || sizeof(Int) < 8) {
    return static_cast<double>(x);
  } else if constexpr (std::is_signed_v<Int>) {
    return s64_to_f64_directed(R, x);
  } else {
    return u64_to_f64_directed(R, x);
  }
}

// ---- float to float -------------------------------------------------------

// NaNs keep their sign and as much of their payload as fits, made quiet, on the way from and to f64.
inline uint32_t narrow_nan_f64(uint64_t bits) {
  return static_cast<uint32_t>(bits >> 32 & 0x80000000u) | 0x7fc00000u |
         (static_cast<uint32_t>(bits >> 29) & 0x3fffffu);
}
inline uint64_t widen_nan_f32(uint32_t bits) {
  return static_cast<uint64_t>(bits & 0x80000000u) << 32 | 0x7ff8000000000000u |
         static_cast<uint64_t>(bits & 0x3fffffu) << 29;
}
template <Rounding R = Rounding::NearestEven, bool Ftz = false, bool Sat = false>
inline float f64_to_f32(double x) {
  const float r = result_of<R, Ftz, Sat>(x);
  return Sat ? r : pick(x != x, f32_of(narrow_nan_f64(bits_of(x))), r);
}
template <bool Ftz = false>
inline double f32_to_f64(float x) {
  const double wide = operand<Ftz>(x);
  return pick(x != x, f64_of(widen_nan_f32(Ftz ? kNanF32 : bits_of(x))), wide);
}
// cvt.rni.f32.f32 and its kin.
template <Rounding R, bool Ftz = false, bool Sat = false>
inline float round_f32(float x) {
  return result<Sat>(round_integral<R>(operand<Ftz>(x)));
}
template <Rounding R>
inline double round_f64(double x) {
  return pick(x != x, nan_f64(x, x), round_integral<R>(x));
}

// ---- pairs ----------------------------------------------------------------

// cvt.{rn,rz}{.relu}{.satfinite}.{f16x2,bf16x2,e4m3x2,...}.f32 d, a, b: a goes to the high half.
uint32_t pack_pair(const Conversion& one, float a, float b);
// The same from a packed pair of f16 (cvt.rn.satfinite.e4m3x2.f16x2), and back.
uint32_t convert_pair(const Conversion& one, uint32_t pair);

// cvt.pack.sat.<to>.s32: a and b clamped and packed, a above b; c, if given, moves up to make room.
template <int kBits, bool kSigned>
inline uint32_t pack_saturated(int32_t a, int32_t b, uint32_t c) {
  constexpr int32_t kLow = kSigned ? -(1 << (kBits - 1)) : 0;
  constexpr int32_t kHigh = kSigned ? (1 << (kBits - 1)) - 1 : (1 << kBits) - 1;
  constexpr uint32_t kMask = (1u << kBits) - 1;
  const uint32_t high = static_cast<uint32_t>(std::clamp(a, kLow, kHigh)) & kMask;
  const uint32_t low = static_cast<uint32_t>(std::clamp(b, kLow, kHigh)) & kMask;
  const uint32_t pair = high << kBits | low;
  return kBits == 16 ? pair : static_cast<uint32_t>(static_cast<uint64_t>(c) << (2 * kBits)) | pair;
}

}  // namespace assay::numerics
