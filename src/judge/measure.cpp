#include "judge/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "base/parallel.h"
#include "judge/thresholds.h"

namespace assay::judge {

using contract::is_float;
using contract::Tensor;
using reference::Expectation;

namespace {

constexpr uint8_t kNoStatistics = reference::kNonfiniteValue | reference::kNonfiniteInput |
                                  reference::kUndecided | reference::kMayOverflow | reference::kUnspecified |
                                  reference::kCoherent;

double upper_tail(double x) {
  return 0.5 * std::erfc(x / std::sqrt(2.0));
}

int class_of(double x) {
  return std::isnan(x) ? 3 : std::isinf(x) ? (x > 0 ? 1 : 2) : 0;
}

double unit(const MeasureOptions& options) {
  return is_float(options.accumulate) ? numerics::unit_roundoff(contract::info(options.accumulate).format)
                                      : 0;
}

bool within_tolerance(const Element& element, const MeasureOptions& options) {
  if (class_of(element.stored) != 0 || class_of(element.value) != 0) {
    return class_of(element.stored) == class_of(element.value);
  }
  return std::abs(element.error) <=
         options.atol.value_or(0) + options.rtol.value_or(0) * std::abs(element.value);
}

}  // namespace

Spacing::Spacing(contract::DType dtype)
    : format_(contract::info(dtype).format),
      lowest_(numerics::info(format_).min_exponent()),
      fraction_bits_(numerics::info(format_).fraction_bits) {}

double Spacing::at(double x) const {
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(x) >> 52 & 0x7ff) - 1023;
  const int ulp = std::max(exponent, lowest_) - fraction_bits_;
  if (ulp <= -1023 || exponent == 1024) return numerics::ulp(format_, x);
  return std::bit_cast<double>(static_cast<uint64_t>(ulp + 1023) << 52);
}

int64_t Measured::rows() const {
  int64_t count = 1;
  for (const int64_t e : extents) count *= e;
  return columns() > 0 ? count / columns() : 0;
}

double exact_expected_square(double offset, double sigma) {
  double sum = 0;
  constexpr int kMostSteps = 24;
  constexpr double kNegligibleTail = 1e-11;  // beside the 1e-4 that every element is allowed (kFloor)
  for (int m = 1; m <= kMostSteps; ++m) {
    const double up = upper_tail((m - 0.5 + offset) / sigma), down = upper_tail((m - 0.5 - offset) / sigma);
    sum += (2 * m - 1) * (up + down);
    if (up + down < kNegligibleTail) break;
  }
  return sum;
}

namespace {

// The same between two grids, for deviations from kLow on, where it is smooth: a straight line between
// neighbours is within 1e-3 of it.
class SquareTable {
 public:
  static constexpr double kLow = 0.25, kHigh = 3;
  static const SquareTable& get() {
    static const SquareTable table;
    return table;
  }
  double at(double offset, double sigma) const {
    const double x = std::min(std::abs(offset), 0.5) * (2 * kOffsets);
    const double y = (sigma - kLow) * (kSigmas / (kHigh - kLow));
    const int i = std::min(static_cast<int>(x), kOffsets - 1), j = std::min(static_cast<int>(y), kSigmas - 1);
    const double fx = x - i, fy = y - j;
    return (1 - fx) * ((1 - fy) * values_[i][j] + fy * values_[i][j + 1]) +
           fx * ((1 - fy) * values_[i + 1][j] + fy * values_[i + 1][j + 1]);
  }

 private:
  static constexpr int kOffsets = 64, kSigmas = 256;
  SquareTable() {
    for (int i = 0; i <= kOffsets; ++i)
      for (int j = 0; j <= kSigmas; ++j)
        values_[i][j] = exact_expected_square(0.5 * i / kOffsets, kLow + (kHigh - kLow) * j / kSigmas);
  }
  double values_[kOffsets + 1][kSigmas + 1];
};

}  // namespace

