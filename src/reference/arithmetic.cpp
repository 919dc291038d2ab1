#include "reference/arithmetic.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace assay::reference {
namespace {

constexpr uint64_t kMagnitude = ~uint64_t{0} >> 1;  // all but the sign

// A result that no kernel rounds: the format has it, and fast math does not flush it. Values are FP64 themselves, so of one
// in that format it is unknown whether it was rounded.
bool stays(const Precision& precision, double value) {
  return precision.dtype != DType::f64 && representable(precision.dtype, value) &&
         (precision.math != Math::Fast || value == 0 || std::abs(value) >= precision.min_normal);
}

bool all_stay(const Precision& precision, const double* v, int n) {
  for (int l = 0; l < n; ++l)
    if (!stays(precision, v[l]) && std::isfinite(v[l])) return false;
  return true;
}

// Zero, or neither subnormal in the precision nor beyond it.
bool all_in_range(const Precision& precision, const double* v, int n) {
  const auto low = std::bit_cast<int64_t>(precision.min_normal), high = std::bit_cast<int64_t>(precision.max);
  int64_t outside = 0;
  for (int l = 0; l < n; ++l) {
    const auto size = static_cast<int64_t>(std::bit_cast<uint64_t>(v[l]) & kMagnitude);
    outside |= static_cast<int64_t>(size > high) |
               (static_cast<int64_t>(size < low) & static_cast<int64_t>(size != 0));
  }
  return outside == 0;
}

bool all_finite(const double* v, int n) {
  // All exponent bits set carries into the sign: an integer loop, which is a vector loop.
  uint64_t all = 0;
  for (int l = 0; l < n; ++l) all |= (std::bit_cast<uint64_t>(v[l]) & kMagnitude) + (uint64_t{1} << 52);
  return all >> 63 == 0;
}

// The largest change of f when its argument moves by up to b.
double reach(const FunctionInfo& f, double x, double value, double b) {
  if (b <= 1e-3 * std::min(1.0, std::abs(x))) return std::abs(f.slope(x, value)) * b * 1.01;
  const double up = std::abs(f.value(x + b) - value), down = std::abs(f.value(x - b) - value);
  const double slope = std::abs(f.slope(x, value)) * b;  // sin and cos turn inside the interval
  const double most = std::max({up, down, std::min(slope, 2.0)});
  return std::isnan(up) || std::isnan(down) ? kInf : most;
}

}  // namespace

Precision precision_of(const ReferenceSpec& reference) {
  const numerics::Format format = info(reference.accumulate).format;
  Precision precision;
  precision.dtype = reference.accumulate;
  precision.math = reference.math;
  precision.u = numerics::unit_roundoff(format);
  precision.eta = numerics::min_subnormal(format) / 2;
  // Values are FP64 themselves: what the kernel rounds, the evaluation rounds as well. (And half of the smallest is zero.)
  if (reference.accumulate == DType::f64) {
    precision.u *= 2;
    precision.eta = numerics::min_subnormal(format);
  }
  precision.min_normal = numerics::min_normal(format);
  if (reference.math == Math::Fast) precision.eta = precision.min_normal;
  precision.added = precision.eta;
  // atom.add.f32 flushes what is subnormal in device memory, before and after; a sound kernel may sum by it.
  if (reference.accumulate == DType::f32) precision.added = 2 * precision.min_normal;
  precision.max = numerics::max_finite(format);
  precision.bits = numerics::info(format).precision();
  return precision;
}

// ---- shared steps ------------------------------------------------------------

void Arithmetic::need_budget(Lanes& x, int n) const {
  if (x.b) return;
  x.b = arena->get<double>(n);
  std::fill_n(x.b, n, 0.0);
  if (!x.v) return;
  x.s = arena->get<double>(n);
  std::fill_n(x.s, n, 0.0);
}

