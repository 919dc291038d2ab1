// The steps from what was seen to what is reported: each alone, then the list as a failure goes through it.
#include "judge/steps.h"

#include <gmock/gmock.h>

#include "finding/print.h"

namespace assay::judge {
namespace {

using namespace evidence;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kStepped = R"toml(
[kernel]
source = "k.cu"
entry  = "k"
args   = ["x", "out", "N", "stream"]
[dims]
N = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["N", 4]
[tensors.out]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "out[n] = sum[d](x[n, d])"
)toml";

const contract::Contract& sums() {
  static const contract::Contract contract = *contract::parse(kStepped, "k.toml");
  return contract;
}

// ---- placed ----

Place in(const std::string& label, uint64_t bytes, int64_t offset) {
  return {.space = Space::Global, .allocation = Allocation{.label = label, .bytes = bytes}, .offset = offset};
}

Finding out_of_bounds(const Place& place) {
  return {.kind = Kind::OutOfBounds,
          .where = {"k.cu", 7},
          .evidence = Access{.access = AccessKind::Write, .bytes = 4, .place = place}};
}

const contract::Shape kThreeRows = {{"N", 3}};  // x has 48 bytes

std::optional<TensorElement> element_of(const Place& place) {
  const auto findings = placed({out_of_bounds(place)}, {.contract = &sums(), .shape = &kThreeRows});
  return std::get<Access>(findings.at(0).evidence).place.element;
}

TEST(Placed, AByteBelongsToAnElement) {
  const auto element = element_of(in("x", 48, 20));
  ASSERT_TRUE(element);
  EXPECT_EQ(element->tensor, "x");
  EXPECT_THAT(element->extents, ElementsAre(3, 4));
  EXPECT_THAT(element->index, ElementsAre(1, 1));
  EXPECT_THAT(element_of(in("x", 48, 0))->index, ElementsAre(0, 0));
  EXPECT_THAT(element_of(in("x", 48, 47))->index, ElementsAre(2, 3));
}

TEST(Placed, ABufferMayBeginBeforeItsTensor) {
  EXPECT_THAT(element_of(in("x", 64, 36))->index, ElementsAre(1, 1));
  EXPECT_THAT(element_of(in("x", 64, 15))->index, IsEmpty());
}

TEST(Placed, OutsideThereIsAShapeAndNoElement) {
  for (const int64_t offset : {-4, 48, 100}) {
    const auto element = element_of(in("x", 48, offset));
    ASSERT_TRUE(element) << offset;
    EXPECT_THAT(element->extents, ElementsAre(3, 4));
    EXPECT_THAT(element->index, IsEmpty()) << offset;
  }
}

TEST(Placed, WhatIsNoTensorStaysAsItIs) {
  EXPECT_FALSE(element_of(in("scratch", 48, 20)));
  EXPECT_FALSE(element_of({.space = Space::Shared, .offset = 20}));
}

TEST(Placed, RacesAreToo) {
  const Finding race{.kind = Kind::DataRace, .evidence = Race{.place = in("out", 12, 8)}};
  const auto findings = placed({race}, {.contract = &sums(), .shape = &kThreeRows});
  EXPECT_THAT(std::get<Race>(findings.at(0).evidence).place.element->index, ElementsAre(2));
  EXPECT_FALSE(std::get<Race>(placed({race}, {.contract = &sums()}).at(0).evidence).place.element);
}

// ---- attributed ----

Finding wrong(Kind kind = Kind::WrongResult) {
  Numeric e{.output = "out", .judged = 25, .outside = 10};
  e.worst = Worst{.index = {3}, .stored = 1, .exact = 2, .terms = 4, .text = {.stored = "1", .exact = "2"}};
  return {.kind = kind, .evidence = e};
}

TEST(Attributed, EveryCauseGivesItsKind) {
  const std::pair<Cause, Kind> kCauses[] = {
      {Cause::Overlap, Kind::ConcurrentLaunch},    {Cause::SharedByCalls, Kind::ConcurrentLaunch},
      {Cause::Clock, Kind::Nondeterministic},      {Cause::Addresses, Kind::Nondeterministic},
      {Cause::Chance, Kind::Nondeterministic},     {Cause::Varies, Kind::Nondeterministic},
      {Cause::SeenOnce, Kind::Nondeterministic},   {Cause::EarlierCalls, Kind::StaleState},
      {Cause::RelatedCall, Kind::StaleState},      {Cause::FirstCall, Kind::StaleState},
      {Cause::LaterConsequence, Kind::StaleState}, {Cause::EndsOnlyFirst, Kind::StaleState},
      {Cause::HostMemory, Kind::Uninitialized},    {Cause::DeviceMemory, Kind::Uninitialized},
      {Cause::UnorderedWork, Kind::StreamOrder},   {Cause::HeldStream, Kind::StreamOrder},
  };
  ASSERT_EQ(std::size(kCauses), static_cast<std::size_t>(Cause::HeldStream));  // all but None
  for (const auto& [cause, kind] : kCauses) {
    EXPECT_EQ(kind_of(cause), kind);
    const auto findings = attributed({wrong()}, {.cause = FoundCause{cause, "out[3] is first 1, then 2"}});
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].kind, kind);
    EXPECT_EQ(findings[0].attribution.cause, cause);
    EXPECT_EQ(findings[0].attribution.symptom, Kind::WrongResult);
    // What the runs have shown, what differed between them, and what was seen.
    EXPECT_THAT(message(findings[0]), Not(StartsWith("out:"))) << to_string(kind);
    EXPECT_THAT(message(findings[0]), HasSubstr(" (out[3] is first 1, then 2): out: 10 of 25 elements"));
  }
}

