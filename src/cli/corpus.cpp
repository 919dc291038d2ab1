// assay corpus: kernels whose verdict is known, checked; and what `allclose` would have said of them.
//
// A corpus is a folder of operators, each with a contract and kernels under correct/ and wrong/. The head of
// a kernel says what to expect (corpus/README.md). Every kernel takes the place of the contract's source.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>

#include "assayer/assayer.h"
#include "assayer/witness.h"
#include "base/interrupt.h"
#include "base/parallel.h"
#include "base/random.h"
#include "cli/arguments.h"
#include "cli/gpu_reason.h"
#include "cli/terminal.h"
#include "cli/verdict_commands.h"
#include "subject/subject.h"
#include "trial/shapes.h"

namespace assay::cli {

namespace fs = std::filesystem;
using assayer::CheckOptions;
using assayer::CheckOutcome;
using contract::Contract;
using contract::DType;
using trial::Family;

namespace {

struct Case {
  fs::path contract, source;
  std::string name;             // "softmax/wrong/no_maximum"
  bool wrong = false;           // it should fail
  std::set<std::string> kinds;  // with one of these
  char family = '-';            // class of defect, A to L
};

enum class Mark : uint8_t {
  Right,       // passed as it should, or failed with an apt kind
  OtherKind,   // failed as it should, for another reason than planted
  Missed,      // passed, or could not be checked, though it is wrong
  FalseAlarm,  // failed, or could not be checked, though it is correct
  Broken,      // the corpus itself is at fault
};

// NOLINTNEXTLINE(bugprone-exception-escape): moving a Json asserts what holds, and does not throw
struct Outcome {
  Case checked;
  Mark mark = Mark::Broken;
  std::string detail;            // kinds found, or why there is no verdict
  double seconds = 0;            // of the whole check
  std::string_view verdict;      // "pass"; none: it could not be checked
  std::optional<bool> allclose;  // whether it would have passed; none: it could not be run
  Json alone;                    // what each device said, where both were asked
  Json sanitizer;                // what compute-sanitizer's tools said, where they were asked
  Json gates;                    // how close it came to each gate of the judge; null: not asked for
};

std::vector<std::string> words(std::string_view text) {
  std::string plain(text);
  std::replace(plain.begin(), plain.end(), ',', ' ');
  std::istringstream stream(plain);
  return {std::istream_iterator<std::string>(stream), {}};
}

// The lines "// assay: KEY …" at the top of a kernel.
Result<Case> read_case(const fs::path& contract, const fs::path& source, const std::string& name) {
  Case found{contract, source, name, false, {}, '-'};
  bool told = false;
  std::ifstream file(source);
  for (std::string line; std::getline(file, line) && line.starts_with("//");) {
    constexpr std::string_view kPrefix = "// assay:";
    if (!line.starts_with(kPrefix)) continue;
    const std::vector<std::string> parts = words(std::string_view(line).substr(kPrefix.size()));
    if (parts.size() >= 2 && parts[0] == "expect") {
      told = parts[1] == "pass" || (parts[1] == "fail" && parts.size() > 2);
      found.wrong = parts[1] == "fail";
      found.kinds.insert(parts.begin() + 2, parts.end());
    }
    if (parts.size() == 2 && parts[0] == "class") found.family = parts[1].front();
  }
  for (const std::string& kind : found.kinds) {
    if (!kind_named(kind)) return Error{fmt::format("unknown kind of finding `{}`", kind), source.string()};
  }
  if (!told) {
    return Error{"the first lines do not say what to expect: `// assay: expect pass`, or `fail` and kinds",
                 source.string()};
  }
  return found;
}

Result<std::vector<Case>> find_cases(const fs::path& folder, const std::vector<std::string>& filters) {
  std::vector<fs::path> sources;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.path().extension() == ".cu") sources.push_back(entry.path());
  }
  std::sort(sources.begin(), sources.end());
  std::vector<Case> cases;
  for (const fs::path& source : sources) {
    const fs::path home = source.parent_path().parent_path();
    if (!fs::exists(home / "contract.toml", error)) continue;
    const std::string name =
        (source.lexically_relative(home.parent_path()).replace_extension()).generic_string();
    const auto wanted = [&](const std::string& filter) { return name.find(filter) != std::string::npos; };
    if (!filters.empty() && std::none_of(filters.begin(), filters.end(), wanted)) continue;
    auto found = read_case(home / "contract.toml", source, name);
    if (!found) return found.error();
    cases.push_back(std::move(*found));
  }
  if (cases.empty() && !filters.empty())
    return Error{fmt::format("no kernel matches {}", fmt::join(filters, ", ")), folder.string()};
  if (cases.empty()) return Error{"no kernel with a contract.toml above it", folder.string()};
  return cases;
}

