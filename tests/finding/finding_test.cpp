// Kinds, evidence, its JSON form, and the words made from it.
#include "finding/finding.h"

#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "finding/json.h"
#include "finding/message.h"
#include "folders.h"

namespace assay {
namespace {

using namespace evidence;
using ::testing::HasSubstr;

TEST(Kinds, HaveNamesSummariesAndFixesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const KindInfo& kind : kinds()) {
    EXPECT_TRUE(names.insert(kind.name).second) << kind.name;
    EXPECT_EQ(kind_named(kind.name), kind.kind);
    EXPECT_FALSE(kind.summary.empty()) << kind.name;
    EXPECT_FALSE(kind.fix.empty()) << kind.name;
    EXPECT_EQ(kind.reporter == Reporter::Code, kind.family == Family::Code) << kind.name;
  }
  EXPECT_EQ(kind_named("no-such-kind"), std::nullopt);
  EXPECT_EQ(info(Kind::NarrowSum).likely, Kind::LowPrecisionAccumulation);
}

// docs/findings.md has one table of all kinds, generated from kinds.def by the loop below: on a difference
// the test prints what the table should be.
TEST(Kinds, AreInTheDocumentation) {
  std::ifstream file(std::string(kSourceFolder) + "/docs/findings.md");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  std::string table;
  for (const KindInfo& kind : kinds()) {
    const std::string row = "| `" + std::string(kind.name) + "` | " + std::string(to_string(kind.family)) +
                            " | " + std::string(to_string(kind.severity)) + " | " +
                            std::string(kind.summary) + " | " + std::string(kind.fix) + " |\n";
    EXPECT_NE(text.find(row), std::string::npos) << kind.name;
    EXPECT_TRUE(std::regex_search(text, std::regex("\n### .*`" + std::string(kind.name) + "`"))) << kind.name;
    table += row;
  }
  if (HasFailure()) std::printf("%s", table.c_str());
}

Finding race() {
  Race race;
  race.code = {.kernel = "k",
               .block = Index3{1, 0, 0},
               .thread = Index3{5, 0, 0},
               .instruction = "ld.shared",
               .chain = {{{"k.cu", 71}, "get", false}, {{"k.cu", 118}, "turn", false}}};
  race.access = AccessKind::Read;
  race.place.array = SharedArray{"tile", "_ZZ1kvE4tile", 512, 20, false, {}, 0};
  race.relation = Relation::Block;
  race.other = {.code = {.kernel = "k", .block = Index3{1, 0, 0}, .thread = Index3{6, 0, 0}},
                .where = {"k.cu", 9},
                .access = AccessKind::Write,
                .is_same_block = true};
  race.fix = {.remedy = Remedy::Barrier, .low = 9, .high = 14, .between = true};
  return {.kind = Kind::DataRace, .where = {"k.cu", 14}, .evidence = race, .count = 32};
}

TEST(Messages, OfRacesNameBothSidesAndWhatWouldOrderThem) {
  EXPECT_EQ(
      message(race()),
      "reads tile + 20 bytes, which thread (6,0,0) of the same block writes at k.cu:9; nothing orders the "
      "two: a `__syncthreads()` between lines 9 and 14 would order them");
  EXPECT_EQ(thread_text(race()), "kernel k, block (1,0,0), thread (5,0,0)");
  EXPECT_THAT(chain_lines(race()), testing::ElementsAre("k.cu:71 in get, inlined at k.cu:118 in turn"));
}

TEST(Messages, NameTheElementOnceItIsKnown) {
  Finding finding = race();
  std::get<Race>(finding.evidence).place.array->indices = {1, 5};
  EXPECT_THAT(message(finding), HasSubstr("reads tile[1][5], which"));
}

TEST(Messages, OfAccessesSayHowFarOutsideTheyAre) {
  Access access{.access = AccessKind::Write, .bytes = 16};
  access.place = {
      .space = Space::Global, .address = 0x7000, .allocation = Allocation{"x", 4096, 3}, .offset = 4092};
  Finding finding{.kind = Kind::OutOfBounds, .evidence = access};
  EXPECT_EQ(message(finding), "writes 16 bytes at offset 4092 of `x` (4096 bytes), 12 bytes past its end");
  std::get<Access>(finding.evidence).place.offset = 4096;
  EXPECT_EQ(message(finding), "writes 16 bytes just past the end of `x` (4096 bytes)");
  std::get<Access>(finding.evidence).place.offset = 4104;
  EXPECT_EQ(message(finding), "writes 16 bytes, 8 bytes past the end of `x` (4096 bytes)");
  std::get<Access>(finding.evidence).place.offset = -8;
  EXPECT_EQ(message(finding), "writes 16 bytes, 8 bytes before `x` (4096 bytes)");
  std::get<Access>(finding.evidence).place.element = TensorElement{"x", {32, 32}, {}};
  EXPECT_EQ(message(finding), "writes 16 bytes, 8 bytes before `x` (shape [32, 32])");
}

TEST(Messages, PutTheCauseBeforeWhatWasSeen) {
  Finding finding = race();
  finding.kind = Kind::StreamOrder;
  finding.attribution = {.cause = Cause::UnorderedWork, .symptom = Kind::DataRace};
  EXPECT_THAT(message(finding),
              testing::StartsWith("work that the caller's stream does not order: data-race: reads"));
}

Finding numeric() {
  Numeric e{.output = "dw", .judged = 100, .outside = 10};
  e.worst = Worst{.index = {3}, .stored = 1, .exact = 1.5, .text = {"1", "1.5", "0.5", "0.1", "5", false}};
  e.parts = {{"sums of 1000 to 9999 terms", 10, 1, 1, -30, -0.121, true}};
  e.diagnosis = Diagnosis{"narrow-sum", "a running sum is rounded to bf16", 0.9, 0.9, false};
  return {.kind = Kind::LowPrecisionAccumulation, .evidence = e};
}

TEST(Messages, OfNumbersSayHowManyWhyAndTheWorst) {
  EXPECT_EQ(
      message(numeric()),
      "dw: 10 of 100 elements checked are beyond what rounding can explain; sums of 1000 to 9999 terms lose "
      "12.1 % of their value, as if a running sum is rounded to bf16: dw[3] is 1, should be 1.5 (error 0.5, "
      "5 "
      "times the budget of 0.1)");
}

// ---- JSON ----

// An index that is one too large, negative, wrapped, or of memory that is gone.
TEST(Advice, OfAnAccessOutOfBoundsFollowsFromWhereItLies) {
  const auto at = [](int64_t offset, bool live = true, uint64_t bytes = 4096) {
    Access access{.access = AccessKind::Read, .bytes = 4};
    access.place.allocation = Allocation{.label = "x", .bytes = bytes, .live = live};
    access.place.offset = offset;
    return std::string(advice({.kind = Kind::OutOfBounds, .evidence = access}));
  };
  EXPECT_EQ(at(4096), info(Kind::OutOfBounds).fix);
  EXPECT_NE(at(-4).find("lower bound"), std::string::npos);
  EXPECT_NE(at(-(int64_t{1} << 33)).find("64 bits"), std::string::npos);
  EXPECT_NE(at(-65536, true, uint64_t{1} << 33).find("64 bits"), std::string::npos);
  EXPECT_NE(at(int64_t{1} << 34).find("64 bits"), std::string::npos);
  EXPECT_NE(at(16, false).find("after its last use"), std::string::npos);
}

TEST(Messages, AreTheirOwnAdviceWhereAPythonFunctionSaysWhatIsWrong) {
  EXPECT_NE(advice({.kind = Kind::Crash, .evidence = Process{.detail = "signal 11"}}), "");
  EXPECT_EQ(advice({.kind = Kind::Crash, .evidence = Process{.detail = "ValueError: x", .raised = true}}),
            "");
  EXPECT_NE(advice({.kind = Kind::WrongResult, .evidence = Numeric{.output = "y"}}), "");
  EXPECT_EQ(
      advice({.kind = Kind::WrongResult, .evidence = Numeric{.output = "y", .misfit = "returned None"}}), "");
}

TEST(Messages, OfNumbersNameTheKernelThatRanLastAndWhoLaunchedIt) {
  Numeric numeric{.output = "y", .kernel = "_Z5scalePf"};
  numeric.launched_at.stack = {{{"/site-packages/assay/problem/runtime/kernelbench.py", 70}, "run", true},
                               {{"/cache/assay_adapter.py", 13}, "run", true},
                               {{"answer.py", 40}, "forward", true}};
  const Finding finding{.kind = Kind::WrongResult, .evidence = numeric};
  EXPECT_TRUE(is_launched_by_python(finding));
  EXPECT_EQ(origin_lines(finding),
            std::vector<std::string>{"computed by kernel scale, launched at answer.py:40 in forward"});
  EXPECT_EQ(to_json(finding)["evidence"]["launched_at"]["line"], 40);
  EXPECT_TRUE(origin_lines({.kind = Kind::WrongResult, .evidence = Numeric{.output = "y"}}).empty());
}

TEST(Events, BringBackWhatTheDeviceSaw) {
  const Finding sent = race();
  const auto back = finding_from_event(Json::parse(to_event(sent).dump()));
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(to_event(*back), to_event(sent));
  EXPECT_EQ(message(*back), message(sent));
  EXPECT_EQ(back->count, 32u);
}

TEST(Events, SayWhetherMemoryWasFreed) {
  for (const bool live : {false, true}) {
    Access access{.access = AccessKind::Read, .bytes = 4};
    access.place.allocation = Allocation{.label = "x", .bytes = 64, .live = live};
    const auto back = finding_from_event(to_event({.kind = Kind::OutOfBounds, .evidence = access}));
    ASSERT_TRUE(back);
    EXPECT_EQ(std::get<Access>(back->evidence).place.allocation->live, live);
    EXPECT_EQ(message(*back).ends_with("which has been freed"), !live);
  }
}

TEST(Events, CannotNameWhatOnlyTheJudgeConcludes) {
  for (const KindInfo& kind : kinds()) {
    const auto back =
        finding_from_event(Json{{"kind", kind.name}, {"severity", "error"}, {"evidence", Json::object()}});
    EXPECT_EQ(static_cast<bool>(back), kind.reporter == Reporter::Device) << kind.name;
  }
}

TEST(Events, HoldNoFieldOfTheJudge) {
  Finding sent = race();
  auto& place = std::get<Race>(sent.evidence).place;
  place.array->indices = {9, 9};
  place.element = TensorElement{"x", {4}, {1}};
  sent.attribution.surroundings = "anything";
  const auto back = finding_from_event(to_event(sent));
  ASSERT_TRUE(back);
  const auto& read = std::get<Race>(back->evidence).place;
  EXPECT_TRUE(read.array->indices.empty());
  EXPECT_FALSE(read.element);
  EXPECT_EQ(back->attribution.surroundings, "");
}

TEST(Events, WithWrongFieldsAreRefused) {
  const std::pair<const char*, Json> kWrong[] = {
      {"kernel", 3},         {"kernel", std::string(100000, 'x')},
      {"block", Json{1, 2}}, {"block", Json{1, 2, -3}},
      {"access", "flies"},   {"chain", Json::object()},
      {"address", "0xzz"},   {"place", 1},
      {"other", "x"},        {"noncoherent", "yes"},
      {"relation", 7},       {"offset", 1.5},
  };
  for (const auto& [field, value] : kWrong) {
    Json event = to_event(race());
    event["evidence"][field] = value;
    const bool is_unknown = std::string_view(field) == "place";  // a field that nobody reads is ignored
    EXPECT_EQ(static_cast<bool>(finding_from_event(event)), is_unknown) << field << " " << value;
  }
  EXPECT_FALSE(finding_from_event(Json::array()));
  EXPECT_FALSE(finding_from_event(Json{{"kind", 3}}));
}

TEST(Reports, HoldTheMessageAndWhatReadersLookFor) {
  const Json json = to_json(race());
  EXPECT_EQ(json["kind"], "data-race");
  EXPECT_EQ(json["message"], message(race()));
  EXPECT_EQ(json["evidence"]["family"], "race");
  EXPECT_EQ(json["evidence"]["relation"], "block");
  EXPECT_EQ(json["evidence"]["other"]["line"], 9);
  EXPECT_THAT(json["evidence"]["fix"].get<std::string>(), HasSubstr("between lines 9 and 14"));
  const Json numbers = to_json(numeric());
  EXPECT_EQ(numbers["evidence"]["worst"]["element"], "[3]");
  EXPECT_EQ(numbers["evidence"]["elements_outside"], 10);
}

TEST(Profiles, ComeBackAsTheyWere) {
  Profile profile;
  profile.lines = {{.where = {"k.cu", 4}, .operation = "add.bf16", .share = 0.5, .executions = 7}};
  profile.outputs = {{.name = "y", .relative = 1e300 * 1e300, .lines = {{{"k.cu", 4}, 1.0}}}};
  const auto back = profile_from_json(to_json(profile));
  ASSERT_TRUE(back);
  EXPECT_EQ(to_json(*back), to_json(profile));
  EXPECT_EQ(back->lines[0].where, (Where{"k.cu", 4}));
  EXPECT_TRUE(std::isinf(back->outputs[0].relative));
  EXPECT_FALSE(profile_from_json(Json{{"lines", 3}}));
}

// Readers of the table expect every number in every row.
TEST(Profiles, WriteTheirZeros) {
  Profile profile;
  profile.lines = {{.where = {"k.cu", 4}, .operation = "add.f32"}};
  profile.outputs = {{.name = "y", .lines = {{{"k.cu", 4}, 0}}}};
  const Json json = to_json(profile);
  for (const char* field : {"share", "introduced", "inherited", "amplification", "executions",
                            "cancelled_bits", "stagnated", "overflowed", "flushed"})
    EXPECT_EQ(json["lines"][0].value(field, -1), 0) << field;
  EXPECT_EQ(json["outputs"][0]["lines"][0].value("share", -1), 0);
  EXPECT_EQ(json["decisions"], Json::array());
  EXPECT_EQ(json["retaken"], Json::array());
}

TEST(Places, AreAllVisited) {
  Finding finding = race();
  for_each_place(finding, [](Where& where) { where.file = "other.cu"; });
  const auto& e = std::get<Race>(finding.evidence);
  EXPECT_EQ(finding.where.file, "other.cu");
  EXPECT_EQ(e.code.chain[1].where.file, "other.cu");
  EXPECT_EQ(e.other.where.file, "other.cu");
}

Finding launched_from_python() {
  Access access{.code = {.kernel = "scale"}};
  access.code.launched_at.stack = {{{"/lib/site-packages/triton/runtime/jit.py", 700}, "run", true},
                                   {{"model.py", 31}, "forward", true},
                                   {{"/lib/site-packages/torch/nn/module.py", 9}, "_call_impl", true},
                                   {{"train.py", 40}, "<module>", true}};
  access.place.allocation = Allocation{.label = "x", .bytes = 400};
  access.place.allocation->made_at.stack = {{{"/lib/python/assay/virtual/aten.py", 5}, "kernel", true},
                                            {{"train.py", 12}, "make", true}};
  return {.kind = Kind::OutOfBounds, .evidence = std::move(access)};
}

TEST(PythonStacks, NameTheProgramsOwnFrames) {
  EXPECT_EQ(origin_lines(launched_from_python()),
            (std::vector<std::string>{"launched at model.py:31 in forward, called at train.py:40",
                                      "allocated at train.py:12 in make"}));
  EXPECT_TRUE(is_launched_by_python(launched_from_python()));
  EXPECT_FALSE(is_launched_by_python(race()));
}

// pytest runs a test through a dozen of its own frames.
TEST(PythonStacks, LeaveOutTheFramesOfPytest) {
  Access access{.code = {.kernel = "scale"}};
  access.code.launched_at.stack = {{{"test_scale.py", 7}, "test_scale", true},
                                   {{"/usr/lib/python3/dist-packages/_pytest/python.py", 195}, "call", true},
                                   {{"/usr/lib/python3/dist-packages/pluggy/_callers.py", 39}, "all", true},
                                   {{"run_tests.py", 3}, "<module>", true}};
  EXPECT_EQ(origin_lines({.kind = Kind::OutOfBounds, .evidence = std::move(access)}),
            std::vector<std::string>{"launched at test_scale.py:7 in test_scale, called at run_tests.py:3"});
}

TEST(PythonStacks, AreInEventsAndReports) {
  const auto back = finding_from_event(to_event(launched_from_python()));
  ASSERT_TRUE(back);
  EXPECT_EQ(origin_lines(*back), origin_lines(launched_from_python()));
  const Json evidence = to_json(*back)["evidence"];
  EXPECT_EQ(evidence["launched_at"]["at"], "model.py:31 in forward");
  EXPECT_EQ(evidence["launched_at"]["line"], 31);
  EXPECT_EQ(evidence["launched_at"]["stack"].size(), 4);
  EXPECT_EQ(evidence["allocation"]["file"], "train.py");
}

}  // namespace
}  // namespace assay