TEST(Attributed, WhatElseWasSeenIsAConsequence) {
  const Finding access = out_of_bounds(in("x", 48, 48));
  const auto findings = attributed({access, wrong()}, {.cause = FoundCause{Cause::EarlierCalls}});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].attribution.symptom, Kind::OutOfBounds);
  EXPECT_EQ(findings[0].where.line, 7);
  ASSERT_EQ(findings[0].attribution.consequences.size(), 1u);
  EXPECT_EQ(findings[0].attribution.consequences[0].kind, Kind::WrongResult);
  EXPECT_EQ(
      message(findings[0]),
      "correct in a new process, wrong after earlier calls: out-of-bounds: writes 4 bytes just past the end "
      "of `x` (48 bytes)");
}

TEST(Attributed, TheFirstSymptomStays) {
  Finding finding = wrong(Kind::LowPrecisionAccumulation);
  finding.attribution.symptom = Kind::PrecisionLoss;
  const auto findings = attributed({finding}, {.cause = FoundCause{Cause::Clock}});
  EXPECT_EQ(findings.at(0).attribution.symptom, Kind::PrecisionLoss);
}

TEST(Attributed, WithoutACauseNothingChanges) {
  for (const Known& known : {Known{}, Known{.cause = FoundCause{Cause::None}}}) {
    const auto findings = attributed({out_of_bounds({}), wrong()}, known);
    ASSERT_EQ(findings.size(), 2u);
    EXPECT_EQ(findings[0].kind, Kind::OutOfBounds);
    EXPECT_EQ(findings[0].attribution.symptom, std::nullopt);
  }
  EXPECT_THAT(attributed({}, {.cause = FoundCause{Cause::Clock}}), IsEmpty());
}

// ---- screened (same_cause_test.cpp has the rules) ----

TEST(Screened, OneCauseWithItsConsequencesWhereAskedFor) {
  const std::vector<Finding> seen = {wrong(), out_of_bounds(in("x", 48, 48))};
  EXPECT_EQ(screened(seen, {}).size(), 2u);
  for (const bool apart : {false, true}) {
    const auto findings = screened(seen, {.apart = apart});
    ASSERT_EQ(findings.size(), 1u);
    EXPECT_EQ(findings[0].kind, Kind::OutOfBounds);
    EXPECT_EQ(findings[0].attribution.consequences.at(0).kind, Kind::WrongResult);
  }
}

TEST(Screened, LinesOfOneKindAreKeptApartOnlyIfAskedFor) {
  Finding other = out_of_bounds({});
  other.where.line = 9;
  EXPECT_EQ(screened({out_of_bounds({}), other}, {.apart = false}).size(), 1u);
  EXPECT_EQ(screened({out_of_bounds({}), other}, {.apart = true}).size(), 2u);
}