// ---- what a usual test would have said

struct Tolerance {
  double relative, absolute;
};
// The defaults of torch.testing.assert_close; for fp8 those of its users.
Tolerance usual_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return {1e-7, 1e-7};
    case DType::f32:
      return {1.3e-6, 1e-5};
    case DType::f16:
      return {1e-3, 1e-5};
    case DType::bf16:
      return {1.6e-2, 1e-5};
    case DType::e4m3:
      return {0.125, 0.0675};
    case DType::e5m2:
      return {0.25, 0.125};
    default:
      return {0, 0};
  }
}

bool all_close(const contract::Tensor& stored, const reference::Expectation& expected) {
  const Tolerance tolerance = usual_tolerance(stored.dtype);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double got = stored.load(expected.element[i]);
    const double want =
        expected.integer.empty() ? expected.value[i] : static_cast<double>(expected.integer[i]);
    if (got == want || (std::isnan(got) && std::isnan(want))) continue;
    if (!(std::abs(got - want) <= tolerance.absolute + tolerance.relative * std::abs(want))) return false;
  }
  return true;
}

// A round shape and well-behaved inputs, as tests tend to have: one call, on an idle device.
trial::Trial friendly_trial(const Contract& contract) {
  trial::Trial trial;
  trial.shape = trial::fit(contract, trial::uniform_shape(contract, 64), 2e6, 64e6).shape;
  for (const contract::TensorSpec* input : contract.inputs()) {
    const bool tokens = input->values.kind == contract::ValuesKind::Tokens;
    trial.families.emplace(input->name, tokens ? Family::Uniform : Family::Natural);
  }
  for (const contract::ScalarSpec& spec : contract.scalars) {
    const double value = spec.is_range() ? spec.low : spec.values.front();
    trial.scalars.emplace(spec.name, !contract::is_float(spec.dtype)
                                         ? contract::Scalar::of_int(spec.dtype, static_cast<int64_t>(value))
                                         : contract::Scalar::of(spec.dtype, value));
  }
  trial.condition.ordered = false;
  return trial;
}

std::optional<bool> passes_allclose(const Contract& contract, const CheckOptions& options) {
  const auto reference = reference::Reference::make(contract);
  const subject::BuildOutcome built = subject::build(contract, {.cache = options.cache});
  if (!reference || !built.subject) return std::nullopt;
  const trial::Trial trial = friendly_trial(contract);
  const auto bindings = trial::make_inputs(contract, trial);
  if (!bindings) return std::nullopt;
  subject::RunnerOptions runner_options = options.runner;
  runner_options.device = options.device;
  runner_options.checks = {};
  runner_options.timeout = 20;
  subject::Runner runner(contract, *built.subject, runner_options);
  const subject::Observation seen = runner.run(trial, *bindings);
  if (seen.outcome == subject::CallOutcome::TooLarge || seen.outcome == subject::CallOutcome::Unavailable) {
    return std::nullopt;
  }
  if (seen.outcome != subject::CallOutcome::Ended || seen.calls.empty()) return false;
  for (const auto& [name, tensor] : seen.calls.front().outputs) {
    const auto expected = reference->expect_all(*bindings, name);
    if (!expected) return std::nullopt;
    if (!all_close(*tensor, *expected)) return false;
  }
  return true;
}

// What each tool of compute-sanitizer reports of a few plain calls.
Json ask_sanitizer(const Contract& contract, const CheckOptions& options) {
  constexpr double kCallSeconds = 8;
  Json said = Json::object();
  const subject::BuildOutcome built = subject::build(contract, {.cache = options.cache});
  if (!built.subject) return said;
  const std::vector<trial::Trial> trials = assayer::trials_to_witness(contract);
  for (const std::string& tool : options.sanitizers) {
    const assayer::Witnessed seen =
        assayer::witness(contract, *built.subject, tool, trials, options, kCallSeconds);
    Json found = Json::array();
    for (const Finding& finding : seen.findings) found.push_back(finding.found.witness);
    said[tool] = {{"found", found}, {"problem", seen.problem}, {"seconds", seen.seconds}};
  }
  return said;
}

