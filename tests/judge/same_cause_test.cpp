// Which findings have one cause: within a trial, and over the trials of a check.
#include "judge/same_cause.h"

#include <gmock/gmock.h>

#include "finding/print.h"

namespace assay::judge {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Finding numeric(Kind kind, const std::string& output, int64_t judged = 100, int64_t outside = 0) {
  return {.kind = kind,
          .evidence = evidence::Numeric{.output = output, .judged = judged, .outside = outside}};
}

Finding race(const Where& where, const std::string& kernel = "k") {
  return {.kind = Kind::DataRace, .where = where, .evidence = evidence::Race{.code = {.kernel = kernel}}};
}

Finding access(Kind kind, const Where& where) {
  return {.kind = kind, .where = where, .evidence = evidence::Access{.code = {.kernel = "k"}}};
}

std::vector<Kind> kinds_of(const std::vector<Finding>& findings) {
  std::vector<Kind> list;
  for (const Finding& finding : findings) list.push_back(finding.kind);
  return list;
}

// ---- Signatures ----

TEST(Signatures, AreOfTheOutputWhateverTheLine) {
  Finding placed = numeric(Kind::Nonfinite, "y");
  placed.where = {"k.cu", 7};
  EXPECT_EQ(signature_of(placed), signature_of(numeric(Kind::Nonfinite, "y")));
  EXPECT_NE(signature_of(placed), signature_of(numeric(Kind::Nonfinite, "z")));
  evidence::Access unwritten;
  unwritten.unwritten = evidence::Unwritten{.name = "y"};
  EXPECT_EQ(signature_of({.kind = Kind::UnwrittenOutput, .where = {"k.cu", 3}, .evidence = unwritten}),
            (Signature{Kind::UnwrittenOutput, "y", ""}));
}

TEST(Signatures, OfInaccuraciesAreAlikeButNotOfWrongResults) {
  const Signature loss = signature_of(numeric(Kind::PrecisionLoss, "y"));
  EXPECT_EQ(signature_of(numeric(Kind::LowPrecisionAccumulation, "y")), loss);
  EXPECT_EQ(signature_of(numeric(Kind::BiasedRounding, "y")), loss);
  EXPECT_NE(signature_of(numeric(Kind::WrongResult, "y")), loss);
  EXPECT_NE(signature_of(numeric(Kind::Nonfinite, "y")), loss);
}

TEST(Signatures, WithoutAnOutputAreOfTheLineAndElseOfTheKernel) {
  EXPECT_EQ(signature_of(race({"a/k.cu", 7})), signature_of(race({"b/k.cu", 7}, "other")));
  EXPECT_NE(signature_of(race({"k.cu", 7})), signature_of(race({"k.cu", 8})));
  EXPECT_NE(signature_of(race({"k.cu", 7})), signature_of(access(Kind::OutOfBounds, {"k.cu", 7})));
  EXPECT_EQ(signature_of(race({})), (Signature{Kind::DataRace, "", "k"}));
  EXPECT_NE(signature_of(race({})), signature_of(race({}, "other")));
}

// ---- In a trial ----

TEST(Distinct, OneFindingOfEachKindWithItsOtherLines) {
  const auto found =
      distinct({race({"k.cu", 7}), race({"k.cu", 9}), race({"k.cu", 7}), race({"k.cu", 11})}, false);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].where.line, 7);
  EXPECT_THAT(found[0].attribution.also, ElementsAre(Where{"k.cu", 9}, Where{"k.cu", 11}));
}

TEST(Distinct, KeptApartTheyAreOneForEachLine) {
  const auto found = distinct({race({"k.cu", 7}), race({"k.cu", 9}), race({"k.cu", 7})}, true);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].where.line, 7);
  EXPECT_EQ(found[1].where.line, 9);
  EXPECT_THAT(found[0].attribution.also, IsEmpty());
}

TEST(Distinct, TheMostImportantComesFirst) {
  Finding warning = access(Kind::OutOfBounds, {"k.cu", 3});
  warning.severity = Severity::Warning;
  EXPECT_THAT(kinds_of(distinct({warning, race({"k.cu", 9}), access(Kind::Misaligned, {"k.cu", 5})}, false)),
              ElementsAre(Kind::Misaligned, Kind::DataRace, Kind::OutOfBounds));
}

