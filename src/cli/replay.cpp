// assay replay: one trial of a report again, or a captured call (replay_capture.h).
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "cli/arguments.h"
#include "cli/gpu_reason.h"
#include "cli/recorded.h"
#include "cli/replay_capture.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "monitor/capture.h"

namespace assay::cli {

namespace fs = std::filesystem;
using assayer::CheckOptions;
using assayer::CheckOutcome;

namespace {

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

Result<Json> read_report(const std::string& path, const char* needed) {
  const auto text = read_file(path);
  if (!text) return Error{fmt::format("this report cannot be read: {}", text.error().message), path};
  Json json = Json::parse(*text, nullptr, false);
  if (!json.is_object() || !json.contains(needed)) return Error{"not an Assay report, or damaged", path};
  return json;
}

// Whether each of the report's files is still as it was; "a.cu and b.h" of those that are not.
std::string changed(const Json& files) {
  std::string names;
  for (const Json& entry : files) {
    const fs::path path = entry.value("path", "");
    if (text_of(path.string()) != entry.value("text", ""))
      names += (names.empty() ? "" : ", ") + path.filename().string();
  }
  return names;
}

// The report's own copies, under a folder of the cache as they lay to one another.
Result<std::string> restore(const Json& files) {
  const std::string text = files.dump();
  const fs::path root = fs::path(subject::cache_folder("")) / "replays" /
                        fmt::format("{:016x}", std::hash<std::string>{}(text));
  for (const Json& entry : files) {
    const fs::path original = entry.value("path", "");
    const fs::path copy = (root / original.relative_path()).lexically_normal();
    if (std::mismatch(root.begin(), root.end(), copy.begin(), copy.end()).first != root.end())
      return Error{"the report names a file that is not its own", original.string()};
    std::error_code error;
    fs::create_directories(copy.parent_path(), error);
    std::ofstream file(copy, std::ios::binary);
    file << entry.value("text", "");
    if (!file.flush()) return Error{"cannot be written", copy.string()};
  }
  return (root / fs::path(files.front().value("path", "")).relative_path()).string();
}

// Where the report's contract is: as it stands there, beside the report, where it lay; or, all of these gone,
// the report's own copy.
Result<std::string> contract_of(const Json& report, const std::string& path, std::string& note) {
  const Json files = report.value("files", Json::array());
  const fs::path named = report.value("contract", "");
  std::vector<fs::path> places = {named, fs::path(path).parent_path() / named};
  const bool whole = !files.empty() && std::all_of(files.begin(), files.end(), [](const Json& entry) {
    return is_there(entry.value("path", ""));
  });
  if (whole) {
    if (const std::string names = changed(files); !names.empty())
      note = fmt::format("changed since the report: {}", names);
    return files.front().value("path", "");
  }
  if (!files.empty()) {
    note = "the kernel's file is gone: using the report's own copy";
    return restore(files);
  }
  for (const fs::path& place : places)
    if (is_there(place)) return place.string();
  return places.back().string();
}

}  // namespace

namespace {

Result<Recorded> read_recorded(const std::string& path, std::size_t which) {
  auto json = read_report(path, "findings");
  if (!json) return json.error();
  // A report of several contracts holds one for each.
  std::vector<std::pair<Json, Json>> findings;
  for (const Json& report : json->value("reports", Json::array({*json})))
    for (const Json& finding : report.value("findings", Json::array()))
      findings.emplace_back(report, finding);
  if (which == 0 || which > findings.size())
    return Error{fmt::format("the report has {} finding{}; there is no finding {}", findings.size(),
                             findings.size() == 1 ? "" : "s", which),
                 path};
  const auto& [report, finding] = findings[which - 1];
  const Json evidence = finding.value("evidence", Json::object());
  if (!evidence.contains("trial")) return Error{"this finding has no recorded trial to replay", path};
  Recorded recorded;
  const auto kind = kind_named(finding.value("kind", ""));
  if (!kind) return Error{fmt::format("`{}` is not a kind of finding", finding.value("kind", "")), path};
  recorded.kind = *kind;
  const Json devices = evidence.value("devices", Json::array({report.value("device", "virtual")}));
  if (devices == Json::array({"cuda"})) recorded.device = "cuda";
  const auto place = contract_of(report, path, recorded.note);
  if (!place) return place.error();
  auto contract = contract::load(*place);
  if (!contract) return contract.error();
  auto trial = trial::from_json(*contract, evidence["trial"]);
  if (!trial) return trial.error();
  recorded.contract = std::move(*contract);
  recorded.trial = std::move(*trial);
  return recorded;
}

}  // namespace

Result<Recorded> read_trial(const std::string& path, std::size_t which) {
  try {
    return read_recorded(path, which);
  } catch (const nlohmann::json::exception&) {  // a field of another type than a report has there
    return Error{"not an Assay report, or damaged", path};
  }
}

Result<std::string> read_timeline(const std::string& path, CheckOptions& options, std::string& device) {
  auto json = read_report(path, "coverage");
  if (!json) return json.error();
  if (!json->contains("contract")) return Error{"this is not a report of one check", path};
  const Json& coverage = (*json)["coverage"];
  auto timeline = assayer::Timeline::from_json(coverage.value("timeline", Json()));
  if (!timeline) return Error{timeline.error().message, path};
  options.timeline = std::move(*timeline);
  options.seed = coverage.value("seed", options.seed);
  options.budget = coverage.value("budget_seconds", options.budget);
  options.min_coverage = coverage.value("min_coverage", options.min_coverage);
  device = json->value("device", device);
  std::string note;
  auto place = contract_of(*json, path, note);
  // A report that repeats another names its contract as that one does.
  const std::string named = json->value("contract", "");
  if (place && is_there(named) && fs::absolute(named).lexically_normal() == *place) return named;
  return place;
}

int replay_command(std::vector<std::string> args) {
  Arguments arguments(
      "Repeats the trial of a finding; or a captured call, and says whether the kernel, the hardware or "
      "neither is "
      "at fault.",
      "assay replay");
  std::string path, json;
  std::size_t which = 1;
  DeviceName device{""};
  arguments.add("report", path, "a report written by assay check, or a capture").required();
  arguments.add("--finding N", which, "which of its findings, counting from 1");
  arguments.add("--json FILE", json, "write the report to this file");
  arguments.add("--device DEVICE", device.name, "where kernels run; by default the device that showed it")
      .one_of({"virtual", "cuda"});
  if (const auto status = arguments.parse(std::move(args))) return *status;
  if (monitor::is_capture(path)) return replay_capture(path, device.device(), json);
  const auto read = read_trial(path, which);
  if (!read) return complain(read.error());
  if (!read->note.empty()) fmt::print(stderr, "assay: {}\n", read->note);
  announce_cache();
  CheckOptions options;
  options.device = device.name.empty() ? DeviceName{read->device}.device() : device.device();
  if (options.device == subject::Device::Cuda) options.device_problem = why_gpu_unusable();
  const CheckOutcome outcome = replay(read->contract, read->trial, read->kind, options);
  if (outcome.contract_wrong) {
    fmt::print(stderr, "{}\n", outcome.problem);
    return kWrongUse;
  }
  fmt::print("{}", report::terminal(outcome.report, terminal_options()));
  if (!json.empty() &&
      !write_text(json,
                  report::to_json(outcome.report).dump(2, ' ', false, Json::error_handler_t::replace) + "\n"))
    return kWrongUse;
  return judge::exit_status(outcome.report.verdict);
}

}  // namespace assay::cli