void Arithmetic::need_flags(Lanes& x, int n) const {
  if (x.f) return;
  x.f = arena->get<uint8_t>(n);
  std::fill_n(x.f, n, uint8_t{0});
}

void Arithmetic::flag_nonfinite(Lanes& x, int n) const {
  if (all_finite(x.v, n)) return;
  need_flags(x, n);
  for (int l = 0; l < n; ++l)
    if (!std::isfinite(x.v[l])) x.f[l] |= kNonfiniteInput;
}

Lanes Arithmetic::merged(const Lanes& x, const Lanes* y, int n) const {
  Lanes r;
  r.v = arena->get<double>(n);
  if (x.f || (y && y->f)) {
    need_flags(r, n);
    for (int l = 0; l < n; ++l) r.f[l] = static_cast<uint8_t>((x.f ? x.f[l] : 0) | (y && y->f ? y->f[l] : 0));
  }
  if (budget && (x.b || (y && y->b))) need_budget(r, n);
  return r;
}

DType Arithmetic::simulated_dtype() const {
  const bool everywhere = simulated->intermediates && simulated->only_value < 0;
  return everywhere ? *simulated->intermediates : precision->dtype;
}

double Arithmetic::simulate_rounding(double value) const {
  const DType dtype = simulated_dtype();
  return rounded(dtype, value);
}

void Arithmetic::round_all(Lanes& r, int n) const {
  const DType dtype = simulated_dtype();
  if (dtype == DType::f64) return;
  if (dtype == DType::f32) {
    for (int l = 0; l < n; ++l) r.v[l] = static_cast<double>(static_cast<float>(r.v[l]));
    return;
  }
  for (int l = 0; l < n; ++l) r.v[l] = rounded(dtype, r.v[l]);
}

// The rounding of the operation itself: `relative` and `rms` in units of u.
void Arithmetic::own_rounding(Lanes& r, int n, double relative, double rms, bool unless_representable) const {
  if (simulated) return round_all(r, n);
  if (!budget) return;
  if (unless_representable && !r.b && all_stay(*precision, r.v, n)) {
    r.bits = precision->bits;
    return;
  }
  const bool fresh = !r.b;
  const double u = precision->u, eta = precision->eta, deviation = rms * u;
  if (fresh && unless_representable && precision->dtype == DType::f32 && precision->math == Math::Standard) {
    r.b = arena->get<double>(n);  // all of them are written
    r.s = arena->get<double>(n);
    const double* __restrict values = r.v;
    double* __restrict bounds = r.b;
    double* __restrict variances = r.s;
    const double share = relative * u, square = deviation * deviation, floor = eta * eta;
    const double most = precision->max;
    int64_t beyond = 0;
    for (int l = 0; l < n; ++l) {
      const double v = values[l], size = std::abs(v);
      const double rounds = static_cast<double>(static_cast<float>(v)) == v ? 0 : 1;
      const double bound = rounds * (share * size + eta);
      bounds[l] = bound;
      variances[l] = rounds * (square * v * v + floor);
      beyond |= static_cast<int64_t>(!(size + bound <= most));  // or NaN
    }
    if (beyond != 0) settle(r, n);
    return;
  }
  need_budget(r, n);
  for (int l = 0; l < n; ++l) {
    if (fresh && unless_representable && stays(*precision, r.v[l])) continue;
    // An exact zero of exact operands is never rounded.
    const double size = std::abs(r.v[l]) + r.b[l];
    r.b[l] += relative * u * size + (size > 0 ? eta : 0);
    r.s[l] += deviation * deviation * r.v[l] * r.v[l] + (size > 0 ? eta * eta : 0);
  }
  settle(r, n);
}

