// How far a check stayed from each threshold that decided something: what `assay corpus --gates` records and the tables of
// docs/numerics.md show.
//
// Example:
//
//     Margins margins;
//     const double correlation = 0.9, distance = 0.1;
//     const Condition conditions[] = {at_least(Gate::Sure, correlation, 0.85),
//                                     at_most(Gate::Coherence, distance, 0.3)};
//     if (all_hold(conditions, margins)) use(margins.of(Gate::Sure).beyond);
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>

namespace assay::judge {

enum class Gate : uint8_t {
#define ASSAY_GATE(name, constant, decides, what) name,
#include "judge/gates.def"
#undef ASSAY_GATE
};

// The constant that a gate compares with: "kBoundGate".
std::string_view constant_of(Gate gate);

// Measured values as shares of the threshold. None: 0 and infinity.
struct Margin {
  double below = 0;                                         // the largest that stayed below
  double beyond = std::numeric_limits<double>::infinity();  // the smallest that went beyond
  double largest = 0;                                       // of all
  bool measured() const { return below > 0 || largest > 0; }
};

class Margins {
 public:
  static constexpr std::size_t kGates =
      std::initializer_list<Gate>{
#define ASSAY_GATE(name, constant, decides, what) Gate::name,
#include "judge/gates.def"
#undef ASSAY_GATE
      }
          .size();

  void add(Gate gate, double share, bool beyond);
  void add(const Margins& others);
  const Margin& of(Gate gate) const {
    return margins_[static_cast<std::size_t>(gate)];
  }

 private:
  std::array<Margin, kGates> margins_;
};

// One of several conditions that something needs.
struct Condition {
  Gate gate;
  double share = 0;
  bool beyond = false, holds = false;
};
Condition at_least(Gate gate, double value, double threshold);
Condition at_most(Gate gate, double value, double threshold);

// Adds those that decide: all if all hold, the failing one if a single one fails, and none if several do.
bool all_hold(std::span<const Condition> conditions, Margins& margins);

}  // namespace assay::judge
