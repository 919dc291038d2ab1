// What a failure is a failure of: the trial again under changed conditions. A condition under which it goes
// away is its cause, and what was seen first is a consequence of it.
//
// The order is that of the table "Causes and consequences" in docs/findings.md:
//
//   overlap        right alone, wrong while another call runs
//   chance         differs between runs in which nothing differs that a kernel may depend on
//   earlier calls  as the first call of a process right, later wrong
//   host memory    right when malloc gives zeros
//   device memory  right when outputs and workspace hold zeros; or elements that nobody writes
//   streams        right when the device idles before and after the call
//
// Chance goes before earlier calls, since a later call is also a call at another time and at other addresses.
// Each "right" and each "wrong" is seen more than once before it becomes a cause.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "assayer/attempt.h"
#include "assayer/events.h"
#include "judge/numbers.h"

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

// The cause instead of what was seen, which becomes its consequence, as does all else that was seen.
void rename(Attempt& failed, std::string kind, std::string_view why) {
  Finding finding = failed.findings.front();
  finding.evidence["symptom"] = finding.kind;
  for (std::size_t i = 1; i < failed.findings.size(); ++i)
    finding.evidence["symptoms"].push_back(
        fmt::format("{}: {}", failed.findings[i].kind, failed.findings[i].message));
  const std::string consequence =
      is_numeric(finding.kind) ? finding.message : fmt::format("{}: {}", finding.kind, finding.message);
  finding.kind = std::move(kind);
  finding.message = fmt::format("{}: {}", why, consequence);
  failed.findings = {std::move(finding)};
}

// Runs of a condition and its opposite, in turn, that must show the same before one of them is a cause. A
// call that fails by chance, every other time, passes for a cause once in 64.
constexpr int kTimes = 3;

// What differs from run to run without anybody's doing. Round numbers would leave too much as it is.
constexpr uint64_t kCycles[kTimes] = {1'000'003, 77'777'777'777, 5'432'100'000'017};  // cycles
constexpr int64_t kShifts[kTimes] = {5 * 4096 + 256, 1'234'944,
                                     40'961'280};  // bytes; allocations begin at 256

Trial as_first_call(Trial trial) {
  trial.condition.fresh = true;
  trial.condition.warmed = trial.condition.grown = trial.condition.looped = false;
  return trial;
}

Trial at_another_time(Trial trial) {
  trial.condition.cycles = kCycles[0];
  return trial;
}

// The element of an output that a numeric finding names as the worst.
std::optional<int64_t> worst_element(const Finding& finding, const contract::Tensor& tensor) {
  const Json worst = finding.evidence.value("worst", Json::object());
  const std::string named = text_at(worst, "element");  // "[17, 3]"
  if (named.empty()) return std::nullopt;
  int64_t element = 0;
  const char* at = named.c_str();
  for (const int64_t extent : tensor.extents) {
    char* end = nullptr;
    element = element * extent + std::strtoll(at + 1, &end, 10);
    at = end;
  }
  return element < tensor.count() ? std::optional(element) : std::nullopt;
}

// "y[3] is 1.5 and then 2"
std::optional<std::string> difference_at(const std::string& name, const contract::Tensor& a,
                                         const contract::Tensor& b, int64_t e) {
  if (std::memcmp(a.at(e), b.at(e), static_cast<std::size_t>(a.item_bytes())) == 0) return std::nullopt;
  return fmt::format("{}{} is {} and then {}", name, contract::coordinates(a.extents, e),
                     judge::element_text(a, e), judge::element_text(b, e));
}

// Where the results of two runs of one trial differ. Of a run that failed only the wrong element counts: a
// kernel may round by chance and be wrong for another reason.
std::optional<std::string> difference(const Attempt& first, const Attempt& second) {
  if (first.calls.empty() || second.calls.empty()) return std::nullopt;
  const bool failed = has_error(first.findings);
  for (const auto& [name, a] : first.calls.front().outputs) {
    const auto found = second.calls.front().outputs.find(name);
    if (found == second.calls.front().outputs.end() || found->second->count() != a->count()) continue;
    const contract::Tensor& b = *found->second;
    if (!failed) {
      for (int64_t e = 0; a->bytes != b.bytes && e < a->count(); ++e)
        if (auto differs = difference_at(name, *a, b, e)) return differs;
      continue;
    }
    if (text_at(first.findings.front().evidence, "output") != name) continue;
    const auto worst = worst_element(first.findings.front(), *a);
    if (worst) return difference_at(name, *a, b, *worst);
  }
  return std::nullopt;
}

}  // namespace

bool Laboratory::passes(const Trial& trial) {
  const Attempt attempt = run(trial, false);
  return attempt.state == AttemptState::Judged && !has_error(attempt.findings);
}

bool Laboratory::tells_apart(Trial right, Trial wrong) {
  for (int i = 0; i < kTimes; ++i) {
    if (!passes(right) || passes(wrong)) return false;
    right.condition.cycles = wrong.condition.cycles = kCycles[i];  // from the second time on
  }
  return true;
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
  if (findings.empty() || passes(trial)) return false;
  failed.findings = std::move(findings);
  return true;
}

