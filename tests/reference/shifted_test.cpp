// What formulas with exps become before they are evaluated.
#include "reference/shifted.h"

#include <gtest/gtest.h>

#include <limits>

#include "support.h"

namespace assay::reference {
namespace {

using namespace testing;

struct Rewriting {
  const char* written;
  const char* evaluated;  // statements, a line each
};

const Rewriting kRewritings[] = {
    // A scale above and below.
    {"y[i] = exp(x[i]) / sum[k](exp(x[k]))",
     "exp(x[i] - max[k'](x[k'])) / sum[k](exp(x[k] - max[k'](x[k'])))"},
    {"y[i] = sum[k](exp(x[k]) * z[k]) / sum[k](exp(x[k]))",
     "sum[k](exp(x[k] - max[k'](x[k'])) * z[k]) / sum[k](exp(x[k] - max[k'](x[k'])))"},
    {"s = sum[k](exp(x[k]))\ny[i] = exp(x[i]) / s",
     "sum[k](exp(x[k]))\nexp(x[i] - max[k'](x[k'])) / sum[k'](exp(x[k'] - max[k''](x[k''])))"},
    {"y[i] = exp(x[i]) / (1 + exp(x[i]))", "1 / (exp(-x[i]) + 1)"},
    {"y[i] = x[i] * exp(x[i]) / (exp(x[i]) + 1)", "x[i] / (1 + exp(-x[i]))"},
    {"y[i] = exp(x[i]) / (exp(x[i]) + exp(z[i]))", "1 / (1 + exp(z[i] - x[i]))"},
    {"y[i] = (exp(x[i]) - exp(-x[i])) / (exp(x[i]) + exp(-x[i]))",
     "(exp(x[i] - max(x[i], -x[i])) - exp((-x[i]) - max(x[i], -x[i]))) / "
     "(exp(x[i] - max(x[i], -x[i])) + exp((-x[i]) - max(x[i], -x[i])))"},
    {"y[i] = exp(x[i]) * exp(z[i])", "exp(x[i] + z[i])"},
    {"y[i] = 2 * exp(x[i]) / exp(z[i])", "2 * exp(x[i] - z[i])"},
    {"y[i] = sqrt(exp(x[i])) * exp(z[i])^2", "exp((0.5 * x[i]) + (2 * z[i]))"},
    // A logarithm of a scale.
    {"y[i] = log(sum[k](exp(x[k])))", "(max[k'](x[k']) + log(sum[k](exp(x[k] - max[k'](x[k'])))))"},
    {"y[i] = log(exp(x[i]) / sum[k](exp(x[k])))",
     "((x[i] - max[k'](x[k'])) + log(1 / sum[k](exp(x[k] - max[k'](x[k'])))))"},
    {"y[i] = log2(sum[k](exp2(x[k])))", "(max[k'](x[k']) + log2(sum[k](exp2(x[k] - max[k'](x[k'])))))"},
    {"y[i] = log(1 + exp(x[i]))", "(max(0, x[i]) + log(exp(-max(0, x[i])) + exp(x[i] - max(0, x[i]))))"},
    {"y[i] = log1p(exp(x[i]))", "softplus(x[i])"},
    {"y[i] = log(exp(x[i]))", "(x[i] + 0)"},
    // Choices.
    {"y[i] = if exp(x[i]) < exp(z[i]) then 1 else 0",
     "if exp(x[i] - max(x[i], z[i])) < exp(z[i] - max(x[i], z[i])) then 1 else 0"},
    {"y[i] = argmax[k](exp(x[k]))", "argmax[k](exp(x[k] - max[k'](x[k'])))"},
    // What is left alone: no scale that cancels, or one that the formula takes out itself.
    {"y[i] = exp(x[i])", "exp(x[i])"},
    {"y[i] = 3 * exp(-x[i] * x[i])", "3 * exp((-x[i]) * x[i])"},
    {"y[i] = sum[k](exp(x[k]))", "sum[k](exp(x[k]))"},
    {"y[i] = 1 / (1 + exp(-x[i]))", "1 / (1 + exp(-x[i]))"},
    {"y[i] = x[i] / sum[k](exp(x[k]))", "x[i] / sum[k](exp(x[k]))"},
    {"m = max[k](x[k])\ny[i] = exp(x[i] - m) / sum[k](exp(x[k] - m))",
     "max[k](x[k])\nexp(x[i] - m) / sum[k](exp(x[k] - m))"},
    {"m max= x[k]\ne[i] = exp(x[i] - m)\ns += e[k]\ny[i] = e[i] / s", "x[k]\nexp(x[i] - m)\ne[k]\ne[i] / s"},
    {"m = max[k](x[k])\ny[i] = m + log(sum[k](exp(x[k] - m)))",
     "max[k](x[k])\nm + log(sum[k](exp(x[k] - m)))"},
    // A name that means something else by now.
    {"s = sum[k](exp(x[k]))\nw[i] = exp(x[i])\nw[i] = 1\ny[i] = w[i] / s",
     "sum[k](exp(x[k]))\nexp(x[i])\n1\nw[i] / s"},
};

TEST(Shifted, FormulasAreRewrittenWhereAScaleCancels) {
  const Contract contract = parsed(contract_text(R"toml([dims]
N = { min = 1, max = 64 }
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
formula = "y[i] = x[i] + z[i]"
)toml",
                                                 "\"x\", \"z\", \"y\""));
  for (const Rewriting& rewriting : kRewritings) {
    Result<Formula> formula = parse_formula(rewriting.written, Place{}, "test.toml", contract.names());
    ASSERT_TRUE(formula) << rewriting.written << ": " << formula.error().text();
    const Formula shifted = shift_exponentials(contract, *formula);
    std::string evaluated;
    for (const Statement& statement : shifted.statements)
      evaluated += (evaluated.empty() ? "" : "\n") + to_text(*statement.body);
    EXPECT_EQ(evaluated, rewriting.evaluated) << rewriting.written;
  }
}

// exp(x) of a segment, divided by its sum: a scatter and a gather.
TEST(Shifted, SumsAtComputedPlacesAreShiftedByTheirOwnMaximum) {
  const auto contract_with = [](const std::string& formula) {
    return parsed(contract_text(R"toml([dims]
N = { min = 1, max = 64 }
S = { min = 1, max = 64 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.seg]
dtype = "i32"
shape = ["N"]
values = "index(S)"
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = """
)toml" + formula + "\n\"\"\"\n",
                                "\"x\", \"seg\", \"y\""));
  };
  Bindings bindings;
  bindings.shape = {{"N", 6}, {"S", 4}};
  const double x[] = {1000, 1001, -2000, -2003, 5, 0.5}, seg[] = {0, 0, 2, 2, 1, 1};
  bindings.inputs["x"] = share(Tensor::of(DType::f32, {6}, x));
  bindings.inputs["seg"] = share(Tensor::of(DType::i32, {6}, seg));
  const Expectation e =
      expected(contract_with("z[s in 0..S] = 0.0\nz[seg[i]] += exp(x[i])\ny[i] = exp(x[i]) / z[seg[i]]"),
               bindings, "y");
  for (std::size_t i = 0; i < 6; ++i) {
    const double own = 1 / (1 + std::exp(x[i ^ 1] - x[i]));
    EXPECT_NEAR(e.value[i], own, 1e-12) << i;
    EXPECT_LT(e.bound[i], 1e-3 * own) << i;
    EXPECT_EQ(e.flags[i] & kMayOverflow, 0) << i;
  }
}

// A softmax is shifted whichever way its quotient is written: overflow is not admitted in any.
// Subtracting an infinite maximum gives NaN, which is forgiven; a number is not.
TEST(Shifted, ALogarithmOfAnInfinityIsNoNumber) {
  const Contract contract = parsed(contract_text(R"toml([dims]
N = 5
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
formula = "y[i] = log(exp(x[i]) + exp(z[i]))"
)toml"));
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double x[] = {kInf, -kInf, kInf, kInf, -kInf}, z[] = {kInf, -kInf, -kInf, 2, 2};
  Bindings bindings;
  bindings.shape = {{"N", 5}};
  bindings.inputs["x"] = share(Tensor::of(DType::f32, {5}, x));
  bindings.inputs["z"] = share(Tensor::of(DType::f32, {5}, z));
  const Expectation e = expected(contract, bindings, "y");
  for (const std::size_t i : {0, 2, 3}) {
    EXPECT_TRUE(e.admits(i, kInf)) << i;
    EXPECT_TRUE(e.admits(i, std::numeric_limits<double>::quiet_NaN())) << i;
    EXPECT_FALSE(e.admits(i, 0)) << i;
  }
  EXPECT_TRUE(e.admits(1, -kInf));
  EXPECT_FALSE(e.admits(1, 0));
  EXPECT_TRUE(e.admits(4, 2));
  EXPECT_FALSE(e.admits(4, kInf));
}

TEST(Shifted, ASoftmaxByAReciprocalMayNotOverflow) {
  for (const char* formula :
       {"y[i] = exp(x[i]) / sum[k](exp(x[k]))", "z = sum[k](exp(x[k]))\nr = 1 / z\ny[i] = exp(x[i]) * r",
        "y[i] = exp(x[i]) * (1 / sum[k](exp(x[k])))"}) {
    const Contract contract = parsed(contract_text(std::string(R"toml([tensors.x]
dtype = "f32"
shape = ["4"]
[tensors.y]
dtype = "f32"
shape = ["4"]
role = "out"
[reference]
formula = """
)toml") + formula + "\n\"\"\"\n"));
    Bindings bindings;
    const double x[] = {300, 301, 299, 0};
    bindings.inputs["x"] = share(Tensor::of(DType::f32, {4}, x));
    const Expectation e = expected(contract, bindings, "y");
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(e.flags[i] & kMayOverflow, 0) << formula << " " << i;
      EXPECT_FALSE(e.admits(i, std::numeric_limits<double>::quiet_NaN())) << formula << " " << i;
    }
  }
}

}  // namespace
}  // namespace assay::reference
