#include "judge/gates.h"

#include <algorithm>
#include <cmath>

namespace assay::judge {

std::string_view constant_of(Gate gate) {
  static constexpr std::string_view kConstants[] = {
#define ASSAY_GATE(name, constant, decides, what) constant,
#include "judge/gates.def"
#undef ASSAY_GATE
  };
  return kConstants[static_cast<std::size_t>(gate)];
}

void Margins::add(Gate gate, double share, bool beyond) {
  if (std::isnan(share)) return;
  Margin& margin = margins_[static_cast<std::size_t>(gate)];
  margin.largest = std::max(margin.largest, share);
  if (beyond) {
    margin.beyond = std::min(margin.beyond, share);
  } else {
    margin.below = std::max(margin.below, share);
  }
}

void Margins::add(const Margins& others) {
  for (std::size_t i = 0; i < kGates; ++i) {
    const Margin& other = others.margins_[i];
    margins_[i].below = std::max(margins_[i].below, other.below);
    margins_[i].beyond = std::min(margins_[i].beyond, other.beyond);
    margins_[i].largest = std::max(margins_[i].largest, other.largest);
  }
}

Condition at_least(Gate gate, double value, double threshold) {
  const bool holds = value >= threshold;
  return {gate, value / threshold, holds, holds};
}

Condition at_most(Gate gate, double value, double threshold) {
  const bool holds = value <= threshold;
  return {gate, value / threshold, !holds, holds};
}

bool all_hold(std::span<const Condition> conditions, Margins& margins) {
  const auto failing = std::ranges::count(conditions, false, &Condition::holds);
  for (const Condition& condition : conditions)
    if (failing == 0 || (failing == 1 && !condition.holds))
      margins.add(condition.gate, condition.share, condition.beyond);
  return failing == 0;
}

}  // namespace assay::judge