TEST(BetweenOperations, AreRacesOfKernelsCopiesAndFills) {
  EXPECT_TRUE(is_between_operations(
      {.kind = Kind::DataRace, .evidence = Race{.relation = evidence::Relation::Operations}}));
  EXPECT_FALSE(is_between_operations(
      {.kind = Kind::DataRace, .evidence = Race{.relation = evidence::Relation::Blocks}}));
  EXPECT_FALSE(is_between_operations(
      {.kind = Kind::StreamOrder, .evidence = Race{.relation = evidence::Relation::Operations}}));
}

// ---- explained ----

// Half of the value is lost, and all of that enters at k.cu:7.
Finding half_lost(Kind kind = Kind::PrecisionLoss) {
  return wrong(kind);  // 1 instead of 2
}
Profile one_line() {
  Profile profile;
  profile.lines = {{.where = {"k.cu", 7}, .operation = "add.rn.bf16", .share = 1, .introduced_max = 0x1p-9}};
  profile.outputs = {{.name = "out", .relative = 0.5, .lines = {{{"k.cu", 7}, 1.0}}}};
  return profile;
}

Finding explained_by(const Profile& profile, Finding finding, const contract::Contract& contract = sums()) {
  return explained({std::move(finding)},
                   {.contract = &contract, .profile = std::make_shared<Profile>(profile)})
      .at(0);
}
std::optional<ErrorLine> line_of(const Finding& finding) {
  return std::get<Numeric>(finding.evidence).error_line;
}

TEST(Explained, TheLineAtWhichTheErrorEntersIsNamed) {
  const Finding finding = explained_by(one_line(), half_lost());
  ASSERT_TRUE(line_of(finding));
  EXPECT_EQ(line_of(finding)->where, (Where{"k.cu", 7}));
  EXPECT_EQ(line_of(finding)->share, 1);
  EXPECT_EQ(finding.where, (Where{"k.cu", 7}));
  EXPECT_EQ(finding.kind, Kind::PrecisionLoss);
  EXPECT_THAT(message(finding),
              HasSubstr("\n100 % of the error of `out` enters at k.cu:7 (add.rn.bf16): every "
                        "addition rounds the sum to bf16"));
  EXPECT_TRUE(std::get<Numeric>(finding.evidence).profile);
}

TEST(Explained, ErrorsThatAreTooSmallExplainNothing) {
  Profile profile = one_line();
  profile.outputs[0].relative = 0.02 * 0.5 * 1.01;
  EXPECT_TRUE(line_of(explained_by(profile, half_lost())));
  profile.outputs[0].relative = 0.02 * 0.5 * 0.99;
  const Finding finding = explained_by(profile, half_lost());
  EXPECT_FALSE(line_of(finding));
  EXPECT_EQ(finding.where.line, 0);
}

TEST(Explained, AnInfinityOfItsOwnExplainsAnother) {
  Finding finding = half_lost(Kind::Nonfinite);
  std::get<Numeric>(finding.evidence).worst->stored = std::numeric_limits<double>::infinity();
  Profile profile = one_line();
  EXPECT_FALSE(line_of(explained_by(profile, finding)));
  profile.outputs[0].broken = 1;
  EXPECT_TRUE(line_of(explained_by(profile, finding)));
}

TEST(Explained, ALineMustStandOut) {
  Profile profile = one_line();
  profile.outputs[0].lines[0].share = 0.31;
  profile.outputs[0].others = 0.3;
  EXPECT_TRUE(line_of(explained_by(profile, half_lost())));
  profile.outputs[0].others = 0.32;
  EXPECT_FALSE(line_of(explained_by(profile, half_lost())));
  profile.outputs[0].others = 0;
  profile.outputs[0].lines[0].share = 0.29;
  EXPECT_FALSE(line_of(explained_by(profile, half_lost())));
}

