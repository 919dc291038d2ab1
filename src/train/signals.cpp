#include "train/signals.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace assay::train {

Comparison compare(std::span<const float> g, std::span<const float> r) {
  double gr = 0, gg = 0, rr = 0, difference = 0;
  int64_t nonfinite = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    const auto a = static_cast<double>(g[i]), b = static_cast<double>(r[i]);
    if (!std::isfinite(a)) {
      ++nonfinite;
      continue;
    }
    gr += a * b;
    gg += a * a;
    rr += b * b;
    difference += (a - b) * (a - b);
  }
  Comparison result;
  result.norm = std::sqrt(rr);
  result.nonfinite = nonfinite;
  if (rr == 0) {  // a gradient that should be zero: any other is infinitely far off
    result.relative_error = difference == 0 ? 0 : std::numeric_limits<double>::infinity();
    return result;
  }
  result.gain = gr / rr;
  result.cosine = gg == 0 ? 0 : gr / std::sqrt(gg * rr);
  result.relative_error = std::sqrt(difference / rr);
  return result;
}

std::vector<SignalPlace> signal_places(const ModelSizes& sizes) {
  std::vector<SignalPlace> places = {{"loss of each token", "", -1}};
  const std::vector<Parameter> all = parameters(sizes);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].dims.back() > 0) places.push_back({all[i].name, "", static_cast<int>(i)});
  for (int64_t low = 1; low < sizes.tokens(); low *= 10)
    places.push_back(
        {all[0].name, fmt::format("tokens seen {} to {} times", low, 10 * low - 1), 0, low, 10 * low - 1});
  return places;
}

std::vector<Comparison> compare_all(const std::vector<SignalPlace>& places,
                                    const std::vector<std::vector<float>>& g,
                                    const std::vector<std::vector<float>>& r, const Batch& batch,
                                    const ModelSizes& sizes) {
  std::vector<int64_t> seen(static_cast<std::size_t>(sizes.vocabulary), 0);
  for (const int64_t token : batch.tokens) ++seen[static_cast<std::size_t>(token)];
  const auto width = static_cast<std::size_t>(sizes.width);
  std::vector<Comparison> comparisons;
  for (const SignalPlace& place : places) {
    const std::size_t at = place.parameter < 0 ? g.size() - 1 : static_cast<std::size_t>(place.parameter);
    if (place.high == 0) {
      comparisons.push_back(compare(g[at], r[at]));
      continue;
    }
    std::vector<float> some_g, some_r;
    for (std::size_t row = 0; row < seen.size(); ++row) {
      if (seen[row] < place.low || seen[row] > place.high) continue;
      const auto first = static_cast<std::ptrdiff_t>(row * width),
                 last = first + static_cast<std::ptrdiff_t>(width);
      some_g.insert(some_g.end(), g[at].begin() + first, g[at].begin() + last);
      some_r.insert(some_r.end(), r[at].begin() + first, r[at].begin() + last);
    }
    comparisons.push_back(compare(some_g, some_r));
  }
  return comparisons;
}

}  // namespace assay::train
