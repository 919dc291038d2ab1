#include "judge/verdict.h"

#include <gtest/gtest.h>

namespace assay::judge {
namespace {

TEST(Verdict, IsFailOnlyForErrors) {
  const std::vector<Finding> error = {{.kind = Kind::Leak, .severity = Severity::Note},
                                      {.kind = Kind::DataRace}},
                             less = {{.kind = Kind::DataRace, .severity = Severity::Warning},
                                     {.kind = Kind::NarrowSum, .severity = Severity::Note}};
  EXPECT_EQ(verdict_of(error, true, false), Verdict::Fail);
  EXPECT_EQ(verdict_of(error, true, true), Verdict::Fail);
  EXPECT_EQ(verdict_of(error, false, true), Verdict::Fail);
  EXPECT_EQ(verdict_of(less, true, false), Verdict::Pass);
  EXPECT_EQ(verdict_of({}, true, false), Verdict::Pass);
}

TEST(Verdict, IsInconclusiveWhereSomethingWasNotChecked) {
  EXPECT_EQ(verdict_of({}, false, false), Verdict::Inconclusive);
  EXPECT_EQ(verdict_of({}, true, true), Verdict::Inconclusive);
  EXPECT_EQ(verdict_of({{.kind = Kind::Leak, .severity = Severity::Note}}, true, true),
            Verdict::Inconclusive);
}

TEST(Verdict, HasItsNameAndExitStatus) {
  EXPECT_EQ(to_string(Verdict::Pass), "pass");
  EXPECT_EQ(to_string(Verdict::Fail), "fail");
  EXPECT_EQ(to_string(Verdict::Inconclusive), "inconclusive");
  EXPECT_EQ(exit_status(Verdict::Pass), 0);
  EXPECT_EQ(exit_status(Verdict::Fail), 1);
  EXPECT_EQ(exit_status(Verdict::Inconclusive), 3);
}

}  // namespace
}  // namespace assay::judge
