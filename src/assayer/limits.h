// Every limit of a check that is not the user's to set: seconds, shares of the budget, numbers of calls. What
// it is for and what pins it stands beside each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace assay::assayer {

// ---- What a trial may cost ----

// Shares of the time left that one trial may take: an ordinary one, so that at least four more fit; and one
// that a pass requires. Chosen; the corpus shows whether checks still end within their budgets.
inline constexpr double kTrialShare = 0.25, kNeededShare = 0.5;
// Times as long as predicted that a required trial may take: the first call of a new shape may take a slow
// path of which nothing is known yet.
inline constexpr double kNeededSlack = 3;
// Seconds of an ordinary trial, at most; and until one has shown that calls may take longer and still end.
inline constexpr double kTrialSeconds = 10, kFirstTrialSeconds = 2.5;
// Seconds of a trial that an earlier check has recorded, which may have run on a quicker machine.
inline constexpr double kRepeatedTrialSeconds = 3 * kTrialSeconds;
// Share of the budget, and least seconds, for a trial that is known to be slow.
inline constexpr double kBriefShare = 0.12, kBriefSeconds = 0.5;
// Elements of each output judged in such a trial.
inline constexpr int64_t kBriefSample = 1 << 13;
// Of a trial of which a sample of the blocks is run: seconds of each launch, in which blocks begin (they end in twice as
// many); once more of them, for one trial, where no block came to its end, as in a kernel whose blocks loop over the
// whole tensor. Seconds of the whole trial beside that. Elements of each output that are judged. Chosen.
inline constexpr double kSampleSeconds = 0.25, kLongSampleSeconds = 2, kSampledTrialSeconds = 6;
inline constexpr int64_t kSampledElements = 1 << 12;
// … fewer where each takes many steps of the formula, so many of all together, but so many elements at least. Chosen: a
// tenth of a second of the reference, and both ends of what each block wrote.
inline constexpr double kSampledSteps = 1 << 23;
inline constexpr int64_t kLeastSampledElements = 1 << 8;
// Blocks of each launch, or all of them, without which nothing is said of what all blocks write. Chosen: a tenth of all
// blocks that write more than any of 32 random ones is missed three times in a hundred, and must be missed again when the
// failure is confirmed with other random blocks.
inline constexpr uint64_t kEnoughBlocks = 32;
// Share of the budget that such trials may take before all that a pass requires has been tried. Chosen: two seconds of
// the default budget, in which they are through for an element-wise kernel.
inline constexpr double kSampledShare = 0.1;
// The same on a real GPU, which runs all blocks: it is good at that, and slower at small trials.
inline constexpr double kSampledShareOnGpu = 0.35;
// On a real GPU: a giant call does not end if it takes so many times longer than a part of it, one that is smaller by
// kGiantStep, and its size explain; a part counts as taking so many seconds at least. Chosen: half a second for a call of 20 ms.
inline constexpr double kGiantSlower = 10, kLeastGiantSeconds = 0.02;
inline constexpr int64_t kGiantStep = 4;
// Samples that told nothing for the same reason before the others are left out.
inline constexpr int kMostUnsampled = 2;
// A shape that the contract lists runs whatever it costs, within this many budgets and seconds at least.
inline constexpr double kRequiredBudgets = 3, kRequiredSeconds = 60;
// Budgets of its own time (own_time.h) that a check of a Python function may take for the trials that a pass
// requires. Chosen: one is enough but for large tensors, whose reference is evaluated on the CPU.
inline constexpr double kPythonBudgets = 4;
// A budget counts seconds of the check's own. A machine that is busy with other work may make it take so many times as long,
// or so many seconds longer where that is more; then it ends, and is inconclusive if trials are left that a pass requires.
// Chosen: a user who asks for 20 s should not wait for minutes. MostElapsed.IsTwiceTheBudget (tests/assayer).
inline constexpr double kBusyBudgets = 2, kBusySeconds = 10;
// … of a check that may take so many seconds of its own.
inline double most_elapsed(double own) {
  return std::max(kBusyBudgets * own, own + kBusySeconds);
}
// Share of the budget: a trial that takes more is named in the report.
inline constexpr double kHeldUpShare = 0.5;
// Elements of a trial per second of budget, and at least: drawing, copying and judging them takes time as
// well.
inline constexpr double kElementsPerSecond = 2.5e5, kLeastElements = 1.5e6;
// On what a longer budget is estimated to be.
inline constexpr double kBudgetMargin = 1.3;
// Trials in a row of a plan that could not be run before a check gives up; those that the virtual GPU does
// not support count for much more.
inline constexpr int kMostUseless = 200, kMostUnsupported = 2;

