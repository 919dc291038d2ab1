// Constants, and conversions between the types of a batch.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/arithmetic.h"

namespace assay::reference {
Lanes Arithmetic::real(double value, int n) const {
  Lanes r;
  r.v = arena->get<double>(n);
  std::fill_n(r.v, n, value);
  r.bits = 0;
  // A constant that the precision does not hold is rounded by any kernel.
  if (std::isfinite(value) && !representable(precision->dtype, value))
    own_rounding(r, n, 1, kRms);
  else
    r.bits = std::isfinite(value) && representable(DType::bf16, value) ? 8 : precision->bits;
  return r;
}

Lanes Arithmetic::integer(int64_t value, int n) const {
  Lanes r;
  r.i = arena->get<int64_t>(n);
  std::fill_n(r.i, n, value);
  return r;
}

Lanes Arithmetic::to_float(const Lanes& x, int n) const {
  Lanes r;
  r.v = arena->get<double>(n);
  r.f = x.f;
  uint64_t all = 0;
  for (int l = 0; l < n; ++l) {
    r.v[l] = static_cast<double>(x.i[l]);
    const auto code = static_cast<uint64_t>(x.i[l]);
    all |= x.i[l] < 0 ? 0 - code : code;
  }
  r.bits = 64 - __builtin_clzll(all | 1);
  if (x.b && budget) {
    need_budget(r, n);
    std::copy_n(x.b, n, r.b);
    for (int l = 0; l < n; ++l) r.s[l] = x.b[l] * x.b[l];
  }
  narrow(r, n);
  if (simulated) round_all(r, n);
  return r;
}

Lanes Arithmetic::cast(DType dtype, const Lanes& x, int n, bool rescaled) const {
  const DTypeInfo& to = info(dtype);
  const numerics::FormatInfo& format = numerics::info(to.format);
  const numerics::FormatInfo& own = numerics::info(info(precision->dtype).format);
  const bool wide = format.precision() >= own.precision() && format.exponent_bits >= own.exponent_bits;
  if (wide || (!x.b && x.bits <= format.precision() && format.exponent_bits >= 8 && budget)) return x;
  Lanes r = merged(x, nullptr, n);
  if (simulated) {
    for (int l = 0; l < n; ++l) r.v[l] = rounded(dtype, x.v[l]);
    return r;
  }
  const double limit = to.saturates ? numerics::max_finite(to.format) : kInf;
  for (int l = 0; l < n; ++l) r.v[l] = std::isnan(x.v[l]) ? x.v[l] : std::clamp(x.v[l], -limit, limit);
  if (!budget) return r;
  need_budget(r, n);
  for (int l = 0; l < n; ++l) {
    const double v = r.v[l];
    const double b = x.b ? x.b[l] : 0;
    if (!std::isfinite(v)) continue;
    // The implementation may round here or not: the hull of both.
    const double low = rounded(dtype, v - b), high = rounded(dtype, v + b);
    r.b[l] = std::max({b, high - v, v - low});
    r.s[l] = x.s ? x.s[l] : 0;
    // The rounding is known, so its square is known too.
    double moved = std::max(std::abs(high - v), std::abs(v - low));
    if (rescaled) {
      const double unit = numerics::unit_roundoff(to.format);
      r.b[l] = std::max(r.b[l], b + unit * (std::abs(v) + b));
      if (std::isfinite(moved)) moved = std::max(moved, kRms * unit * std::abs(v));
    }
    if (std::isfinite(moved)) r.s[l] += moved * moved;
    if (std::isinf(r.b[l]) && std::isfinite(b)) {
      r.b[l] = b + numerics::unit_roundoff(to.format) * std::abs(v);
      need_flags(r, n);
      r.f[l] |= kMayOverflow;
    }
  }
  return r;
}

Lanes Arithmetic::to_integer(DType dtype, const Lanes& x, int n, bool nearest) const {
  const DTypeInfo& to = info(dtype);
  Lanes r;
  r.i = arena->get<int64_t>(n);
  r.f = x.f;
  if (x.i) {  // from an integer: as many low bits as the dtype has
    for (int l = 0; l < n; ++l) {
      std::byte cell[8];
      store_int(dtype, cell, x.i[l]);
      r.i[l] = load_int(dtype, cell);
    }
    r.b = x.b;
    return r;
  }
  const auto convert = [&](double value) -> int64_t {
    if (std::isnan(value)) return 0;
    const double whole = nearest ? std::nearbyint(value) : std::trunc(value);
    if (whole <= static_cast<double>(to.min_integer)) return to.min_integer;
    if (whole >= static_cast<double>(to.max_integer)) return to.max_integer;
    return static_cast<int64_t>(whole);
  };
  for (int l = 0; l < n; ++l) r.i[l] = convert(x.v[l]);
  if (!x.b || !budget) return r;
  for (int l = 0; l < n; ++l) {
    const int64_t low = convert(x.v[l] - x.b[l]), high = convert(x.v[l] + x.b[l]);
    if (low == high) continue;
    need_budget(r, n);
    if (r.f == x.f) r.f = nullptr;
    if (!r.f) {
      need_flags(r, n);
      if (x.f) std::copy_n(x.f, n, r.f);
    }
    r.b[l] = static_cast<double>(std::max(high - r.i[l], r.i[l] - low));
    r.f[l] |= kUndecided;
  }
  return r;
}

}  // namespace assay::reference
