// A call that did not end in time: is it slow, or does it never end?
//
// How long a kernel may take cannot be said; how much longer it may take than at the next smaller size can.
// So the trial is made again from the smallest shape on, each dim at most 1, 2, 4, …, with the inputs and the
// condition it had. While calls end, their time tells what the next one may take: doubling every dim makes
// the work of a sound kernel grow by a power of two. A call that takes fifty times as long as the one before
// it (twenty times where it has few steps), and seconds at least, does not end, and is the smallest case of it
// too. Where calls become slow before that, nothing is said. Both times are by the clock that limits calls, which other
// work on the machine does not make run faster (subject/process_clock.h).
#include <fmt/format.h>

#include <algorithm>

#include "assayer/trial_runner.h"
#include "judge/steps.h"
#include "trial/shapes.h"

namespace assay::assayer {

using trial::Trial;

namespace {

// All chosen. tests/subject/causes_test wants a call that does not end found within 10 s.

constexpr double kLeast = 2.5;      // seconds: a call that takes less is not called endless
constexpr double kLongest = 10;     // seconds that are waited for one call
constexpr double kMuchSlower = 50;  // times what the next smaller case took
constexpr double kClearlySlower =
    20;                             // the same for a call with few steps, which is not waited for that long
constexpr double kShortest = 0.02;  // seconds that a call takes to be at least, so that noise does not count
// Steps of the formula: a call with so few ends within kLongest, or never.
constexpr double kSmallTrial = 2e6;

// The trial with every dim at most 1, 2, 4, …, and as it is; only the last `doublings` of these.
std::vector<Trial> growing(const contract::Contract& contract, const Trial& trial, int doublings) {
  std::vector<Trial> trials;
  int64_t largest = 1;
  for (const auto& [name, value] : trial.shape) largest = std::max(largest, value);
  int64_t first = 1;
  while (first < largest >> doublings) first *= 2;
  for (int64_t most = first; most < largest; most *= 2) {
    Trial smaller = trial;
    for (const contract::Dim& dim : contract.dims) {
      int64_t& value = smaller.shape[dim.name];
      value = std::min(value, trial::snap(dim, most));
    }
    if (!contract.check_shape(smaller.shape) || smaller.shape == trial.shape) continue;
    if (trials.empty() || trials.back().shape != smaller.shape) trials.push_back(std::move(smaller));
  }
  trials.push_back(trial);
  return trials;
}

}  // namespace

bool TrialRunner::never_ends(Trial& trial, TrialResult& slow, int doublings) {
  const double patience = timeout_;
  std::string smaller;  // the case before, and its time
  double seconds = kShortest;
  std::vector<std::pair<contract::Shape, double>> probed;
  judge::Margins margins;
  bool found = false, ended = false, late = false;
  const auto ends_not = [&](const Trial& candidate) {
    const auto size = work_.of(candidate.shape);
    const bool small = size && size->steps <= kSmallTrial && seconds * kClearlySlower <= kLongest;
    double limit = std::max(kLeast, kMuchSlower * seconds);
    if (limit > kLongest && !small) return true;
    limit = std::min(limit, kLongest);
    set_timeout(limit);
    TrialResult result = run_once(candidate, false);
    if (out_of_time()) {
      late = true;
      return true;
    }
    if (has_error(result.findings)) {  // a deadlock, say: why it does not end
      found = true;
      slow = std::move(result);
      return true;
    }
    ended = result.state == TrialState::Judged;
    const bool endless = result.state == TrialState::TooSlow;
    if (options_.margins && (ended || endless))
      margins.add(judge::Gate::Endless, (endless ? limit : result.call_seconds) / limit, endless);
    if (!endless) {
      seconds = std::max(kShortest, result.call_seconds);
      if (ended) {
        probed.emplace_back(candidate.shape, result.seconds);
        smaller =
            fmt::format("{} ends after {:.2g} s", contract::to_string(candidate.shape), result.call_seconds);
      }
      return false;
    }
    found = true;
    slow = std::move(result);
    return true;
  };
  for (Trial candidate : growing(contract_, trial, doublings)) {
    candidate.condition.warmed = candidate.condition.grown = false;
    candidate.condition.fresh = false;
    candidate.condition.looped = false;  // many calls take long, and each may end
    if (!ends_not(candidate)) continue;
    if (found) trial = std::move(candidate), trial.condition.fresh = true;
    break;
  }
  // It ends as the first call of a process: the calls before it are why.
  bool stale = false;
  for (bool trial::Condition::*how : {&trial::Condition::warmed, &trial::Condition::grown}) {
    if (found || !ended) break;
    Trial later = trial;
    later.condition.looped = false;
    later.condition.*how = true;
    if (ends_not(later) && found) trial = std::move(later), stale = true;
  }
  set_timeout(patience);
  slow.probed = std::move(probed);
  slow.unexplained = late && !found;
  slow.margins.add(margins);
  if (!found) return false;
  slow.is_smallest = true;
  if (has_error(slow.findings)) return true;
  Finding finding = std::move(*slow.unended);
  if (stale) {
    finding = std::move(judge::attributed({finding}, {.cause = judge::FoundCause{Cause::EndsOnlyFirst}})[0]);
  } else {
    std::get<evidence::Process>(finding.evidence).smaller = smaller;
  }
  slow.state = TrialState::Judged;
  slow.findings = {std::move(finding)};
  return true;
}

}  // namespace assay::assayer
