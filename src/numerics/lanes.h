// Conversions between the stored formats and float, one lane at a time, as
// branch-free integer code: a loop of 32 over any of them becomes vector code,
// and each instruction set's build of the engine compiles its own. Rounding is
// to nearest even unless the name says otherwise; a result that is not a number
// is the hardware's canonical NaN.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace assay::numerics {

inline constexpr uint32_t kNanF32 = 0x7fffffffu;
inline constexpr uint32_t kNanTF32 = 0x7fffe000u;
inline constexpr uint16_t kNanF16 = 0x7fffu;
inline constexpr uint16_t kNanBF16 = 0x7fffu;
inline constexpr uint8_t kNanE4M3 = 0x7fu;
inline constexpr uint8_t kNanE5M2 = 0x7fu;

inline uint32_t bits_of(float x) {
  return std::bit_cast<uint32_t>(x);
}
inline uint64_t bits_of(double x) {
  return std::bit_cast<uint64_t>(x);
}
inline float f32_of(uint32_t bits) {
  return std::bit_cast<float>(bits);
}
inline double f64_of(uint64_t bits) {
  return std::bit_cast<double>(bits);
}

// A select that stays a blend: both sides are always computed.
template <class T>
inline T pick(bool condition, T yes, T no) {
  return condition ? yes : no;
}

inline uint32_t canonical_f32_bits(uint32_t bits) {
  return pick((bits & 0x7fffffffu) > 0x7f800000u, kNanF32, bits);
}
inline float canonical(float x) {
  return f32_of(canonical_f32_bits(bits_of(x)));
}

// Subnormals to zeros of the same sign (.ftz).
inline uint32_t flush_f32_bits(uint32_t bits) {
  return pick((bits & 0x7f800000u) == 0, bits & 0x80000000u, bits);
}
inline float flush(float x) {
  return f32_of(flush_f32_bits(bits_of(x)));
}

// ---- bf16 ----------------------------------------------------------------

// The hardware's conversion is a shift: a NaN keeps its payload.
inline float bf16_to_f32(uint16_t code) {
  return f32_of(static_cast<uint32_t>(code) << 16);
}

