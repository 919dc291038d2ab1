#include "reference/accumulator.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace assay::reference {
namespace {

double* filled(Arena& arena, int n, double value) {
  double* list = arena.get<double>(n);
  std::fill_n(list, n, value);
  return list;
}

// s + t exactly: the sum and what it lost.
inline void two_sum(double& s, double& lost, double t) {
  const double sum = s + t;
  const double back = sum - s;
  lost += (s - (sum - back)) + (t - back);
  s = sum;
}

// What a kernel may lose of a term: all of one that is less than half an ulp of the partial sum, and about as much of one that
// is hardly more. The sign is the term's, so that terms of both signs cancel, as their roundings do.
inline double lost_of(double term, double partial, double unit) {
  const double size = std::abs(term), most = unit * std::abs(partial);
  return size > 2 * most ? 0 : std::copysign(std::min(size, most), term);
}

// Lanes in order: everything a budget needs, in one vector loop.
void add_in_order(Accumulator& a, const double* __restrict t, int n, double unit) {
  double* __restrict sum = a.sum;
  double* __restrict low = a.low_part;
  double* __restrict magnitude = a.magnitude;
  double* __restrict squares = a.squares;
  double* __restrict walk = a.walk;
  double* __restrict count = a.count;
  double* __restrict lost = a.lost;
  const bool is_part = a.together.has_value();
  const double together = a.together.value_or(0);
  for (int l = 0; l < n; ++l) {
    const double s = sum[l], x = t[l];
    const double next = s + x;
    const double back = next - s;
    low[l] += (s - (next - back)) + (x - back);
    sum[l] = next;
    lost[l] += lost_of(x, is_part ? together : next, unit);
    magnitude[l] += std::abs(x);
    squares[l] += x * x;
    walk[l] += next * next;
    count[l] += 1;
  }
}

void add_budgets(Accumulator& a, const double* __restrict b, const double* __restrict s, int n) {
  double* __restrict bound = a.bound;
  double* __restrict variance = a.variance;
  for (int l = 0; l < n; ++l) {
    bound[l] += b[l];
    variance[l] += s[l];
  }
}

void add_values(Accumulator& a, const double* __restrict t, int n) {
  double* __restrict sum = a.sum;
  double* __restrict low = a.low_part;
  for (int l = 0; l < n; ++l) {
    const double s = sum[l], x = t[l];
    const double next = s + x;
    const double back = next - s;
    low[l] += (s - (next - back)) + (x - back);
    sum[l] = next;
    a.count[l] += 1;
  }
}

void add_simulated(Accumulator& a, double t, int at, const SumRules& rules) {
  const Defect& defect = *rules.simulated;
  DType dtype = defect.accumulator ? *defect.accumulator : rules.accumulate;
  const bool rz = defect.truncating_sum;
  a.count[at] += 1;
  if (rules.partial_terms <= 0) {
    a.sum[at] = round_sum(a.sum[at] + t, dtype, rz);
    return;
  }
  a.partial[at] = round_sum(a.partial[at] + t, dtype, rz);
  a.partial_count[at] += 1;
  if (a.partial_count[at] < static_cast<double>(rules.partial_terms)) return;
  dtype = rules.accumulate;  // partial sums, of whatever precision, are added in the declared one
  a.sum[at] = round_sum(a.sum[at] + round_sum(a.partial[at], *defect.partials, false), dtype, rz);
  a.partial[at] = a.partial_count[at] = 0;
}

}  // namespace

Accumulator Accumulator::make(Arena& arena, int n, Reduce reduce) {
  Accumulator a;
  a.n = n;
  const bool largest = reduce == Reduce::Max || reduce == Reduce::ArgMax;
  const bool product = reduce == Reduce::Prod;
  const bool extreme = !adds_up(reduce) && reduce != Reduce::None && !product;
  const double empty = largest ? -kInf : kInf;
  a.sum = filled(arena, n, extreme ? empty : product ? 1 : 0);
  a.low_part = filled(arena, n, 0);
  a.magnitude = filled(arena, n, product ? 1 : 0);
  a.squares = filled(arena, n, 0);
  a.bound = filled(arena, n, 0);
  a.variance = filled(arena, n, 0);
  a.walk = filled(arena, n, 0);
  a.lost = filled(arena, n, 0);
  a.aligned = filled(arena, n, 0);
  a.aligned_squares = filled(arena, n, 0);
  a.weighted = filled(arena, n, 0);
  a.count = filled(arena, n, 0);
  a.low = filled(arena, n, empty);
  a.high = filled(arena, n, empty);
  a.partial = filled(arena, n, 0);
  a.partial_count = filled(arena, n, 0);
  a.which = arena.get<int64_t>(n);
  std::fill_n(a.which, n, int64_t{-1});
  a.integer = arena.get<numerics::int128>(n);
  std::fill_n(a.integer, n, numerics::int128{0});
  a.flags = arena.get<uint8_t>(n);
  std::fill_n(a.flags, n, uint8_t{0});
  return a;
}

