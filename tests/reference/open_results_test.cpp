// What the budget leaves open: casts under another shift, NaN and infinity that a sound rewriting makes, undecided guards and
// indices. And what it does not.
#include <fmt/format.h>

#include <limits>

#include "base/random.h"
#include "budget_support.h"
#include "numerics/half.h"

namespace assay::reference {
namespace {

using namespace testing;

// How many of 4,096 products w * bf16(exp(x - m)) a kernel gets wrong that takes shifts other than m, and divides by
// exp of the difference afterwards, as an online softmax does.
int64_t outside_with_other_shifts(const std::string& exponent) {
  constexpr int kTerms = 64;
  const Contract contract = parsed(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "w", "y", "stream"]
[tensors.x]
dtype = "f32"
shape = [64, 64]
[tensors.w]
dtype = "f32"
shape = [64, 64]
[tensors.y]
dtype = "f32"
shape = [64, 64]
role = "out"
[reference]
formula = "y[i, j] = bf16(exp()" + exponent +
                                   R"()) * w[i, j]"
)");
  Bindings bindings;
  bindings.inputs["x"] = normal(DType::f32, {kTerms, kTerms}, 5);
  bindings.inputs["w"] = normal(DType::f32, {kTerms, kTerms}, 6);
  const Expectation e = expected(contract, bindings, "y");
  const Floats x = floats_of(bindings, "x"), w = floats_of(bindings, "w");
  Random random(8);
  std::vector<float> got;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double lower = random.between(0, 1000) * 1e-3;  // the shift, below that of the formula
    const double p = e.value[i] / double{w[i]};
    const float rounded =
        numerics::bf16_to_f32(numerics::f32_to_bf16_rn(static_cast<float>(p * std::exp(lower))));
    got.push_back(static_cast<float>(double{rounded} * std::exp(-lower) * double{w[i]}));
  }
  return judged(e, got).outside;
}

TEST(Budget, AnExpThatIsShiftedByAMaximumMayBeRoundedWithAnyOtherShift) {
  EXPECT_EQ(outside_with_other_shifts("x[i, j] - max[k](x[i, k])"), 0);
  EXPECT_GT(outside_with_other_shifts("x[i, j] - 1.5"), 100);
}

// Welford's running mean is NaN from the element after an infinity on, and so is a mean of merged parts.
TEST(Budget, TheMeanThatAVarianceIsAboutMayBeNanWhereItIsInfinite) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto expectation = [](const std::string& variance) {
    const Contract contract = parsed(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "mu", "var", "stream"]
[tensors.x]
dtype = "f32"
shape = [4, 8]
[tensors.mu]
dtype = "f32"
shape = [4]
role = "out"
[tensors.var]
dtype = "f32"
shape = [4]
role = "out"
[reference]
formula = """
m[i] = mean[k](x[i, k])
mu[i] = 2 * m[i]
var[i] = )" + variance + R"(
"""
)");
    Tensor x = *normal(DType::f32, {4, 8}, 3);
    x.store(5, infinity);
    Bindings bindings;
    bindings.inputs["x"] = share(std::move(x));
    return expected(contract, bindings, "mu");
  };
  const Expectation about = expectation("mean[k]((x[i, k] - m[i])^2)"),
                    zero = expectation("mean[k](x[i, k]^2)");
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(about.admits(0, infinity));
  EXPECT_TRUE(about.admits(0, nan));
  EXPECT_FALSE(about.admits(0, 1e30));
  EXPECT_FALSE(about.admits(1, nan));
  EXPECT_TRUE(zero.admits(0, infinity));
  EXPECT_FALSE(zero.admits(0, nan));
}

// A power of two that may be twice or half as large: the interval begins at zero, of which e8m0 has no number.
TEST(Budget, AScaleWithoutASignMayBeUndecidedByAFactorOfTwo) {
  const Contract contract = parsed(R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "s", "stream"]
[tensors.x]
dtype = "f32"
shape = [4]
[tensors.s]
dtype = "e8m0"
shape = [4]
role = "out"
[reference]
formula = "s[i] = exp2(floor(log2(x[i])) - 8)"
)toml");
  Tensor x = Tensor::zeros(DType::f32, {4});
  const double values[] = {2, 4, 0x1p-20, 3};
  for (int i = 0; i < 4; ++i) x.store(i, values[i]);
  Bindings bindings;
  bindings.inputs["x"] = share(std::move(x));
  const Expectation e = expected(contract, bindings, "s");
  for (std::size_t i = 0; i < 4; ++i) {
    const double s = std::exp2(std::floor(std::log2(values[i])) - 8);
    EXPECT_TRUE(e.admits(i, s)) << values[i];
    EXPECT_FALSE(e.admits(i, 4 * s)) << values[i];
  }
  EXPECT_TRUE(e.admits(0, 0x1p-8)) << "the logarithm just below 1";
  EXPECT_FALSE(e.admits(3, 0x1p-8));
}

