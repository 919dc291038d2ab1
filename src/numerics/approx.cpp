#include "numerics/approx.h"

#include <algorithm>

namespace assay::numerics {
namespace sfu {
namespace {

constexpr float kNan = std::bit_cast<float>(kNanF32);
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr uint32_t kSign = 0x80000000u;
constexpr uint32_t kFractionMask = 0x7fffffu;
constexpr int kUnit = 17;  // fraction bits of a segment's value, below the result's last place

int exponent_of(uint32_t bits) {
  return static_cast<int>((bits >> 23) & 0xff) - 127;
}

// A float's bits moved by a power of two; what falls below the normal numbers is zero.
float scaled(uint32_t bits, int exponent) {
  const int64_t moved = static_cast<int64_t>(bits) + static_cast<int64_t>(exponent) * (1 << 23);
  if (moved < 0x00800000) return 0.0f;
  return moved >= 0x7f800000 ? kInf : f32_of(static_cast<uint32_t>(moved));
}

float with_sign(float magnitude, uint32_t sign) {
  return f32_of(bits_of(magnitude) | sign);
}

// magnitude * 2^-unit, cut off after 24 bits.
float truncated(uint64_t magnitude, int unit) {
  if (magnitude == 0) return 0.0f;
  const int top = 63 - std::countl_zero(magnitude);
  const uint64_t significand = top >= 23 ? magnitude >> (top - 23) : magnitude << (23 - top);
  const auto exponent = static_cast<uint32_t>(top - unit + 127);
  return f32_of((exponent << 23) + static_cast<uint32_t>(significand & kFractionMask));
}

// sin of 2 pi * k / 2^25, k taken modulo a revolution: a quarter of a wave, mirrored and negated.
float sine_at(uint32_t k) {
  const uint32_t quadrant = (k >> 23) & 3;
  const uint32_t f = k & kFractionMask;
  const bool mirrored = (quadrant & 1) != 0;
  if (mirrored && f == 0) return quadrant < 2 ? 1.0f : -1.0f;
  const auto value = static_cast<uint64_t>(lookup(kSine, mirrored ? ~f & kFractionMask : f));
  return with_sign(truncated(value, 41), quadrant < 2 ? 0 : kSign);
}

// |r| in units of 2^-25, modulo a revolution.
uint32_t phase(float r) {
  const uint32_t b = bits_of(r);
  const int e = exponent_of(b);
  const uint64_t significand = (b & kFractionMask) | 0x800000u;
  const int shift = e - 23 + 25;
  if (shift < -24 || shift > 24) return 0;
  const uint64_t k = shift >= 0 ? significand << shift : significand >> -shift;
  return static_cast<uint32_t>(k & 0x1ffffffu);
}

}  // namespace

float rcp(float x) {
  const uint32_t b = bits_of(flush(x));
  const uint32_t sign = b & kSign;
  const uint32_t a = b & ~kSign;
  if (a > 0x7f800000u) return kNan;
  if (a == 0) return with_sign(kInf, sign);
  if (a == 0x7f800000u) return with_sign(0.0f, sign);
  // Seven bits choose the segment: the 16 that are left are one bit short of x.
  const uint32_t fraction = b & kFractionMask;
  const int64_t value = interpolate(kReciprocal[fraction >> 16], (fraction & 0xffffu) << 1);
  return with_sign(scaled(0x3f000000u + static_cast<uint32_t>(value >> kUnit), -exponent_of(b)), sign);
}

float rsq(float x) {
  const uint32_t b = bits_of(flush(x));
  const uint32_t a = b & ~kSign;
  if (a > 0x7f800000u) return kNan;
  if (a == 0) return with_sign(kInf, b & kSign);
  if (b != a) return kNan;
  if (a == 0x7f800000u) return 0.0f;
  const int e = exponent_of(b);
  const int half = e >> 1;
  const uint32_t fraction = b & kFractionMask;
  const bool odd = (e & 1) != 0;
  if (!odd && fraction == 0) return scaled(0x3f800000u, -half);
  const int64_t value = lookup(kReciprocalRoot + (odd ? 64 : 0), fraction);
  return scaled(0x3f000000u + static_cast<uint32_t>(value >> kUnit), -half);
}

float sqrt(float x) {
  const uint32_t b = bits_of(flush(x));
  const uint32_t a = b & ~kSign;
  if (a > 0x7f800000u) return kNan;
  if (a == 0) return f32_of(b);
  if (b != a) return kNan;
  if (a == 0x7f800000u) return kInf;
  const int e = exponent_of(b);
  const int64_t value = lookup(kRoot + ((e & 1) != 0 ? 64 : 0), b & kFractionMask);
  return scaled(0x3f800000u + static_cast<uint32_t>(value >> kUnit), e >> 1);
}

float lg2(float x) {
  const uint32_t b = bits_of(flush(x));
  const uint32_t a = b & ~kSign;
  if (a > 0x7f800000u) return kNan;
  if (a == 0) return -kInf;
  if (b != a) return kNan;
  if (a == 0x7f800000u) return kInf;
  if (b == 0x3f800000u) return 0.0f;
  // Sixteen units are the last place that the adder keeps; a negative value is complemented, not negated.
  const int64_t whole = static_cast<int64_t>(exponent_of(b)) * (int64_t{1} << 40);
  const int64_t value = (lookup(kLogarithm, b & kFractionMask) + whole) >> 4;
  const auto magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  return with_sign(truncated(magnitude, 36), value < 0 ? kSign : 0);
}

float ex2(float x) {
  if (x != x) return kNan;
  if (x >= 128.0f) return kInf;
  if (x <= -160.0f) return 0.0f;
  auto fixed = static_cast<int64_t>(std::fabs(x) * 8388608.0);  // cut off
  const bool whole = (fixed & kFractionMask) == 0;
  if (x < 0) fixed = whole ? -fixed : ~fixed;
  const int64_t value = lookup(kPower, static_cast<uint32_t>(fixed & kFractionMask));
  return scaled(0x3f800000u + static_cast<uint32_t>(value >> kUnit), static_cast<int>(fixed >> 23));
}

float sin(float r) {
  r = flush(r);
  if (!(std::fabs(r) < kInf)) return kNan;
  const float s = sine_at(phase(r));
  return f32_of(bits_of(s) ^ (bits_of(r) & kSign));
}

float cos(float r) {
  r = flush(r);
  if (!(std::fabs(r) < kInf)) return kNan;
  return sine_at(phase(r) + (1u << 23));
}

float tanh(float x) {
  // For each binade from 2^-8 to 2^2: its first segment, and how many bits choose among its segments.
  struct Binade {
    uint8_t first;
    uint8_t bits;
  };
  static constexpr Binade kBinades[] = {{0, 0},  {1, 0},  {2, 0},  {3, 1},  {5, 1}, {7, 2},
                                        {11, 2}, {15, 2}, {19, 3}, {27, 4}, {43, 3}};
  const uint32_t b = bits_of(x);
  const uint32_t sign = b & kSign;
  const uint32_t a = b & ~kSign;
  if (a > 0x7f800000u) return kNan;
  if (a < 0x3b800000u) return x;
  if (a >= 0x41000000u) return with_sign(1.0f, sign);
  const int e = exponent_of(a);
  const Binade binade = kBinades[e + 8];
  const uint32_t argument = (a & kFractionMask) >> (6 - binade.bits);
  const auto value = static_cast<uint64_t>(lookup(kTanh + binade.first, argument));
  return with_sign(truncated(value, 40 - std::min(e, -1)), sign);
}

}  // namespace sfu

namespace {

constexpr float kMinNormal = 0x1p-126f;

float div_by_unit(float a, float b, bool ftz) {
  const float r = sfu::rcp(b);
  return ftz ? mul_f32<Rounding::NearestEven, true>(a, r) : mul_f32(a, r);
}

}  // namespace

float ex2_approx(float x, bool ftz) {
  if (ftz || !(x < -126.0f)) return sfu::ex2(x);
  const float r = sfu::ex2(x * 0.5f);
  return r * r;
}

float lg2_approx(float x, bool ftz) {
  if (ftz || !(std::fabs(x) < kMinNormal)) return sfu::lg2(x);
  return canonical(sfu::lg2(x * 0x1p24f) - 24.0f);
}

// The argument in revolutions is cut off, and flushed by the unit.
float sin_approx(float x, bool) {
  return sfu::sin(mul_f32<Rounding::TowardZero>(x, f32_of(0x3e22f983u)));
}
float cos_approx(float x, bool) {
  return sfu::cos(mul_f32<Rounding::TowardZero>(x, f32_of(0x3e22f983u)));
}

float rcp_approx(float x, bool ftz) {
  if (ftz) return sfu::rcp(x);
  const float a = std::fabs(x);
  const float scale = a > 0x1p126f ? 0.25f : a < kMinNormal ? 0x1p24f : 1.0f;
  return canonical(scale * sfu::rcp(x * scale));
}

float rsqrt_approx(float x, bool ftz) {
  if (ftz || !(std::fabs(x) < kMinNormal)) return sfu::rsq(x);
  return canonical(sfu::rsq(x * 0x1p24f) * 0x1p12f);
}

float sqrt_approx(float x, bool ftz) {
  if (ftz || !(std::fabs(x) < kMinNormal)) return sfu::sqrt(x);
  return canonical(sfu::sqrt(x * 0x1p24f) * 0x1p-12f);
}

float tanh_approx(float x) {
  return sfu::tanh(x);
}

float div_approx(float a, float b, bool ftz) {
  if (!ftz && std::fabs(b) < kMinNormal) {
    a *= 0x1p24f;
    b *= 0x1p24f;
  }
  return div_by_unit(a, b, ftz);
}

float div_full(float a, float b, bool ftz) {
  const float magnitude = std::fabs(b);
  if (magnitude > 0x1p126f) {
    a = ftz ? mul_f32<Rounding::NearestEven, true>(a, 0.25f) : a * 0.25f;
    b *= 0.25f;
  } else if (!ftz && magnitude < kMinNormal) {
    a *= 0x1p24f;
    b *= 0x1p24f;
  }
  return div_by_unit(a, b, ftz);
}

namespace {

constexpr uint32_t kHighNan = 0x7fffffffu;
constexpr uint32_t kHighSign = 0x80000000u;

double high_word(uint32_t high) {
  return f64_of(static_cast<uint64_t>(high) << 32);
}

// The 20 fraction bits of a double's high word as a float in [1, 2), or [2, 4) if `odd`.
float leading_float(uint32_t high, bool odd) {
  return f32_of(((odd ? 0x80u : 0x7fu) << 23) | (high & 0xfffffu) << 3);
}

// A float of the unit's back in a high word, moved by a power of two; below the normal numbers is zero.
double widened(float r, int exponent, uint32_t sign) {
  const uint32_t b = bits_of(r);
  const int stored = static_cast<int>(b >> 23) - 127 + 1023 + exponent;
  if (stored < 1) return high_word(sign);
  return high_word(sign | static_cast<uint32_t>(stored) << 20 | (b & 0x7fffffu) >> 3);
}

}  // namespace

double rcp_approx_f64(double x) {
  const auto high = static_cast<uint32_t>(bits_of(x) >> 32);
  const uint32_t sign = high & kHighSign;
  const uint32_t stored = (high >> 20) & 0x7ffu;
  if (x != x) return high_word(kHighNan);
  if (stored == 0) return high_word(sign | 0x7ff00000u);
  if (stored == 0x7ffu) return high_word(sign);
  return widened(sfu::rcp(leading_float(high, false)), 1023 - static_cast<int>(stored), sign);
}

double rsqrt_approx_f64(double x) {
  const auto high = static_cast<uint32_t>(bits_of(x) >> 32);
  const uint32_t stored = (high >> 20) & 0x7ffu;
  if (x != x) return high_word(kHighNan);
  if (stored == 0) return high_word((high & kHighSign) | 0x7ff00000u);
  if ((high & kHighSign) != 0) return high_word(kHighNan);
  if (stored == 0x7ffu) return 0.0;
  const int e = static_cast<int>(stored) - 1023;
  return widened(sfu::rsq(leading_float(high, (e & 1) != 0)), -(e >> 1), 0);
}

double rsqrt_approx_f64_full(double x) {
  const auto refined = [](double v) {
    const double y = rsqrt_approx_f64(v);
    const double e = std::fma(v, -(y * y), 1.0);
    return std::fma(std::fma(e, 0.375, 0.5), y * e, y);
  };
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), x);
  if (x != x) return quiet_f64(x);
  if (x < 0) return f64_of(kNanF64);
  if (x == std::numeric_limits<double>::infinity()) return 0.0;
  return x < std::numeric_limits<double>::min() ? refined(x * 0x1p54) * 0x1p27 : refined(x);
}

uint16_t ex2_approx_f16(uint16_t code, bool ftz) {
  const float r = sfu::ex2(f16_to_f32(ftz ? flush_code<F16>(code) : code));
  const uint16_t narrow = r >= 65536.0f ? uint16_t{0x7c00} : f32_to_f16_rz(r);
  return ftz ? flush_code<F16>(narrow) : narrow;
}
uint16_t ex2_approx_bf16(uint16_t code) {
  return f32_to_bf16_rz(sfu::ex2(bf16_to_f32(code)));
}
uint16_t tanh_approx_f16(uint16_t code) {
  return f32_to_f16_rz(sfu::tanh(f16_to_f32(code)));
}
uint16_t tanh_approx_bf16(uint16_t code) {
  return f32_to_bf16_rz(sfu::tanh(bf16_to_f32(code)));
}

}  // namespace assay::numerics
