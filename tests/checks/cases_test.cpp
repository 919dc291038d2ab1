// The cases under tests/checks/cases: small programs, each with a defect and without. A case says what it
// expects in comments:
//
//   // wrong: data-race here      kinds found when run(true) runs; `here`: at the line so marked
//   // right:                     and when run(false) runs
//   // checks: all,same-value     what watches, where that is not `all`
//   // threads: 4                 of the engine, where that is not 1
//   // shows: reads tile[1], …    what `assay run` says of run(true): all of these, in this order
//
// All are compiled together, once for each content, and every one runs in a process of its own.
#include "cases.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "finding/json.h"
#include "folders.h"
#include "protocol/event.h"

namespace assay::checks {
namespace {

namespace fs = std::filesystem;

const fs::path kCases = fs::path(kSourceFolder) / "tests/checks/cases";
const fs::path kBuild = fs::path(kBinaryFolder) / "checks-cases";

std::string find_nvcc() {
  for (const char* path : {"/usr/local/cuda/bin/nvcc", "/usr/bin/nvcc"})
    if (fs::exists(path)) return path;
  return "";
}

// One translation unit of all cases, each in a namespace of its own.
std::string all_together() {
  std::string text = "#include \"" + (kCases / "common.h").string() + "\"\n#include <cstring>\n";
  std::string table;
  for (const std::string& name : cases_in(kCases)) {
    text += "namespace case_" + name + " {\n#include \"" + (kCases / (name + ".cu")).string() + "\"\n}\n";
    table += "  if (!strcmp(v[1], \"" + name + "\")) case_" + name + "::run(!strcmp(v[2], \"wrong\"));\n";
  }
  return text + "int main(int c, char** v) {\n  if (c != 3) return 2;\n" + table + "  return 0;\n}\n";
}

// The program with all cases, or why there is none.
struct Built {
  fs::path program;
  std::string trouble;
};

Built build() {
  const std::string nvcc = find_nvcc();
  if (nvcc.empty()) return {"", "nvcc is not here"};
  std::string content = all_together() + file_text(fs::path(kSourceFolder) / "include/assay.h") +
                        file_text(kCases / "common.h");
  for (const std::string& name : cases_in(kCases)) content += file_text(kCases / (name + ".cu"));
  const fs::path folder = kBuild / std::to_string(std::hash<std::string>{}(content));
  const fs::path program = folder / "cases";
  if (fs::exists(program)) return {program, ""};
  fs::remove_all(kBuild);
  fs::create_directories(folder);
  std::ofstream(folder / "all.cu") << all_together();
  const std::string command = nvcc + " -O2 -lineinfo -std=c++17 -arch=sm_90 -cudart shared -w -I " +
                              std::string(kSourceFolder) + "/include -o " + (folder / "cases.new").string() +
                              " " + (folder / "all.cu").string() + " > " + (folder / "log").string() +
                              " 2>&1";
  if (std::system(command.c_str()) != 0) return {"", file_text(folder / "log")};
  fs::rename(folder / "cases.new", program);
  return {program, ""};
}

const Built& built() {
  static const Built once = build();
  return once;
}

struct Expected {
  std::set<std::string> kinds;
  std::set<std::string> placed;  // those that must name the line marked `here`
  int line = 0;
};

Expected expected_of(const std::string& name, const std::string& variant) {
  Expected expected;
  std::istringstream file(file_text(kCases / (name + ".cu")));
  std::string line;
  const std::string key = "// " + variant + ":";
  for (int number = 1; std::getline(file, line); ++number) {
    if (line.ends_with("// here")) expected.line = number;
    if (!line.starts_with(key)) continue;
    std::string kinds, place;
    std::istringstream words(line.substr(key.size()));
    words >> kinds >> place;
    std::istringstream list(kinds);
    for (std::string kind; std::getline(list, kind, ',');) {
      expected.kinds.insert(kind);
      if (place == "here") expected.placed.insert(kind);
    }
  }
  return expected;
}

// What a case says about itself after `key`.
std::string setting_of(const std::string& name, const std::string& key, const std::string& otherwise) {
  std::istringstream file(file_text(kCases / (name + ".cu")));
  const std::string start = "// " + key + ": ";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(start)) return line.substr(start.size());
  return otherwise;
}

// Runs a case; its findings. `engine`: as ASSAY_ENGINE has it.
std::vector<Finding> findings_of(const std::string& name, const std::string& variant,
                                 const std::string& engine = "interpret") {
  const fs::path report = kBuild / (name + "." + variant + "." + std::to_string(getpid()) + ".report");
  fs::remove(report);
  const std::string command =
      "ASSAY_CHECK=" + setting_of(name, "checks", "all") + " ASSAY_QUIET=1 ASSAY_ENGINE=" + engine +
      " ASSAY_THREADS=" + setting_of(name, "threads", "1") + " ASSAY_SEED=" + setting_of(name, "seed", "0") +
      " ASSAY_REPORT=" + report.string() + " LD_LIBRARY_PATH=" + std::string(kBinaryFolder) +
      "/lib timeout 60 " + built().program.string() + " " + name + " " + variant + " 2> /dev/null";
  const int status = std::system(command.c_str());
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 124) << "it did not end";
  if (variant == "right") {
    EXPECT_EQ(status, 0);
  }
  std::vector<Finding> findings;
  std::ifstream file(report);
  for (std::string line; std::getline(file, line);) {
    const auto event = protocol::decode_event(line);
    EXPECT_TRUE(event) << event.error().text() << "\n" << line;
    if (const auto* found = event ? std::get_if<protocol::FindingEvent>(&*event) : nullptr)
      findings.push_back(found->finding);
  }
  fs::remove(report);
  return findings;
}

