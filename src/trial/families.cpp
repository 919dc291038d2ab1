// The families by name, those that suit a tensor, and how floats are drawn (integers: integer_values.cpp).
#include "trial/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"
#include "trial/extremes_at_ends.h"
#include "trial/integer_values.h"

namespace assay::trial {

using contract::DType;
using contract::Tensor;
using contract::TensorSpec;
using contract::ValuesKind;

namespace {

// What the families of floats are made of. Where no reason is given, the number was chosen, and no test pins it. All
// that is drawn must be legal: FloatValues.AreLegalInEveryFamilyAndDtype (tests/trial/trial_test.cpp).
//
// Factors are of a natural number, summands are added to it; noise has a standard deviation of 1.
constexpr double kLoudFactor = 20;       // of an activation in a loud channel
constexpr double kOutlierFactor = 1000;  // of an element of a loud channel, among outliers
constexpr uint64_t kChannelsPerLoud = 64;
constexpr double kWeightSize = 0.05;  // standard deviation
constexpr double kLeastConstant = 0.6, kMostConstant = 1.9;
constexpr double kLeastOfOneSign = 0.25;  // added to the size of each number
constexpr double kOwnMeanFactor = 2;      // of a column's mean, against noise of 1
constexpr double kSmallFactor = 0x1p-10, kLargeFactor = 0x1p10;
// Small numbers: the rows take turns at kSmallRows scales, each kSmallStep of the one before, down to 2^-31: where a small
// constant takes over (a norm of at least 1e-8, 1e-12 beside a sum of squares) depends on what it is added to.
constexpr double kSmallStep = 0x1p-7;
constexpr int64_t kSmallRows = 4;
constexpr double kCancellingFactor = 8;
constexpr double kTailWidth = 2;   // standard deviation of the natural log of magnitudes
constexpr double kSharpWidth = 8;  // the same of probabilities: those of a sharp softmax
// Of rows: beside 1, exp(-level) is a good part, has half of its digits in f32, has none, and is next to nothing; sums of
// exp(level) are finite. Rows of a range are at its ends, or natural, equally often.
constexpr double kLevels[] = {3, 11, 18, 30, 60};
constexpr int64_t kRowsOfRange = 3;
constexpr double kPeak = 16;     // above the rest of the row
constexpr int64_t kMostTie = 1;  // the negative of it is the least
// The large mean, with noise of 1: of formats with more than kHalfPrecision bits, and of others.
constexpr int kHalfPrecision = 11;  // of f16, bits
// The same in all inputs: what cancels between two of them (a distance as a difference of squares) shows nowhere else.
constexpr double kLargeMean = 1250, kLargeMeanOfHalf = 250;
// Far below zero: beyond the numbers that stand for minus infinity in a hurry, -1e4, -65504 and -1e9. The
// least, kLeastFarBelow times one of these, is beyond them as well. A format whose largest number is below
// kWideRange has only the first.
constexpr double kBelowOfNarrow = 0x1p14, kBelow = 0x1p17, kFarBelow = 0x1p31, kLeastFarBelow = 0.7;
constexpr double kWideRange = 1e9;
static_assert(kLeastFarBelow * kBelowOfNarrow > 1e4 && kLeastFarBelow * kBelow > 65504 &&
              kLeastFarBelow * kFarBelow > 1e9);
// The largest f64 that is drawn: the reference has no more range than f64 itself, so sums and squares must
// stay within it.
constexpr double kLargestF64 = 0x1p300;
constexpr int kMostCodeBits = 12;  // of an element that tells its position, where the format has as many
// Shares of the largest number's root, and of the largest number; multiples of the smallest normal one.
constexpr double kLeastHuge = 0.01, kMostHuge = 0.5, kLeastNearOverflow = 0.2, kMostNearOverflow = 0.999,
                 kAroundNormal = 4;
// Where a nonfinite element is, of kPlaces draws: one is for the first element, one for the last, the others
// for any.
constexpr int64_t kFirstPlace = 0, kLastPlace = 1, kPlaces = 4;

constexpr uint64_t kNormalsStream = 77;  // of random numbers, beside those that are drawn one by one

struct FamilyInfo {
  Family family;
  std::string_view name, description;
};

constexpr FamilyInfo kFamilies[] = {
    {Family::Natural, "natural", "as real inputs look"},
    {Family::SameSign, "same-sign", "one sign throughout"},
    {Family::Negative, "negative", "all below zero, whole rows and columns far below"},
    {Family::FarBelow, "far-below", "all below zero, whole rows and columns below -1e9"},
    {Family::NonzeroMean, "nonzero-mean", "each column about a mean of its own"},
    {Family::SmallScale, "small-scale",
     "natural, a thousand times smaller; of some rows a million or a billion times"},
    {Family::LargeScale, "large-scale", "natural, a thousand times larger"},
    {Family::Outliers, "outliers", "a few channels a thousand times larger"},
    {Family::LargeMean, "large-mean", "a large mean with a small variance"},
    {Family::Cancelling, "cancelling", "pairs that cancel"},
    {Family::HeavyTail, "heavy-tail", "magnitudes over many orders"},
    {Family::Levels, "levels", "each row about a level of its own, or at an end of its range"},
    {Family::Peaked, "peaked", "one element of each row far above the rest"},
    {Family::Constant, "constant", "all equal"},
    {Family::Zeros, "zeros", "all zero"},
    {Family::Ties, "ties", "few distinct values"},
    {Family::SmallIntegers, "small-integers", "small integers, so that sums are exact"},
    {Family::IndexCoded, "index-coded", "integers that follow from the position"},
    {Family::Ramp, "ramp", "rising along each row"},
    {Family::Huge, "huge", "so large that only squares stay finite"},
    {Family::NearOverflow, "near-overflow", "up to the largest finite value"},
    {Family::Subnormal, "subnormal", "about the smallest normal number"},
    {Family::NanElement, "nan-element", "one element NaN"},
    {Family::NanRow, "nan-row", "one row NaN"},
    {Family::InfElement, "inf-element", "the first, the last and another element infinite"},
    {Family::NegInfElement, "neg-inf-element", "the first, the last and another element minus infinity"},
    {Family::InfPart, "inf-part", "half of the rows infinite"},
    {Family::NegInfPart, "neg-inf-part", "half of the rows minus infinity"},
    {Family::AllInf, "all-inf", "all infinite"},
    {Family::AllNegInf, "all-neg-inf", "all minus infinity"},
    {Family::Uniform, "uniform", "uniform"},
    {Family::Zipf, "zipf", "distributed as words in text"},
    {Family::OneValue, "one-value", "the same everywhere"},
    {Family::FewValues, "few-values", "a handful of values"},
    {Family::Permuted, "permuted", "all different"},
    {Family::NearTop, "near-top", "all close to the largest legal value"},
    {Family::Extremes, "extremes", "the smallest and the largest legal value"},
    {Family::Largest, "largest", "all equal to the value of largest magnitude"},
    {Family::Runs, "runs", "stretches of equal values"},
    {Family::AllOnes, "all-ones", "all set"},
    {Family::AllZeros, "all-zeros", "none set"},
    {Family::EmptyParts, "empty-parts", "many empty segments"},
    {Family::OnePart, "one-part", "everything in one segment"},
    {Family::Problem, "problem", "the problem's own inputs"},
};

const FamilyInfo& family_info(Family family) {
  return *std::find_if(std::begin(kFamilies), std::end(kFamilies),
                       [&](const FamilyInfo& f) { return f.family == family; });
}

// Standard normal numbers from a table: fast enough for large tensors.
class Normals {
 public:
  explicit Normals(uint64_t seed) : random_(seed) {
    for (double& x : table_) x = random_.normal();
  }
  double operator()() {
    if (left_ == 0) {
      word_ = random_.bits();
      left_ = kPerWord;
    }
    const double x = table_[word_ & (kSize - 1)];
    word_ >>= kIndexBits;
    --left_;
    return x;
  }

