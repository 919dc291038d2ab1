// c10::Half and c10::BFloat16: 16-bit storage that converts to and from float implicitly, on the host and on
// the device. Arithmetic is done in float and rounded back, as in torch. The conversions are plain C++ on the
// host, so that a file that no kernel is in needs no CUDA header; with nvcc they are the toolkit's, and
// convert to __half and __nv_bfloat16.
//
// A source that never mentions 16-bit floats is compiled with ASSAY_NO_HALF, which leaves the toolkit's
// headers out: they take a third of the compile time of a small extension.
#pragma once
#include <cstdint>
#include <cstring>
#include <limits>
#include <ostream>
#include <type_traits>

#include "assay/light/macros.h"
#if defined(__CUDACC__) && !defined(ASSAY_NO_HALF)
#define ASSAY_HALF_OF_CUDA
#define ASSAY_HALF_FUNCTION __host__ __device__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#else
#define ASSAY_HALF_FUNCTION
#endif

namespace assay {

template <class To, class From>
C10_HOST_DEVICE inline To bits_as(const From& from) {
  static_assert(sizeof(To) == sizeof(From), "the same size");
  To to;
  memcpy(&to, &from, sizeof(to));
  return to;
}

/// IEEE binary16 to float, for the host.
inline float float_of_half(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 31;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 31) return bits_as<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent) return bits_as<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float magnitude = float(fraction) * 5.9604644775390625e-08f;  // 2^-24, the smallest subnormal
  return sign ? -magnitude : magnitude;
}

