// Operations on batches whose results jump: comparisons, integers, floor and its like.
#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/arithmetic.h"

namespace assay::reference {
// ---- conditions ------------------------------------------------------------------

Lanes Arithmetic::compare(Op op, const Lanes& x, const Lanes& y, int n) const {
  Lanes r;
  r.i = arena->get<int64_t>(n);
  if (x.f || y.f) {
    need_flags(r, n);
    for (int l = 0; l < n; ++l) r.f[l] = static_cast<uint8_t>((x.f ? x.f[l] : 0) | (y.f ? y.f[l] : 0));
  }
  const auto outcome = [op](auto a, auto b) -> bool {
    return op == Op::Less ? a < b : op == Op::LessEqual ? a <= b : op == Op::Equal ? a == b : a != b;
  };
  for (int l = 0; l < n; ++l) r.i[l] = x.i ? outcome(x.i[l], y.i[l]) : outcome(x.v[l], y.v[l]);
  if (!budget || (!x.b && !y.b)) return r;
  for (int l = 0; l < n; ++l) {
    const double gap =
        x.i ? std::abs(static_cast<double>(x.i[l]) - static_cast<double>(y.i[l])) : std::abs(x.v[l] - y.v[l]);
    const double room = (x.b ? x.b[l] : 0) + (y.b ? y.b[l] : 0);
    if (!(gap <= room) || room == 0) continue;
    need_budget(r, n);
    need_flags(r, n);
    r.b[l] = 1;
    r.f[l] |= kUndecided;
  }
  return r;
}

// ---- integers --------------------------------------------------------------------

Lanes Arithmetic::integer_binary(const Node& node, const Lanes& x, const Lanes& y, int n) const {
  Lanes r;
  r.i = arena->get<int64_t>(n);
  bool overflow = false, zero = false, beyond = false;
  for (int l = 0; l < n; ++l) {
    const int64_t a = x.i[l], b = y.i[l];
    int64_t value = 0;
    switch (node.op) {
      case Op::Add:
        overflow |= __builtin_add_overflow(a, b, &value);
        break;
      case Op::Sub:
        overflow |= __builtin_sub_overflow(a, b, &value);
        break;
      case Op::Mul:
        overflow |= __builtin_mul_overflow(a, b, &value);
        break;
      case Op::Min:
        value = std::min(a, b);
        break;
      case Op::Max:
        value = std::max(a, b);
        break;
      case Op::BitAnd:
        value = a & b;
        break;
      case Op::BitOr:
        value = a | b;
        break;
      case Op::BitXor:
        value = a ^ b;
        break;
      case Op::ShiftLeft:
        beyond |= b < 0 || b > 63;
        overflow |= b >= 0 && b <= 63 && (a << b) >> b != a;
        value = b >= 0 && b <= 63 ? a << b : 0;
        break;
      case Op::ShiftRight:
        beyond |= b < 0 || b > 63;
        value = b >= 0 && b <= 63 ? a >> b : 0;
        break;
      default:
        if (b == 0) {
          zero = true;
        } else if (b == -1) {
          if (node.op != Op::Mod) overflow |= __builtin_sub_overflow(int64_t{0}, a, &value);
        } else {
          const int64_t quotient = floor_div(a, b);
          value = node.op == Op::Mod ? a - b * quotient : quotient + (node.op == Op::CeilDiv && a % b != 0);
        }
    }
    r.i[l] = value;
  }
  if (overflow) trouble = "an integer result does not fit in 64 bits";
  if (zero) trouble = "an integer is divided by zero";
  if (beyond) trouble = "an integer is shifted by less than 0 or more than 63 bits";
  if (x.f || y.f) {
    need_flags(r, n);
    for (int l = 0; l < n; ++l) r.f[l] = static_cast<uint8_t>((x.f ? x.f[l] : 0) | (y.f ? y.f[l] : 0));
  }
  if (!x.b && !y.b) return r;
  need_budget(r, n);
  for (int l = 0; l < n; ++l) {
    const double bx = x.b ? x.b[l] : 0, by = y.b ? y.b[l] : 0;
    if (bx == 0 && by == 0) continue;
    const double a = std::abs(static_cast<double>(x.i[l])), b = std::abs(static_cast<double>(y.i[l]));
    if (node.op == Op::Min || node.op == Op::Max) {  // min(bins - 1 or bins, bins - 1) is decided
      const auto pick = [&](double p, double q) {
        return node.op == Op::Min ? std::min(p, q) : std::max(p, q);
      };
      const auto p = static_cast<double>(x.i[l]), q = static_cast<double>(y.i[l]), v = pick(p, q);
      r.b[l] = std::max(pick(p + bx, q + by) - v, v - pick(p - bx, q - by));
      continue;
    }
    const bool sum = node.op == Op::Add || node.op == Op::Sub;
    r.b[l] = sum ? bx + by : node.op == Op::Mul ? a * by + b * bx + bx * by : kInf;
  }
  return r;
}

Lanes Arithmetic::rounding(Op op, const Lanes& x, int n) const {
  Lanes r = merged(x, nullptr, n);
  const auto f = [op](double v) {
    return op == Op::Floor ? std::floor(v) : op == Op::Ceil ? std::ceil(v) : std::nearbyint(v);
  };
  for (int l = 0; l < n; ++l) r.v[l] = f(x.v[l]);
  r.bits = x.bits;
  if (!r.b) return r;
  for (int l = 0; l < n; ++l) {
    if (!std::isfinite(x.v[l])) continue;
    r.b[l] = std::max(f(x.v[l] + x.b[l]) - r.v[l], r.v[l] - f(x.v[l] - x.b[l]));
    if (r.b[l] == 0) continue;
    r.s[l] = r.b[l] * r.b[l];
    need_flags(r, n);
    r.f[l] |= kUndecided;
  }
  return r;
}

}  // namespace assay::reference
