// assay check: from contracts to verdicts.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <sstream>

#include "assayer/assayer.h"
#include "base/diagnostic.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/parallel.h"
#include "cli/arguments.h"
#include "cli/background_proof.h"
#include "cli/gpu_reason.h"
#include "cli/problem.h"
#include "cli/recorded.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "subject/sanitizer.h"

namespace assay::cli {

namespace fs = std::filesystem;
using assayer::CheckOptions;
using assayer::CheckOutcome;

namespace {

// Whether a TOML file has a table that only contracts have: a repository has others, such as pyproject.toml. One with a
// slip in another table is still taken for a contract, and refused.
bool looks_like_contract(const fs::path& path) {
  const std::string text = "\n" + text_of(path.string());
  for (const char* table : {"\n[kernel]", "\n[reference]", "\n[tensors.", "\n[dims]"})
    if (text.find(table) != std::string::npos) return true;
  return false;
}

// Folders stand for the contracts in them, and below, but not in hidden folders.
Result<std::vector<std::string>> contracts_in(const std::vector<std::string>& paths) {
  std::vector<std::string> contracts;
  for (const std::string& path : paths) {
    std::error_code error;
    if (path.ends_with(".py") || path.ends_with(".json") || path.ends_with(".jsonl"))
      return Error{"this is not a contract; to check an answer, name its problem with --problem", path};
    if (!fs::is_directory(path, error)) {
      contracts.push_back(path);
      continue;
    }
    std::vector<std::string> found;
    const auto options = fs::directory_options::skip_permission_denied;
    for (fs::recursive_directory_iterator it(path, options, error), end; !error && it != end;
         it.increment(error)) {
      if (it->is_directory(error) && it->path().filename().string().starts_with('.'))
        it.disable_recursion_pending();
      else if (it->path().extension() == ".toml" && looks_like_contract(it->path()))
        found.push_back(it->path().lexically_normal().string());
    }
    if (found.empty()) return Error{"no contract (*.toml with a table [kernel]) in this folder", path};
    std::sort(found.begin(), found.end());
    contracts.insert(contracts.end(), found.begin(), found.end());
  }
  return contracts;
}

std::string files_json(const std::vector<report::Report>& reports) {
  if (reports.size() == 1)
    return report::to_json(reports.front()).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
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
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

// "0.8" and "80%" are the same share.
std::optional<double> share_of(const std::string& text) {
  char* end = nullptr;
  double share = std::strtod(text.c_str(), &end);
  const std::string_view rest = end;
  if (rest == "%") share /= 100;
  const bool legal = end != text.c_str() && (rest.empty() || rest == "%") && share >= 0 && share <= 1;
  return legal ? std::optional(share) : std::nullopt;
}

// "memcheck,racecheck"
Result<std::vector<std::string>> tools_of(const std::string& text) {
  std::vector<std::string> tools;
  std::istringstream words(text);
  for (std::string tool; std::getline(words, tool, ',');) {
    if (std::ranges::find(subject::kSanitizerTools, tool) == std::end(subject::kSanitizerTools))
      return Error{
          fmt::format("--sanitizer takes memcheck, racecheck, initcheck and synccheck, not '{}'", tool)};
    tools.push_back(tool);
  }
  return tools;
}

// The worst of several: a wrong contract, then a failure, then what could not be checked.
int worse(int a, int b) {
  const auto rank = [](int status) { return status == 2 ? 3 : status == 1 ? 2 : status == 3 ? 1 : 0; };
  return rank(a) >= rank(b) ? a : b;
}

// Seconds for a Python function, where nothing else is asked for: of trials, and from the start of the command until
// trials end that a pass does not require. Importing torch and compiling take their part of these, and the report
// comes within 15 s where those leave time enough for the rest.
constexpr double kPythonBudget = 8;
constexpr std::chrono::seconds kPythonSeconds{14};

struct Checked {
  int status = 0;
  std::string problem;  // with a contract that is wrong; for stderr
  report::Report report;
  bool skipped = false;
};

// `begun`: the command, for one contract only. `spare`: cores for this check alone.
Checked check_one(const std::string& path, const CheckOptions& options,
                  std::optional<std::chrono::steady_clock::time_point> begun, Proving proving, int spare,
                  bool both) {
  if (interrupted()) {
    Checked skipped{judge::exit_status(judge::Verdict::Inconclusive), "", {}, true};
    skipped.report.contract = path;
    skipped.report.unknown = {"interrupted before its check began"};
    return skipped;
  }
  auto contract = contract::load(path);
  if (!contract) {
    Checked wrong{kWrongUse, diagnostic(contract.error()), {}};
    wrong.report.contract = path;
    wrong.report.unknown = {contract.error().text()};
    return wrong;
  }
  CheckOptions own = options;
  if (own.budget == 0) {
    own.budget = contract->kernel.python ? kPythonBudget : CheckOptions{}.budget;
    if (contract->kernel.python && begun) own.deadline = *begun + kPythonSeconds;
  }
  std::optional<BackgroundProof> proof;
  const auto no_proof = why_no_proof(proving, *contract, own, spare);
  if (!no_proof) {
    proof.emplace(*contract,
                  BackgroundProof::Options{.seconds = own.budget, .wait = proving == Proving::Wait});
    own.launched = proof->listener();
  }
  CheckOutcome outcome = both ? check_on_both(*contract, own) : check(*contract, own);
  if (proof && !outcome.contract_wrong) proof->finish(own, outcome.report);
  if (no_proof && outcome.report.verdict == judge::Verdict::Pass) outcome.report.no_proof = *no_proof;
  if (outcome.contract_wrong) return {kWrongUse, outcome.problem, std::move(outcome.report)};
  return {judge::exit_status(outcome.report.verdict), "", std::move(outcome.report)};
}

// All of them, as many at a time as there are cores; each is reported in its turn.
std::vector<Checked> check_all(const std::vector<std::string>& contracts, const CheckOptions& options,
                               int jobs, std::chrono::steady_clock::time_point begun, Proving proving,
                               bool both) {
  std::vector<Checked> checked(contracts.size());
  Progress progress;
  const bool several = contracts.size() > 1;
  std::size_t told = 0;
  in_order(
      contracts.size(), jobs,
      [&](std::size_t i) {
        CheckOptions own = options;
        const int spare = std::max(1, cores() / jobs);
        own.threads = several ? spare : 0;
        own.progress = [&, i](const std::string& text) {
          progress.show(several ? fmt::format("{}/{}  {}  {}", told, contracts.size(), contracts[i], text)
                                : fmt::format("{}  {}", contracts[i], text));
        };
        checked[i] =
            check_one(contracts[i], own, several ? std::nullopt : std::optional(begun), proving, spare, both);
      },
      [&](std::size_t i) {
        progress.clear();
        told = i + 1;
        if (checked[i].skipped) return;
        if (checked[i].problem.empty()) {
          fmt::print("{}\n", report::terminal(checked[i].report, terminal_options()));
        } else {
          fmt::print(stderr, "{}\n", checked[i].problem);
        }
        std::fflush(stdout);
      });
  return checked;
}

}  // namespace

int check_command(std::vector<std::string> args) {
  const auto begun = std::chrono::steady_clock::now();
  Arguments arguments("Checks kernels against their contracts.", "assay check");
  std::vector<std::string> paths;
  std::string json, junit, sarif, html;
  DeviceName device;
  CheckOptions options;
  std::string repeated;
  const auto contract =
      arguments.add("contract", paths, "contract files, or folders of them; with --problem, an answer");
  std::string problem;
  arguments.add("--problem PATH", problem, "benchmark problem (file or folder) to check the answer against");
  arguments.add("--repeat REPORT", repeated, "rerun exactly the trials recorded in this report (JSON)")
      .excludes(contract);
  arguments.add("--json FILE", json, "write the report to this file");
  arguments.add("--html FILE", html, "write an HTML report to this file");
  arguments.add("--junit FILE", junit, "write a JUnit report to this file");
  arguments.add("--sarif FILE", sarif, "write a SARIF report to this file");
  const char* usual = std::getenv("ASSAY_DEVICE");
  device.name = usual && *usual ? usual : "auto";
  arguments
      .add("--device DEVICE", device.name,
           "where kernels run; auto: on the virtual device, and on a GPU as well if there is one. "
           "ASSAY_DEVICE "
           "sets the default")
      .one_of({"auto", "virtual", "cuda"});
  arguments.add("--seed", options.seed, "random seed; the same seed gives the same plan");
  double budget = 0;
  arguments
      .add("--budget SECONDS", budget,
           fmt::format("seconds of trials for each contract; {:.0f} by default, {:.0f} for a Python function",
                       options.budget, kPythonBudget))
      .positive();
  std::string min_coverage;
  arguments.add("--min-coverage SHARE", min_coverage,
                "share of the planned trials that must run, as 0.8 or 80%; if fewer do, a check that found "
                "nothing is inconclusive");
  arguments.add_flag("--keep-going", options.keep_going,
                     "continue after a finding until the budget is spent; report each cause once");
  int jobs = cores();
  arguments.add("--jobs", jobs, "contracts to check in parallel; one per core by default").positive();
  bool prove = false, no_prove = false;
  arguments.add_flag(
      "--prove", prove,
      "wait for the proofs that run beside the trials; on one core, they take at most as long as the budget");
  arguments.add_flag("--no-prove", no_prove,
                     "skip the proofs that run beside the trials (assay prove --help)");
  std::string sanitizers;
  arguments.add("--sanitizer TOOLS", sanitizers,
                "on a GPU: also run a few trials under these compute-sanitizer tools: "
                "memcheck,racecheck,initcheck,synccheck");
  bool trace = false;
  arguments.add_flag("--trace", trace, "print every trial on stderr");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  if (trace) options.trace = [](const std::string& line) { fmt::print(stderr, "{}\n", line); };
  if (!min_coverage.empty()) {
    const auto share = share_of(min_coverage);
    if (!share) {
      fmt::print(stderr, "assay: --min-coverage takes a share such as 0.8 or 80%, not '{}'\n", min_coverage);
      return kWrongUse;
    }
    options.min_coverage = *share;
  }
  if (prove && no_prove) {
    fmt::print(stderr, "assay: --prove and --no-prove exclude each other\n");
    return kWrongUse;
  }
  const auto tools = tools_of(sanitizers);
  if (!tools) {
    fmt::print(stderr, "assay: {}\n", tools.error().text());
    return kWrongUse;
  }
  options.sanitizers = *tools;
  const Proving proving = prove ? Proving::Wait : no_prove ? Proving::Off : Proving::IfRoom;
  options.budget = budget;
  if (!repeated.empty()) {
    const auto path = read_timeline(repeated, options, device.name);
    if (!path) {
      fmt::print(stderr, "assay: {}\n", path.error().text());
      return kWrongUse;
    }
    paths = {*path};
  }
  if (paths.empty()) {
    fmt::print(stderr, "assay: name a contract to check; see `assay check --help`\n");
    return kWrongUse;
  }
  if (device.name != "auto" && device.name != "virtual" && device.name != "cuda") {
    if (repeated.empty()) {
      fmt::print(stderr, "assay: ASSAY_DEVICE is auto, virtual or cuda, not '{}'\n", device.name);
      return kWrongUse;
    }
    device.name = "virtual";  // of a report of two devices, what can be repeated exactly
  }
  options.device = device.device();
  bool both = false;
  if (options.device == subject::Device::Cuda) {
    options.device_problem = why_gpu_unusable();
  } else if (device.name == "auto") {
    const AutoDevice found = auto_device();
    both = found.both;
    if (!found.problem.empty()) fmt::print(stderr, "assay: the GPU is not used: {}\n", found.problem);
  }
  if (!options.sanitizers.empty() && !both && options.device != subject::Device::Cuda) {
    fmt::print(stderr, "assay: --sanitizer needs a GPU: use --device cuda\n");
    return kWrongUse;
  }
  options.pictures = !html.empty();

  if (!problem.empty()) {
    if (paths.size() != 1) {
      fmt::print(stderr, "assay: --problem takes one answer, not {}\n", paths.size());
      return kWrongUse;
    }
    options.interpreter =
        subject::start_interpreter(paths.front());  // imports torch while the problem is read
    auto described = describe_problem(paths.front(), problem);
    if (!described) {
      fmt::print(stderr, "assay: {}\n", described.error().text());
      return kWrongUse;
    }
    for (const std::string& note : described->notes) fmt::print(stderr, "assay: {}\n", note);
    paths = {described->contract};
    options.runner.hidden = described->files;
    options.torch = described->torch;
  }
  const auto contracts = contracts_in(paths);
  if (!contracts) {
    fmt::print(stderr, "assay: {}\n", contracts.error().text());
    return kWrongUse;
  }
  announce_cache();
  std::vector<report::Report> reports;
  int status = 0;
  for (Checked& checked :
       check_all(*contracts, options, std::min<int>(jobs, static_cast<int>(contracts->size())), begun,
                 proving, both)) {
    status = worse(status, checked.status);
    reports.push_back(std::move(checked.report));
  }
  if (reports.size() > 1) fmt::print("{}", report::table(reports, terminal_options()));
  bool written = true;
  if (!json.empty()) written &= write_text(json, files_json(reports));
  if (!html.empty()) written &= write_text(html, report::html(reports));
  if (!junit.empty()) written &= write_text(junit, report::junit(reports));
  if (!sarif.empty())
    written &=
        write_text(sarif, report::sarif(reports).dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  return written ? status : kWrongUse;
}

}  // namespace assay::cli