/// float to IEEE binary16, rounded to nearest even, for the host.
inline uint16_t half_of_float(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  const uint16_t sign = uint16_t(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and more round to infinity
  if (magnitude < 0x38800000) {  // below 2^-14: the addition rounds to a multiple of 2^-24
    return sign | uint16_t(bits_as<uint32_t>(bits_as<float>(magnitude) + 0.5f) - 0x3f000000);
  }
  return sign | uint16_t((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

inline uint16_t bfloat16_of_float(float value) {
  const uint32_t bits = bits_as<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace assay

namespace c10 {

struct alignas(2) Half {
  uint16_t x;
  struct from_bits_t {};
  static constexpr ASSAY_HALF_FUNCTION from_bits_t from_bits() { return {}; }
  Half() = default;
  constexpr ASSAY_HALF_FUNCTION Half(uint16_t bits, from_bits_t) : x(bits) {}
#if defined(ASSAY_HALF_OF_CUDA)
  ASSAY_HALF_FUNCTION Half(float value) : x(assay::bits_as<uint16_t>(__float2half(value))) {}
  ASSAY_HALF_FUNCTION operator float() const {
    return __half2float(assay::bits_as<__half>(x));
  }
  ASSAY_HALF_FUNCTION Half(const __half& value) : x(assay::bits_as<uint16_t>(value)) {}
  ASSAY_HALF_FUNCTION operator __half() const {
    return assay::bits_as<__half>(x);
  }
#else
  Half(float value) : x(assay::half_of_float(value)) {}
  operator float() const {
    return assay::float_of_half(x);
  }
#endif
};

struct alignas(2) BFloat16 {
  uint16_t x;
  struct from_bits_t {};
  static constexpr ASSAY_HALF_FUNCTION from_bits_t from_bits() { return {}; }
  BFloat16() = default;
  constexpr ASSAY_HALF_FUNCTION BFloat16(uint16_t bits, from_bits_t) : x(bits) {}
#if defined(ASSAY_HALF_OF_CUDA)
  ASSAY_HALF_FUNCTION BFloat16(float value) : x(assay::bits_as<uint16_t>(__float2bfloat16(value))) {}
  ASSAY_HALF_FUNCTION operator float() const {
    return __bfloat162float(assay::bits_as<__nv_bfloat16>(x));
  }
  ASSAY_HALF_FUNCTION BFloat16(const __nv_bfloat16& value) : x(assay::bits_as<uint16_t>(value)) {}
  explicit ASSAY_HALF_FUNCTION operator __nv_bfloat16() const {
    return assay::bits_as<__nv_bfloat16>(x);
  }
#else
  BFloat16(float value) : x(assay::bfloat16_of_float(value)) {}
  operator float() const {
    return assay::bits_as<float>(uint32_t(x) << 16);
  }
#endif
};

// The operators are those of torch: two values of the type, or one and an integer, give the type; a float or
// double beside it gives that.
#define ASSAY_ARITHMETIC(T, OP)                                            \
  inline ASSAY_HALF_FUNCTION T operator OP(const T& a, const T& b) {       \
    return static_cast<float>(a) OP static_cast<float>(b);                 \
  }                                                                        \
  inline ASSAY_HALF_FUNCTION float operator OP(T a, float b) {             \
    return static_cast<float>(a) OP b;                                     \
  }                                                                        \
  inline ASSAY_HALF_FUNCTION float operator OP(float a, T b) {             \
    return a OP static_cast<float>(b);                                     \
  }                                                                        \
  inline ASSAY_HALF_FUNCTION double operator OP(T a, double b) {           \
    return static_cast<double>(static_cast<float>(a)) OP b;                \
  }                                                                        \
  inline ASSAY_HALF_FUNCTION double operator OP(double a, T b) {           \
    return a OP static_cast<double>(static_cast<float>(b));                \
  }                                                                        \
  inline ASSAY_HALF_FUNCTION T operator OP(T a, int b) {                   \
    return a OP static_cast<T>(static_cast<float>(b));                     \
  }                                                                        \
  inline ASSAY_HALF_FUNCTION T operator OP(int a, T b) {                   \
    return static_cast<T>(static_cast<float>(a)) OP b;                     \
  }                                                                        \
  inline ASSAY_HALF_FUNCTION T operator OP(T a, int64_t b) {               \
    return a OP static_cast<T>(static_cast<float>(b));                     \
  }                                                                        \
  inline ASSAY_HALF_FUNCTION T operator OP(int64_t a, T b) {               \
    return static_cast<T>(static_cast<float>(a)) OP b;                     \
  }                                                                        \
  inline ASSAY_HALF_FUNCTION T& operator OP##=(T& a, const T& b) {         \
    return a = a OP b;                                                     \
  }                                                                        \
  inline ASSAY_HALF_FUNCTION float& operator OP##=(float& a, const T& b) { \
    return a OP## = static_cast<float>(b);                                 \
  }
#define ASSAY_FLOAT16(T)                                               \
  ASSAY_ARITHMETIC(T, +)                                               \
  ASSAY_ARITHMETIC(T, -)                                               \
  ASSAY_ARITHMETIC(T, *)                                               \
  ASSAY_ARITHMETIC(T, /)                                               \
  inline ASSAY_HALF_FUNCTION T operator-(const T& a) {                 \
    return T(uint16_t(a.x ^ 0x8000), T::from_bits());                  \
  }                                                                    \
  inline std::ostream& operator<<(std::ostream& out, const T& value) { \
    return out << static_cast<float>(value);                           \
  }
ASSAY_FLOAT16(Half)
ASSAY_FLOAT16(BFloat16)
#undef ASSAY_FLOAT16
#undef ASSAY_ARITHMETIC

#if defined(ASSAY_HALF_OF_CUDA)
inline __device__ Half __ldg(const Half* pointer) {
  return ::__ldg(reinterpret_cast<const __half*>(pointer));
}
inline __device__ BFloat16 __ldg(const BFloat16* pointer) {
  return ::__ldg(reinterpret_cast<const __nv_bfloat16*>(pointer));
}
#endif

/// FP8 values are only stored and passed on; kernels convert them with the toolkit's types.
struct alignas(1) Float8_e4m3fn {
  uint8_t x;
};
struct alignas(1) Float8_e5m2 {
  uint8_t x;
};
struct alignas(1) Float8_e8m0fnu {
  uint8_t x;
};

}  // namespace c10

namespace std {
#define ASSAY_LIMITS(T, DIGITS, DIGITS10, MAX_EXPONENT, LOWEST, MAX, MIN, EPSILON, INFINITY_BITS, NAN_BITS) \
  template <>                                                                                               \
  class numeric_limits<T> {                                                                                 \
   public:                                                                                                  \
    static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;    \
    static constexpr bool has_infinity = true, has_quiet_NaN = true, is_iec559 = true, is_bounded = true;   \
    static constexpr int digits = DIGITS, digits10 = DIGITS10, radix = 2, max_exponent = MAX_EXPONENT;      \
    static constexpr ASSAY_HALF_FUNCTION T min() { return {MIN, T::from_bits()}; }                          \
    static constexpr ASSAY_HALF_FUNCTION T lowest() { return {LOWEST, T::from_bits()}; }                    \
    static constexpr ASSAY_HALF_FUNCTION T max() { return {MAX, T::from_bits()}; }                          \
    static constexpr ASSAY_HALF_FUNCTION T epsilon() { return {EPSILON, T::from_bits()}; }                  \
    static constexpr ASSAY_HALF_FUNCTION T infinity() { return {INFINITY_BITS, T::from_bits()}; }           \
    static constexpr ASSAY_HALF_FUNCTION T quiet_NaN() { return {NAN_BITS, T::from_bits()}; }               \
  };
ASSAY_LIMITS(c10::Half, 11, 3, 16, 0xfbff, 0x7bff, 0x0400, 0x1400, 0x7c00, 0x7e00)
ASSAY_LIMITS(c10::BFloat16, 8, 2, 128, 0xff7f, 0x7f7f, 0x0080, 0x3c00, 0x7f80, 0x7fc0)
#undef ASSAY_LIMITS
}  // namespace std

namespace at {
using c10::BFloat16;
using c10::Float8_e4m3fn;
using c10::Float8_e5m2;
using c10::Half;
}  // namespace at
