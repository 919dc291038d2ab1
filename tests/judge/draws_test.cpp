#include "judge/draws.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "judge/thresholds.h"

namespace assay::judge {
namespace {

using Probabilities = std::vector<double>;

// The distribution of the number of yeses, exactly.
Probabilities counts(const Probabilities& p) {
  Probabilities distribution = {1};
  for (const double one : p) {
    Probabilities next(distribution.size() + 1, 0.0);
    for (std::size_t k = 0; k < distribution.size(); ++k) {
      next[k] += distribution[k] * (1 - one);
      next[k + 1] += distribution[k] * one;
    }
    distribution = std::move(next);
  }
  return distribution;
}

TEST(Draws, TailsAreBoundsAndNearlyTight) {
  const Probabilities lists[] = {Probabilities(200, 0.5), Probabilities(500, 0.02), Probabilities(100, 0.97),
                                 [] {
                                   Probabilities mixed;
                                   for (int i = 0; i < 300; ++i) mixed.push_back((i % 19) / 19.0);
                                   return mixed;
                                 }()};
  for (const Probabilities& p : lists) {
    const Probabilities distribution = counts(p);
    double above = 0;
    for (std::size_t k = p.size() + 1; k-- > 0;) {
      above += distribution[k];
      const double bound = std::exp(tail(p, static_cast<double>(k), false));
      EXPECT_GE(bound, above * (1 - 1e-9)) << k;
      if (above < 1e-6 && above > 1e-200) {
        EXPECT_LT(std::log(bound), 0.7 * std::log(above)) << k;
      }
    }
    double below = 0;
    for (std::size_t k = 0; k <= p.size(); ++k) {
      below += distribution[k];
      EXPECT_GE(std::exp(tail(p, static_cast<double>(k), true)), below * (1 - 1e-9)) << k;
    }
  }
}

Draws draws_of(std::vector<int64_t> extents, double p, const std::function<bool(int64_t, double)>& draw,
               unsigned seed) {
  Draws draws{.name = "keep", .extents = std::move(extents)};
  int64_t count = 1;
  for (const int64_t extent : draws.extents) count *= extent;
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  for (int64_t i = 0; i < count; ++i) {
    draws.low.push_back(p);
    draws.high.push_back(p);
    draws.outcome.push_back(draw(i, uniform(random)));
  }
  return draws;
}

TEST(Draws, RightOnesAreNotOdd) {
  for (unsigned seed = 0; seed < 50; ++seed)
    for (const double p : {0.5, 0.1, 0.999, 0.0, 1.0}) {
      const Draws draws = draws_of(
          {20, 50}, p, [&](int64_t, double u) { return u < p; }, seed);
      EXPECT_FALSE(least_probable(draws)) << least_probable(draws)->text;
      // A test that is less probable than one in a hundred thousand, of a hundred: about never, too.
      EXPECT_FALSE(least_probable(draws, std::log(1e-5 / most_tests(draws.extents))));
    }
}

// Of right draws, no more fail than the bound says; and some do, where the gate is wide.
TEST(Draws, FalseAlarmsStayBelowTheirBound) {
  const std::vector<int64_t> extents = {1000};
  const double share = 0.25, gate = std::log(share / (2 * most_tests(extents)));
  int odd = 0;
  constexpr int kCalls = 400;
  for (unsigned seed = 0; seed < kCalls; ++seed)
    odd += least_probable(draws_of(
                              extents, 0.5, [](int64_t, double u) { return u < 0.5; }, seed),
                          gate)
               .has_value();
  EXPECT_LT(odd, share * kCalls);
  EXPECT_GT(odd, 0);
}

void expect_odd(const Draws& draws, const std::string& says) {
  const std::optional<FrequencyTest> odd = least_probable(draws);
  ASSERT_TRUE(odd) << says;
  EXPECT_LT(odd->log_p, kChoiceGate);
  EXPECT_NE(odd->text.find(says), std::string::npos) << odd->text;
}

TEST(Draws, WrongOnesAre) {
  const std::vector<int64_t> extents = {100, 100};
  expect_odd(draws_of(
                 extents, 0.9, [](int64_t, double u) { return u < 0.8; }, 1),
             "of 10000 draws are true, where 9000 are expected");
  expect_odd(draws_of(
                 extents, 0.5, [](int64_t i, double u) { return i < 9000 ? u < 0.5 : true; }, 2),
             "in part 16 of 16");
  expect_odd(draws_of(
                 extents, 0.5, [](int64_t i, double u) { return i % 100 < 96 ? u < 0.5 : true; }, 2),
             "at 93 to 99 of the last dimension");
  // One draw for each row, each column, each four.
  std::mt19937_64 random(3);
  std::vector<double> shared(10000);
  for (double& u : shared) u = std::uniform_real_distribution<double>()(random);
  const auto sharing = [&](const std::function<int64_t(int64_t)>& which) {
    return draws_of(
        extents, 0.9, [&](int64_t i, double) { return shared[static_cast<std::size_t>(which(i))] < 0.9; }, 4);
  };
  expect_odd(sharing([](int64_t i) { return i % 100; }), "equal the next along dimension 1");
  expect_odd(sharing([](int64_t i) { return i / 4; }), "equal the next one");
  expect_odd(sharing([](int64_t i) { return i % 256; }), "equal the one 256 places later");
}

TEST(Draws, RoundingToNearestIsNotStochastic) {
  Draws draws{.name = "y", .extents = {4000}, .yes = "rounded up"};
  std::mt19937_64 random(5);
  for (int i = 0; i < 4000; ++i) {
    const double part = std::uniform_real_distribution<double>()(random);
    draws.low.push_back(part);
    draws.high.push_back(part);
    draws.outcome.push_back(part >= 0.5);
  }
  const std::optional<FrequencyTest> odd = least_probable(draws);
  ASSERT_TRUE(odd);
  EXPECT_NE(odd->text.find("of probability"), std::string::npos) << odd->text;
}

}  // namespace
}  // namespace assay::judge
