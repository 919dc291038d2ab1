// The approximate functions (.approx, .full), with the hardware's bits.
//
// The special-function unit interpolates: the leading bits of the argument
// choose a segment of a table, the rest is x in c0 + c1 * x + c2 * x^2. Its
// squarer drops the partial products of weight below 2^19 (for 17 bits of x),
// and the result is cut off, not rounded. The tables were recovered from
// exhaustive runs on an H200; docs/numerics.md has the details.
//
// The unit itself (namespace sfu) reads subnormals as zero and never writes
// them; the instructions without .ftz scale around it, as the assembler does.
// All of it is free of branches, so that a loop over lanes becomes vector code.
#pragma once

#include "numerics/half.h"

namespace assay::numerics {
namespace sfu {

// Given in units of 2^-17 of the result's last place. Doubles hold all sums exactly.
struct Segment {
  double c0;
  double c1;
  double c2;
  constexpr Segment(int64_t a, int64_t b, int64_t c)
      : c0(static_cast<double>(a) * 0x1p-17),
        c1(static_cast<double>(b) * 0x1p-17),
        c2(static_cast<double>(c) * 0x1p-17) {}
};

extern const Segment kReciprocal[128];      // 1/m for m in [1, 2), above 0.5
extern const Segment kReciprocalRoot[128];  // 1/sqrt(m) for m in [1, 2), then [2, 4), above 0.5
extern const Segment kRoot[128];            // sqrt(m) for the same, above 1
extern const Segment kPower[64];            // 2^f for f in [0, 1), above 1
extern const Segment kLogarithm[64];        // log2(m) for m in [1, 2), last place 2^-23
extern const Segment kSine[64];             // sin(pi/2 f) for f in [0, 1), last place 2^-24
extern const Segment kTanh[51];             // the binades from 2^-8 to 2^2 one after another

// For each of tanh's binades: its first segment, and how many bits choose among its segments.
extern const int32_t kTanhFirst[11];
extern const int32_t kTanhBits[11];

inline constexpr uint32_t kSign = 0x80000000u;
inline constexpr uint32_t kInfinity = 0x7f800000u;
inline constexpr uint32_t kFraction = 0x7fffffu;

// The square of a 17-bit x as the unit makes it, over 2^19: a row for each bit of x that has
// partial products of weight 2^19 or more. (No loop: it would keep the callers' from vectorising.)
template <uint32_t J>
inline uint32_t square_row(uint32_t x) {
  const uint32_t row = ((x & ((1u << J) - 1)) >> (18 - J)) + (1u << (2 * J - 19));
  return row & (0u - ((x >> J) & 1));
}
inline int32_t square(uint32_t x) {
  return static_cast<int32_t>(square_row<10>(x) + square_row<11>(x) + square_row<12>(x) + square_row<13>(x) +
                              square_row<14>(x) + square_row<15>(x) + square_row<16>(x));
}

// A table's value: `segment` and the 17 bits of x below it.
inline double interpolate(const Segment* table, uint32_t segment, uint32_t x) {
  const Segment& s = table[segment];
  return s.c0 + s.c1 * static_cast<double>(static_cast<int32_t>(x)) + s.c2 * static_cast<double>(square(x));
}
// The same for a 23-bit argument: six bits choose the segment.
inline double lookup(const Segment* table, uint32_t argument) {
  return interpolate(table, argument >> 17, argument & 0x1ffffu);
}

inline int32_t stored_exponent(uint32_t bits) {
  return static_cast<int32_t>((bits >> 23) & 0xff);
}

// The float `base` plus `value` codes, times 2^exponent; below the normal numbers is zero.
inline uint32_t assemble(int32_t base, double value, int32_t exponent) {
  const int32_t code = base + static_cast<int32_t>(value) + exponent * (1 << 23);
  return static_cast<uint32_t>(pick(code < 0x00800000, 0, code));
}

inline float rcp(float x) {
  const uint32_t b = flush_f32_bits(bits_of(x));
  const uint32_t a = b & ~kSign;
  // Seven bits choose the segment: the 16 that are left are one bit short of x.
  const double value = interpolate(kReciprocal, (b & kFraction) >> 16, (b & 0xffffu) << 1);
  uint32_t r = assemble(0x3f000000, value, 127 - stored_exponent(b));
  r = pick(a == 0, kInfinity, r);
  r = pick(a == kInfinity, 0u, r) | (b & kSign);
  return f32_of(pick(a > kInfinity, kNanF32, r));
}

inline float rsq(float x) {
  const uint32_t b = flush_f32_bits(bits_of(x));
  const uint32_t a = b & ~kSign;
  const uint32_t fraction = b & kFraction;
  const int32_t e = stored_exponent(b) - 127;
  const auto odd = static_cast<uint32_t>(e & 1);
  const double value = interpolate(kReciprocalRoot, odd * 64 + (fraction >> 17), fraction & 0x1ffffu);
  uint32_t r = assemble(0x3f000000, value, -(e >> 1));
  r = pick((odd | fraction) == 0, static_cast<uint32_t>(0x3f800000 - (e >> 1) * (1 << 23)),
           r);  // a power of four
  r = pick(a == kInfinity, 0u, r);
  r = pick(b > kSign, kNanF32, r);  // negative, and not zero
  r = pick(a == 0, kInfinity | (b & kSign), r);
  return f32_of(pick(a > kInfinity, kNanF32, r));
}

inline float sqrt(float x) {
  const uint32_t b = flush_f32_bits(bits_of(x));
  const uint32_t a = b & ~kSign;
  const uint32_t fraction = b & kFraction;
  const int32_t e = stored_exponent(b) - 127;
  const double value =
      interpolate(kRoot, static_cast<uint32_t>(e & 1) * 64 + (fraction >> 17), fraction & 0x1ffffu);
  uint32_t r = assemble(0x3f800000, value, e >> 1);
  r = pick(a == kInfinity, kInfinity, r);
  r = pick(b > kSign, kNanF32, r);
  r = pick(a == 0, b, r);
  return f32_of(pick(a > kInfinity, kNanF32, r));
}

inline float lg2(float x) {
  const uint32_t b = flush_f32_bits(bits_of(x));
  const uint32_t a = b & ~kSign;
  // The adder's last place is 2^-36; a negative sum is complemented, not negated.
  const double whole = static_cast<double>(stored_exponent(b) - 127) * 0x1p23;
  const double sum = std::floor((lookup(kLogarithm, b & kFraction) + whole) * 0x1p13);
  const double magnitude = std::fabs(sum + 0.5) - 0.5;
  const float value = round_to_f32<Rounding::TowardZero>(magnitude * 0x1p-36);
  uint32_t r = bits_of(value) | (bits_of(static_cast<float>(sum)) & kSign);
  r = pick(b == 0x3f800000u, 0u, r);
  r = pick(a == kInfinity, kInfinity, r);
  r = pick(b > kSign, kNanF32, r);
  r = pick(a == 0, kInfinity | kSign, r);
  return f32_of(pick(a > kInfinity, kNanF32, r));
}

inline float ex2(float x) {
  const float low = pick(x > -160.0f, x, -160.0f);  // NaN becomes this, too
  const float clamped = pick(low < 128.0f, low, 128.0f);
  const auto magnitude = static_cast<int32_t>(std::fabs(clamped) * 8388608.0f);  // cut off
  const bool whole = (magnitude & static_cast<int32_t>(kFraction)) == 0;
  const int32_t negated = pick(whole, -magnitude, ~magnitude);
  const int32_t fixed = pick(clamped < 0, negated, magnitude);
  const double value = lookup(kPower, static_cast<uint32_t>(fixed) & kFraction);
  uint32_t r = assemble(0x3f800000, value, fixed >> 23);
  r = pick(x >= 128.0f, kInfinity, r);
  return f32_of(pick(x != x, kNanF32, r));
}

// sin of 2 pi * k / 2^25 for k below 2^25: a quarter of a wave, mirrored and negated.
inline float sine_at(uint32_t k) {
  const uint32_t f = k & kFraction;
  const bool mirrored = (k & 0x800000u) != 0;
  const double value = lookup(kSine, pick(mirrored, ~f & kFraction, f));
  const float wave = round_to_f32<Rounding::TowardZero>(value * 0x1p-24);
  const float magnitude = pick(mirrored & (f == 0), 1.0f, wave);
  return f32_of(bits_of(magnitude) | pick((k & 0x1000000u) != 0, kSign, 0u));
}

// |r| in units of 2^-25, modulo a revolution.
inline uint32_t phase(float r) {
  const double a = std::fabs(static_cast<double>(r));
  return static_cast<uint32_t>(static_cast<int32_t>((a - std::floor(a)) * 0x1p25));
}

inline float sin(float r) {
  const uint32_t b = flush_f32_bits(bits_of(r));
  const bool finite = (b & kInfinity) != kInfinity;
  const uint32_t s = bits_of(sine_at(phase(f32_of(pick(finite, b, 0u))))) ^ (b & kSign);
  return f32_of(pick(finite, s, kNanF32));
}

inline float cos(float r) {
  const uint32_t b = flush_f32_bits(bits_of(r));
  const bool finite = (b & kInfinity) != kInfinity;
  const uint32_t quarter = (phase(f32_of(pick(finite, b, 0u))) + 0x800000u) & 0x1ffffffu;
  return f32_of(pick(finite, bits_of(sine_at(quarter)), kNanF32));
}

inline float tanh(float x) {
  const uint32_t b = bits_of(x);
  const uint32_t a = b & ~kSign;
  const bool inside = (a >= 0x3b800000u) & (a < 0x41000000u);  // from 2^-8 to 8
  const uint32_t v = pick(inside, a, 0x3f800000u);
  const int32_t e = stored_exponent(v) - 127;
  const int32_t bits = kTanhBits[e + 8];
  const uint32_t argument = (v & kFraction) >> (6 - bits);
  const double value =
      interpolate(kTanh, static_cast<uint32_t>(kTanhFirst[e + 8]) + (argument >> 17), argument & 0x1ffffu);
  const int32_t unit = pick(e < -1, e, -1) - 23;
  const double scale = f64_of(static_cast<uint64_t>(unit + 1023) << 52);
  const uint32_t wave = bits_of(round_to_f32<Rounding::TowardZero>(value * scale));
  uint32_t r = pick(a >= 0x41000000u, 0x3f800000u, wave);
  r = pick(a < 0x3b800000u, a, r) | (b & kSign);
  return f32_of(pick(a > kInfinity, kNanF32, r));
}

inline bool is_small(float x) {
  return std::fabs(x) < 0x1p-126f;
}

}  // namespace sfu

inline float ex2_approx(float x, bool ftz) {
  const bool halved = !ftz & (x < -126.0f);
  const float r = sfu::ex2(pick(halved, x * 0.5f, x));
  return pick(halved, r * r, r);
}

inline float lg2_approx(float x, bool ftz) {
  const bool small = !ftz & sfu::is_small(x);
  const float r = sfu::lg2(x * pick(small, 0x1p24f, 1.0f));
  return canonical(r - pick(small, 24.0f, 0.0f));
}

// The argument in revolutions is cut off, and flushed by the unit.
inline float sin_approx(float x, bool) {
  return sfu::sin(mul_f32<Rounding::TowardZero>(x, f32_of(0x3e22f983u)));
}
inline float cos_approx(float x, bool) {
  return sfu::cos(mul_f32<Rounding::TowardZero>(x, f32_of(0x3e22f983u)));
}

inline float rcp_approx(float x, bool ftz) {
  const float small = pick(sfu::is_small(x), 0x1p24f, 1.0f);
  const float scale = pick(std::fabs(x) > 0x1p126f, 0.25f, small);
  return ftz ? sfu::rcp(x) : canonical(scale * sfu::rcp(x * scale));
}

inline float rsqrt_approx(float x, bool ftz) {
  const bool small = !ftz & sfu::is_small(x);
  return canonical(sfu::rsq(x * pick(small, 0x1p24f, 1.0f)) * pick(small, 0x1p12f, 1.0f));
}

inline float sqrt_approx(float x, bool ftz) {
  const bool small = !ftz & sfu::is_small(x);
  return canonical(sfu::sqrt(x * pick(small, 0x1p24f, 1.0f)) * pick(small, 0x1p-12f, 1.0f));
}

inline float tanh_approx(float x) {
  return sfu::tanh(x);
}

// a / b as a times the reciprocal, both scaled first where b needs it.
inline float scaled_quotient(float a, float b, float scale, bool ftz) {
  const float x = ftz ? mul_f32<Rounding::NearestEven, true>(a, scale) : a * scale;
  const float r = sfu::rcp(b * scale);
  return ftz ? mul_f32<Rounding::NearestEven, true>(x, r) : mul_f32(x, r);
}

inline float div_approx(float a, float b, bool ftz) {
  return scaled_quotient(a, b, pick(!ftz & sfu::is_small(b), 0x1p24f, 1.0f), ftz);
}

inline float div_full(float a, float b, bool ftz) {
  const float small = pick(!ftz & sfu::is_small(b), 0x1p24f, 1.0f);
  return scaled_quotient(a, b, pick(std::fabs(b) > 0x1p126f, 0.25f, small), ftz);
}

// ex2.approx.f16 and .ftz.bf16, tanh.approx for both: the f32 result, cut off.
inline uint16_t ex2_approx_f16(uint16_t x, bool ftz) {
  const float r = sfu::ex2(f16_to_f32(ftz ? flush_code<F16>(x) : x));
  const uint16_t narrow = pick<uint16_t>(r >= 65536.0f, F16::kInf, f32_to_f16_rz(r));
  return ftz ? flush_code<F16>(narrow) : narrow;
}
inline uint16_t ex2_approx_bf16(uint16_t x) {
  return f32_to_bf16_rz(sfu::ex2(bf16_to_f32(x)));
}
inline uint16_t tanh_approx_f16(uint16_t x) {
  return f32_to_f16_rz(sfu::tanh(f16_to_f32(x)));
}
inline uint16_t tanh_approx_bf16(uint16_t x) {
  return f32_to_bf16_rz(sfu::tanh(bf16_to_f32(x)));
}

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: of the high word alone, into the high word.
double rcp_approx_f64(double x);
double rsqrt_approx_f64(double x);
// rsqrt.approx.f64: the above and one step of Newton's method.
double rsqrt_approx_f64_full(double x);

}  // namespace assay::numerics
