#include "cli/run_summary.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/symbol.h"
#include "subject/places.h"
#include "cli/precision.h"
#include "report/elements.h"
#include "report/evidence.h"

namespace assay::cli {
namespace {

constexpr size_t kLongestName = 60;

std::string dim_text(const Json& dim) {
  if (!dim.is_array() || dim.size() != 3) return "?";
  auto at = [&](size_t i) { return dim[i].is_number() ? dim[i].get<uint64_t>() : 0; };
  if (at(2) != 1) return fmt::format("{} x {} x {}", at(0), at(1), at(2));
  if (at(1) != 1) return fmt::format("{} x {}", at(0), at(1));
  return std::to_string(at(0));
}

std::string string_at(const Json& line, const char* key) {
  auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

template <class T>
T number_at(const Json& line, const char* key) {
  auto found = line.find(key);
  return found != line.end() && found->is_number() ? found->get<T>() : T{};
}

Finding finding_of(const Json& line) {
  Finding finding;
  finding.kind = string_at(line, "kind");
  finding.message = string_at(line, "message");
  std::string severity = string_at(line, "severity");
  finding.severity = severity == "note"      ? Severity::Note
                     : severity == "warning" ? Severity::Warning
                                             : Severity::Error;
  if (auto where = line.find("where"); where != line.end() && where->is_object())
    finding.where = {string_at(*where, "file"), number_at<int>(*where, "line")};
  if (auto evidence = line.find("evidence"); evidence != line.end() && evidence->is_object())
    finding.evidence = *evidence;
  return finding;
}

bool is_suppressed(const Finding& finding, const std::vector<Suppression>& suppressions) {
  std::string kernel = string_at(finding.evidence, "kernel");
  std::string plain = plain_name(kernel);
  return std::any_of(suppressions.begin(), suppressions.end(), [&](const Suppression& suppression) {
    auto matches = [](const std::string& pattern, const std::string& text) {
      return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
    };
    const bool here = (suppression.line == 0 || suppression.line == finding.where.line) &&
                      (suppression.file == "*" || matches("*" + suppression.file, finding.where.file));
    return here && matches(suppression.kind, finding.kind) &&
           (matches(suppression.kernel, kernel) || matches(suppression.kernel, plain));
  });
}

// "kernel.cu:14", "kernel.cu" or "14".
bool read_place(const std::string& text, Suppression& suppression) {
  const size_t colon = text.rfind(':');
  const auto is_number = [](const std::string& digits) {
    return !digits.empty() && digits.size() < 9 &&
           digits.find_first_not_of("0123456789") == std::string::npos;
  };
  if (is_number(text)) {
    suppression.line = std::stoi(text);
    return true;
  }
  suppression.file = text.substr(0, colon);
  if (colon == std::string::npos) return true;
  if (!is_number(text.substr(colon + 1))) return false;
  suppression.line = std::stoi(text.substr(colon + 1));
  return true;
}

class Collector {
 public:
  Collector(RunSummary& summary, const std::vector<Suppression>& suppressions)
      : summary_(summary), suppressions_(suppressions) {}

  void add(const Json& line) {
    std::string event = string_at(line, "event");
    if (event == "launch") add_launch(line);
    if (event == "finding") add_finding(finding_of(line));
    if (event == "sighting" && line.contains("finding")) sightings_.push_back(finding_of(line["finding"]));
    if (event == "told") sightings_.clear();
    if (event == "module") places_.add_module(string_at(line, "name"), string_at(line, "path"));
    if (event == "allocation" && line.contains("calls"))
      places_.add_allocation(number_at<uint64_t>(line, "id"), line["calls"].get<std::vector<std::string>>());
    if (event == "precision" && line.contains("profile")) summary_.precision = line["profile"];
    if (event == "fault") summary_.faults.push_back(string_at(line, "message"));
    if (event == "unsupported") {
      std::string what = string_at(line, "function");
      summary_.unsupported.push_back(what.empty() ? string_at(line, "message") : what);
    }
  }

  // What was seen in a launch that did not end.
  void end() {
    for (Finding& finding : sightings_)
      if (!reported_.contains(key_of(finding))) add_finding(std::move(finding));
    places_.name(summary_.findings);
  }

 private:
  static std::string key_of(const Finding& finding) {
    std::string key =
        fmt::format("{}|{}|{}|{}|{}", finding.kind, static_cast<int>(finding.severity),
                    string_at(finding.evidence, "kernel"), finding.where.file, finding.where.line);
    // What has no line is told apart by what it is about.
    if (finding.where.line == 0)
      for (const char* what : {"range", "operation", "access", "relation"})
        key += "|" + string_at(finding.evidence, what);
    return key;
  }

  void add_launch(const Json& line) {
    LaunchRow row{plain_name(string_at(line, "kernel")), dim_text(line.value("grid", Json())),
                  dim_text(line.value("block", Json()))};
    auto [place, fresh] = rows_.try_emplace({row.kernel, row.grid, row.block}, summary_.launches.size());
    if (fresh) summary_.launches.push_back(row);
    LaunchRow& total = summary_.launches[place->second];
    ++total.count;
    total.instructions += number_at<uint64_t>(line, "instructions");
    total.seconds += number_at<double>(line, "seconds");
  }

  void add_finding(Finding finding) {
    reported_.insert(key_of(finding));
    if (is_suppressed(finding, suppressions_)) {
      ++summary_.suppressed;
      return;
    }
    std::string key = key_of(finding);
    uint64_t count = std::max<uint64_t>(1, number_at<uint64_t>(finding.evidence, "count"));
    auto [place, fresh] = findings_.try_emplace(key, summary_.findings.size());
    if (fresh) {
      report::name_elements(finding);
      places_.note(finding);
      summary_.findings.push_back(std::move(finding));
    }
    Json& evidence = summary_.findings[place->second].evidence;
    evidence["count"] = fresh ? count : evidence["count"].get<uint64_t>() + count;
  }

  RunSummary& summary_;
  const std::vector<Suppression>& suppressions_;
  std::map<std::tuple<std::string, std::string, std::string>, size_t> rows_;
  std::map<std::string, size_t> findings_;
  std::set<std::string> reported_;  // suppressed ones too
  std::vector<Finding> sightings_;
  subject::Places places_;
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
  constexpr const char* kSeverities[] = {"note", "warning", "error"};
  std::string place =
      finding.where.file.empty() ? "" : fmt::format("{}:{}: ", finding.where.file, finding.where.line);
  uint64_t count = number_at<uint64_t>(finding.evidence, "count");
  fmt::print(stderr, "assay: {}{}: {}: {}{}\n", place, kSeverities[static_cast<size_t>(finding.severity)],
             finding.kind, finding.message, count > 1 ? fmt::format(" ({} times)", count) : "");
  std::istringstream source(report::source_text(finding));
  for (std::string line; std::getline(source, line);) fmt::print(stderr, "assay:   {}\n", line);
  for (const std::string& chain : report::chain_lines(finding)) fmt::print(stderr, "assay:     {}\n", chain);
  if (const std::string thread = report::thread_text(finding); !thread.empty())
    fmt::print(stderr, "assay:     {}\n", thread);
  if (finding.kind == "launch-failure" && !string_at(finding.evidence, "host").empty())
    fmt::print(stderr, "assay:     launched at {}\n", string_at(finding.evidence, "host"));
  const auto allocation = finding.evidence.find("allocation");
  if (allocation != finding.evidence.end() && !string_at(*allocation, "at").empty())
    fmt::print(stderr, "assay:     allocated at {}\n", string_at(*allocation, "at"));
}

}  // namespace

bool RunSummary::has_errors() const {
  return !faults.empty() || std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::Error;
  });
}