double round_sum(double value, DType dtype, bool toward_zero) {
  if (!toward_zero) {
    if (dtype == DType::bf16) {
      // As a kernel does it: the addition in f32, then the conversion.
      const uint16_t code = numerics::f32_to_bf16_rn(static_cast<float>(value));
      return static_cast<double>(numerics::bf16_to_f32(code));
    }
    return rounded(dtype, value);
  }
  const numerics::Format format = info(dtype).format;
  return numerics::to_double(format, numerics::from_double(format, value, numerics::Rounding::TowardZero));
}

void add_terms(Accumulator& total, const Lanes& t, int n, const int* map, const SumRules& rules) {
  const auto lane = [map](int l) { return map ? map[l] : l; };
  if (t.f)
    for (int l = 0; l < n; ++l) total.flags[lane(l)] |= t.f[l];
  if (rules.simulated) {
    for (int l = 0; l < n; ++l) add_simulated(total, t.v[l], lane(l), rules);
    return;
  }
  if (!map) {
    rules.values_only ? add_values(total, t.v, n) : add_in_order(total, t.v, n, rules.unit);
  } else {
    for (int l = 0; l < n; ++l) {
      const int at = map[l];
      const double x = t.v[l];
      two_sum(total.sum[at], total.low_part[at], x);
      total.magnitude[at] += std::abs(x);
      total.squares[at] += x * x;
      total.walk[at] += total.sum[at] * total.sum[at];
      total.lost[at] += lost_of(x, total.together.value_or(total.sum[at]), rules.unit);
      total.count[at] += 1;
    }
  }
  if (!t.b || rules.values_only) return;
  if (!map) return add_budgets(total, t.b, t.s, n);
  for (int l = 0; l < n; ++l) {
    total.bound[map[l]] += t.b[l];
    total.variance[map[l]] += t.s[l];
  }
}

namespace {

void multiply_by(Accumulator& total, int at, double v, double b, double s, double count, double larger) {
  double& product = total.sum[at];
  double& bound = total.bound[at];
  double& variance = total.variance[at];
  bound = std::abs(product) * b + std::abs(v) * bound + bound * b;
  variance = product * product * s + v * v * variance + variance * s;
  product *= v;
  total.magnitude[at] *= larger;
  total.count[at] += count;
}

}  // namespace

void add_aligned(Accumulator& total, const Lanes& a, const Lanes& b, const LeastNormals& least_normal, int n,
                 const int* map) {
  for (int l = 0; l < n; ++l) {
    if (a.v[l] == 0 || b.v[l] == 0) continue;
    const double size =
        std::max(std::abs(a.v[l]), least_normal.a) * std::max(std::abs(b.v[l]), least_normal.b);
    const int at = map ? map[l] : l;
    total.aligned[at] += size;
    total.aligned_squares[at] += size * size;
  }
}

void multiply_terms(Accumulator& total, const Lanes& t, int n, const int* map) {
  for (int l = 0; l < n; ++l) {
    const int at = map ? map[l] : l;
    multiply_by(total, at, t.v[l], t.b ? t.b[l] : 0, t.s ? t.s[l] : 0, 1, std::max(1.0, std::abs(t.v[l])));
    if (t.f) total.flags[at] |= t.f[l];
  }
}

void add_integers(Accumulator& total, const Lanes& t, int n, const int* map) {
  for (int l = 0; l < n; ++l) {
    const int at = map ? map[l] : l;
    total.integer[at] += t.i[l];
    total.count[at] += 1;
    total.magnitude[at] += std::abs(static_cast<double>(t.i[l]));
    if (t.b) total.bound[at] += t.b[l];
    if (t.f) total.flags[at] |= t.f[l];
  }
}

double budget_of_offer(const Lanes& t, int l, Reduce reduce) {
  const bool chooses = reduce == Reduce::ArgMax || reduce == Reduce::ArgMin;
  if (chooses && t.v && t.f && (t.f[l] & kMayOverflow) != 0 && std::isfinite(t.v[l])) return kInf;
  return t.b ? t.b[l] : 0;
}

