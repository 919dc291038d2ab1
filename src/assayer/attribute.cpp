// What a failure is a failure of: the trial again under changed conditions. A condition under which it goes
// away is its cause.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "assayer/attempt.h"
#include "assayer/events.h"

namespace assay::assayer {

using trial::Poison;
using trial::Trial;

namespace {

bool holds_pattern(const contract::Tensor& tensor, int64_t at, uint64_t pattern) {
  std::byte bytes[8];
  std::memcpy(bytes, &pattern, 8);
  const auto size = static_cast<std::size_t>(tensor.item_bytes());
  return std::memcmp(tensor.at(at), bytes + (static_cast<std::size_t>(at) * size) % 8, size) == 0;
}

// Elements are still what memory held before the call.
bool holds_poison(const Attempt& attempt, Poison poison) {
  const uint64_t pattern = trial::pattern(poison);
  for (const subject::Call& call : attempt.calls) {
    for (const auto& [name, tensor] : call.outputs) {
      for (int64_t e = 0; e < tensor->count(); ++e) {
        if (holds_pattern(*tensor, e, pattern)) return true;
      }
    }
  }
  return false;
}

// A race between kernels, copies and fills, not within one of them.
bool between_operations(const Finding& finding) {
  return finding.kind == "data-race" && text_at(finding.evidence, "relation") == "operations";
}

void rename(Attempt& failed, std::string kind, std::string_view why) {
  Finding finding = failed.findings.front();
  finding.evidence["symptom"] = finding.kind;
  finding.kind = std::move(kind);
  finding.message = fmt::format("{}: {}", why, finding.message);
  failed.findings = {std::move(finding)};
}

}  // namespace

bool Laboratory::passes(const Trial& trial) {
  const Attempt attempt = run(trial, false);
  return attempt.state == AttemptState::Judged && attempt.findings.empty();
}

// Elements that hold the poison of each of two calls were written by neither.
bool Laboratory::find_unwritten(Trial& trial, Attempt& failed) {
  Trial other = trial;
  other.condition.poison = trial.condition.poison == Poison::OtherNan ? Poison::Nan : Poison::OtherNan;
  const Attempt second = run(other, false);
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < std::min(failed.calls.size(), second.calls.size()); ++i) {
    for (const contract::TensorSpec* spec : contract_.outputs()) {
      if (spec->role != contract::Role::Out) continue;
      if (trial.condition.aliased && !spec->may_alias.empty()) continue;
      const contract::Tensor& a = *failed.calls[i].outputs.at(spec->name);
      const contract::Tensor& b = *second.calls[i].outputs.at(spec->name);
      int64_t count = 0, first = -1;
      for (int64_t e = 0; e < a.count(); ++e) {
        if (!holds_pattern(a, e, trial::pattern(trial.condition.poison)) ||
            !holds_pattern(b, e, trial::pattern(other.condition.poison))) {
          continue;
        }
        if (count++ == 0) first = e;
      }
      if (count == 0) continue;
      Finding finding;
      finding.kind = "unwritten-output";
      const std::string place = spec->name + contract::coordinates(a.extents, first);
      finding.message = count == 1 ? fmt::format("1 of {} elements of {} is never written: {}", a.count(),
                                                 spec->name, place)
                                   : fmt::format("{} of {} elements of {} are never written, the first {}",
                                                 count, a.count(), spec->name, place);
      finding.evidence = {
          {"output", spec->name}, {"unwritten", count}, {"first", contract::coordinates(a.extents, first)}};
      findings.push_back(std::move(finding));
    }
  }
  if (findings.empty()) return false;
  failed.findings = std::move(findings);
  return true;
}

// Whether elements were computed from what memory held before: neither left as they were, nor what they are
// when it held zeros. Rounding in another order is no such dependence.
bool Laboratory::depends_on_poison(const Trial& trial, const Attempt& failed, const Attempt& cleared) const {
  const uint64_t poison = trial::pattern(trial.condition.poison);
  for (std::size_t i = 0; i < std::min(failed.calls.size(), cleared.calls.size()); ++i) {
    for (const auto& [name, tensor] : failed.calls[i].outputs) {
      const contract::Tensor& zeroed = *cleared.calls[i].outputs.at(name);
      for (int64_t e = 0; e < tensor->count(); ++e) {
        if (holds_pattern(*tensor, e, poison)) continue;
        const double a = tensor->load(e), b = zeroed.load(e);
        if (!(std::abs(a - b) <= 0.01 * std::abs(b)) && !(std::isnan(a) && std::isnan(b))) return true;
      }
    }
  }
  return false;
}

bool Laboratory::confirm(Trial& trial, Attempt& failed) {
  if (failed.findings.empty()) return false;
  const std::string kind = failed.findings.front().kind;
  if (is_numeric(kind) || kind == "timeout" || kind == "nondeterministic") return true;
  for (bool trial::Condition::*how :
       {&trial::Condition::fresh, &trial::Condition::warmed, &trial::Condition::grown}) {
    Trial again = trial;
    again.condition.warmed = again.condition.grown = false;
    again.condition.*how = true;
    Attempt second = again.condition.related ? attempt(again) : run(again, false);
    for (const Finding& finding : second.findings) {
      if (finding.kind != kind) continue;
      trial = again;
      failed = std::move(second);
      return true;
    }
  }
  return false;
}

