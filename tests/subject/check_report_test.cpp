// What a report is good for: replays, repetition, the smallest case, several contracts.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "check.h"

namespace assay::subject {
namespace {

using ::testing::HasSubstr;

class CheckReports : public CheckTest {};

TEST_F(CheckReports, AReportCanBeReplayed) {
  ASSERT_EQ(check_kernel(kernel("if (i < n) y[i] = x[i] * 2.001f;")), 1);
  const CommandResult again = assay({"replay", path("report.json")});
  EXPECT_EQ(again.status, 1) << again.output;
  EXPECT_THAT(again.output, HasSubstr(kind()));
  // Fixed, the same trial passes.
  write("k.cu", kernel("if (i < n) y[i] = x[i] * 2.0f;"));
  EXPECT_EQ(assay({"replay", path("report.json")}).status, 0);
  // Gone, the report holds it as it was.
  fs::remove(folder_ / "k.cu");
  fs::remove(folder_ / "k.toml");
  const CommandResult alone = assay({"replay", path("report.json")});
  EXPECT_EQ(alone.status, 1) << alone.output;
  EXPECT_THAT(alone.output, HasSubstr("the report's own copy"));
  EXPECT_THAT(alone.output, HasSubstr(kind()));
}

// How errors are alike shows only in many of them; that there is one shows in a few.
TEST_F(CheckReports, AFailureIsMadeSmallAndKeepsItsKind) {
  ASSERT_EQ(assay({"check", example("wrong.toml"), "--json", path("report.json")}).status, 1);
  EXPECT_EQ(kind(), "low-precision-accumulation");
  const json trial = report()["findings"][0]["evidence"]["trial"];
  EXPECT_LE(trial["shape"]["D"], 8);
  EXPECT_LE(trial["shape"]["T"], 4);
  EXPECT_LE(trial["shape"]["V"], 2);
  const CommandResult again = assay({"replay", path("report.json")});
  EXPECT_EQ(again.status, 1) << again.output;
  EXPECT_THAT(again.output, HasSubstr("low-precision-accumulation"));
}

TEST_F(CheckReports, SeveralContractsShareOneTableAndOneReport) {
  write_kernel(kernel("if (i < n) y[i] = x[i] * 2.0f;"));
  fs::create_directories(folder_ / "all");
  for (const char* name : {"a", "b"}) {
    fs::copy(path("k.toml"), folder_ / "all" / (std::string(name) + ".toml"));
  }
  write("all/k.cu", kernel("if (i < n) y[i] = x[i] * 2.0f;"));
  write("all/wrong.cu", kernel("if (i < n) y[i] = x[i] * 3.0f;"));
  std::ifstream whole(path("k.toml"));
  std::string text((std::istreambuf_iterator<char>(whole)), {});
  text.replace(text.find("k.cu"), 4, "wrong.cu");
  write("all/wrong.toml", text);
  CommandResult result =
      assay({"check", path("all"), path("k.toml"), "--budget", "1", "--json", path("report.json"), "--junit",
             path("report.xml"), "--sarif", path("report.sarif")});
  EXPECT_EQ(result.status, 1) << result.output;
  EXPECT_THAT(result.output, HasSubstr("3 passed, 1 failed, 0 inconclusive"));
  const json all = report();
  EXPECT_EQ(all["verdict"], "fail");
  ASSERT_EQ(all["reports"].size(), 4u);
  EXPECT_EQ(all["reports"][2]["verdict"], "fail");  // in the order of their names, whichever ended first
  std::ifstream xml(path("report.xml"));
  EXPECT_THAT(std::string((std::istreambuf_iterator<char>(xml)), {}),
              HasSubstr("tests=\"4\" failures=\"1\""));
  EXPECT_EQ(json::parse(std::ifstream(path("report.sarif")))["runs"][0]["results"].size(), 1u);
  // The worst of all decides: a contract that cannot be read, here.
  result =
      assay({"check", path("missing.toml"), path("k.toml"), "--budget", "1", "--json", path("report.json")});
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(report()["reports"][1]["verdict"], "pass");
}

// Whatever time does to a check, its report tells how to make the same trials again.
TEST_F(CheckReports, AReportRepeatsItsCheckExactly) {
  for (const char* body :
       {"if (i < n) y[i] = i == 77 ? 0.0f : x[i] * 2.0f;", "if (i < n) y[i] = x[i] * 2.0f;"}) {
    check_kernel(kernel(body), "", "2");
    json first = report();
    const CommandResult again =
        assay({"check", "--repeat", path("report.json"), "--json", path("again.json")});
    EXPECT_EQ(again.status, last_.status) << again.output;
    json second = json::parse(std::ifstream(path("again.json")));
    for (json* report : {&first, &second}) {
      report->erase("seconds");
      report->erase("no_proof");  // trials are repeated; proofs are not, and not missed
      (*report)["coverage"].erase("build");
    }
    EXPECT_EQ(first, second);
  }
  EXPECT_EQ(assay({"check", "--repeat", path("k.toml")}).status, 2);
}

TEST_F(CheckReports, EqualSeedsGiveEqualReports) {
  const std::string wrong = kernel("if (i < n) y[i] = i == 77 ? 0.0f : x[i] * 2.0f;");
  ASSERT_EQ(check_kernel(wrong), 1);
  const json first = report();
  ASSERT_EQ(check_kernel(wrong), 1);
  EXPECT_EQ(first["findings"][0]["evidence"]["found_with"],
            report()["findings"][0]["evidence"]["found_with"]);
}

}  // namespace
}  // namespace assay::subject
