// The report of a check, for people and for machines.
//
// Example:
//
//     const std::vector<Report> reports(1);
//     std::string screen = terminal(reports[0], {.colour = true});
//     Json file = to_json(reports[0]);   // as the contract's manual says
//     std::string xml = junit(reports);  // for CI
//     Json scanning = sarif(reports);    // for code review
//     std::string page = html(reports);  // an HTML report, in one file
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "finding/json.h"
#include "judge/picture.h"
#include "judge/verdict.h"
#include "report/source_lines.h"

namespace assay::report {

// One trial, in words, for the page's table of what was covered.
struct TrialRow {
  std::string shape;      // "T=17 D=8"
  std::string inputs;     // "tokens zipf"; "natural"
  std::string condition;  // "other schedule"; "plain"
  bool failed = false;
};

struct Report {
  std::string contract;  // path
  std::string answer;    // path of what is checked, where the contract was made for it; else empty
  std::string title;
  judge::Verdict verdict = judge::Verdict::Inconclusive;
  std::vector<Finding> findings;     // most important first
  std::vector<std::string> unknown;  // what could not be checked: why a verdict is inconclusive
  Json coverage = Json::object();
  std::string device = "virtual";
  uint64_t seed = 1;
  double seconds = 0;

  // What was proved of the kernel, as `assay prove --json` writes it (prove/prove.h); null: nothing.
  Json proof;
  std::string no_proof;  // why nothing was, where the reader may expect it

  // What a training run showed, as `assay train --json` writes it (train/report.h); null: there was none.
  Json training;

  // What a failed check was about, so that the report alone shows it again: {"path", "text"} each, the
  // contract first.
  Json files = Json::array();

  // For the page only; empty unless asked for.
  std::vector<std::string> sources;  // paths
  std::vector<TrialRow> trials;
  std::string picture_of, numbers_of;  // the trials that the next two show
  std::vector<judge::Picture> pictures;
  std::vector<judge::Sheet> numbers;

  // What the reader knows it by.
  const std::string& name() const { return answer.empty() ? contract : answer; }
};

struct TerminalOptions {
  bool colour = false;
  int width = 100;
};
std::string terminal(const Report& report, const TerminalOptions& options);
// A part of it, for commands with another frame: one finding, and words within the width, each line indented.
std::string finding_text(const Finding& finding, const TerminalOptions& options);
std::string wrapped(std::string_view text, int width, std::string_view indent);
// One line a report, for several contracts.
std::string table(std::span<const Report> reports, const TerminalOptions& options);

Json to_json(const Report& report);
std::string junit(std::span<const Report> reports);
Json sarif(std::span<const Report> reports);
std::string html(std::span<const Report> reports);

}  // namespace assay::report
