#include "judge/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

namespace assay::judge {

using contract::Expectation;
using contract::is_float;
using contract::Tensor;

namespace {

// How much larger than modelled the rounding noise of a sound kernel may be: its errors may be coherent
// over a row, and its functions worse than typical.
constexpr double kNoiseFactor = 4;
// A coherent error of six standard deviations stays below this multiple of the expected energy.
constexpr double kEnergyFactor = 2.25;
// Of one element to be off though the model sees no reason: keeps a single odd element from being proof.
constexpr double kFloor = 1e-4;

constexpr uint8_t kNoStatistics = contract::kNonfiniteValue | contract::kNonfiniteInput |
                                  contract::kUndecided | contract::kMayOverflow | contract::kUnspecified |
                                  contract::kCoherent;

double upper_tail(double x) {
  return 0.5 * std::erfc(x / std::sqrt(2.0));
}

int class_of(double x) {
  return std::isnan(x) ? 3 : std::isinf(x) ? (x > 0 ? 1 : 2) : 0;
}

// Products this small lose bits to underflow, which the noise model leaves to the hard bound.
bool near_underflow(const Element& element, contract::DType accumulate) {
  const numerics::Format format = contract::info(accumulate).format;
  const double term = element.magnitude / element.terms;
  return element.value != 0 && term * numerics::unit_roundoff(format) < 4 * numerics::min_subnormal(format);
}

double unit(const MeasureOptions& options) {
  return is_float(options.accumulate) ? numerics::unit_roundoff(contract::info(options.accumulate).format)
                                      : 0;
}

// The deviation of a sum whose every partial sum has the size of the result, because it starts from what
// the formula adds to it last.
double started(const Element& element, const MeasureOptions& options) {
  constexpr double kRms = 0.425;  // of a rounding, in units of u
  return element.terms > 1 ? kRms * unit(options) * std::sqrt(element.terms) * std::abs(element.value) : 0;
}

// The difference d of an element, scaled so that its square counts about one when it is wrong.
void compare(Element& element, const Expectation& expected, std::size_t i, const MeasureOptions& options) {
  element.rounded = contract::rounded(expected.dtype, element.value);
  const double ulp = numerics::ulp(contract::info(expected.dtype).format, element.rounded);
  const double noise = kNoiseFactor * std::hypot(expected.sigma_rest[i], started(element, options));
  if (!std::isfinite(element.rounded) || !(ulp > 0) || !std::isfinite(noise)) return;
  element.scale = std::max(ulp, noise);
  if (!std::isfinite(element.stored)) return;
  element.difference = (element.stored - element.rounded) / element.scale;
  if (options.overridden() || (element.flags & kNoStatistics)) return;
  if (options.coherent_sums && element.terms > 8) return;
  if (is_float(options.accumulate) && near_underflow(element, options.accumulate)) return;
  const double bias = expected.bias[i] / element.scale, share = ulp / element.scale;
  element.expected = kFloor + bias * bias +
                     expected_square((element.rounded - element.value) / ulp, noise / ulp) * share * share;
  element.counts = true;
}

// The hard bound holds for the formula as written, its sums in any order. What sound kernels do besides:
// - A sum of n terms may start from what the formula adds to it, c. Each partial sum is larger by |c| <= |v|
// +
//   the sum of sizes, so the bound grows by itself once more and by n u |v|.
// - An equivalent rewriting may take two rounded operations for one (a reciprocal and a product, a scale
//   folded in): twice the bound.
bool admits(const Expectation& expected, std::size_t i, const Tensor& tensor, const Element& element,
            const MeasureOptions& options) {
  if (expected.admits(i, tensor, element.at)) return true;
  constexpr uint8_t kStrict = contract::kNonfiniteValue | contract::kUndecided | contract::kExact;
  if (!is_float(tensor.dtype) || (element.flags & kStrict) || !(expected.bound[i] > 0)) return false;
  const double ulp = numerics::ulp(contract::info(tensor.dtype).format, element.value);
  const double start = element.terms > 1 ? element.terms * unit(options) * std::abs(element.value) : 0;
  return std::abs(element.error) <= 0.5 * ulp + 2 * expected.bound[i] + start;
}

bool within_tolerance(const Element& element, const MeasureOptions& options) {
  if (class_of(element.stored) != 0 || class_of(element.value) != 0) {
    return class_of(element.stored) == class_of(element.value);
  }
  return std::abs(element.error) <=
         options.atol.value_or(0) + options.rtol.value_or(0) * std::abs(element.value);
}

// log of an upper bound of P(X >= observed), X Poisson with this mean.
double log_tail(double observed, double mean) {
  if (!(observed > mean)) return 0;
  return observed - mean - observed * std::log(observed / mean);
}

// Buckets by kind and number; names are made at the end, for there may be many elements.
enum class Part : uint8_t { All, Row, Column, LastColumns, LastRows, Terms, Magnitude };

std::string name_of(Part part, int64_t number) {
  switch (part) {
    case Part::Row:
      return fmt::format("row {}", number);
    case Part::Column:
      return fmt::format("column {}", number);
    case Part::LastColumns:
      return "the last columns";
    case Part::LastRows:
      return "the last rows";
    case Part::Terms:
      return fmt::format("sums of {:.0f} to {:.0f} terms", std::pow(10, number),
                         std::pow(10, number + 1) - 1);
    case Part::Magnitude:
      return fmt::format("magnitudes about 1e{}", number);
    default:
      return "all elements";
  }
}

class BucketTable {
 public:
  void put(Part part, int64_t number, const Element& element) {
    auto& numbers = index_[static_cast<std::size_t>(part)];
    const auto [it, added] = numbers.try_emplace(number, table_.size());
    if (added) {
      table_.emplace_back();
      keys_.push_back({part, number});
    }
    Bucket& bucket = table_[it->second];
    bucket.count += 1;
    bucket.observed += element.difference * element.difference;
    bucket.expected += element.expected;
    bucket.sum_yy += element.value * element.value;
    bucket.sum_ey += element.error * element.value;
  }
  std::vector<Bucket> take() {
    for (std::size_t i = 0; i < table_.size(); ++i) {
      Bucket& bucket = table_[i];
      bucket.log_p = log_tail(std::floor(bucket.observed + 1e-9), kEnergyFactor * bucket.expected);
      if (i == 0 || bucket.log_p < -1) bucket.name = name_of(keys_[i].first, keys_[i].second);
    }
    return std::move(table_);
  }

