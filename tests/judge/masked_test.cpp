#include "judge/masked.h"

#include <gtest/gtest.h>

#include <cmath>

#include "finding/print.h"
#include "judge/judge.h"

namespace assay::judge::testing {
namespace {

constexpr const char* kMaskedMax = R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "mask", "kept", "top", "stream"]
[tensors.x]
dtype = "f32"
shape = [4]
[tensors.mask]
dtype = "i32"
shape = [4]
values = "mask"
[tensors.kept]
dtype = "f32"
shape = [4]
role = "out"
[tensors.top]
dtype = "f32"
shape = [1]
role = "out"
[reference]
formula = """
kept[i] = mask[i] * x[i]
top[i] = max[k](x[k])
"""
)";

using contract::DType;
using contract::Tensor;

std::shared_ptr<const Tensor> floats(std::vector<double> values) {
  return std::make_shared<Tensor>(Tensor::of(DType::f32, {static_cast<int64_t>(values.size())}, values));
}

std::vector<Finding> judge_of(std::vector<double> kept, double top) {
  const auto contract = contract::parse(kMaskedMax);
  EXPECT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  contract::Bindings bindings;
  bindings.inputs["x"] = floats({NAN, 2, NAN, 3});
  const double mask[] = {0, 1, 1, 0};
  bindings.inputs["mask"] = std::make_shared<Tensor>(Tensor::of(DType::i32, {4}, mask));
  const auto judgement =
      judge(*contract, *reference, bindings, {{"kept", floats(std::move(kept))}, {"top", floats({top})}});
  EXPECT_TRUE(judgement) << judgement.error().text();
  return judgement->findings;
}

TEST(Masked, AnElementBehindAZeroMaskMayBeNanOrSkipped) {
  EXPECT_TRUE(judge_of({NAN, 2, NAN, 0}, NAN).empty());
  EXPECT_TRUE(judge_of({0, 2, NAN, 0}, NAN).empty());
}

TEST(Masked, ASkippedElementHasTheValueOfTheRest) {
  const auto findings = judge_of({1, 2, NAN, 0}, NAN);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, Kind::Nonfinite);
}

TEST(Masked, AnElementThatTheMaskKeepsMustShowItsNan) {
  const auto findings = judge_of({0, 2, 0, 0}, NAN);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, Kind::Nonfinite);
}

// softmax(s) * v: where the score is minus infinity, the probability is zero, and the value need not be looked at. Another
// kernel multiplies zero by infinity.
TEST(Masked, AnInfinityThatAnotherMakesAZeroOfMayBeSkipped) {
  const auto contract = contract::parse(R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["s", "v", "y", "stream"]
[tensors.s]
dtype = "f32"
shape = [2]
[tensors.v]
dtype = "f32"
shape = [2]
[tensors.y]
dtype = "f32"
shape = [1]
role = "out"
[reference]
formula = "y[i] = sum[k](exp(s[k]) * v[k]) / sum[k](exp(s[k]))"
)toml");
  ASSERT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  contract::Bindings bindings;
  bindings.inputs["s"] = floats({-INFINITY, 1});
  bindings.inputs["v"] = floats({INFINITY, 3});
  const auto judged = [&](double y) {
    const auto judgement = judge(*contract, *reference, bindings, {{"y", floats({y})}});
    EXPECT_TRUE(judgement) << judgement.error().text();
    return judgement->findings.size();
  };
  EXPECT_EQ(judged(3), 0u);
  EXPECT_EQ(judged(NAN), 0u);
  EXPECT_EQ(judged(2), 1u);
}

TEST(Masked, AMaximumThatIgnoresNanIsNotForgiven) {
  const auto findings = judge_of({NAN, 2, NAN, 0}, 3);
  ASSERT_EQ(findings.size(), 1u);
  EXPECT_EQ(findings[0].kind, Kind::Nonfinite);
}

// y = p - r (u + w p), as decoupled weight decay is written.
constexpr const char* kDecay = R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["p", "y", "stream"]
[tensors.p]
dtype = "f32"
shape = [2]
[tensors.y]
dtype = "f32"
shape = [2]
role = "out"
[reference]
formula = "y[i] = p[i] - 0.5 * (1 + 0.25 * p[i])"
)toml";

std::vector<Finding> judge_decay(std::vector<double> p, std::vector<double> y) {
  const auto contract = contract::parse(kDecay);
  EXPECT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  contract::Bindings bindings;
  bindings.inputs["p"] = floats(std::move(p));
  const auto judgement = judge(*contract, *reference, bindings, {{"y", floats(std::move(y))}});
  EXPECT_TRUE(judgement) << judgement.error().text();
  return judgement->findings;
}

TEST(Infinities, ANanOfTheFormulasOwnMakingMayBeAnInfinity) {
  EXPECT_TRUE(judge_decay({INFINITY, 2}, {NAN, 1.25}).empty());
  EXPECT_TRUE(judge_decay({INFINITY, 2}, {INFINITY, 1.25}).empty());
  EXPECT_FALSE(judge_decay({INFINITY, 2}, {7, 1.25}).empty()) << "a finite value hides it";
}

TEST(Infinities, ANanOfAnInputStaysOne) {
  EXPECT_TRUE(judge_decay({NAN, 2}, {NAN, 1.25}).empty());
  EXPECT_FALSE(judge_decay({NAN, 2}, {INFINITY, 1.25}).empty());
}

}  // namespace
}  // namespace assay::judge::testing