 private:
  static constexpr int kIndexBits = 12;
  static constexpr std::size_t kSize = std::size_t{1} << kIndexBits;
  static constexpr int kPerWord = 64 / kIndexBits;  // indices
  Random random_;
  std::array<double, kSize> table_{};
  uint64_t word_ = 0;
  int left_ = 0;
};

struct Grid {
  int64_t rows = 1, columns = 1;
};
Grid grid_of(const std::vector<int64_t>& extents) {
  Grid grid;
  for (const int64_t e : extents) grid.rows *= e;
  grid.columns = extents.empty() ? 1 : extents.back();
  grid.rows = grid.columns > 0 ? grid.rows / grid.columns : 0;
  return grid;
}

class FloatDrawing {
 public:
  FloatDrawing(const TensorSpec& spec, Tensor& tensor, Family family, uint64_t seed)
      : spec_(spec),
        tensor_(tensor),
        grid_(grid_of(tensor.extents)),
        family_(family),
        random_(seed),
        normal_(mix(seed, kNormalsStream)),
        format_(contract::info(spec.dtype).format) {}

  void run() {
    prepare();
    for (int64_t r = 0; r < grid_.rows; ++r) {
      begin_row(r);
      for (int64_t c = 0; c < grid_.columns; ++c) put(r * grid_.columns + c, value(r, c));
      end_row(r);
    }
    inject();
    if (family_ == Family::Natural || family_ == Family::SameSign)
      ExtremesAtEnds(
          tensor_.extents, kind() == ValuesKind::Probabilities, random_,
          [&](int64_t at) { return tensor_.load(at); }, [&](int64_t at, double x) { tensor_.store(at, x); })
          .run(family_ == Family::SameSign ? 0 : random_.between(0, 1));
  }