// Another output is rounded at that line to its own type: the contract allows it.
TEST(Explained, DeclaredRoundingsAreNotNamed) {
  Profile profile = one_line();
  profile.lines.push_back({.where = {"k.cu", 9}, .operation = "cvt.rn.bf16.f32", .introduced_max = 0x1p-9});
  profile.outputs[0].lines = {{{"k.cu", 9}, 0.6}, {{"k.cu", 7}, 0.4}};
  EXPECT_EQ(line_of(explained_by(profile, half_lost()))->where.line, 9);
  profile.outputs.push_back({.name = "mean", .rounded_at = {"k.cu", 9}});
  const auto line = line_of(explained_by(profile, half_lost()));
  EXPECT_EQ(line->where.line, 7);
  EXPECT_NEAR(line->share, 1, 1e-12);  // of what is not declared
}

// Ordinary roundings of f32 at two lines, which a subtraction at a third makes 10,000 times larger.
Profile cancelling_at_9() {
  Profile profile;
  profile.lines = {
      {.where = {"k.cu", 7}, .operation = "fma.rn.f32", .share = 0.6, .introduced_max = 0x1p-24},
      {.where = {"k.cu", 8}, .operation = "add.rn.f32", .share = 0.4, .introduced_max = 0x1p-24},
      {.where = {"k.cu", 9}, .operation = "sub.rn.f32", .amplification = 1e4, .cancelled_bits = 13}};
  profile.outputs = {
      {.name = "out", .relative = 0x1p-24 * 1e4, .lines = {{{"k.cu", 7}, 0.6}, {{"k.cu", 8}, 0.4}}}};
  return profile;
}
Finding slightly_off() {
  Finding finding = wrong(Kind::PrecisionLoss);
  std::get<Numeric>(finding.evidence).worst->stored = 2 * (1 + 0x1p-24 * 1e4);
  return finding;
}

TEST(Explained, OfACancellationTheFindingIsAboutTheLineThatCancels) {
  const Finding finding = explained_by(cancelling_at_9(), slightly_off());
  ASSERT_TRUE(line_of(finding));
  EXPECT_EQ(line_of(finding)->where.line, 7);
  EXPECT_EQ(line_of(finding)->cancels_at, (Where{"k.cu", 9}));
  EXPECT_EQ(finding.where, (Where{"k.cu", 9}));
  EXPECT_THAT(
      message(finding),
      HasSubstr("At k.cu:9 up to 13 leading bits cancel, which makes such errors 1e+04 times larger"));
}

// Nothing is left of the result, which happens to be tiny: errors are any number of times as large as it is.
TEST(Explained, ACancellationThatLosesAllIsLargeEnough) {
  const auto cancels = [](double amplification, double share) {
    Profile profile = cancelling_at_9();
    profile.lines[2].amplification = amplification;
    profile.outputs[0].relative = 1e4;
    profile.outputs[0].lines = {{{"k.cu", 7}, share}, {{"k.cu", 8}, 1 - share}};
    return line_of(explained_by(profile, slightly_off()))->cancels_at.has_value();
  };
  EXPECT_FALSE(cancels(0.099 * 0x1p24, 0.6));
  EXPECT_TRUE(cancels(0.101 * 0x1p24, 0.6));
  EXPECT_TRUE(cancels(0.101 * 0x1p24, 0.89));
  EXPECT_FALSE(cancels(0.101 * 0x1p24, 0.91));  // one line has lost it all before
}

TEST(Explained, ACancellationMustBeLargeAndTheRoundingsOrdinary) {
  const auto cancels = [](const auto& change) {
    Profile profile = cancelling_at_9();
    change(profile);
    return line_of(explained_by(profile, slightly_off()))->cancels_at.has_value();
  };
  EXPECT_TRUE(cancels([](Profile&) {}));
  EXPECT_FALSE(cancels([](Profile& p) { p.lines[2].cancelled_bits = 3.9; }));
  EXPECT_FALSE(cancels([](Profile& p) { p.lines[2].amplification = 0.09 * 1e4; }));  // not most of the growth
  EXPECT_TRUE(cancels([](Profile& p) { p.lines[2].amplification = 0.11 * 1e4; }));
  EXPECT_FALSE(cancels([](Profile& p) { p.lines[0].introduced_max = 0x1p-19; }));  // that of a narrow type
  EXPECT_FALSE(cancels([](Profile& p) { p.lines[0].overflowed = 1; }));
  EXPECT_FALSE(cancels([](Profile& p) { p.outputs[0].lines = {{{"k.cu", 7}, 0.81}, {{"k.cu", 8}, 0.19}}; }));
}

