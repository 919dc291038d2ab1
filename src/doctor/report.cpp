// A diagnosis in words and as JSON.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "doctor/rules.h"

namespace assay::doctor {

namespace {

constexpr int kHealthy = 0, kFaulty = 1, kUndecided = 3;  // exit status

// The most severe of the problems, which are sorted; none: a machine with warnings is healthy.
std::string_view verdict_of(const Diagnosis& diagnosis) {
  const int status = exit_status(diagnosis);
  return status == kHealthy ? "healthy" : status == kFaulty ? "fault" : "undecided";
}

std::string_view severity_text(Severity severity) {
  return severity == Severity::Fault ? "fault" : severity == Severity::Undecided ? "undecided" : "warning";
}

// A warning leaves the machine healthy.
std::string_view status_of(const Problem& problem) {
  return problem.severity == Severity::Fault       ? "wrong"
         : problem.severity == Severity::Undecided ? "skipped"
                                                   : "ok";
}

// "2 × NVIDIA H200 (sm_90, 139.8 GiB), driver 580.95.05, CUDA 13.0"
std::string gpus_text(const Diagnosis& diagnosis) {
  std::vector<std::pair<std::string, int>> kinds;  // in their order
  for (const FoundGpu& gpu : diagnosis.gpus) {
    std::string text = fmt::format("{} (sm_{}{}, {})", gpu.name, gpu.major, gpu.minor, bytes_text(gpu.bytes));
    const auto known = std::ranges::find(kinds, text, &std::pair<std::string, int>::first);
    if (known == kinds.end())
      kinds.emplace_back(std::move(text), 1);
    else
      ++known->second;
  }
  std::string text;
  for (const auto& [kind, count] : kinds)
    text += (text.empty() ? "" : ", ") + (count == 1 ? kind : fmt::format("{} × {}", count, kind));
  if (!diagnosis.gpus.front().driver.empty()) text += ", driver " + diagnosis.gpus.front().driver;
  if (diagnosis.cuda_version > 0) text += ", CUDA " + version_text(diagnosis.cuda_version);
  return text;
}

std::string last_line(const Diagnosis& diagnosis) {
  const bool broken = std::ranges::any_of(diagnosis.problems, stops_virtual);
  const std::string own = diagnosis.virtual_works ? "the virtual device works"
                          : broken                ? "the virtual device does not work"
                                                  : "it is not known whether the virtual device works";
  const bool stopped = std::ranges::any_of(diagnosis.problems, &Problem::stops_gpu);
  if (!diagnosis.why_no_gpu.empty()) return fmt::format("{}; no GPU: {}", own, diagnosis.why_no_gpu);
  if (diagnosis.gpus.empty() || stopped) return fmt::format("{}; no usable GPU", own);
  return fmt::format("{}; {}", gpus_text(diagnosis), own);
}

std::string upper(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::toupper(c); });
  return result;
}

}  // namespace

int exit_status(const Diagnosis& diagnosis) {
  const auto has = [&](Severity severity) {
    return std::ranges::any_of(diagnosis.problems,
                               [&](const Problem& problem) { return problem.severity == severity; });
  };
  return has(Severity::Fault) ? kFaulty : has(Severity::Undecided) ? kUndecided : kHealthy;
}

std::string terminal(const Diagnosis& diagnosis) {
  std::string text;
  for (const Problem& problem : diagnosis.problems) {
    text += fmt::format("{}  {}: {}. Fix: {}.\n", upper(severity_text(problem.severity)), problem.name,
                        problem.what, problem.fix);
    for (const std::string& detail : problem.details) text += "  " + detail + "\n";
  }
  return text +
         fmt::format("{}  {}\n", exit_status(diagnosis) == kHealthy ? "HEALTHY" : "", last_line(diagnosis));
}

std::string json(const Diagnosis& diagnosis) {
  nlohmann::ordered_json json = {{"assay", "1"},
                                 {"verdict", verdict_of(diagnosis)},
                                 {"depth", diagnosis.depth == Depth::Quick ? "quick" : "full"},
                                 {"seconds", diagnosis.seconds}};
  json["checks"] = nlohmann::ordered_json::array();
  for (const Problem& problem : diagnosis.problems)
    json["checks"].push_back({{"name", problem.name},
                              {"status", status_of(problem)},
                              {"message", problem.what},
                              {"fix", problem.fix},
                              {"severity", severity_text(problem.severity)},
                              {"details", problem.details},
                              {"stops_gpu", problem.stops_gpu}});
  for (const PassedRule& rule : diagnosis.passed)
    json["checks"].push_back({{"name", rule.name},
                              {"status", rule.why_skipped.empty() ? "ok" : "skipped"},
                              {"message", rule.why_skipped},
                              {"fix", ""}});
  json["gpus"] = nlohmann::ordered_json::array();
  for (const FoundGpu& gpu : diagnosis.gpus)
    json["gpus"].push_back({{"name", gpu.name},
                            {"compute_capability", fmt::format("{}.{}", gpu.major, gpu.minor)},
                            {"bytes", gpu.bytes},
                            {"driver", gpu.driver}});
  json["cuda_version"] = diagnosis.cuda_version == 0 ? "" : version_text(diagnosis.cuda_version);
  json["why_no_gpu"] = diagnosis.why_no_gpu;
  json["virtual_device_works"] = diagnosis.virtual_works;
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string why_gpu_unusable(const Diagnosis& diagnosis) {
  if (!diagnosis.why_no_gpu.empty())
    return fmt::format("no GPU: {}. Fix: use --device virtual, which needs none.", diagnosis.why_no_gpu);
  for (const Problem& problem : diagnosis.problems)
    if (problem.stops_gpu) return fmt::format("{}: {}. Fix: {}.", problem.name, problem.what, problem.fix);
  if (!diagnosis.gpus.empty()) return "";
  for (const Problem& problem : diagnosis.problems)
    if (problem.severity == Severity::Undecided)
      return fmt::format("{}: {}. Fix: {}.", problem.name, problem.what, problem.fix);
  return "";
}

}  // namespace assay::doctor
