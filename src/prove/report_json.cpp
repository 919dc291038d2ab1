// A proof as JSON (docs/prove.schema.json), and as a page.
#include <fmt/format.h>

#include "assayer/locate.h"
#include "base/symbol.h"
#include "finding/json.h"
#include "judge/verdict.h"
#include "prove/prove.h"
#include "report/report.h"

namespace assay::prove {

namespace {

constexpr std::pair<std::string_view, std::string_view> kStatements[] = {
    {"bounds", "every access lies within its tensor, workspace or shared array"},
    {"overflow", "no index overflows its type on its way into an address"},
    {"alignment", "every access is aligned to its width"},
    {"launch", "every launch is legal"},
    {"barrier", "every thread that a barrier or a warp operation names reaches it"},
    {"race", "no two accesses race"},
    {"coverage", "every element of every output is written"},
    {"values", "the values agree with the formula, within its rounding budget"},
};

Json where_json(const Where& where) {
  return {{"file", where.file.empty() ? "" : assayer::shown(where.file)}, {"line", where.line}};
}

Json place_json(const Place& place, Status status) {
  Json json = {{"where", where_json(place.where)}, {"status", to_string(status)}};
  if (!place.instruction.empty()) json["instruction"] = place.instruction;
  if (status == Status::Proved) return json;
  json["reason"] = place.reason;
  if (place.candidate)
    json["candidate"] = {{"shape", contract::to_string(place.candidate->shape)},
                         {"thread", place.candidate->words}};
  return json;
}

// What a run refuted is refuted where it failed; the other open places stay unknown.
Status status_of(const Obligation& obligation, const Place& place) {
  const bool here = place.where.line == obligation.where.line ||
                    (!place.instruction.empty() && place.instruction == obligation.refuted_at);
  return obligation.status == Status::Refuted && here ? Status::Refuted : Status::Unknown;
}

Json obligation_json(const Obligation& obligation) {
  Json places = Json::array();
  for (const Place& place : obligation.proved) places.push_back(place_json(place, Status::Proved));
  for (const Place& place : obligation.open)
    places.push_back(place_json(place, status_of(obligation, place)));
  const size_t open = std::min(obligation.total, obligation.open.size());
  Json json = {{"kernel", plain_name(obligation.kernel)},
               {"obligation", obligation.name},
               {"statement", statement_of(obligation.name)},
               {"status", to_string(obligation.status)},
               {"where", where_json(obligation.where)},
               {"reason", obligation.reason},
               {"total", obligation.total},
               {"proved", obligation.total - open},
               {"seconds", obligation.seconds},
               {"places", std::move(places)}};
  if (obligation.pending) json["pending"] = true;
  if (obligation.compared.elements > 0)
    json["compared"] = {{"elements", obligation.compared.elements},
                        {"shapes", obligation.compared.shapes},
                        {"largest", contract::to_string(obligation.compared.largest)}};
  return json;
}

}  // namespace

std::string_view statement_of(std::string_view obligation) {
  for (const auto& [name, statement] : kStatements)
    if (obligation == name) return statement;
  return "";
}

Json to_json(const Proof& proof) {
  Json json;
  json["assay"] = "1";
  json["verdict"] = to_string(proof.verdict);
  json["contract"] = proof.contract;
  json["title"] = proof.title;
  json["finished"] = proof.finished;
  if (!proof.problem.empty()) json["problem"] = proof.problem;
  json["shapes"] = proof.shapes;
  json["obligations"] = Json::array();
  for (const Obligation& obligation : proof.obligations)
    json["obligations"].push_back(obligation_json(obligation));
  json["launch"] = Json::array();
  for (const LaunchStatement& launch : proof.launches)
    json["launch"].push_back({{"kernel", plain_name(launch.kernel)},
                              {"relation", launch.relation},
                              {"checked", proof.all_shapes_recorded ? "all" : "sampled"}});
  json["relation"] = proof.relation;
  json["recorded_shapes"] = proof.recorded;
  json["assumptions"] = proof.assumptions;
  json["findings"] = Json::array();
  for (const Finding& finding : proof.findings) json["findings"].push_back(assay::to_json(finding));
  json["unconfirmed"] = proof.gaps;
  if (!proof.deviations.empty()) json["deviations"] = proof.deviations;
  json["seconds"] = proof.seconds;
  if (!proof.files.empty()) json["files"] = proof.files;
  return json;
}

report::Report to_report(const contract::Contract& contract, const Proof& proof) {
  report::Report report;
  report.contract = proof.contract;
  report.title = proof.title;
  report.device = "proof";
  report.seconds = proof.seconds;
  report.verdict = proof.verdict == Status::Proved    ? judge::Verdict::Pass
                   : proof.verdict == Status::Refuted ? judge::Verdict::Fail
                                                      : judge::Verdict::Inconclusive;
  report.findings = proof.findings;
  report.proof = to_json(proof);
  report.proof.erase("files");
  for (const std::string& source : contract.kernel.sources)
    report.sources.push_back(assayer::shown(contract.resolve(source)));
  return report;
}

}  // namespace assay::prove
