// A check on the virtual device and on a real GPU at the same time.
//
// Both work through the plan, each in a thread and a worker of its own, so the budget's seconds are those of the whole.
// Each is good at something: the virtual device sees races, reads of uninitialised memory and accesses as they happen, and
// names the line; the GPU runs what takes the virtual one too long (giant shapes with all their blocks, hundreds of calls
// under load, real schedules). What the virtual device has tried decides whether there is enough for a pass, so a verdict
// does not depend on how fast the GPU was.
//
// The first failure ends both checks (unless they are to keep going). What both devices saw, each by itself, is one finding
// (judge/same_cause.h). What one of them saw is then looked for on the other:
//
//   seen on the virtual one  its smallest trial is run on the GPU, and what that shows is further evidence
//   seen on the GPU          its trial is run on the virtual device, which may say more: then that is the finding, with
//                            what the GPU showed as further evidence
//
// A failure that only one device shows is a finding all the same, and says which.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iterator>
#include <set>
#include <thread>

#include "assayer/assayer.h"
#include "assayer/device_findings.h"
#include "assayer/limits.h"
#include "assayer/replay_built.h"
#include "base/interrupt.h"
#include "finding/message.h"
#include "judge/same_cause.h"

namespace assay::assayer {

using contract::Contract;
using judge::Verdict;
using subject::Device;
using trial::Trial;
using Clock = std::chrono::steady_clock;

namespace {

constexpr auto kLook =
    std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(kOtherDeviceSeconds));
// An error of a report that a trial shows.
bool is_failure(const Finding& finding) {
  return is_error(finding) && !finding.found.trial.empty();
}

class BothDevices {
 public:
  BothDevices(const Contract& contract, const CheckOptions& options, subject::Subject subject, bool apart)
      : contract_(contract), options_(options), subject_(std::move(subject)), apart_(apart) {}

  CheckOutcome run() {
    run_both();
    alone_ = {{kVirtualDevice, alone(virtual_.report)}, {kCudaDevice, alone(cuda_.report)}};
    real_ = join_errors(virtual_.report.findings, cuda_.report.findings, !options_.keep_going);
    std::erase_if(cuda_.report.findings, is_error);
    if (!apart_ && !interrupted()) {
      look_on_gpu();
      look_on_virtual();
    }
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

  // For a look at one trial, until that time.
  CheckOptions options_after(Device device, Clock::time_point end) {
    CheckOptions own = options_for(device);
    own.stopped = {};
    own.launched = {};
    own.timeline.reset();
    own.keep_going = false;
    own.budget = std::chrono::duration<double>(end - Clock::now()).count();
    return own;
  }

  std::optional<Trial> trial_of(const Finding& finding) const {
    const Json json = Json::parse(finding.found.trial, nullptr, false);
    auto trial = trial::from_json(contract_, json);
    return trial ? std::optional(std::move(*trial)) : std::nullopt;
  }

  void look_on_gpu() {
    const auto end = Clock::now() + kLook;
    for (Finding& seen : virtual_.report.findings) {
      if (!is_failure(seen) || is_on_gpu(seen)) continue;
      auto trial = trial_of(seen);
      if (!trial || interrupted() || Clock::now() >= end) continue;
      trial->condition.gpu = 0;
      trial->condition.clock = 0;
      // A race shows more often under load.
      if (!trial->sampled) trial->condition.loaded = true;
      const CheckOutcome again = replay_built(contract_, subject_, *trial, options_after(Device::Cuda, end));
      for (const Finding& shown : again.report.findings) {
        if (!is_failure(shown)) continue;
        add_evidence_of_gpu(seen, shown);
        // What both found in the same moment, each its first failure, has most likely one cause.
        std::erase_if(real_, [&](const Finding& real) {
          return !options_.keep_going || judge::is_same_cause(shown, real);
        });
      }
    }
  }

  void look_on_virtual() {
    const auto end = Clock::now() + kLook;
    std::set<const Finding*> both_by_themselves;
    for (const Finding& seen : virtual_.report.findings)
      if (is_on_gpu(seen)) both_by_themselves.insert(&seen);
    std::vector<Finding> found;
    std::erase_if(real_, [&](const Finding& real) {
      auto trial = is_failure(real) ? trial_of(real) : std::nullopt;
      if (!trial || interrupted() || Clock::now() >= end) return false;
      trial->condition.loaded = trial->condition.perturbed = false;
      CheckOutcome again =
          investigate_built(contract_, subject_, *trial, options_after(Device::Virtual, end));
      auto& findings = again.report.findings;
      const auto shown = std::find_if(findings.begin(), findings.end(), is_failure);
      if (shown == findings.end()) return false;
      if (Finding* seen = same_error(virtual_.report.findings, *shown, !options_.keep_going)) {
        // A cause that the GPU has shown as such is not behind what it shows besides.
        if (both_by_themselves.contains(seen)) return false;
        add_evidence_of_gpu(*seen, real);
        return true;
      }
      add_evidence_of_gpu(*shown, real);
      std::copy_if(findings.begin(), findings.end(), std::back_inserter(found), is_error);
      if (virtual_.report.files.empty()) virtual_.report.files = again.report.files;
      return true;
    });
    auto& findings = virtual_.report.findings;
    findings.insert(findings.begin(), found.begin(), found.end());
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
    report.device = fmt::format("{}+{}", kVirtualDevice, kCudaDevice);
    report.coverage["cuda"] = second_coverage();
    if (apart_) report.coverage["alone"] = alone_;
    for (Finding& real : real_) {
      real.found.devices = {kCudaDevice};
      report.findings.push_back(std::move(real));
    }
    for (Finding& finding : cuda_.report.findings) {
      if (finding.severity == Severity::Note) continue;  // from the code: the same
      const bool known = std::any_of(report.findings.begin(), report.findings.end(), [&](const Finding& f) {
        return f.kind == finding.kind && f.severity == finding.severity && f.where == finding.where;
      });
      if (known) continue;
      finding.found.devices = {kCudaDevice};
      report.findings.push_back(std::move(finding));
    }
    std::stable_partition(report.findings.begin(), report.findings.end(), is_error);
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
  std::vector<Finding> real_;  // errors that the GPU alone has shown so far
  Json alone_;                 // what each device would have said
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