 private:
  std::array<std::unordered_map<int64_t, std::size_t>, 7> index_;
  std::vector<Bucket> table_;
  std::vector<std::pair<Part, int64_t>> keys_;
};

}  // namespace

int64_t Measured::rows() const {
  int64_t count = 1;
  for (const int64_t e : extents) count *= e;
  return columns() > 0 ? count / columns() : 0;
}

double expected_square(double offset, double sigma) {
  if (sigma <= 0) return std::abs(offset) >= 0.5 ? 0.5 : 0;
  if (sigma > 3) return sigma * sigma + 1.0 / 6;
  constexpr double kNever = 6.5;  // deviations: rarer than anything else that an element is allowed
  if (0.5 - std::abs(offset) > kNever * sigma) return 0;
  double sum = 0;
  for (int m = 1; m <= 24; ++m) {
    const double up = upper_tail((m - 0.5 + offset) / sigma), down = upper_tail((m - 0.5 - offset) / sigma);
    sum += (2 * m - 1) * (up + down);
    if (up + down < 1e-11) break;
  }
  return sum;
}

namespace {

// A row that shares a sum shares its error: all elements are off by the same factor. The roundings of such a
// sum may lean (small terms beside large ones are rounded alike), by up to half an ulp an addition. What is
// left when that factor is taken out is each element's own. Elements weigh by how well they tell it: a large
// one with a large error of its own says nothing of the others.
void take_out_common_factor(Measured& measured, const MeasureOptions& options) {
  const double u = unit(options);
  if (numerics::unit_roundoff(contract::info(measured.dtype).format) > u) return;  // the store hides it
  // Of difference·value and of value², both in units of the element's scale.
  std::unordered_map<int64_t, std::pair<double, double>> rows;
  for (const Element& element : measured.elements) {
    if (!element.counts) continue;
    auto& [ey, yy] = rows[element.at / measured.columns()];
    const double value = element.value / element.scale;
    ey += element.difference * value;
    yy += value * value;
  }
  for (Element& element : measured.elements) {
    if (!element.counts || element.terms < 64) continue;
    const auto& [ey, yy] = rows[element.at / measured.columns()];
    const double factor = yy > 0 ? ey / yy : 0;
    if (std::abs(factor) <= 0.5 * element.terms * u)
      element.difference -= factor * element.value / element.scale;
  }
}

}  // namespace

Measured measure(const std::string& output, const Tensor& tensor, const Expectation& expected,
                 const MeasureOptions& options) {
  Measured measured{output, tensor.dtype, tensor.extents, {}, expected.low, expected.high, 0};
  measured.elements.resize(expected.size());
  const bool floats = contract::is_float(tensor.dtype);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    Element& element = measured.elements[i];
    element.at = expected.element[i];
    element.stored = tensor.load(element.at);
    element.value = expected.value[i];
    element.error = element.stored - element.value;
    element.flags = expected.flags[i];
    element.terms = std::max(1.0, expected.terms[i]);
    element.magnitude = expected.magnitude[i];
    element.z = expected.sigma[i] > 0 ? element.error / expected.sigma[i] : (element.error == 0 ? 0 : 1e6);
    if (element.flags & contract::kUndecided) ++measured.undecided;
    if (element.flags & contract::kUnspecified) continue;
    element.admitted = options.overridden() && floats ? within_tolerance(element, options)
                                                      : admits(expected, i, tensor, element, options);
    element.class_differs =
        !element.admitted && floats &&
        class_of(element.stored) != class_of(contract::rounded(tensor.dtype, element.value));
    if (floats) compare(element, expected, i, options);
  }
  if (floats && measured.columns() > 1) take_out_common_factor(measured, options);
  return measured;
}

