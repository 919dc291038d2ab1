// Attribution: what a failure depends on. The trial is repeated with one condition changed at a time. A
// condition under which the failure disappears is its cause, and what was seen first becomes a consequence of
// it.
//
// The order is that of the table "Causes and consequences" in docs/findings.md:
//
//   overlap        right alone, wrong while another call runs
//   chance         differs between runs that a kernel should not be able to tell apart
//   earlier calls  right as the first call of a process, wrong later
//   host memory    right when malloc returns zeros
//   device memory  right when outputs and workspace hold zeros; or elements that are never written
//   streams        right when the device is idle before and after the call
//
// Chance comes before earlier calls, because a later call also runs at another time and at other addresses.
// Each "right" and each "wrong" must be seen more than once before it counts as a cause.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "assayer/limits.h"
#include "assayer/seen.h"
#include "assayer/trial_runner.h"
#include "base/random.h"
#include "judge/repetition.h"
#include "judge/steps.h"

namespace assay::assayer {

using trial::Poison;
using trial::Trial;

namespace {

bool holds_pattern(const contract::Tensor& tensor, int64_t at, uint64_t pattern) {
  std::byte bytes[8];
  std::memcpy(bytes, &pattern, 8);
  const auto size = static_cast<std::size_t>(tensor.item_bytes());
  constexpr std::byte kHalf{0xf};
  if (contract::info(tensor.dtype).bits == 4)
    return (*tensor.at(at) & kHalf) == (bytes[0] & kHalf);  // trial::packed_pattern
  return std::memcmp(tensor.at(at), bytes + (static_cast<std::size_t>(at) * size) % 8, size) == 0;
}

// Elements are still what memory held before the call.
bool holds_poison(const TrialResult& result, Poison poison) {
  const uint64_t pattern = trial::pattern(poison);
  for (const subject::Call& call : result.calls) {
    for (const auto& [name, tensor] : call.outputs) {
      for (int64_t e = 0; e < tensor->count(); ++e) {
        if (holds_pattern(*tensor, e, pattern)) return true;
      }
    }
  }
  return false;
}

bool has_same_bytes(const subject::Call& a, const subject::Call& b) {
  return std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(), b.outputs.end(),
                    [](const auto& x, const auto& y) { return x.second->bytes == y.second->bytes; });
}

using judge::is_between_operations;

bool shows(const TrialResult& result, Kind kind) {
  return std::any_of(result.findings.begin(), result.findings.end(), [&](const Finding& finding) {
    return finding.kind == kind && finding.severity == Severity::Error;
  });
}

// The findings, attributed to a cause.
void attribute(TrialResult& failed, Cause cause, std::string difference = "") {
  failed.findings = judge::attributed(std::move(failed.findings),
                                      {.cause = judge::FoundCause{cause, std::move(difference)}});
}

// What differs from run to run without anybody's doing: when it begins, and where buffers lie. Numbers of all
// sizes that are not round, which would leave too much as it is.
uint64_t cycles_before(int run) {
  return 1 + (mix(static_cast<uint64_t>(run), 1) >> (20 + 4 * (run % 4)));  // up to 2^44
}
int64_t bytes_before(int run) {
  constexpr int64_t kAlignment = 256;  // of allocations
  return kAlignment * static_cast<int64_t>(1 + (mix(static_cast<uint64_t>(run), 2) >> (47 + 4 * (run % 3))));
}

Trial as_first_call(Trial trial) {
  trial.condition.fresh = true;
  trial.condition.warmed = trial.condition.grown = trial.condition.looped = false;
  return trial;
}

Trial at_another_time(Trial trial) {
  trial.condition.cycles = cycles_before(0);
  return trial;
}

}  // namespace

bool TrialRunner::passes(const Trial& trial) {
  const TrialResult result = run_once(trial, false);
  return result.state == TrialState::Judged && !has_error(result.findings);
}

bool TrialRunner::tells_apart(Trial right, Trial wrong) {
  for (int i = 0; i < kTimes; ++i) {
    if (!passes(right) || passes(wrong)) return false;
    right.condition.cycles = wrong.condition.cycles = cycles_before(i);  // from the second time on
  }
  return true;
}

