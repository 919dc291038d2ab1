// assay check: from contracts to verdicts. assay replay: one trial of a report again.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>

#include "assayer/assayer.h"
#include "cli/jobs.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"

namespace assay::cli {

namespace fs = std::filesystem;
using assayer::CheckOptions;
using assayer::CheckOutcome;

namespace {

constexpr int kWrongUse = 2;

struct DeviceName {
  std::string name = "virtual";
  subject::Device device() const { return name == "cuda" ? subject::Device::Cuda : subject::Device::Virtual; }
};

// 0 when the command line was understood; else what to exit with, less one.
int parsed(CLI::App& app, std::vector<std::string>& args) {
  std::reverse(args.begin(), args.end());  // CLI11 takes them from the back
  try {
    app.parse(args);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 1 : 1 + kWrongUse;
  }
  return 0;
}

// Folders stand for the contracts in them.
Result<std::vector<std::string>> contracts_in(const std::vector<std::string>& paths) {
  std::vector<std::string> contracts;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      contracts.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path, error)) {
      if (entry.path().extension() == ".toml") found.push_back(entry.path().string());
    }
    if (found.empty()) return Error{"there is no contract (*.toml) in this folder", path};
    std::sort(found.begin(), found.end());
    contracts.insert(contracts.end(), found.begin(), found.end());
  }
  return contracts;
}

std::string files_json(const std::vector<report::Report>& reports) {
  if (reports.size() == 1) return report::to_json(reports.front()).dump(2) + "\n";
  Json json;
  json["assay"] = "1";
  Json list = Json::array();
  judge::Verdict worst = judge::Verdict::Pass;
  Json findings = Json::array();
  for (const report::Report& report : reports) {
    list.push_back(report::to_json(report));
    for (const Json& finding : list.back()["findings"]) findings.push_back(finding);
    if (report.verdict == judge::Verdict::Fail) worst = judge::Verdict::Fail;
    if (report.verdict == judge::Verdict::Inconclusive && worst == judge::Verdict::Pass)
      worst = report.verdict;
  }
  json["verdict"] = judge::to_string(worst);
  json["findings"] = findings;
  json["coverage"] = {{"contracts", reports.size()}};
  json["reports"] = list;
  return json.dump(2) + "\n";
}

// The worst of several: a wrong contract, then a failure, then what could not be checked.
int worse(int a, int b) {
  const auto rank = [](int status) { return status == 2 ? 3 : status == 1 ? 2 : status == 3 ? 1 : 0; };
  return rank(a) >= rank(b) ? a : b;
}

struct Checked {
  int status = 0;
  std::string problem;  // with a contract that is wrong; for stderr
  report::Report report;
};

Checked check_one(const std::string& path, const CheckOptions& options) {
  auto contract = contract::load(path);
  if (!contract) {
    Checked wrong{kWrongUse, contract.error().text(), {}};
    wrong.report.contract = path;
    wrong.report.unknown = {wrong.problem};
    return wrong;
  }
  CheckOutcome outcome = check(*contract, options);
  if (outcome.contract_wrong) return {kWrongUse, outcome.problem, std::move(outcome.report)};
  return {judge::exit_status(outcome.report.verdict), "", std::move(outcome.report)};
}

// All of them, as many at a time as there are cores; each is told of in its turn.
std::vector<Checked> check_all(const std::vector<std::string>& contracts, const CheckOptions& options,
                               int jobs) {
  std::vector<Checked> checked(contracts.size());
  Progress progress;
  const bool several = contracts.size() > 1;
  std::size_t told = 0;
  in_order(
      contracts.size(), jobs,
      [&](std::size_t i) {
        CheckOptions own = options;
        own.threads = several ? std::max(1, cores() / jobs) : 0;
        own.progress = [&, i](const std::string& text) {
          progress.show(several ? fmt::format("{}/{}  {}  {}", told, contracts.size(), contracts[i], text)
                                : fmt::format("{}  {}", contracts[i], text));
        };
        checked[i] = check_one(contracts[i], own);
      },
      [&](std::size_t i) {
        progress.clear();
        told = i + 1;
        if (checked[i].problem.empty()) {
          fmt::print("{}\n", report::terminal(checked[i].report, terminal_options()));
        } else {
          fmt::print(stderr, "assay: {}\n", checked[i].problem);
        }
        std::fflush(stdout);
      });
  return checked;
}

// Where a report says that its contract is: as it stands there, or beside the report.
std::string contract_of(const Json& report, const std::string& path) {
  fs::path contract = report["contract"].get<std::string>();
  if (std::error_code error; contract.is_relative() && !fs::exists(contract, error)) {
    contract = fs::path(path).parent_path() / contract;
  }
  return contract.string();
}

// What a report holds of a finding.
struct Recorded {
  contract::Contract contract;
  trial::Trial trial;
  std::string kind;
};