// Nonfinite values have no budget; a value beyond the precision may overflow.
void Arithmetic::settle(Lanes& r, int n) const {
  // Magnitudes order as their bits do, infinities and NaN above all numbers.
  int64_t largest = 0;
  for (int l = 0; l < n; ++l)
    largest = std::max(largest,
                       static_cast<int64_t>(std::bit_cast<uint64_t>(std::abs(r.v[l]) + r.b[l]) & kMagnitude));
  if (largest <= std::bit_cast<int64_t>(precision->max)) return;
  for (int l = 0; l < n; ++l) {
    if (!std::isfinite(r.v[l])) {
      r.b[l] = r.s[l] = 0;
      continue;
    }
    if (std::isnan(r.b[l])) r.b[l] = kInf;
    if (std::isnan(r.s[l])) r.s[l] = kInf;
    if (std::abs(r.v[l]) + r.b[l] > precision->max) {
      need_flags(r, n);
      r.f[l] |= kMayOverflow;
    }
  }
}

void Arithmetic::admit(Lanes& r, int l, double value) const {
  const double far = std::abs(value - r.v[l]);
  if (!(r.b[l] < far)) return;
  r.b[l] = far;
  r.s[l] = far * far;
}

// An operand that overflowed on the way is infinite in a kernel though its exact value is an ordinary number; what the operation makes of
// an infinity is then right as well.
void Arithmetic::admit_limits(Lanes& r, const Lanes& x, int n, std::initializer_list<double> limits) const {
  if (!budget || simulated || !x.f) return;
  for (int l = 0; l < n; ++l) {
    if ((x.f[l] & kMayOverflow) == 0 || !std::isfinite(x.v[l]) || !std::isfinite(r.v[l])) continue;
    need_budget(r, n);
    for (const double limit : limits)
      if (std::isfinite(limit)) admit(r, l, limit);
  }
}

void Arithmetic::flag_infinite_operand(Lanes& r, const Lanes& x, int n) const {
  if (!budget || simulated || !x.b) return;
  int64_t beyond = 0;
  for (int l = 0; l < n; ++l) beyond |= static_cast<int64_t>(std::abs(x.v[l]) + x.b[l] > precision->max);
  if (beyond == 0) return;
  for (int l = 0; l < n; ++l) {
    if (!std::isfinite(x.v[l]) || !(std::abs(x.v[l]) + x.b[l] > precision->max)) continue;
    need_flags(r, n);
    r.f[l] |= kMayOverflow;
  }
}

// An infinity of finite operands: FP64 itself has overflowed. As a result it is stored as what it is.
void Arithmetic::flag_beyond(Lanes& r, const Lanes& x, const Lanes& y, int n) const {
  if (simulated || all_finite(r.v, n)) return;
  need_flags(r, n);
  for (int l = 0; l < n; ++l)
    if (std::isinf(r.v[l]) && std::isfinite(x.v[l]) && std::isfinite(y.v[l])) r.f[l] |= kBeyond;
}

// What a function or a quotient makes of such an infinity is not known.
void Arithmetic::forget_beyond(Lanes& r, int n) const {
  if (!r.f) return;
  for (int l = 0; l < n; ++l)
    if ((r.f[l] & kBeyond) != 0) r.f[l] |= kUnspecified;
}

void Arithmetic::narrow(Lanes& x, int n) const {
  // Fast math takes a subnormal operand for zero.
  if (precision->math == Math::Fast && budget && !simulated && !all_in_range(*precision, x.v, n)) {
    need_budget(x, n);
    for (int l = 0; l < n; ++l)
      if (std::abs(x.v[l]) < precision->min_normal) x.b[l] = std::abs(x.v[l]), x.s[l] = x.v[l] * x.v[l];
  }
  if (x.bits <= precision->bits) return;
  own_rounding(x, n, 1, kRms, true);
}

// ---- arithmetic ------------------------------------------------------------------

