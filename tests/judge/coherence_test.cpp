// Sums of few different terms: their roundings are alike, so their errors are no noise.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "judge/measure.h"
#include "operators.h"

namespace assay::judge::testing {
namespace {

const char kBag[] = R"toml([kernel]
source = "k.cu"
entry = "k"
args = ["table", "index", "mask", "y"]
[dims]
V = { min = 1, max = 4096 }
L = { min = 1, max = 16384 }
D = { min = 1, max = 16 }
[tensors.table]
dtype = "f32"
shape = ["V", "D"]
[tensors.index]
dtype = "i32"
shape = ["L"]
values = "index(V)"
[tensors.mask]
dtype = "u8"
shape = ["L"]
values = "mask"
[tensors.y]
dtype = "f32"
shape = ["D"]
role = "out"
[reference]
formula = "y[d] = sum[l](if mask[l] != 0 then table[index[l], d] else 0)"
)toml";

// Rows 0 and V - 1 of a table, thousands of times: a right kernel adds one after the other.
TEST(Coherence, OfTermsThatAnIndexPicksOverAndOver) {
  const auto contract = contract::parse(kBag);
  ASSERT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  ASSERT_TRUE(reference) << reference.error().text();
  EXPECT_EQ(reference->summed_inputs("y"), (std::set<std::string>{"index", "table"}));
  constexpr int64_t kTerms = 12000, kColumns = 16;
  Bindings bindings;
  bindings.shape = {{"V", 3}, {"L", kTerms}, {"D", kColumns}};
  Tensor table = Tensor::zeros(DType::f32, {3, kColumns}), index = Tensor::zeros(DType::i32, {kTerms}),
         mask = Tensor::zeros(DType::u8, {kTerms}), y = Tensor::zeros(DType::f32, {kColumns});
  for (int64_t i = 0; i < table.count(); ++i) table.store(i, 0.01 + 0.0123456789 * static_cast<double>(i));
  for (int64_t l = 0; l < kTerms; ++l) {
    index.store_int(l, l % 7 < 3 ? 0 : 2);
    mask.store_int(l, 1);
  }
  for (int64_t d = 0; d < kColumns; ++d) {
    float sum = 0;
    for (int64_t l = 0; l < kTerms; ++l)
      sum += static_cast<float>(table.load(index.load_int(l) * kColumns + d));
    y.store(d, sum);
  }
  bindings.inputs = {{"table", std::make_shared<const Tensor>(std::move(table))},
                     {"index", std::make_shared<const Tensor>(std::move(index))},
                     {"mask", std::make_shared<const Tensor>(std::move(mask))}};
  EXPECT_TRUE(sums_are_coherent(bindings, {"index"}));
  Outputs outputs;
  outputs["y"] = std::make_shared<const Tensor>(std::move(y));
  const auto judgement = judge(*contract, *reference, bindings, outputs);
  ASSERT_TRUE(judgement) << judgement.error().text();
  EXPECT_TRUE(judgement->findings.empty());
  // Every row once: errors of its sums are noise.
  Tensor all = Tensor::zeros(DType::i32, {kTerms});
  for (int64_t l = 0; l < kTerms; ++l) all.store_int(l, l);
  bindings.inputs["index"] = std::make_shared<const Tensor>(std::move(all));
  EXPECT_FALSE(sums_are_coherent(bindings, {"index"}));
}

const char kProducts[] = R"toml([kernel]
source = "k.cu"
entry = "k"
args = ["x", "y"]
[dims]
M = { min = 1, max = 4096 }
N = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["M", "N"]
[tensors.y]
dtype = "f32"
shape = ["M"]
role = "out"
[reference]
formula = "y[i] = prod[j](x[i, j])"
)toml";

// A warp for each row: every lane multiplies the same three numbers, rounds alike, and the lanes' products are multiplied in
// pairs, so that the error doubles with each step. Every row has the same.
TEST(Coherence, OfEqualFactors) {
  const auto contract = contract::parse(kProducts);
  ASSERT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  ASSERT_TRUE(reference) << reference.error().text();
  EXPECT_EQ(reference->summed_inputs("y"), (std::set<std::string>{"x"}));
  constexpr int64_t kRows = 17, kFactors = 96;
  for (const float factor : {0.80255318f, 0.8471f, 0.913f, 1.0377f, 1.0712345f}) {
    Bindings bindings;
    bindings.shape = {{"M", kRows}, {"N", kFactors}};
    Tensor x = Tensor::zeros(DType::f32, {kRows, kFactors}), y = Tensor::zeros(DType::f32, {kRows});
    for (int64_t i = 0; i < x.count(); ++i) x.store(i, factor);
    float product = factor * factor * factor;
    for (int step = 0; step < 5; ++step) product *= product;
    for (int64_t i = 0; i < kRows; ++i) y.store(i, product);
    bindings.inputs = {{"x", std::make_shared<const Tensor>(std::move(x))}};
    Outputs outputs;
    outputs["y"] = std::make_shared<const Tensor>(std::move(y));
    const auto judgement = judge(*contract, *reference, bindings, outputs);
    ASSERT_TRUE(judgement) << judgement.error().text();
    EXPECT_TRUE(judgement->findings.empty()) << factor;
  }
}

const char kSquares[] = R"toml([kernel]
source = "k.cu"
entry = "k"
args = ["x", "y"]
[dims]
M = { min = 1, max = 4096 }
N = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["M", "N"]
[tensors.y]
dtype = "f32"
shape = ["M"]
role = "out"
[reference]
formula = "y[i] = sum[j](tf32(x[i, j])^2)"
)toml";

// Integers of 12 bits, of which a quarter lie between two tf32 numbers: cvt.rna makes all of them larger.
TEST(Coherence, OfTiesThatAreRoundedAwayFromZero) {
  const auto contract = contract::parse(kSquares);
  ASSERT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  ASSERT_TRUE(reference) << reference.error().text();
  EXPECT_EQ(reference->inputs_with_free_ties("y"), (std::set<std::string>{"x"}));
  constexpr int64_t kRows = 64, kTerms = 512;
  Bindings bindings;
  bindings.shape = {{"M", kRows}, {"N", kTerms}};
  Tensor x = Tensor::zeros(DType::f32, {kRows, kTerms}), y = Tensor::zeros(DType::f32, {kRows});
  Random random(3);
  for (int64_t i = 0; i < x.count(); ++i) x.store(i, static_cast<double>(random.between(-4096, 4095)));
  for (int64_t i = 0; i < kRows; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < kTerms; ++j)
      sum += std::pow(contract::rounded_away(DType::tf32, x.load(i * kTerms + j)), 2);
    y.store(i, sum);
  }
  bindings.inputs = {{"x", std::make_shared<const Tensor>(std::move(x))}};
  EXPECT_TRUE(sums_are_coherent(bindings, *reference, "y"));
  Outputs outputs;
  outputs["y"] = std::make_shared<const Tensor>(std::move(y));
  const auto judgement = judge(*contract, *reference, bindings, outputs);
  ASSERT_TRUE(judgement) << judgement.error().text();
  EXPECT_TRUE(judgement->findings.empty());
  // Of ordinary floats hardly any is a tie.
  Tensor plain = Tensor::zeros(DType::f32, {kRows, kTerms});
  for (int64_t i = 0; i < plain.count(); ++i) plain.store(i, random.uniform(-1, 1));
  bindings.inputs = {{"x", std::make_shared<const Tensor>(std::move(plain))}};
  EXPECT_FALSE(sums_are_coherent(bindings, *reference, "y"));
}

}  // namespace
}  // namespace assay::judge::testing