// tanhf gives exactly 1, and so does its shadow: 1 - tanhf(x) shows no rounding error, and is zero.
Finding vanished(Kind kind = Kind::PrecisionLoss) {
  Finding finding = wrong(kind);
  auto& worst = *std::get<Numeric>(finding.evidence).worst;
  worst.stored = 0;
  worst.exact = 1e-8;
  return finding;
}
Profile suspicious_at_9() {
  Profile profile;
  profile.lines = {{.where = {"k.cu", 9}, .amplification = 1e3, .cancelled_bits = 24, .cancelled_from = 1}};
  profile.outputs = {{.name = "out"}};
  return profile;
}

TEST(Explained, WhereRoundingsDoNotExplainItACancellationIsASuspicion) {
  for (const Kind kind : {Kind::PrecisionLoss, Kind::WrongResult}) {
    const Finding finding = explained_by(suspicious_at_9(), vanished(kind));
    ASSERT_TRUE(line_of(finding)) << to_string(kind);
    EXPECT_EQ(line_of(finding)->share, 0);
    EXPECT_EQ(finding.where, (Where{"k.cu", 9}));
    EXPECT_THAT(message(finding), HasSubstr("do not explain it; leading bits cancel at k.cu:9"));
  }
}

TEST(Explained, SuspicionNeedsALossThatACancellationCanHide) {
  EXPECT_FALSE(line_of(explained_by(suspicious_at_9(), vanished(Kind::BiasedRounding))));
  Finding larger = vanished();
  std::get<Numeric>(larger.evidence).worst->exact = 2e-6;  // more than 2^-20 of the operands
  EXPECT_FALSE(line_of(explained_by(suspicious_at_9(), larger)));
  Finding something = vanished(Kind::WrongResult);
  std::get<Numeric>(something.evidence).worst->stored = 1e-9;
  EXPECT_FALSE(line_of(explained_by(suspicious_at_9(), something)));
  Profile few_bits = suspicious_at_9();
  few_bits.lines[0].cancelled_bits = 3;
  EXPECT_FALSE(line_of(explained_by(few_bits, vanished())));
  Profile not_larger = suspicious_at_9();
  not_larger.lines[0].amplification = 9;
  EXPECT_FALSE(line_of(explained_by(not_larger, vanished())));
}

// Errors as those of a sum in f16, a quarter of the value; what roundings bring is far too small for that.
Finding narrow_sum() {
  Numeric e{.output = "out", .judged = 25, .outside = 10};
  e.worst = Worst{.index = {3}, .stored = 1360, .exact = 1850, .text = {.stored = "1360", .exact = "1850"}};
  e.diagnosis = Diagnosis{.defect = "f16-accumulator", .description = "the running sum is kept in f16"};
  return {.kind = Kind::LowPrecisionAccumulation, .evidence = e};
}
Profile small_roundings(double introduced_max) {
  Profile profile;
  profile.lines = {{.where = {"k.cu", 7}, .share = 1, .introduced_max = introduced_max}};
  profile.outputs = {{.name = "out", .relative = 1e-5, .lines = {{{"k.cu", 7}, 1.0}}}};
  return profile;
}

TEST(Explained, NoSumIsNarrowWhereNothingNarrowWasSeen) {
  const Finding finding = explained_by(small_roundings(0x1p-24), narrow_sum());
  EXPECT_EQ(finding.kind, Kind::WrongResult);
  EXPECT_FALSE(std::get<Numeric>(finding.evidence).diagnosis);
  EXPECT_EQ(
      message(finding),
      "out: 10 of 25 elements checked are beyond what rounding can explain: out[3] is 1360, should be 1850");
}

TEST(Explained, ANarrowSumStaysOneWhereSomethingNarrowWasSeen) {
  const Finding finding = explained_by(small_roundings(0x1p-11), narrow_sum());
  EXPECT_EQ(finding.kind, Kind::LowPrecisionAccumulation);
  EXPECT_THAT(message(finding), HasSubstr("as if the running sum is kept in f16"));
  Profile overflowing = small_roundings(0x1p-24);
  overflowing.lines[0].overflowed = 1;
  EXPECT_EQ(explained_by(overflowing, narrow_sum()).kind, Kind::LowPrecisionAccumulation);
}

