#include "assayer/limits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace assay::assayer {
namespace {

TEST(ChanceRuns, MissACoinOnceInAThousandTimes) {
  EXPECT_LE(std::pow(0.5, chance_runs(0.02)), 1e-3);
}

TEST(ChanceRuns, AreFewerWhereEachTakesLong) {
  EXPECT_EQ(chance_runs(0), kChanceRuns);
  EXPECT_EQ(chance_runs(kChanceSeconds / kChanceRuns), kChanceRuns);
  EXPECT_EQ(chance_runs(kChanceSeconds / 5), 5);
  EXPECT_EQ(chance_runs(8), kTimes);
  EXPECT_LE(kChanceSeconds, kCauseSeconds / 4);
}

TEST(MostElapsed, IsTwiceTheBudget) {
  EXPECT_DOUBLE_EQ(most_elapsed(20), 40);
  EXPECT_DOUBLE_EQ(most_elapsed(300), 600);
  EXPECT_DOUBLE_EQ(most_elapsed(1), 11);
}

}  // namespace
}  // namespace assay::assayer
