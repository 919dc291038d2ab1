#include "assayer/timeline.h"

#include <nlohmann/json.hpp>

namespace assay::assayer {

namespace {

constexpr int64_t kMostSteps = 10'000'000;
constexpr int kOutOfTime = -1;  // in place of how many were passed over

}  // namespace

// {"steps": [[0, 35], [1, 4]], "slow": {"12": "…"}, "settled": [[-1, 20]]}: runs of equal steps; what
// followed each failure.
Json Timeline::json() const {
  Json json, runs = Json::array(), slow = Json::object();
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const int value = steps_[i].out_of_time ? kOutOfTime : steps_[i].passed_over;
    if (!runs.empty() && runs.back()[0] == value) {
      runs.back()[1] = runs.back()[1].get<int64_t>() + 1;
    } else {
      runs.push_back({value, 1});
    }
    if (!steps_[i].slow.empty()) slow[std::to_string(i)] = steps_[i].slow;
  }
  json["steps"] = runs;
  if (!slow.empty()) json["slow"] = slow;
  json["settled"] = Json::array();
  for (const Settled& s : settled) json["settled"].push_back({s.runs, s.shrinking});
  for (const auto& [step, why] : unexplained) json["unexplained"][std::to_string(step)] = why;
  if (postponed >= 0) json["postponed"] = postponed;
  if (budget_needed > 0) json["budget_needed"] = budget_needed;
  return json;
}

Result<Timeline> Timeline::from_json(const Json& json) {
  const Error wrong{"the report does not record the course of its check"};
  if (!json.is_object() || !json.contains("steps") || !json["steps"].is_array()) return wrong;
  Timeline timeline;
  for (const Json& run : json["steps"]) {
    if (!run.is_array() || run.size() != 2 || !run[0].is_number_integer() || !run[1].is_number_integer())
      return wrong;
    const int value = run[0];
    const int64_t count = run[1];
    if (count < 0 || count > kMostSteps - static_cast<int64_t>(timeline.steps_.size())) return wrong;
    const Step step{value == kOutOfTime ? 0 : value, value == kOutOfTime, ""};
    timeline.steps_.insert(timeline.steps_.end(), static_cast<std::size_t>(count), step);
  }
  const Json slow = json.value("slow", Json::object());
  for (const auto& [at, why] : slow.items()) {
    const std::size_t i = std::strtoull(at.c_str(), nullptr, 10);
    if (i >= timeline.steps_.size() || !why.is_string()) return wrong;
    timeline.steps_[i].slow = why;
  }
  for (const Json& s : json.value("settled", Json::array())) {
    if (!s.is_array() || s.size() != 2 || !s[0].is_number_integer() || !s[1].is_number_integer())
      return wrong;
    timeline.settled.push_back({s[0], s[1]});
  }
  const Json unexplained = json.value("unexplained", Json::object());
  for (const auto& [at, why] : unexplained.items()) {
    if (!why.is_string()) return wrong;
    timeline.unexplained[std::strtoull(at.c_str(), nullptr, 10)] = why;
  }
  if (const auto it = json.find("postponed"); it != json.end() && it->is_number_integer())
    timeline.postponed = *it;
  if (const auto it = json.find("budget_needed"); it != json.end() && it->is_number())
    timeline.budget_needed = *it;
  return timeline;
}

}  // namespace assay::assayer
