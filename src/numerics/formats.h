// Number formats as values, and exact conversions between them and double.
//
// A Format names one of the number formats that a GPU kernel may store. Its
// numbers are held as bit patterns ("codes") in the low bits of a uint64_t.
// Every finite code of every format here is exactly a double, so `to_double`
// never rounds and `from_double` rounds once. Both accept any argument.
//
// For bulk work (32 lanes at a time, in a vector loop) use the inline helpers of
// lanes.h, which this header includes; the tests compare the two over whole
// code spaces.
#pragma once

#include <cstdint>
#include <string_view>

#include "numerics/lanes.h"

namespace assay::numerics {

__extension__ typedef unsigned __int128 uint128;
__extension__ typedef __int128 int128;

enum class Format : uint8_t { F64, F32, TF32, F16, BF16, E4M3, E5M2, E2M3, E3M2, E2M1, UE8M0 };
inline constexpr int kFormatCount = 11;

// Which codes of a format are not numbers.
enum class NanCodes : uint8_t {
  None,     // every code is a number (the 6- and 4-bit formats)
  Ieee,     // exponent all ones, fraction not zero
  AllOnes,  // exponent and fraction all ones (E4M3, and UE8M0's 0xff)
};

struct FormatInfo {
  std::string_view name;  // "bf16", as a contract spells it
  int bits;               // width of the stored code; TF32 is stored in 32
  int exponent_bits;
  int fraction_bits;  // explicit ones: precision is one more
  int unused_bits;    // low bits of the code that carry nothing (TF32: 13)
  int bias;
  bool is_signed;
  bool has_infinity;
  NanCodes nan_codes;
  uint64_t canonical_nan;  // what the hardware writes for "not a number"; 0 where there is none

  constexpr int precision() const { return fraction_bits + 1; }
  constexpr int min_exponent() const { return 1 - bias; }  // of the smallest normal number
};

const FormatInfo& info(Format format);

// Quantities of a format, as doubles.
double max_finite(Format format);
double min_normal(Format format);
double min_subnormal(Format format);  // the spacing near zero
double unit_roundoff(Format format);  // 2^-precision
double ulp(Format format, double x);  // spacing of the format just above |x|; NaN and inf: NaN

enum class Class : uint8_t { Zero, Subnormal, Normal, Infinity, NaN };
Class classify(Format format, uint64_t code);
bool is_nan(Format format, uint64_t code);
bool sign_of(Format format, uint64_t code);

// The neighbours of a code in value order: -max → -inf, max → inf where the
// format has infinities, else they stay. Both zeros count as one. NaN stays.
uint64_t next_up(Format format, uint64_t code);
uint64_t next_down(Format format, uint64_t code);

enum class Rounding : uint8_t { NearestEven, TowardZero, Down, Up, NearestAway, Odd };

// What happens to a value beyond the largest finite one.
enum class Saturation : uint8_t {
  None,    // infinity as the rounding mode says; NaN (or the maximum) where the format has no infinity
  Finite,  // the largest finite value, for infinities too (PTX .satfinite)
};

// A nonzero number (-1)^negative * significand * 2^exponent, plus something
// strictly between 0 and one unit of the significand if `sticky`.
struct Exact {
  bool negative = false;
  int exponent = 0;
  uint128 significand = 0;
  bool sticky = false;
};

double to_double(Format format, uint64_t code);
uint64_t from_double(Format format, double x, Rounding rounding = Rounding::NearestEven,
                     Saturation saturation = Saturation::None);

// The core of every rounding: correct for subnormals, overflow and all modes.
uint64_t from_exact(Format format, const Exact& x, Rounding rounding = Rounding::NearestEven,
                    Saturation saturation = Saturation::None);
// The finite number that a double is; x must be finite.
Exact to_exact(double x);

// The format by its contract name ("bf16", "e4m3", ...); false if unknown.
bool format_named(std::string_view name, Format& format);

}  // namespace assay::numerics
