// Which of a slot's tensors a contract's are: as [workload] says it, and as the formula shows it.
#include "train/binding.h"

#include <gmock/gmock.h>

#include "folders.h"
#include "train/recognise.h"

namespace assay::train {
namespace {

using ::testing::HasSubstr;

contract::Contract parsed(const std::string& text) {
  auto contract = contract::parse(text, "kernel.toml");
  EXPECT_TRUE(contract) << contract.error().text() << "\n" << text;
  return std::move(*contract);
}

// y[t, j] = silu(h[t, 0, j]) * h[t, 1, j], with whatever [workload] says.
std::string packed_swiglu(const std::string& workload) {
  return R"([kernel]
source = "k.cu"
entry = "k"
args = ["h", "y", "T", "J", "stream"]
[dims]
T = { min = 1, max = 64 }
J = { min = 1, max = 64 }
[tensors.h]
dtype = "f16"
shape = ["T", "2", "J"]
[tensors.y]
dtype = "f16"
shape = ["T", "J"]
role = "out"
[reference]
formula = "y[t, j] = h[t, 0, j] * sigmoid(h[t, 0, j]) * h[t, 1, j]"
)" + workload;
}

std::string error_of(const std::string& workload) {
  const contract::Contract contract = parsed(packed_swiglu("[workload]\n" + workload));
  const auto binding = bind(contract, *slot_named(contract.workload.slot));
  return binding ? "" : binding.error().text();
}

constexpr const char* kTensors =
    "slot = \"swiglu\"\ntensors = { \"h[a, 0, b]\" = \"gate[a, b]\", \"h[a, 1, b]\" = \"value[a, b]\" }\n";

TEST(Binding, FollowsTheContract) {
  const contract::Contract contract = parsed(packed_swiglu(std::string("[workload]\n") + kTensors));
  const auto binding = bind(contract, *slot_named("swiglu"));
  ASSERT_TRUE(binding) << binding.error().text();
  EXPECT_EQ(to_toml(*binding), std::string("[workload]\n") + kTensors + "dims = { J = \"F\" }\n");
  const auto own = binding->own_shape({{"T", 2}, {"F", 3}});
  ASSERT_TRUE(own);
  EXPECT_EQ(*own, (contract::Shape{{"T", 2}, {"J", 3}}));
}

TEST(Binding, PlacesElements) {
  const contract::Contract contract = parsed(packed_swiglu(std::string("[workload]\n") + kTensors));
  const auto binding = bind(contract, *slot_named("swiglu"));
  ASSERT_TRUE(binding);
  const contract::Shape slots{{"T", 2}, {"F", 3}}, own{{"T", 2}, {"J", 3}};
  const auto value = place(contract, *binding, binding->tensors[1], slots, own);
  ASSERT_TRUE(value) << value.error().text();
  using contract::DType;
  const double numbers[] = {1, 2, 3, 4, 5, 6};
  contract::Tensor h = contract::Tensor::zeros(DType::f16, {2, 2, 3});
  scatter(*value, contract::Tensor::of(DType::f16, {2, 3}, numbers), h);
  EXPECT_THAT(h.to_doubles(), ::testing::ElementsAre(0, 0, 0, 1, 2, 3, 0, 0, 0, 4, 5, 6));
  contract::Tensor back = contract::Tensor::zeros(DType::f16, {2, 3});
  gather(*value, h, back);
  EXPECT_THAT(back.to_doubles(), ::testing::ElementsAreArray(numbers));
}

TEST(Binding, SaysWhatIsWrong) {
  EXPECT_THAT(error_of("slot = \"swiglu\"\n"), HasSubstr("has no tensor `h`, but gate, value, y; name it"));
  EXPECT_THAT(error_of("slot = \"swiglu\"\ntensors = { \"g[a]\" = \"gate[a]\" }\n"),
              HasSubstr("`g` is not a tensor of the contract"));
  EXPECT_THAT(error_of("slot = \"swiglu\"\ntensors = { h = \"gates\" }\n"),
              HasSubstr("did you mean `gate`?"));
  EXPECT_THAT(error_of("slot = \"swiglu\"\ntensors = { \"h[a, 0, b]\" = \"gate[a]\" }\n"),
              HasSubstr("has 2 indices"));
  EXPECT_THAT(error_of("slot = \"swiglu\"\ntensors = { \"h[a, b]\" = \"gate[a, b]\" }\n"),
              HasSubstr("has 3 subscripts, not 2"));
  EXPECT_THAT(error_of("slot = \"swiglu\"\ntensors = { \"h[a, 0, q]\" = \"gate[a, b]\" }\n"),
              HasSubstr("`q` is neither an index"));
  EXPECT_THAT(error_of("slot = \"swiglu\"\ntensors = { h = \"y\" }\n"),
              HasSubstr("is an output of the slot"));
  EXPECT_THAT(error_of(std::string(kTensors) + "dims = { J = \"X\" }\n"),
              HasSubstr("`X` is not a dim of the slot"));
  EXPECT_THAT(error_of(std::string(kTensors) + "scalars = { e = \"eps\" }\n"),
              HasSubstr("`e` is not a scalar of the contract"));
  EXPECT_THAT(error_of("slot = \"rmsnorm\"\ntensors = { h = \"x\" }\ndims = { J = \"D\", T = 1 }\n"),
              ::testing::IsEmpty());
}

TEST(Binding, MixedIndicesAreRefusedAtTheCall) {
  const contract::Contract contract =
      parsed(packed_swiglu("[workload]\nslot = \"swiglu\"\ntensors = { \"h[a, 0, (a + b) / 2]\" = \"gate[a, "
                           "b]\", \"h[a, 1, b]\" = \"value[a, b]\" }\n"));
  const auto binding = bind(contract, *slot_named("swiglu"));
  ASSERT_TRUE(binding) << binding.error().text();
  const auto placed =
      place(contract, *binding, binding->tensors[0], {{"T", 4}, {"F", 4}}, {{"T", 4}, {"J", 4}});
  ASSERT_FALSE(placed);
  EXPECT_THAT(placed.error().text(), HasSubstr("combines indices"));
}

TEST(Binding, SubscriptsBeyondTheExtentAreRefused) {
  const contract::Contract contract =
      parsed(packed_swiglu("[workload]\nslot = \"swiglu\"\ntensors = { \"h[a, 0, b + 1]\" = \"gate[a, b]\", "
                           "\"h[a, 1, b]\" = \"value[a, b]\" }\n"));
  const auto binding = bind(contract, *slot_named("swiglu"));
  ASSERT_TRUE(binding) << binding.error().text();
  const auto placed =
      place(contract, *binding, binding->tensors[0], {{"T", 4}, {"F", 4}}, {{"T", 4}, {"J", 4}});
  ASSERT_FALSE(placed);
  EXPECT_THAT(placed.error().text(), HasSubstr("goes from 1 to 4, but the extent is 4"));
}

// ---- recognition ----

std::string recognised(const contract::Contract& contract) {
  const std::vector<Recognised> found = recognise(contract);
  return found.empty() ? "" : to_toml(found.front().binding);
}

class OwnSlot : public ::testing::TestWithParam<const Slot*> {};
TEST_P(OwnSlot, IsRecognised) {
  const contract::Contract contract = parsed(contract_text(*GetParam()));
  EXPECT_EQ(recognised(contract),
            std::string("[workload]\nslot = \"") + std::string(GetParam()->name) + "\"\n");
}
std::vector<const Slot*> all_slots() {
  std::vector<const Slot*> rows;
  for (const Slot& slot : slots()) rows.push_back(&slot);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Train, OwnSlot, ::testing::ValuesIn(all_slots()),
                         [](const auto& row) { return std::string(row.param->name); });

struct CorpusCase {
  const char *operation, *slot;  // "": none
};
void PrintTo(const CorpusCase& row, std::ostream* out) {
  *out << row.operation;
}
class CorpusSlot : public ::testing::TestWithParam<CorpusCase> {};
TEST_P(CorpusSlot, IsRecognised) {
  const auto contract =
      contract::load(std::string(kSourceFolder) + "/corpus/" + GetParam().operation + "/contract.toml");
  ASSERT_TRUE(contract) << contract.error().text();
  const std::vector<Recognised> found = recognise(*contract);
  EXPECT_EQ(found.empty() ? "" : found.front().binding.slot->name, GetParam().slot) << recognised(*contract);
}
INSTANTIATE_TEST_SUITE_P(
    Train, CorpusSlot,
    ::testing::Values(CorpusCase{"adamw", "adamw"}, CorpusCase{"add_rmsnorm", "residual_rmsnorm"},
                      CorpusCase{"attention", "attention"},
                      CorpusCase{"attention_backward", "attention_grad"},
                      CorpusCase{"cross_entropy", "cross_entropy"},
                      CorpusCase{"cross_entropy_backward", "cross_entropy_grad"},
                      CorpusCase{"embedding_grad", "embedding_grad"}, CorpusCase{"gather_rows", "embedding"},
                      CorpusCase{"gelu", "gelu"}, CorpusCase{"gemm", "linear"},
                      CorpusCase{"gemm_tensor_core", "linear"}, CorpusCase{"rmsnorm", "rmsnorm"},
                      CorpusCase{"rmsnorm_backward", "rmsnorm_grad"}, CorpusCase{"rope", "rope"},
                      CorpusCase{"swiglu", "swiglu"}, CorpusCase{"swiglu_backward", "swiglu_grad"},
                      CorpusCase{"layernorm", ""}, CorpusCase{"layernorm_backward", ""},
                      CorpusCase{"softmax", ""}, CorpusCase{"transpose", ""}, CorpusCase{"bias_grad", ""},
                      CorpusCase{"quantize_int8", ""}, CorpusCase{"topk_routing", ""}),
    [](const auto& row) { return std::string(row.param.operation); });

TEST(Recognition, FindsOtherLayouts) {
  EXPECT_EQ(recognised(parsed(packed_swiglu(""))),
            "[workload]\nslot = \"swiglu\"\n"
            "tensors = { \"h[i, 0, j]\" = \"gate[i, j]\", \"h[i, 1, j]\" = \"value[i, j]\" }\n"
            "dims = { J = \"F\" }\n");
}

// One tensor after the other in a row, in the other order; other names; a batch dim more.
TEST(Recognition, FindsHalvesOfARow) {
  const contract::Contract contract = parsed(R"([kernel]
source = "k.cu"
entry = "k"
args = ["both", "out", "B", "T", "J", "stream"]
[dims]
B = { min = 1, max = 8 }
T = { min = 1, max = 64 }
J = { min = 1, max = 64 }
[tensors.both]
dtype = "f32"
shape = ["B * T", "2 * J"]
[tensors.out]
dtype = "f32"
shape = ["B", "T", "J"]
role = "out"
[reference]
formula = "out[b, t, j] = both[b * T + t, J + j] * sigmoid(both[b * T + t, J + j]) * both[b * T + t, j]"
)");
  const auto found = recognise(contract);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(
      to_toml(found.front().binding),
      "[workload]\nslot = \"swiglu\"\n"
      "tensors = { \"both[i, j]\" = \"value[i, j]\", \"both[i, F + j]\" = \"gate[i, j]\", out = \"y\" }\n"
      "dims = { B = \"1\", J = \"F\" }\n");
}

TEST(Recognition, FindsATransposedWeight) {
  const contract::Contract contract = parsed(R"([kernel]
source = "k.cu"
entry = "k"
args = ["a", "weight", "c", "M", "N", "K", "stream"]
[dims]
M = { min = 1, max = 64 }
N = { min = 1, max = 64 }
K = { min = 1, max = 64 }
[tensors.a]
dtype = "bf16"
shape = ["M", "K"]
values = "activations"
[tensors.weight]
dtype = "bf16"
shape = ["N", "K"]
values = "weights"
[tensors.c]
dtype = "bf16"
shape = ["M", "N"]
role = "out"
[reference]
formula = "c[m, n] += a[m, k] * weight[n, k]"
)");
  std::vector<std::string> names;
  for (const Recognised& found : recognise(contract)) names.emplace_back(found.binding.slot->name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("linear", "linear_grad_input", "linear_grad_weight"));
}

// eps is a number in the formula, and x is overwritten.
TEST(Recognition, FindsNumbersAndTensorsInPlace) {
  const contract::Contract contract = parsed(R"([kernel]
source = "k.cu"
entry = "k"
args = ["x", "g", "N", "W", "stream"]
[dims]
N = { min = 1, max = 64 }
W = { min = 1, max = 64 }
[tensors.x]
dtype = "f16"
shape = ["N", "W"]
role = "inout"
[tensors.g]
dtype = "f16"
shape = ["W"]
[reference]
formula = "x[n, d] = x[n, d] * rsqrt(mean[k](x[n, k]^2) + 0.001) * g[d]"
)");
  const auto found = recognise(contract);
  ASSERT_FALSE(found.empty());
  EXPECT_EQ(to_toml(found.front().binding),
            "[workload]\nslot = \"rmsnorm\"\ntensors = { x = \"x -> y\", g = \"w\" }\ndims = { N = \"T\", W "
            "= \"D\" }\n");
  EXPECT_EQ(found.front().binding.constants.at("eps"), 0.001);
}

TEST(Recognition, IsNotTakenInByASimilarFormula) {
  std::string text = contract_text(*slot_named("rmsnorm"));
  text.replace(text.find(") + eps)"), 8, " + eps))");  // under the mean: a sum of eps is the same
  EXPECT_NE(recognised(parsed(text)), "");
  text = contract_text(*slot_named("rmsnorm"));
  text.replace(text.find("rsqrt(mean[d](x[t, d]^2) + eps)"), 31, "1 / (sqrt(mean[d](x[t, d]^2)) + eps)");
  EXPECT_EQ(recognised(parsed(text)), "");
  text = contract_text(*slot_named("attention"));
  text.replace(text.find("max[j | j <= i]"), 15, "max[j | j >= 0]");  // the maximum may be any
  EXPECT_NE(recognised(parsed(text)), "");
  text = contract_text(*slot_named("attention"));
  for (std::size_t at; (at = text.find("j <= i")) != std::string::npos;) text.replace(at, 6, "j >= 0");
  EXPECT_EQ(recognised(parsed(text)), "");
}

}  // namespace
}  // namespace assay::train