double expected_square(double offset, double sigma) {
  if (sigma <= 0) return std::abs(offset) >= 0.5 ? 0.5 : 0;
  if (sigma > SquareTable::kHigh) return sigma * sigma + 1.0 / 6;
  constexpr double kNever = 6.5;  // deviations: rarer than anything else that an element is allowed
  if (0.5 - std::abs(offset) > kNever * sigma) return 0;
  return sigma < SquareTable::kLow ? exact_expected_square(offset, sigma)
                                   : SquareTable::get().at(offset, sigma);
}

namespace {

// A row that shares a sum shares its error: all elements are off by the same factor. The roundings of such a
// sum may lean (small terms beside large ones are rounded alike), by up to half an ulp an addition. What is
// left when that factor is taken out is each element's own. Elements weigh by how well they tell it: a large
// one with a large error of its own says nothing of the others.
void take_out_common_factor(Measured& measured, const MeasureOptions& options) {
  const double u = unit(options);
  if (numerics::unit_roundoff(contract::info(measured.dtype).format) > u) return;  // the store hides it
  if (std::none_of(measured.elements.begin(), measured.elements.end(),
                   [](const Element& element) { return element.counts && element.terms >= kLongSum; }))
    return;
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
    if (!element.counts || element.terms < kLongSum) continue;
    const auto& [ey, yy] = rows[element.at / measured.columns()];
    const double factor = yy > 0 ? ey / yy : 0;
    if (std::abs(factor) <= 0.5 * element.terms * u)
      element.difference -= factor * element.value / element.scale;
  }
}

}  // namespace

// Times the smallest subnormal, over u: from there on the bits lost to underflow are few beside a rounding.
static constexpr double kRoomAboveSubnormal = 4;

Gauge::Gauge(const Tensor& tensor, const Expectation& expected, const MeasureOptions& options)
    : tensor_(tensor),
      expected_(expected),
      options_(options),
      spacing_(tensor.dtype),
      either_(contract::ties_either_way(expected.dtype)),
      unit_(unit(options)),
      tiny_(unit_ > 0 ? kRoomAboveSubnormal *
                            numerics::min_subnormal(contract::info(options.accumulate).format) / unit_
                      : 0) {}

// Products this small lose bits to underflow, which the noise model leaves to the hard bound.
bool Gauge::near_underflow(const Element& element) const {
  return element.value != 0 && element.magnitude / element.terms < tiny_;
}

// The deviation of a sum whose every partial sum has the size of the result, because it starts from what
// the formula adds to it last.
double Gauge::started(const Element& element) const {
  constexpr double kRms = 0.425;  // of a rounding, in units of u
  return element.terms > 1 ? kRms * unit_ * std::sqrt(element.terms) * std::abs(element.value) : 0;
}

namespace {

// std::hypot guards every call against squares that overflow or underflow; hardly any does.
double length(double a, double b) {
  constexpr double kLeast = 1e-280, kMost = 1e280;
  const double square = a * a + b * b;
  return square > kLeast && square < kMost ? std::sqrt(square) : std::hypot(a, b);
}

}  // namespace

// The difference d of an element, scaled so that its square counts about one when it is wrong.
void Gauge::compare(Element& element, std::size_t i) const {
  element.rounded = contract::rounded(expected_.dtype, element.value);
  // Where a tie may go either way, the other neighbour is as right.
  if (either_ && std::isfinite(element.stored) &&
      std::abs(element.stored - element.value) == std::abs(element.rounded - element.value))
    element.rounded = element.stored;
  const double ulp = spacing_.at(element.rounded);
  const double rest = expected_.sigma_rest[i], start = started(element);
  const double noise = kNoiseFactor * (start == 0 ? rest : length(rest, start));
  if (!std::isfinite(element.rounded) || !(ulp > 0) || !std::isfinite(noise)) return;
  element.scale = std::max(ulp, noise);
  if (!std::isfinite(element.stored)) return;
  element.difference = (element.stored - element.rounded) / element.scale;
  if (options_.overridden() || (element.flags & kNoStatistics)) return;
  if (options_.coherent_sums && element.terms > kShortSum) return;
  if (near_underflow(element)) return;
  const double bias = expected_.bias[i] / element.scale, share = ulp / element.scale;
  element.expected = kFloor + bias * bias +
                     expected_square((element.rounded - element.value) / ulp, noise / ulp) * share * share;
  element.counts = true;
}