namespace {

// Fewer than a third of what was looked at is distinct.
bool has_few_values(const Tensor& tensor) {
  constexpr int64_t kSample = 1024;
  const int64_t count = tensor.count(), take = std::min(count, kSample);
  if (take < 24) return false;
  std::unordered_set<double> distinct;
  for (int64_t i = 0; i < take; ++i) distinct.insert(tensor.load(i * (count / take)));
  return 3 * static_cast<int64_t>(distinct.size()) < take;
}

// Values rise or fall along rows: of random ones, two in three are turning points.
bool is_ordered(const Tensor& tensor) {
  constexpr int64_t kRows = 16, kLength = 64;
  const int64_t columns = tensor.extents.empty() ? 1 : tensor.extents.back();
  const int64_t rows = columns > 0 ? tensor.count() / columns : 0, length = std::min(columns, kLength);
  if (length < 8) return false;
  int64_t turning = 0, all = 0;
  for (int64_t r = 0; r < std::min(rows, kRows); ++r) {
    const int64_t first = r * (rows / std::min(rows, kRows)) * columns;
    for (int64_t c = 1; c + 1 < length; ++c) {
      const double before = tensor.load(first + c) - tensor.load(first + c - 1);
      const double after = tensor.load(first + c + 1) - tensor.load(first + c);
      turning += before * after < 0;
      ++all;
    }
  }
  return 8 * turning < all;
}

}  // namespace

bool sums_are_coherent(const contract::Bindings& bindings, const std::set<std::string>& summed) {
  return std::any_of(summed.begin(), summed.end(), [&](const std::string& name) {
    const auto input = bindings.inputs.find(name);
    if (input == bindings.inputs.end() || !is_float(input->second->dtype)) return false;
    return has_few_values(*input->second) || is_ordered(*input->second);
  });
}

std::vector<Bucket> buckets(const Measured& measured) {
  BucketTable table;
  const int64_t columns = std::max<int64_t>(1, measured.columns()), rows = measured.rows();
  const bool by_row = columns >= 8 && rows > 1, by_column = rows >= 8 && columns > 1;
  for (const Element& element : measured.elements) {
    if (!element.counts) continue;
    const int64_t r = element.at / columns, c = element.at % columns;
    table.put(Part::All, 0, element);
    if (by_row) table.put(Part::Row, r, element);
    if (by_column) table.put(Part::Column, c, element);
    if (c >= columns - columns % 32 || c + 8 >= columns) table.put(Part::LastColumns, 0, element);
    if (r >= rows - rows % 32 || r + 2 >= rows) table.put(Part::LastRows, 0, element);
    if (element.terms >= 10) table.put(Part::Terms, static_cast<int64_t>(std::log10(element.terms)), element);
    if (element.value != 0) {
      table.put(Part::Magnitude, static_cast<int64_t>(std::floor(std::log10(std::abs(element.value)))),
                element);
    }
  }
  return table.take();
}

}  // namespace assay::judge
