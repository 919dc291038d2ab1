// Every number of the plan: how large its trials are, how many there are of each kind, and how they take
// turns. Its unit and reason stand beside each, and the test of tests/trial that pins it where
// there is one. Where no reason is given, the number was chosen; the corpus shows whether checks still find
// what they should within their budgets.
//
// The plan for a seed follows from these numbers: changing one changes what a seed stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <string_view>

#include "base/gpus.h"
#include "base/schedule.h"

namespace assay::trial {

// Of a contract that promises only the shapes it lists: so many of them, the cheapest, are tried with every
// family of inputs and under every condition. Chosen.
inline constexpr std::size_t kMostListed = 4;
// Trials with the problem's own inputs at each shape. Chosen.
inline constexpr int kProblemSeeds = 2;

// ---- The order of trials ----

// What a trial costs before anything is known of the kernel: seconds of its own, for a step of the formula,
// and for a row, which is a block as a rule. Only to put trials in order, so it does not depend on the
// machine.
inline constexpr double kTrialCost = 0.01, kStepCost = 5e-8, kRowCost = 2e-5;
// What many small calls in one trial cost, in trials.
inline constexpr double kManyCalls = 5;
// What a trial costs of which a sample of the blocks is run, as those above: hardly more at any shape.
inline constexpr double kSampledCost = 0.05;
// Elements of all tensors up to which the corners are run whole (kCornerElements), and not by a sample.
inline constexpr double kWholeElements = 0x1p18;
// Of its cost, what a brief trial counts as: what shows nothing but at large shapes is not to wait for all
// that small ones can show.
inline constexpr double kBriefCostShare = 0.1;
// Elements of all tensors from which a family of inputs shows what it is for. Chosen.
inline constexpr double kTellingElements = 64;
// Trials of the first stage that come before all others.
inline constexpr std::size_t kOpening = 3;

// ---- Machines ----

// Trials that the first machines get, and all later ones. A process that makes at least kStay calls shows
// what goes wrong only after dozens of them. Plan.MeetsSeveralMachinesEarly wants three machines among the
// first 12 trials, and a stay of 50 trials.
inline constexpr std::size_t kFirstStays[] = {5, 3, 3}, kStay = 64;
// Of a GPU's memory, what a trial's buffers may take at most: kernels need some, too.
inline constexpr double kMemoryShare = 0.1;
// When a machine starts: the time it is, and moments unlike it by year, month, weekday and hour (UTC), among
// them a leap day, the turn of a year and the end of 32-bit time. Unix seconds. Their number and that of the
// GPUs have no common factor, so each GPU meets each of them in time.
inline constexpr int64_t kClocks[] = {
    0,
    1804991400,  // 2027-03-14 02:30, Sunday
    2147483645,  // 2038-01-19 03:14:05, Tuesday
    1798761590,  // 2026-12-31 23:59:50, Thursday
    1736154000,  // 2025-01-06 09:00, Monday
    1835481570,  // 2028-02-29 23:59:30, Tuesday
    1909137600,  // 2030-07-01 12:00, Monday
    1964886300,  // 2032-04-06 17:45, Tuesday
};
static_assert(std::gcd(std::size(kClocks), std::size(kGpus)) == 1);

// ---- Seeds and conditions of a trial ----

inline constexpr uint64_t kPlanStream = 1;  // of the plan's own random numbers, beside those of its trials
// Bits that a trial's seed, and a schedule's, lack of 64: short enough to read.
inline constexpr int kSeedShift = 16, kScheduleShift = 40;
// Trials that have the first of each scalar's values; later ones draw.
inline constexpr uint64_t kFirstValueTrials = 4;
// A scalar from a range has one of four draws, from 0 on: its lowest value, its highest, and, with the other
// two, any between them. The first trials have the third.
inline constexpr int64_t kLowestDraw = 0, kHighestDraw = 1, kInnerDraw = 2, kLastDraw = 3;
// One of so many trials in turn, and which one: in text order, with the other streams late, at other
// addresses, called twice.
inline constexpr uint64_t kTextOrderEvery = 3, kOthersLateEvery = 2, kMovedEvery = 4, kRepeatedEvery = 8;
inline constexpr uint64_t kTextOrderTurn = 0, kOthersLateTurn = 1, kMovedTurn = 3, kRepeatedTurn = 5;
// Tensors of which little is promised are better aligned by chance in every third trial, and in a few trials of each
// size of conditions. Chosen: with two tensors of floats, one trial in five has the one at a multiple of 16 bytes and not the other.
inline constexpr uint64_t kAlignedEvery = 3, kAlignedTurn = 2, kAlignmentSeeds = 3;
// Of the inputs of edges and random trials, those that keep their first family.
inline constexpr double kFirstFamilyShare = 0.5;

// ---- Sizes of plain trials and long sums ----
//
// Sizes are the value of every dim, snapped to what is legal. Shares are of a quick trial (PlanOptions).

inline constexpr int64_t kFirstSize = 41, kPlainSize = 67, kZerosSize = 9, kIndexCodedSize = 130,
                         kSmallIntegersSize = 33;
inline constexpr double kFirstShare = 0.3, kZerosShare = 0.2;
// One dim where sums are to be long, and the others; steps of the formula, as these trials open the plan.
inline constexpr int64_t kStretched = 4099, kBesideStretched = 24;
inline constexpr double kStretchedSteps = 1.6e6;

// ---- Families and conditions ----

inline constexpr int64_t kNanRowSize = 40, kNanElementSize = 21;
inline constexpr double kNonfiniteShare = 0.2;
inline constexpr double kEachShare = 0.3;  // for each family and condition
inline constexpr int64_t kFamilySize = 96, kLargerFamilySize = 200;
// Values of a scalar, such as an epsilon, that small inputs meet.
// Plan.MakesAllInputsSmallAtOnceForEveryValueOfAScalar wants two.
inline constexpr std::size_t kMostScalarValues = 3;
// Inputs that are far below zero beside others above: of the factors of a product all but one, and few products have more
// than three. Chosen.
inline constexpr std::size_t kMostBelow = 2;
// Under each kind of condition. With the first come the repeated sums; before the last, no smaller call is
// made.
inline constexpr int64_t kConditionSize = 48, kLargerConditionSize = 129, kSmallestConditionSize = 5;
inline constexpr int64_t kConditionSizes[] = {kConditionSize, kLargerConditionSize, kSmallestConditionSize};
// The orders that chance rarely brings about, at each of these sizes; Text: none.
inline constexpr ScheduleKind kExtremeOrders[][3] = {
    {ScheduleKind::LanesAhead, ScheduleKind::Interleaved, ScheduleKind::LastFirst},
    {ScheduleKind::LanesInTurn, ScheduleKind::Interleaved, ScheduleKind::Starved},
    {ScheduleKind::LanesAhead, ScheduleKind::Text, ScheduleKind::Text},
};
static_assert(std::size(kExtremeOrders) == std::size(kConditionSizes));
inline constexpr int64_t kManyCallsSize = 5;
// Elements of all tensors from which a kernel has several blocks as a rule; and the sizes, where those above have fewer. Chosen:
// 16 blocks of 1,024 threads.
inline constexpr double kElementsOfSeveralBlocks = 1 << 14;
inline constexpr int64_t kSizesOfSeveralBlocks[] = {512, 2048, 8192, 16384};
// Orders that they are run in, alone and beside another call.
inline constexpr ScheduleKind kOrdersOfSeveralBlocks[] = {ScheduleKind::Interleaved, ScheduleKind::Starved,
                                                          ScheduleKind::LastFirst, ScheduleKind::Shuffled};
// Of sums that must come out the same in every order. Plan.RepeatsSumsOfUnlikeNumbersWhereBitsMustBeTheSame
// wants two.
inline constexpr int64_t kRepeatedSumSizes[] = {600, 2100};
// Schedules (base/schedule.h): of overlapping calls, the first at each size and how far the second is from it; of
// repeated calls, with lanes out of step; of calls at other addresses; and of repeated sums, the last blocks first.
inline constexpr uint64_t kOverlapStep = 24, kOverlapOther = 9;
inline constexpr uint64_t kRepeatedSchedule = 11, kMovedSchedule = 9, kRepeatedSumSchedule = 12;
static_assert(lanes_drift(kRepeatedSchedule) &&
              schedule_kind(kRepeatedSumSchedule) == ScheduleKind::LastFirst);

// ---- Scalars ----

// Sizes at which each value of a scalar is tried; the first is required. Values of each. Chosen: a shift or a window that
// is larger than what it is applied to meets the two smallest sizes first.
inline constexpr int64_t kScalarSizes[] = {2, 1, 3, kConditionSize};
inline constexpr std::size_t kMostValuesInSmallShapes = 4;

// ---- What a pass requires ----

// How large the trials are that a pass requires: a kernel of ordinary speed takes some tenths of a second for
// the largest of them. Elements of all tensors, steps of the formula, and rows, which are blocks as a rule
// and cost more than elements. Requirements.NameEveryConditionEveryFamilyAndBothSidesOfAWarp pins the rows,
// and Requirements.DoNotGrowWithThePromise wants at most 6e5 elements.
inline constexpr double kCornerElements = 1 << 18, kCornerSteps = 1 << 20;
inline constexpr int64_t kCornerRows = 1 << 12;
// The same for edges, of which there are many.
inline constexpr double kEdgeElements = 1e5, kEdgeSteps = 4e5;
// The same for sizes that the kernel's code names, of which there are few: a kernel is often written for a few large ones.
// A little more than 2^20, so that products just beyond it are among them (Thresholds.AProductBeyondAMillionIsRequired).
inline constexpr double kNamedElements = 1.1 * (1 << 20), kNamedSteps = 1 << 21;
inline constexpr int64_t kNamedRows = 1 << 13;
// Shapes that a pass requires in which dims are at such sizes together, and in which their product is, the cheapest of
// each. Chosen.
inline constexpr std::size_t kMostRequiredJoint = 6;

// ---- Edges, thresholds and the sizes of models ----

// The largest value of a dim among edges and in random shapes.
inline constexpr int64_t kMostEdge = 20000;
// How many times a quick trial those may cost that a pass does not require: edges, thresholds, random shapes.
inline constexpr double kUnhurried = 2;
// The other dims, in turn: at an edge (some are divisors whose reciprocal, in fp32, rounds down), at a
// threshold of the kernel's code, and at the size of a model.
inline constexpr int64_t kBesideEdge[] = {17, 41, 3, 70, 129, 47, 24, 94, 55, 6};
inline constexpr int64_t kBesideThreshold[] = {5, 3, 17, 2};
inline constexpr int64_t kBesideModelSize[] = {3, 1, 5, 2};
// Elements and rows of a trial at a kernel's threshold or a model's size.
inline constexpr double kThresholdElements = 1 << 20;
inline constexpr int64_t kThresholdRows = 1 << 13;
// Trials for each dim and for dims together; Thresholds.AreTriedOnBothSidesAloneAndTogether needs 17.
inline constexpr std::size_t kMostThresholds = 32;
// Elements of a trial of dims together, and how many of those larger than other trials may be.
inline constexpr double kMostJointElements = 4e7;
inline constexpr int kMostLargeJoint = 3;

// ---- Segments of chosen sizes ----

// Rows of each size, next to each other: with 17 of them each remainder of a division by up to 17 is met. Pinned by
// Runs.MeetEveryRemainderOfARow (tests/trial/runs_test.cpp).
inline constexpr int64_t kRun = 17;
// Where all rows have one size: more than a usual block has threads; and sizes that this is tried with. Chosen.
inline constexpr int64_t kAlikeRows = 300;
inline constexpr std::size_t kMostAlike = 4;
// Halvings of that number where the size is large.
inline constexpr int kMostFewer = 4;
// Sizes of one trial, and trials by sizes that a pass does not require, of each input. Chosen.
inline constexpr std::size_t kMostSizesAtOnce = 24, kMostOtherRuns = 8;
// The other dims of these trials.
inline constexpr int64_t kBesideRun = 5;
// Of random trials, the inputs that are in runs; and of how many sizes at most. Chosen.
inline constexpr double kRunsShare = 0.3;
inline constexpr int64_t kMostRandomSizes = 3;

// ---- Wide shapes ----

// Dims where signed and unsigned 16-bit numbers end, the larger first; and how far beyond them a dim is.
inline constexpr int64_t kEndsOf16Bits[] = {1 << 16, 1 << 15}, kBeyond = 77;
inline constexpr int64_t kBesideWide = 5;
inline constexpr std::string_view kWide = "wide";  // the name of that stage
// Factors by which a dim is made longer where halving stopped short of the limit, the largest that fits.
inline constexpr double kLengthened[] = {1.9, 1.6, 1.3, 1.1};
// Elements of sparse trials: where signed and unsigned 32-bit offsets end.
inline constexpr double kEndsOf32Bits[] = {0x1p31, 0x1p32};

// ---- Random trials ----

// Of the dims of random shapes, those that take a size of the kernel's code or of a model; and of these, the
// former.
inline constexpr double kSpecialShare = 0.2, kThresholdShare = 0.5;
// Of the trials, those of two calls at once where the contract wants them.
inline constexpr double kOverlappedShare = 0.1;

}  // namespace assay::trial