inline uint16_t f32_to_bf16_rn(float x) {
  const uint32_t b = bits_of(x);
  const uint32_t rounded = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  const bool nan = (b & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(pick<uint32_t>(nan, kNanBF16, rounded));
}

inline uint16_t f32_to_bf16_rz(float x) {
  const uint32_t b = bits_of(x);
  const bool nan = (b & 0x7fffffffu) > 0x7f800000u;
  return static_cast<uint16_t>(pick<uint32_t>(nan, kNanBF16, b >> 16));
}

// ---- f16 -----------------------------------------------------------------

inline float f16_to_f32(uint16_t code) {
  const uint32_t magnitude = static_cast<uint32_t>(code & 0x7fffu) << 13;
  const uint32_t sign = static_cast<uint32_t>(code & 0x8000u) << 16;
  // The exponent is rebased by a multiplication, which also normalises subnormals.
  const uint32_t scaled = bits_of(f32_of(magnitude) * 0x1p112f);
  const uint32_t special = pick(magnitude > 0x0f800000u, kNanF32, sign | 0x7f800000u);
  return f32_of(pick(magnitude >= 0x0f800000u, special, scaled | sign));
}

inline uint16_t f32_to_f16_rn(float x) {
  const uint32_t b = bits_of(x);
  const uint32_t a = b & 0x7fffffffu;
  const uint32_t sign = (b >> 16) & 0x8000u;
  const uint32_t normal = (a + 0xfffu + ((a >> 13) & 1u) - (112u << 23)) >> 13;
  // Adding 0.5, whose ulp is the smallest f16 subnormal, rounds in the adder.
  const uint32_t subnormal = bits_of(f32_of(a) + 0.5f) - 0x3f000000u;
  uint32_t code = pick(a < 0x38800000u, subnormal, normal);
  code = pick(a >= 0x477ff000u, 0x7c00u, code) | sign;
  return static_cast<uint16_t>(pick<uint32_t>(a > 0x7f800000u, kNanF16, code));
}

inline uint16_t f32_to_f16_rz(float x) {
  const uint32_t b = bits_of(x);
  const uint32_t a = b & 0x7fffffffu;
  const uint32_t sign = (b >> 16) & 0x8000u;
  const uint32_t normal = (a - (112u << 23)) >> 13;
  // Below the normals: truncation of x * 2^24, as an integer.
  const auto subnormal =
      static_cast<uint32_t>(static_cast<int32_t>(f32_of(pick(a < 0x38800000u, a, 0u)) * 0x1p24f));
  uint32_t code = pick(a < 0x38800000u, subnormal, normal);
  code = pick(a >= 0x47800000u, 0x7bffu, code);
  code = pick(a == 0x7f800000u, 0x7c00u, code) | sign;
  return static_cast<uint16_t>(pick<uint32_t>(a > 0x7f800000u, kNanF16, code));
}

// ---- fp8 -----------------------------------------------------------------

inline float e5m2_to_f32(uint8_t code) {
  return f16_to_f32(static_cast<uint16_t>(code << 8));
}

inline float e4m3_to_f32(uint8_t code) {
  const uint32_t magnitude = static_cast<uint32_t>(code & 0x7fu) << 20;
  const uint32_t sign = static_cast<uint32_t>(code & 0x80u) << 24;
  const uint32_t scaled = bits_of(f32_of(magnitude) * 0x1p120f) | sign;
  return f32_of(pick((code & 0x7fu) == 0x7fu, kNanF32, scaled));
}

// Every code of both fp8 formats is also an f16.
inline uint16_t e5m2_to_f16(uint8_t code) {
  const auto wide = static_cast<uint16_t>(code << 8);
  return pick<uint16_t>((wide & 0x7fffu) > 0x7c00u, kNanF16, wide);
}
inline uint16_t e4m3_to_f16(uint8_t code) {
  return f32_to_f16_rn(e4m3_to_f32(code));
}

// .satfinite: beyond the maximum, infinities included, is the maximum. NaN stays NaN.
inline uint8_t f32_to_e5m2_satfinite(float x) {
  const uint32_t b = bits_of(x);
  const uint32_t a = b & 0x7fffffffu;
  const uint32_t sign = (b >> 24) & 0x80u;
  const uint32_t normal = (a + 0xfffffu + ((a >> 21) & 1u) - (112u << 23)) >> 21;
  const uint32_t subnormal = bits_of(f32_of(a) + 128.0f) - 0x43000000u;  // ulp(128) = 2^-16
  uint32_t code = pick(a < 0x38800000u, subnormal, normal);
  code = pick(a > 0x47600000u, 0x7bu, code) | sign;
  return static_cast<uint8_t>(pick<uint32_t>(a > 0x7f800000u, kNanE5M2, code));
}

inline uint8_t f32_to_e4m3_satfinite(float x) {
  const uint32_t b = bits_of(x);
  const uint32_t a = b & 0x7fffffffu;
  const uint32_t sign = (b >> 24) & 0x80u;
  const uint32_t normal = (a + 0x7ffffu + ((a >> 20) & 1u) - (120u << 23)) >> 20;
  const uint32_t subnormal = bits_of(f32_of(a) + 16384.0f) - 0x46800000u;  // ulp(2^14) = 2^-9
  uint32_t code = pick(a < 0x3c800000u, subnormal, normal);
  code = pick(a > 0x43e00000u, 0x7eu, code) | sign;
  return static_cast<uint8_t>(pick<uint32_t>(a > 0x7f800000u, kNanE4M3, code));
}

// ---- tf32: an f32 whose low 13 fraction bits carry nothing ----------------

// Ties away from zero. A NaN is truncated like any number, and may so become an infinity.
inline uint32_t f32_to_tf32_rna(float x) {
  const uint32_t b = bits_of(x);
  const uint32_t rounded = (b + 0x1000u) & 0xffffe000u;
  return pick((b & 0x7fffffffu) >= 0x7f800000u, b & 0xffffe000u, rounded);
}
// .satfinite steps back one code from whatever is not finite, NaNs included.
inline uint32_t f32_to_tf32_rna_satfinite(float x) {
  const uint32_t r = f32_to_tf32_rna(x);
  return r - pick((r & 0x7fffffffu) >= 0x7f800000u, 0x2000u, 0u);
}
inline uint32_t f32_to_tf32_rn(float x) {
  const uint32_t b = bits_of(x);
  const uint32_t a = b & 0x7fffffffu;
  const uint32_t rounded = (b + 0xfffu + ((b >> 13) & 1u)) & 0xffffe000u;
  return pick(a >= 0x7f800000u, pick(a > 0x7f800000u, kNanTF32, b), rounded);
}
inline uint32_t f32_to_tf32_rz(float x) {
  const uint32_t b = bits_of(x);
  return pick((b & 0x7fffffffu) > 0x7f800000u, kNanTF32, b & 0xffffe000u);
}
// What a tensor core reads from a register that holds tf32.
inline float tf32_to_f32(uint32_t code) {
  return f32_of(code & 0xffffe000u);
}

}  // namespace assay::numerics