TEST(Distinct, TheRestOfALineAndWhatHasNoLineAreConsequences) {
  const auto found = distinct({numeric(Kind::WrongResult, "y"), access(Kind::ClobberedInput, {"k.cu", 7}),
                               race({"k.cu", 7}), access(Kind::ClobberedInput, {"k.cu", 8})},
                              true);
  EXPECT_THAT(kinds_of(found), ElementsAre(Kind::DataRace, Kind::ClobberedInput));
  EXPECT_EQ(found[1].where.line, 8);
  EXPECT_THAT(kinds_of(found[0].attribution.consequences),
              ElementsAre(Kind::ClobberedInput, Kind::WrongResult));
}

TEST(Distinct, UndefinedValuesAreAConsequenceOfAnythingButThemselves) {
  const Finding value = access(Kind::Uninitialized, {"k.cu", 20});
  const auto found = distinct({value, access(Kind::OutOfBounds, {"k.cu", 7})}, false);
  EXPECT_THAT(kinds_of(found), ElementsAre(Kind::OutOfBounds));
  EXPECT_THAT(kinds_of(found[0].attribution.consequences), ElementsAre(Kind::Uninitialized));
  EXPECT_THAT(kinds_of(distinct({value, access(Kind::Uninitialized, {"k.cu", 21})}, true)),
              ElementsAre(Kind::Uninitialized, Kind::Uninitialized));
}

// ---- In a check ----

bool explains(const Finding& known, const Finding& finding) {
  KnownCauses causes;
  causes.add(known, {&known, 1});
  return causes.unexplained({finding}).empty();
}

TEST(KnownCauses, ExplainWhatTheyWereSeenAs) {
  EXPECT_TRUE(explains(race({"k.cu", 7}), race({"k.cu", 7})));
  EXPECT_FALSE(explains(race({"k.cu", 7}), race({"k.cu", 8})));
  EXPECT_TRUE(
      explains(numeric(Kind::PrecisionLoss, "y", 100, 1), numeric(Kind::BiasedRounding, "y", 100, 1)));
  EXPECT_FALSE(
      explains(numeric(Kind::PrecisionLoss, "y", 100, 1), numeric(Kind::BiasedRounding, "z", 100, 1)));
  EXPECT_FALSE(explains(numeric(Kind::PrecisionLoss, "y"), numeric(Kind::Nonfinite, "y")));
}

// An output that is off throughout in both trials has one cause, whatever the kinds: half of it, or none of
// its elements by itself and all together. Pins kMostOfThem.
TEST(KnownCauses, ExplainAnyInaccuracyWhereMostOfAnOutputIsOff) {
  const Finding half = numeric(Kind::WrongResult, "y", 100, 50),
                less = numeric(Kind::WrongResult, "y", 100, 49),
                together = numeric(Kind::WrongResult, "y", 100, 0);
  const Finding all = numeric(Kind::PrecisionLoss, "y", 100, 100);
  EXPECT_TRUE(explains(all, half));
  EXPECT_TRUE(explains(all, together));
  EXPECT_FALSE(explains(all, less));
  EXPECT_TRUE(explains(half, all));
  EXPECT_TRUE(explains(together, all));
  EXPECT_FALSE(explains(less, all));
  EXPECT_FALSE(explains(all, numeric(Kind::WrongResult, "z", 100, 50)));
}

// Of fewer than eight elements nobody can say how much of the output is off. Pins kFew.
TEST(KnownCauses, ExplainAnyInaccuracyOfAFewElements) {
  const Finding known = numeric(Kind::PrecisionLoss, "y", 100, 1);
  EXPECT_TRUE(explains(known, numeric(Kind::WrongResult, "y", 7, 7)));
  EXPECT_FALSE(explains(known, numeric(Kind::WrongResult, "y", 8, 8)));
  EXPECT_FALSE(explains(known, numeric(Kind::WrongResult, "z", 7, 7)));
  // Nor do few elements make a cause of everything.
  EXPECT_FALSE(explains(numeric(Kind::PrecisionLoss, "y", 7, 7), numeric(Kind::WrongResult, "y", 8, 8)));
  EXPECT_TRUE(explains(numeric(Kind::PrecisionLoss, "y", 8, 8), numeric(Kind::WrongResult, "y", 8, 8)));
}

