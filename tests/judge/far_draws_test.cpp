// Draws of elements 2^32 apart: of a counter of 64 bits, and of one of 32 bits, which repeats.
#include "judge/far_draws.h"

#include <gtest/gtest.h>

#include "base/random.h"
#include "contract/contract.h"

namespace assay::judge {
namespace {

using contract::Tensor;

constexpr int64_t kEnd = int64_t{1} << 32, kCount = kEnd + 512, kBlock = 256;

std::string found(const std::string& formula, bool is_mask, double keep, bool wraps) {
  auto contract = contract::parse(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "n"]
[dims]
n = { min = 1, max = 5000000000, type = "i64" }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = ")" + std::string(is_mask ? "u8" : "f32") +
                                  R"("
shape = ["n"]
role = "out"
[reference]
formula = ")" + formula + "\"\n");
  EXPECT_TRUE(contract) << contract.error().text();
  auto reference = reference::Reference::make(*contract);
  EXPECT_TRUE(reference) << reference.error().text();
  auto x = std::make_shared<Tensor>(Tensor::zeros(contract::DType::f32, {kCount}));
  auto y =
      std::make_shared<Tensor>(Tensor::zeros(is_mask ? contract::DType::u8 : contract::DType::f32, {kCount}));
  const Ranges written = {{0, kBlock}, {kEnd - kBlock, 2 * kBlock}};
  for (const auto& [first, count] : written)
    for (int64_t i = first; i < first + count; ++i) {
      const uint64_t counter = static_cast<uint64_t>(wraps ? i % kEnd : i);
      const bool drawn = static_cast<double>(mix(99, counter) >> 11) * 0x1p-53 < keep;
      x->store(i, 3);
      y->store(i, is_mask ? drawn : drawn ? 3 / keep : 0);
    }
  contract::Bindings bindings;
  bindings.shape = {{"n", kCount}};
  bindings.inputs["x"] = x;
  Options options;
  options.threads = 1;
  options.on_read = [](const std::string&, std::span<const int64_t>) { return true; };
  const auto findings = judge_far_draws(*reference, bindings, {{"y", y}}, {{"y", written}}, options);
  return findings.empty() ? "" : std::get<evidence::Numeric>(findings[0].evidence).misfit;
}

TEST(FarDraws, OfACounterOf64BitsAreIndependent) {
  EXPECT_EQ(found("y[i] = random(0.5)", true, 0.5, false), "");
  EXPECT_EQ(found("y[i] = if random(0.75) then x[i] / 0.75 else 0", false, 0.75, false), "");
}

TEST(FarDraws, OfACounterOf32BitsRepeat) {
  EXPECT_NE(found("y[i] = random(0.5)", true, 0.5, true), "");
  EXPECT_NE(found("y[i] = if random(0.75) then x[i] / 0.75 else 0", false, 0.75, true), "");
}

}  // namespace
}  // namespace assay::judge
