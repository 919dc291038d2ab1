// Rounding of arrays, and products in two orders.
#include "train/arithmetic.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "base/random.h"
#include "train/products.h"

namespace assay::train {
namespace {

std::vector<float> many_values() {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::denorm_min(),
                               0x1.01p0f,   // a tie, to even below
                               0x1.03p0f};  // a tie, to even above
  Random random(3);
  for (int i = 0; i < 100000; ++i)
    values.push_back(static_cast<float>(random.normal() * std::exp2(random.between(-30, 30))));
  return values;
}

TEST(Rounding, ToNearestIsThatOfTheContractsTypes) {
  Team team(2);
  for (const DType dtype : {DType::bf16, DType::f16, DType::e4m3}) {
    const std::vector<float> values = many_values();
    std::vector<float> rounded = values;
    round_to(team, dtype, std::span(rounded));
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(rounded[i], static_cast<float>(contract::rounded(dtype, values[i]))) << values[i];
  }
}

TEST(Rounding, KeepsNaN) {
  Team team(1);
  std::vector<float> values = {NAN, 1};
  round_to(team, DType::bf16, std::span(values));
  EXPECT_TRUE(std::isnan(values[0]));
  round_to(team, DType::bf16, std::span(values), 7);
  EXPECT_TRUE(std::isnan(values[0]));
}

TEST(Rounding, ByChanceGivesANeighbourAndTheRightMean) {
  Team team(2);
  constexpr float kValue = 0x1.005p0f;  // 5/32 of the way from 1 to the next bf16
  std::vector<float> values(200000, kValue);
  round_to(team, DType::bf16, std::span(values), 9);
  double total = 0;
  for (const float value : values) {
    ASSERT_TRUE(value == 1.0f || value == 0x1.02p0f) << value;
    total += value;
  }
  EXPECT_NEAR(total / static_cast<double>(values.size()), kValue, 5 * 0x1p-7 / std::sqrt(12.0 * 200000));
}

TEST(Rounding, ByChanceLeavesNumbersOfTheTypeAsTheyAre) {
  Team team(1);
  std::vector<float> values = many_values();
  round_to(team, DType::bf16, std::span(values));
  const std::vector<float> before = values;
  round_to(team, DType::bf16, std::span(values), 5);
  EXPECT_EQ(values, before);
}

TEST(Products, AgreeInBothOrdersAndAllLayouts) {
  constexpr int64_t m = 37, n = 300, k = 700;
  Team team(3);
  Random random(1);
  std::vector<double> a(m * k), b(k * n), at(m * k), bt(k * n), exact(m * n, 0), c(m * n);
  for (double& value : a) value = random.normal();
  for (double& value : b) value = random.normal();
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < k; ++j)
      at[static_cast<std::size_t>(j * m + i)] = a[static_cast<std::size_t>(i * k + j)];
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < n; ++j)
      bt[static_cast<std::size_t>(j * k + i)] = b[static_cast<std::size_t>(i * n + j)];
  for (int64_t i = 0; i < m; ++i)
    for (int64_t l = 0; l < k; ++l)
      for (int64_t j = 0; j < n; ++j)
        exact[static_cast<std::size_t>(i * n + j)] +=
            a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)];
  for (const bool reordered : {false, true}) {
    for (const Transposed transposed : {Transposed::None, Transposed::First, Transposed::Second}) {
      std::ranges::fill(c, NAN);
      multiply(team, transposed == Transposed::First ? at.data() : a.data(),
               transposed == Transposed::Second ? bt.data() : b.data(), c.data(), m, n, k, transposed,
               reordered);
      for (std::size_t i = 0; i < c.size(); ++i) ASSERT_NEAR(c[i], exact[i], 1e-11);
    }
  }
}

// In float the two orders differ: they are what the noise floor is made of.
TEST(Products, DifferInTheirLastBits) {
  constexpr int64_t m = 8, n = 64, k = 500;
  Team team(1);
  Random random(1);
  std::vector<float> a(m * k), b(k * n), c(m * n), d(m * n);
  for (float& value : a) value = static_cast<float>(random.normal());
  for (float& value : b) value = static_cast<float>(random.normal());
  multiply(team, a.data(), b.data(), c.data(), m, n, k, Transposed::None, false);
  multiply(team, a.data(), b.data(), d.data(), m, n, k, Transposed::None, true);
  int64_t differ = 0;
  for (std::size_t i = 0; i < c.size(); ++i) {
    EXPECT_NEAR(c[i], d[i], 1e-3);
    differ += c[i] != d[i];
  }
  EXPECT_GT(differ, m * n / 2);
}

// A run that is taken up again has its arrays elsewhere in memory.
TEST(Exponentials, DoNotDependOnWhereAnArrayLies) {
  Random random(5);
  for (const int64_t n : {1, 7, 31, 33, 100}) {
    std::vector<float> x(static_cast<std::size_t>(n));
    for (float& value : x) value = static_cast<float>(4 * random.normal());
    std::vector<float> exponential(x.size()), sigmoid(x.size());
    exponentials(x.data(), exponential.data(), n, 1.5f);
    sigmoids(x.data(), sigmoid.data(), n);
    for (int64_t shift = 1; shift < 16; ++shift) {
      std::vector<float> moved(x.size() + 16), y(x.size() + 16);
      std::ranges::copy(x, moved.begin() + shift);
      exponentials(moved.data() + shift, y.data() + (shift + 3) % 16, n, 1.5f);
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(y[static_cast<std::size_t>((shift + 3) % 16 + i)],
                  exponential[static_cast<std::size_t>(i)]);
      sigmoids(moved.data() + shift, y.data() + shift, n);
      for (int64_t i = 0; i < n; ++i)
        ASSERT_EQ(y[static_cast<std::size_t>(shift + i)], sigmoid[static_cast<std::size_t>(i)]);
    }
    EXPECT_NEAR(exponential[0], std::exp(x[0] - 1.5f), 1e-6 * exponential[0]);
    EXPECT_NEAR(sigmoid[0], 1 / (1 + std::exp(-x[0])), 1e-6);
  }
}

}  // namespace
}  // namespace assay::train
