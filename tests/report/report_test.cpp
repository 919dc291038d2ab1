#include "report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "finding/message.h"

namespace assay::report {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

int times(std::string_view text, std::string_view part) {
  int count = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

Report failing() {
  Report report;
  report.contract = "softmax.toml";
  report.title = "Softmax <bf16>";
  report.verdict = judge::Verdict::Fail;
  evidence::Race race{.access = evidence::AccessKind::Read, .relation = evidence::Relation::Block};
  race.place.array = evidence::SharedArray{.name = "partial", .bytes = 128};
  race.other = {.where = {"softmax.cu", 12}, .access = evidence::AccessKind::Write};
  report.findings = {{.kind = Kind::DataRace,
                      .where = {"softmax.cu", 14},
                      .evidence = race,
                      .found = {.smallest = "N=1 M=33, seed 5"},
                      .reproduce = "assay replay report.json"}};
  report.coverage = {
      {"trials", 7}, {"shapes", 3}, {"elements_judged", 1234}, {"not_covered", {"M beyond 4096"}}};
  report.seconds = 1.25;
  report.seed = 9;
  return report;
}

TEST(Json, IsAsTheManualSays) {
  const Json json = to_json(failing());
  EXPECT_EQ(json["assay"], "1");
  EXPECT_EQ(json["verdict"], "fail");
  ASSERT_EQ(json["findings"].size(), 1u);
  const Json& finding = json["findings"][0];
  EXPECT_EQ(finding["kind"], "data-race");
  EXPECT_EQ(finding["severity"], "error");
  EXPECT_EQ(finding["where"]["file"], "softmax.cu");
  EXPECT_EQ(finding["where"]["line"], 14);
  EXPECT_TRUE(finding["evidence"].is_object());
  EXPECT_EQ(finding["message"], message(failing().findings[0]));
  EXPECT_EQ(finding["evidence"]["smallest"], "N=1 M=33, seed 5");
  EXPECT_EQ(finding["reproduce"], "assay replay report.json");
  EXPECT_TRUE(json["coverage"].is_object());
}

TEST(Terminal, SaysWhatWhereAndHowMuch) {
  const std::string text = terminal(failing(), {});
  for (const char* part : {"FAIL", "softmax.toml", "data-race", "softmax.cu:14", "N=1 M=33", "assay replay",
                           "7 trials", "M beyond 4096"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_THAT(text, Not(HasSubstr("\033[")));
  EXPECT_THAT(terminal(failing(), {.colour = true}), HasSubstr("\033["));
}

TEST(Terminal, SaysWhatToDoAboutAnError) {
  Report report = failing();
  EXPECT_THAT(terminal(report, {.width = 200}),
              HasSubstr(std::string("fix: ") + std::string(info(Kind::DataRace).fix)));
  auto& race = std::get<evidence::Race>(report.findings[0].evidence);
  race.fix = {.remedy = evidence::Remedy::Barrier, .low = 12, .high = 14, .between = true};
  const std::string text = terminal(report, {.width = 200});  // the message says it already
  EXPECT_THAT(text, HasSubstr("a `__syncthreads()` between lines 12 and 14 would order them"));
  EXPECT_THAT(text, Not(HasSubstr("fix: ")));
  report.findings[0].severity = Severity::Warning;
  race.fix = {};
  EXPECT_THAT(terminal(report, {}), Not(HasSubstr("fix: ")));
}

TEST(Terminal, ListsThreeConsequencesAndCountsTheRest) {
  Report report = failing();
  const Finding consequence{.kind = Kind::Crash,
                            .evidence = evidence::Process{.detail = "it died of signal 11"}};
  report.findings[0].attribution.consequences.assign(5, consequence);
  report.findings[0].found.trials = 7;
  const std::string text = terminal(report, {});
  EXPECT_EQ(times(text, "consequence: crash: it died of signal 11\n"), 3);
  EXPECT_THAT(text, HasSubstr("  2 more consequences\n"));
  EXPECT_THAT(text, HasSubstr("  seen in 7 trials\n"));
}

TEST(Terminal, SaysWhyABudgetIsWider) {
  Report report = failing();
  EXPECT_THAT(terminal(report, {}), Not(HasSubstr("tensor-core")));
  report.coverage["wider_budgets"] = {"kernel gemm uses mma (f32 += bf16 × bf16)"};
  EXPECT_THAT(terminal(report, {}),
              HasSubstr("budgets allow for tensor-core rounding: kernel gemm uses mma (f32 +="));
}

TEST(Terminal, SaysHowMuchWasTriedAndPromised) {
  Report report;
  report.contract = "softmax.toml";
  report.verdict = judge::Verdict::Inconclusive;
  report.unknown = {"4 of the 38 trials that a pass requires: two calls at once. Try --budget 60"};
  report.coverage = Json::parse(R"({
    "trials": 61, "planned": 234, "planned_run": 61, "shapes": 40,
    "required": {"met": 34, "of": 38, "missing": ["two calls at once"],
                 "groups": {"conditions": {"met": 14, "of": 14}, "inputs": {"met": 20, "of": 24}}},
    "dims": {"rows": {"tried_min": 1, "tried_max": 131072}, "cols": {"tried_min": 8, "tried_max": 8}},
    "largest": {"elements": 655360, "promised_elements": 8589934592}})");
  const std::string text = terminal(report, {.width = 200});
  for (const char* part :
       {"61 of 234 planned trials, 40 shapes", "required for a pass: 14 conditions, 20 of 24 inputs\n",
        "rows 1 to 131072, cols 8; together up to 655,360 of 8.6 G promised elements\n", "Try --budget 60"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  report.coverage["planned_run"] = 234;
  report.coverage["trials"] = 300;
  EXPECT_THAT(terminal(report, {.width = 200}), HasSubstr("300 trials (all 234 planned)"));
}

// Where nothing could be tried, the reason is all that there is to say.
TEST(Terminal, SaysOnlyWhyWhereNothingWasTried) {
  Report report;
  report.contract = "softmax.toml";
  report.device = "cuda";
  report.verdict = judge::Verdict::Inconclusive;
  report.unknown = {"no GPU. Fix: use --device virtual."};
  report.coverage = Json::parse(R"({"trials": 1, "planned": 234, "planned_run": 1, "shapes": 0, "elements": 0,
    "required": {"met": 0, "of": 38, "missing": [], "groups": {"inputs": {"met": 0, "of": 24}}}})");
  EXPECT_EQ(terminal(report, {}),
            "INCONCLUSIVE  softmax.toml\n  could not be checked: no GPU. Fix: use --device virtual.\n");
  report.no_proof = "there is no PTX";
  EXPECT_THAT(terminal(report, {}), HasSubstr("virtual.\n\n  no proofs: there is no PTX\n"));
  report.no_proof.clear();
  report.coverage["shapes"] = 1;
  EXPECT_THAT(terminal(report, {}), HasSubstr("required for a pass: 0 of 24 inputs"));
}

TEST(Terminal, ShowsTheSourceLine) {
  const std::string path = ::testing::TempDir() + "assay_report_test.cu";
  std::ofstream(path) << "one\ntwo\nthree\nfour\n";
  EXPECT_EQ(excerpt({path, 2}), "        1 | one\n  >     2 | two\n        3 | three\n");
  EXPECT_EQ(excerpt({path + ".missing", 2}), "");
  std::remove(path.c_str());
}

// A race between two helpers: both lines with their code, both chains, who did it.
Finding inlined_race(const std::string& path) {
  using evidence::Index3;
  evidence::Race race{.access = evidence::AccessKind::Read};
  race.code = {.kernel = "_Z4turnPi",
               .block = Index3{0, 0, 0},
               .thread = Index3{5, 0, 0},
               .chain = {{{path, 4}, "get"}, {{path, 9}, "turn"}}};
  race.other.where = {path, 2};
  race.other.code.chain = {{{"/usr/local/cuda/include/put.hpp", 7}, "put"}, {{path, 2}, "turn"}};
  return {.kind = Kind::DataRace, .where = {path, 4}, .evidence = race};
}

TEST(Terminal, ShowsBothSidesOfARaceAndTheirChains) {
  const std::string path = ::testing::TempDir() + "assay_report_race.cu";
  std::ofstream(path) << "one\ntwo\nthree\nfour\nfive\n";
  Report report = failing();
  report.findings = {inlined_race(path)};
  const std::string text = terminal(report, {.width = 1000});
  EXPECT_THAT(
      text,
      HasSubstr("        1 | one\n  >     2 | two\n        3 | three\n  >     4 | four\n        5 | five\n"));
  EXPECT_THAT(text, HasSubstr(path + ":4 in get, inlined at " + path + ":9 in turn\n"));
  EXPECT_THAT(text,
              Not(HasSubstr("put.hpp")));  // nothing but a call of the toolkit's on the line that is shown
  EXPECT_THAT(text, HasSubstr("kernel turn, block (0,0,0), thread (5,0,0)\n"));
  std::remove(path.c_str());
}

TEST(Terminal, ShowsPlacesThatLieApartOneByOne) {
  const std::string path = ::testing::TempDir() + "assay_report_apart.cu";
  std::ofstream file(path);
  for (int i = 1; i <= 40; ++i) file << "line " << i << "\n";
  file.close();
  evidence::Race race;
  race.other.where = {path, 10};
  const std::string text = source_text({.kind = Kind::DataRace, .where = {path, 30}, .evidence = race});
  EXPECT_THAT(
      text,
      HasSubstr(
          "  >    10 | line 10\n       11 | line 11\n      ...\n       29 | line 29\n  >    30 | line 30\n"));
  std::remove(path.c_str());
}

TEST(Sarif, RelatesTheOtherAccessAndTheChain) {
  Report report = failing();
  report.findings = {inlined_race("k.cu")};
  const std::vector<Report> reports = {report};
  const Json result = sarif(reports)["runs"][0]["results"][0];
  std::vector<std::string> related;
  for (const Json& place : result["relatedLocations"])
    related.push_back(place["message"]["text"].get<std::string>() + " " +
                      place["physicalLocation"]["region"]["startLine"].dump());
  EXPECT_THAT(related, testing::ElementsAre("inlined code, in get 4", "inlined here, in turn 9",
                                            "the other access 2", "the other access: inlined code, in put 7",
                                            "the other access: inlined here, in turn 2"));
}

TEST(Table, CountsVerdicts) {
  Report passing;
  passing.contract = "a.toml";
  passing.verdict = judge::Verdict::Pass;
  const std::vector<Report> reports = {failing(), passing};
  EXPECT_THAT(table(reports, {}), HasSubstr("1 passed, 1 failed, 0 inconclusive"));
}

TEST(Junit, EscapesWhatXmlWouldMisread) {
  Report report = failing();
  report.findings = {
      {.kind = Kind::ForbiddenCall,
       .evidence = evidence::Process{.what = "open(\"a&b\")", .detail = "may not <write> there"}}};
  const std::string xml = junit(std::vector<Report>{report});
  EXPECT_THAT(xml, HasSubstr("failures=\"1\""));
  EXPECT_THAT(xml, HasSubstr("open(&quot;a&amp;b&quot;): host code may not &lt;write&gt; there"));
  EXPECT_THAT(xml, Not(HasSubstr("a&b")));
}

// The schema that most readers follow: particulars of the suite, at most one failure or error a case, and no
// failure in a case that passes.
TEST(Junit, IsAsItsSchemaAsks) {
  Report twice = failing(), warned = failing(), unsure = failing();
  twice.findings.push_back(twice.findings.front());
  warned.verdict = judge::Verdict::Pass;
  warned.findings.front().severity = Severity::Warning;
  unsure.verdict = judge::Verdict::Inconclusive;
  unsure.findings.clear();
  unsure.unknown = {"one", "two"};
  const std::vector<Report> reports = {twice, warned, unsure};
  const std::string xml = junit(reports);
  EXPECT_EQ(times(xml, "<failure "), 1);
  EXPECT_EQ(times(xml, "<error "), 1);
  for (const char* part : {"timestamp=\"2", "hostname=\"localhost\"", "tests=\"3\"", "errors=\"1\"",
                           "<properties/>\n  <testcase", "</system-out>\n  <system-err/>\n</testsuite>"})
    EXPECT_THAT(xml, HasSubstr(part));
}

TEST(Sarif, HasRuleResultAndPlace) {
  const std::vector<Report> reports = {failing()};
  const Json json = sarif(reports);
  EXPECT_EQ(json["version"], "2.1.0");
  const Json& run = json["runs"][0];
  EXPECT_EQ(run["tool"]["driver"]["rules"][0]["id"], "data-race");
  EXPECT_EQ(run["results"][0]["ruleId"], "data-race");
  EXPECT_EQ(run["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"], 14);
}

TEST(Notes, AreShownButFailNothing) {
  Report report = failing();
  report.verdict = judge::Verdict::Pass;
  report.findings = {{.kind = Kind::NarrowSum,
                      .severity = Severity::Note,
                      .where = {"softmax.cu", 14},
                      .evidence = evidence::Code{.detail = "a running sum is rounded to bf16"}}};
  const std::vector<Report> reports = {report, report};
  EXPECT_THAT(terminal(report, {}), HasSubstr("note: narrow-sum  softmax.cu:14"));
  EXPECT_THAT(junit(reports), Not(HasSubstr("<failure")));
  EXPECT_THAT(table(reports, {}), Not(HasSubstr("narrow-sum")));
  EXPECT_EQ(sarif(reports)["runs"][0]["results"][0]["level"], "note");
  EXPECT_TRUE(to_json(report)["findings"].empty());  // whose severities are error and warning
  EXPECT_EQ(to_json(report)["notes"][0]["severity"], "note");
}

}  // namespace
}  // namespace assay::report