Lanes Arithmetic::add(const Lanes& x, const Lanes& y, int n, double sign) const {
  Lanes r = merged(x, &y, n);
  for (int l = 0; l < n; ++l) r.v[l] = x.v[l] + sign * y.v[l];
  if (r.b) {
    if (x.b)
      for (int l = 0; l < n; ++l) r.b[l] += x.b[l], r.s[l] += x.s[l];
    if (y.b)
      for (int l = 0; l < n; ++l) r.b[l] += y.b[l], r.s[l] += y.s[l];
  }
  own_rounding(r, n, 1, kRms, !r.b);
  return r;
}

Lanes Arithmetic::multiply(const Lanes& x, const Lanes& y, int n) const {
  Lanes r = merged(x, &y, n);
  for (int l = 0; l < n; ++l) r.v[l] = x.v[l] * y.v[l];
  // Few enough bits, and no underflow or overflow: the product is exact.
  const bool fits = !x.b && !y.b && x.bits + y.bits <= precision->bits && !simulated;
  if (fits && (!budget || all_in_range(*precision, r.v, n))) {
    r.bits = x.bits + y.bits;
    return r;
  }
  if (r.b)
    for (int l = 0; l < n; ++l) {
      const double bx = x.b ? x.b[l] : 0, by = y.b ? y.b[l] : 0;
      const double sx = x.s ? x.s[l] : 0, sy = y.s ? y.s[l] : 0;
      r.b[l] = std::abs(x.v[l]) * by + std::abs(y.v[l]) * bx + bx * by;
      r.s[l] = x.v[l] * x.v[l] * sy + y.v[l] * y.v[l] * sx + sx * sy;
    }
  own_rounding(r, n, 1, kRms, !r.b);
  flag_beyond(r, x, y, n);
  flag_zero_times_infinity(r, x, y, n);
  flag_zero_times_infinity(r, y, x, n);
  return r;
}

// A factor that underflows in a kernel, exp(-200) say, makes NaN of an infinity.
void Arithmetic::flag_zero_times_infinity(Lanes& r, const Lanes& x, const Lanes& y, int n) const {
  if (!budget || simulated || !x.b || all_finite(r.v, n)) return;
  need_flags(r, n);
  for (int l = 0; l < n; ++l)
    if (std::isinf(r.v[l]) && std::isinf(y.v[l]) && std::abs(x.v[l]) <= x.b[l]) r.f[l] |= kMayOverflow;
}

// x / y, or x times the reciprocal of y: two roundings, and the reciprocal of a large y is subnormal. The quotient of
// two integers that comes out even is exact: `d < D / 2` is decided.
Lanes Arithmetic::divide(const Lanes& x, const Lanes& y, int n, bool of_integers) const {
  Lanes r = merged(x, &y, n);
  for (int l = 0; l < n; ++l) r.v[l] = x.v[l] / y.v[l];
  if (r.b)
    for (int l = 0; l < n; ++l) {
      const double bx = x.b ? x.b[l] : 0, by = y.b ? y.b[l] : 0;
      const double size = std::abs(y.v[l]), q = r.v[l];
      if (bx == 0 && by == 0) continue;
      const double square = y.v[l] * y.v[l];
      r.b[l] = by < size ? (bx + std::abs(q) * by) / (size - by) : kInf;
      r.s[l] = ((x.s ? x.s[l] : 0) + q * q * (y.s ? y.s[l] : 0)) / square;
      // A divisor that overflows makes the quotient 0: x / (1 + exp(-x)) far below 0.
      if (size + by > precision->max) admit(r, l, 0);
      if (std::isinf(size)) r.b[l] = r.s[l] = 0;
    }
  // So does one that overflows on the way: x / sqrt(sum(x^2)), where only the sum is beyond the precision.
  admit_limits(r, y, n, {0});
  const double relative = precision->math == Math::Fast ? 5 : 2;
  own_rounding(r, n, relative, kRms * relative * 0.75, of_integers && !r.b);
  if (r.b && budget && !simulated && !of_integers)
    for (int l = 0; l < n; ++l) {
      const double size = std::abs(y.v[l]);
      if (!(size * precision->min_normal > 1) || !std::isfinite(r.v[l])) continue;
      const double lost = std::min(std::abs(x.v[l]) * precision->eta, std::abs(r.v[l]));
      r.b[l] += lost;
      r.s[l] += lost * lost;
    }
  forget_beyond(r, n);
  return r;
}

