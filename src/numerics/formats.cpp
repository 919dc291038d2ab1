#include "numerics/formats.h"

#include <array>
#include <cmath>
#include <limits>

namespace assay::numerics {
namespace {

// name, bits, exponent, fraction, unused, bias, signed, infinity, NaN codes, canonical NaN
constexpr std::array<FormatInfo, kFormatCount> kFormats = {{
    {"f64", 64, 11, 52, 0, 1023, true, true, NanCodes::Ieee, 0x7fffffffffffffffu},
    {"f32", 32, 8, 23, 0, 127, true, true, NanCodes::Ieee, 0x7fffffffu},
    {"tf32", 32, 8, 10, 13, 127, true, true, NanCodes::Ieee, 0x7fffe000u},
    {"f16", 16, 5, 10, 0, 15, true, true, NanCodes::Ieee, 0x7fffu},
    {"bf16", 16, 8, 7, 0, 127, true, true, NanCodes::Ieee, 0x7fffu},
    {"e4m3", 8, 4, 3, 0, 7, true, false, NanCodes::AllOnes, 0x7fu},
    {"e5m2", 8, 5, 2, 0, 15, true, true, NanCodes::Ieee, 0x7fu},
    {"e2m3", 6, 2, 3, 0, 1, true, false, NanCodes::None, 0},
    {"e3m2", 6, 3, 2, 0, 3, true, false, NanCodes::None, 0},
    {"e2m1", 4, 2, 1, 0, 1, true, false, NanCodes::None, 0},
    {"ue8m0", 8, 8, 0, 0, 127, false, false, NanCodes::AllOnes, 0xffu},
}};

// A code taken apart; exponent and fraction as stored.
struct Fields {
  bool negative;
  uint64_t exponent;
  uint64_t fraction;
};

uint64_t exponent_mask(const FormatInfo& f) {
  return (uint64_t{1} << f.exponent_bits) - 1;
}
uint64_t fraction_mask(const FormatInfo& f) {
  return (uint64_t{1} << f.fraction_bits) - 1;
}
uint64_t sign_bit(const FormatInfo& f) {
  return f.is_signed ? uint64_t{1} << (f.bits - 1) : 0;
}

Fields split(const FormatInfo& f, uint64_t code) {
  const uint64_t magnitude = code >> f.unused_bits;
  return {(code & sign_bit(f)) != 0, (magnitude >> f.fraction_bits) & exponent_mask(f),
          magnitude & fraction_mask(f)};
}

uint64_t magnitude_code(const FormatInfo& f, uint64_t exponent, uint64_t fraction) {
  return ((exponent << f.fraction_bits) | fraction) << f.unused_bits;
}

// The largest finite magnitude, as a code.
uint64_t max_code(const FormatInfo& f) {
  const uint64_t e = exponent_mask(f);
  const uint64_t m = fraction_mask(f);
  switch (f.nan_codes) {
    case NanCodes::Ieee:
      return magnitude_code(f, e - 1, m);
    case NanCodes::AllOnes:
      return f.fraction_bits == 0 ? e - 1 : magnitude_code(f, e, m - 1);
    case NanCodes::None:
      break;
  }
  return magnitude_code(f, e, m);
}

uint64_t infinity_code(const FormatInfo& f) {
  return magnitude_code(f, exponent_mask(f), 0);
}

bool is_nan_fields(const FormatInfo& f, const Fields& x) {
  switch (f.nan_codes) {
    case NanCodes::Ieee:
      return x.exponent == exponent_mask(f) && x.fraction != 0;
    case NanCodes::AllOnes:
      return x.exponent == exponent_mask(f) && x.fraction == fraction_mask(f);
    case NanCodes::None:
      break;
  }
  return false;
}

// UE8M0 has no zero and no subnormals: code c is 2^(c - 127).
bool has_subnormals(const FormatInfo& f) {
  return f.fraction_bits > 0;
}

int bit_length(uint128 x) {
  const auto high = static_cast<uint64_t>(x >> 64);
  const auto low = static_cast<uint64_t>(x);
  return high != 0 ? 128 - std::countl_zero(high) : 64 - std::countl_zero(low);
}

// Whether the magnitude is to be rounded up, given the kept integer and what was cut off.
bool rounds_up(Rounding rounding, bool negative, bool odd, bool half, bool below) {
  const bool inexact = half || below;
  switch (rounding) {
    case Rounding::NearestEven:
      return half && (below || odd);
    case Rounding::NearestAway:
      return half;
    case Rounding::TowardZero:
      return false;
    case Rounding::Down:
      return negative && inexact;
    case Rounding::Up:
      return !negative && inexact;
    case Rounding::Odd:
      return inexact && !odd;
  }
  return false;
}

uint64_t overflow_code(const FormatInfo& f, bool negative, Rounding rounding, Saturation saturation) {
  const uint64_t sign = negative ? sign_bit(f) : 0;
  const bool to_max = saturation == Saturation::Finite || rounding == Rounding::TowardZero ||
                      rounding == Rounding::Odd || (rounding == Rounding::Down && !negative) ||
                      (rounding == Rounding::Up && negative);
  if (to_max) return max_code(f) | sign;
  if (f.has_infinity) return infinity_code(f) | sign;
  if (f.nan_codes == NanCodes::AllOnes) return f.canonical_nan | sign;
  return max_code(f) | sign;
}

double power_of_two(int e) {
  return std::ldexp(1.0, e);
}

}  // namespace

const FormatInfo& info(Format format) {
  return kFormats[static_cast<size_t>(format)];
}

bool format_named(std::string_view name, Format& format) {
  for (int i = 0; i < kFormatCount; ++i) {
    if (kFormats[static_cast<size_t>(i)].name != name) continue;
    format = static_cast<Format>(i);
    return true;
  }
  return false;
}

double max_finite(Format format) {
  return to_double(format, max_code(info(format)));
}
double min_normal(Format format) {
  return power_of_two(info(format).min_exponent());
}
double unit_roundoff(Format format) {
  return power_of_two(-info(format).precision());
}

double min_subnormal(Format format) {
  const FormatInfo& f = info(format);
  if (!has_subnormals(f)) return power_of_two(-f.bias);
  return power_of_two(f.min_exponent() - f.fraction_bits);
}

double ulp(Format format, double x) {
  if (!std::isfinite(x)) return std::numeric_limits<double>::quiet_NaN();
  const FormatInfo& f = info(format);
  const int lowest = f.min_exponent();
  int e = lowest;
  if (x != 0) e = std::max(lowest, std::ilogb(x));
  return power_of_two(e - f.fraction_bits);
}

bool is_nan(Format format, uint64_t code) {
  const FormatInfo& f = info(format);
  return is_nan_fields(f, split(f, code));
}

bool sign_of(Format format, uint64_t code) {
  return (code & sign_bit(info(format))) != 0;
}

Class classify(Format format, uint64_t code) {
  const FormatInfo& f = info(format);
  const Fields x = split(f, code);
  if (is_nan_fields(f, x)) return Class::NaN;
  if (f.has_infinity && x.exponent == exponent_mask(f)) return Class::Infinity;
  if (x.exponent != 0 || !has_subnormals(f)) return Class::Normal;
  return x.fraction == 0 ? Class::Zero : Class::Subnormal;
}

uint64_t next_up(Format format, uint64_t code) {
  const FormatInfo& f = info(format);
  if (is_nan(format, code)) return code;
  const uint64_t unit = uint64_t{1} << f.unused_bits;
  const uint64_t sign = code & sign_bit(f);
  uint64_t magnitude = (code & ~sign_bit(f)) & ~(unit - 1);
  if (magnitude == 0 && has_subnormals(f)) return unit;
  if (sign != 0) return sign | (magnitude - unit);
  const uint64_t top = f.has_infinity ? infinity_code(f) : max_code(f);
  return magnitude == top ? magnitude : magnitude + unit;
}

uint64_t next_down(Format format, uint64_t code) {
  const FormatInfo& f = info(format);
  if (!f.is_signed) return is_nan(format, code) || code == 0 ? code : code - 1;
  const uint64_t sign = sign_bit(f);
  if (is_nan(format, code)) return code;
  return next_up(format, code ^ sign) ^ sign;
}

double to_double(Format format, uint64_t code) {
  if (format == Format::F64) return f64_of(code);
  const FormatInfo& f = info(format);
  const Fields x = split(f, code);
  const double sign = x.negative ? -1.0 : 1.0;
  if (is_nan_fields(f, x)) return std::numeric_limits<double>::quiet_NaN();
  if (f.has_infinity && x.exponent == exponent_mask(f)) return sign * HUGE_VAL;
  if (!has_subnormals(f)) return power_of_two(static_cast<int>(x.exponent) - f.bias);
  const bool normal = x.exponent != 0;
  const uint64_t significand = x.fraction | (normal ? uint64_t{1} << f.fraction_bits : 0);
  const int exponent = (normal ? static_cast<int>(x.exponent) : 1) - f.bias - f.fraction_bits;
  return sign * std::ldexp(static_cast<double>(significand), exponent);
}

Exact to_exact(double x) {
  const uint64_t bits = bits_of(x);
  const auto stored = static_cast<int>((bits >> 52) & 0x7ff);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  Exact exact;
  exact.negative = (bits >> 63) != 0;
  exact.significand = stored == 0 ? fraction : fraction | (uint64_t{1} << 52);
  exact.exponent = (stored == 0 ? 1 : stored) - 1023 - 52;
  return exact;
}

uint64_t from_exact(Format format, const Exact& x, Rounding rounding, Saturation saturation) {
  const FormatInfo& f = info(format);
  const uint64_t sign = x.negative ? sign_bit(f) : 0;
  if (x.significand == 0 && !x.sticky) return has_subnormals(f) ? sign : 0;

  // The exponent of the result's last bit, if nothing carried.
  const int lowest = has_subnormals(f) ? f.min_exponent() - f.fraction_bits : -f.bias;
  int unit = std::max(x.exponent + bit_length(x.significand) - f.precision(), lowest);
  if (x.significand == 0) unit = lowest;
  int cut = unit - x.exponent;  // low bits of the significand to round away

  uint128 kept = 0;
  bool half = false;
  bool below = x.sticky;
  if (cut <= 0) {
    kept = x.significand << -cut;  // at most `precision` bits, since unit would be larger otherwise
  } else if (cut > 128) {
    below = below || x.significand != 0;
  } else {
    kept = cut == 128 ? 0 : x.significand >> cut;
    half = ((x.significand >> (cut - 1)) & 1) != 0;
    const uint128 rest = x.significand & ((uint128{1} << (cut - 1)) - 1);
    below = below || rest != 0;
  }
  if (rounds_up(rounding, x.negative, (kept & 1) != 0, half, below)) ++kept;
  if (bit_length(kept) > f.precision()) {
    kept >>= 1;
    ++unit;
  }

  if (!has_subnormals(f)) {  // UE8M0: kept is 0 or 1
    const int e = kept == 0 ? 0 : unit + f.bias;
    return e > 254 ? overflow_code(f, false, rounding, saturation) : static_cast<uint64_t>(std::max(e, 0));
  }
  const auto significand = static_cast<uint64_t>(kept);
  const bool normal = (significand >> f.fraction_bits) != 0;
  const int stored = normal ? unit + f.fraction_bits + f.bias : 0;
  if (stored > static_cast<int>(exponent_mask(f))) return overflow_code(f, x.negative, rounding, saturation);
  const uint64_t magnitude = magnitude_code(f, static_cast<uint64_t>(stored), significand & fraction_mask(f));
  if (magnitude > max_code(f)) return overflow_code(f, x.negative, rounding, saturation);
  return magnitude | sign;
}

uint64_t from_double(Format format, double x, Rounding rounding, Saturation saturation) {
  const FormatInfo& f = info(format);
  if (std::isnan(x)) {
    if (f.nan_codes != NanCodes::None) return f.canonical_nan;
    return max_code(f);  // as cvt.satfinite does for the formats without NaN
  }
  const uint64_t sign = std::signbit(x) ? sign_bit(f) : 0;
  if (std::isinf(x)) {
    if (saturation == Saturation::Finite) return max_code(f) | sign;
    return f.has_infinity ? infinity_code(f) | sign
                          : overflow_code(f, std::signbit(x), Rounding::NearestEven, saturation);
  }
  if (!f.is_signed && std::signbit(x)) return x == 0 ? 0 : f.canonical_nan;
  return from_exact(format, to_exact(x), rounding, saturation);
}

}  // namespace assay::numerics
