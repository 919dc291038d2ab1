#include <fmt/format.h>

#include <set>

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
  json["findings"] = Json::array();
  for (const Finding& finding : report.findings) {
    json["findings"].push_back({{"kind", finding.kind},
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

std::string junit(std::span<const Report> reports) {
  int failures = 0, errors = 0;
  double seconds = 0;
  std::string cases;
  for (const Report& report : reports) {
    failures += report.verdict == judge::Verdict::Fail;
    errors += report.verdict == judge::Verdict::Inconclusive;
    seconds += report.seconds;
    cases += fmt::format("  <testcase classname=\"assay\" name=\"{}\" time=\"{:.3f}\">\n",
                         xml_escaped(report.contract), report.seconds);
    for (const Finding& finding : report.findings) {
      if (finding.severity == Severity::Note) continue;  // says where to look, fails nothing
      const std::string place =
          finding.where.file.empty() ? "" : fmt::format("{}:{}: ", finding.where.file, finding.where.line);
      cases += fmt::format("    <failure type=\"{}\" message=\"{}\">{}{}\n{}</failure>\n",
                           xml_escaped(finding.kind), xml_escaped(finding.message), xml_escaped(place),
                           xml_escaped(finding.message), xml_escaped(finding.reproduce));
    }
    for (const std::string& reason : report.unknown) {
      cases += fmt::format("    <error type=\"inconclusive\" message=\"{}\"/>\n", xml_escaped(reason));
    }
    cases += "  </testcase>\n";
  }
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"assay\" tests=\"{}\" failures=\"{}\" "
      "errors=\"{}\" "
      "time=\"{:.3f}\">\n{}</testsuite>\n",
      reports.size(), failures, errors, seconds, cases);
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
