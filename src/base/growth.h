// Whether what is held after each of many equal calls shows a leak, rather than a cache that fills.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace assay {

// A leak grows in every quarter of the calls but the first, in which caches fill: rings of buffers, one
// workspace for each of several streams, a history that doubles. Fewer calls than this prove nothing.
inline constexpr std::size_t kGrowthQuarters = 4, kFewestForGrowth = 8 * kGrowthQuarters;

inline bool keeps_growing(std::span<const uint64_t> held) {
  if (held.size() < kFewestForGrowth) return false;
  const std::size_t quarter = held.size() / kGrowthQuarters;
  for (std::size_t i = 1; i < kGrowthQuarters; ++i)
    if (held[(i + 1) * quarter - 1] <= held[i * quarter - 1]) return false;
  return true;
}

// By how much per call, over the calls after the first quarter.
inline double growth_per_call(std::span<const uint64_t> held) {
  const std::size_t quarter = held.size() / kGrowthQuarters;
  return static_cast<double>(held.back() - held[quarter - 1]) / static_cast<double>(held.size() - quarter);
}

}  // namespace assay
