// Samples against the contract: what is proof, what is evidence, and what is neither.
#include "assayd/sample_judge.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "assayd/watched.h"
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

// Of an output with one dim, every element with sums of its own is evidence; where they share one, a single element is.
TEST(SampleJudge, AListOfSumsIsEvidence) {
  for (const bool is_shared : {false, true}) {
    std::string text = kRowSums;
    const auto replace = [&](const std::string& from, const std::string& to) {
      text.replace(text.find(from), from.size(), to);
    };
    replace("shape = [\"rows\", 2, \"columns\"]", "shape = [\"rows\", \"columns\"]");
    replace("shape = [\"rows\", 2]", "shape = [\"rows\"]");
    replace("y[r, h] += x[r, h, c]",
            is_shared ? "y[r] = sum[c](x[r, c]) / sum[k, c](x[k, c])" : "y[r] += x[r, c]");
    const contract::Contract contract = *contract::parse(text, "row_sum.toml");
    const reference::Reference reference = *reference::Reference::make(contract);
    constexpr int64_t kRows = 64, kColumns = 100;
    Tensor x = Tensor::zeros(DType::bf16, {kRows, kColumns}), y = Tensor::zeros(DType::bf16, {kRows});
    Random random(5);
    std::vector<float> sums(kRows);
    float all = 0;
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      x.store(i, random.uniform(0, 1));
      sums[static_cast<std::size_t>(i / kColumns)] += static_cast<float>(x.load(i));
      all += static_cast<float>(x.load(i));
    }
    for (int64_t r = 0; r < kRows; ++r)
      y.store(r, is_shared ? sums[static_cast<std::size_t>(r)] / all : sums[static_cast<std::size_t>(r)]);
    contract::Bindings bindings;
    bindings.shape = {{"rows", kRows}, {"columns", kColumns}};
    bindings.inputs["x"] = std::make_shared<const Tensor>(std::move(x));
    const auto shared_y = std::make_shared<const Tensor>(std::move(y));
    const auto judged = [&](int64_t elements) {
      const monitor::Settings settings{.elements = elements};
      auto verdict = SampleJudge(contract, reference, settings, false).judge(bindings, {{"y", shared_y}}, 1);
      EXPECT_TRUE(verdict) << verdict.error().text();
      EXPECT_EQ(verdict->violations, 0);
      return verdict->mean;
    };
    const double all_elements = judged(kRows), few_elements = judged(1);
    EXPECT_GT(few_elements, 0);
    if (is_shared)
      EXPECT_EQ(all_elements, few_elements);
    else
      EXPECT_GT(all_elements, 5 * few_elements);
  }
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

// What a kernel draws at random is judged as a choice: either result is right, a third one is not.
TEST(SampleJudge, RandomDrawsAreChoices) {
  const contract::Contract contract = *contract::parse(R"(
[kernel]
source = "dropout.cu"
entry = "dropout"
args = ["x", "y", "n"]
[dims]
n = { min = 1, max = 65536 }
[tensors.x]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = if random(0.5) then x[i] * 2 else 0"
)",
                                                       "dropout.toml");
  const auto reference = reference::Reference::make(contract);
  ASSERT_TRUE(reference) << reference.error().text();
  const monitor::Settings settings{.elements = 64};
  const SampleJudge judge(contract, *reference, settings, false);
  constexpr int64_t kCount = 512;
  Tensor x = Tensor::zeros(DType::f32, {kCount}), y = x;
  Random random(11);
  for (int64_t i = 0; i < kCount; ++i) {
    x.store(i, random.uniform(1, 2));
    y.store(i, random.uniform() < 0.5 ? 2 * x.load(i) : 0);
  }
  contract::Bindings bindings;
  bindings.shape = {{"n", kCount}};
  bindings.inputs["x"] = std::make_shared<const Tensor>(x);
  const auto violations = [&](const Tensor& seen) {
    const auto verdict = judge.judge(bindings, {{"y", std::make_shared<const Tensor>(seen)}}, 1);
    EXPECT_TRUE(verdict) << verdict.error().text();
    return verdict ? verdict->violations : -1;
  };
  EXPECT_EQ(violations(y), 0);
  Tensor third = y;
  for (int64_t i = 0; i < kCount; ++i) third.store(i, 1.5 * x.load(i));
  EXPECT_GT(violations(third), 0);
}

Drift drift_after(double scale, int samples) {
  Drift drift;
  certificate::ErrorProfile certified;
  certified.edges.assign(judge::ErrorProfile::kEdges.begin(), judge::ErrorProfile::kEdges.end());
  for (const double edge : certified.edges) certified.beyond.push_back(std::erfc(edge / std::sqrt(2.0)));
  certified.elements = 100'000;
  drift.expect(certified);
  Random random(7);
  for (int i = 0; i < samples; ++i) {
    judge::ErrorProfile errors;
    for (int j = 0; j < 256; ++j) {
      const double u = random.uniform(), v = random.uniform();
      judge::Element element;
      element.counts = true;
      element.z = scale * std::sqrt(-2 * std::log1p(-u)) * std::cos(6.283185307179586 * v);
      errors.add(element);
    }
    drift.add(errors);
  }
  return drift;
}

TEST(Drift, ErrorsLargerThanCertifiedAreNoticed) {
  EXPECT_EQ(drift_after(1, 10).value(), std::nullopt) << "too few elements";
  EXPECT_LT(*drift_after(1, 400).value(), 0.02);
  EXPECT_EQ(*drift_after(0.5, 400).value(), 0) << "smaller errors are no concern";
  EXPECT_GT(*drift_after(2, 400).value(), kMuchDrift);
  EXPECT_EQ(Drift().value(), std::nullopt) << "nothing was certified";
}

}  // namespace
}  // namespace assay::assayd
