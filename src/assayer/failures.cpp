#include "assayer/failures.h"

#include <fmt/format.h>

#include <algorithm>

#include "assayer/limits.h"
#include "assayer/locate.h"
#include "assayer/shadow_run.h"
#include "base/interrupt.h"
#include "finding/message.h"
#include "judge/steps.h"
#include "trial/shrink.h"

namespace assay::assayer {

using trial::Trial;
using Clock = std::chrono::steady_clock;

namespace {

// A trial that was made small shows the failure, and the larger one told its kind.
void name_as(Finding& finding, Kind kind) {
  if (finding.kind == kind || !is_inexact(finding.kind) || !is_inexact(kind)) return;
  finding.attribution.symptom = finding.kind;
  finding.kind = kind;
}

// How the inputs were changed where a relation between two calls does not hold; empty: no such finding.
std::string relation_of(const Finding& finding) {
  const auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence);
  return numeric && numeric->difference ? numeric->difference->relation : finding.attribution.relation;
}

bool same_warning(const Finding& a, const Finding& b) {
  const std::string relation = relation_of(a);
  if (!relation.empty() || !relation_of(b).empty()) return relation == relation_of(b);
  return a.kind == b.kind && a.where == b.where;
}

bool has(std::span<const Kind> kinds, const Finding& finding) {
  return finding.severity == Severity::Error &&
         std::find(kinds.begin(), kinds.end(), finding.kind) != kinds.end();
}

// Whether the failure was the subject's doing even where it does not show again: no busy machine makes an access illegal. A
// sample of the blocks may: it leaves out those that write what others read.
bool proves_an_error(const Trial& trial, Kind kind) {
  const Family family = info(kind).family;
  return !trial.sampled && (family == Family::Access || family == Family::Race);
}

// Leaves the findings of these kinds, if there are any: else the cause is still to be found.
void keep(std::vector<Finding>& findings, std::span<const Kind> kinds) {
  if (std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return has(kinds, f); }))
    std::erase_if(findings, [&](const Finding& f) { return !has(kinds, f); });
}

}  // namespace

void Failures::say(const std::string& text) const {
  if (parts_.options.progress) parts_.options.progress(text);
}

bool Failures::never_ends(Trial& trial, TrialResult& slow, double seconds, int doublings) {
  begin_stage(seconds);
  const bool endless = parts_.trials.never_ends(trial, slow, doublings);
  end_stage();
  return endless;
}

void Failures::report_replayed(const Trial& trial, TrialResult result, Kind kind) {
  for (Finding& finding : result.findings) name_as(finding, kind);
  report_findings(trial, result, false, {});
}

void Failures::count_trials() {
  for (Finding& finding : report_.findings)
    if (!finding.found.trial.empty()) finding.found.trials = causes_.trials(finding);
}

// A failure becomes findings; false where it does not show again, and the check goes on.
bool Failures::settle(Trial trial, TrialResult result, std::span<const Kind> only) {
  keep(result.findings, only);
  if (parts_.options.keep_going && !is_new(trial, result)) return false;
  say("found a failure: looking for its cause");
  const std::vector<Finding> seen = result.findings;
  const std::string first_seen = fmt::format("{}: {} ({})", to_string(seen.front().kind),
                                             message(seen.front()), trial::to_string(trial));
  const std::size_t which = parts_.timeline.settled.size();
  parts_.timeline.settled.emplace_back();
  begin_stage(std::clamp(kCauseCalls * result.seconds, kCauseSeconds, kLongCauseSeconds));
  if (parts_.options.timeline && which < parts_.options.timeline->settled.size()) {
    if (const int runs = parts_.options.timeline->settled[which].runs; runs != Timeline::kAll)
      parts_.trials.set_most_runs(parts_.trials.runs() + runs);
  }
  const int before = parts_.trials.runs();
  const Kind kind = result.findings.front().kind;
  const bool is_smallest = result.is_smallest;
  const bool confirmed = parts_.trials.confirm(trial, result);
  keep(result.findings, only);
  const bool brief = parts_.options.verdict_only;
  if (confirmed && !brief) result = parts_.trials.find_cause(trial, std::move(result));
  const bool cut = parts_.trials.out_of_time();
  parts_.timeline.settled.back().runs = cut ? parts_.trials.runs() - before : Timeline::kAll;
  parts_.trials.set_most_runs(std::nullopt);
  end_stage();
  if (interrupted()) {  // a failure whose cause there was no time to look for is no finding yet
    report_.unknown.push_back("seen at the interruption, not confirmed: " + first_seen);
    return true;
  }
  if (!confirmed && cut) {
    report_.unknown.push_back(fmt::format("seen once, with no time left to confirm it: {} ({})",
                                          message(result.findings.front()), trial::to_string(trial)));
    return false;
  }
  if (!confirmed) {
    const std::string once = fmt::format("seen once, not reproduced: {} ({})",
                                         message(result.findings.front()), trial::to_string(trial));
    if (proves_an_error(trial, kind)) {
      report_.unknown.push_back(once);
    } else {
      parts_.coverage.miss(once);
    }
    return false;
  }
  if (cut && result.findings.front().kind == kind) result.findings.front().attribution.out_of_time = true;
  report_findings(trial, result, !is_smallest && !brief, seen);
  return true;
}

