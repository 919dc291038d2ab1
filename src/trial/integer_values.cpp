#include "trial/integer_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "trial/extremes_at_ends.h"

namespace assay::trial {

using contract::Tensor;
using contract::TensorSpec;
using contract::ValuesKind;

namespace {

// What the families of integers are made of. Where no reason is given, the number was chosen, and no test pins it. All
// that is drawn must be legal: IntegerValues.AreLegalInEveryFamily (tests/trial/trial_test.cpp).
constexpr int kMostRangeBits = 62;  // of a range that values are scattered over; larger ones in part
constexpr int64_t kFewValues = 5;
constexpr int64_t kTopPart =
    16;  // one of so many parts of the range; pinned by IntegerValues.NearTopMakesTheLargestSums
constexpr int64_t kRoomForEnds = 16;   // elements from which both ends of the range are always there
constexpr double kEmptyShare = 0.6;    // of the segments, where many are empty
constexpr double kMissingShare = 0.1;  // of the slots that are -1

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
void draw_from_range(Tensor& tensor, Family family, Random& random, int64_t low, int64_t high) {
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

}  // namespace

Result<void> draw_integers(const TensorSpec& spec, const contract::Shape& shape, Tensor& tensor,
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
      draw_from_range(tensor, words ? Family::Zipf : family, random, 0, std::max<int64_t>(*n - 1, 0));
      return {};
    }
    case ValuesKind::Integers: {
      const auto low = values.a.eval(shape), high = values.b.eval(shape);
      if (!low) return low.error();
      if (!high) return high.error();
      if (*low > *high && tensor.count() > 0) {
        return Error{fmt::format("tensor {}: {} has no legal value", spec.name, values.text)};
      }
      draw_from_range(tensor, family, random, *low, *high);
      if (family == Family::Uniform || family == Family::Natural)
        ExtremesAtEnds(
            tensor.extents, false, random, [&](int64_t at) { return tensor.load_int(at); },
            [&](int64_t at, int64_t x) { tensor.store_int(at, x); })
            .run(random.between(0, 1));
      return {};
    }
    default:
      draw_from_range(tensor, family, random, 0, 1);
      return {};
  }
}

}  // namespace assay::trial
