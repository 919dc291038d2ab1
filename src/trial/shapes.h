// Which values of a dim are worth trying: edges, the neighbours of vector widths, warps, tiles and
// blocks, primes.
#pragma once

#include <limits>
#include <vector>

#include "base/random.h"
#include "trial/trial.h"
#include "trial/work.h"

namespace assay::trial {

// The legal value of a dim nearest to `value`, not above it where that is possible.
int64_t snap(const contract::Dim& dim, int64_t value);

// Legal values in order of interest; none above `limit` unless it is the lowest.
std::vector<int64_t> interesting(const contract::Dim& dim, int64_t limit);

// Those where tails begin: the two smallest, and both sides of a warp and of the usual sizes of blocks.
std::vector<int64_t> tile_edges(const contract::Dim& dim);

// The shape itself, or one nearby where the contract's relations between dims exclude it.
contract::Shape near_legal(const contract::Contract& contract, const contract::Shape& shape);

// Every dim snapped to the same value, as far as relations between dims allow.
contract::Shape uniform_shape(const contract::Contract& contract, int64_t value);

// `shape` made to cost no more than the limits, by halving the larger dims, `keep` last. The flag says
// whether anything had to give.
struct Limits {
  double elements, bytes;
  double steps = std::numeric_limits<double>::infinity();
};
struct Fitted {
  contract::Shape shape;
  bool reduced = false;
  bool fits = true;  // false: even the smallest shape is larger, or none with `keep` as it is is legal
};
Fitted fit(const contract::Contract& contract, const Work& work, contract::Shape shape, const Limits& limits,
           std::string_view keep = "");
Fitted fit(const contract::Contract& contract, contract::Shape shape, double elements, double bytes,
           std::string_view keep = "");

// The largest leading extent of any tensor: as a rule a launch has that many blocks or threads.
int64_t leading_extent(const contract::Contract& contract, const contract::Shape& shape);

// Log-uniform over the promise, with a liking for interesting values.
contract::Shape random_shape(const contract::Contract& contract, Random& random, int64_t limit);

}  // namespace assay::trial
