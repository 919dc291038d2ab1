// rcp and rsqrt .approx for f64, by way of the f32 tables.
#include "numerics/approx.h"

namespace assay::numerics {
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

}  // namespace assay::numerics
