#include "trial/families.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/random.h"

namespace assay::trial {

using contract::DType;
using contract::Tensor;
using contract::TensorSpec;
using contract::ValuesKind;

namespace {

// What the families are made of. Where no reason is given, the number was chosen, and no test pins it. All
// that is drawn must be legal: FloatValues.AreLegalInEveryFamilyAndDtype and
// IntegerValues.AreLegalInEveryFamily (tests/trial/trial_test.cpp).

// Floats. Factors are of a natural number, summands are added to it; noise has a standard deviation of 1.
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
constexpr double kTailWidth = 2;                        // standard deviation of the natural log of magnitudes
constexpr double kSharpWidth = 8;                       // the same of probabilities: those of a sharp softmax
constexpr double kPeak = 16;                            // above the rest of the row
constexpr int64_t kMostTie = 1, kMostSmallInteger = 4;  // the negative of it is the least
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
// Extremes are moved to the ends: of so many lines of elements along each dim, evenly, and of all elements of the last dims
// together, as far as that takes no more than so many looks at an element. Chosen: a small part of what drawing them costs.
constexpr int64_t kLinesWithEnds = 512, kLooksForEnds = int64_t{1} << 20;
constexpr int64_t kTail = 32;  // elements of a line that are its tail: a warp
constexpr int64_t kFewEqual =
    16;  // one of so many elements of a line, at most, equals its extreme and is changed

// Integers.
constexpr int kMostRangeBits = 62;  // of a range that values are scattered over; larger ones in part
constexpr int64_t kFewValues = 5;
constexpr int64_t kTopPart =
    16;  // one of so many parts of the range; pinned by IntegerValues.NearTopMakesTheLargestSums
constexpr int64_t kRoomForEnds = 16;   // elements from which both ends of the range are always there
constexpr double kEmptyShare = 0.6;    // of the segments, where many are empty
constexpr double kMissingShare = 0.1;  // of the slots that are -1

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

// Moves elements, so that the largest and the smallest are where a kernel that leaves out a tail, or starts at the second
// element, does not see them. Lines along each dim take turns: the largest last and the smallest first; the other way
// round; both somewhere in the tail; neither. Then, for what is reduced over several dims at once, all elements of the last
// dims together: their largest, or smallest, comes last.
template <class Load, class Store>
class ExtremesAtEnds {
 public:
  // rows_add_up: what the numbers of a row come to must stay as it is.
  ExtremesAtEnds(const std::vector<int64_t>& extents, bool rows_add_up, Random& random, Load load,
                 Store store)
      : extents_(extents),
        rows_add_up_(rows_add_up),
        random_(random),
        load_(std::move(load)),
        store_(std::move(store)) {}

  void run(int64_t first_turn) {
    int64_t count = 1;
    for (const int64_t extent : extents_) count *= extent;
    if (count < 2) return;
    int64_t inner = count;
    for (const int64_t length : extents_) {
      inner /= length;
      if (length > 1 && (inner == 1 || !rows_add_up_)) along(length, inner, count / length, first_turn);
    }
    if (rows_add_up_) return;
    int64_t together = 1;
    for (std::size_t dim = extents_.size(); dim-- > 0;) {
      together *= extents_[dim];
      if (dim + 1 == extents_.size() || extents_[dim] < 2) continue;
      for (int64_t turn = first_turn, first = 0; first < count && looks_ > 0; first += together, ++turn) {
        const Line line{first, 1, together};
        move(line, extreme(line, turn % 2 == 0), first + together - 1, turn % 2 == 0);
      }
    }
  }

 private:
  using Number = decltype(std::declval<Load>()(int64_t{0}));
  struct Line {
    int64_t first, step, length;
    int64_t at(int64_t k) const { return first + k * step; }
    int64_t last() const { return at(length - 1); }
  };

  void along(int64_t length, int64_t inner, int64_t lines, int64_t first_turn) {
    const int64_t between = std::max<int64_t>(1, lines / kLinesWithEnds);
    for (int64_t turn = first_turn, n = 0; n < lines && looks_ > 0; n += between, ++turn) {
      const Line line{n / inner * length * inner + n % inner, inner, length};
      const auto in_tail = [&] {
        return line.at(length - 1 - random_.between(0, std::min(kTail, length) - 1));
      };
      if (turn % 4 == 3) continue;
      const int64_t for_largest = turn % 4 == 0 ? line.last() : turn % 4 == 1 ? line.first : in_tail();
      const int64_t for_smallest = turn % 4 == 0 ? line.first : turn % 4 == 1 ? line.last() : in_tail();
      if (for_smallest != for_largest) move(line, extreme(line, false), for_smallest, false);
      move(line, extreme(line, true), for_largest, true);
    }
  }

