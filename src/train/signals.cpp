#include "train/signals.h"

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

}  // namespace assay::train