Lanes Arithmetic::extreme(const Lanes& x, const Lanes& y, int n, bool largest) const {
  Lanes r = merged(x, &y, n);
  const bool hides = simulated && simulated->hides_nan;
  for (int l = 0; l < n; ++l) {
    const double a = x.v[l], c = y.v[l];
    double v = (largest ? a > c : a < c) ? a : c;
    if (std::isnan(a)) v = hides ? c : a;
    r.v[l] = v;
  }
  if (hides)
    for (int l = 0; l < n; ++l)
      if (std::isnan(r.v[l])) r.v[l] = x.v[l];
  r.bits = std::max(x.bits, y.bits);
  if (!r.b) return r;
  const double sign = largest ? 1 : -1;
  for (int l = 0; l < n; ++l) {
    if (!std::isfinite(r.v[l])) continue;
    const double bx = x.b ? x.b[l] : 0, by = y.b ? y.b[l] : 0;
    const double sx = x.s ? x.s[l] : 0, sy = y.s ? y.s[l] : 0;
    const double a = sign * x.v[l], c = sign * y.v[l], v = sign * r.v[l];
    r.b[l] = std::max(std::max(a + bx, c + by) - v, v - std::max(a - bx, c - by));
    const bool close = std::abs(a - c) <= bx + by;
    r.s[l] = close ? std::max(sx, sy) : a > c ? sx : sy;
    // One that overflowed on the way may leave the other.
    if (x.f && (x.f[l] & kMayOverflow) != 0 && std::isfinite(y.v[l])) admit(r, l, y.v[l]);
    if (y.f && (y.f[l] & kMayOverflow) != 0 && std::isfinite(x.v[l])) admit(r, l, x.v[l]);
  }
  return r;
}

Lanes Arithmetic::power(const Lanes& x, int64_t exponent, int n) const {
  if (exponent == 1) return x;
  if (exponent == 2) {
    // x * x with one error in both factors.
    Lanes twice = multiply(x, x, n);
    if (twice.s && x.s)
      for (int l = 0; l < n; ++l) twice.s[l] += 2 * x.v[l] * x.v[l] * x.s[l];
    return twice;
  }
  Lanes r = merged(x, nullptr, n);
  const double p = static_cast<double>(exponent);
  for (int l = 0; l < n; ++l) r.v[l] = std::pow(x.v[l], p);
  if (r.b)
    for (int l = 0; l < n; ++l) {
      const double up = std::abs(std::pow(x.v[l] + x.b[l], p) - r.v[l]);
      const double down = std::abs(std::pow(x.v[l] - x.b[l], p) - r.v[l]);
      const double slope = p * std::pow(x.v[l], p - 1);
      const bool pole = exponent < 0 && x.b[l] >= std::abs(x.v[l]);
      r.b[l] = pole ? kInf : std::max({up, down, std::abs(slope) * x.b[l]});
      r.s[l] = slope * slope * x.s[l];
    }
  const double steps = std::abs(p) + (exponent < 0 ? 2 : 0);
  own_rounding(r, n, steps, kRms * std::sqrt(steps), !r.b && exponent >= 0);
  // One over a power that underflows loses what that does; over one that overflows, everything.
  if (r.b && budget && !simulated && exponent < 0)
    for (int l = 0; l < n; ++l) {
      const double power = std::abs(1 / r.v[l]), size = std::abs(r.v[l]);
      if (!std::isfinite(power) || power == 0) continue;
      const double lost = power > precision->max          ? size
                          : power < precision->min_normal ? size * precision->eta / power
                                                          : 0;
      r.b[l] += lost;
      r.s[l] += lost * lost;
    }
  if (exponent < 0) admit_limits(r, x, n, {0});
  exponent > 0 ? flag_beyond(r, x, x, n) : forget_beyond(r, n);
  return r;
}