 private:
  ValuesKind kind() const { return spec_.values.kind; }

  double natural(int64_t c) {
    switch (kind()) {
      case ValuesKind::RealRange:
        return random_.uniform(spec_.values.low, spec_.values.high);
      case ValuesKind::Activations:
        return normal_() * (loud(c) ? kLoudFactor : 1);
      case ValuesKind::Gradients:
        return column_mean_[index(c)] + normal_();
      case ValuesKind::Weights:
        return kWeightSize * normal_() + (grid_.rows == 1 ? 1 : 0);
      case ValuesKind::Positive:
        return std::exp(normal_());
      case ValuesKind::Probabilities:
        return -std::log(1 - random_.uniform());  // normalised at the row's end
      default:
        return normal_();
    }
  }

  std::size_t index(int64_t c) const { return static_cast<std::size_t>(c); }
  bool loud(int64_t c) const { return mix(salt_, static_cast<uint64_t>(c)) % kChannelsPerLoud == 0; }

  void prepare() {
    salt_ = random_.bits();
    column_mean_.resize(index(grid_.columns));
    for (double& mean : column_mean_) mean = random_.normal();
    constant_ = kind() == ValuesKind::Probabilities
                    ? 1.0 / static_cast<double>(std::max<int64_t>(grid_.columns, 1))
                : kind() == ValuesKind::RealRange ? random_.uniform(spec_.values.low, spec_.values.high)
                                                  : random_.uniform(kLeastConstant, kMostConstant);
    precision_ = numerics::info(format_).precision();
    max_ = spec_.dtype == DType::f64 ? kLargestF64 : numerics::max_finite(format_);
    below_ = max_ < kWideRange ? kBelowOfNarrow : kBelow;
    far_below_ = kFarBelow;
  }

  void begin_row(int64_t r) {
    peak_ = grid_.columns > 0 ? random_.between(0, grid_.columns - 1) : 0;
    if (r % 4 == 0) peak_ = grid_.columns - 1;
    if (r % 4 == 1) peak_ = grid_.columns - 1 - peak_ % kTail % std::max<int64_t>(1, grid_.columns);
    if (r % 4 == 2) peak_ = 0;
    if (family_ == Family::Ties) ties_ = random_.between(-1, 1);
    if (family_ == Family::Levels) draw_level();
  }