bool Failures::is_of(const Trial& trial, const TrialResult& result, std::span<const Kind> kinds) {
  const auto one = [&](const Finding& finding) { return has(kinds, finding); };
  if (std::any_of(result.findings.begin(), result.findings.end(), one)) return true;
  begin_stage(kCauseSeconds);
  Trial shown = trial;
  const TrialResult found = parts_.trials.find_cause(shown, result);
  end_stage();
  return std::any_of(found.findings.begin(), found.findings.end(), one);
}

// Whether a failure has a cause that is not known yet: its findings become those that nothing explains.
bool Failures::is_new(const Trial& trial, TrialResult& result) {
  std::vector<Finding> rest = causes_.unexplained(result.findings);
  if (!rest.empty()) {
    result.findings = std::move(rest);
    return true;
  }
  const std::optional<Kind> renamed = causes_.renamed(result.findings);
  if (!renamed || rechecks_ == kRechecks) return false;
  ++rechecks_;
  begin_stage(kCauseSeconds);
  Trial shown = trial;
  TrialResult again = result;
  const bool same = parts_.trials.has_cause(shown, again, *renamed, Cause::Varies);
  end_stage();
  return !same;
}

// What follows has so much time; a check that follows the timeline of another has all it needs.
void Failures::begin_stage(double seconds) {
  if (parts_.options.timeline) return;
  parts_.trials.set_time_left(seconds);
}
// What the smaller trial shows is the same failure. How many errors are alike, and so which defect they
// look like, depends on how many there are: errors of an output are one failure whatever they look like.
bool Failures::is_same_failure(const Finding& found, const Finding& small) const {
  if (small.severity != found.severity) return false;
  if (small.kind == found.kind)
    return !parts_.options.keep_going || judge::signature_of(small) == judge::signature_of(found);
  return is_inexact(found.kind) && is_inexact(small.kind) && output_of(found) == output_of(small);
}

// The smallest trial that still shows the failure. The finding becomes what that trial shows, unless only
// the larger one tells what kind of error it is.
Trial Failures::smallest(const Trial& trial, Finding& finding) {
  std::optional<Finding> small;
  const bool inexact = is_inexact(finding.kind);
  const auto still_fails = [&](const Trial& candidate) {
    if (parts_.trials.out_of_time()) return false;
    ++parts_.timeline.settled.back().shrinking;
    say(fmt::format("shrinking: {}", contract::to_string(candidate.shape)));
    TrialResult result = parts_.trials.run(candidate, !inexact);
    if (result.state != TrialState::Judged || result.findings.empty()) return false;
    Trial shown = candidate;
    const bool is_attributed =
        finding.attribution.cause != Cause::None || finding.kind == Kind::UnwrittenOutput;
    if (is_attributed && !parts_.trials.has_cause(shown, result, finding.kind, finding.attribution.cause))
      return false;
    const auto same = std::find_if(result.findings.begin(), result.findings.end(),
                                   [&](const Finding& f) { return is_same_failure(finding, f); });
    if (same == result.findings.end()) return false;
    small = *same;
    return true;
  };
  const bool waits = finding.kind == Kind::Deadlock || finding.attribution.symptom == Kind::Deadlock;
  parts_.trials.set_timeout(waits ? kWaitingSeconds : kTrialSeconds);
  const std::size_t which = parts_.timeline.settled.size() - 1;
  const int most = parts_.options.timeline && which < parts_.options.timeline->settled.size()
                       ? parts_.options.timeline->settled[which].shrinking
                   : waits ? kWaitingAttempts
                           : kShrinkAttempts;
  begin_stage(waits ? kWaitingSeconds * kWaitingAttempts : kShrinkSeconds);
  Trial reached = trial::shrink(parts_.contract, trial, still_fails, most).trial;
  end_stage();
  if (!small) return reached;
  if (!inexact) {
    finding = std::move(*small);
  } else if (const auto* numeric = std::get_if<evidence::Numeric>(&small->evidence)) {
    finding.found.smallest_shows = worst_text(*numeric);
  }
  return reached;
}

