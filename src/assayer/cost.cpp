#include "assayer/cost.h"

#include <algorithm>

namespace assay::assayer {

namespace {

// All chosen.
constexpr double kOverhead = 0.02;      // seconds of a trial that computes nothing
constexpr double kOrdinaryRate = 5e-7;  // seconds a step, before anything was measured
constexpr double kLeastSteps = 5e3;     // of a trial whose time tells anything about the rate
constexpr double kLeastSeconds = 1e-4;  // of a trial's own, however close it is to the overhead

const std::pair<const std::string, int64_t>* largest(const contract::Shape& shape) {
  const auto it = std::max_element(shape.begin(), shape.end(),
                                   [](const auto& a, const auto& b) { return a.second < b.second; });
  return it == shape.end() ? nullptr : &*it;
}

}  // namespace

void Cost::learn(const contract::Shape& shape, double seconds) {
  const auto size = work_.of(shape);
  const auto* dim = largest(shape);
  if (!size || !dim || size->steps < kLeastSteps) return;
  seconds = std::max(seconds - kOverhead, kLeastSeconds);
  Rate& rate = rates_[dim->first];
  const double per_unit = seconds / static_cast<double>(dim->second);
  rate.per_unit = rate.steps == 0 ? per_unit : std::min(rate.per_unit, per_unit);
  if (size->steps >= rate.steps) {
    rate.steps = size->steps;
    rate.per_step = seconds / size->steps;
  }
}

bool Cost::knows(const contract::Shape& shape) const {
  const auto* dim = largest(shape);
  return dim && rates_.contains(dim->first);
}

double Cost::predict(const contract::Shape& shape) const {
  const auto size = work_.of(shape);
  const auto* dim = largest(shape);
  if (!size || !dim) return 0;
  const auto known = rates_.find(dim->first);
  if (known == rates_.end()) return kOverhead + size->steps * kOrdinaryRate;
  const Rate& rate = known->second;
  return kOverhead + std::max(size->steps * rate.per_step, static_cast<double>(dim->second) * rate.per_unit);
}

}  // namespace assay::assayer
