// Samples against the contract: what is proof, what is evidence, and what is neither.
#include "assayd/sample_judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "monitor/detector.h"

namespace assay::assayd {
namespace {

using contract::DType;
using contract::Tensor;

constexpr const char* kRowSums = R"(
[kernel]
source = "row_sum.cu"
entry = "row_sum"
args = ["x", "y", "rows", "columns"]
[dims]
rows = { min = 1, max = 65536 }
columns = { min = 1, max = 65536 }
[tensors.x]
dtype = "bf16"
shape = ["rows", 2, "columns"]
[tensors.y]
dtype = "bf16"
shape = ["rows", 2]
role = "out"
[reference]
formula = "y[r, h] += x[r, h, c]"
)";

struct RowSums {
  contract::Contract contract = *contract::parse(kRowSums, "row_sum.toml");
  reference::Reference reference = *reference::Reference::make(contract);
  monitor::Settings settings{.elements = 64};
  SampleJudge judge{contract, reference, settings, false};

  // Sums as a kernel makes them, in f32; one in `wrong` of them is then an ulp off.
  Result<SampleVerdict> sample(uint64_t seed, double wrong) const {
    constexpr int64_t kRows = 64, kColumns = 512;
    Random random(seed);
    Tensor x = Tensor::zeros(DType::bf16, {kRows, 2, kColumns}), y = Tensor::zeros(DType::bf16, {kRows, 2});
    for (int64_t r = 0; r < 2 * kRows; ++r) {
      float sum = 0;
      for (int64_t c = 0; c < kColumns; ++c) {
        x.store(r * kColumns + c, random.uniform(-1, 1));
        sum += static_cast<float>(x.load(r * kColumns + c));
      }
      y.store(r, sum);
      uint16_t code = 0;
      std::memcpy(&code, y.at(r), 2);
      code = static_cast<uint16_t>(code + (random.uniform() < wrong));
      std::memcpy(y.at(r), &code, 2);
    }
    contract::Bindings bindings;
    bindings.shape = {{"rows", kRows}, {"columns", kColumns}};
    bindings.inputs["x"] = std::make_shared<const Tensor>(std::move(x));
    return judge.judge(bindings, {{"y", std::make_shared<const Tensor>(std::move(y))}}, seed);
  }
};

TEST(SampleJudge, ARightKernelIsNotSuspected) {
  const RowSums sums;
  monitor::Detector detector(1e9);
  uint64_t differing = 0;
  double mean = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const auto verdict = sums.sample(seed, 0);
    ASSERT_TRUE(verdict) << verdict.error().text();
    EXPECT_EQ(verdict->violations, 0);
    EXPECT_GE(verdict->judged, 40);  // of 64 that were drawn, some twice
    EXPECT_GT(verdict->mean, 0);
    differing += verdict->differing;
    mean += verdict->mean;
    EXPECT_FALSE(detector.add(verdict->differing, verdict->mean));
  }
  EXPECT_LE(static_cast<double>(differing), mean);  // the budget bounds how many differ
}

TEST(SampleJudge, WrongRoundingsAreFoundThoughEachIsSmall) {
  const RowSums sums;
  monitor::Detector detector(1e9);
  uint64_t seed = 1;
  for (; seed <= 50 && !detector.is_alarmed(); ++seed) {
    const auto verdict = sums.sample(seed, 0.02);
    ASSERT_TRUE(verdict);
    detector.add(verdict->differing, verdict->mean);
  }
  EXPECT_TRUE(detector.is_alarmed());
  EXPECT_LT(seed, 20u);
}

TEST(SampleJudge, AWrongClassIsProof) {
  const RowSums sums;
  contract::Bindings bindings;
  bindings.shape = {{"rows", 1}, {"columns", 2}};
  bindings.inputs["x"] =
      std::make_shared<const Tensor>(Tensor::of(DType::bf16, {1, 2, 2}, std::vector<double>{1, 2, 3, 4}));
  const auto verdict = sums.judge.judge(
      bindings,
      {{"y", std::make_shared<const Tensor>(Tensor::of(DType::bf16, {1, 2}, std::vector<double>{3, NAN}))}},
      1);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->violations, 1);
  EXPECT_EQ(verdict->of_class, 1);
  EXPECT_EQ(verdict->worst.element, "y[0, 1]");
}

}  // namespace
}  // namespace assay::assayd
