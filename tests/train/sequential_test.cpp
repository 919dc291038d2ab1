// The sequential test: Student's tail, and how often it rejects by chance.
#include "train/sequential.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/random.h"

namespace assay::train {
namespace {

TEST(Probability, IsTheTailOfStudentsDistribution) {
  // From tables of the distribution: two-sided 5 % and 0.1 %.
  EXPECT_NEAR(probability_of(12.706, 1), 0.05, 1e-4);
  EXPECT_NEAR(probability_of(4.303, 2), 0.05, 1e-4);
  EXPECT_NEAR(probability_of(3.182, 3), 0.05, 1e-4);
  EXPECT_NEAR(probability_of(2.776, 4), 0.05, 1e-4);
  EXPECT_NEAR(probability_of(2.228, 10), 0.05, 1e-4);
  EXPECT_NEAR(probability_of(12.924, 3), 0.001, 1e-5);
  EXPECT_NEAR(probability_of(3.646, 30), 0.001, 1e-5);
}

TEST(Probability, FallsSmoothlyWhereTheClosedFormCancels) {
  for (const int draws : {1, 2, 3, 6, 9, 24}) {
    double before = 1;
    for (double times = 1; times < 1e12; times *= 1.5) {
      const double p = probability_of(times, draws);
      EXPECT_GT(p, 0) << times << " " << draws;
      EXPECT_LT(p, before) << times << " " << draws;
      before = p;
    }
  }
  EXPECT_EQ(probability_of(0, 3), 1);
  EXPECT_EQ(probability_of(INFINITY, 3), 0);
}

TEST(SequentialTest, RejectsByChanceLessOftenThanItSays) {
  constexpr int kTrials = 4000, kSteps = 30;
  constexpr double kFalseAlarms = 0.05;
  Random random(11);
  int rejected = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    SequentialTest test({"a", "b", "c"}, kFalseAlarms);
    bool ever = false;
    for (int i = 0; i < kSteps && !ever; ++i) {
      test.add({random.uniform(), random.uniform(), random.uniform()});
      ever = test.rejects();
    }
    rejected += ever;
  }
  EXPECT_LE(rejected, kFalseAlarms * kTrials);
  EXPECT_GT(rejected, 0);  // it is a test, not a constant
}

TEST(SequentialTest, NamesTheSignalThatStandsOut) {
  SequentialTest test({"a", "b", "c"}, 1e-6);
  for (int i = 0; i < 4; ++i) test.add({0.5, 1e-5, 0.9});
  EXPECT_TRUE(test.rejects());
  EXPECT_EQ(test.signals()[test.strongest()], "b");
  EXPECT_NEAR(test.log10_evidence(), 4 * (2.5 - std::log10(2)) - std::log10(3), 1e-3);
}

}  // namespace
}  // namespace assay::train
