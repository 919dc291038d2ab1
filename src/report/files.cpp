#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <utility>

#include "finding/message.h"
#include "report/report.h"

namespace assay::report {

namespace {

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? ' ' : c;
    }
  }
  return out;
}

// Where the code of a finding was inlined from and into, and the other access of a race, for SARIF.
Json related_places(const Finding& finding) {
  Json related = Json::array();
  const auto add = [&](const Where& where, std::string text) {
    Json place = {{"artifactLocation", {{"uri", where.file}}},
                  {"region", {{"startLine", std::max(1, where.line)}}}};
    related.push_back({{"id", related.size() + 1},
                       {"physicalLocation", std::move(place)},
                       {"message", {{"text", std::move(text)}}}});
  };
  const auto add_chain = [&](const std::vector<Frame>& chain, std::string_view whose) {
    bool first = true;
    for (const Frame& frame : chain)
      add(frame.where,
          fmt::format("{}{}{}", whose, std::exchange(first, false) ? "inlined code" : "inlined here",
                      frame.function.empty() ? "" : ", in " + frame.function));
  };
  if (const evidence::CodePlace* code = code_of(finding)) add_chain(code->chain, "");
  if (const Where other = other_place(finding); other.line > 0) add(other, "the other access");
  if (const auto* race = std::get_if<evidence::Race>(&finding.evidence))
    add_chain(race->other.code.chain, "the other access: ");
  return related;
}

// "a.cu:14: data-race: reads … \n assay replay …"
std::string finding_line(const Finding& finding) {
  const std::string place = finding.where.file.empty() ? "" : text_of(finding.where) + ": ";
  return fmt::format("{}{}: {}\n{}{}", place, to_string(finding.kind), message(finding), finding.reproduce,
                     finding.reproduce.empty() ? "" : "\n");
}

}  // namespace

Json to_json(const Report& report) {
  Json json;
  json["assay"] = "1";
  json["verdict"] = judge::to_string(report.verdict);
  json["contract"] = report.contract;
  if (!report.answer.empty()) json["answer"] = report.answer;
  json["title"] = report.title;
  json["device"] = report.device;
  json["seed"] = report.seed;
  json["seconds"] = report.seconds;
  json["findings"] = json["notes"] = Json::array();
  for (const Finding& finding : report.findings) {
    Json& list = json[finding.severity == Severity::Note ? "notes" : "findings"];
    list.push_back(to_json(finding));
  }
  json["inconclusive"] = report.unknown;
  json["coverage"] = report.coverage;
  if (!report.proof.is_null()) json["proof"] = report.proof;
  if (!report.no_proof.empty()) json["no_proof"] = report.no_proof;
  if (!report.files.empty()) json["files"] = report.files;
  return json;
}

// What the usual schema of JUnit reports asks for: one failure or error a case, and the suite's particulars.
std::string junit(std::span<const Report> reports) {
  int failures = 0, errors = 0;
  double seconds = 0;
  std::string cases, warnings;
  for (const Report& report : reports) {
    const bool failed = report.verdict == judge::Verdict::Fail;
    const bool unsure = report.verdict == judge::Verdict::Inconclusive;
    failures += failed;
    errors += unsure;
    seconds += report.seconds;
    cases += fmt::format("  <testcase classname=\"assay\" name=\"{}\" time=\"{:.3f}\">\n",
                         xml_escaped(report.name()), report.seconds);
    std::string text;
    for (const Finding& finding : report.findings) {
      if (finding.severity == Severity::Note) continue;  // says where to look, fails nothing
      const std::string told = finding_line(finding);
      (finding.severity == Severity::Error ? text : warnings) += told;
    }
    for (const std::string& reason : report.unknown)
      text += fmt::format("could not be checked: {}\n", reason);
    const Finding* first = report.findings.empty() ? nullptr : &report.findings.front();
    if (failed && first) {
      cases +=
          fmt::format("    <failure type=\"{}\" message=\"{}\">{}</failure>\n",
                      xml_escaped(to_string(first->kind)), xml_escaped(message(*first)), xml_escaped(text));
    } else if (unsure) {
      cases +=
          fmt::format("    <error type=\"inconclusive\" message=\"{}\">{}</error>\n",
                      xml_escaped(report.unknown.empty() ? "" : report.unknown.front()), xml_escaped(text));
    }
    cases += "  </testcase>\n";
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"assay\" "
      "timestamp=\"{:%Y-%m-%dT%H:%M:%S}\" "
      "hostname=\"localhost\" tests=\"{}\" failures=\"{}\" errors=\"{}\" time=\"{:.3f}\">\n  "
      "<properties/>\n{}"
      "  <system-out>{}</system-out>\n  <system-err/>\n</testsuite>\n",
      fmt::gmtime(std::time(nullptr)), reports.size(), failures, errors, seconds, cases,
      xml_escaped(warnings));
}

Json sarif(std::span<const Report> reports) {
  Json results = Json::array(), rules = Json::array();
  std::set<Kind> seen;
  for (const Report& report : reports) {
    for (const Finding& finding : report.findings) {
      if (seen.insert(finding.kind).second) {
        rules.push_back({{"id", to_string(finding.kind)},
                         {"shortDescription", {{"text", info(finding.kind).summary}}},
                         {"help", {{"text", info(finding.kind).fix}}}});
      }
      const bool placed = !finding.where.file.empty();
      Json place = {{"artifactLocation", {{"uri", placed ? finding.where.file : report.name()}}}};
      place["region"] = {{"startLine", placed && finding.where.line > 0 ? finding.where.line : 1}};
      results.push_back({{"ruleId", to_string(finding.kind)},
                         {"level", to_string(finding.severity)},
                         {"message", {{"text", message(finding)}}},
                         {"locations", Json::array({{{"physicalLocation", place}}})}});
      if (Json related = related_places(finding); !related.empty())
        results.back()["relatedLocations"] = std::move(related);
    }
  }
  Json run;
  run["tool"] = {{"driver", {{"name", "assay"}, {"version", "1"}, {"rules", rules}}}};
  run["results"] = results;
  Json json;
  json["version"] = "2.1.0";
  json["$schema"] = "https://json.schemastore.org/sarif-2.1.0.json";
  json["runs"] = Json::array({run});
  return json;
}

}  // namespace assay::report