Result<std::vector<Suppression>> read_suppressions(const std::string& path) {
  std::vector<Suppression> all;
  if (path.empty()) return all;
  std::ifstream file(path);
  if (!file) return Error{"cannot be read", path, 0, 0};
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    std::istringstream words(line.substr(0, line.find('#')));
    Suppression suppression{"", "*"};
    std::string more;
    if (!(words >> suppression.kind)) continue;
    words >> suppression.kernel;
    if (words >> more && !read_place(more, suppression))
      return Error{"expected FILE:LINE, FILE or LINE after KIND and KERNEL", path, number, 0};
    if (words >> more) return Error{"expected KIND, and perhaps KERNEL and FILE:LINE", path, number, 0};
    all.push_back(suppression);
  }
  return all;
}

RunSummary read_summary(const std::string& path, const std::vector<Suppression>& suppressions) {
  RunSummary summary;
  Collector collector(summary, suppressions);
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    Json json = Json::parse(line, nullptr, false);  // a program that was killed may leave half a line
    if (json.is_object()) collector.add(json);
  }
  collector.end();
  return summary;
}

void print_summary(const RunSummary& summary) {
  std::fflush(stdout);
  print_launches(summary);
  for (const Finding& finding : summary.findings) print_finding(finding);
  if (summary.precision.is_object()) fmt::print(stderr, "{}", precision_text(summary.precision, "assay: "));
  // Notes are no findings to act upon.
  const auto found = std::count_if(summary.findings.begin(), summary.findings.end(),
                                   [](const Finding& finding) { return finding.severity != Severity::Note; });
  if (found || summary.suppressed)
    fmt::print(stderr, "assay: {} finding{}{}\n", found, found == 1 ? "" : "s",
               summary.suppressed ? fmt::format(", {} suppressed", summary.suppressed) : "");
}

Result<void> write_summary(const RunSummary& summary, const std::vector<std::string>& program, int status,
                           const std::string& path) {
  Json json = {{"program", program}};
  if (WIFEXITED(status))
    json["exit"] = WEXITSTATUS(status);
  else
    json["signal"] = WTERMSIG(status);
  json["launches"] = Json::array();
  for (const LaunchRow& row : summary.launches)
    json["launches"].push_back({{"kernel", row.kernel},
                                {"grid", row.grid},
                                {"block", row.block},
                                {"count", row.count},
                                {"warp_instructions", row.instructions},
                                {"seconds", row.seconds}});
  constexpr const char* kSeverities[] = {"note", "warning", "error"};
  json["findings"] = Json::array();
  for (const Finding& finding : summary.findings)
    json["findings"].push_back({{"kind", finding.kind},
                                {"severity", kSeverities[static_cast<size_t>(finding.severity)]},
                                {"message", finding.message},
                                {"where", {{"file", finding.where.file}, {"line", finding.where.line}}},
                                {"evidence", finding.evidence}});
  json["faults"] = summary.faults;
  json["unsupported"] = summary.unsupported;
  json["suppressed"] = summary.suppressed;
  if (summary.precision.is_object()) json["precision"] = summary.precision;
  std::ofstream file(path);
  file << json.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  file.close();
  if (!file) return Error{"cannot be written", path, 0, 0};
  return {};
}

}  // namespace assay::cli
