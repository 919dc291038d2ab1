// Evidence from many places: averages, the rule that decides between many kernels, and what assayd and `assay fleet` exchange.
#include "monitor/fleet.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "monitor/detector.h"

namespace assay::monitor {
namespace {

TEST(Fleet, TheAverageOfEValues) {
  EXPECT_NEAR(log10_of_average(std::vector<double>{0, 2}), std::log10(50.5), 1e-12);
  EXPECT_NEAR(log10_of_average(std::vector<double>{400, 0, 0, 0}), 400 - std::log10(4), 1e-12)
      << "more than a double";
  EXPECT_EQ(log10_of_average(std::vector<double>{}), 0);
}

// By hand, at a rate of 0.1: of four kernels, the largest needs 40, two need 20 each, three 13.3, four 10.
TEST(Fleet, EBenjaminiHochberg) {
  const auto rejected = [](std::vector<double> values) {
    for (double& value : values) value = std::log10(value);
    return reject_by_e_values(values, 0.1);
  };
  using Answer = std::vector<bool>;
  EXPECT_EQ(rejected({41, 1, 1, 1}), (Answer{true, false, false, false}));
  EXPECT_EQ(rejected({39, 1, 1, 1}), (Answer{false, false, false, false}));
  EXPECT_EQ(rejected({1, 21, 22, 1}), (Answer{false, true, true, false})) << "neither would do alone";
  EXPECT_EQ(rejected({11, 11, 11, 11}), (Answer{true, true, true, true}));
  EXPECT_EQ(rejected({}), Answer{});
}

// The e-value of a right kernel has an expectation of at most 1, after one sample and after many.
TEST(Fleet, TheEValueOfARightKernelIsAtMostOneOnAverage) {
  std::mt19937_64 random(3);
  for (const double mean : {0.0256, 0.5}) {
    std::poisson_distribution<int> differing(mean);
    for (const int samples : {1, 10, 40}) {
      double sum = 0;
      constexpr int kRuns = 4000;
      for (int run = 0; run < kRuns; ++run) {
        Detector detector(1e9);
        for (int i = 0; i < samples; ++i) detector.add(static_cast<uint64_t>(differing(random)), mean);
        // A heavy tail makes the average of a simulation jump: what is cut off here only makes it smaller.
        sum += std::min(1000.0, std::pow(10.0, detector.log10_e_value()));
      }
      EXPECT_LT(sum / kRuns, 1.25) << mean << ", " << samples;
      EXPECT_GT(sum / kRuns, 0.1) << mean << ", " << samples;  // and it is not simply zero
    }
  }
}

// Two hundred right kernels and five wrong ones, each on eight GPUs: those five are found.
TEST(Fleet, WrongKernelsAreFoundAmongManyRightOnes) {
  std::mt19937_64 random(5);
  constexpr double kMean = 0.0256;
  std::poisson_distribution<int> right(kMean), wrong(kMean + 2.56);  // one element in a hundred is wrong
  std::vector<SeenKernel> seen;
  for (int kernel = 0; kernel < 205; ++kernel)
    for (int gpu = 0; gpu < 8; ++gpu) {
      Detector detector(1e9);
      for (int i = 0; i < 40; ++i)
        detector.add(static_cast<uint64_t>(kernel < 5 && gpu == 3 ? wrong(random) : right(random)), kMean);
      seen.push_back({.kernel = "k" + std::to_string(kernel),
                      .contract = "c",
                      .build = "b",
                      .gpu = "GPU-" + std::to_string(gpu),
                      .place = "here",
                      .samples = detector.samples(),
                      .log10_e_value = detector.log10_e_value()});
    }
  const std::vector<FleetKernel> fleet = judge_fleet(seen, 0.001);
  ASSERT_EQ(fleet.size(), 205u);
  for (std::size_t i = 0; i < fleet.size(); ++i) {
    const bool is_wrong = std::stoi(fleet[i].kernel.substr(1)) < 5;
    EXPECT_EQ(fleet[i].is_wrong, is_wrong) << fleet[i].kernel;
    EXPECT_EQ(i < 5, is_wrong) << "the strongest evidence comes first";
    if (is_wrong) {
      EXPECT_EQ(fleet[i].worst.gpu, "GPU-3");
      EXPECT_EQ(fleet[i].places, 8u);
      EXPECT_EQ(fleet[i].samples, 320u);
    }
  }
}

TEST(Fleet, BuildsAreKernelsOfTheirOwn) {
  const std::vector<SeenKernel> seen = {
      {.kernel = "k", .build = "old", .log10_e_value = 0},
      {.kernel = "k", .build = "new", .log10_e_value = 20, .has_alarm = true}};
  const auto fleet = judge_fleet(seen, 0.001);
  ASSERT_EQ(fleet.size(), 2u);
  EXPECT_EQ(fleet[0].build, "new");
  EXPECT_TRUE(fleet[0].is_wrong);
  EXPECT_EQ(fleet[0].alarms, 1u);
  EXPECT_FALSE(fleet[1].is_wrong);
}

TEST(Fleet, EvidenceIsReadAsItWasWritten) {
  const SeenKernel one{"k<\"", "c1", "b1", "GPU-1", "there", 12, 3.5, true};
  const auto read = decode_evidence(encode_evidence(std::vector{one}), "there");
  ASSERT_TRUE(read) << read.error().text();
  ASSERT_EQ(read->size(), 1u);
  EXPECT_EQ(read->front().kernel, "k<\"");
  EXPECT_EQ(read->front().samples, 12u);
  EXPECT_EQ(read->front().log10_e_value, 3.5);
  EXPECT_TRUE(read->front().has_alarm);
  EXPECT_EQ(decode_evidence("{\"assay_evidence\": 2, \"kernels\": []}", "x").error().message,
            "evidence of version 2; this Assay reads version 1");
  for (const char* other :
       {"", "[]", "{}", "{\"assay_evidence\": 1}", "{\"assay_evidence\": 1, \"kernels\": [{}]}"})
    EXPECT_EQ(decode_evidence(other, "x").error().message,
              "this is not evidence from assayd: expected the answer of /evidence");
}

}  // namespace
}  // namespace assay::monitor