TEST(Explained, TheRoundingOfAResultToItsOwnTypeIsNotASumInIt) {
  Profile stored = small_roundings(0x1p-24);
  stored.lines.push_back({.where = {"k.cu", 9}, .introduced_max = 0x1p-9, .rounds_result = true});
  EXPECT_EQ(explained_by(stored, narrow_sum()).kind, Kind::WrongResult);
  stored.lines.back().rounds_result = false;
  EXPECT_EQ(explained_by(stored, narrow_sum()).kind, Kind::LowPrecisionAccumulation);
}

// What the program gives without any rounding is as far from the formula as its result is.
TEST(Explained, AnotherFormulaIsNotALossOfPrecision) {
  Finding finding = narrow_sum();
  finding.kind = Kind::PrecisionLoss;
  EXPECT_EQ(explained_by(small_roundings(0x1p-24), finding).kind, Kind::WrongResult);
  EXPECT_EQ(explained_by(small_roundings(0x1p-11), finding).kind, Kind::PrecisionLoss);
  Profile lost_track = small_roundings(0x1p-24);
  lost_track.retaken = {{.where = {"k.cu", 8}, .operation = "shfl", .count = 1}};
  EXPECT_EQ(explained_by(lost_track, finding).kind, Kind::PrecisionLoss);
  Profile large = small_roundings(0x1p-24);
  large.outputs[0].relative = 0.3;
  EXPECT_EQ(explained_by(large, finding).kind, Kind::PrecisionLoss);
}

// Beside a result that cancels to almost nothing any rounding is large. None of them is near what is wrong here.
TEST(Explained, ASumIsNotNarrowBecauseOneElementCancels) {
  Profile cancels = small_roundings(0x1p-24);
  cancels.outputs[0].relative = 0.3;
  cancels.outputs[0].error = 0.5;  // 490 are missing
  EXPECT_EQ(explained_by(cancels, narrow_sum()).kind, Kind::WrongResult);
  cancels.outputs[0].error = 100;
  EXPECT_EQ(explained_by(cancels, narrow_sum()).kind, Kind::LowPrecisionAccumulation);
}

TEST(Explained, BesideF64AnF32SumIsNarrow) {
  contract::Contract contract = sums();
  contract.reference.accumulate = contract::DType::f64;
  EXPECT_EQ(explained_by(small_roundings(0x1p-24), narrow_sum(), contract).kind,
            Kind::LowPrecisionAccumulation);
}

TEST(Explained, OnlyNumericFindingsAre) {
  Finding stale = half_lost(Kind::StaleState);
  EXPECT_FALSE(line_of(explained_by(one_line(), stale)));
  const Finding access = explained_by(one_line(), out_of_bounds({}));
  EXPECT_EQ(access.where.line, 7);
  EXPECT_FALSE(line_of(explained({half_lost()}, {.contract = &sums()}).at(0)));  // no profile
}

// ---- named ----

Finding note(Kind kind, const Where& where) {
  return {.kind = kind, .severity = Severity::Note, .where = where, .evidence = Code{.kernel = "k"}};
}
Finding at_line(Finding finding, int line) {
  finding.where = {"src/k.cu", line};
  std::get<Numeric>(finding.evidence).error_line = ErrorLine{.where = finding.where, .share = 1};
  return finding;
}
Finding named_by(const Finding& hint, const Finding& finding) {
  return named({finding}, {.notes = {&hint, 1}}).at(0);
}

TEST(Named, ByANarrowSumInTheLineOfTheError) {
  for (const Kind kind : {Kind::NarrowSum, Kind::NarrowAtomic, Kind::NarrowMma}) {
    for (const Kind seen : {Kind::PrecisionLoss, Kind::WrongResult}) {
      const Finding finding = named_by(note(kind, {"k.cu", 7}), at_line(half_lost(seen), 7));
      EXPECT_EQ(finding.kind, Kind::LowPrecisionAccumulation) << to_string(kind);
      EXPECT_EQ(finding.attribution.symptom, seen);
      EXPECT_EQ(finding.where, (Where{"src/k.cu", 7}));
    }
  }
}

