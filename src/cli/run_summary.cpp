#include "cli/run_summary.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <tuple>

#include "base/mapped_file.h"
#include "base/symbol.h"
#include "cli/activity_files.h"
#include "cli/profile_text.h"
#include "finding/json.h"
#include "finding/message.h"
#include "judge/verdict.h"
#include "protocol/event_log.h"
#include "report/elements.h"
#include "report/source_lines.h"
#include "subject/places.h"

namespace assay::cli {
namespace {

constexpr size_t kLongestName = 60;

std::string dim_text(const std::array<uint32_t, 3>& dim) {
  if (dim[2] != 1) return fmt::format("{} x {} x {}", dim[0], dim[1], dim[2]);
  if (dim[1] != 1) return fmt::format("{} x {}", dim[0], dim[1]);
  return std::to_string(dim[0]);
}

// What makes two findings of a run the same. Findings without a line are distinguished by their subject.
using Key = std::tuple<Kind, Severity, std::string, std::string, int, std::string>;
Key key_of(const Finding& finding) {
  const Where& where = finding.where;
  return {finding.kind, finding.severity, kernel_of(finding),
          where.file,   where.line,       where.line == 0 ? message(finding) : ""};
}

// Gathers the events of a run, in order.
class Collector {
 public:
  Collector(RunSummary& summary, const std::vector<Suppression>& suppressions, subject::Places& places)
      : summary_(summary), suppressions_(suppressions), places_(places) {}

  void operator()(const protocol::LaunchEvent& launch) {
    LaunchRow& total = summary_.launches[row_of(launch)];
    ++total.count;
    total.instructions += launch.warp_instructions;
    total.seconds += launch.seconds;
  }
  void operator()(const protocol::FaultEvent& fault) { summary_.faults.push_back(fault.detail); }
  void operator()(const protocol::FindingEvent& event) { add(event.finding); }
  void operator()(const protocol::EarlyFindingEvent& event) { early_.push_back(event.finding); }
  void operator()(const protocol::FindingsReportedEvent&) { early_.clear(); }
  void operator()(const protocol::StillRunningEvent&) {}
  void operator()(const protocol::ModuleEvent& module) { places_.add_module(module.name, module.path); }
  void operator()(const protocol::ProfileEvent& event) {
    summary_.profile = std::make_shared<const Profile>(event.profile);
  }
  void operator()(const protocol::UnsupportedEvent& event) { summary_.unsupported.push_back(event.what); }
  void operator()(const protocol::CodeEvent&) {}
  void operator()(const protocol::RecordedLaunchEvent&) {}
  void operator()(const protocol::RecordedFillEvent&) {}
  void operator()(const protocol::RecordedCopyEvent&) {}
  void operator()(const protocol::CallEvent&) {}
  void operator()(const protocol::StackEvent&) {}
  void operator()(const protocol::AllocationEvent&) {}
  void operator()(const protocol::ReleaseEvent&) {}
  void operator()(const protocol::OutOfMemoryEvent&) {}
  void operator()(const protocol::OperationEvent&) {}

  // What was seen in a launch that did not end.
  void end() {
    for (const Finding& finding : early_)
      if (!reported_.contains(key_of(finding))) add(finding);
    places_.name(summary_.findings);
  }

 private:
  using Extents = std::array<uint32_t, 3>;

  // A program has few kernels and launches them often: their names are made once.
  std::size_t row_of(const protocol::LaunchEvent& launch) {
    const auto known = rows_of_symbols_.find(std::tie(launch.kernel, launch.grid, launch.block));
    if (known != rows_of_symbols_.end()) return known->second;
    LaunchRow row{plain_name(launch.kernel), dim_text(launch.grid), dim_text(launch.block)};
    const auto [place, fresh] =
        rows_.try_emplace({row.kernel, row.grid, row.block}, summary_.launches.size());
    if (fresh) summary_.launches.push_back(row);
    rows_of_symbols_[{launch.kernel, launch.grid, launch.block}] = place->second;
    return place->second;
  }

  void add(Finding finding) {
    const Key key = key_of(finding);
    reported_.insert(key);
    if (is_suppressed(finding, suppressions_)) {
      ++summary_.suppressed;
      return;
    }
    auto [place, fresh] = findings_.try_emplace(key, summary_.findings.size());
    if (!fresh) {
      summary_.findings[place->second].count += finding.count;
      return;
    }
    report::name_elements(finding);
    summary_.findings.push_back(std::move(finding));
  }

