// Tensors larger than memory, and what a formula costs.
#include "trial/sparse.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "trial/plan.h"
#include "trial/work.h"

namespace assay::trial {
namespace {

using contract::Contract;

Contract whole_contract(const std::string& text) {
  auto contract = contract::parse(text);
  EXPECT_TRUE(contract) << contract.error().text();
  return std::move(*contract);
}

Contract gather(int64_t rows = 1048576) {
  return whole_contract(fmt::format(R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["table", "index", "y", "T", "D", "V"]
[dims]
T = {{ min = 1, max = 65536 }}
D = {{ min = 8, max = 8192, multiple_of = 8 }}
V = {{ min = 1, max = {} }}
[tensors.table]
dtype = "bf16"
shape = ["V", "D"]
values = "weights"
[tensors.index]
dtype = "i64"
shape = ["T"]
values = "index(V)"
[tensors.y]
dtype = "bf16"
shape = ["T", "D"]
role = "out"
[reference]
formula = "y[t, d] = table[index[t], d]"
)toml",
                                    rows));
}

TEST(FilledRows, HoldTheEndsAndWhereOffsetsOutgrow32Bits) {
  const int64_t columns = 4096, rows = 1 << 21;
  const std::vector<Rows> filled = filled_rows({rows, columns});
  const auto holds = [&](int64_t row) {
    return std::any_of(filled.begin(), filled.end(),
                       [&](const Rows& r) { return row >= r.first && row < r.first + r.count; });
  };
  for (const int64_t row :
       {int64_t{0}, rows - 1, (int64_t{1} << 31) / columns, (int64_t{1} << 31) / columns - 1,
        (int64_t{1} << 32) / columns, (int64_t{1} << 32) / columns - 1}) {
    EXPECT_TRUE(holds(row)) << row;
  }
  int64_t count = 0;
  for (const Rows& r : filled) count += r.count;
  EXPECT_LE(count, 16);
}

TEST(FilledRows, AreAllOfASmallTensorOnce) {
  int64_t next = 0;
  for (const Rows& r : filled_rows({5, 3})) {
    EXPECT_EQ(r.first, next);
    next = r.first + r.count;
  }
  EXPECT_EQ(next, 5);
}

TEST(SparseShapes, PassTheLimitWhereTheContractPromisesIt) {
  const Contract contract = gather();
  for (const double elements : {0x1p31, 0x1p32}) {
    const auto shapes = sparse_shapes(contract, elements, 10e9);
    ASSERT_EQ(shapes.size(), 1u);
    EXPECT_EQ(shapes[0].dim, "V");
    EXPECT_TRUE(contract.check_shape(shapes[0].shape));
    EXPECT_GE(static_cast<double>(shapes[0].shape.at("V")) * static_cast<double>(shapes[0].shape.at("D")),
              elements);
    EXPECT_LT(shapes[0].shape.at("T"), 10);
  }
  EXPECT_TRUE(sparse_shapes(contract, 0x1p31, 1e9).empty());       // more bytes than allowed
  EXPECT_TRUE(sparse_shapes(gather(1000), 0x1p31, 1e10).empty());  // the promise is smaller
}

TEST(SparseShapes, AreNotForTensorsThatAreReadWhole) {
  const Contract sums = whole_contract(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "N", "D"]
[dims]
N = { min = 1, max = 1048576 }
D = { min = 1, max = 8192 }
[tensors.x]
dtype = "bf16"
shape = ["N", "D"]
[tensors.y]
dtype = "f32"
shape = ["D"]
role = "out"
[reference]
formula = "y[d] += x[n, d]"
)");
  EXPECT_TRUE(sparse_shapes(sums, 0x1p31, 10e9).empty());
}

