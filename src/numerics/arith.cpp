// f64 in the directed modes: exact integers, then the one rounding of formats.h.
#include "numerics/arith.h"

#include <algorithm>

namespace assay::numerics {
namespace {

int bit_length(uint128 x) {
  const auto high = static_cast<uint64_t>(x >> 64);
  const auto low = static_cast<uint64_t>(x);
  return high != 0 ? 128 - std::countl_zero(high) : 64 - std::countl_zero(low);
}

double rounded(Rounding rounding, const Exact& x) {
  return f64_of(from_exact(Format::F64, x, rounding));
}

double zero(bool negative) {
  return negative ? -0.0 : 0.0;
}

// The highest bit to place 125, which leaves room for a carry.
void normalise(Exact& x) {
  const int shift = 126 - bit_length(x.significand);
  x.significand <<= shift;
  x.exponent -= shift;
}

Exact sum(Exact a, Exact b) {
  if (a.significand == 0) return b;
  if (b.significand == 0) return a;
  normalise(a);
  normalise(b);
  if (a.exponent < b.exponent || (a.exponent == b.exponent && a.significand < b.significand)) std::swap(a, b);
  const int shift = a.exponent - b.exponent;
  // Operands have at most 106 bits, so what is shifted out here is far below
  // any cancellation and only its presence matters.
  uint128 small = 0;
  bool lost = true;
  if (shift < 128) {
    small = b.significand >> shift;
    lost = (small << shift) != b.significand;
  }
  if (a.negative == b.negative) {
    a.significand += small;
  } else {
    a.significand -= small + (lost ? 1 : 0);
  }
  a.sticky = lost;
  return a;
}

Exact product(double a, double b) {
  const Exact x = to_exact(a);
  const Exact y = to_exact(b);
  Exact r;
  r.negative = x.negative != y.negative;
  r.exponent = x.exponent + y.exponent;
  r.significand = x.significand * y.significand;
  return r;
}

// x + y, where x comes with the sign of its zero; an exact zero takes its sign from the mode.
double rounded_sum(Rounding rounding, const Exact& x, const Exact& y) {
  if (x.significand == 0 && y.significand == 0) {
    return zero(rounding == Rounding::Down ? x.negative || y.negative : x.negative && y.negative);
  }
  const Exact r = sum(x, y);
  if (r.significand == 0 && !r.sticky) return zero(rounding == Rounding::Down);
  return rounded(rounding, r);
}

// Shifts the significand of a finite double until it has 53 bits.
void normalise_53(Exact& x) {
  const int shift = 53 - bit_length(x.significand);
  x.significand <<= shift;
  x.exponent -= shift;
}

}  // namespace

double add_f64_directed(Rounding rounding, double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b)) return a + b;
  return rounded_sum(rounding, to_exact(a), to_exact(b));
}

double mul_f64_directed(Rounding rounding, double a, double b) {
  const double nearest = a * b;
  if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) return nearest;
  return rounded(rounding, product(a, b));
}

double fma_f64_directed(Rounding rounding, double a, double b, double c) {
  if (!std::isfinite(a) || !std::isfinite(b) || !std::isfinite(c)) return std::fma(a, b, c);
  return rounded_sum(rounding, product(a, b), to_exact(c));
}

double div_f64_directed(Rounding rounding, double a, double b) {
  if (!std::isfinite(a) || !std::isfinite(b) || a == 0 || b == 0) return a / b;
  Exact x = to_exact(a);
  Exact y = to_exact(b);
  normalise_53(x);
  normalise_53(y);
  const uint128 numerator = x.significand << 64;
  Exact q;
  q.negative = x.negative != y.negative;
  q.exponent = x.exponent - 64 - y.exponent;
  q.significand = numerator / y.significand;
  q.sticky = numerator % y.significand != 0;
  return rounded(rounding, q);
}

double sqrt_f64_directed(Rounding rounding, double a) {
  if (!(a > 0) || !std::isfinite(a)) return __builtin_sqrt(a);
  Exact x = to_exact(a);
  normalise_53(x);
  // An even exponent and 125 or 126 bits give a root of 63 bits.
  const int shift = (x.exponent & 1) == 0 ? 72 : 73;
  uint128 rest = x.significand << shift;
  const int exponent = x.exponent - shift;
  uint128 root = 0;
  for (uint128 bit = uint128{1} << 124; bit != 0; bit >>= 2) {
    if (rest >= root + bit) {
      rest -= root + bit;
      root = (root >> 1) + bit;
    } else {
      root >>= 1;
    }
  }
  Exact r;
  r.exponent = exponent / 2;
  r.significand = root;
  r.sticky = rest != 0;
  return rounded(rounding, r);
}

}  // namespace assay::numerics
