#include "numerics/convert.h"

namespace assay::numerics {
namespace {

uint64_t mask_of(int bits) {
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

int128 integer_value(Num n, uint64_t code) {
  const int bits = width_of_integer(n);
  const uint64_t low = code & mask_of(bits);
  if (!is_signed_integer(n)) return static_cast<int128>(low);
  return static_cast<int128>(static_cast<int64_t>(low << (64 - bits)) >> (64 - bits));
}

int128 lowest(Num n) {
  return is_signed_integer(n) ? -(static_cast<int128>(1) << (width_of_integer(n) - 1)) : 0;
}
int128 highest(Num n) {
  const int digits = width_of_integer(n) - (is_signed_integer(n) ? 1 : 0);
  return (static_cast<int128>(1) << digits) - 1;
}

double integral(Rounding rounding, double x) {
  switch (rounding) {
    case Rounding::TowardZero:
      return std::trunc(x);
    case Rounding::Down:
      return std::floor(x);
    case Rounding::Up:
      return std::ceil(x);
    default:
      return std::nearbyint(x);
  }
}

Exact exact_integer(int128 x) {
  Exact e;
  e.negative = x < 0;
  e.significand = static_cast<uint128>(x < 0 ? -x : x);
  return e;
}

uint64_t flush_if(bool ftz, Num n, uint64_t code) {
  return ftz && n == Num::F32 ? flush_f32_bits(static_cast<uint32_t>(code)) : code;
}

uint64_t float_to_integer(const Conversion& c, uint64_t code) {
  const double x = to_double(format_of(c.from), flush_if(c.ftz, c.from, code));
  const int bits = width_of_integer(c.to);
  if (std::isnan(x)) {
    const bool top_bit = c.from == Num::F64 || bits == 64;
    return top_bit ? uint64_t{1} << (bits - 1) : 0;
  }
  const double whole = integral(c.rounding, x);
  const auto low = static_cast<double>(lowest(c.to));
  const auto high = static_cast<double>(highest(c.to));
  int128 value = 0;
  if (whole >= high) {
    value = highest(c.to);
  } else if (whole <= low) {
    value = lowest(c.to);
  } else {
    value = static_cast<int128>(whole);
  }
  return static_cast<uint64_t>(value) & mask_of(bits);
}

// .sat and .relu on a finished float code.
uint64_t finish(const Conversion& c, uint64_t code) {
  const Format f = format_of(c.to);
  const bool nan = is_nan(f, code);
  if (c.sat) {
    const double x = to_double(f, code);
    if (nan || !(x > 0)) return 0;
    return x > 1 ? from_double(f, 1.0) : code;
  }
  if (c.relu && !nan && sign_of(f, code)) return 0;
  return code;
}

uint64_t integer_to_float(const Conversion& c, uint64_t code) {
  const int128 value = integer_value(c.from, code);
  const auto saturation = c.satfinite ? Saturation::Finite : Saturation::None;
  return finish(c, from_exact(format_of(c.to), exact_integer(value), c.rounding, saturation));
}

// What a NaN becomes: canonical as a rule, but f64 keeps payloads, and moves move bits.
uint64_t convert_nan(const Conversion& c, uint64_t code) {
  if (c.sat) return 0;
  const auto low = static_cast<uint32_t>(code);
  if (c.from == c.to && !c.to_integral && !c.ftz && (c.to == Num::F32 || c.to == Num::F64)) return code;
  if (c.from == Num::BF16 && c.to == Num::F32 && !c.ftz) return code << 16;
  if (c.to == Num::TF32 && c.rounding == Rounding::NearestAway) {
    return c.satfinite ? f32_to_tf32_rna_satfinite(f32_of(low)) : f32_to_tf32_rna(f32_of(low));
  }
  if (c.from == Num::F64) {
    if (c.to == Num::F64) return bits_of(quiet_f64(f64_of(code)));
    const uint32_t narrow = narrow_nan_f64(code);
    if (c.to == Num::F32) return narrow;
    if (c.to == Num::BF16) return narrow >> 16;
    return (narrow >> 16 & 0x8000u) | 0x7e00u | (narrow >> 13 & 0x1ffu);  // f16
  }
  if (c.to == Num::F64) {
    if (c.from == Num::F32) return widen_nan_f32(c.ftz ? kNanF32 : low);
    if (c.from == Num::BF16) return widen_nan_f32(low << 16);
    return widen_nan_f32((low & 0x8000u) << 16 | (low & 0x1ffu) << 13);
  }
  return info(format_of(c.to)).canonical_nan;
}

// The result with .ftz, for targets that have it: tiny is decided after rounding to 24 bits.
bool flushes(const Conversion& c, double x) {
  if (!c.ftz || c.to != Num::F32 || x == 0) return false;
  const uint64_t scaled = from_double(Format::F32, x * kScale, c.rounding);
  return std::fabs(f32_of(static_cast<uint32_t>(scaled))) < 0x1p-78f;
}

uint64_t float_to_float(const Conversion& c, uint64_t code) {
  // To f16 the input is not flushed, whatever the instruction says.
  if (c.to != Num::F16) code = flush_if(c.ftz, c.from, code);
  const Format to = format_of(c.to);
  if (is_nan(format_of(c.from), code)) return convert_nan(c, code);
  double x = to_double(format_of(c.from), code);
  if (c.to_integral) x = integral(c.rounding, x);
  if (flushes(c, x)) x = std::copysign(0.0, x);
  const auto saturation = c.satfinite ? Saturation::Finite : Saturation::None;
  return finish(c, from_double(to, x, c.rounding, saturation));
}

uint64_t integer_to_integer(const Conversion& c, uint64_t code) {
  int128 value = integer_value(c.from, code);
  if (c.sat) value = std::clamp(value, lowest(c.to), highest(c.to));
  return static_cast<uint64_t>(value) & mask_of(width_of_integer(c.to));
}

template <class Int>
uint64_t from_int(Format f, Rounding rounding, Int x) {
  return from_exact(f, exact_integer(static_cast<int128>(x)), rounding);
}

int code_bits(Num n) {
  return is_integer(n) ? width_of_integer(n) : info(format_of(n)).bits;
}

}  // namespace

Format format_of(Num n) {
  constexpr Format kFormats[] = {Format::F16,  Format::BF16, Format::F32, Format::F64,
                                 Format::TF32, Format::E4M3, Format::E5M2};
  return kFormats[static_cast<int>(n) - static_cast<int>(Num::F16)];
}

uint64_t convert(const Conversion& c, uint64_t code) {
  if (is_integer(c.from)) return is_integer(c.to) ? integer_to_integer(c, code) : integer_to_float(c, code);
  return is_integer(c.to) ? float_to_integer(c, code) : float_to_float(c, code);
}

float u64_to_f32_directed(Rounding rounding, uint64_t x) {
  return f32_of(static_cast<uint32_t>(from_int(Format::F32, rounding, x)));
}
float s64_to_f32_directed(Rounding rounding, int64_t x) {
  return f32_of(static_cast<uint32_t>(from_int(Format::F32, rounding, x)));
}
double u64_to_f64_directed(Rounding rounding, uint64_t x) {
  return f64_of(from_int(Format::F64, rounding, x));
}
double s64_to_f64_directed(Rounding rounding, int64_t x) {
  return f64_of(from_int(Format::F64, rounding, x));
}

uint32_t pack_pair(const Conversion& one, float a, float b) {
  const int bits = code_bits(one.to);
  const auto high = static_cast<uint32_t>(convert(one, bits_of(a)));
  const auto low = static_cast<uint32_t>(convert(one, bits_of(b)));
  return high << bits | low;
}

uint32_t convert_pair(const Conversion& one, uint32_t pair) {
  const int from = code_bits(one.from);
  const int to = code_bits(one.to);  // of half a pair: at most 16
  const uint32_t mask = (1u << from) - 1;
  const auto high = static_cast<uint32_t>(convert(one, (pair >> from) & mask));
  const auto low = static_cast<uint32_t>(convert(one, pair & mask));
  return high << to | low;  // NOLINT(clang-analyzer-core.UndefinedBinaryOperatorResult)
}

}  // namespace assay::numerics