TEST(Named, NotByAnythingElse) {
  const auto kind_by = [](const Finding& hint, const Finding& seen) { return named_by(hint, seen).kind; };
  const Finding finding = at_line(half_lost(), 7);
  EXPECT_EQ(kind_by(note(Kind::NarrowSum, {"k.cu", 8}), finding), Kind::PrecisionLoss);
  EXPECT_EQ(kind_by(note(Kind::NarrowSum, {"other.cu", 7}), finding), Kind::PrecisionLoss);
  EXPECT_EQ(kind_by(note(Kind::TruncatingConversion, {"k.cu", 7}), finding), Kind::PrecisionLoss);
  EXPECT_EQ(kind_by(note(Kind::NarrowSum, {"k.cu", 7}), at_line(half_lost(Kind::BiasedRounding), 7)),
            Kind::BiasedRounding);
  EXPECT_EQ(named({finding}, {}).at(0).kind, Kind::PrecisionLoss);
}

TEST(Named, WithoutALineASumOfTwoTermsWillDo) {
  const Finding sum = note(Kind::NarrowSum, {"k.cu", 8});
  const auto of_terms = [&](double terms, Kind kind = Kind::PrecisionLoss) {
    Finding finding = half_lost(kind);
    std::get<Numeric>(finding.evidence).worst->terms = terms;
    return named_by(sum, finding);
  };
  EXPECT_EQ(of_terms(2).kind, Kind::LowPrecisionAccumulation);
  EXPECT_EQ(of_terms(2).where, (Where{"k.cu", 8}));
  EXPECT_EQ(of_terms(1).kind, Kind::PrecisionLoss);
  EXPECT_EQ(of_terms(2, Kind::WrongResult).kind, Kind::WrongResult);
}

// ---- The list ----

TEST(Steps, AreInOrder) {
  std::vector<std::string_view> names;
  for (const Step& step : steps()) names.push_back(step.name);
  EXPECT_THAT(names, ElementsAre("placed", "attributed", "screened", "explained", "named"));
}

TEST(Steps, WithNothingToGoByChangeNothing) {
  const auto findings = diagnose({wrong(), out_of_bounds(in("x", 48, 48))}, {});
  ASSERT_EQ(findings.size(), 2u);
  EXPECT_EQ(shown(findings[0]), shown(wrong()));
  EXPECT_EQ(shown(findings[1]), shown(out_of_bounds(in("x", 48, 48))));
}

// A counter that is never reset: from the second call on the kernel writes past its tensor, and the sums are
// wrong.
TEST(Steps, ACauseWithItsSymptomItsPlaceAndItsConsequence) {
  const auto findings = diagnose(
      {out_of_bounds(in("x", 48, 48)), wrong()},
      {.contract = &sums(), .shape = &kThreeRows, .cause = FoundCause{Cause::EarlierCalls}, .apart = false});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, Kind::StaleState);
  EXPECT_EQ(findings[0].where.line, 7);
  EXPECT_EQ(
      message(findings[0]),
      "correct in a new process, wrong after earlier calls: out-of-bounds: writes 4 bytes just past the end "
      "of `x` (shape [3, 4])");
  ASSERT_EQ(findings[0].attribution.consequences.size(), 1u);
  EXPECT_EQ(findings[0].attribution.consequences[0].kind, Kind::WrongResult);
}

// The code has two narrow sums; the error enters at the second, so that is the one that is named.
TEST(Steps, AnInaccuracyGetsItsLineAndThenItsName) {
  const std::vector<Finding> notes = {note(Kind::NarrowSum, {"k.cu", 5}), note(Kind::NarrowSum, {"k.cu", 7})};
  const auto findings = diagnose(
      {half_lost()}, {.contract = &sums(), .profile = std::make_shared<Profile>(one_line()), .notes = notes});
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, Kind::LowPrecisionAccumulation);
  EXPECT_EQ(findings[0].attribution.symptom, Kind::PrecisionLoss);
  EXPECT_EQ(findings[0].where, (Where{"k.cu", 7}));
}

}  // namespace
}  // namespace assay::judge
