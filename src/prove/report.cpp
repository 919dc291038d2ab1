#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "assayer/locate.h"
#include "base/symbol.h"
#include "prove/prove.h"

namespace assay::prove {

namespace {

constexpr size_t kMostOpen = 4;  // places listed for an obligation

constexpr std::pair<const char*, const char*> kStatements[] = {
    {"bounds", "every access lies within its tensor, workspace or shared array"},
    {"overflow", "no index overflows on its way into an address"},
    {"alignment", "every access is aligned"},
    {"launch", "every launch is legal"},
    {"barrier", "every thread of a block reaches each barrier"},
    {"race", "no two accesses race"},
    {"coverage", "every output element is written"},
    {"values", "the values agree with the formula"},
};

const char* statement_of(const std::string& name) {
  for (const auto& [key, statement] : kStatements)
    if (name == key) return statement;
  return "";
}

std::string place_text(const Where& where) {
  if (where.file.empty() || where.line == 0) return "";
  return fmt::format("{}:{}: ", assayer::shown(where.file), where.line);
}

Json where_json(const Where& where) {
  return {{"file", assayer::shown(where.file)}, {"line", where.line}};
}

}  // namespace

std::string terminal(const Proof& proof) {
  std::string text = fmt::format("{}  {}", to_string(proof.verdict), proof.contract);
  if (!proof.title.empty()) text += fmt::format("  ({})", proof.title);
  text += fmt::format("  {:.1f} s\n", proof.seconds);
  if (!proof.problem.empty()) return text + fmt::format("  {}\n", proof.problem);
  text += fmt::format("\nfor all {}, where\n", fmt::join(proof.shapes, "; "));
  for (const LaunchStatement& launch : proof.launches)
    text += fmt::format("  {}: {}\n", plain_name(launch.kernel), launch.relation);
  text += fmt::format("  (checked by running the host code at {} shapes)\n\n",
                      proof.all_shapes_recorded ? "all" : fmt::format("{}", proof.recorded));
  std::string kernel;
  for (const Obligation& obligation : proof.obligations) {
    if (obligation.kernel != kernel) text += fmt::format("{}\n", plain_name(kernel = obligation.kernel));
    text += fmt::format("  {:<8} {:<10} {}", to_string(obligation.status), obligation.name,
                        statement_of(obligation.name));
    if (obligation.total > 0)
      text +=
          fmt::format("  ({} of {})", obligation.total - std::min(obligation.total, obligation.open.size()),
                      obligation.total);
    text += "\n";
    if (obligation.status == Status::Refuted) {
      text += fmt::format("           {}{}\n", place_text(obligation.where), obligation.reason);
      continue;
    }
    // Each reason once, with the first place that has it.
    std::map<std::string, std::pair<Where, size_t>> reasons;
    for (const Place& place : obligation.open) {
      const auto [at, is_new] = reasons.try_emplace(place.reason, place.where, 0);
      ++at->second.second;
    }
    size_t listed = 0;
    for (const auto& [reason, seen] : reasons) {
      if (++listed > kMostOpen) break;
      text += fmt::format("           {}{}{}\n", place_text(seen.first), reason,
                          seen.second > 1 ? fmt::format(" ({} such places)", seen.second) : "");
    }
    if (reasons.size() > kMostOpen)
      text += fmt::format("           and {} other reasons\n", reasons.size() - kMostOpen);
  }
  text += "\nassumed:\n";
  for (const std::string& assumption : proof.assumptions) text += fmt::format("  - {}\n", assumption);
  if (!proof.gaps.empty()) {
    text += "\ncounterexamples that no run confirmed (a limit of the prover, not a finding):\n";
    for (const std::string& gap : proof.gaps) text += fmt::format("  - {}\n", gap);
  }
  return text;
}

Json to_json(const Proof& proof) {
  Json json;
  json["assay"] = "1";
  json["verdict"] = to_string(proof.verdict);
  json["contract"] = proof.contract;
  if (!proof.problem.empty()) json["problem"] = proof.problem;
  json["shapes"] = proof.shapes;
  json["obligations"] = Json::array();
  for (const Obligation& obligation : proof.obligations) {
    Json one = {{"kernel", plain_name(obligation.kernel)},
                {"obligation", obligation.name},
                {"status", to_string(obligation.status)},
                {"where", where_json(obligation.where)},
                {"reason", obligation.reason},
                {"total", obligation.total},
                {"seconds", obligation.seconds}};
    Json open = Json::array();
    for (const Place& place : obligation.open) {
      open.push_back({{"where", where_json(place.where)}, {"reason", place.reason}});
      if (place.candidate) open.back()["candidate"] = contract::to_string(place.candidate->shape);
    }
    one["open"] = std::move(open);
    json["obligations"].push_back(std::move(one));
  }
  json["launch"] = Json::array();
  for (const LaunchStatement& launch : proof.launches)
    json["launch"].push_back({{"kernel", plain_name(launch.kernel)},
                              {"relation", launch.relation},
                              {"checked", proof.all_shapes_recorded ? "all" : "sampled"}});
  json["recorded_shapes"] = proof.recorded;
  json["assumptions"] = proof.assumptions;
  json["findings"] = Json::array();
  for (const Finding& finding : proof.findings) json["findings"].push_back(to_json(finding));
  json["unconfirmed"] = proof.gaps;
  json["seconds"] = proof.seconds;
  return json;
}

}  // namespace assay::prove
