// A check on the virtual device and on a real GPU at the same time.
//
// Both work through the plan, each in a thread and a worker of its own, so the budget's seconds are those of the whole.
// Each is good at something: the virtual device sees races, reads of uninitialised memory and accesses as they happen, and
// names the line; the GPU runs what takes the virtual one too long (giant shapes with all their blocks, hundreds of calls
// under load, real schedules). What the virtual device has tried decides whether there is enough for a pass, so a verdict
// does not depend on how fast the GPU was.
//
// The first failure ends both checks, and is looked for on the other device:
//
//   the GPU failed first     its trial is run on the virtual device, which may say more: then that is the finding, with
//                            what the GPU showed as further evidence
//   the virtual one failed   its smallest trial is run on the GPU, and what that shows is further evidence
//
// A failure that only one device shows is a finding all the same, and says which.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "assayer/assayer.h"
#include "assayer/limits.h"
#include "assayer/replay_built.h"
#include "base/interrupt.h"
#include "finding/message.h"

namespace assay::assayer {

using contract::Contract;
using judge::Verdict;
using subject::Device;
using trial::Trial;

namespace {

constexpr const char *kVirtual = "virtual", *kCuda = "cuda";

// The first error of a report that a trial shows; null: there is none.
Finding* failure_of(CheckOutcome& outcome) {
  auto& findings = outcome.report.findings;
  const auto found = std::find_if(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.severity == Severity::Error && !finding.found.trial.empty();
  });
  return found == findings.end() ? nullptr : &*found;
}

class BothDevices {
 public:
  BothDevices(const Contract& contract, const CheckOptions& options, subject::Subject subject, bool apart)
      : contract_(contract), options_(options), subject_(std::move(subject)), apart_(apart) {}

  CheckOutcome run() {
    run_both();
    if (apart_) return merged();
    Finding *seen = failure_of(virtual_), *real = failure_of(cuda_);
    if (seen)
      show_on_gpu(*seen, real);
    else if (real)
      show_on_virtual(*real);
    return merged();
  }

 private:
  CheckOptions options_for(Device device) {
    CheckOptions own = options_;
    own.device = device;
    if (device == Device::Cuda) {
      own.launched = {};
      own.progress = {};  // one line at a time
      own.pictures = false;
      if (own.trace)
        own.trace = [trace = options_.trace](const std::string& line) { trace(line + "  (GPU)"); };
    }
    if (!apart_ && !options_.keep_going) own.stopped = [this] { return found_.load(); };
    return own;
  }

  CheckOutcome run_on(Device device) {
    CheckOutcome outcome = check_built(contract_, subject_, options_for(device));
    if (outcome.report.verdict == Verdict::Fail) found_ = true;
    return outcome;
  }

  void run_both() {
    std::thread other([&] { cuda_ = run_on(Device::Cuda); });
    virtual_ = run_on(Device::Virtual);
    other.join();
  }

  CheckOptions options_after(Device device) {
    CheckOptions own = options_for(device);
    own.stopped = {};
    own.launched = {};
    own.timeline.reset();
    own.keep_going = false;
    own.budget = kOtherDeviceSeconds;
    return own;
  }

  std::optional<Trial> trial_of(const Finding& finding) const {
    const Json json = Json::parse(finding.found.trial, nullptr, false);
    auto trial = trial::from_json(contract_, json);
    return trial ? std::optional(std::move(*trial)) : std::nullopt;
  }

  static void also_on(Finding& finding, const char* device, const Finding& shown) {
    finding.found.devices.push_back(device);
    finding.found.other_shows = fmt::format("{}: {}", to_string(shown.kind), message(shown));
  }

