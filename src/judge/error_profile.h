// How large the errors of many elements are beside the noise of rounding: what a check records, and what production is
// compared with.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

#include "judge/measure.h"

namespace assay::judge {

struct ErrorProfile {
  // Of |error| / sigma (measure.h).
  static constexpr std::array<double, 8> kEdges = {0.5, 1, 1.5, 2, 3, 4, 6, 10};

  int64_t elements = 0;  // that take part in statistics
  std::array<int64_t, kEdges.size()> beyond{};

  void add(const Element& element) {
    if (!element.counts) return;
    ++elements;
    for (std::size_t i = 0; i < kEdges.size(); ++i) beyond[i] += std::abs(element.z) > kEdges[i];
  }
  void add(const ErrorProfile& other) {
    elements += other.elements;
    for (std::size_t i = 0; i < kEdges.size(); ++i) beyond[i] += other.beyond[i];
  }
  double share(std::size_t edge) const {
    return elements == 0 ? 0 : static_cast<double>(beyond[edge]) / static_cast<double>(elements);
  }
};

}  // namespace assay::judge