// ---- checking and telling

struct Asked {
  bool check = true, allclose = true;
  bool both = false;  // devices
};

void ask_others(const Contract& contract, const CheckOptions& options, const Asked& asked, Outcome& outcome) {
  CheckOptions own = options;
  if (asked.both) own.device = subject::Device::Cuda;  // where a usual test runs
  if (asked.allclose) outcome.allclose = passes_allclose(contract, own);
  if (!options.sanitizers.empty()) outcome.sanitizer = ask_sanitizer(contract, options);
}

Outcome check_case(const Case& wanted, const CheckOptions& options, const Asked& asked) {
  const auto began = std::chrono::steady_clock::now();
  Outcome outcome{wanted};
  auto contract = contract::load(wanted.contract.string());
  if (!contract) {
    outcome.detail = contract.error().text();
    return outcome;
  }
  contract->kernel.sources = {
      fs::absolute(wanted.source).lexically_relative(fs::absolute(wanted.contract).parent_path()).string()};
  if (!asked.check) {
    outcome.mark = Mark::Right;
    outcome.detail = "not checked";
    ask_others(*contract, options, asked, outcome);
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return outcome;
  }
  CheckOptions plain = options;
  plain.sanitizers.clear();  // they are asked apart
  const CheckOutcome checked =
      asked.both ? assayer::check_on_both(*contract, plain, true) : check(*contract, plain);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  if (checked.contract_wrong) {
    outcome.detail = checked.report.unknown.front();
    return outcome;
  }
  bool apt = false;
  for (const Finding& finding : checked.report.findings) {
    if (finding.severity != Severity::Error) continue;
    apt |= wanted.kinds.contains(std::string(to_string(finding.kind)));
    outcome.detail += fmt::format("{}{}", outcome.detail.empty() ? "" : ", ", to_string(finding.kind));
  }
  outcome.gates = checked.report.coverage.value("gates", Json());
  outcome.alone = checked.report.coverage.value("alone", Json());
  const Json coverage = checked.report.coverage.value("cuda", checked.report.coverage);
  if (coverage.contains("gpu")) outcome.alone["gpu"] = coverage["gpu"];
  const judge::Verdict verdict = checked.report.verdict;
  outcome.verdict = judge::to_string(verdict);
  if (verdict == judge::Verdict::Pass) outcome.detail = "passes";
  if (verdict == judge::Verdict::Inconclusive) {
    outcome.detail = checked.report.unknown.empty() ? "inconclusive" : checked.report.unknown.front();
  }
  outcome.mark = !wanted.wrong ? (verdict == judge::Verdict::Pass ? Mark::Right : Mark::FalseAlarm)
                 : verdict != judge::Verdict::Fail ? Mark::Missed
                 : apt                             ? Mark::Right
                                                   : Mark::OtherKind;
  ask_others(*contract, options, asked, outcome);
  return outcome;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

constexpr std::pair<char, std::string_view> kFamilies[] = {
    {'A', "low precision, early rounding"},
    {'B', "unstable formula"},
    {'C', "biased rounding, quantisation"},
    {'D', "narrow integers, large grids"},
    {'E', "tails and odd shapes"},
    {'F', "layout, streams, kept state"},
    {'G', "uninitialised, unwritten"},
    {'H', "NaN, infinity, masks"},
    {'I', "races, barriers, determinism"},
    {'J', "broken promises to the compiler"},
    {'K', "wrong mathematics"},
    {'L', "the machine, leaks, system calls"},
};

struct Tally {
  int planted = 0, caught = 0, apt = 0, compared = 0, by_allclose = 0;
  std::vector<double> seconds;

  void add(const Outcome& o) {
    ++planted;
    caught += o.mark == Mark::Right || o.mark == Mark::OtherKind;
    apt += o.mark == Mark::Right;
    compared += o.allclose.has_value();
    by_allclose += o.allclose.has_value() && !*o.allclose;
    seconds.push_back(o.seconds);
  }
  std::string row(std::string_view title, bool compare) const {
    std::string line =
        fmt::format("  {:<34}{:>8}{:>8}{:>8}{:>9.1f}", title, planted, caught, apt, median(seconds));
    if (compare) line += fmt::format("{:>12}", fmt::format("{} of {}", by_allclose, compared));
    return line + "\n";
  }
};

std::string_view name_of(Mark mark) {
  constexpr std::string_view kNames[] = {"right", "other kind", "missed", "false alarm", "broken"};
  return kNames[static_cast<std::size_t>(mark)];
}

void print_summary(const std::vector<Outcome>& outcomes, bool compare) {
  std::map<char, Tally> families;
  Tally wrong, correct;
  int false_alarms = 0;
  for (const Outcome& o : outcomes) {
    if (o.mark == Mark::Broken) continue;
    (o.checked.wrong ? wrong : correct).add(o);
    if (o.checked.wrong) families[o.checked.family].add(o);
    false_alarms += o.mark == Mark::FalseAlarm;
  }
  fmt::print("\n  {:<34}{:>8}{:>8}{:>8}{:>9}{}\n", "defects", "planted", "caught", "apt", "median s",
             compare ? "    allclose" : "");
  for (const auto& [letter, title] : kFamilies) {
    const auto it = families.find(letter);
    if (it != families.end()) fmt::print("{}", it->second.row(fmt::format("{}  {}", letter, title), compare));
  }
  fmt::print("{}", wrong.row("all", compare));
  fmt::print("\n  {} correct kernel{}, {} false alarms, median {:.1f} s\n", correct.planted,
             correct.planted == 1 ? "" : "s", false_alarms, median(correct.seconds));
}

Json record_json(const Outcome& o) {
  Json one = {{"kernel", o.checked.name},
              {"class", std::string(1, o.checked.family)},
              {"mark", name_of(o.mark)},
              {"detail", o.detail},
              {"seconds", o.seconds}};
  if (!o.verdict.empty()) one["verdict"] = o.verdict;
  if (!o.gates.is_null()) one["gates"] = o.gates;
  if (!o.alone.is_null()) one["alone"] = o.alone;
  if (!o.sanitizer.is_null()) one["sanitizer"] = o.sanitizer;
  if (o.allclose) one["allclose"] = *o.allclose ? "pass" : "fail";
  return one;
}

Json corpus_json(const std::vector<Outcome>& outcomes) {
  Json list = Json::array();
  for (const Outcome& outcome : outcomes) list.push_back(record_json(outcome));
  return list;
}

// A file with a record in each line, to which each kernel is added when it is done: a run that is ended, however that
// happens, loses only the kernels that it was at, and the next one goes on with these.
class Records {
 public:
  explicit Records(std::string path) : path_(std::move(path)) {}

  void leave_out_recorded(std::vector<Case>& cases) const {
    std::set<std::string> done;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) {
      const Json record = Json::parse(line, nullptr, false);  // the last line may be cut off
      if (record.is_object()) done.insert(record.value("kernel", ""));
    }
    std::erase_if(cases, [&](const Case& one) { return done.contains(one.name); });
  }

  void add(const Outcome& outcome) {
    if (path_.empty()) return;
    const std::lock_guard lock(mutex_);
    std::ofstream(path_, std::ios::app) << record_json(outcome).dump() + "\n";
  }

 private:
  const std::string path_;
  std::mutex mutex_;
};

}  // namespace

