#include "prove/launch_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace assay::prove {

namespace {

// Arrays of a trial that lie in the memory of another.
std::map<std::string, std::string> shared_memory(const contract::Contract& contract,
                                                 const trial::Trial& trial) {
  std::map<std::string, std::string> lies_in;
  for (const contract::TensorSpec& tensor : contract.tensors) {
    if (trial.condition.aliased && !tensor.may_alias.empty()) lies_in[tensor.name] = tensor.may_alias;
    if (!trial.condition.shared_inputs) continue;
    const contract::TensorSpec& owner = trial::shared_input(contract, tensor, trial.shape);
    if (owner.name != tensor.name) lies_in[tensor.name] = owner.name;
  }
  return lies_in;
}

}  // namespace

std::string recorded_on() {
  return trial::describe(kGpus[0]);
}

void LaunchLog::add(const trial::Trial& trial, const subject::Observation& observation) {
  std::vector<std::vector<protocol::Event>> calls;
  for (const protocol::Event& event : observation.recorded) {
    if (std::holds_alternative<protocol::CallEvent>(event))
      calls.emplace_back();
    else if (!calls.empty())
      calls.back().push_back(event);
  }
  const bool ended = observation.outcome == subject::CallOutcome::Ended && !observation.recorded_left_out;
  if (!ended && !calls.empty()) calls.pop_back();
  for (const std::vector<protocol::Event>& events : calls) {
    Call call{{trial.shape, {}, given_in(contract_, trial.scalars), shared_memory(contract_, trial)},
              trial.condition.gpu};
    std::string key =
        fmt::format("{};{};{};{};{};{}", contract::to_string(trial.shape),
                    contract::to_string(call.recorded.given), trial.condition.gpu, trial.condition.aliased,
                    trial.condition.shared_inputs, trial.condition.alignment);
    for (const protocol::Event& event : events) {
      key += protocol::encode(event);
      add_operation(call.recorded, event, contract_, trial.condition);
    }
    if (!known_.insert(std::move(key)).second) continue;
    if (call.gpu != 0) {
      call.trial = trial;
      call.trial.condition.gpu = 0;
    }
    calls_.push_back(std::move(call));
  }
}

std::vector<Deviation> LaunchLog::against(const Relation& relation) const {
  std::vector<Deviation> found;
  for (const bool other_gpu : {false, true}) {
    for (const Call& call : calls_) {
      if ((call.gpu != 0) != other_gpu) continue;
      const std::string how = deviation(relation, call.recorded);
      if (how.empty()) continue;
      found.push_back({fmt::format("at {} {}", contract::to_string(call.recorded.shape), how),
                       other_gpu ? trial::describe(kGpus[call.gpu]) : "", call.trial});
      break;
    }
  }
  return found;
}

std::vector<trial::Trial> LaunchLog::unexplained(const Json& proof) const {
  const auto relation = relation_from_json(proof.value("relation", Json::array()));
  std::vector<trial::Trial> trials;
  if (!relation || relation->cases.empty()) return trials;
  for (const Deviation& deviation : against(*relation))
    if (!deviation.gpu.empty()) trials.push_back(deviation.trial);
  return trials;
}

void LaunchLog::hold(Json& proof) const {
  const auto relation = relation_from_json(proof.value("relation", Json::array()));
  if (!relation || relation->cases.empty()) return;
  for (const Deviation& deviation : against(*relation)) {
    if (!deviation.gpu.empty()) {
      proof["gpu"] = recorded_on();
      proof["assumptions"].push_back(only_on_one_gpu(deviation));
      continue;
    }
    proof["deviations"].push_back(deviation.text);
    for (Json& obligation : proof["obligations"]) {
      if (obligation.value("status", "") != "proved") continue;
      obligation["status"] = "unknown";
      obligation["reason"] = void_reason(deviation);
    }
    if (proof.value("verdict", "") == "proved") proof["verdict"] = "unknown";
  }
}

std::string void_reason(const Deviation& deviation) {
  return fmt::format("the launch relation does not hold: {}", deviation.text);
}

std::string only_on_one_gpu(const Deviation& deviation) {
  return fmt::format("the GPU is an {}: on an {}, {}", recorded_on(), deviation.gpu, deviation.text);
}

}  // namespace assay::prove