// Either side of a race will do.
bool names_line(const Where& place, int line) {
  return place.line == line && place.file.ends_with(".cu");
}

class Cases : public ::testing::TestWithParam<std::string> {};

TEST_P(Cases, AreJudgedAsTheySay) {
  if (built().program.empty()) {
    if (find_nvcc().empty()) GTEST_SKIP() << built().trouble;
    FAIL() << built().trouble;
  }
  for (const std::string variant : {"wrong", "right"}) {
    const Expected expected = expected_of(GetParam(), variant);
    std::set<std::string> kinds, placed;
    std::string all;
    for (const Finding& finding : findings_of(GetParam(), variant)) {
      const std::string kind(to_string(finding.kind));
      kinds.insert(kind);
      if (names_line(finding.where, expected.line) || names_line(other_place(finding), expected.line))
        placed.insert(kind);
      all += to_json(finding).dump() + "\n";
    }
    EXPECT_EQ(kinds, expected.kinds) << variant << "\n" << all;
    EXPECT_THAT(placed, ::testing::IsSupersetOf(expected.placed)) << variant << "\n" << all;
  }
}

// ---- Compiled kernels ----

// One case in so many is run with all kernels compiled, too: compiling takes longer than the cases do.
constexpr size_t kEvery = 8;
// Those that compiled code once got wrong: it did not end where lanes part behind a barrier, and races of loads whose
// value a selp picks were not found.
const std::set<std::string> kAlways = {"bounds_halo", "race_hoisted", "race_hoisted_loop"};

std::vector<std::string> compiled_names() {
  std::vector<std::string> names;
  for (size_t k = 0; const std::string& name : cases_in(kCases))
    if (k++ % kEvery == 0 || kAlways.count(name) != 0) names.push_back(name);
  return names;
}

class CompiledCases : public ::testing::TestWithParam<std::string> {};

TEST_P(CompiledCases, GiveTheSameFindings) {
  if (built().program.empty()) GTEST_SKIP() << built().trouble;
  for (const std::string variant : {"wrong", "right"}) {
    std::vector<std::string> found[2];
    for (const bool compiled : {false, true})
      for (const Finding& f : findings_of(GetParam(), variant, compiled ? "compile" : "interpret"))
        found[compiled].push_back(std::string(to_string(f.kind)) + " " + f.where.file + ":" +
                                  std::to_string(f.where.line) + " times " + std::to_string(f.count));
    EXPECT_EQ(found[0], found[1]) << variant;
  }
}

INSTANTIATE_TEST_SUITE_P(Some, CompiledCases, ::testing::ValuesIn(compiled_names()),
                         [](const auto& c) { return c.param; });

// ---- What is shown ----

std::vector<std::string> shown_by(const std::string& name) {
  std::vector<std::string> lines;
  std::istringstream file(file_text(kCases / (name + ".cu")));
  const std::string start = "// shows: ";
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(start)) lines.push_back(line.substr(start.size()));
  return lines;
}

std::vector<std::string> shown_names() {
  std::vector<std::string> names = cases_in(kCases);
  std::erase_if(names, [](const std::string& name) { return shown_by(name).empty(); });
  return names;
}

std::string terminal_of(const std::string& name) {
  const fs::path output = kBuild / (name + "." + std::to_string(getpid()) + ".shown");
  const std::string command =
      std::string(kBinaryFolder) + "/bin/assay run --check=" + setting_of(name, "checks", "all") +
      " --threads=" + setting_of(name, "threads", "1") + " --seed=" + setting_of(name, "seed", "0") + " -- " +
      built().program.string() + " " + name + " wrong > /dev/null 2> " + output.string();
  std::system(("timeout 60 " + command).c_str());
  std::string text = file_text(output);
  fs::remove(output);
  return text;
}

class Shown : public ::testing::TestWithParam<std::string> {};

TEST_P(Shown, AsTheCaseSays) {
  if (built().program.empty()) GTEST_SKIP() << built().trouble;
  const std::string text = terminal_of(GetParam());
  size_t at = 0;
  for (const std::string& line : shown_by(GetParam())) {
    const size_t found = text.find(line, at);
    EXPECT_NE(found, std::string::npos) << "not shown: " << line << "\n" << text;
    if (found != std::string::npos) at = found + line.size();
  }
}

INSTANTIATE_TEST_SUITE_P(All, Shown, ::testing::ValuesIn(shown_names()),
                         [](const auto& c) { return c.param; });

INSTANTIATE_TEST_SUITE_P(All, Cases, ::testing::ValuesIn(cases_in(kCases)),
                         [](const auto& c) { return c.param; });

}  // namespace
}  // namespace assay::checks