int corpus_command(std::vector<std::string> args) {
  Arguments arguments("Checks kernels whose verdict is known, correct and wrong ones.", "assay corpus");
  std::string folder = "corpus", json;
  std::vector<std::string> filters;
  CheckOptions options;
  bool plain = false, cuda = false, unchecked = false;
  std::string device = "virtual";
  arguments.add("filter", filters, "only kernels whose name contains one of these");
  arguments.add("--folder FOLDER", folder, "the corpus").folder();
  arguments.add("--json FILE", json, "write one record per kernel to this file");
  std::string recorded;
  arguments.add(
      "--records FILE", recorded,
      "add each record to this file, one per line, as soon as it is known; skip the kernels that it has");
  arguments.add("--seed", options.seed, "random seed");
  arguments.add("--budget SECONDS", options.budget, "seconds of trials for each kernel").positive();
  int jobs = 1;
  arguments.add("--jobs", jobs, "kernels to check in parallel").positive();
  arguments.add_flag("--cuda", cuda, "on a real GPU; the same as --device cuda");
  arguments
      .add("--device DEVICE", device, "where kernels run; auto: both, and the records say what each found")
      .one_of({"auto", "virtual", "cuda"});
  std::string sanitizers;
  arguments.add("--sanitizer TOOLS", sanitizers,
                "also run these compute-sanitizer tools: memcheck,racecheck,initcheck,synccheck");
  arguments.add_flag("--gates", options.margins,
                     "record how close each kernel comes to the judge's thresholds");
  arguments.add_flag("--verdicts", options.verdict_only,
                     "stop at a confirmed failure; do not look for its cause");
  arguments.add_flag("--no-check", unchecked, "skip the check itself; run only the comparisons");
  arguments.add_flag("--no-allclose", plain, "do not compare with allclose");
  if (const auto status = arguments.parse(std::move(args))) return *status;
  if (cuda || device == "cuda") options.device = subject::Device::Cuda;
  std::istringstream tools(sanitizers);
  for (std::string tool; std::getline(tools, tool, ',');) options.sanitizers.push_back(tool);
  bool both = false;
  if (device == "auto") {
    const AutoDevice found = auto_device();
    both = found.both;
    if (!found.problem.empty()) fmt::print(stderr, "assay: the GPU is not used: {}\n", found.problem);
  }

  auto cases = find_cases(folder, filters);
  if (!cases) {
    fmt::print(stderr, "assay: {}\n", cases.error().text());
    return kWrongUse;
  }
  Records records(recorded);
  if (!recorded.empty()) {
    if (!std::ofstream(recorded, std::ios::app)) {
      fmt::print(stderr, "assay: {} cannot be written\n", recorded);
      return kWrongUse;
    }
    records.leave_out_recorded(*cases);
  }
  announce_cache();
  std::vector<Outcome> outcomes(cases->size());
  // Kernels of one operator want the same of a GPU, giant tensors say: those that run at the same time are of several.
  std::vector<std::size_t> order(cases->size());
  std::iota(order.begin(), order.end(), 0);
  if (both || options.device == subject::Device::Cuda)
    std::stable_sort(order.begin(), order.end(),
                     [](std::size_t a, std::size_t b) { return mix(a) < mix(b); });
  Progress progress;
  bool all_right = true, broken = false;
  std::size_t told = 0;
  in_order(
      cases->size(), jobs,
      [&](std::size_t turn) {
        if (interrupted()) return;
        const std::size_t i = order[turn];
        CheckOptions own = options;
        own.threads = std::max(1, cores() / jobs);
        own.progress = [&, i](const std::string& text) {
          progress.show(fmt::format("{}/{}  {}  {}", told, cases->size(), (*cases)[i].name, text));
        };
        Outcome outcome =
            check_case((*cases)[i], own, {.check = !unchecked, .allclose = !plain, .both = both});
        if (interrupted()) return;
        records.add(outcome);
        outcomes[i] = std::move(outcome);
      },
      [&](std::size_t turn) {
        const Outcome& outcome = outcomes[order[turn]];
        if (outcome.checked.name.empty()) return;  // interrupted
        progress.clear();
        told = turn + 1;
        const bool right = outcome.mark == Mark::Right;
        fmt::print("{:<12}{:>6.1f} s  {:<52} {}\n", right ? "" : name_of(outcome.mark), outcome.seconds,
                   outcome.checked.name, outcome.detail);
        std::fflush(stdout);
        all_right &= right || outcome.mark == Mark::OtherKind;
        broken |= outcome.mark == Mark::Broken;
      });
  std::erase_if(outcomes, [](const Outcome& outcome) { return outcome.checked.name.empty(); });
  print_summary(outcomes, !plain);
  if (!json.empty() && !write_text(json, corpus_json(outcomes).dump(2) + "\n")) return kWrongUse;
  return broken ? kWrongUse : all_right ? 0 : 1;
}

}  // namespace assay::cli
