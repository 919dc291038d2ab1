#include "judge/buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "judge/thresholds.h"

namespace assay::judge {

namespace {

// Tails are where tiles, vectors and unrolled loops end: behind the last whole tile, and a few in any case.
constexpr int64_t kTile = 32, kLastColumns = 8, kLastRows = 2;
constexpr int64_t kShortest =
    8;  // elements of a row or column that is a part of its own; of fewer, the whole tells
constexpr double kRoundingOfSums = 1e-9;  // of squares of whole numbers, added up in doubles: far below 1
constexpr double kUnlikely = -1;          // log of the probability from which a part gets a name
constexpr double kFewestTerms = 10;  // a sum of fewer is no long sum: its decade says nothing of accumulation

// log of an upper bound of P(X >= observed), X Poisson with this mean.
double log_tail(double observed, double mean) {
  if (!(observed > mean)) return 0;
  return observed - mean - observed * std::log(observed / mean);
}

// floor(log10(x)) of a positive finite number.
int decade_of(double x) {
  constexpr int kLeast = -324, kPowersOfTen = 634;  // of doubles, subnormal ones included
  static const std::array<double, kPowersOfTen> kPowers = [] {
    std::array<double, kPowersOfTen> powers{};
    for (std::size_t i = 0; i < powers.size(); ++i) powers[i] = std::pow(10.0, static_cast<int>(i) + kLeast);
    return powers;
  }();
  constexpr int kFarFromSubnormal = -1000;
  const int exponent = static_cast<int>(std::bit_cast<uint64_t>(x) >> 52 & 0x7ff) - 1023;
  if (exponent < kFarFromSubnormal) return static_cast<int>(std::floor(std::log10(x)));
  const int guess = (exponent * 1233) >> 12;  // about log10(2); at most one off
  const double* power = &kPowers[-kLeast] + guess;
  return x >= power[1] ? guess + 1 : x < power[0] ? guess - 1 : guess;
}

int64_t product(std::span<const int64_t> extents) {
  int64_t count = 1;
  for (const int64_t extent : extents) count *= extent;
  return count;
}

}  // namespace

bool Bucket::fails() const {
  return log_p < kEnergyGate && observed >= kLeastFlips;
}

void BucketTable::Sums::add(const Element& element) {
  count += 1;
  observed += element.difference * element.difference;
  expected += element.expected;
  yy += element.value * element.value;
  ey += element.error * element.value;
}

void BucketTable::Sums::add(const Sums& other) {
  count += other.count;
  observed += other.observed;
  expected += other.expected;
  yy += other.yy;
  ey += other.ey;
}

BucketTable::Numbered::Numbered(int64_t count, bool wanted) : wanted_(wanted) {
  constexpr int64_t kDense = 1 << 16;
  if (wanted && count <= kDense) dense_.resize(static_cast<std::size_t>(count));
}

template <class Visit>
void BucketTable::Numbered::each(Visit visit) const {
  for (std::size_t i = 0; i < dense_.size(); ++i) {
    if (dense_[i].count > 0) visit(static_cast<int64_t>(i), dense_[i]);
  }
  for (const auto& [number, sums] : sparse_) visit(number, sums);
}

void BucketTable::Numbered::add(const Numbered& other) {
  other.each([&](int64_t number, const Sums& sums) {
    (dense_.empty() ? sparse_[number] : dense_[static_cast<std::size_t>(number)]).add(sums);
  });
}

BucketTable::BucketTable(std::span<const int64_t> extents)
    : columns_(std::max<int64_t>(1, extents.empty() ? 1 : extents.back())),
      rows_(product(extents) / columns_),
      row_(rows_, columns_ >= kShortest && rows_ > 1),
      column_(columns_, rows_ >= kShortest && columns_ > 1) {}

void BucketTable::add(const Element& element) {
  if (!element.counts) return;
  const int64_t r = element.at / columns_, c = element.at - r * columns_;
  all_.add(element);
  if (row_.wanted()) row_.add(r, element);
  if (column_.wanted()) column_.add(c, element);
  if (c >= columns_ - columns_ % kTile || c + kLastColumns >= columns_) last_columns_.add(element);
  if (r >= rows_ - rows_ % kTile || r + kLastRows >= rows_) last_rows_.add(element);
  if (element.terms >= kFewestTerms) {
    const int decade = std::min(decade_of(element.terms), static_cast<int>(terms_.size()) - 1);
    terms_[static_cast<std::size_t>(decade)].add(element);
  }
  if (element.value != 0 && std::isfinite(element.value)) {
    decades_[static_cast<std::size_t>(decade_of(std::abs(element.value)) - kLowest)].add(element);
  }
}

void BucketTable::add(const BucketTable& other) {
  all_.add(other.all_);
  last_columns_.add(other.last_columns_);
  last_rows_.add(other.last_rows_);
  row_.add(other.row_);
  column_.add(other.column_);
  for (std::size_t i = 0; i < terms_.size(); ++i) terms_[i].add(other.terms_[i]);
  for (std::size_t i = 0; i < decades_.size(); ++i) decades_[i].add(other.decades_[i]);
}

std::vector<Bucket> BucketTable::take() const {
  std::vector<Bucket> list;
  // Names are made only where something is unlikely: there may be many parts.
  const auto put = [&list](const Sums& sums, auto name, bool by_terms = false) {
    if (sums.count == 0) return;
    Bucket bucket{{}, sums.count, sums.observed, sums.expected, sums.yy, sums.ey, 0, by_terms};
    bucket.log_p = log_tail(std::floor(bucket.observed + kRoundingOfSums), kEnergyFactor * bucket.expected);
    if (list.empty() || bucket.log_p < kUnlikely) bucket.name = name();
    list.push_back(std::move(bucket));
  };
  put(all_, [] { return std::string("all elements"); });
  row_.each([&](int64_t r, const Sums& sums) { put(sums, [r] { return fmt::format("row {}", r); }); });
  column_.each([&](int64_t c, const Sums& sums) { put(sums, [c] { return fmt::format("column {}", c); }); });
  put(last_columns_, [] { return std::string("the last columns"); });
  put(last_rows_, [] { return std::string("the last rows"); });
  for (std::size_t i = 0; i < terms_.size(); ++i) {
    const double low = std::pow(10, static_cast<double>(i));
    put(
        terms_[i], [low] { return fmt::format("sums of {:.0f} to {:.0f} terms", low, 10 * low - 1); }, true);
  }
  for (std::size_t i = 0; i < decades_.size(); ++i) {
    const int decade = static_cast<int>(i) + kLowest;
    put(decades_[i], [decade] { return fmt::format("magnitudes about 1e{}", decade); });
  }
  return list;
}

std::vector<Bucket> buckets(const Measured& measured) {
  BucketTable table(measured.extents);
  for (const Element& element : measured.elements) table.add(element);
  return table.take();
}

}  // namespace assay::judge