// Right alone, wrong or racing while another call runs. A failure that shows alone as well is looked at
// there.
bool Laboratory::find_overlap(Trial& trial, Attempt& failed) {
  if (!trial.condition.overlapped) return false;
  Trial alone = trial;
  alone.condition.overlapped = false;
  if (passes(alone)) {
    // Two calls have two sets of buffers. A subject that keeps the first one's is wrong one call after
    // another, too.
    Trial elsewhere = alone;
    elsewhere.condition.fresh = false;
    elsewhere.condition.warmed = elsewhere.condition.moved = true;
    Attempt there = run(elsewhere, false);
    if (!there.findings.empty()) {
      trial = elsewhere;
      failed = std::move(there);
      return false;
    }
    rename(failed, "concurrent-launch", "right alone, not while another call runs on another stream");
    return true;
  }
  if (is_numeric(failed.findings.front().kind)) trial = alone;
  return false;
}

bool Laboratory::find_stale(Trial& trial, Attempt& failed) {
  Trial first = trial, after = trial;
  first.condition.fresh = true;
  first.condition.warmed = first.condition.grown = after.condition.fresh = first.condition.looped = false;
  const bool right_at_first = passes(first);
  const bool after_others = trial.condition.warmed || trial.condition.grown || trial.condition.looped ||
                            failed.calls_before > 0;
  if (right_at_first && after_others) {
    for (bool trial::Condition::*how : {&trial::Condition::warmed, &trial::Condition::grown}) {
      Trial warmed = after;
      warmed.condition.warmed = warmed.condition.grown = false;
      warmed.condition.*how = true;
      if (passes(warmed)) continue;
      trial = warmed;  // shows it without the trials that came before
      break;
    }
    rename(failed, "stale-state", "right in a new process, wrong after earlier calls");
    return true;
  }
  // Twice, so that chance has no part in it.
  if (!right_at_first && passes(after) && !passes(first) && passes(after)) {
    trial = first;
    rename(failed, "stale-state", "wrong in a new process, right after the same call");
    return true;
  }
  return false;
}

bool Laboratory::find_stream_order(Trial& trial, Attempt& failed) {
  const Finding& symptom = failed.findings.front();
  if (between_operations(symptom)) {
    rename(failed, "stream-order", "work that the caller's stream does not order");
    return true;
  }
  if (!trial.condition.ordered) return false;
  Trial idle = trial;
  idle.condition.ordered = idle.condition.others_late = false;
  if (!passes(idle) || passes(trial) || !passes(idle)) return false;
  rename(failed, "stream-order",
         "right when the device idles before and after the call, wrong when work on one stream is held up");
  return true;
}

// Memory that nothing wrote: outputs that keep what they held, or results computed from it.
bool Laboratory::find_undefined(Trial& trial, Attempt& failed) {
  if (trial.condition.poison == Poison::Zeros) return find_unwritten(trial, failed);
  Trial zeroed = trial;
  zeroed.condition.poison = Poison::Zeros;
  const Attempt cleared = run(zeroed, false);
  const bool needs_zeros = cleared.state == AttemptState::Judged && cleared.findings.empty();
  const bool spreads = needs_zeros && depends_on_poison(trial, failed, cleared);
  if (!spreads && find_unwritten(trial, failed)) return true;
  if (!needs_zeros) return false;
  rename(failed, "uninitialized",
         "right when outputs and workspace hold zeros before the call, wrong when they hold anything else");
  return true;
}

Attempt Laboratory::attribute(Trial& trial, Attempt failed) {
  if (failed.findings.empty()) return failed;
  // What is read too early may be undefined, or wrong: the race is why.
  std::stable_partition(failed.findings.begin(), failed.findings.end(), between_operations);
  if (between_operations(failed.findings.front())) {
    if (find_overlap(trial, failed)) return failed;
    if (between_operations(failed.findings.front())) {
      find_stream_order(trial, failed);
      return failed;
    }
  }
  const Finding& symptom = failed.findings.front();
  if (!is_numeric(symptom.kind)) return failed;
  // Of a related call: this trial's own call is right, whatever the conditions.
  if (symptom.evidence.is_object() && symptom.evidence.contains("relation")) return failed;
  if (find_overlap(trial, failed)) return failed;
  // Before the others: they run calls one after another, which is no test of a subject that remembers.
  if (find_stale(trial, failed)) return failed;
  // The virtual device has seen that streams are in order, and that nothing undefined was used.
  const bool watched = options_.device == subject::Device::Virtual;
  if (watched && holds_poison(failed, trial.condition.poison) && find_unwritten(trial, failed)) return failed;
  if (find_stream_order(trial, failed)) return failed;
  find_undefined(trial, failed);
  return failed;
}

bool Laboratory::attribute_again(Trial& trial, Attempt& failed, std::string_view kind) {
  static constexpr struct {
    std::string_view kind;
    bool (Laboratory::*find)(Trial&, Attempt&);
  } kCauses[] = {{"concurrent-launch", &Laboratory::find_overlap},
                 {"stale-state", &Laboratory::find_stale},
                 {"stream-order", &Laboratory::find_stream_order},
                 {"unwritten-output", &Laboratory::find_unwritten},
                 {"uninitialized", &Laboratory::find_undefined}};
  for (const auto& cause : kCauses) {
    if (cause.kind == kind) return (this->*cause.find)(trial, failed) && failed.findings.front().kind == kind;
  }
  return false;
}

}  // namespace assay::assayer