// The hard bound holds for the formula as written, its sums in any order. What sound kernels do besides:
// - A sum of n terms may start from what the formula adds to it, c. Each partial sum is larger by |c|, at
//   most |v| and the sum of sizes, so the bound grows by itself once more and by n u |v|.
// - An equivalent rewriting may take two rounded operations for one (a reciprocal and a product, a scale
//   folded in): twice the bound.
// The largest error that these admit; negative where they do not apply.
double Gauge::rewritten(const Element& element, std::size_t i) const {
  constexpr uint8_t kStrict = reference::kNonfiniteValue | reference::kUndecided | reference::kExact;
  if (!is_float(tensor_.dtype) || (element.flags & kStrict) || !(expected_.bound[i] > 0)) return -1;
  const double start = element.terms > 1 ? element.terms * unit_ * std::abs(element.value) : 0;
  return 0.5 * spacing_.at(element.value) + 2 * expected_.bound[i] + start;
}

bool Gauge::admits(const Element& element, std::size_t i) const {
  const bool inside = expected_.integer.empty() ? expected_.admits(i, element.stored)
                                                : expected_.admits(i, tensor_, element.at);
  return inside || std::abs(element.error) <= rewritten(element, i);
}

double Gauge::limit(const Element& element, std::size_t i) const {
  if (options_.overridden())
    return options_.atol.value_or(0) + options_.rtol.value_or(0) * std::abs(element.value);
  const double side =
      element.error > 0 ? expected_.high[i] - element.value : element.value - expected_.low[i];
  return std::max({0.0, side, rewritten(element, i)});
}

double Gauge::share_of_limit(std::size_t i) const {
  const Element element = (*this)(i);
  if (element.flags & (reference::kUndecided | reference::kUnspecified) || element.class_differs) return 0;
  const double size = std::abs(element.error), most = limit(element, i);
  return !std::isfinite(size) || size == 0 || most <= 0 ? 0 : size / most;
}

Compared Gauge::compared(std::size_t i) const {
  const Element element = (*this)(i);
  Compared compared{tensor_.dtype, element.stored, element.value, {}, {}, {}};
  if (!is_float(tensor_.dtype)) compared.stored_integer = tensor_.load_int(element.at);
  if (!expected_.integer.empty()) compared.exact_integer = expected_.integer[i];
  // Where a comparison could go either way, several results are right, each with a limit of its own.
  if (!(element.flags & (reference::kUndecided | reference::kUnspecified)))
    compared.limit = limit(element, i);
  return compared;
}

Element Gauge::operator()(std::size_t i) const {
  Element element;
  element.at = expected_.element[i];
  element.stored = tensor_.load(element.at);
  element.value = expected_.value[i];
  element.error = element.stored - element.value;
  element.flags = expected_.flags[i];
  element.terms = std::max(1.0, expected_.terms[i]);
  element.magnitude = expected_.magnitude[i];
  constexpr double kBeyondAll = 1e6;  // deviations of an error where there can be none
  element.z =
      expected_.sigma[i] > 0 ? element.error / expected_.sigma[i] : (element.error == 0 ? 0 : kBeyondAll);
  if (element.flags & reference::kUnspecified) return element;
  const bool floats = is_float(tensor_.dtype);
  element.admitted =
      options_.overridden() && floats ? within_tolerance(element, options_) : admits(element, i);
  element.class_differs =
      !element.admitted && floats &&
      class_of(element.stored) != class_of(contract::rounded(tensor_.dtype, element.value));
  if (floats) compare(element, i);
  return element;
}