  // `real`: what the GPU found by itself; null: nothing.
  void show_on_gpu(Finding& seen, Finding* real) {
    seen.found.devices = {kVirtual};
    if (real && real->kind == seen.kind) {
      also_on(seen, kCuda, *real);
      std::erase_if(cuda_.report.findings, [](const Finding& f) { return f.severity == Severity::Error; });
      return;
    }
    auto trial = interrupted() ? std::nullopt : trial_of(seen);
    if (!trial) return;
    trial->condition.gpu = 0;
    trial->condition.clock = 0;
    // A race shows more often under load.
    if (!trial->sampled) trial->condition.loaded = true;
    CheckOutcome again = replay_built(contract_, subject_, *trial, options_after(Device::Cuda));
    if (const Finding* shown = failure_of(again)) {
      also_on(seen, kCuda, *shown);
      // What the GPU found by itself in the same moment has most likely the same cause.
      std::erase_if(cuda_.report.findings, [](const Finding& f) { return f.severity == Severity::Error; });
    }
  }

  void show_on_virtual(Finding& real) {
    auto trial = interrupted() ? std::nullopt : trial_of(real);
    if (!trial) return;
    trial->condition.loaded = trial->condition.perturbed = false;
    CheckOutcome again = investigate_built(contract_, subject_, *trial, options_after(Device::Virtual));
    Finding* shown = failure_of(again);
    if (!shown) return;
    shown->found.devices = {kVirtual};
    also_on(*shown, kCuda, real);
    std::erase_if(cuda_.report.findings, [](const Finding& f) { return f.severity == Severity::Error; });
    auto& findings = virtual_.report.findings;
    for (Finding& finding : again.report.findings)
      if (finding.severity == Severity::Error) findings.insert(findings.begin(), std::move(finding));
    virtual_.report.files = again.report.files;
  }

  // What the GPU's check was alone, for the reader of the coverage.
  Json second_coverage() const {
    const report::Report& report = cuda_.report;
    Json coverage = report.coverage;
    coverage.erase("timeline");
    if (!report.unknown.empty() && !found_) coverage["unknown"] = report.unknown;
    return coverage;
  }

  CheckOutcome merged() {
    CheckOutcome outcome = std::move(virtual_);
    report::Report& report = outcome.report;
    report.device = fmt::format("{}+{}", kVirtual, kCuda);
    report.coverage["cuda"] = second_coverage();
    if (apart_) {
      report.coverage["alone"] = {
          {kVirtual, alone(report)},
          {kCuda, alone(cuda_.report)},
      };
    }
    for (Finding& finding : cuda_.report.findings) {
      if (finding.severity == Severity::Note) continue;  // from the code: the same
      const bool known = std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& f) {
        return f.kind == finding.kind && f.severity == finding.severity && f.where == finding.where;
      });
      if (known && finding.severity != Severity::Error) continue;
      if (finding.found.devices.empty()) finding.found.devices = {kCuda};
      report.findings.push_back(std::move(finding));
    }
    std::stable_sort(report.findings.begin(), report.findings.end(), [](const Finding& a, const Finding& b) {
      return static_cast<int>(a.severity == Severity::Error) >
             static_cast<int>(b.severity == Severity::Error);
    });
    if (has_error(report.findings)) {
      report.verdict = Verdict::Fail;
      if (report.files.empty()) report.files = cuda_.report.files;
      std::erase_if(report.unknown, [](const std::string&) { return true; });
    }
    report.seconds = std::max(report.seconds, cuda_.report.seconds);
    return outcome;
  }

  static Json alone(const report::Report& report) {
    Json kinds = Json::array();
    for (const Finding& finding : report.findings)
      if (finding.severity == Severity::Error) kinds.push_back(to_string(finding.kind));
    return {{"verdict", judge::to_string(report.verdict)},
            {"seconds", report.seconds},
            {"kinds", kinds},
            {"unknown", report.unknown}};
  }

  const Contract& contract_;
  const CheckOptions& options_;
  const subject::Subject subject_;
  const bool apart_;
  std::atomic<bool> found_ = false;
  CheckOutcome virtual_, cuda_;
};

}  // namespace

CheckOutcome check_on_both(const Contract& contract, const CheckOptions& options, bool apart) {
  if (contract.kernel.python || options.timeline) return check(contract, options);
  if (options.progress) options.progress("compiling");
  subject::BuildOutcome built = subject::build(contract, {.cache = options.cache});
  if (!built.subject) return check(contract, options);  // says what is wrong with it
  return BothDevices(contract, options, std::move(*built.subject), apart).run();
}

}  // namespace assay::assayer