  double value(int64_t r, int64_t c) {
    const auto at = static_cast<uint64_t>(r * grid_.columns + c);
    switch (family_) {
      case Family::SameSign:
        return std::abs(natural(c)) + kLeastOfOneSign * constant_;
      case Family::Negative:
      case Family::FarBelow:
        return -(std::abs(normal_()) + (is_far_below(r, c) ? kLeastFarBelow : kLeastOfOneSign)) *
               scale_below(r, c);
      case Family::NonzeroMean:
        return kOwnMeanFactor * column_mean_[index(c)] + normal_();
      case Family::SmallScale:
        return natural(c) * kSmallFactor * std::pow(kSmallStep, static_cast<double>(r % kSmallRows));
      case Family::LargeScale:
        return natural(c) * kLargeFactor;
      case Family::Outliers:
        return natural(c) * (loud(c) ? kOutlierFactor : 1);
      case Family::LargeMean:
        return (precision_ > kHalfPrecision ? kLargeMean : kLargeMeanOfHalf) + normal_();
      case Family::Cancelling:
        return cancelling(c);
      case Family::HeavyTail:
        return kind() == ValuesKind::Probabilities
                   ? std::exp(kSharpWidth * normal_())
                   : std::copysign(std::exp(kTailWidth * normal_()), normal_());
      case Family::Peaked:
        return kind() == ValuesKind::Probabilities ? double(c == peak_)
                                                   : natural(c) + (c == peak_ ? kPeak : 0);
      case Family::Levels:
        return level(c);
      case Family::Constant:
        return constant_;
      case Family::Zeros:
        return 0;
      case Family::Ties:
        return tie(c);
      case Family::SmallIntegers:
        return small_integer();
      case Family::IndexCoded: {
        const auto codes = uint64_t{1} << std::min(precision_, kMostCodeBits);
        return static_cast<double>(mix(at) % (2 * codes)) - static_cast<double>(codes);
      }
      case Family::Ramp:
        return static_cast<double>(c) / static_cast<double>(std::max<int64_t>(grid_.columns, 1));
      case Family::Huge:
        return std::copysign(std::sqrt(max_) * random_.uniform(kLeastHuge, kMostHuge), normal_());
      case Family::NearOverflow:
        return std::copysign(max_ * random_.uniform(kLeastNearOverflow, kMostNearOverflow), normal_());
      case Family::Subnormal:
        return numerics::min_normal(format_) * random_.uniform(-kAroundNormal, kAroundNormal);
      case Family::Extremes:
        return random_.chance(0.5) ? lowest() : highest();
      default:
        return natural(c);
    }
  }

  // Where a range holds no such integers, the same with a unit that is a power of two: sums and products are exact then, and
  // ties of a rounding are met.
  double small_integer() {
    const bool bounded = kind() == ValuesKind::RealRange;
    const int64_t least = bounded && spec_.values.low > 0 ? 1 : -kMostSmallInteger;
    const auto value = static_cast<double>(random_.between(least, kMostSmallInteger));
    const double most = std::max(std::abs(spec_.values.low), std::abs(spec_.values.high));
    if (!bounded || most >= kMostSmallInteger || most == 0) return value;
    return value * std::exp2(std::floor(std::log2(most / kMostSmallInteger)));
  }

  // Both zeros are there: they are equal, whatever their bits. In some rows they are the largest, in some the smallest.
  // No row begins with -0, so that no sum is.
  double tie(int64_t c) {
    const auto value = static_cast<double>(random_.between(-kMostTie, kMostTie));
    const bool may_be_negative = kind() != ValuesKind::RealRange || spec_.values.low < 0;
    if (value == 0) return c > 0 && may_be_negative && random_.chance(0.5) ? -0.0 : 0.0;
    return ties_ == 0 ? value : std::copysign(value, static_cast<double>(ties_));
  }

  void draw_level() { level_ = random_.between(0, 2 * std::ssize(kLevels) * kRowsOfRange - 1); }
  double level(int64_t c) {
    if (grid_.rows == 1) draw_level();  // each element is a row
    if (kind() != ValuesKind::RealRange) {
      const double size = kLevels[static_cast<std::size_t>(level_ / 2) % std::size(kLevels)];
      return (level_ % 2 == 0 ? size : -size) + natural(c);
    }
    const int64_t end = level_ % kRowsOfRange;
    return end == 0 ? lowest() : end == 1 ? highest() : natural(c);
  }

  double cancelling(int64_t c) {
    if (c % 2 == 1) return -last_;
    last_ = natural(c) * kCancellingFactor;
    return last_;
  }

  // Whole rows, whole columns and whole windows of neighbours are far below zero. A tensor of one row is.
  int64_t quarter(int64_t r) const {
    constexpr int64_t kQuarters = 4;
    return grid_.rows == 1 ? kQuarters - 1 : grid_.rows < kQuarters ? r : r * kQuarters / grid_.rows;
  }
  bool is_far_below(int64_t r, int64_t c) const {
    return quarter(r) % 2 == 1 || c >= (grid_.columns + 1) / 2;
  }
  // At 2^31 an exponent is not known to within its own size, so that nothing can be said of a softmax or of what it is a part of.
  double scale_below(int64_t r, int64_t c) const {
    return !is_far_below(r, c) ? 1 : family_ == Family::FarBelow ? far_below_ : below_;
  }

  double lowest() const { return kind() == ValuesKind::RealRange ? spec_.values.low : 0; }
  double highest() const { return kind() == ValuesKind::RealRange ? spec_.values.high : 1; }

