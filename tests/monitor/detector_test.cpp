// The detector against simulated samples: how rarely it is wrong, and how soon it is right.
#include "monitor/detector.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace assay::monitor {
namespace {

// 256 elements a sample; one in 10,000 differs from the correct rounding although the kernel is right.
constexpr int kElements = 256;
constexpr double kMean = 0.0256;

// Samples until an alarm, or `most`. `wrong`: the share of elements that are wrong in a bad call; `bad`: of calls.
int samples_until_alarm(double limit, double wrong, double bad, int most, std::mt19937_64& random) {
  Detector detector(limit);
  std::binomial_distribution<int> right_calls(kElements, kMean / kElements), bad_calls(kElements, wrong);
  std::bernoulli_distribution is_bad(bad);
  for (int sample = 1; sample <= most; ++sample) {
    int differing = right_calls(random);
    if (is_bad(random)) differing += bad_calls(random);
    if (detector.add(static_cast<uint64_t>(differing), kMean)) return sample;
  }
  return most;
}

int median_until_alarm(double wrong, double bad, int runs) {
  std::mt19937_64 random(1);
  std::vector<int> all;
  for (int i = 0; i < runs; ++i) all.push_back(samples_until_alarm(1e9, wrong, bad, 100000, random));
  std::nth_element(all.begin(), all.begin() + runs / 2, all.end());
  return all[static_cast<std::size_t>(runs / 2)];
}

// The mean time to a false alarm is at least the limit. A small limit can be simulated; runs that are cut off count as
// shorter than they are.
TEST(Detector, FalseAlarmsAreAsRareAsStated) {
  std::mt19937_64 random(1);
  for (const double limit : {30.0, 200.0}) {
    constexpr int kRuns = 200;
    double sum = 0;
    for (int i = 0; i < kRuns; ++i)
      sum += samples_until_alarm(limit, 0, 0, static_cast<int>(20 * limit), random);
    EXPECT_GT(sum / kRuns, limit);
  }
}

TEST(Detector, SeesFaultsSoon) {
  EXPECT_EQ(median_until_alarm(0.1, 1, 101), 1);
  EXPECT_LE(median_until_alarm(0.01, 1, 101), 3);
  EXPECT_LE(median_until_alarm(0.001, 1, 101), 81);
  EXPECT_LE(median_until_alarm(0.1, 0.01, 101), 99);
  EXPECT_LE(median_until_alarm(0.1, 0.001, 51), 1203);
}

// By hand: after one sample without a difference, M is exp(-mean (r - 1)) for each ratio.
TEST(Detector, EvidenceOfOneSample) {
  Detector detector(1e9);
  EXPECT_FALSE(detector.add(0, kMean));
  double sum = 0;
  for (const double ratio : Detector::kRatios) sum += std::exp(-kMean * (ratio - 1));
  EXPECT_NEAR(detector.log10_evidence(), std::log10(sum / Detector::kRatios.size()), 1e-12);
}

// By hand: after one sample, half of the weight is on a change at this sample, and half on later ones.
TEST(Detector, EValueOfOneSample) {
  Detector detector(1e9);
  EXPECT_EQ(detector.log10_e_value(), 0);
  detector.add(2, kMean);
  double sum = 0;
  for (const double ratio : Detector::kRatios) sum += ratio * ratio * std::exp(-kMean * (ratio - 1));
  EXPECT_NEAR(detector.log10_e_value(), std::log10(0.5 * sum / Detector::kRatios.size() + 0.5), 1e-12);
}

// A long time of right calls costs the e-value little: it finds a change after it.
TEST(Detector, AChangeAfterALongTimeIsSeenByTheEValue) {
  Detector detector(1e9);
  for (int i = 0; i < 100'000; ++i) detector.add(0, kMean);
  EXPECT_LT(detector.log10_e_value(), 0);
  for (int i = 0; i < 12; ++i) detector.add(3, kMean);
  EXPECT_GT(detector.log10_e_value(), 9);
}

TEST(Detector, AnAlarmStaysUntilItIsReset) {
  Detector detector(1e9);
  EXPECT_TRUE(detector.add(kElements, kMean));
  EXPECT_GT(detector.log10_evidence(), 300) << "more than a double can hold";
  EXPECT_TRUE(detector.add(0, kMean));
  detector.reset();
  EXPECT_FALSE(detector.is_alarmed());
  EXPECT_FALSE(detector.add(0, kMean));
}

}  // namespace
}  // namespace assay::monitor
