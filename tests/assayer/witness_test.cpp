#include "assayer/witness.h"

#include <gmock/gmock.h>

namespace assay::assayer {
namespace {

using ::testing::SizeIs;

Finding overrun(Where where, const char* kernel = "", const char* witness = "") {
  evidence::Access access;
  access.code.kernel = kernel;
  Finding finding{.kind = Kind::OutOfBounds, .where = std::move(where), .evidence = std::move(access)};
  finding.found.witness = witness;
  return finding;
}

constexpr const char* kSaid = "compute-sanitizer memcheck: Invalid __global__ write of size 4 bytes";

TEST(Witnesses, ConfirmAFindingAndNameItsLine) {
  // A GPU does not say which line: the check named the function that was called.
  std::vector<Finding> findings = {overrun({})};
  add_witnessed({.tool = "memcheck", .findings = {overrun({"a/k.cu", 9}, "k", kSaid)}}, findings);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].found.witness, kSaid);
  EXPECT_EQ(findings[0].where, (Where{"a/k.cu", 9}));
  // Where the check knows the file, its path stays.
  findings = {overrun({"/home/me/a/k.cu", 14})};
  add_witnessed({.tool = "memcheck", .findings = {overrun({"k.cu", 9}, "k", kSaid)}}, findings);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].where, (Where{"/home/me/a/k.cu", 9}));
}

TEST(Witnesses, TheSameFileByAnotherPathIsTheSamePlace) {
  std::vector<Finding> findings = {overrun({"k.cu", 9}, "k")};
  add_witnessed({.tool = "memcheck", .findings = {overrun({"/home/me/k.cu", 9}, "k", kSaid)}}, findings);
  ASSERT_THAT(findings, SizeIs(1));
  EXPECT_EQ(findings[0].where.file, "k.cu");
}

TEST(Witnesses, AddWhatNobodyElseHasSeen) {
  std::vector<Finding> findings = {overrun({"k.cu", 3}, "k")};
  Finding other = overrun({"k.cu", 9}, "k", kSaid);
  Finding race{.kind = Kind::DataRace, .where = {"k.cu", 3}, .evidence = evidence::Race{}};
  add_witnessed({.tool = "memcheck", .findings = {other, race, other}}, findings);
  ASSERT_THAT(findings, SizeIs(3));
  EXPECT_EQ(findings[0].found.witness, "");
  EXPECT_EQ(findings[1].where.line, 9);
  EXPECT_EQ(findings[2].kind, Kind::DataRace);
}

}  // namespace
}  // namespace assay::assayer
