#include "train/right_candidate.h"

#include <gmock/gmock.h>

#include <cmath>

namespace assay::train {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Errors of approximate functions are given only to results that have one: anything else with such an error is a wrong kernel.
TEST(RightCandidate, OnlyResultsWithAFunctionOrAQuotientAreApproximate) {
  for (const char* name : {"embedding", "embedding_grad", "linear", "linear_grad_input", "linear_grad_weight",
                           "sgd", "momentum"})
    EXPECT_THAT(approximate_outputs(*slot_named(name)), IsEmpty()) << name;
  EXPECT_THAT(approximate_outputs(*slot_named("residual_rmsnorm")), ElementsAre("y"));
  EXPECT_THAT(approximate_outputs(*slot_named("adamw")), ElementsAre("p"));
  EXPECT_THAT(approximate_outputs(*slot_named("attention")), ElementsAre("lse", "o"));
  EXPECT_THAT(approximate_outputs(*slot_named("attention_grad")), ElementsAre("dk", "dq", "dv"));
  EXPECT_THAT(approximate_outputs(*slot_named("rope")), ElementsAre("y"));
}

std::shared_ptr<const contract::Tensor> filled(DType dtype, std::vector<int64_t> extents, double value) {
  contract::Tensor tensor = contract::Tensor::zeros(dtype, std::move(extents));
  for (int64_t i = 0; i < tensor.count(); ++i) tensor.store(i, value);
  return std::make_shared<const contract::Tensor>(std::move(tensor));
}

// Scores of 113 and tokens without a gradient. The slot's contract has `lse` between 4 and 8, so it is clamped, and exp(113 - 8) overflows in f32
// where the exact result is 0.
TEST(RightCandidate, OverflowOfClampedInputsIsNotAFinding) {
  const Slot& slot = *slot_named("attention_grad");
  contract::Bindings bindings;
  bindings.shape = {{"H", 1}, {"S", 4}, {"D", 2}};
  for (const char* name : {"q", "k"}) bindings.inputs[name] = filled(DType::bf16, {1, 4, 2}, 9);
  for (const char* name : {"v", "o"}) bindings.inputs[name] = filled(DType::bf16, {1, 4, 2}, 1);
  bindings.inputs["dout"] = filled(DType::bf16, {1, 4, 2}, 0);
  bindings.inputs["lse"] = filled(DType::f32, {1, 4}, 115);
  bindings.inputs["delta"] = filled(DType::f32, {1, 4}, 0);
  const Candidate candidate = examined(right_candidate(slot, "order", 1));
  const auto call = candidate.call(bindings);
  EXPECT_EQ(std::get<Outputs>(call).find("dq")->second.load(0), 0);  // as the model calls it
  const auto result = candidate.examine(bindings, {.threads = 1});
  const auto* const seen = std::get_if<Examined>(&result);
  ASSERT_TRUE(seen);
  EXPECT_THAT(seen->findings, IsEmpty());
  EXPECT_THAT(seen->problem, ::testing::HasSubstr("no longer consistent"));
}

}  // namespace
}  // namespace assay::train
