#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <set>
#include <utility>

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

Json where_json(const Where& where) {
  return {{"file", where.file}, {"line", where.line}};
}

// Where the code of a finding was inlined from and into, and the other access of a race, for SARIF.
Json related_places(const Finding& finding) {
  Json related = Json::array();
  const auto add = [&](const std::string& file, int line, std::string text) {
    Json place = {{"artifactLocation", {{"uri", file}}}, {"region", {{"startLine", line}}}};
    related.push_back({{"id", related.size() + 1},
                       {"physicalLocation", std::move(place)},
                       {"message", {{"text", std::move(text)}}}});
  };
  const auto add_chain = [&](const Json& side, std::string_view whose) {
    if (!side.is_object() || !side.contains("chain") || !side["chain"].is_array()) return;
    bool first = true;
    for (const Json& frame : side["chain"]) {
      if (!frame.is_object()) continue;
      const std::string function = frame.value("function", "");
      add(frame.value("file", ""), std::max(1, frame.value("line", 1)),
          fmt::format("{}{}{}", whose, std::exchange(first, false) ? "inlined code" : "inlined here",
                      function.empty() ? "" : ", in " + function));
    }
  };
  add_chain(finding.evidence, "");
  const Where other = other_place(finding);
  if (other.line > 0) add(other.file, other.line, "the other access");
  if (finding.evidence.contains("other")) add_chain(finding.evidence["other"], "the other access: ");
  return related;
}

// "a.cu:14: race of ... \n assay replay …"
std::string finding_line(const Finding& finding) {
  const std::string place =
      finding.where.file.empty() ? "" : fmt::format("{}:{}: ", finding.where.file, finding.where.line);
  return fmt::format("{}{}: {}\n{}{}", place, finding.kind, finding.message, finding.reproduce,
                     finding.reproduce.empty() ? "" : "\n");
}

}  // namespace

Json to_json(const Report& report) {
  Json json;
  json["assay"] = "1";
  json["verdict"] = judge::to_string(report.verdict);
  json["contract"] = report.contract;
  json["title"] = report.title;
  json["device"] = report.device;
  json["seed"] = report.seed;
  json["seconds"] = report.seconds;
  json["findings"] = json["notes"] = Json::array();
  for (const Finding& finding : report.findings) {
    Json& list = json[finding.severity == Severity::Note ? "notes" : "findings"];
    list.push_back({{"kind", finding.kind},
                    {"severity", judge::to_string(finding.severity)},
                    {"message", finding.message},
                    {"where", where_json(finding.where)},
                    {"evidence", finding.evidence},
                    {"reproduce", finding.reproduce}});
  }
  json["inconclusive"] = report.unknown;
  json["coverage"] = report.coverage;
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
                         xml_escaped(report.contract), report.seconds);
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
      cases += fmt::format("    <failure type=\"{}\" message=\"{}\">{}</failure>\n", xml_escaped(first->kind),
                           xml_escaped(first->message), xml_escaped(text));
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
  std::set<std::string> seen;
  for (const Report& report : reports) {
    for (const Finding& finding : report.findings) {
      if (seen.insert(finding.kind).second) {
        const judge::KindInfo* kind = judge::kind_named(finding.kind);
        rules.push_back(
            {{"id", finding.kind},
             {"shortDescription", {{"text", kind ? kind->summary : std::string_view(finding.kind)}}}});
      }
      const bool placed = !finding.where.file.empty();
      Json place = {{"artifactLocation", {{"uri", placed ? finding.where.file : report.contract}}}};
      place["region"] = {{"startLine", placed && finding.where.line > 0 ? finding.where.line : 1}};
      results.push_back({{"ruleId", finding.kind},
                         {"level", judge::to_string(finding.severity)},
                         {"message", {{"text", finding.message}}},
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