TEST(KnownCauses, CountTrialsNotFindings) {
  KnownCauses causes;
  const Finding known = race({"k.cu", 7}), other = race({"k.cu", 8});
  EXPECT_EQ(causes.trials(known), 1);
  causes.add(known, {&known, 1});
  EXPECT_EQ(causes.trials(known), 1);
  EXPECT_THAT(causes.unexplained({known, known}), IsEmpty());
  EXPECT_EQ(causes.unexplained({known, other}).size(), 1u);
  EXPECT_EQ(causes.trials(known), 3);
  EXPECT_TRUE(causes.knows(known));
  EXPECT_FALSE(causes.knows(other));
}

TEST(KnownCauses, LeaveOnlyErrorsUnexplained) {
  KnownCauses causes;
  Finding warning = race({"k.cu", 7});
  warning.severity = Severity::Warning;
  EXPECT_THAT(causes.unexplained({warning}), IsEmpty());
  EXPECT_EQ(causes.unexplained({race({"k.cu", 7})}).size(), 1u);
}

// A wrong sum that was found to come from an earlier call: the next wrong sum may have the same cause.
TEST(KnownCauses, AreKnownByWhatTheyWereNamedAndByWhatWasSeen) {
  KnownCauses causes;
  const Finding seen = numeric(Kind::WrongResult, "y", 100, 3);
  Finding named = seen;
  named.kind = Kind::StaleState;
  causes.add(named, {&seen, 1});
  EXPECT_TRUE(causes.knows(named));
  EXPECT_FALSE(causes.knows(seen));
  EXPECT_EQ(causes.renamed({seen}), Kind::StaleState);
  EXPECT_EQ(causes.renamed({named}), std::nullopt);
  EXPECT_EQ(causes.renamed({numeric(Kind::WrongResult, "z", 100, 3)}), std::nullopt);
  EXPECT_THAT(causes.unexplained({seen, named}), IsEmpty());
}

// ---- On two devices ----

TEST(SameCause, OfNumbersGoesByTheOutput) {
  Finding seen = numeric(Kind::Nonfinite, "y");
  seen.where = {"k.cu", 10};
  EXPECT_TRUE(is_same_cause(seen, numeric(Kind::Nonfinite, "y")));
  EXPECT_FALSE(is_same_cause(seen, numeric(Kind::Nonfinite, "z")));
  EXPECT_FALSE(is_same_cause(seen, numeric(Kind::WrongResult, "y")));
}

TEST(SameCause, AnIllegalAccessOnAGpuHasNoKernel) {
  const Finding seen = access(Kind::OutOfBounds, {"k.cu", 9});
  // It stands at the function that was called.
  Finding real{.kind = Kind::OutOfBounds, .where = {"k.cu", 14}, .evidence = evidence::Access{}};
  EXPECT_TRUE(is_same_cause(seen, real));
  real.kind = Kind::Misaligned;
  EXPECT_FALSE(is_same_cause(seen, real));
  // A tool has named the line.
  EXPECT_FALSE(is_same_cause(seen, access(Kind::OutOfBounds, {"k.cu", 12})));
  EXPECT_TRUE(is_same_cause(seen, access(Kind::OutOfBounds, {"a/k.cu", 9})));
}

TEST(SameCause, AGpuShowsWhatTheVirtualDeviceCallsASymptom) {
  Finding seen = race({"k.cu", 7});
  EXPECT_FALSE(is_same_cause(seen, numeric(Kind::WrongResult, "y")));
  seen.attribution.consequences = {numeric(Kind::WrongResult, "y")};
  EXPECT_TRUE(is_same_cause(seen, numeric(Kind::WrongResult, "y")));
  EXPECT_FALSE(is_same_cause(seen, numeric(Kind::WrongResult, "z")));
  Finding renamed = numeric(Kind::Nondeterministic, "y");
  renamed.attribution.symptom = Kind::WrongResult;
  EXPECT_TRUE(is_same_cause(renamed, numeric(Kind::WrongResult, "y")));
}

TEST(SameCause, AGpuDoesNotSeeWhatACallWaitsFor) {
  const Finding endless{.kind = Kind::Timeout, .evidence = evidence::Process{}};
  EXPECT_TRUE(is_same_cause({.kind = Kind::Deadlock, .evidence = evidence::Synchronisation{}}, endless));
  EXPECT_TRUE(
      is_same_cause({.kind = Kind::BarrierDivergence, .evidence = evidence::Synchronisation{}}, endless));
  EXPECT_FALSE(is_same_cause(race({"k.cu", 7}), endless));
}

}  // namespace
}  // namespace assay::judge