  int64_t extreme(const Line& line, bool largest) {
    looks_ -= line.length;
    int64_t found = line.first;
    Number best = load_(found);
    for (int64_t k = 1; k < line.length; ++k) {
      const Number x = load_(line.at(k));
      if (largest ? x > best : x < best) {
        best = x;
        found = line.at(k);
      }
    }
    return found;
  }

  // Few others that are equal become the next value, so that no other element stands in for it.
  void move(const Line& line, int64_t from, int64_t to, bool largest) {
    const Number best = load_(from);
    store_(from, load_(to));
    store_(to, best);
    if (rows_add_up_) return;
    looks_ -= line.length;
    std::vector<int64_t> equal;
    bool is_there = false;
    Number next{};
    for (int64_t k = 0; k < line.length; ++k) {
      const int64_t at = line.at(k);
      const Number x = load_(at);
      if (x == best) {
        if (at != to) equal.push_back(at);
      } else if (!is_there || (largest ? x > next : x < next)) {
        next = x;
        is_there = true;
      }
      if (static_cast<int64_t>(equal.size()) * kFewEqual > line.length) return;
    }
    if (is_there)
      for (const int64_t at : equal) store_(at, next);
  }

  const std::vector<int64_t>& extents_;
  bool rows_add_up_;
  Random& random_;
  Load load_;
  Store store_;
  int64_t looks_ = kLooksForEnds;
};

// ---- floats -----------------------------------------------------------------------------------

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
  int64_t ties_ = 0;  // the sign of this row's numbers beside 0; 0: both
};

// ---- integers ---------------------------------------------------------------------------------

int64_t stride_for(int64_t n, Random& random) {
  if (n <= 2) return 1;
  int64_t stride = random.between(1, n - 1);
  while (std::gcd(stride, n) != 1) stride = stride % (n - 1) + 1;
  return stride;
}

int64_t multiply_mod(int64_t a, int64_t b, int64_t n) {
  return static_cast<int64_t>(static_cast<numerics::uint128>(a) * static_cast<numerics::uint128>(b) %
                              static_cast<numerics::uint128>(n));
}

// low <= x <= high in every element.
void draw_integers(Tensor& tensor, Family family, Random& random, int64_t low, int64_t high) {
  const int64_t count = tensor.count();
  const auto span = static_cast<uint64_t>(high) - static_cast<uint64_t>(low);
  const int64_t n =
      span >= (uint64_t{1} << kMostRangeBits) ? int64_t{1} << kMostRangeBits : static_cast<int64_t>(span) + 1;
  const int64_t stride = stride_for(n, random), start = random.between(0, n - 1);
  const auto scattered = [&](int64_t rank) { return low + (multiply_mod(rank % n, stride, n) + start) % n; };
  const int64_t few = std::min(n, kFewValues);
  // Runs are of any length up to half of all, each order of magnitude as often as any other.
  const double longest = std::max(1.0, static_cast<double>(count) / 2);
  int64_t run = 0, held = low;
  for (int64_t i = 0; i < count; ++i) {
    int64_t x = low;
    switch (family) {
      case Family::Zipf:
        x = scattered(static_cast<int64_t>(std::exp(random.uniform() * std::log1p(static_cast<double>(n)))) -
                      1);
        break;
      case Family::OneValue:
        x = scattered(0);
        break;
      case Family::FewValues:
        x = scattered(random.between(0, few - 1));
        break;
      case Family::Permuted:
        x = scattered(i);
        break;
      case Family::NearTop:
        x = high - random.between(0, (n - 1) / kTopPart);
        break;
      case Family::Extremes:
        x = random.chance(0.5) ? low : high;
        break;
      case Family::Largest:
        x = low < 0 && -(low + 1) >= high ? low : high;
        break;
      case Family::Runs:
        if (run == 0) {
          run = std::max<int64_t>(1, static_cast<int64_t>(std::exp(random.uniform() * std::log(longest))));
          held = random.between(low, high);
        }
        --run;
        x = held;
        break;
      case Family::AllZeros:
      case Family::Zeros:
        x = std::clamp<int64_t>(0, low, high);
        break;
      case Family::AllOnes:
        x = std::clamp<int64_t>(1, low, high);
        break;
      case Family::SmallIntegers:
        x = std::clamp<int64_t>(random.between(-kMostSmallInteger, kMostSmallInteger), low, high);
        break;
      default:
        x = random.between(low, high);
    }
    tensor.store_int(i, x);
  }
  // Both ends of the range are always there when there is room.
  const bool ends = family == Family::Uniform || family == Family::Zipf || family == Family::Natural;
  if (ends && count >= kRoomForEnds && n > 1) {
    tensor.store_int(random.between(0, count / 2 - 1), low);
    tensor.store_int(random.between(count / 2, count - 1), high);
  }
}

// Different indices below n: scattered, in order from anywhere, or the last ones; -1 for those that are left, and for
// some where it is legal.
void draw_distinct(Tensor& tensor, Family family, Random& random, int64_t n, bool may_miss) {
  const int64_t stride = stride_for(std::max<int64_t>(n, 1), random),
                start = n > 0 ? random.between(0, n - 1) : 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    int64_t x = i;
    if (family == Family::Extremes)
      x = n - 1 - i;
    else if (n > 0)
      x = ((family == Family::Permuted ? multiply_mod(i % n, stride, n) : i) + start) % n;
    const bool missing = i >= n || family == Family::AllZeros || (may_miss && random.chance(kMissingShare));
    tensor.store_int(i, missing && may_miss ? -1 : x);
  }
}

