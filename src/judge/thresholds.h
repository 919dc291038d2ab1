// Every threshold of the judge: its unit, the reason for it, and what pins it.
//
// The first group decides verdicts: docs/numerics.md has a generated table of how far the nearest correct and
// the nearest wrong kernel of the corpus are from each. The others only decide what a failure is called; they
// were fitted to the mistakes of tests/judge/mistakes.txt and to the corpus, and those tests fail when one is
// moved far.
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::judge {

// ---- Gates: whether an output is right ----

// Of the largest error that rounding can explain at worst: an element beyond it is wrong. The bound is
// proven, so there is nothing to choose here (docs/numerics.md).
inline constexpr double kBoundGate = 1;
// Natural log of the probability that a part of an output of a correct kernel has errors so large: 1.4e-11,
// so that a check of a thousand trials with a thousand parts each fails by chance once in 1e5. Pinned by the
// false-alarm run (tests/judge/judge_test, NeverCalledWrong, with 10,000 trials per operator).
inline constexpr double kEnergyGate = -25;
// Squared differences that a part must hold to fail: two odd elements are no proof.
inline constexpr double kLeastFlips = 3;
// Multiple of the expected energy that a coherent error of six standard deviations stays below.
inline constexpr double kEnergyFactor = 2.25;
// How much larger than modelled the rounding noise of a sound kernel may be: its errors may be coherent over
// a row, and its functions worse than typical. Pinned by tests/judge/judge_test (NeverCalledWrong).
inline constexpr double kNoiseFactor = 4;
// Probability that one element is off though the model sees no reason: keeps a single odd element from being
// proof.
inline constexpr double kFloor = 1e-4;
// Terms from which a row's elements may share the error of a sum; and up to which coherent terms still
// average out.
inline constexpr double kLongSum = 64, kShortSum = 8;

// Natural log of the bound of the probability that one test of right draws is so odd: 1.4e-11. A choice is put to at most
// 110 tests, each on two sides, so a call of a correct kernel fails by chance less than once in 3e8. Pinned by
// tests/judge/draws_test, and measured by bench/draws.
inline constexpr double kChoiceGate = -25;
// The same from which a test is recorded for the table of docs/numerics.md; what is less odd is not worth a number.
inline constexpr double kRecordedGate = -1;
// Draws of one choice that are looked at, and weights that are evaluated for it, at most: time.
inline constexpr int64_t kMostDraws = 1 << 20, kMostWeights = 1 << 22;
// Of the distance between two neighbours: how far rounding alone may move a value that is rounded stochastically for
// its draw to be told. Beyond it the two probabilities differ too much to say anything.
inline constexpr double kToldPart = 0.05;

// ---- Which elements are looked at ----

inline constexpr std::size_t kFewElements = 1 << 13;   // that are looked at once, whatever they are
inline constexpr std::size_t kProbeElements = 16;      // that tell how long the sums of an output are
inline constexpr std::size_t kLeastAffordable = 4096;  // elements of an output, though its sums are long
// Times the work that is meant for an output, which so many elements may cost. Chosen: a short trial of a histogram of four
// million numbers in a thousand bins took minutes to judge. Work.OfManyLongSumsIsBounded (tests/judge/judge_test.cpp).
inline constexpr double kMostOverwork = 10;

// ---- Chance: whether an error differs from run to run (repetition.cpp) ----

// Elements whose bits differ that are asked about. Chosen: an output that is wrong by chance in one element of
// a hundred is missed once in thirteen runs, and not in several.
inline constexpr std::size_t kMostRepeated = 256;
// Of an error: what changes by less may be the rounding of a kernel that is wrong for another reason. Chosen
// far from both: a sum in another order changes an error that is worth reporting by little, a coin by all of
// it. Pinned by tests/judge/repetition_test.
inline constexpr double kChangedPart = 0.25;

// ---- Names: what a failure is called when no defect explains it ----

// Errors of a size alone are no proof of a defect when they are as large as the results: relative energy.
inline constexpr double kAsLargeAsResults = 0.05;
// Share of the errors toward zero from which rounding is biased, and of any sign up to which errors are
// noise.
inline constexpr double kBiasedLean = 0.8, kNoiseLean = 0.5;
// Differences of a rounding, in units in the last place, at most; elements that must be off by one, and their
// share, before that is called a rounding. In f32 (unit roundoff below kFineUnit) one is enough.
inline constexpr double kOneUlp = 1.5, kLeastOff = 20, kLeastOffShare = 0.05, kFineUnit = 0x1p-20;
// Inaccuracy: each error at most this part of what was summed, their energy at most this part of that of the
// values; values below kNegligible of the largest count as that.
inline constexpr double kInaccurate = 0.05, kInaccurateEnergy = 1e-3, kNegligible = 1e-6;
// How large errors may be beside those of a kernel that computes everything in bf16 and still be rounding: of
// sums, and where nothing is added up.
inline constexpr double kRoundingSizeOfSums = 4, kRoundingSize = 0.1;

// ---- Names: which defect matches (defect_match.cpp) ----

inline constexpr double kSimulatedTerms = 4e5;  // of sums in one simulation
inline constexpr std::size_t kCompared =
    1536;  // elements; and for defects in one place, of which there are many
inline constexpr std::size_t kComparedBriefly = 256;
inline constexpr double kSure = 0.85;    // correlation that is a match, element by element
inline constexpr double kLikely = 0.65;  // … where the order of additions decides the details
inline constexpr double kSureExplained = 0.6,
                        kLikelyExplained = 0.3;    // share of the errors' energy, likewise
inline constexpr std::size_t kLeastAgreeing = 4;   // errors: so few agree by chance
inline constexpr double kLargeDeparture = 4;       // compressed: an error that no order of additions hides
inline constexpr double kNonfiniteDeparture = 60;  // compressed: what a NaN or infinity counts as
inline constexpr double kAlike = 0.25;             // of the larger: two errors that differ by less are alike
inline constexpr double kSureAlike = 0.5, kLikelyAlike = 0.3,
                        kLikelyAlikeLarge = 0.2;  // share of elements alike
inline constexpr double kCommonFactor =
    0.97;                                 // share of a row's error that is one factor: one piece of evidence
inline constexpr double kVanished = 0.1;  // of the defect's error: the kernel does not have it
inline constexpr double kMissing = 0.5;   // share of the defect's large errors that the kernel lacks
inline constexpr std::size_t kIndependent = 6;  // errors from which their direction means something
inline constexpr double kStopsGrowing = 0.9,
                        kStopsAlike = 0.4;  // lean and likeness of sums that stop growing
inline constexpr double kOtherLean = 0.8;   // difference of directions that excludes a defect
inline constexpr double kCoherence = 0.3;   // difference in how much of its errors each row shares
inline constexpr double kProfileDistance = 0.8,
                        kProfileDistanceOfOne = 0.35;               // factors of two, by sum length
inline constexpr double kOnePassDistance = 4, kOnePassLean = 0.98;  // of a variance in one pass
// The score of a variance in one pass: above every other match by profile (1 at most), below one of the errors themselves
// (kMatched and more); it falls with the distance.
inline constexpr double kOnePassScore = 1.2, kOnePassScorePerDistance = 0.1;
inline constexpr double kSystematicRows = 16, kSystematicLean = 0.97, kSystematicAlike = 0.2;
inline constexpr double kSystematicRowsAtLeast = 8, kSystematicLeanAtLeast = 0.9, kSystematicExcess = 0.4;
inline constexpr double kDeviations = 3;  // by which the leans of two sets of rows may differ by chance
inline constexpr double kBetter = 0.02;   // by which a later candidate must be better
inline constexpr double kMatched = 1.3, kExactMatch = 1.9;  // scores from which no more candidates are tried
inline constexpr std::size_t kMostSites = 24;               // to simulate one rounding at each
// An error that no rounding explains: so many times what any one rounding reaches, and so many times its rounding noise on top;
// below kNoise times the noise an element is not looked at. Two elements at least: one may be the model's fault.
inline constexpr double kBeyondRounding = 8, kBeyondNoise = 4, kNoise = 2;
inline constexpr std::size_t kLeastBeyond = 2;

}  // namespace assay::judge