TEST(SparseInputs, NameOnlyRowsThatExist) {
  const Contract contract = gather();
  Trial trial;
  trial.sparse = "V";
  trial.shape = sparse_shapes(contract, 0x1p31, 10e9).at(0).shape;
  trial.shape["T"] = 64;
  const auto bindings = make_inputs(contract, trial);
  ASSERT_TRUE(bindings) << bindings.error().text();
  const contract::Tensor &table = *bindings->inputs.at("table"), &index = *bindings->inputs.at("index");
  const int64_t columns = trial.shape.at("D");
  int64_t largest = 0;
  for (int64_t t = 0; t < 64; ++t) {
    const int64_t row = index.load_int(t);
    ASSERT_LT(row, trial.shape.at("V"));
    double sum = 0;
    for (int64_t d = 0; d < columns; ++d) sum += std::abs(table.load(row * columns + d));
    EXPECT_GT(sum, 0) << row;
    largest = std::max(largest, row);
  }
  EXPECT_GT(largest * columns, int64_t{1} << 31);
  EXPECT_EQ(table.load(columns * 1000), 0);
  const auto back = from_json(contract, to_json(trial));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->sparse, "V");
}

// Three indices: the last row, and a row beyond each limit.
TEST(SparseInputs, ReachTheFarEndWithFewIndices) {
  const Contract contract = gather();
  Trial trial;
  trial.shape = {{"T", 3}, {"D", 4104}, {"V", 1048576}};
  trial.sparse = "V";
  for (trial.seed = 1; trial.seed < 20; ++trial.seed) {
    const auto inputs = make_inputs(contract, trial);
    ASSERT_TRUE(inputs);
    const contract::Tensor& index = *inputs->inputs.at("index");
    EXPECT_EQ(index.load_int(0), 1048575);
    EXPECT_GE(index.load_int(1) * 4104, (int64_t{1} << 32) - 3 * 4104);
    EXPECT_GE(index.load_int(2) * 4104, (int64_t{1} << 31) - 3 * 4104);
  }
}

TEST(Plan, HoldsSparseTrials) {
  const Contract contract = gather();
  Plan plan(contract, {});
  bool found = false;
  for (std::size_t left = plan.planned(); left > 0; --left) {
    const PlannedTrial planned = plan.next([](const contract::Shape&, bool) { return true; });
    found |= planned.trial.sparse == "V" && planned.brief;
  }
  EXPECT_TRUE(found);
}

TEST(Work, CountsWhatTheFormulaRepeats) {
  const Contract attention = whole_contract(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["q", "o", "S", "D"]
[dims]
S = { min = 1, max = 4096 }
D = { min = 1, max = 128 }
[tensors.q]
dtype = "f32"
shape = ["S", "D"]
[tensors.o]
dtype = "f32"
shape = ["S", "D"]
role = "out"
[reference]
formula = """
score[i, j] = sum[d](q[i, d] * q[j, d])
o[i, d] = sum[j | j <= i](score[i, j] * q[j, d]) / mean[k](q[i, k]^2)
"""
)");
  const Work work(attention);
  const double small = work.of({{"S", 100}, {"D", 10}})->steps,
               twice = work.of({{"S", 200}, {"D", 10}})->steps;
  EXPECT_GT(small, 2 * 100.0 * 100 * 10);    // two loops over S, S and D
  EXPECT_LT(small, 2.5 * 100.0 * 100 * 10);  // the mean is one over S and D, not over S, D and D
  EXPECT_NEAR(twice / small, 4, 0.2);
}

// A range that ends where another index is, or at a dim that follows from others.
TEST(Work, CountsRangesThatDependOnIndices) {
  const Contract causal = whole_contract(R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "T", "G"]
[dims]
T = { min = 1, max = 20000 }
G = { min = 1, max = 64 }
C = "4 * G"
[tensors.x]
dtype = "f32"
shape = ["T", "C"]
[tensors.y]
dtype = "f32"
shape = ["T"]
role = "out"
[reference]
formula = "y[t] = sum[s in 0..t + 1](sum[c in 0..C](x[s, c]) * 0.5^(t - s))"
)toml");
  EXPECT_GE(Work(causal).of({{"T", 1000}, {"G", 2}})->steps, 1e6 + 8 * 1000);
}

}  // namespace
}  // namespace assay::trial