Lanes Arithmetic::power(const Lanes& x, const Lanes& y, int n) const {
  Lanes r = merged(x, &y, n);
  for (int l = 0; l < n; ++l) r.v[l] = std::pow(x.v[l], y.v[l]);
  if (r.b)
    for (int l = 0; l < n; ++l) {
      const double bx = x.b ? x.b[l] : 0, by = y.b ? y.b[l] : 0;
      double most = 0;
      for (const double dx : {-bx, bx})
        for (const double dy : {-by, by}) {
          const double moved = std::abs(std::pow(x.v[l] + dx, y.v[l] + dy) - r.v[l]);
          most = std::isnan(moved) ? kInf : std::max(most, moved);
        }
      const double in_x = r.v[l] * y.v[l] / x.v[l], in_y = r.v[l] * std::log(std::abs(x.v[l]));
      r.b[l] = most;
      r.s[l] = (bx > 0 ? in_x * in_x * x.s[l] : 0) + (by > 0 ? in_y * in_y * y.s[l] : 0);
    }
  // powf documents 4 ulp; __powf is exp2(y * __log2f(x)), amplified by the exponent.
  double relative = 8;
  if (precision->math == Math::Fast)
    for (int l = 0; l < n; ++l) {
      const double size = std::abs(y.v[l]) * (std::abs(std::log2(std::abs(x.v[l]))) * 5 + 4);
      if (std::isfinite(size)) relative = std::max(relative, 8 + 0.7 * size);
    }
  own_rounding(r, n, relative, 0.35 * relative);
  return r;
}

// ---- functions -------------------------------------------------------------------

namespace {

// sqrt(0), log(1), exp(-inf): any implementation gives zero. exp(-1000) is zero in FP64 alone.
bool is_exact_zero(double x, double value) {
  return value == 0 && (x == 0 || x == 1 || std::isinf(x));
}

}  // namespace

Lanes Arithmetic::function(Op op, const Lanes& x, int n) const {
  const FunctionInfo& f = function_info(op);
  Lanes r = merged(x, nullptr, n);
  for (int l = 0; l < n; ++l) r.v[l] = f.value(x.v[l]);
  forget_beyond(r, n);
  if (simulated) {
    if (simulated->approximate_math)
      for (int l = 0; l < n; ++l) {
        Precision fast = *precision;
        fast.math = Math::Fast;
        double relative = 0, absolute = 0;
        f.error(x.v[l], r.v[l], fast, relative, absolute);
        if (std::isfinite(r.v[l])) r.v[l] *= 1 + 0.5 * relative * fast.u;
      }
    round_all(r, n);
    return r;
  }
  if (!budget) return r;
  need_budget(r, n);
  const double u = precision->u;
  for (int l = 0; l < n; ++l) {
    const double v = r.v[l];
    if (!std::isfinite(v)) continue;
    double relative = 0, absolute = 0;
    f.error(x.v[l], v, *precision, relative, absolute);
    const double own = u * (relative * std::abs(v) + absolute);
    const double bx = x.b ? x.b[l] : 0;
    if (is_exact_zero(x.v[l], v) && bx == 0 && own == 0) continue;
    const double slope = bx > 0 ? f.slope(x.v[l], v) : 0;
    r.b[l] = own + precision->eta + (bx > 0 ? reach(f, x.v[l], v, bx) : 0);
    r.s[l] =
        (x.s && bx > 0 ? slope * slope * x.s[l] : 0) + own * own * 0.125 + precision->eta * precision->eta;
    if (std::isnan(r.b[l])) r.b[l] = kInf;
    if (std::isnan(r.s[l])) r.s[l] = kInf;
  }
  admit_limits(r, x, n, {f.value(kInf), f.value(-kInf)});  // rsqrt(inf) is 0
  return r;
}

