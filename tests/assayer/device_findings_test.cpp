// What two devices saw becomes one list of findings.
#include "assayer/device_findings.h"

#include <gmock/gmock.h>

namespace assay::assayer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Finding overrun(int line, const char* kernel) {
  evidence::Access access;
  access.code.kernel = kernel;
  return {.kind = Kind::OutOfBounds, .where = {"k.cu", line}, .evidence = std::move(access)};
}

Finding hidden_nan(const char* output) {
  return {.kind = Kind::Nonfinite, .evidence = evidence::Numeric{.output = output}};
}

// The first errors of the two are of different kinds: a GPU need not show the overrun.
TEST(JoinErrors, EachIsJoinedWithTheOneOfItsCause) {
  std::vector<Finding> seen = {overrun(9, "twice"), hidden_nan("y")};
  EXPECT_THAT(join_errors(seen, {hidden_nan("y")}, false), IsEmpty());
  EXPECT_THAT(seen[0].found.devices, ElementsAre("virtual"));
  EXPECT_THAT(seen[1].found.devices, ElementsAre("virtual", "cuda"));
  EXPECT_THAT(seen[1].found.other_shows, HasSubstr("nonfinite: "));
}

TEST(JoinErrors, OneOfTheGpuAloneStays) {
  std::vector<Finding> seen = {overrun(9, "twice")};
  const auto others = join_errors(seen, {overrun(14, ""), hidden_nan("y")}, false);
  EXPECT_THAT(seen[0].found.devices, ElementsAre("virtual", "cuda"));
  ASSERT_THAT(others, SizeIs(1));
  EXPECT_EQ(others[0].kind, Kind::Nonfinite);
}

TEST(JoinErrors, FirstFailuresOfOneKindAreOne) {
  std::vector<Finding> seen = {hidden_nan("y")};
  EXPECT_THAT(join_errors(seen, {hidden_nan("z")}, false), SizeIs(1));
  EXPECT_THAT(join_errors(seen, {hidden_nan("z")}, true), IsEmpty());
}

TEST(JoinErrors, WarningsAreNotErrors) {
  std::vector<Finding> seen = {hidden_nan("y")};
  Finding warning = hidden_nan("y");
  warning.severity = Severity::Warning;
  EXPECT_THAT(join_errors(seen, {warning}, false), IsEmpty());
  EXPECT_THAT(seen[0].found.devices, ElementsAre("virtual"));
  seen[0].severity = Severity::Warning;
  EXPECT_THAT(join_errors(seen, {hidden_nan("y")}, false), SizeIs(1));
}

TEST(JoinErrors, WhatAToolSaidIsKept) {
  std::vector<Finding> seen = {overrun(9, "twice")};
  Finding real = overrun(14, "");
  real.found.witness = "compute-sanitizer memcheck: Invalid __global__ read";
  join_errors(seen, {real}, false);
  EXPECT_EQ(seen[0].found.witness, real.found.witness);
}

}  // namespace
}  // namespace assay::assayer