Result<Recorded> read_trial(const std::string& path, std::size_t which) {
  std::ifstream file(path);
  if (!file) return Error{"this report cannot be read", path};
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("contract") || !json.contains("findings")) {
    return Error{"this is not a report of assay", path};
  }
  if (which == 0 || which > json["findings"].size()) {
    return Error{fmt::format("the report has {} findings, no number {}", json["findings"].size(), which),
                 path};
  }
  const Json& finding = json["findings"][which - 1];
  const Json evidence = finding.value("evidence", Json::object());
  if (!evidence.contains("trial")) return Error{"this finding holds no trial", path};
  auto contract = contract::load(contract_of(json, path));
  if (!contract) return contract.error();
  auto trial = trial::from_json(*contract, evidence["trial"]);
  if (!trial) return trial.error();
  return Recorded{std::move(*contract), std::move(*trial), finding.value("kind", "")};
}

// The contract of a report, and the options that repeat its check exactly.
Result<std::string> read_course(const std::string& path, CheckOptions& options, DeviceName& device) {
  std::ifstream file(path);
  if (!file) return Error{"this report cannot be read", path};
  const Json json = Json::parse(file, nullptr, false);
  if (!json.is_object() || !json.contains("contract") || !json.contains("coverage")) {
    return Error{"this is not a report of one check", path};
  }
  const Json& coverage = json["coverage"];
  auto course = assayer::Course::from_json(coverage.value("course", Json()));
  if (!course) return Error{course.error().message, path};
  options.course = std::move(*course);
  options.seed = coverage.value("seed", options.seed);
  options.budget = coverage.value("budget_seconds", options.budget);
  device.name = json.value("device", device.name);
  return contract_of(json, path);
}

}  // namespace

int check_command(std::vector<std::string> args) {
  CLI::App app{"Checks kernels against their contracts.", "assay check"};
  std::vector<std::string> paths;
  std::string json, junit, sarif, html;
  DeviceName device;
  CheckOptions options;
  std::string repeated;
  auto* contract = app.add_option("contract", paths, "contract files, or folders of them");
  app.add_option("--repeat", repeated, "make exactly the trials of this report (JSON) again")
      ->excludes(contract);
  app.add_option("--json", json, "write the report to this file");
  app.add_option("--html", html, "write a page to look at to this file");
  app.add_option("--junit", junit, "write a JUnit report to this file");
  app.add_option("--sarif", sarif, "write a SARIF report to this file");
  app.add_option("--device", device.name, "where kernels run")->check(CLI::IsMember({"virtual", "cuda"}));
  app.add_option("--seed", options.seed, "of everything random; equal seeds give equal plans");
  app.add_option("--budget", options.budget, "seconds of trials for each contract")
      ->check(CLI::PositiveNumber);
  int jobs = cores();
  app.add_option("--jobs", jobs, "contracts checked at a time; as many as there are cores by default")
      ->check(CLI::PositiveNumber);
  bool trace = false;
  app.add_flag("--trace", trace, "print every trial on stderr");
  if (const int status = parsed(app, args)) return status - 1;
  if (trace) options.trace = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  if (!repeated.empty()) {
    const auto path = read_course(repeated, options, device);
    if (!path) {
      fmt::print(stderr, "assay: {}\n", path.error().text());
      return kWrongUse;
    }
    paths = {*path};
  }
  if (paths.empty()) {
    fmt::print(stderr, "assay: no contract to check; assay check --help says more\n");
    return kWrongUse;
  }
  options.device = device.device();
  options.pictures = !html.empty();

  const auto contracts = contracts_in(paths);
  if (!contracts) {
    fmt::print(stderr, "assay: {}\n", contracts.error().text());
    return kWrongUse;
  }
  std::vector<report::Report> reports;
  int status = 0;
  for (Checked& checked :
       check_all(*contracts, options, std::min<int>(jobs, static_cast<int>(contracts->size())))) {
    status = worse(status, checked.status);
    reports.push_back(std::move(checked.report));
  }
  if (reports.size() > 1) fmt::print("{}", report::table(reports, terminal_options()));
  bool written = true;
  if (!json.empty()) written &= write_text(json, files_json(reports));
  if (!html.empty()) written &= write_text(html, report::html(reports));
  if (!junit.empty()) written &= write_text(junit, report::junit(reports));
  if (!sarif.empty()) written &= write_text(sarif, report::sarif(reports).dump(2) + "\n");
  return written ? status : kWrongUse;
}

int replay_command(std::vector<std::string> args) {
  CLI::App app{"Repeats the trial of a finding.", "assay replay"};
  std::string path, json;
  std::size_t which = 1;
  DeviceName device;
  app.add_option("report", path, "a report written by assay check")->required();
  app.add_option("--finding", which, "which of its findings, from 1");
  app.add_option("--json", json, "write the report to this file");
  app.add_option("--device", device.name, "where kernels run")->check(CLI::IsMember({"virtual", "cuda"}));
  if (const int status = parsed(app, args)) return status - 1;
  const auto read = read_trial(path, which);
  if (!read) {
    fmt::print(stderr, "assay: {}\n", read.error().text());
    return kWrongUse;
  }
  CheckOptions options;
  options.device = device.device();
  const CheckOutcome outcome = replay(read->contract, read->trial, read->kind, options);
  if (outcome.contract_wrong) {
    fmt::print(stderr, "assay: {}\n", outcome.problem);
    return kWrongUse;
  }
  fmt::print("{}", report::terminal(outcome.report, terminal_options()));
  if (!json.empty() && !write_text(json, files_json({outcome.report}))) return kWrongUse;
  return judge::exit_status(outcome.report.verdict);
}

}  // namespace assay::cli