  // `values` bounds what is legal, whatever the family asked for.
  double legal(double x) const {
    switch (kind()) {
      case ValuesKind::RealRange:
        return within(x, spec_.values.low, spec_.values.high);
      case ValuesKind::Positive:
        return within(std::abs(x), numerics::min_normal(format_), max_);
      case ValuesKind::Probabilities:
        return within(std::abs(x), 0, 1);
      default:
        return numerics::info(format_).is_signed
                   ? within(x, -max_, max_)
                   : within(std::abs(x), numerics::min_subnormal(format_), max_);
    }
  }

  // Rounding to the dtype may step over the edge: then the neighbour inside.
  double within(double x, double low, double high) const {
    x = std::clamp(x, low, high);
    const double nearest = contract::rounded(spec_.dtype, x);
    if (low <= nearest && nearest <= high) return nearest;
    uint64_t code =
        numerics::from_double(format_, x, numerics::Rounding::NearestEven, numerics::Saturation::Finite);
    if (numerics::to_double(format_, code) > high) code = numerics::next_down(format_, code);
    if (numerics::to_double(format_, code) < low) code = numerics::next_up(format_, code);
    return numerics::to_double(format_, code);
  }

  void put(int64_t at, double x) {
    const bool later = kind() == ValuesKind::Probabilities && normalised();
    if (later) {
      row_.resize(index(grid_.columns));
      row_[index(at % grid_.columns)] = std::abs(x);
    } else {
      tensor_.store(at, legal(x));
    }
  }

  bool normalised() const {
    return family_ != Family::Constant && family_ != Family::Zeros && family_ != Family::Extremes &&
           family_ != Family::Peaked;
  }

  void end_row(int64_t r) {
    if (row_.empty()) return;
    const double sum = std::accumulate(row_.begin(), row_.end(), 0.0);
    for (int64_t c = 0; c < grid_.columns; ++c) {
      tensor_.store(r * grid_.columns + c, legal(sum > 0 ? row_[index(c)] / sum : constant_));
    }
  }

  void inject() {
    const int64_t count = grid_.rows * grid_.columns;
    if (count == 0 || !is_nonfinite(family_)) return;
    constexpr double kInf = std::numeric_limits<double>::infinity();
    // Ends are where running maxima and tails begin: they get their share.
    const int64_t place = random_.between(0, kPlaces - 1);
    const int64_t at = place == kFirstPlace  ? 0
                       : place == kLastPlace ? count - 1
                                             : random_.between(0, count - 1);
    switch (family_) {
      case Family::NanElement:
        tensor_.store(at, std::nan(""));
        break;
      case Family::InfElement:
        for (const int64_t each : {int64_t{0}, at, count - 1}) store_infinity(each, kInf);
        break;
      case Family::NegInfElement:
        for (const int64_t each : {int64_t{0}, at, count - 1}) store_infinity(each, -kInf);
        break;
      case Family::InfPart:
      case Family::NegInfPart:
        for (int64_t each = grid_.rows / 2 * grid_.columns; each < count; ++each)
          store_infinity(each, family_ == Family::InfPart ? kInf : -kInf);
        break;
      case Family::AllInf:
      case Family::AllNegInf:
        for (int64_t each = 0; each < count; ++each)
          store_infinity(each, family_ == Family::AllInf ? kInf : -kInf);
        break;
      default: {
        const int64_t row = at / grid_.columns;
        for (int64_t c = 0; c < grid_.columns; ++c) tensor_.store(row * grid_.columns + c, std::nan(""));
      }
    }
  }
  // e4m3 has no infinity; NaN is its only value that is not finite.
  void store_infinity(int64_t at, double x) {
    const bool has = numerics::info(format_).has_infinity;
    tensor_.store(at, has ? x : std::nan(""));
    if (has && contract::info(spec_.dtype).saturates) {  // a store saturates; the code is legal all the same
      const uint64_t code = numerics::from_double(format_, x);
      tensor_.store_int(at, 0);
      *tensor_.at(at) = static_cast<std::byte>(code);
    }
  }

