// Each file of cases/ says on its own lines what the linter must say about them: `// expect: KIND …` at the
// end of a line. Lines without it must draw no note. PTX without source lines is judged by its own lines.
#include "lint/lint.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "finding/print.h"
#include "folders.h"
#include "lint/flow.h"

namespace assay::lint {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string find_nvcc() {
  const char* home = std::getenv("CUDA_HOME");
  for (const std::string& folder :
       {home ? std::string(home) + "/bin" : "", std::string("/usr/local/cuda/bin")}) {
    if (!folder.empty() && fs::exists(folder + "/nvcc")) return folder + "/nvcc";
  }
  return std::system("command -v nvcc >/dev/null 2>&1") == 0 ? "nvcc" : "";
}

std::vector<Finding> notes_of(const std::string& ptx, const Options& options = {}) {
  const auto module = ptx::parse(ptx, "case");
  EXPECT_TRUE(module) << (module ? "" : module.error().text());
  return module ? lint(*module, options, "case") : std::vector<Finding>{};
}

using Lines = std::set<std::pair<int, std::string>>;

Lines expected(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  std::string line;
  for (int number = 1; std::getline(stream, line); ++number) {
    const std::size_t at = line.find("// expect: ");
    if (at == std::string::npos) continue;
    std::istringstream words(line.substr(at + 11));
    for (std::string kind; words >> kind;) lines.insert({number, kind});
  }
  return lines;
}

Lines said(const std::vector<Finding>& notes) {
  Lines lines;
  for (const Finding& note : notes) lines.insert({note.where.line, std::string(to_string(note.kind))});
  return lines;
}

std::vector<std::string> cases() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(std::string(kSourceFolder) + "/tests/lint/cases")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

class Case : public testing::TestWithParam<std::string> {};

TEST_P(Case, SaysWhatItsLinesExpect) {
  const fs::path path = fs::path(std::string(kSourceFolder) + "/tests/lint/cases") / GetParam();
  const std::string text = read(path);
  std::string ptx = text;
  if (path.extension() == ".cu") {
    const std::string nvcc = find_nvcc();
    if (nvcc.empty()) GTEST_SKIP() << "nvcc was not found: this case needs it";
    const fs::path out =
        fs::temp_directory_path() / fmt::format("assay-lint-{}-{}.ptx", getpid(), GetParam());
    const std::string command =
        fmt::format("'{}' -ptx -lineinfo -O3 -arch=sm_90 -o '{}' '{}'", nvcc, out.string(), path.string());
    ASSERT_EQ(std::system(command.c_str()), 0);
    ptx = read(out);
    fs::remove(out);
  }
  const std::vector<Finding> notes = notes_of(ptx);
  EXPECT_EQ(said(notes), expected(text));
  for (const Finding& note : notes) {
    EXPECT_FALSE(message(note).empty());
    EXPECT_FALSE(std::get<evidence::Code>(note.evidence).instruction.empty());
    if (path.extension() == ".cu") {
      EXPECT_EQ(fs::path(note.where.file).filename(), path.filename());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, Case, testing::ValuesIn(cases()), [](const auto& name) {
  std::string shown = name.param;
  std::replace(shown.begin(), shown.end(), '.', '_');
  return shown;
});

std::string text_of(std::string_view name) {
  return read(fmt::format("{}/tests/lint/cases/{}", kSourceFolder, name));
}

TEST(Lint, SaysNothingOfMathThatTheContractAllows) {
  EXPECT_THAT(notes_of(text_of("flushing.ptx"), {.fast_math = true}), testing::IsEmpty());
  EXPECT_THAT(notes_of(text_of("fast_math.ptx"), {.fast_math = true}), testing::IsEmpty());
}

TEST(Lint, NamesKernelInstructionAndReason) {
  const std::vector<Finding> notes = notes_of(text_of("sum_bf16_loop.ptx"));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_EQ(kernel_of(notes[0]), "sum");
  EXPECT_EQ(std::get<evidence::Code>(notes[0].evidence).instruction, "add.rn.bf16 %rs1, %rs1, %rs2;");
  EXPECT_THAT(message(notes[0]), testing::HasSubstr("Keep the sum in f32"));
  EXPECT_EQ(notes[0].severity, Severity::Note);
  EXPECT_EQ(notes[0].kind, Kind::NarrowSum);
}

TEST(Lint, HintsFollowTheNotes) {
  EXPECT_THAT(hints(notes_of(text_of("truncations.ptx"))), testing::ElementsAre(Kind::BiasedRounding));
  EXPECT_THAT(hints(notes_of(text_of("atomics.ptx"))), testing::ElementsAre(Kind::LowPrecisionAccumulation));
  EXPECT_THAT(hints(notes_of(text_of("collectives.ptx"))), testing::IsEmpty());
  std::vector<Finding> both = notes_of(text_of("truncations.ptx"));
  for (Finding& note : notes_of(text_of("mma_f16.ptx"))) both.push_back(note);
  EXPECT_THAT(hints(both), testing::ElementsAre(Kind::BiasedRounding, Kind::LowPrecisionAccumulation));
}

TEST(Lint, EveryKindHasACase) {
  std::set<std::string> seen;
  for (const std::string& name : cases()) {
    for (const auto& [line, kind] : expected(text_of(name))) seen.insert(kind);
  }
  for (const KindInfo& kind : kinds()) {
    if (kind.reporter != Reporter::Code) continue;
    EXPECT_TRUE(seen.contains(std::string(kind.name))) << kind.name;
  }
}

TEST(Flow, KnowsLoopsAndWhatReaches) {
  const auto module = ptx::parse(text_of("sum_f32_loop.ptx"), "case");
  ASSERT_TRUE(module);
  const Flow flow(module->functions[0]);
  ASSERT_EQ(flow.loops().size(), 1u);
  Index sum = 0, load = 0;
  for (Index i = 0; i < flow.size(); ++i) {
    if (flow.at(i).opcode == ptx::Opcode::add && flow.at(i).type() == ptx::Type::F32) sum = i;
    if (flow.at(i).opcode == ptx::Opcode::ld && flow.at(i).type() == ptx::Type::B16) load = i;
  }
  EXPECT_TRUE(flow.is_in(flow.loops()[0], sum));
  EXPECT_FALSE(flow.is_in(flow.loops()[0], 0));
  // The sum comes from before the loop or from itself; the term only from the line above.
  EXPECT_THAT(flow.reaching(sum, flow.defined(sum)[0]), testing::UnorderedElementsAre(3u, sum));
  EXPECT_THAT(flow.reaching(sum, flow.at(sum).operands[2].index), testing::ElementsAre(sum - 1));
  EXPECT_THAT(flow.users(load), testing::ElementsAre(load + 1));
}

}  // namespace
}  // namespace assay::lint
