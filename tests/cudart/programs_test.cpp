// Programs built by nvcc, unchanged, on the virtual GPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support.h"

namespace assay::cudart::test {
namespace {

using testing::HasSubstr;

// Each with several orders of streams, warps and blocks, and once watched by all checks.
struct Run {
  const char* program;
  const char* seed;
  const char* check;
};
class Programs : public testing::TestWithParam<Run> {};

TEST_P(Programs, CheckThemselves) {
  ASSAY_NEEDS_PROGRAM(GetParam().program);
  Ended ended = run({kPrograms + GetParam().program},
                    {{"ASSAY_SEED", GetParam().seed}, {"ASSAY_CHECK", GetParam().check}});
  EXPECT_EQ(ended.exit, 0) << ended.out << ended.err;
  ASSERT_FALSE(ended.out.empty());
  EXPECT_EQ(lines(ended.out).back(), "ok");
  EXPECT_EQ(ended.err, "");
}

std::vector<Run> all_runs() {
  std::vector<Run> runs;
  for (const char* program : {"memory", "streams", "cooperation", "two_files", "host_memory"}) {
    for (const char* seed : {"0", "1", "2", "77"}) runs.push_back({program, seed, "none"});
    runs.push_back({program, "0", "all"});
  }
  return runs;
}
INSTANTIATE_TEST_SUITE_P(All, Programs, testing::ValuesIn(all_runs()), [](const auto& each) {
  return std::string(each.param.program) + "_seed" + each.param.seed + "_" + each.param.check;
});

TEST(Program, PrintsWhenTheHostSynchronises) {
  ASSAY_NEEDS_PROGRAM("cooperation");
  EXPECT_EQ(run({kPrograms + "cooperation"}).out,
            "before\n"
            "thread 0 of the kernel, 0.00\n"
            "thread 1 of the kernel, 0.50\n"
            "thread 2 of the kernel, 1.00\n"
            "ok\n");
}

TEST(Program, StaticDestructorsMayUseTheRuntime) {
  ASSAY_NEEDS_PROGRAM("static_destructor");
  Ended ended = run({kPrograms + "static_destructor"});
  EXPECT_EQ(ended.exit, 7);
  EXPECT_EQ(ended.out, "at the end 42\n");
}

// Call by call what an H200 answered (probe_h200.txt).
TEST(Program, AnswersAreThoseOfTheHardware) {
  ASSAY_NEEDS_PROGRAM("probe");
  auto expected = lines(read_file(kSource + "/tests/cudart/probe_h200.txt"));
  auto got = lines(run({kPrograms + "probe"}).out);
  ASSERT_GT(expected.size(), 700u);
  for (size_t i = 0; i < std::min(expected.size(), got.size()); ++i)
    EXPECT_EQ(got[i], expected[i]) << "line " << i + 1;
  EXPECT_EQ(got.size(), expected.size());
}

TEST(Program, WithoutPtxItIsToldHowToBuild) {
  ASSAY_NEEDS_PROGRAM("probe");
  EXPECT_THAT(run({kPrograms + "probe", "foreign"}).err,
              HasSubstr("-gencode arch=compute_90,code=compute_90"));
}

TEST(Program, FaultsNameKernelAndPlace) {
  ASSAY_NEEDS_PROGRAM("probe");
  std::string text = run({kPrograms + "probe", "fault_null"}).err;
  EXPECT_THAT(text, HasSubstr("store"));
  EXPECT_THAT(text, HasSubstr("block (0,0,0), thread (0,0,0)"));
  EXPECT_THAT(run({kPrograms + "probe", "fault_assert"}).err, HasSubstr("Assertion `x == 0` failed."));
}

// It would run unchecked otherwise, and nobody would know.
TEST(Program, DoesNotRunWithSettingsThatCannotBeRead) {
  ASSAY_NEEDS_PROGRAM("memory");
  const auto other_version = run({kPrograms + "memory"}, {{"ASSAY_SETTINGS", R"({"version": 99})"}});
  EXPECT_EQ(other_version.exit, 2);
  EXPECT_THAT(other_version.err, HasSubstr("version 99"));
  const auto unknown_check = run({kPrograms + "memory"}, {{"ASSAY_CHECK", "memory,nonsense"}});
  EXPECT_EQ(unknown_check.exit, 2);
  EXPECT_THAT(unknown_check.err, HasSubstr("ASSAY_CHECK: unknown check 'nonsense'"));
}

TEST(Program, QuietMeansQuiet) {
  ASSAY_NEEDS_PROGRAM("probe");
  EXPECT_EQ(run({kPrograms + "probe", "fault_null"}, {{"ASSAY_QUIET", "1"}}).err, "");
}

}  // namespace
}  // namespace assay::cudart::test
