// Discontinuous operations: near a tie or a boundary the budget admits both sides, and nothing between.
#include <fmt/format.h>

#include <limits>

#include "operators.h"

namespace assay::reference {
namespace {

using namespace testing;

Contract pair_contract(const std::string& formula, const std::string& dtype,
                       const std::string& settings = "") {
  return parsed(contract_text(fmt::format(R"toml([dims]
N = {{ min = 1, max = 100 }}
D = {{ min = 1, max = 100 }}
[tensors.a]
dtype = "f32"
shape = ["N", "D"]
[tensors.b]
dtype = "f32"
shape = ["N", "D"]
[tensors.y]
dtype = "{}"
shape = ["N"]
role = "out"
[reference]
formula = "y[n] = {}"
{}
)toml",
                                          dtype, formula, settings)));
}

Expectation pair_expected(const Contract& contract, const std::vector<double>& a,
                          const std::vector<double>& b, int64_t d) {
  Bindings bindings;
  const auto n = static_cast<int64_t>(a.size()) / d;
  bindings.shape = {{"N", n}, {"D", d}};
  bindings.inputs["a"] = share(Tensor::of(DType::f32, {n, d}, a));
  bindings.inputs["b"] = share(Tensor::of(DType::f32, {n, d}, b));
  return expected(contract, bindings, "y");
}

TEST(Discrete, ArgmaxAdmitsEveryIndexWithinTheBudgetOfTheLargest) {
  const float third = 1.0f / 3;
  const Expectation e =
      pair_expected(pair_contract("argmax[d](a[n, d] * b[n, d])", "i32"), {third, third, 0.1, 1, 2, 3},
                    {3, std::nextafter(3.0f, 4.0f), 3, 1, 1, 1}, 3);
  EXPECT_EQ(e.integer[0], 1);
  EXPECT_NE(e.flags[0] & kUndecided, 0);
  EXPECT_TRUE(e.admits(0, 0.0));
  EXPECT_TRUE(e.admits(0, 1.0));
  EXPECT_FALSE(e.admits(0, 2.0));
  EXPECT_EQ(e.flags[1] & kUndecided, 0);
  EXPECT_TRUE(e.admits(1, 2.0));
  EXPECT_FALSE(e.admits(1, 1.0));
}

// Distances to far points: their squares overflow in f32, so that a kernel cannot tell which is the nearest.
TEST(Discrete, ArgminAdmitsAnyOfThoseThatMayOverflow) {
  const Contract contract = pair_contract("argmin_any[d](a[n, d] * b[n, d])", "i32");
  const Expectation all = pair_expected(contract, {3e38, 1e38, 2e38}, {3e38, 3e38, 3e38}, 3);
  EXPECT_EQ(all.integer[0], 1);
  for (const double index : {0.0, 1.0, 2.0}) EXPECT_TRUE(all.admits(0, index)) << index;
  const Expectation none = pair_expected(contract, {3e18, 1e18, 2e18}, {3e18, 3e18, 3e18}, 3);
  EXPECT_TRUE(none.admits(0, 1.0));
  EXPECT_FALSE(none.admits(0, 0.0));
}

TEST(Discrete, AnIfOnANearTieAdmitsBothBranchesAndNothingBetween) {
  const Expectation e = pair_expected(pair_contract("if a[n, 0] * b[n, 0] > 1 then 10 else 20", "f32"),
                                      {1.0f / 3, 1, 2}, {3, 0.5, 3}, 1);
  EXPECT_TRUE(e.admits(0, 10.0));
  EXPECT_TRUE(e.admits(0, 20.0));
  EXPECT_FALSE(e.admits(0, 15.0));
  EXPECT_TRUE(e.admits(1, 20.0));
  EXPECT_FALSE(e.admits(1, 10.0));
  EXPECT_TRUE(e.admits(2, 10.0));
  EXPECT_FALSE(e.admits(2, 20.0));
}

TEST(Discrete, FloorAdmitsBothSidesOfAnIntegerWithinTheBudget) {
  const Expectation e =
      pair_expected(pair_contract("floor(a[n, 0] * b[n, 0])", "i32"), {1.0f / 3, 0.5}, {3, 3}, 1);
  EXPECT_TRUE(e.admits(0, 1.0));
  EXPECT_TRUE(e.admits(0, 0.0));
  EXPECT_FALSE(e.admits(0, 2.0));
  EXPECT_TRUE(e.admits(1, 1.0));
  EXPECT_FALSE(e.admits(1, 0.0));
}

// The last bin of a histogram: 5 * 0.1 * 10 may be 4 or 5 rounded down, and is cut to 4 either way.
TEST(Discrete, AMinimumDecidesBetweenIntegersAboveIt) {
  const auto admitted = [](const std::string& formula) {
    const Expectation e = pair_expected(pair_contract(formula, "i32"), {5}, {10}, 1);
    std::vector<int> list;
    for (int i = 0; i < 10; ++i)
      if (e.admits(0, static_cast<double>(i))) list.push_back(i);
    return list;
  };
  const std::string bin = "i32(floor(a[n, 0] * 0.1 * b[n, 0]))";
  EXPECT_GE(admitted(bin).size(), 2u);
  EXPECT_EQ(admitted(fmt::format("min({}, 4)", bin)), (std::vector<int>{4}));
  EXPECT_EQ(admitted(fmt::format("max({}, 7)", bin)), (std::vector<int>{7}));
  EXPECT_GE(admitted(fmt::format("min({}, 7)", bin)).size(), 2u);
}

TEST(Discrete, AStoreToFp8AdmitsBothNeighboursOnlyAtABoundary) {
  // 17 lies between 16 and 18 in e4m3: a tie. 1/3 * 51 is within rounding of it.
  const Expectation e =
      pair_expected(pair_contract("a[n, 0] * b[n, 0]", "e4m3"), {1.0f / 3, 1.0f / 3, 1000}, {51, 50, 1}, 1);
  EXPECT_TRUE(e.admits(0, 16.0));
  EXPECT_TRUE(e.admits(0, 18.0));
  EXPECT_FALSE(e.admits(0, 15.0));
  EXPECT_TRUE(e.admits(1, 16.0));
  EXPECT_FALSE(e.admits(1, 18.0));
  EXPECT_TRUE(e.admits(2, 448.0));  // saturates
  EXPECT_FALSE(e.admits(2, 416.0));
}

// Of a store that is written out as a cast. Rounding to bf16 first makes ties, and then another result.
TEST(Discrete, ACastToTheTypeOfTheOutputIsTheStore) {
  const std::vector<double> a = {18.97, 18.97, 1, 1}, b = {1, 1, 1, 1};
  for (const char* formula : {"a[n, 0] / b[n, 0]", "e4m3(a[n, 0] / b[n, 0])"}) {
    const Expectation e = pair_expected(pair_contract(formula, "e4m3"), a, b, 2);
    EXPECT_TRUE(e.admits(0, 18)) << formula;
    EXPECT_FALSE(e.admits(0, 20)) << formula;
  }
  const Expectation inner = pair_expected(pair_contract("e4m3(a[n, 0] / b[n, 0]) * 1", "e4m3"), a, b, 2);
  EXPECT_TRUE(inner.admits(0, 20)) << "a rounding that is allowed for";
}

TEST(Discrete, Float16OverflowsToInfinityByRoundingAndNearItEitherWay) {
  const double edge = 65520;  // halfway between the largest f16 and the next power
  const Expectation e = pair_expected(pair_contract("a[n, 0] * b[n, 0]", "f16"),
                                      {edge, 65000, 70000, 1.0f / 3}, {1, 1, 1, 3 * edge}, 1);
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(e.admits(0, inf));
  EXPECT_FALSE(e.admits(1, inf));
  EXPECT_TRUE(e.admits(1, 64992.0));
  EXPECT_TRUE(e.admits(2, inf));
  EXPECT_FALSE(e.admits(2, 65504.0));
  EXPECT_TRUE(e.admits(3, inf));
  EXPECT_TRUE(e.admits(3, 65504.0));
}

TEST(Discrete, NothingIsAdmittedButTheValueWhereNothingRounds) {
  const Expectation e = pair_expected(pair_contract("max(a[n, 0], b[n, 0])", "f32"), {0.1, -2}, {0.05, 7}, 1);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_NE(e.flags[i] & kExact, 0);
    EXPECT_TRUE(e.admits(i, e.value[i]));
    EXPECT_FALSE(e.admits(i, std::nextafter(static_cast<float>(e.value[i]), 100.0f)));
  }
}

