#include "trial/shapes.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "contract/legal_shape.h"

namespace assay::trial {

using contract::Contract;
using contract::Dim;
using contract::Shape;

namespace {

// Sizes around which tails begin: a warp, and usual sizes of tiles and blocks. Pinned by
// Shapes.InterestingValuesHoldTheEdges and
// Requirements.NameEveryConditionEveryFamilyAndBothSidesOfAWarp (tests/trial).
constexpr int64_t kTileWidths[] = {32, 128, 256, 1024};

// Sizes that are tried with both of their neighbours, in order of interest: powers of two, three times powers
// of two, and primes. Chosen.
constexpr int64_t kCentres[] = {1,   2,    3,    4,    8,    16,    32,    64,    128,   256,  512,
                                7,   13,   61,   127,  431,  48,    96,    192,   384,   1024, 2048,
                                768, 1536, 4096, 8192, 1021, 16384, 32768, 65536, 131072};

// Halvings before a shape is taken not to fit. Each dim has 63 at most, so it takes more than six of them to
// need as many.
constexpr int kMostHalvings = 400;

// Of the dims of a random shape, those that take an interesting value. Chosen.
constexpr double kInterestingShare = 0.4;
// Of the others, those that are an odd multiple of a power of two, and the largest exponent: vectors and tiles care how
// often a size divides by two, and of sizes drawn at random few do so three times or more. Chosen.
constexpr double kEvenShare = 0.5;
constexpr int64_t kMostTwos = 7;

}  // namespace

int64_t snap(const Dim& dim, int64_t value) {
  const int64_t low = dim.lowest(), high = dim.highest();
  value = std::clamp(value, low, high);
  return low + (value - low) / dim.multiple_of * dim.multiple_of;
}

std::vector<int64_t> interesting(const Dim& dim, int64_t limit) {
  std::vector<int64_t> values;
  const auto add = [&](int64_t value) {
    if (value > limit && value != dim.lowest()) return;
    if (dim.contains(value) && std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
  };
  add(dim.lowest());
  add(dim.lowest() + dim.multiple_of);
  for (const int64_t centre : kTileWidths) {
    for (const int64_t step : {1, -1, 0}) add(snap(dim, centre) + step * dim.multiple_of);
  }
  for (const int64_t centre : kCentres) {
    for (const int64_t step : {0, 1, -1}) add(snap(dim, centre) + step * dim.multiple_of);
  }
  add(dim.highest());
  add(dim.highest() - dim.multiple_of);
  return values;
}

std::vector<int64_t> tile_edges(const Dim& dim) {
  std::vector<int64_t> values;
  const auto add = [&](int64_t value) {
    if (dim.contains(value) && std::find(values.begin(), values.end(), value) == values.end())
      values.push_back(value);
  };
  add(dim.lowest());
  add(dim.lowest() + dim.multiple_of);
  for (const int64_t centre : kTileWidths) {
    for (const int64_t step : {1, -1}) add(snap(dim, centre) + step * dim.multiple_of);
  }
  return values;
}

Shape near_legal(const Contract& contract, const Shape& shape) {
  return contract::legal_shape(contract, shape).value_or(shape);
}

Shape uniform_shape(const Contract& contract, int64_t value) {
  Shape shape;
  for (const Dim& dim : contract.dims) shape[dim.name] = snap(dim, value);
  return near_legal(contract, shape);
}

Fitted fit(const Contract& contract, Shape shape, double elements, double bytes, std::string_view keep) {
  return fit(contract, Work(contract), std::move(shape), {elements, bytes}, keep);
}

Fitted fit(const Contract& contract, const Work& work, Shape shape, const Limits& limits,
           std::string_view keep) {
  Fitted fitted{std::move(shape), false, true};
  // Dims that relations tie to one that changed follow it.
  const auto settle = [&] {
    std::optional<Shape> legal = contract::legal_shape(contract, fitted.shape, keep);
    fitted.fits = legal.has_value();
    if (legal) fitted.shape = std::move(*legal);
    return fitted.fits;
  };
  if (!settle()) return fitted;
  for (int round = 0; round < kMostHalvings; ++round) {
    const auto size = work.of(fitted.shape);
    if (!size) {
      fitted.fits = false;
      return fitted;
    }
    if (size->elements <= limits.elements && size->bytes <= limits.bytes && size->steps <= limits.steps) {
      return fitted;
    }
    const Dim* largest = nullptr;
    for (const Dim& dim : contract.dims) {
      const int64_t value = fitted.shape[dim.name];
      if (value <= dim.lowest() || dim.name == keep) continue;
      if (!largest || value > fitted.shape[largest->name]) largest = &dim;
    }
    if (!largest && !keep.empty()) {
      largest = contract.dim(keep);
      if (largest && fitted.shape[largest->name] <= largest->lowest()) largest = nullptr;
    }
    if (!largest) {
      fitted.fits = false;
      return fitted;
    }
    const Shape before = fitted.shape;
    fitted.shape[largest->name] = snap(*largest, fitted.shape[largest->name] / 2);
    fitted.reduced = true;
    if (!settle()) return fitted;
    if (fitted.shape == before) {  // a relation undoes every halving
      fitted.fits = false;
      return fitted;
    }
  }
  fitted.fits = false;
  return fitted;
}

int64_t leading_extent(const Contract& contract, const Shape& shape) {
  int64_t most = 0;
  for (const contract::TensorSpec& spec : contract.tensors) {
    if (spec.shape.size() < 2) continue;
    if (const auto n = spec.shape.front().eval(shape)) most = std::max(most, *n);
  }
  return most;
}

Shape random_shape(const Contract& contract, Random& random, int64_t limit) {
  Shape shape;
  for (const Dim& dim : contract.dims) {
    const int64_t high = std::max(dim.lowest(), std::min(dim.highest(), limit));
    if (random.chance(kInterestingShare)) {
      const std::vector<int64_t> values = interesting(dim, high);
      shape[dim.name] =
          values[static_cast<std::size_t>(random.between(0, static_cast<int64_t>(values.size()) - 1))];
    } else {
      const double low_log = std::log(static_cast<double>(dim.lowest()) + 1),
                   high_log = std::log(static_cast<double>(high) + 1);
      int64_t value =
          static_cast<int64_t>(std::exp(random.uniform(low_log, high_log))) - 1 + random.between(0, 1);
      if (random.chance(kEvenShare)) {
        const int64_t twos = random.between(1, kMostTwos);
        if (value >> twos > 0) value = (value >> twos | 1) << twos;
      }
      shape[dim.name] = snap(dim, value);
    }
  }
  return near_legal(contract, shape);
}

}  // namespace assay::trial
