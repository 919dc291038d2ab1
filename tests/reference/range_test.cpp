// What underflow and overflow on the way make of a result is part of the budget.
#include <fmt/format.h>

#include <functional>
#include <limits>

#include "budget_support.h"

namespace assay::reference {
namespace {

using namespace testing;

// x / 3 is subnormal, so it loses up to half of the smallest number, and the product makes that a million times as large.
TEST(Budget, WhatUnderflowLosesIsPartOfTheDeviation) {
  const Contract contract = parsed(contract_text(R"toml([dims]
N = { min = 1, max = 1000 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "y[i] = x[i] / 3 * 1048576"
)toml"));
  const int64_t n = 1000;
  Bindings bindings;
  bindings.shape = {{"N", n}};
  bindings.inputs["x"] = normal(DType::f32, {n}, 5, 0x1p-132);
  std::vector<float> values;
  for (const float x : floats_of(bindings, "x")) values.push_back(x / 3.0f * 1048576.0f);
  const Outcome outcome = judged(expected(contract, bindings, "y"), values);
  EXPECT_EQ(outcome.outside, 0);
  EXPECT_LT(outcome.largest, 4);
}

// A probability that underflows, times an infinite value.
TEST(Budget, AFactorThatUnderflowsMayMakeNanOfAnInfinity) {
  const Contract contract = parsed(contract_text(R"toml([dims]
N = 3
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.z]
dtype = "f32"
shape = ["N"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "y[i] = exp(x[i]) * z[i]"
)toml"));
  constexpr double kInf = std::numeric_limits<double>::infinity(),
                   kNan = std::numeric_limits<double>::quiet_NaN();
  const double x[] = {-200, -1, -200}, z[] = {kInf, kInf, 3};
  Bindings bindings;
  bindings.shape = {{"N", 3}};
  bindings.inputs["x"] = share(Tensor::of(DType::f32, {3}, x));
  bindings.inputs["z"] = share(Tensor::of(DType::f32, {3}, z));
  const Expectation e = expected(contract, bindings, "y");
  EXPECT_TRUE(e.admits(0, kInf));
  EXPECT_TRUE(e.admits(0, kNan));
  EXPECT_FALSE(e.admits(0, 0));
  EXPECT_TRUE(e.admits(1, kInf));
  EXPECT_FALSE(e.admits(1, kNan));
  EXPECT_FALSE(e.admits(2, kNan));
}

// Two inputs of one shape; the kernel in float.
Outcome of_pairs(const std::string& reference, DType dtype, double x_size, double g_size,
                 const std::function<float(float, float)>& kernel) {
  const std::string name(contract::info(dtype).name);
  std::string text = "[dims]\nN = { min = 1, max = 1000 }\n";
  for (const char* tensor : {"x", "g", "y"})
    text += fmt::format("[tensors.{}]\ndtype = \"{}\"\nshape = [\"N\"]\nrole = \"{}\"\n", tensor, name,
                        tensor[0] == 'y' ? "out" : "in");
  const Contract contract = parsed(contract_text(text + "[reference]\n" + reference + "\n"));
  Bindings bindings;
  bindings.shape = {{"N", 1000}};
  bindings.inputs["x"] = normal(dtype, {1000}, 5, x_size);
  bindings.inputs["g"] = normal(dtype, {1000}, 6, g_size);
  const Floats x = floats_of(bindings, "x"), g = floats_of(bindings, "g");
  Floats values;
  for (std::size_t i = 0; i < x.size(); ++i) values.push_back(kernel(x[i], g[i]));
  return judged(expected(contract, bindings, "y"), values);
}

// A factor of 2^100 and more makes what underflow loses large: it belongs to the bound and to the deviation of
// every step that can underflow.
TEST(Budget, UnderflowBeforeALargeFactor) {
  const auto in_both = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.outside, 0);
    EXPECT_LT(outcome.largest, 4);
    EXPECT_GT(outcome.largest, 0);
  };
  in_both(of_pairs("formula = \"y[i] = exp(-100 - x[i]) * g[i]\"", DType::f32, 1, 0x1p100,
                   [](float x, float g) { return std::exp(-100 - x) * g; }));
  // Products of two bf16 numbers fit f32, unless they are subnormal there.
  in_both(of_pairs("formula = \"y[i] = x[i] * x[i] * g[i]\"", DType::bf16, 0x1p-71, 0x1p120,
                   [](float x, float g) { return x * x * g; }));
  // The reciprocal of a large number is subnormal.
  in_both(of_pairs("formula = \"y[i] = x[i] / (g[i] * 0 + 2.5e38)\"", DType::f32, 1e30, 1,
                   [](float x, float) { return x * (1.0f / 2.5e38f); }));
}

// What fast math does: subnormal operands and results become zeros.
TEST(Budget, FastMathFlushesOperandsAndResults) {
  const auto flushed = [](float x) { return std::abs(x) < 0x1p-126f ? 0.0f : x; };
  const Outcome operands = of_pairs("math = \"fast\"\nformula = \"y[i] = x[i] * g[i]\"", DType::f32, 0x1p-128,
                                    0x1p60, [&](float x, float g) { return flushed(x) * g; });
  EXPECT_EQ(operands.outside, 0);
  const Outcome results =
      of_pairs("math = \"fast\"\nformula = \"y[i] = x[i] * 0.5 * g[i]\"", DType::f32, 0x1p-126, 0x1p60,
               [&](float x, float g) { return flushed(flushed(x) * 0.5f) * g; });
  EXPECT_EQ(results.outside, 0);
  EXPECT_LT(std::max(operands.largest, results.largest), 4);
}

// 1 / (1 + exp(-x)) is 0 where the exp overflows the precision, and not before; a fast division gives 0 for divisors beyond 2^126.
TEST(Budget, ASigmoidIsZeroWhereItsExpOverflows) {
  const auto outside = [](const char* math, const char* expr,
                          const std::function<float(float, float)>& kernel) {
    return of_pairs(fmt::format("{}\nformula = \"y[i] = {}\"", math, expr), DType::f32, 0.2, 1, kernel)
        .outside;
  };
  const auto zero = [](float, float) { return 0.0f; };
  const auto sigmoid = [](float below) {
    return [below](float x, float) { return 1 / (1 + std::exp(below - x)); };
  };
  EXPECT_GT(outside("", "sigmoid(x[i] - 86)", zero), 0);
  EXPECT_GT(outside("", "sigmoid(x[i] * 0.1 - 88)", zero), 0);
  EXPECT_EQ(outside("", "sigmoid(x[i] - 95)", zero), 0);
  EXPECT_EQ(outside("math = \"fast\"", "sigmoid(x[i] * 0.1 - 88)", zero), 0);
  EXPECT_GT(outside("math = \"fast\"", "sigmoid(x[i] - 85)", zero), 0);
  for (const float below : {86.0f, 88.0f, 88.5f, 88.7f, 89.0f, 95.0f})
    EXPECT_EQ(outside("", fmt::format("sigmoid(x[i] - {})", below).c_str(), sigmoid(below)), 0) << below;
  // Of f16: exp(12) is beyond it.
  EXPECT_EQ(outside("accumulate = \"f16\"", "sigmoid(x[i] - 14)", zero), 0);
  EXPECT_GT(outside("accumulate = \"f16\"", "sigmoid(x[i] - 9)", zero), 0);
}

// 2^100 * 2^100 overflows whatever follows, also where the product has few enough bits to be exact.
TEST(Budget, ExactProductsMayOverflow) {
  const Outcome outcome = of_pairs("formula = \"y[i] = x[i] * x[i] * g[i]\"", DType::bf16, 0x1p100, 0x1p-100,
                                   [](float x, float g) { return x * x * g; });
  EXPECT_EQ(outcome.outside, 0);
}

// exp(100) is infinite in f32, and so is what a kernel makes of it, or NaN, also where the exact result is an ordinary number.
TEST(Budget, AnExpBeyondThePrecisionAdmitsWhatInfinityMakesOfIt) {
  const auto outside = [](const char* expr, const std::function<float(float, float)>& kernel) {
    return of_pairs(fmt::format("formula = \"y[i] = {}\"", expr), DType::f32, 1, 1, kernel).outside;
  };
  EXPECT_EQ(outside("exp(100 + x[i]) * (g[i] - g[i])",
                    [](float x, float g) { return std::exp(100 + x) * (g - g); }),
            0);
  EXPECT_EQ(outside("(g[i] - g[i]) * exp2(200 + x[i])",
                    [](float x, float g) { return (g - g) * std::exp2(200 + x); }),
            0);
  EXPECT_EQ(outside("exp(100 + x[i]) * 0.25 * 2.0 ^ -60",
                    [](float x, float) { return std::exp(100 + x) * 0x1p-62f; }),
            0);
  EXPECT_EQ(outside("exp(100 + x[i]) / 1e12", [](float x, float) { return std::exp(100 + x) / 1e12f; }), 0);
  EXPECT_EQ(outside("exp(100 + x[i]) - exp(100 + x[i]) + g[i]",
                    [](float x, float g) { return std::exp(100 + x) - std::exp(100 + x) + g; }),
            0);
  // Within the precision nothing of the kind is admitted, and as a divisor it leaves a zero.
  const auto nothing = [](float, float) { return std::numeric_limits<float>::quiet_NaN(); };
  EXPECT_EQ(outside("exp(80 + x[i]) * (g[i] - g[i])", nothing), 1000);
  EXPECT_EQ(outside("g[i] / exp(100 + x[i])", nothing), 1000);
}

// The sum of squares is beyond f32, its root is not: every kernel that does not scale first divides by infinity.
TEST(Budget, ADivisorThatOverflowsOnTheWayMayLeaveZero) {
  const auto outside = [](const char* expr, double size, const std::function<float(float, float)>& kernel) {
    return of_pairs(fmt::format("formula = \"y[i] = {}\"", expr), DType::f32, size, 1, kernel).outside;
  };
  const auto norm = [](float x, float g) { return std::sqrt(x * x + 4 * x * x + g); };
  EXPECT_EQ(outside("x[i] / sqrt(x[i]^2 + 4 * x[i]^2 + g[i])", 0x1p63,
                    [&](float x, float g) { return x / norm(x, g); }),
            0);
  EXPECT_EQ(outside("x[i] * rsqrt(x[i]^2 + 4 * x[i]^2 + g[i])", 0x1p63,
                    [&](float x, float g) { return x * (1 / norm(x, g)); }),
            0);
  EXPECT_EQ(outside("x[i] / max(sqrt(x[i]^2 + 4 * x[i]^2 + g[i]), 1e-12)", 0x1p63,
                    [&](float x, float g) { return x / std::max(norm(x, g), 1e-12f); }),
            0);
  EXPECT_EQ(outside("x[i] * sqrt(x[i]^2 + 4 * x[i]^2 + g[i]) ^ -1", 0x1p63,
                    [&](float x, float g) { return x * (1 / norm(x, g)); }),
            0);
  EXPECT_EQ(outside("tanh((x[i] * x[i] * 64 - x[i] * x[i] * 64) * 1e-30 + g[i] - g[i])", 0x1p63,
                    [](float x, float g) { return std::tanh((x * x * 64 - x * x * 64) * 1e-30f + g - g); }),
            0);
  // Where nothing overflows, zero is wrong.
  const auto zero = [](float, float) { return 0.0f; };
  EXPECT_EQ(outside("x[i] / sqrt(x[i]^2 + 4 * x[i]^2 + g[i])", 0x1p60, zero), 1000);
  EXPECT_EQ(outside("x[i] * rsqrt(x[i]^2 + 4 * x[i]^2 + g[i])", 0x1p60, zero), 1000);
  // And where it does, twice the result is.
  EXPECT_EQ(outside("x[i] / sqrt(x[i]^2 + 4 * x[i]^2 + g[i])", 0x1p63,
                    [](float x, float) { return std::copysign(1.0f, x); }),
            1000);
}

}  // namespace
}  // namespace assay::reference