// Seconds in which a failure that one device showed is looked for on the other. Chosen: a few calls and their cause.
inline constexpr double kOtherDeviceSeconds = 5;
// Seconds of a call that compute-sanitizer observes, which makes it a hundred times slower. Chosen.
inline constexpr double kWitnessedSeconds = 20;
// On a real GPU: trials that were made again under load because repeating them gave another result. Chosen: of a kernel
// whose results may differ, every trial is one, and a few tell.
inline constexpr int kMostShaken = 3;

// ---- What follows a failure has its own seconds, so that a check ends soon after its budget is spent ----

// They are seconds of its own (own_time.h), where others keep the machine busy; and so much of the elapsed
// time at least, so that the wait is at most twice as long. Chosen, as kBusyBudgets.
inline constexpr double kLeastOwnShare = 0.5;
// To tell slow from endless: many short calls and a long one, or two (hang.cpp).
inline constexpr double kHangSeconds = 8;
// The same where there is a reason to expect it (investigate): the longest call of hang.cpp, and the short ones before it,
// which take as long again on a busy machine. Chosen.
inline constexpr double kExpectedHangSeconds = 24;
// Smaller sizes that are tried before, each half of the next: all; or so few where each takes a second on a busy machine.
inline constexpr int kAllDoublings = 62, kFewDoublings = 4;
// To see it again and to find its cause: about a dozen calls; three at least where each is slow, up to the
// last.
inline constexpr double kCauseSeconds = 4, kCauseCalls = 3, kLongCauseSeconds = 12;
// To make the trial small: many short calls.
inline constexpr double kShrinkSeconds = 2;
inline constexpr int kShrinkAttempts = 200;
// The same for what waits for ever: each attempt takes its time.
inline constexpr double kWaitingSeconds = 3;
inline constexpr int kWaitingAttempts = 3;
// To follow where precision is lost: a few calls, each many times slower than an ordinary one.
inline constexpr double kProfileSeconds = 3;
// For the numbers of the smallest case: one call.
inline constexpr double kPictureSeconds = 1;
// Looks whether a failure has a known cause that is named otherwise (--keep-going).
inline constexpr int kRechecks = 6;
// Runs of a condition and its opposite, in turn, that must show the same before one of them is a cause. A
// call that fails by chance, every other time, passes for a cause once in 2^6.
inline constexpr int kTimes = 3;
// Runs beside the first that must give the same result before chance is no longer thought of. A result that
// goes by a fair coin is the same in all of them once in 2^10, about a thousand. A run is a new process: 10 to
// 20 ms for a small kernel. Where it takes longer, kTimes runs at least, and more as long as all of them
// together take no more than these seconds: a quarter of what there is for all causes.
inline constexpr int kChanceRuns = 10;
inline constexpr double kChanceSeconds = 1;
// … where one takes so many.
inline int chance_runs(double seconds) {
  if (seconds * kChanceRuns <= kChanceSeconds) return kChanceRuns;
  return std::max(kTimes, static_cast<int>(kChanceSeconds / seconds));
}

// ---- Calls ----

// Bytes of a trial that has no need for all the machine's memory: more is a crash, not a lack of memory.
inline constexpr double kSmallBytes = 16e6;
// Bytes of a trial whose inputs are staged on the stream: each buffer is then there twice.
inline constexpr double kMostOrderedBytes = 256e6;
// Calls of a process that are remembered, to be made again.
inline constexpr std::size_t kMostHistory = 64;
// Seconds that a call gets however late it is.
inline constexpr double kLeastCallSeconds = 0.3;

}  // namespace assay::assayer
