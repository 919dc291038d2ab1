// How many calls pass until the next sample: random, so that no pattern of the application (a layer count, say) decides
// which calls are seen. Every call is sampled with the same probability, 1 / mean, independently of all others.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace assay::monitor {

// At least 1: the next call. `uniform` is in [0, 1).
inline int64_t gap(double uniform, int64_t mean) {
  if (mean <= 1) return 1;
  constexpr double kLongest = 1e15;
  const double drawn = std::log1p(-uniform) / std::log1p(-1.0 / static_cast<double>(mean));
  return 1 + static_cast<int64_t>(std::min(std::floor(drawn), kLongest));
}

}  // namespace assay::monitor