  const TensorSpec& spec_;
  Tensor& tensor_;
  Grid grid_;
  Family family_;
  Random random_;
  Normals normal_;
  numerics::Format format_;
  uint64_t salt_ = 0;
  std::vector<double> column_mean_, row_;
  double constant_ = 1, last_ = 0, max_ = 0, below_ = 1, far_below_ = 1;
  int precision_ = 8;
  int64_t peak_ = 0;
  int64_t level_ = 0;  // of this row
  int64_t ties_ = 0;   // the sign of this row's numbers beside 0; 0: both
};

}  // namespace

std::string_view to_string(Family family) {
  return family_info(family).name;
}
std::string_view describe(Family family) {
  return family_info(family).description;
}
bool family_named(std::string_view name, Family& family) {
  for (const FamilyInfo& f : kFamilies) {
    if (f.name == name) {
      family = f.family;
      return true;
    }
  }
  return false;
}
bool is_nonfinite(Family family) {
  return family == Family::NanElement || family == Family::NanRow || family == Family::InfElement ||
         family == Family::NegInfElement || family == Family::InfPart || family == Family::NegInfPart ||
         family == Family::AllInf || family == Family::AllNegInf;
}

namespace {

std::vector<Family> families_of_values(const TensorSpec& spec) {
  using enum Family;
  switch (spec.values.kind) {
    case ValuesKind::Real:
      return {Natural,       SameSign,   Negative, NonzeroMean, LargeMean,  Peaked,       Outliers,
              SmallIntegers, Cancelling, Constant, IndexCoded,  SmallScale, HeavyTail,    LargeScale,
              Ties,          Zeros,      Ramp,     Huge,        Subnormal,  NearOverflow, Levels};
    case ValuesKind::Activations:
      return {Natural,    SameSign,      Negative,   NonzeroMean, LargeMean,  Peaked,
              Outliers,   SmallIntegers, Cancelling, Constant,    IndexCoded, HeavyTail,
              SmallScale, Ties,          Zeros,      Ramp,        Levels};
    case ValuesKind::Gradients:
      return {Natural,    SameSign,  Negative, SmallScale, Outliers,   SmallIntegers,
              Cancelling, HeavyTail, Constant, Zeros,      IndexCoded, Subnormal};
    case ValuesKind::Weights:
      return {Natural,       SameSign, Negative, NonzeroMean, Outliers,
              SmallIntegers, Constant, Zeros,    IndexCoded,  SmallScale};
    case ValuesKind::Positive:
      return {Natural, Outliers, HeavyTail, SmallIntegers, Constant, SmallScale, LargeScale};
    case ValuesKind::Probabilities:
      return {Natural, HeavyTail, Peaked, Constant, Extremes, Zeros};
    case ValuesKind::RealRange:
      return {Natural, SameSign, Extremes, Constant, SmallIntegers, Ties, Peaked, SmallScale, Levels};
    case ValuesKind::Tokens:
      return {Zipf, OneValue, FewValues, Uniform, Permuted, Extremes};
    case ValuesKind::Index:
      return {Uniform, Permuted, FewValues, OneValue, Extremes, Zipf};
    case ValuesKind::Distinct:
      return {Permuted, Natural, Extremes};
    case ValuesKind::Slots:
      return {Permuted, Natural, Extremes, AllZeros};
    case ValuesKind::Mask:
      return {Uniform, Runs, AllOnes, AllZeros};
    case ValuesKind::Offsets:
      return {Natural, Uniform, EmptyParts, OnePart};
    case ValuesKind::Integers:
      return {Uniform, SmallIntegers, NearTop, Extremes, Largest, OneValue, FewValues, Zeros};
    case ValuesKind::Generated:
      return {Problem};
  }
  return {Natural};
}

}  // namespace

std::vector<Family> families_for(const TensorSpec& spec) {
  std::vector<Family> families = families_of_values(spec);
  const bool wide =
      contract::is_float(spec.dtype) && numerics::max_finite(contract::info(spec.dtype).format) >= kWideRange;
  if (wide && std::find(families.begin(), families.end(), Family::Negative) != families.end())
    families.push_back(Family::FarBelow);
  return families;
}

Result<Tensor> draw(const TensorSpec& spec, const contract::Shape& shape, Family family, uint64_t seed) {
  if (spec.values.kind == ValuesKind::Generated)
    return Error{fmt::format("the generator does not make `{}`, whose values only it knows", spec.name)};
  auto extents = spec.extents(shape);
  if (!extents) return extents.error();
  Tensor tensor = Tensor::zeros(spec.dtype, std::move(*extents));
  if (contract::is_float(spec.dtype)) {
    FloatDrawing(spec, tensor, family, seed).run();
    return tensor;
  }
  if (auto drawn = draw_integers(spec, shape, tensor, family, seed); !drawn) return drawn.error();
  return tensor;
}

}  // namespace assay::trial