void Arithmetic::widen_exponential(Lanes& r, const double* size, const double* squares, int n) const {
  if (!budget || simulated || !r.b) return;
  const double u = precision->u;
  for (int l = 0; l < n; ++l) {
    if (!std::isfinite(size[l]) || !std::isfinite(r.v[l])) continue;
    r.b[l] += std::abs(r.v[l]) * std::expm1(std::min(u * size[l], 100.0));
    r.s[l] += r.v[l] * r.v[l] * kRms * kRms * u * u * squares[l];
  }
}

void Arithmetic::widen_order(Lanes& r, const double* size, int n) const {
  need_budget(r, n);
  for (int l = 0; l < n; ++l) {
    if (!std::isfinite(r.v[l]) || !std::isfinite(size[l])) continue;
    const double own = precision->u * size[l];
    r.b[l] += own;
    r.s[l] += kRms * kRms * own * own;
    if (size[l] + r.b[l] <= precision->max) continue;
    need_flags(r, n);
    r.f[l] |= kMayOverflow;  // on the way
  }
}

void Arithmetic::widen_logarithm(Lanes& r, const double* size, int n, LogOf what) const {
  if (!budget || simulated || !r.b) return;
  // logf documents 1 ulp, __logf 3; the addition's own rounding is counted already.
  const double relative = precision->math == Math::Fast ? 5 : 1;
  for (int l = 0; l < n; ++l) {
    if (!std::isfinite(r.v[l]) || !std::isfinite(size[l])) continue;
    const double more = what == LogOf::Shared     ? 0
                        : what == LogOf::Quotient ? size[l]
                                                  : 4 + 2 * size[l];  // exp_error
    const double own = precision->u * (relative * std::abs(r.v[l]) + more);
    r.b[l] += own;
    r.s[l] += own * own * 0.125;
  }
}

// What exps are shifted by. Infinite, it is no shift: then the exps are what they are. A kernel that
// subtracts it all the same gets NaN, as most do; what one element at infinity gives is undefined.
Lanes Arithmetic::shift(const Lanes& x, int n, bool of_one_element) const {
  Lanes r = x;
  r.v = arena->get<double>(n);
  const bool left_out = simulated && simulated->no_max_subtraction;
  bool infinite = false;
  for (int l = 0; l < n; ++l) {
    infinite |= std::isinf(x.v[l]);
    r.v[l] = left_out || std::isinf(x.v[l]) ? 0 : x.v[l];
  }
  if (!infinite) return r;
  r.f = nullptr;
  need_flags(r, n);
  for (int l = 0; l < n; ++l) {
    r.f[l] = x.f ? x.f[l] : 0;
    if (std::isinf(x.v[l]))
      r.f[l] |= of_one_element && x.v[l] > 0 ? uint8_t{kUnspecified} : uint8_t{kMayOverflow};
  }
  return r;
}

// log(exp(a) + exp(b)) is infinite where a is, whatever it is shifted by: a kernel that subtracts the maximum may give NaN, but
// no number.
void Arithmetic::settle_infinities(Lanes& r, int n) const {
  const auto is_settled = [&](int l) {
    return std::isinf(r.v[l]) && (r.f[l] & kUnspecified) != 0 && (r.f[l] & kBeyond) == 0;
  };
  bool any = false;
  for (int l = 0; r.f && l < n; ++l) any |= is_settled(l);
  if (!any) return;
  const uint8_t* flags = r.f;
  r.f = nullptr;
  need_flags(r, n);
  for (int l = 0; l < n; ++l) {
    r.f[l] = flags[l];
    if (is_settled(l)) r.f[l] = static_cast<uint8_t>((r.f[l] & ~kUnspecified) | kMayOverflow);
  }
}