void offer(Accumulator& total, const Lanes& t, int n, const int* map, Reduce reduce, const int64_t* which,
           int64_t uniform_which, bool hides_nan) {
  const bool largest = reduce == Reduce::Max || reduce == Reduce::ArgMax;
  const double sign = largest ? 1 : -1;
  for (int l = 0; l < n; ++l) {
    const int at = map ? map[l] : l;
    const double v = t.v ? t.v[l] : static_cast<double>(t.i[l]);
    const double b = budget_of_offer(t, l, reduce);
    const int64_t index = which ? which[l] : uniform_which;
    if (t.f) total.flags[at] |= t.f[l];
    if (hides_nan && std::isnan(v)) continue;
    const bool first = total.count[at] == 0;
    total.count[at] += 1;
    if (b > 0) total.bound[at] += b;
    const double best = total.sum[at];
    // Integers compare as integers: a double would not tell large ones apart.
    const bool better = first || (t.i ? (largest ? t.i[l] > total.integer[at] : t.i[l] < total.integer[at])
                                      : !std::isnan(best) && (std::isnan(v) || sign * v > sign * best));
    // squares: the far end of the chosen; high: the best far end of all others (argmax).
    if (better) {
      if (!first) total.high[at] = sign * std::max(sign * total.high[at], sign * total.squares[at]);
      total.squares[at] = v + sign * b;
      total.sum[at] = v;
      total.variance[at] = t.s ? t.s[l] : 0;
      total.which[at] = index;
      if (t.i) total.integer[at] = t.i[l];
    } else {
      total.high[at] = sign * std::max(sign * total.high[at], sign * (v + sign * b));
      if (t.s && std::abs(v - best) <= 2 * b) total.variance[at] = std::max(total.variance[at], t.s[l]);
    }
    total.low[at] = sign * std::max(sign * total.low[at], sign * (v - sign * b));
  }
}

void fold(const Accumulator& parts, int used, Accumulator& total, int at, Reduce reduce, bool is_integer) {
  if (reduce == Reduce::Sum || reduce == Reduce::Mean) {
    for (int l = 0; l < used; ++l) {
      two_sum(total.sum[at], total.low_part[at], parts.sum[l]);
      total.low_part[at] += parts.low_part[l];
      total.magnitude[at] += parts.magnitude[l];
      total.squares[at] += parts.squares[l];
      total.bound[at] += parts.bound[l];
      total.variance[at] += parts.variance[l];
      total.lost[at] += parts.lost[l];
      total.aligned[at] += parts.aligned[l];
      total.aligned_squares[at] += parts.aligned_squares[l];
      total.weighted[at] += parts.weighted[l];
      total.count[at] += parts.count[l];
      total.integer[at] += parts.integer[l];
      total.flags[at] |= parts.flags[l];
    }
    return;
  }
  if (reduce == Reduce::Prod) {
    for (int l = 0; l < used; ++l) {
      multiply_by(total, at, parts.sum[l], parts.bound[l], parts.variance[l], parts.count[l],
                  parts.magnitude[l]);
      total.flags[at] |= parts.flags[l];
    }
    return;
  }
  const bool largest = reduce == Reduce::Max || reduce == Reduce::ArgMax;
  const double sign = largest ? 1 : -1;
  for (int l = 0; l < used; ++l) {
    total.flags[at] |= parts.flags[l];
    if (parts.count[l] == 0) continue;
    const bool first = total.count[at] == 0;
    total.count[at] += parts.count[l];
    total.bound[at] += parts.bound[l];
    const double v = parts.sum[l], best = total.sum[at];
    bool better = first, equal = false;
    if (is_integer) {
      better |= largest ? parts.integer[l] > total.integer[at] : parts.integer[l] < total.integer[at];
      equal = parts.integer[l] == total.integer[at];
    } else {
      better |= !std::isnan(best) && (std::isnan(v) || sign * v > sign * best);
      equal = v == best || (std::isnan(v) && std::isnan(best));
    }
    better |= equal && parts.which[l] < total.which[at];
    const double loser = better ? (first ? -sign * kInf : total.squares[at]) : parts.squares[l];
    total.high[at] = sign * std::max({sign * total.high[at], sign * parts.high[l], sign * loser});
    total.low[at] = sign * std::max(sign * total.low[at], sign * parts.low[l]);
    if (!better) continue;
    total.squares[at] = parts.squares[l];
    total.sum[at] = v;
    total.variance[at] = parts.variance[l];
    total.which[at] = parts.which[l];
    total.integer[at] = parts.integer[l];
  }
}

}  // namespace assay::reference
