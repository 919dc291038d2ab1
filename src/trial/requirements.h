// What a pass requires: the least that has to be tried before "nothing was found" says something.
//
//   conditions  every kind of condition that the plan holds: each shows defects that no other shows
//   inputs      every family of inputs, and a NaN and an infinity in every input that may hold them
//   corners     every dim at its smallest and at its largest, the smallest shape, and a large one
//   edges       every dim on both sides of a vector, a warp and the usual sizes of blocks: where tails begin
//   thresholds  every dim at the constants that the kernel's code compares sizes with and on both sides of them, with the
//               remainders that it asks for; the cheapest shapes in which two dims are at theirs
//   giants      the corners of the promise that are too large to be run whole, by a sample of the blocks
//   shapes      the contract's own
//
// "Largest" is within limits that depend on the contract alone (plan_stages.cpp), so that the same check
// requires the same on every machine; what was promised beyond is named as not covered.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trial/trial.h"

namespace assay::trial {

enum class RequirementGroup : uint8_t { Conditions, Inputs, Corners, Edges, Thresholds, Giants, Shapes };
std::string_view to_string(RequirementGroup group);  // "conditions"

struct Requirement {
  RequirementGroup group{};
  std::string text;                          // "rows = 33"
  std::function<bool(const Trial&)> met_by;  // by a trial that was run and judged
  enum class State : uint8_t { Open, Met, Waived } state = State::Open;

  // Of a trial of which a sample of the blocks is run nothing else is learnt.
  bool would_be_met_by(const Trial& trial) const {
    return state == State::Open && (group == RequirementGroup::Giants) == trial.sampled && met_by(trial);
  }
};

class Requirements {
 public:
  // A second one of the same group and text is the same requirement.
  void add(RequirementGroup group, std::string text, std::function<bool(const Trial&)> met_by);

  // Whether the trial would meet one that is open.
  bool wants(const Trial& trial) const;
  // A trial was judged.
  void meet(const Trial& trial);
  // A trial cannot be made here at all: what only it could have met is not required.
  void waive(const Trial& trial, std::span<const Trial* const> left);

  struct Count {
    std::size_t met = 0, of = 0;
  };
  Count count(std::optional<RequirementGroup> group = std::nullopt) const;
  std::vector<const Requirement*> open() const;

 private:
  std::vector<Requirement> all_;
};

}  // namespace assay::trial