void Arithmetic::widen_quotient(Lanes& r, int n) const {
  if (!budget || simulated || !r.b) return;
  for (int l = 0; l < n; ++l) {
    if (!std::isfinite(r.v[l]) || r.v[l] == 0) continue;
    const double size = precision->u * std::abs(r.v[l] * std::log(std::abs(r.v[l])));
    r.b[l] += size;
    r.s[l] += kRms * kRms * size * size;
  }
}

Lanes Arithmetic::unary(const Node& node, const Lanes& x, int n) const {
  switch (node.op) {
    case Op::ToFloat:
      return to_float(x, n);
    case Op::CastFloat:
      return cast(node.dtype, x, n, node.rescaled);
    case Op::CastInt:
      return to_integer(node.dtype, x, n, false);
    case Op::StoreInt:
      return to_integer(node.dtype, x, n, true);
    case Op::Shift:
      return shift(x, n, node.integer != 0);
    case Op::Floor:
    case Op::Ceil:
    case Op::Round:
      return rounding(node.op, x, n);
    case Op::ToBool:
    case Op::Not:
    case Op::IsNan: {
      Lanes r;
      r.i = arena->get<int64_t>(n);
      for (int l = 0; l < n; ++l)
        r.i[l] = node.op == Op::IsNan ? std::isnan(x.v[l]) : (x.i[l] != 0) == (node.op == Op::ToBool);
      if (node.op != Op::IsNan && x.b) {
        need_budget(r, n);
        for (int l = 0; l < n; ++l) r.b[l] = x.b[l] > 0;
      }
      r.f = x.f;
      return r;
    }
    case Op::Pow: {
      if (x.v) return power(x, node.integer, n);
      Lanes r = integer(1, n);
      Node multiply_node;
      multiply_node.op = Op::Mul;
      for (int64_t step = 0; step < node.integer; ++step) r = integer_binary(multiply_node, r, x, n);
      return r;
    }
    case Op::Neg:
    case Op::Abs:
    case Op::Sign: {
      Lanes r = x;
      const auto f = [&node](auto v) {
        if (node.op == Op::Neg) return -v;
        if (node.op == Op::Abs) return v < 0 ? -v : v;
        return v > 0 ? decltype(v)(1) : v < 0 ? decltype(v)(-1) : v;
      };
      if (x.i) {
        r.i = arena->get<int64_t>(n);
        for (int l = 0; l < n; ++l)
          r.i[l] = x.i[l] == std::numeric_limits<int64_t>::min() ? x.i[l] : f(x.i[l]);
        return r;
      }
      r.v = arena->get<double>(n);
      for (int l = 0; l < n; ++l) r.v[l] = node.op == Op::Abs ? std::abs(x.v[l]) : f(x.v[l]);
      if (node.op != Op::Sign || !x.b) return r;
      r.b = r.s = nullptr;
      need_budget(r, n);
      for (int l = 0; l < n; ++l)
        if (std::abs(x.v[l]) <= x.b[l] && x.b[l] > 0) r.b[l] = 2, r.s[l] = 1;
      return r;
    }
    default:
      return function(node.op, x, n);
  }
}

Lanes Arithmetic::binary(const Node& node, const Lanes& x, const Lanes& y, int n) const {
  switch (node.op) {
    case Op::Less:
    case Op::LessEqual:
    case Op::Equal:
    case Op::NotEqual:
      return compare(node.op, x, y, n);
    default:
      break;
  }
  if (x.i) return integer_binary(node, x, y, n);
  switch (node.op) {
    case Op::Add:
      return add(x, y, n, 1);
    case Op::Sub:
      return add(x, y, n, -1);
    case Op::Mul:
      return multiply(x, y, n);
    case Op::Div:
      return divide(x, y, n, node.integer != 0);
    case Op::Min:
    case Op::Max:
      return extreme(x, y, n, node.op == Op::Max);
    default:
      return power(x, y, n);
  }
}

}  // namespace assay::reference