Measured measure(const std::string& output, const Tensor& tensor, const Expectation& expected,
                 const MeasureOptions& options) {
  Measured measured{output, tensor.dtype, tensor.extents, {}, expected.low, expected.high, 0};
  measured.elements.resize(expected.size());
  const Gauge gauge(tensor, expected, options);
  std::atomic<int64_t> undecided{0};
  constexpr int64_t kPiece = 1 << 14;
  in_parallel(options.threads, static_cast<int64_t>(expected.size()), kPiece, [&](int64_t first, int64_t n) {
    int64_t count = 0;
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(first + n); ++i) {
      measured.elements[i] = gauge(i);
      count += (expected.flags[i] & reference::kUndecided) != 0;
    }
    undecided += count;
  });
  measured.undecided = undecided;
  if (is_float(tensor.dtype) && measured.columns() > 1) take_out_common_factor(measured, options);
  return measured;
}

namespace {

// Fewer than a third of what was looked at is distinct.
bool has_few_values(const Tensor& tensor) {
  constexpr int64_t kRepeated = 3, kSample = 1024, kFewest = 24;  // of fewer, many may be equal by chance
  const int64_t count = tensor.count(), take = std::min(count, kSample);
  if (take < kFewest) return false;
  std::unordered_set<double> distinct;
  for (int64_t i = 0; i < take; ++i) distinct.insert(tensor.load(i * (count / take)));
  return kRepeated * static_cast<int64_t>(distinct.size()) < take;
}

// So few elements are picked that each is added many times. Between two powers of two, adding the same number to a sum
// rounds by the same amount each time, whatever the sum is: k different terms make n roundings √(n / k) times as large
// as independent ones are.
bool picks_few(const Tensor& index) {
  constexpr int64_t kOften = 8, kMost = 1 << 16;
  const int64_t take = std::min(index.count(), kMost);
  std::unordered_set<int64_t> distinct;
  for (int64_t i = 0; i < take; ++i) distinct.insert(index.load_int(i));
  return kOften * static_cast<int64_t>(distinct.size()) < take;
}

// Values rise or fall along rows: of random ones, two in three are turning points.
bool is_ordered(const Tensor& tensor) {
  constexpr int64_t kRows = 16, kLength = 64, kShortest = 8;  // a shorter row is in order by chance
  constexpr int64_t kRising =
      8;  // of so many places one may turn: chosen, far from the two in three of random values
  const int64_t columns = tensor.extents.empty() ? 1 : tensor.extents.back();
  const int64_t rows = columns > 0 ? tensor.count() / columns : 0, length = std::min(columns, kLength);
  if (length < kShortest) return false;
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
  return kRising * turning < all;
}

}  // namespace

namespace {

// cvt.rna rounds ties away from zero, so that a square of one is always too large. Of n terms, n / kTies ties move the sum as
// far as the noise of all that is allowed (kNoiseFactor) for n = 8,000; of random floats one in 8,192 is a tie.
bool has_many_ties(const Tensor& tensor) {
  constexpr int64_t kTies = 64, kSample = 4096;
  const int64_t count = tensor.count(), take = std::min(count, kSample);
  int64_t ties = 0;
  for (int64_t i = 0; i < take; ++i) {
    const double x = tensor.load(i * (count / take));
    ties += std::isfinite(x) &&
            contract::rounded(contract::DType::tf32, x) != contract::rounded_away(contract::DType::tf32, x);
  }
  return kTies * ties > take;
}

}  // namespace

bool sums_are_coherent(const contract::Bindings& bindings, const reference::Reference& reference,
                       const std::string& output) {
  if (sums_are_coherent(bindings, reference.summed_inputs(output))) return true;
  const std::set<std::string> rounded = reference.inputs_with_free_ties(output);
  return std::any_of(rounded.begin(), rounded.end(), [&](const std::string& name) {
    const auto input = bindings.inputs.find(name);
    return input != bindings.inputs.end() && is_float(input->second->dtype) && has_many_ties(*input->second);
  });
}

bool sums_are_coherent(const contract::Bindings& bindings, const std::set<std::string>& summed) {
  return std::any_of(summed.begin(), summed.end(), [&](const std::string& name) {
    const auto input = bindings.inputs.find(name);
    if (input == bindings.inputs.end()) return false;
    if (!is_float(input->second->dtype)) return picks_few(*input->second);
    return has_few_values(*input->second) || is_ordered(*input->second);
  });
}

}  // namespace assay::judge
