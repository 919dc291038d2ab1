#include "cli/background_proof.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>
#include <vector>

#include "base/interrupt.h"
#include "prove/prove.h"
#include "subject/process.h"

namespace assay::cli {

namespace {

constexpr auto kPoll = std::chrono::milliseconds(20);
// Seconds of a budget below which there is no proof: half of the corpus takes the prover more than a second, recording
// of launches included, and a check with less is meant to be quick.
constexpr double kLeastBudget = 5;
// A core for the trials and one for the proofs.
constexpr int kLeastCores = 2;
// Seconds of trials to see a refutation again; making it small has its own (assayer/limits.h).
constexpr double kConfirmSeconds = 12;

// How much nicer than the trials the prover is. On a core that both want it then gets a tenth; the lowest class of all
// (SCHED_IDLE) gets nothing on a machine that is busy otherwise.
constexpr int kNice = 10;

// Elapsed seconds for each of the prover's processor time, and for its replays and recordings, in which it ends by its own
// limits (prove/solve.h, prove/prove.h): the command never waits longer.
constexpr double kMostWait = 10, kMostReplays = 120;

// In the child, between fork and exec: system calls only. If memory runs out, it goes first.
[[noreturn]] void become(char* const* words, char* const* variables) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  [[maybe_unused]] const int now_at = nice(kNice);
  if (const int file = open("/proc/self/oom_score_adj", O_WRONLY); file >= 0) {
    [[maybe_unused]] const ssize_t written = write(file, "1000", 4);
    close(file);
  }
  const int nothing = open("/dev/null", O_RDWR);
  for (const int file : {0, 1, 2}) dup2(nothing, file);
  execve(words[0], words, variables);
  _exit(127);
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// The environment with another folder for temporary files: what a killed prover leaves behind goes with it.
std::vector<std::string> environment(const std::string& temporary) {
  std::vector<std::string> variables = {"TMPDIR=" + temporary};
  for (char** variable = environ; *variable; ++variable)
    if (!std::string_view(*variable).starts_with("TMPDIR=")) variables.emplace_back(*variable);
  return variables;
}

// What the prover saw without a run: the runtime refused a launch of the host code.
std::optional<Finding> refused_launch(const Json& finding) {
  const Json evidence = finding.value("evidence", Json::object());
  if (kind_named(finding.value("kind", "")) != Kind::LaunchFailure || !evidence.contains("status"))
    return std::nullopt;
  return Finding{.kind = Kind::LaunchFailure,
                 .evidence = evidence::Launch{.status = evidence["status"].get<int>(),
                                              .detail = evidence.value("detail", "")}};
}

}  // namespace

std::optional<std::string> why_no_proof(Proving proving, const contract::Contract& contract,
                                        const assayer::CheckOptions& options, int cores) {
  if (proving == Proving::Off || options.timeline) return "";
  const bool asked = proving == Proving::Wait;
  if (contract.kernel.python) return asked ? "proofs are about CUDA C++ and PTX" : "";
  if (const std::string memory = prove::unknown_memory(contract); !memory.empty()) return asked ? memory : "";
  if (options.device != subject::Device::Virtual) return asked ? "proofs need the virtual device" : "";
  if (asked) return std::nullopt;
  if (cores < kLeastCores) return "there is no core to spare";
  if (options.budget < kLeastBudget) return fmt::format("the budget is below {:g} s", kLeastBudget);
  return std::nullopt;
}

BackgroundProof::BackgroundProof(const contract::Contract& contract, Options options)
    : contract_(contract), options_(options), folder_("proof"), log_(contract) {}

BackgroundProof::~BackgroundProof() {
  stop();
}

std::function<void(const trial::Trial&, const subject::Observation&)> BackgroundProof::listener() {
  return [this](const trial::Trial& trial, const subject::Observation& seen) {
    if (!started_) start();
    log_.add(trial, seen);
  };
}

void BackgroundProof::start() {
  started_ = true;
  if (folder_.path().empty()) return;
  std::vector<std::string> words = {subject::program_folder() + "/assay",
                                    "prove",
                                    contract_.path,
                                    "--json",
                                    folder_.file("proof.json"),
                                    "--time",
                                    fmt::format("{:.1f}", options_.seconds)};
  std::vector<std::string> variables = environment(folder_.path());
  const std::vector<char*> word_list = pointers_to(words), variable_list = pointers_to(variables);
  child_ = fork();
  if (child_ == 0) become(word_list.data(), variable_list.data());
  if (child_ > 0) setpgid(child_, child_);  // whichever of the two comes first
}

void BackgroundProof::stop() {
  if (child_ <= 0) return;
  kill(-child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
}

void BackgroundProof::wait(double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (child_ > 0 && !interrupted()) {
    if (waitpid(child_, nullptr, WNOHANG) == child_) {
      kill(-child_, SIGKILL);  // what it may have left behind
      child_ = -1;
    } else if (std::chrono::steady_clock::now() >= until) {
      return;
    } else {
      std::this_thread::sleep_for(kPoll);
    }
  }
}

Json BackgroundProof::result() const {
  std::ifstream file(folder_.file("proof.json"));
  Json json = Json::parse(file, nullptr, false);
  return json.is_object() && json.contains("obligations") ? json : Json();
}

void BackgroundProof::finish(const assayer::CheckOptions& options, report::Report& report) {
  const bool failed = report.verdict == judge::Verdict::Fail;
  wait(options_.wait && !failed ? kMostWait * options_.seconds + kMostReplays : 0);
  const bool ended = child_ < 0;
  stop();
  Json proof = result();
  if (proof.is_null()) {
    if (report.verdict == judge::Verdict::Pass)
      report.no_proof = started_ && ended ? "the prover ended without a result"
                                          : "nothing was decided before the trials ended";
    return;
  }
  if (const std::string problem = proof.value("problem", ""); !problem.empty()) {
    report.no_proof = problem;
    return;
  }
  if (!failed) show_refutations(options, proof, report);
  proof.erase("files");
  // A call on another GPU that deviates: if it does on the relation's own as well, it is not the GPU.
  assayer::CheckOptions own = options;
  own.launched = [this](const trial::Trial& trial, const subject::Observation& seen) {
    log_.add(trial, seen);
  };
  for (const trial::Trial& trial : log_.unexplained(proof))
    assayer::replay(contract_, trial, Kind::WrongResult, own);
  log_.hold(proof);
  report.proof = std::move(proof);
}

void BackgroundProof::show_refutations(const assayer::CheckOptions& options, Json& proof,
                                       report::Report& report) const {
  assayer::CheckOptions own = options;
  own.budget = std::min(own.budget, kConfirmSeconds);
  for (const Json& refutation : proof.value("findings", Json::array())) {
    const auto kind = kind_named(refutation.value("kind", ""));
    const auto trial =
        trial::from_json(contract_, refutation.value("evidence", Json::object()).value("trial", Json()));
    std::vector<Finding> findings;
    if (kind && trial) {
      assayer::CheckOutcome shown =
          assayer::investigate(contract_, std::span(&*trial, 1), std::span(&*kind, 1), own);
      findings = std::move(shown.report.findings);
      std::erase_if(findings, [](const Finding& f) { return f.severity != Severity::Error; });
      if (!findings.empty()) report.files = std::move(shown.report.files);
    } else if (auto refused = refused_launch(refutation)) {
      findings.push_back(std::move(*refused));
    }
    if (findings.empty()) continue;
    report.findings.insert(report.findings.begin(), findings.begin(), findings.end());
    report.verdict = judge::Verdict::Fail;
    return;
  }
  for (Json& obligation : proof["obligations"]) {
    if (obligation.value("status", "") != "refuted") continue;
    obligation["status"] = "unknown";
    obligation["reason"] = "refuted by a run of the prover that was not reproduced";
  }
  if (proof.value("verdict", "") == "refuted") proof["verdict"] = "unknown";
}

}  // namespace assay::cli