Result<void> draw_offsets(const TensorSpec& spec, Tensor& tensor, Family family, Random& random,
                          int64_t total) {
  const int64_t count = tensor.count();
  if (count == 0) return {};
  if (count == 1 && total != 0) {
    return Error{
        fmt::format("tensor {}: one offset cannot be both the first, 0, and the last, {}", spec.name, total)};
  }
  std::vector<int64_t> cuts(static_cast<std::size_t>(count), 0);
  for (std::size_t i = 1; i + 1 < cuts.size(); ++i) {
    switch (family) {
      case Family::EmptyParts:
        cuts[i] = random.chance(kEmptyShare) ? cuts[i - 1] : random.between(0, total);
        break;
      case Family::OnePart:
        cuts[i] = i * 2 < cuts.size() ? 0 : total;
        break;
      case Family::Uniform:
        cuts[i] = total * static_cast<int64_t>(i) / (count - 1);
        break;
      default:
        cuts[i] = random.between(0, total);
    }
  }
  if (count > 1) cuts.back() = total;
  std::sort(cuts.begin(), cuts.end());
  for (int64_t i = 0; i < count; ++i) tensor.store_int(i, cuts[static_cast<std::size_t>(i)]);
  return {};
}

Result<void> draw_integer_tensor(const TensorSpec& spec, const contract::Shape& shape, Tensor& tensor,
                                 Family family, uint64_t seed) {
  Random random(seed);
  const contract::Values& values = spec.values;
  switch (values.kind) {
    case ValuesKind::Distinct:
    case ValuesKind::Slots: {
      const auto n = values.a.eval(shape);
      if (!n) return n.error();
      if (values.kind == ValuesKind::Distinct && tensor.count() > *n)
        return Error{fmt::format("tensor {}: there are no {} different indices below {}", spec.name,
                                 tensor.count(), *n)};
      draw_distinct(tensor, family, random, *n, values.kind == ValuesKind::Slots);
      return {};
    }
    case ValuesKind::Index:
    case ValuesKind::Tokens:
    case ValuesKind::Offsets: {
      const auto n = values.a.eval(shape);
      if (!n) return n.error();
      if (values.kind == ValuesKind::Offsets) return draw_offsets(spec, tensor, family, random, *n);
      if (*n <= 0 && tensor.count() > 0) {
        return Error{
            fmt::format("tensor {}: {} has no legal value when N is {}", spec.name, values.text, *n)};
      }
      const bool words = values.kind == ValuesKind::Tokens && family == Family::Natural;
      draw_integers(tensor, words ? Family::Zipf : family, random, 0, std::max<int64_t>(*n - 1, 0));
      return {};
    }
    case ValuesKind::Integers: {
      const auto low = values.a.eval(shape), high = values.b.eval(shape);
      if (!low) return low.error();
      if (!high) return high.error();
      if (*low > *high && tensor.count() > 0) {
        return Error{fmt::format("tensor {}: {} has no legal value", spec.name, values.text)};
      }
      draw_integers(tensor, family, random, *low, *high);
      if (family == Family::Uniform || family == Family::Natural)
        ExtremesAtEnds(
            tensor.extents, false, random, [&](int64_t at) { return tensor.load_int(at); },
            [&](int64_t at, int64_t x) { tensor.store_int(at, x); })
            .run(random.between(0, 1));
      return {};
    }
    default:
      draw_integers(tensor, family, random, 0, 1);
      return {};
  }
}

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
      return {Natural,       SameSign,   Negative, NonzeroMean, LargeMean,  Peaked,      Outliers,
              SmallIntegers, Cancelling, Constant, IndexCoded,  SmallScale, HeavyTail,   LargeScale,
              Ties,          Zeros,      Ramp,     Huge,        Subnormal,  NearOverflow};
    case ValuesKind::Activations:
      return {Natural,    SameSign, Negative,   NonzeroMean, LargeMean,  Peaked, Outliers, SmallIntegers,
              Cancelling, Constant, IndexCoded, HeavyTail,   SmallScale, Ties,   Zeros,    Ramp};
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
      return {Natural, SameSign, Extremes, Constant, SmallIntegers, Ties, Peaked, SmallScale};
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
  if (auto drawn = draw_integer_tensor(spec, shape, tensor, family, seed); !drawn) return drawn.error();
  return tensor;
}

}  // namespace assay::trial