TEST(Budget, AFunctionThatIsExactlyZeroDecidesAComparison) {
  const Contract contract = parsed(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "stream"]
[tensors.x]
dtype = "f32"
shape = [2, 8]
[tensors.y]
dtype = "f32"
shape = [2, 8]
role = "out"
[reference]
formula = """
n[i] = sqrt(sum[k](x[i, k]^2))
y[i, j] = if n[i] != 0 then x[i, j] * n[i] else 5 + log(x[i, j] + 1)
"""
)");
  Tensor x = *normal(DType::f32, {2, 8}, 4);
  for (int i = 0; i < 8; ++i) x.store(i, 0);
  Bindings bindings;
  bindings.inputs["x"] = share(std::move(x));
  const Expectation e = expected(contract, bindings, "y");
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_TRUE(e.admits(i, 5));
    EXPECT_FALSE(e.admits(i, 0)) << "what there would be of a norm that is not zero";
  }
}

// p * 0.1 * 10 is 5, and less for a kernel that rounds down: the place 5 is guarded, and asked for all the same.
TEST(Budget, AGuardedPlaceMayBeOutsideWhereItsGuardIsOpen) {
  const Contract contract = parsed(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "p", "y", "stream"]
[tensors.x]
dtype = "f32"
shape = [5]
[tensors.p]
dtype = "f32"
shape = [2]
[tensors.y]
dtype = "f32"
shape = [2]
role = "out"
[reference]
formula = """
i[k] = i32(floor(p[k] * 0.1 * 10))
y[k] = if i[k] < 5 then x[i[k]] else 7
"""
)");
  Tensor p = Tensor::zeros(DType::f32, {2});
  p.store(0, 5);
  p.store(1, 6.5);
  Bindings bindings;
  bindings.inputs["x"] = normal(DType::f32, {5}, 9);
  bindings.inputs["p"] = share(std::move(p));
  const Expectation e = expected(contract, bindings, "y");
  EXPECT_TRUE(e.admits(0, 7));
  EXPECT_TRUE(e.admits(0, bindings.inputs["x"]->load(4)));
  EXPECT_TRUE(e.admits(1, 7));
  EXPECT_FALSE(e.admits(1, bindings.inputs["x"]->load(4)));
}

// The sum of weights and values is 6e38 before it is divided by the sum of the weights.
TEST(Budget, AWeightedSumMayOverflowByItsValues) {
  for (const std::string shifted : {"exp(s[j] - max[k](s[k]))", "exp(s[j])"}) {
    const Contract contract = parsed(R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["s", "v", "y", "stream"]
[tensors.s]
dtype = "f32"
shape = [3]
[tensors.v]
dtype = "f32"
shape = [3]
[tensors.y]
dtype = "f32"
shape = [1]
role = "out"
[reference]
formula = """
p[j] = )toml" + shifted + R"toml(
y[i] = sum[j](p[j] * v[j]) / sum[j](p[j]) + i
"""
)toml");
    const auto expectation = [&](double value, double last = 0) {
      Bindings bindings;
      bindings.inputs["s"] = share(Tensor::of(DType::f32, {3}, std::vector<double>{95, 95, last}));
      bindings.inputs["v"] = share(Tensor::of(DType::f32, {3}, std::vector<double>{value, value, 1}));
      return expected(contract, bindings, "y");
    };
    const Expectation large = expectation(3e38), small = expectation(3);
    EXPECT_NEAR(large.value[0], 3e38, 1e32);
    EXPECT_TRUE(large.admits(0, 3e38));
    EXPECT_TRUE(large.admits(0, std::numeric_limits<double>::infinity()));
    EXPECT_FALSE(large.admits(0, 2e38));
    EXPECT_FALSE(small.admits(0, std::numeric_limits<double>::infinity())) << "exp(95) without a shift";
    // A sum of 4e38 before the third key comes, whose score is the largest.
    const Expectation later = expectation(2e38, 100);
    EXPECT_LT(std::abs(later.value[0]), 3e37);
    EXPECT_TRUE(later.admits(0, std::numeric_limits<double>::infinity()));
  }
}

// What it costs to judge an element goes by what is asked about, not by what passes.
TEST(Budget, ASumWithAFilterAsksAboutAllOfItsRange) {
  const auto asked = [](const std::string& sum) {
    const Contract contract = parsed(R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "stream"]
[tensors.x]
dtype = "i32"
shape = [512]
values = "index(16)"
[tensors.y]
dtype = "i32"
shape = [16]
role = "out"
[reference]
formula = "y[b] = )toml" + sum + "\"\n");
    Bindings bindings;
    bindings.inputs["x"] = uniform_integers(DType::i32, {512}, 0, 15, 2);
    const Expectation e = expected(contract, bindings, "y");
    for (const double terms : e.terms) EXPECT_LE(terms, 512);
    return e.asked_terms;
  };
  EXPECT_EQ(asked("sum[i | x[i] == b](1)"), 512);
  EXPECT_EQ(asked("1 + sum[i | x[i] == b](2)"), 512);
  EXPECT_EQ(asked("sum[i](if x[i] == b then 1 else 0)"), 0) << "all of them are terms";
}

}  // namespace
}  // namespace assay::reference