// Whether an element stayed as it was, and does not when memory holds something else: nothing is stored that
// does not depend on it, as by a maximum.
bool Laboratory::keeps_by_value(const Trial& trial, const Attempt& failed) {
  Trial other = trial;
  other.condition.poison = trial.condition.poison == Poison::Ones ? Poison::Nan : Poison::Ones;
  const Attempt second = run(other, false);
  const uint64_t poison = trial::pattern(trial.condition.poison),
                 others = trial::pattern(other.condition.poison);
  for (std::size_t i = 0; i < std::min(failed.calls.size(), second.calls.size()); ++i) {
    for (const auto& [name, tensor] : failed.calls[i].outputs) {
      const contract::Tensor& changed = *second.calls[i].outputs.at(name);
      for (int64_t e = 0; e < tensor->count(); ++e)
        if (holds_pattern(*tensor, e, poison) && !holds_pattern(changed, e, others)) return true;
    }
  }
  return false;
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
  if (is_numeric(kind) || kind == "timeout" || kind == "nondeterministic" || kind == "stale-state")
    return true;
  for (bool trial::Condition::*how :
       {&trial::Condition::fresh, &trial::Condition::warmed, &trial::Condition::grown}) {
    Trial again = trial;
    again.condition.warmed = again.condition.grown = false;
    again.condition.*how = true;
    Attempt second = again.condition.related ? attempt(again) : run(again, false);
    for (const Finding& finding : second.findings) {
      if (finding.kind != kind || finding.severity != Severity::Error) continue;
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
  // What else is wrong with one call does not matter: only two calls have work on two streams.
  if (between_operations(failed.findings.front())) {
    const Attempt one = run(alone, false);
    if (one.state == AttemptState::Judged && has_error(one.findings) &&
        std::none_of(one.findings.begin(), one.findings.end(), between_operations)) {
      rename(failed, "concurrent-launch", "two calls that overlap use the same memory");
      return true;
    }
  }
  if (passes(alone)) {
    if (!tells_apart(alone, trial)) return false;
    // Two calls have two sets of buffers. A subject that keeps the first one's is wrong one call after
    // another, too.
    Trial elsewhere = alone;
    elsewhere.condition.fresh = false;
    elsewhere.condition.warmed = elsewhere.condition.moved = true;
    Attempt there = run(elsewhere, false);
    if (has_error(there.findings)) {
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

// Results that differ between runs in which nothing differs that a kernel may depend on: not the device's
// clock, not where buffers lie, nor which run it is.
bool Laboratory::find_chance(Trial& trial, Attempt& failed) {
  const Trial first = as_first_call(trial);
  const Attempt base = run(first, false);
  if (base.state != AttemptState::Judged) return false;
  // On a real GPU sums come out in another order each time, which is no cause of anything: there, a result
  // must be right in one run and wrong in another.
  const bool repeatable = options_.device == subject::Device::Virtual;
  const auto differs = [&](const Trial& changed) -> std::optional<std::string> {
    const Attempt other = run(changed, false);
    if (!repeatable && has_error(base.findings) == has_error(other.findings)) return std::nullopt;
    return difference(base, other);
  };
  std::optional<std::string> seen;
  Trial later = first, elsewhere = first;
  for (int i = 0; i < kTimes && !seen; ++i) {
    Trial other = first;
    other.condition.cycles = later.condition.cycles = kCycles[i];
    other.condition.shift = elsewhere.condition.shift = kShifts[i];
    seen = differs(other);
  }
  if (!seen) return false;
  std::string why = "the same call gives different results in new processes";
  if (differs(first)) {
    why += ", by chance or by the time of day";
  } else if (differs(later)) {
    why += ", by the device's clock";
  } else if (differs(elsewhere)) {
    why += ", by the addresses of its buffers";
  }
  trial = first;
  rename(failed, "nondeterministic", fmt::format("{} ({})", why, *seen));
  return true;
}

// A new process, calls that were made before, and this one.
bool Laboratory::fails_after(const Trial& trial, std::vector<Trial> before) {
  runner_.restart();
  for (const Trial& earlier : before) attempt(earlier, false);
  const Attempt last = run(trial, false);
  return last.state == AttemptState::Judged && has_error(last.findings);
}

bool Laboratory::shows(const Trial& trial, std::string_view kind) {
  const Attempt attempt = run(trial, false);
  return std::any_of(attempt.findings.begin(), attempt.findings.end(),
                     [&](const Finding& finding) { return finding.kind == kind; });
}

// What the device saw shows after other calls and not as the first of a process: confirm() has found the
// condition, and this tells it from chance.
bool Laboratory::find_left_behind(Trial& trial, Attempt& failed) {
  if (!trial.condition.warmed && !trial.condition.grown) return false;
  const std::string kind = failed.findings.front().kind;
  Trial first = as_first_call(trial);
  for (int i = 0; i < kTimes; ++i) {
    first.condition.cycles = kCycles[i];
    if (shows(first, kind) || !shows(trial, kind)) return false;
  }
  rename(failed, "stale-state", "nothing is wrong in a new process; consequence in a later call");
  return true;
}

bool Laboratory::find_stale(Trial& trial, Attempt& failed) {
  if (!is_numeric(failed.findings.front().kind)) return find_left_behind(trial, failed);
  const Trial first = as_first_call(trial);
  Trial after = trial;
  after.condition.fresh = after.condition.warmed = after.condition.grown = false;
  const bool right_at_first = passes(first);
  const bool after_others = trial.condition.warmed || trial.condition.grown || trial.condition.looped ||
                            failed.calls_before > 0;
  if (right_at_first && after_others) {
    bool shown = false;
    for (bool trial::Condition::*how : {&trial::Condition::warmed, &trial::Condition::grown}) {
      Trial warmed = after;
      warmed.condition.*how = true;
      if (passes(warmed) || !tells_apart(first, warmed)) continue;
      trial = warmed;  // shows it without the trials that came before
      shown = true;
      break;
    }
    if (!shown && !(fails_after(after, failed.before) && passes(first) &&
                    fails_after(at_another_time(after), failed.before)))
      return false;
    rename(failed, "stale-state", "right in a new process, wrong after earlier calls");
    return true;
  }
  if (!right_at_first && tells_apart(after, first)) {
    trial = first;
    rename(failed, "stale-state", "wrong in a new process, right after the same call");
    return true;
  }
  return false;
}

// It was wrong once, and is right as the first call, after other calls and, at another time, after the calls
// that it came after.
bool Laboratory::find_seen_once(Trial& trial, Attempt& failed) {
  const Trial first = as_first_call(trial);
  for (int i = 0; i < kTimes; ++i)
    if (!passes(first)) return false;
  if (fails_after(at_another_time(trial), failed.before)) return false;
  trial = first;
  rename(failed, "nondeterministic",
         "wrong once, and right when the same calls were made again at another time");
  return true;
}

// New pages of the host's memory are zeros; what malloc gives later is not.
bool Laboratory::find_host_memory(Trial& trial, Attempt& failed) {
  const std::string kind = failed.findings.front().kind;
  if (!trial.condition.host_poison || kind == "timeout" || kind == "deadlock") return false;
  Trial zeroed = as_first_call(trial);
  zeroed.condition.host_poison = false;
  if (!tells_apart(zeroed, as_first_call(trial))) return false;
  rename(failed, "uninitialized",
         "right when the host memory that malloc gives is zero, wrong when it holds anything else");
  return true;
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
  if (!tells_apart(idle, trial)) return false;
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
  const bool needs_zeros = cleared.state == AttemptState::Judged && !has_error(cleared.findings);
  const bool spreads =
      needs_zeros && (depends_on_poison(trial, failed, cleared) || keeps_by_value(trial, failed));
  if (!spreads && find_unwritten(trial, failed)) return true;
  if (!needs_zeros || !tells_apart(zeroed, trial)) return false;
  rename(failed, "uninitialized",
         "right when outputs and workspace hold zeros before the call, wrong when they hold anything else");
  return true;
}

bool Laboratory::find_uninitialized(Trial& trial, Attempt& failed) {
  return find_host_memory(trial, failed) ||
         (is_numeric(failed.findings.front().kind) && find_undefined(trial, failed));
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
  if (symptom.kind == "nondeterministic" || symptom.kind == "stale-state") return failed;
  // Of a related call: this trial's own call is right, whatever the conditions.
  if (symptom.evidence.is_object() && symptom.evidence.contains("relation") && is_numeric(symptom.kind))
    return failed;
  if (!is_numeric(symptom.kind)) {
    if (!find_left_behind(trial, failed)) find_host_memory(trial, failed);
    return failed;
  }
  if (find_overlap(trial, failed)) return failed;
  if (find_chance(trial, failed)) return failed;
  // Before the others: they run calls one after another, which is no test of a subject that remembers.
  if (find_stale(trial, failed)) return failed;
  if (find_host_memory(trial, failed)) return failed;
  // The virtual device has seen that streams are in order, and that nothing undefined was used.
  const bool watched = options_.device == subject::Device::Virtual;
  const bool unwritten = watched && holds_poison(failed, trial.condition.poison);
  if (unwritten && find_undefined(trial, failed)) return failed;
  if (find_stream_order(trial, failed)) return failed;
  if (!unwritten && find_undefined(trial, failed)) return failed;
  find_seen_once(trial, failed);
  return failed;
}

bool Laboratory::attribute_again(Trial& trial, Attempt& failed, std::string_view kind) {
  static constexpr struct {
    std::string_view kind;
    bool (Laboratory::*find)(Trial&, Attempt&);
  } kCauses[] = {
      {"concurrent-launch", &Laboratory::find_overlap},  {"nondeterministic", &Laboratory::find_chance},
      {"stale-state", &Laboratory::find_stale},          {"stream-order", &Laboratory::find_stream_order},
      {"unwritten-output", &Laboratory::find_unwritten}, {"uninitialized", &Laboratory::find_uninitialized}};
  for (const auto& cause : kCauses) {
    if (cause.kind == kind) return (this->*cause.find)(trial, failed) && failed.findings.front().kind == kind;
  }
  return false;
}

}  // namespace assay::assayer