TEST(Discrete, FastMathIsWiderThanStandardAndFlushes) {
  const std::vector<double> a = {5, 20}, b = {1, 1};
  const Expectation standard = pair_expected(pair_contract("exp(a[n, 0]) / (1 + b[n, 0])", "f32"), a, b, 1);
  const Expectation fast =
      pair_expected(pair_contract("exp(a[n, 0]) / (1 + b[n, 0])", "f32", "math = \"fast\""), a, b, 1);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_GT(fast.bound[i], 1.5 * standard.bound[i]);
  const std::vector<double> tiny = {1e-30}, small = {1e-10};
  const std::string product = "a[n, 0] * b[n, 0]";
  EXPECT_TRUE(pair_expected(pair_contract(product, "f32", "math = \"fast\""), tiny, small, 1).admits(0, 0.0));
  EXPECT_FALSE(pair_expected(pair_contract(product, "f32"), tiny, small, 1).admits(0, 0.0));
}

TEST(Discrete, OverriddenBudgetsAreWhatTheyAre) {
  const Expectation e = pair_expected(
      pair_contract("a[n, 0] * b[n, 0]", "f32", "[require]\nrtol = 0.1\natol = 0.5"), {2}, {5}, 1);
  EXPECT_TRUE(e.admits(0, 11.4));
  EXPECT_FALSE(e.admits(0, 11.6));
}

TEST(Discrete, AnIntermediateOverflowAdmitsItsResult) {
  const Expectation e =
      pair_expected(pair_contract("sqrt(a[n, 0]^2 + b[n, 0]^2)", "f32"), {1e30, 3}, {1e30, 4}, 1);
  EXPECT_TRUE(e.admits(0, std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(e.admits(0, 1.41421356e30));
  EXPECT_FALSE(e.admits(1, std::numeric_limits<double>::infinity()));
  EXPECT_TRUE(e.admits(1, 5.0));
}

}  // namespace
}  // namespace assay::reference