// Elements that hold the poison of each of two calls were written by neither.
bool TrialRunner::find_unwritten(Trial& trial, TrialResult& failed) {
  Trial other = trial;
  other.condition.poison = trial.condition.poison == Poison::OtherNan ? Poison::Nan : Poison::OtherNan;
  const TrialResult second = run_once(other, false);
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
      evidence::Access access;
      access.unwritten =
          evidence::Unwritten{spec->name, static_cast<uint64_t>(count), static_cast<uint64_t>(a.count()),
                              contract::coordinates(a.extents, first)};
      Finding finding{.kind = Kind::UnwrittenOutput, .evidence = std::move(access)};
      findings.push_back(std::move(finding));
    }
  }
  if (findings.empty() || passes(trial)) return false;
  failed.findings = std::move(findings);
  return true;
}

// Whether an element stayed as it was, and does not when memory holds something else: nothing is stored that
// does not depend on it, as by a maximum.
bool TrialRunner::keeps_by_value(const Trial& trial, const TrialResult& failed) {
  Trial other = trial;
  other.condition.poison = trial.condition.poison == Poison::Ones ? Poison::Nan : Poison::Ones;
  const TrialResult second = run_once(other, false);
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
bool TrialRunner::depends_on_poison(const Trial& trial, const TrialResult& failed,
                                    const TrialResult& cleared) const {
  constexpr double kSameValue = 0.01;  // relative: sums in another order differ by less
  const uint64_t poison = trial::pattern(trial.condition.poison);
  for (std::size_t i = 0; i < std::min(failed.calls.size(), cleared.calls.size()); ++i) {
    for (const auto& [name, tensor] : failed.calls[i].outputs) {
      const contract::Tensor& zeroed = *cleared.calls[i].outputs.at(name);
      for (int64_t e = 0; e < tensor->count(); ++e) {
        if (holds_pattern(*tensor, e, poison)) continue;
        const double a = tensor->load(e), b = zeroed.load(e);
        if (!(std::abs(a - b) <= kSameValue * std::abs(b)) && !(std::isnan(a) && std::isnan(b))) return true;
      }
    }
  }
  return false;
}

bool TrialRunner::confirm(Trial& trial, TrialResult& failed) {
  if (failed.findings.empty()) return false;
  // What waits for ever was perhaps seen by a call that had longer than those of its trial have (never_ends).
  timeout_ = std::max(timeout_, kCauseCalls * failed.seconds);
  const Kind kind = failed.findings.front().kind;
  if (trial.sampled && kind == Kind::Timeout && options_.device == subject::Device::Cuda)
    return true;        // giant_unended() has seen it twice
  if (trial.sampled) {  // with other inputs and other random blocks
    Trial again = trial;
    again.condition.fresh = true;
    again.seed = mix(trial.seed, 3) >> 16;
    const TrialResult second = run_once(again, false);
    // Other numbers may show the same inaccuracy as another kind.
    return std::any_of(second.findings.begin(), second.findings.end(), [&](const Finding& finding) {
      const bool alike = finding.kind == kind || (is_numeric(finding.kind) && is_numeric(kind));
      return alike && finding.severity == Severity::Error;
    });
  }
  if (is_numeric(kind) || kind == Kind::Timeout || kind == Kind::Nondeterministic || kind == Kind::StaleState)
    return true;
  const auto shows_with = [&](bool trial::Condition::*how, bool moved) {
    Trial again = trial;
    again.condition.warmed = again.condition.grown = false;
    again.condition.*how = true;
    again.condition.moved |= moved;
    TrialResult second = again.condition.related ? run(again) : run_once(again, false);
    if (!shows(second, kind)) return false;
    trial = again;
    failed = std::move(second);
    return true;
  };
  using trial::Condition;
  if (shows_with(&Condition::fresh, false) || shows_with(&Condition::warmed, false) ||
      shows_with(&Condition::grown, false) || shows_with(&Condition::warmed, true))
    return true;
  failed.takes_calls_before = !failed.before.empty() && shows(run_after(failed.before, trial), kind);
  return failed.takes_calls_before;
}

// Right alone, wrong or racing while another call runs. A failure that shows alone as well is looked at
// there.
bool TrialRunner::find_overlap(Trial& trial, TrialResult& failed) {
  if (!trial.condition.overlapped) return false;
  Trial alone = trial;
  alone.condition.overlapped = false;
  // What else is wrong with one call does not matter: only two calls have work on two streams.
  if (is_between_operations(failed.findings.front())) {
    const TrialResult one = run_once(alone, false);
    if (one.state == TrialState::Judged && has_error(one.findings) &&
        std::none_of(one.findings.begin(), one.findings.end(), is_between_operations)) {
      attribute(failed, Cause::SharedByCalls);
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
    TrialResult there = run_once(elsewhere, false);
    if (has_error(there.findings)) {
      trial = elsewhere;
      failed = std::move(there);
      return false;
    }
    attribute(failed, Cause::Overlap);
    return true;
  }
  if (is_numeric(failed.findings.front().kind)) trial = alone;
  return false;
}

// Calls that overlap may be right in one order and wrong in another, in which the repetition was made: all that it told is
// that its bits differ.
bool TrialRunner::find_order_of_calls(Trial& trial, TrialResult& failed) {
  if (!trial.condition.overlapped) return false;
  if (trial.condition.loaded) return find_overlap(trial, failed);  // a real GPU: in any order
  Trial other = repetition_of(trial);
  TrialResult wrong = run_once(other, true);
  if (wrong.state != TrialState::Judged || !has_error(wrong.findings) || !find_overlap(other, wrong))
    return false;
  trial = std::move(other);
  failed = std::move(wrong);
  return true;
}

// Where the results of two runs of one trial differ in what is wrong with them. Findings do not say which of
// two overlapping calls they are about: then the elements must tell by themselves.
std::optional<std::string> TrialRunner::difference(const Trial& trial, const TrialResult& first,
                                                   const TrialResult& second) const {
  const std::size_t calls = std::min(first.calls.size(), second.calls.size());
  if (std::equal(first.calls.begin(), first.calls.begin() + static_cast<std::ptrdiff_t>(calls),
                 second.calls.begin(), has_same_bytes))
    return std::nullopt;
  const auto bindings = inputs_of(trial);
  if (!bindings) return std::nullopt;
  const reference::BudgetOptions budget{.tensor_cores = !first.wider_budgets.empty(),
                                        .threads = options_.threads};
  const auto findings = [&](const TrialResult& result) {
    return calls == 1 ? std::span<const Finding>(result.findings) : std::span<const Finding>();
  };
  for (std::size_t i = 0; i < calls; ++i) {
    const judge::Repetition a{first.calls[i].outputs, findings(first)},
        b{second.calls[i].outputs, findings(second)};
    if (auto text = judge::differing_error(contract_, reference_, (*bindings)[i], a, b, budget)) return text;
  }
  return std::nullopt;
}

// Results that differ between runs in which nothing differs that a kernel may depend on: not the device's
// clock, not where buffers lie, nor which run it is. `known`: which of these it is known to be.
bool TrialRunner::find_chance(Trial& trial, TrialResult& failed, Cause known) {
  const Trial first = as_first_call(trial);
  const TrialResult base = run_once(first, false);
  if (base.state != TrialState::Judged) return false;
  // On a real GPU sums come out in another order each time, which is no cause of anything: there, a result
  // must be right in one run and wrong in another.
  const bool repeatable = options_.device == subject::Device::Virtual;
  const auto differs = [&](const Trial& changed) -> std::optional<std::string> {
    const TrialResult other = run_once(changed, false);
    if (!repeatable && has_error(base.findings) == has_error(other.findings)) return std::nullopt;
    return difference(first, base, other);
  };
  const int runs = chance_runs(base.seconds);
  std::optional<std::string> seen;
  Trial later = first, elsewhere = first;
  for (int i = 0; i < runs && !seen; ++i) {
    Trial other = first;
    other.condition.cycles = later.condition.cycles = cycles_before(i);
    other.condition.shift = elsewhere.condition.shift = bytes_before(i);
    seen = differs(other);
  }
  if (!seen) return false;
  Cause cause = known;
  for (int i = 0; i < runs && cause == Cause::None; ++i)
    if (differs(first)) cause = Cause::Chance;
  if (cause == Cause::None)
    cause = differs(later) ? Cause::Clock : differs(elsewhere) ? Cause::Addresses : Cause::Varies;
  trial = first;
  attribute(failed, cause, *seen);
  return true;
}

// A new process, calls that were made before, and this one.
// NOLINTNEXTLINE(performance-unnecessary-value-param): a copy, for running trials changes the history it may come from
TrialResult TrialRunner::run_after(std::vector<Trial> before, const Trial& trial) {
  runner_.restart();
  for (const Trial& earlier : before) run(earlier, false);
  return run_once(trial, false);
}

bool TrialRunner::fails_after(const Trial& trial, const std::vector<Trial>& before) {
  const TrialResult last = run_after(before, trial);
  return last.state == TrialState::Judged && has_error(last.findings);
}

// What the device saw shows after other calls and not as the first of a process: confirm() has found the
// condition, or that it takes the calls that were made before, and this tells it from chance.
bool TrialRunner::find_left_behind(Trial& trial, TrialResult& failed) {
  const bool warmed = trial.condition.warmed || trial.condition.grown;
  if (!warmed && !failed.takes_calls_before) return false;
  const Kind kind = failed.findings.front().kind;
  Trial first = as_first_call(trial);
  // Many calls take long: confirm() has made them once.
  for (int i = 0; i < (warmed ? kTimes : 1); ++i) {
    first.condition.cycles = cycles_before(i);
    if (shows(run_once(first, false), kind)) return false;
    if (!shows(warmed ? run_once(trial, false) : run_after(failed.before, trial), kind)) return false;
  }
  attribute(failed, Cause::LaterConsequence);
  return true;
}

bool TrialRunner::find_stale(Trial& trial, TrialResult& failed) {
  if (!is_numeric(failed.findings.front().kind)) return find_left_behind(trial, failed);
  const Trial first = as_first_call(trial);
  Trial after = trial;
  after.condition.fresh = after.condition.warmed = after.condition.grown = false;
  const bool right_at_first = passes(first);
  const bool after_others =
      trial.condition.warmed || trial.condition.grown || trial.condition.looped || failed.calls_before > 0;
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
    attribute(failed, Cause::EarlierCalls);
    return true;
  }
  if (!right_at_first && tells_apart(after, first)) {
    trial = first;
    attribute(failed, Cause::FirstCall);
    return true;
  }
  return false;
}

// It was wrong once, and is right as the first call, after other calls and, at another time, after the calls
// that it came after.
bool TrialRunner::find_seen_once(Trial& trial, TrialResult& failed) {
  const Trial first = as_first_call(trial);
  for (int i = 0; i < kTimes; ++i)
    if (!passes(first)) return false;
  if (fails_after(at_another_time(trial), failed.before)) return false;
  trial = first;
  attribute(failed, Cause::SeenOnce);
  return true;
}

// New pages of the host's memory are zeros; what malloc gives later is not.
bool TrialRunner::find_host_memory(Trial& trial, TrialResult& failed) {
  const Kind kind = failed.findings.front().kind;
  if (!trial.condition.host_poison || kind == Kind::Timeout || kind == Kind::Deadlock) return false;
  Trial zeroed = as_first_call(trial);
  zeroed.condition.host_poison = false;
  if (!tells_apart(zeroed, as_first_call(trial))) return false;
  attribute(failed, Cause::HostMemory);
  return true;
}

bool TrialRunner::find_stream_order(Trial& trial, TrialResult& failed) {
  const Finding& symptom = failed.findings.front();
  if (is_between_operations(symptom)) {
    attribute(failed, Cause::UnorderedWork);
    return true;
  }
  if (!trial.condition.ordered) return false;
  Trial idle = trial;
  idle.condition.ordered = idle.condition.others_late = false;
  if (!tells_apart(idle, trial)) return false;
  attribute(failed, Cause::HeldStream);
  return true;
}

// Memory that nothing wrote: outputs that keep what they held, or results computed from it.
bool TrialRunner::find_undefined(Trial& trial, TrialResult& failed) {
  if (trial.condition.poison == Poison::Zeros) return find_unwritten(trial, failed);
  Trial zeroed = trial;
  zeroed.condition.poison = Poison::Zeros;
  const TrialResult cleared = run_once(zeroed, false);
  const bool needs_zeros = cleared.state == TrialState::Judged && !has_error(cleared.findings);
  const bool spreads =
      needs_zeros && (depends_on_poison(trial, failed, cleared) || keeps_by_value(trial, failed));
  if (!spreads && find_unwritten(trial, failed)) return true;
  if (!needs_zeros || !tells_apart(zeroed, trial)) return false;
  attribute(failed, Cause::DeviceMemory);
  return true;
}

bool TrialRunner::find_uninitialized(Trial& trial, TrialResult& failed) {
  return find_host_memory(trial, failed) ||
         (is_numeric(failed.findings.front().kind) && find_undefined(trial, failed));
}

// Blocks that a counter orders race with each other, read what is not written yet or wait forever when another call counts
// on it, too.
namespace {
bool may_come_of_overlap(Kind kind) {
  return kind == Kind::DataRace || kind == Kind::Uninitialized || kind == Kind::UnwrittenOutput ||
         kind == Kind::OutOfBounds || kind == Kind::Deadlock || kind == Kind::Timeout;
}
}  // namespace

TrialResult TrialRunner::find_cause(Trial& trial, TrialResult failed) {
  if (failed.findings.empty() || trial.sampled) return failed;
  // What is read too early may be undefined, or wrong: the race is why.
  std::stable_partition(failed.findings.begin(), failed.findings.end(), is_between_operations);
  if (is_between_operations(failed.findings.front())) {
    if (find_overlap(trial, failed)) return failed;
    if (is_between_operations(failed.findings.front())) {
      find_stream_order(trial, failed);
      return failed;
    }
  }
  const Finding& symptom = failed.findings.front();
  if (symptom.kind == Kind::Nondeterministic && find_order_of_calls(trial, failed)) return failed;
  // These say themselves what the cause is.
  if (symptom.kind == Kind::Nondeterministic || symptom.kind == Kind::StaleState ||
      symptom.kind == Kind::AliasedOutput)
    return failed;
  // Of a related call: this trial's own call is right, whatever the conditions.
  const bool is_related =
      !symptom.attribution.relation.empty() || (std::holds_alternative<evidence::Numeric>(symptom.evidence) &&
                                                std::get<evidence::Numeric>(symptom.evidence).difference);
  if (is_related && is_numeric(symptom.kind)) return failed;
  if (!is_numeric(symptom.kind)) {
    if (may_come_of_overlap(symptom.kind) && find_overlap(trial, failed)) return failed;
    if (!find_left_behind(trial, failed)) find_host_memory(trial, failed);
    return failed;
  }
  if (find_overlap(trial, failed)) return failed;
  if (find_chance(trial, failed, Cause::None)) return failed;
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

bool TrialRunner::has_cause(Trial& trial, TrialResult& failed, Kind kind, Cause cause) {
  if (trial.sampled) return failed.findings.front().kind == kind;
  if (kind == Kind::Nondeterministic) return find_chance(trial, failed, cause);
  static constexpr struct {
    Kind kind;
    bool (TrialRunner::*find)(Trial&, TrialResult&);
  } kCauses[] = {{Kind::ConcurrentLaunch, &TrialRunner::find_overlap},
                 {Kind::StaleState, &TrialRunner::find_stale},
                 {Kind::StreamOrder, &TrialRunner::find_stream_order},
                 {Kind::UnwrittenOutput, &TrialRunner::find_unwritten},
                 {Kind::Uninitialized, &TrialRunner::find_uninitialized}};
  for (const auto& each : kCauses) {
    if (each.kind == kind) return (this->*each.find)(trial, failed) && failed.findings.front().kind == kind;
  }
  return false;
}

}  // namespace assay::assayer
