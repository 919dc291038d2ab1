#include "reference/expectation.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace assay::reference {

namespace {

constexpr double kMostInteger = 9e18;  // of a double that becomes an integer
constexpr double kLeastVariance =
    1e-280;  // below the square of half the smallest f32, above where squares lose digits

bool is_wide(DType dtype, const Precision& precision) {
  const numerics::FormatInfo& to = numerics::info(info(dtype).format);
  const numerics::FormatInfo& own = numerics::info(info(precision.dtype).format);
  return to.precision() >= own.precision() && to.exponent_bits >= own.exponent_bits;
}

}  // namespace

Store::Store(DType the_dtype, const Precision& precision)
    : dtype(the_dtype),
      either(contract::ties_either_way(the_dtype)),
      wide(is_float(the_dtype) && is_wide(the_dtype, precision)),
      eta(precision.eta) {
  const numerics::Format format = info(dtype).format;
  max = numerics::max_finite(format);
  fraction_bits = numerics::info(format).fraction_bits;
  min_exponent = numerics::info(format).min_exponent();
}

double Store::sigma(double v, double nearest) const {
  if (wide || nearest == v || !(std::abs(v) <= max)) return 0;
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(v) >> 52 & 0x7ff) - 1023;
  const int ulp = std::max(exponent, min_exponent) - fraction_bits;
  return std::bit_cast<double>(static_cast<uint64_t>(ulp + 1023) << 52) * 0.28867513459481287;
}

Interval Store::range(double nearest, double low, double high) const {
  Interval result{rounded(dtype, low), rounded(dtype, high)};
  if (either && std::isfinite(low) && std::isfinite(high))
    result = {std::min(result.low, contract::rounded_away(dtype, low)),
              std::max(result.high, contract::rounded_away(dtype, high))};
  // A format without a sign has no number below the interval, and NaN in its place (e8m0).
  if (std::isnan(result.low) && low < 0) result.low = 0;
  if (!wide) return result;
  if (std::isfinite(result.low)) result.low = std::min(low, nearest);
  if (std::isfinite(result.high)) result.high = std::max(high, nearest);
  return result;
}

void fill_real(Expectation& e, std::size_t i, const Store& to) {
  const double v = e.value[i], b = e.bound[i], nearest = rounded(to.dtype, v), store = to.sigma(v, nearest);
  double s = e.sigma[i];
  uint8_t flags = e.flags[i];
  if (b > 0) s = std::max(s, to.eta * to.eta);  // tiny values have a floor
  if (!std::isfinite(v)) flags |= kNonfiniteValue;
  const bool tie = to.either && std::isfinite(v) && contract::rounded_away(to.dtype, v) != nearest;
  if (b == 0 && !tie) flags |= kExact;
  // The square of what is lost of a tiny FP64 number is too small for FP64: then the most that may be lost counts.
  const double rest = s < kLeastVariance && b > 0 ? b : std::sqrt(s);
  if (rest < 0.1 * store) flags = static_cast<uint8_t>(flags & ~kCoherent);
  const Interval admitted = b == 0 && !tie ? Interval{nearest, nearest} : to.range(nearest, v - b, v + b);
  e.low[i] = admitted.low;
  e.high[i] = admitted.high;
  e.sigma_rest[i] = rest;
  e.sigma[i] = store == 0 ? rest : std::sqrt(s + store * store);
  e.flags[i] = flags;
}

void fill_integer(Expectation& e, std::size_t i, int64_t v) {
  std::byte cell[8];
  store_int(e.dtype, cell, v);
  e.integer[i] = load_int(e.dtype, cell);
  e.value[i] = static_cast<double>(e.integer[i]);
  e.low[i] = e.value[i] - e.bound[i];
  e.high[i] = e.value[i] + e.bound[i];
  e.sigma[i] = e.sigma_rest[i] = 0;
  if (e.bound[i] == 0) e.flags[i] |= kExact;
}

void fill_nearest_integer(Expectation& e, std::size_t i, double v) {
  fill_integer(e, i, std::abs(v) < kMostInteger ? static_cast<int64_t>(std::nearbyint(v)) : 0);
}

void make_room(Expectation& e) {
  const std::size_t count = e.value.size();
  for (std::vector<double>* list : {&e.low, &e.high, &e.sigma_rest, &e.bias}) list->assign(count, 0);
  if (!is_float(e.dtype)) e.integer.assign(count, 0);
}

Expectation unfilled(DType dtype, std::span<const int64_t> elements) {
  Expectation e;
  e.dtype = dtype;
  e.element.assign(elements.begin(), elements.end());
  for (std::vector<double>* list : {&e.value, &e.bound, &e.sigma, &e.magnitude})
    list->assign(elements.size(), 0);
  e.terms.assign(elements.size(), 1);
  e.flags.assign(elements.size(), 0);
  make_room(e);
  return e;
}

void override_budget(const Require& require, Expectation& e) {
  if (!require.rtol && !require.atol) return;
  for (std::size_t i = 0; i < e.size(); ++i) {
    if (!std::isfinite(e.value[i])) continue;
    e.bound[i] = require.rtol.value_or(0) * std::abs(e.value[i]) + require.atol.value_or(0);
    e.low[i] = e.value[i] - e.bound[i];
    e.high[i] = e.value[i] + e.bound[i];
  }
}

bool Expectation::admits(std::size_t i, double stored) const {
  if ((flags[i] & kUnspecified) != 0) return true;
  const bool overflow = (flags[i] & kMayOverflow) != 0;
  if (std::isnan(stored)) return std::isnan(value[i]) || overflow;
  if (std::isinf(stored) && overflow) return true;
  if (low[i] <= stored && stored <= high[i]) return true;
  if (first_alternative.empty()) return false;
  for (int64_t a = first_alternative[i]; a < first_alternative[i + 1]; ++a) {
    const Interval& other = alternatives[static_cast<std::size_t>(a)];
    if (other.low <= stored && stored <= other.high) return true;
  }
  return false;
}

bool Expectation::admits(std::size_t i, const Tensor& output, int64_t at) const {
  if (integer.empty()) return admits(i, output.load(at));
  const int64_t stored = output.load_int(at);
  if (stored == integer[i]) return true;
  // A double does not tell large neighbours apart; an exact element has no others.
  return (flags[i] & kExact) == 0 && admits(i, static_cast<double>(stored));
}

}  // namespace assay::reference
