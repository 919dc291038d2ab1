// Kernels in the declared precision against what the reference expects of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "operators.h"

namespace assay::reference::testing {

using Floats = std::vector<float>;

inline Floats floats_of(const Bindings& bindings, const std::string& name) {
  Floats list;
  for (const double value : bindings.inputs.at(name)->to_doubles()) list.push_back(static_cast<float>(value));
  return list;
}

inline float bf16(float x) {
  return static_cast<float>(rounded(DType::bf16, x));
}

// How far stored results are from what the reference expects.
struct Outcome {
  int outside = 0;
  double rms = 0;      // of z, over elements with a deviation
  double largest = 0;  // |z|
};

inline Outcome judged(const Expectation& e, const std::vector<float>& got) {
  Outcome outcome;
  double squares = 0;
  int count = 0;
  for (std::size_t i = 0; i < e.size(); ++i) {
    const double stored = rounded(e.dtype, got[i]);
    outcome.outside += !e.admits(i, stored);
    if (e.sigma[i] == 0 || (e.flags[i] & (kUndecided | kCoherent)) != 0) continue;
    const double z = (stored - e.value[i]) / e.sigma[i];
    squares += z * z;
    outcome.largest = std::max(outcome.largest, std::abs(z));
    ++count;
  }
  outcome.rms = count > 0 ? std::sqrt(squares / count) : 0;
  return outcome;
}

}  // namespace assay::reference::testing
