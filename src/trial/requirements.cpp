#include "trial/requirements.h"

#include <algorithm>

namespace assay::trial {

using State = Requirement::State;

std::string_view to_string(RequirementGroup group) {
  constexpr std::string_view kNames[] = {"conditions", "inputs", "corners", "edges",
                                         "thresholds", "giants", "shapes"};
  return kNames[static_cast<std::size_t>(group)];
}

void Requirements::add(RequirementGroup group, std::string text, std::function<bool(const Trial&)> met_by) {
  const bool known = std::any_of(all_.begin(), all_.end(), [&](const Requirement& requirement) {
    return requirement.group == group && requirement.text == text;
  });
  if (!known) all_.push_back({group, std::move(text), std::move(met_by)});
}

bool Requirements::wants(const Trial& trial) const {
  return std::any_of(all_.begin(), all_.end(),
                     [&](const Requirement& requirement) { return requirement.would_be_met_by(trial); });
}

void Requirements::meet(const Trial& trial) {
  for (Requirement& requirement : all_)
    if (requirement.would_be_met_by(trial)) requirement.state = State::Met;
}

void Requirements::waive(const Trial& trial, std::span<const Trial* const> left) {
  for (Requirement& requirement : all_) {
    if (!requirement.would_be_met_by(trial)) continue;
    const bool another = std::any_of(left.begin(), left.end(),
                                     [&](const Trial* other) { return requirement.would_be_met_by(*other); });
    if (!another) requirement.state = State::Waived;
  }
}

Requirements::Count Requirements::count(std::optional<RequirementGroup> group) const {
  Count count;
  for (const Requirement& requirement : all_) {
    if (group && requirement.group != *group) continue;
    count.met += requirement.state == State::Met;
    count.of += requirement.state != State::Waived;
  }
  return count;
}

std::vector<const Requirement*> Requirements::open() const {
  std::vector<const Requirement*> found;
  for (const Requirement& requirement : all_)
    if (requirement.state == State::Open) found.push_back(&requirement);
  return found;
}

}  // namespace assay::trial