// Warnings of trials that otherwise pass: relations that do not hold, and what the device saw; each once.
void Failures::keep_warnings(const Trial& trial, const TrialResult& result) {
  for (const Finding& finding : result.findings) {
    Finding kept = finding;
    locate(parts_.contract, parts_.notes, result.last_kernel, kept);
    const bool known = std::any_of(report_.findings.begin(), report_.findings.end(),
                                   [&](const Finding& f) { return same_warning(f, kept); });
    if (known) continue;
    kept.found.found_with = trial::to_string(trial);
    kept.found.trial = trial::to_json(trial).dump();
    report_.findings.push_back(std::move(kept));
  }
}

void Failures::keep_host_warnings(const TrialResult& result) {
  for (Finding warning : result.warnings) {
    const bool known = std::any_of(report_.findings.begin(), report_.findings.end(), [&](const Finding& f) {
      return f.kind == warning.kind && message(f) == message(warning);
    });
    if (known) continue;
    locate(parts_.contract, parts_.notes, std::nullopt, warning);
    report_.findings.push_back(std::move(warning));
  }
}

void Failures::report_no_kernel(const Trial& trial, Finding finding) {
  locate(parts_.contract, parts_.notes, std::nullopt, finding);
  finding.found.found_with = trial::to_string(trial);
  finding.found.trial = trial::to_json(trial).dump();
  report_.files = files_of(parts_.contract, parts_.subject);
  const std::string record = save_trial(parts_.contract, parts_.options, finding, trial, report_.files);
  if (!record.empty()) finding.reproduce = fmt::format("assay replay {}", record);
  report_.findings.push_back(std::move(finding));
}

// `seen`: what the failure looked like before its cause was known.
void Failures::report_findings(const Trial& trial, const TrialResult& result, bool shrinking,
                               const std::vector<Finding>& seen) {
  std::vector<Finding> kept = judge::diagnose(result.findings, {.apart = parts_.options.keep_going});
  report_.files = files_of(parts_.contract, parts_.subject);
  Trial small = trial;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (parts_.options.keep_going && causes_.knows(kept[i])) continue;
    // Apart, each has a smallest case of its own; else they are consequences in that of the first.
    if (i == 0 || parts_.options.keep_going) {
      if (shrinking) small = smallest(trial, kept[i]);
      begin_stage(kCauseSeconds);
      // What takes the calls before it is right without them everywhere.
      if (!parts_.options.verdict_only && !result.takes_calls_before)
        kept[i].attribution.surroundings = parts_.trials.needed_surroundings(small);
      end_stage();
    }
    causes_.add(kept[i], seen);
    report_finding(std::move(kept[i]), trial, small, result);
  }
}

void Failures::report_finding(Finding finding, const Trial& trial, const Trial& small,
                              const TrialResult& result) {
  begin_stage(kPictureSeconds);
  parts_.page.add_failure(finding, trial, result, small, parts_.trials);
  end_stage();
  // What the smallest case only shows a part of is followed where it was found.
  const Trial& followed = finding.found.smallest_shows.empty() ? small : trial;
  std::shared_ptr<const Profile> profile;
  if (is_numeric(finding.kind) && !trial.sampled && !parts_.options.verdict_only)
    profile = profile_of(finding, parts_.contract, parts_.subject, trial, followed, parts_.options,
                         parts_.options.timeline ? Deadline() : Deadline(kProfileSeconds));
  if (profile) profile = with_shown_paths(*profile);
  locate(parts_.contract, parts_.notes, result.last_kernel, finding);
  if (auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence); numeric && result.last_kernel) {
    numeric->kernel = result.last_kernel->symbol;
    if (result.last_kernel->launched_at.where.line > 0)
      numeric->launched_at.stack = {result.last_kernel->launched_at};
  }
  // The finding itself says it already.
  if (const auto* numeric = std::get_if<evidence::Numeric>(&finding.evidence);
      numeric && worst_text(*numeric) == finding.found.smallest_shows)
    finding.found.smallest_shows.clear();
  finding = std::move(judge::diagnose(
      {finding}, {.contract = &parts_.contract, .profile = std::move(profile), .notes = parts_.notes})[0]);
  for_each_place(finding, [](Where& where) { where.file = shown(where.file); });
  finding.found.found_with = trial::to_string(trial);
  finding.found.smallest = trial::to_string(small);
  finding.found.trial = trial::to_json(small).dump();
  if (parts_.options.device == subject::Device::Cuda) finding.found.devices = {"cuda"};
  const std::string record = save_trial(parts_.contract, parts_.options, finding, small, report_.files);
  if (!record.empty()) finding.reproduce = fmt::format("assay replay {}", record);
  report_.findings.push_back(std::move(finding));
}

}  // namespace assay::assayer
