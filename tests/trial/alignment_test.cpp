// Tensors of which a contract promises little may happen to be aligned to more.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "trial/plan.h"
#include "trial/trial.h"

namespace assay::trial {
namespace {

contract::Contract slices(const std::string& align) {
  auto contract = contract::parse(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "n"]
[dims]
n = { min = 1, max = 5000 }
[tensors.x]
dtype = "f32"
shape = ["n"]
)" + align + R"(
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
)" + align + R"(
[reference]
formula = "y[i] = x[i]"
)");
  EXPECT_TRUE(contract) << contract.error().text();
  return std::move(*contract);
}

bool is_vector(const contract::Contract& contract, const char* tensor, const Condition& condition) {
  return alignment_of(*contract.tensor(tensor), condition) % 16 == 0;
}

TEST(Alignment, LiesBetweenWhatIsPromisedAndAFreshAllocation) {
  const contract::Contract contract = slices("align = 4");
  const contract::TensorSpec& x = *contract.tensor("x");
  EXPECT_EQ(alignment_of(x, {}), 4);
  EXPECT_EQ(alignment_of(x, {.alignment = kWellAligned}), 256);
  std::set<int64_t> seen;
  for (uint64_t seed = 2; seed < 200; ++seed) seen.insert(alignment_of(x, {.alignment = seed}));
  EXPECT_EQ(seen, (std::set<int64_t>{4, 8, 16, 32, 64, 128, 256}));
}

// A kernel may choose a path by the alignment of each of its arguments.
TEST(Alignment, VariesFromTensorToTensorInAPlan) {
  const contract::Contract contract = slices("align = 4");
  Plan plan(contract, {});
  std::set<std::pair<bool, bool>> first, all;
  for (int i = 0; i < 300; ++i) {
    const Condition condition = plan.next([](const contract::Shape&, bool) { return true; }).trial.condition;
    all.insert({is_vector(contract, "x", condition), is_vector(contract, "y", condition)});
    if (i < 60) first = all;
  }
  EXPECT_EQ(all.size(), 4u);
  EXPECT_TRUE(first.contains({true, true}) && first.contains({false, false}));
  const Plan unused(contract, {});
  std::set<std::string> required;
  for (const Requirement* one : unused.requirements().open()) required.insert(one->text);
  EXPECT_TRUE(required.contains("tensors aligned as fresh allocations"));
}

TEST(Alignment, IsNoQuestionOfFreshAllocations) {
  const contract::Contract contract = slices("");
  Plan plan(contract, {});
  for (int i = 0; i < 300; ++i)
    EXPECT_EQ(plan.next([](const contract::Shape&, bool) { return true; }).trial.condition.alignment, 0u);
}

TEST(Alignment, IsPartOfARecordedTrial) {
  const contract::Contract contract = slices("align = 4");
  Trial trial;
  trial.shape = {{"n", 5}};
  trial.condition.alignment = 77;
  const auto back = from_json(contract, to_json(trial));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->condition.alignment, 77u);
  EXPECT_EQ(to_string(trial), "n=5, tensors aligned by chance, seed 1");
}

}  // namespace
}  // namespace assay::trial
