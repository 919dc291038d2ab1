// The cases under tests/subject/causes: kernels whose failure could be called several names. A case says what
// `assay check` must call it:
//
//   // assay: contract twice          one of the contracts beside it
//   // assay: expect fail KIND …      the errors found, no more and no fewer; or: expect no failure (a pass,
//                                     or inconclusive where the machine is too slow for one)
//   // assay: consequence KIND        what the first was seen as before its cause was known
//   // assay: line here               the first finding stands at the line with the comment "here"
//   // assay: options --keep-going    of the command
//
// What does not end must be found within ten seconds; nothing may take longer than its budget and ten more.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>

#include "cases.h"
#include "folders.h"
#include "subject/process.h"
#include "subject/subject.h"

namespace assay::subject {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const fs::path kCases = fs::path(kSourceFolder) / "tests/subject/causes";
constexpr double kBudget = 3;    // seconds
constexpr double kEndless = 10;  // … in which a call that does not end is found, compiling apart
constexpr double kGrace = 10;    // … that a check may take beyond its budget
constexpr double kHeldUp = 4;    // times the budget, where the first was too little to find all causes

// Times as long, on a machine that others use, too.
double busy() {
  double load = 0;
  if (getloadavg(&load, 1) != 1) return 2;
  return std::max(2.0, 2 * load / std::thread::hardware_concurrency());
}

struct Case {
  std::map<std::string, std::vector<std::string>> says;  // by the first word
  int here = 0;
};

Case parse(const std::string& text) {
  Case parsed;
  std::istringstream lines(text);
  std::string line;
  for (int number = 1; std::getline(lines, line); ++number) {
    if (line.ends_with("// here")) parsed.here = number;
    constexpr std::string_view kMark = "// assay: ";
    if (!line.starts_with(kMark)) continue;
    std::istringstream words(line.substr(kMark.size()));
    std::string key, word;
    words >> key;
    while (words >> word) parsed.says[key].push_back(word);
  }
  return parsed;
}

std::multiset<std::string> errors_of(const json& report) {
  std::multiset<std::string> kinds;
  for (const json& finding : report["findings"])
    if (finding["severity"] == "error") kinds.insert(finding["kind"]);
  return kinds;
}

class Causes : public ::testing::TestWithParam<std::string> {};

TEST_P(Causes, AreNamed) {
  if (find_nvcc().empty()) GTEST_SKIP() << "no nvcc";
  const fs::path source = kCases / (GetParam() + ".cu");
  Case expected = parse(file_text(source));
  std::string pattern = (fs::temp_directory_path() / "assay-causes-XXXXXX").string();
  const fs::path folder = mkdtemp(pattern.data());
  std::string contract = file_text(kCases / (expected.says.at("contract").at(0) + ".toml"));
  contract.replace(contract.find("SOURCE"), 6, source.string());
  std::ofstream(folder / "k.toml") << contract;

  const std::vector<std::string>& expect = expected.says.at("expect");
  Result<CommandResult> ran = Error{"not run"};
  json report;
  double budget = kBudget;
  const auto check = [&] {
    std::vector<std::string> command = {std::string(kBinaryFolder) + "/bin/assay",
                                        "check",
                                        folder / "k.toml",
                                        "--json",
                                        folder / "report.json",
                                        "--budget",
                                        std::to_string(budget)};
    for (const std::string& option : expected.says["options"]) command.push_back(option);
    ran = run_command(command, 60 * busy());
    report = json::parse(file_text(folder / "report.json"), nullptr, false);
  };
  check();
  // A machine that was held up for seconds has not looked for all causes.
  if (report.is_object() && expect[0] == "fail" && errors_of(report).size() + 1 < expect.size()) {
    budget *= kHeldUp;
    check();
  }
  fs::remove_all(folder);
  ASSERT_TRUE(ran);
  ASSERT_TRUE(report.is_object()) << ran->output;

  if (expect[0] == "no") {
    EXPECT_NE(report["verdict"], "fail") << ran->output;
    return;
  }
  EXPECT_EQ(report["verdict"], expect[0]) << ran->output;
  const std::multiset<std::string> kinds = errors_of(report);
  EXPECT_EQ(kinds, std::multiset<std::string>(expect.begin() + 1, expect.end())) << ran->output;
  const double seconds =
      report["seconds"].get<double>() - report["coverage"]["build"]["seconds"].get<double>();
  EXPECT_LT(seconds, busy() * (budget + kGrace));
  if (kinds.empty()) return;
  const json& first = report["findings"][0];
  if (first["kind"] == "timeout") {
    EXPECT_LT(seconds, busy() * kEndless);
  }
  if (const auto& consequence = expected.says["consequence"]; !consequence.empty()) {
    EXPECT_EQ(first["evidence"].value("symptom", ""), consequence[0]) << ran->output;
  }
  if (!expected.says["line"].empty()) {
    // At the head of the loop or in its body, which is the next line.
    EXPECT_THAT(first["where"]["line"].get<int>(), ::testing::AnyOf(expected.here, expected.here + 1))
        << ran->output;
  }
  for (const json& finding : report["findings"]) {
    if (finding["severity"] != "error") continue;
    EXPECT_THAT(finding["reproduce"].get<std::string>(), ::testing::StartsWith("assay replay "));
    EXPECT_TRUE(finding["evidence"].contains("smallest"));
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Causes, ::testing::ValuesIn(cases_in(kCases)),
                         [](const auto& named) { return named.param; });

}  // namespace
}  // namespace assay::subject
