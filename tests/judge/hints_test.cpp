// Two defects can explain the same errors to the bit. What the code makes likely decides then.
#include <gtest/gtest.h>

#include "base/random.h"
#include "finding/print.h"
#include "judge/judge.h"

namespace assay::judge {
namespace {

constexpr std::string_view kHinted = R"toml(
[kernel]
source = "k.cu"
entry  = "k"
args   = ["x", "y", "N", "stream"]
[dims]
N = { min = 1, max = 4096 }
[tensors.x]
dtype = "bf16"
shape = ["N", 2]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "y[n] = sum[d](x[n, d])"
)toml";

// Of two terms, the running sum is rounded once, and so is the finished one.
std::optional<Kind> kind_with(std::vector<Kind> hints) {
  constexpr int64_t kRows = 400;
  const auto contract = contract::parse(kHinted, "k.toml");
  EXPECT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  auto x = contract::Tensor::zeros(contract::DType::bf16, {kRows, 2});
  auto y = contract::Tensor::zeros(contract::DType::f32, {kRows});
  Random random(3);
  for (int64_t n = 0; n < kRows; ++n) {
    for (int64_t d = 0; d < 2; ++d) x.store(2 * n + d, static_cast<double>(random.between(1, 4000)) / 512);
    y.store(n, contract::rounded(contract::DType::bf16, x.load(2 * n) + x.load(2 * n + 1)));
  }
  contract::Bindings bindings;
  bindings.shape = {{"N", kRows}};
  bindings.inputs["x"] = std::make_shared<contract::Tensor>(x);
  Options options;
  options.hints = std::move(hints);
  const auto judgement =
      judge(*contract, *reference, bindings, {{"y", std::make_shared<contract::Tensor>(y)}}, options);
  EXPECT_TRUE(judgement);
  if (!judgement || judgement->findings.empty()) return std::nullopt;
  return judgement->findings.front().kind;
}

TEST(Hints, DecideBetweenEqualMatches) {
  EXPECT_EQ(kind_with({}), Kind::LowPrecisionAccumulation);
  EXPECT_EQ(kind_with({Kind::LowPrecisionAccumulation}), Kind::LowPrecisionAccumulation);
  EXPECT_EQ(kind_with({Kind::PrecisionLoss}), Kind::PrecisionLoss);
}

TEST(Hints, DoNotMakeABadMatchGood) {
  EXPECT_EQ(kind_with({Kind::BiasedRounding, Kind::WrongResult}), Kind::LowPrecisionAccumulation);
}

}  // namespace
}  // namespace assay::judge