  RunSummary& summary_;
  const std::vector<Suppression>& suppressions_;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> rows_;
  std::map<std::tuple<std::string, Extents, Extents>, size_t, std::less<>> rows_of_symbols_;
  std::map<Key, size_t> findings_;
  std::set<Key> reported_;  // suppressed ones too
  std::vector<Finding> early_;
  subject::Places& places_;
};

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.1f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

void print_launches(const RunSummary& summary) {
  if (summary.launches.empty()) {
    fmt::print(stderr, "assay: no kernel was launched\n");
    return;
  }
  size_t width = 6;
  for (const LaunchRow& row : summary.launches)
    width = std::max(width, short_name(row.kernel, kLongestName).size());
  fmt::print(stderr, "assay: {:<{}}  {:>16}  {:>14}  {:>8}  {:>17}  {:>9}\n", "kernel", width, "grid",
             "block", "launches", "warp instructions", "time");
  for (const LaunchRow& row : summary.launches)
    fmt::print(stderr, "assay: {:<{}}  {:>16}  {:>14}  {:>8}  {:>17}  {:>9}\n",
               short_name(row.kernel, kLongestName), width, row.grid, row.block, row.count, row.instructions,
               seconds_text(row.seconds));
}

void print_finding(const Finding& finding) {
  const std::string place = finding.where.file.empty() ? "" : text_of(finding.where) + ": ";
  fmt::print(stderr, "assay: {}{}: {}: {}{}\n", place, to_string(finding.severity), to_string(finding.kind),
             message(finding), finding.count > 1 ? fmt::format(" ({} times)", finding.count) : "");
  std::istringstream source(report::source_text(finding));
  for (std::string line; std::getline(source, line);) fmt::print(stderr, "assay:   {}\n", line);
  for (const std::string& chain : chain_lines(finding)) fmt::print(stderr, "assay:     {}\n", chain);
  if (const std::string thread = thread_text(finding); !thread.empty())
    fmt::print(stderr, "assay:     {}\n", thread);
  for (const std::string& origin : origin_lines(finding)) fmt::print(stderr, "assay:     {}\n", origin);
  if (const std::string_view fix = advice(finding); finding.severity == Severity::Error && !fix.empty())
    fmt::print(stderr, "assay:     fix: {}\n", fix);
}

Json json_of(const RunSummary& summary) {
  const judge::Verdict verdict = summary.has_errors() ? judge::Verdict::Fail : judge::Verdict::Pass;
  Json json = {{"assay", "1"}, {"verdict", judge::to_string(verdict)}};
  json["launches"] = Json::array();
  for (const LaunchRow& row : summary.launches)
    json["launches"].push_back({{"kernel", row.kernel},
                                {"grid", row.grid},
                                {"block", row.block},
                                {"count", row.count},
                                {"warp_instructions", row.instructions},
                                {"seconds", row.seconds}});
  json["findings"] = Json::array();
  for (const Finding& finding : summary.findings) json["findings"].push_back(to_json(finding));
  json["faults"] = summary.faults;
  json["unsupported"] = summary.unsupported;
  json["suppressed"] = summary.suppressed;
  if (summary.profile) json["precision"] = to_json(*summary.profile);
  return json;
}

Result<void> write_json(const Json& json, const std::string& path) {
  std::ofstream file(path);
  file << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  if (!file) return Error{"cannot be written", path, 0, 0};
  return {};
}

}  // namespace

bool RunSummary::has_errors() const {
  return !faults.empty() || has_error(findings);
}

RunSummary read_summary(const std::string& path, const std::vector<Suppression>& suppressions,
                        ActivityLog* log) {
  RunSummary summary;
  subject::Places own;
  Collector collector(summary, suppressions, log ? log->places() : own);
  const MappedFile file(path);
  protocol::LogReader events(file.bytes());
  if (log) log->expect(file.bytes().size());
  while (const protocol::Event* const event = events.next()) {
    std::visit(collector, *event);
    if (log) log->add(*event);
  }
  if (log) log->look_up();  // first: what findings name is mostly among it, and each look-up starts a program
  collector.end();
  return summary;
}

void print_summary(const RunSummary& summary) {
  std::fflush(stdout);
  print_launches(summary);
  print_findings(summary);
}

void print_findings(const RunSummary& summary) {
  for (const Finding& finding : summary.findings) print_finding(finding);
  if (summary.profile) fmt::print(stderr, "{}", profile_text(*summary.profile, "assay: "));
  // Notes are no findings to act upon.
  const auto found = std::count_if(summary.findings.begin(), summary.findings.end(),
                                   [](const Finding& finding) { return finding.severity != Severity::Note; });
  if (found || summary.suppressed)
    fmt::print(stderr, "assay: {} finding{}{}\n", found, found == 1 ? "" : "s",
               summary.suppressed ? fmt::format(", {} suppressed", summary.suppressed) : "");
}

Result<void> write_summary(const RunSummary& summary, const std::string& path) {
  return write_json(json_of(summary), path);
}

Result<void> write_summary(const RunSummary& summary, const std::vector<std::string>& program, int status,
                           const std::string& path) {
  Json json = json_of(summary);
  json["program"] = program;
  if (WIFEXITED(status))
    json["exit"] = WEXITSTATUS(status);
  else
    json["signal"] = WTERMSIG(status);
  return write_json(json, path);
}

}  // namespace assay::cli
