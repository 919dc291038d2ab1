// Every trusted operator against the formula of its slot, evaluated exactly with its rounding budgets.
#include "train/operators.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "base/random.h"
#include "contract/contract.h"
#include "reference/reference.h"
#include "train/slots.h"

namespace assay::train {
namespace {

const contract::Shape kShape = {{"T", 37}, {"D", 24}, {"V", 19}, {"F", 21}, {"H", 3},
                                {"S", 11}, {"P", 4},  {"K", 27}, {"N", 18}, {"n", 50}};

class Operators : public ::testing::TestWithParam<const Slot*> {};

// Inputs as a training step has them: attention's gradient needs the lse and delta that belong to its q, k and v only as
// far as its formula says so, and the formula takes any.
double draw(const SlotTensor& tensor, Random& random) {
  if (tensor.name == "lse") return random.uniform(4, 5);
  if (tensor.name == "v" && tensor.role == contract::Role::InOut) return random.uniform(0.01, 1);
  return random.normal();
}
int64_t draw_integer(const SlotTensor& tensor, Random& random) {
  return tensor.name == "positions" ? random.between(0, 40) : random.between(0, kShape.find("V")->second - 1);
}

TEST_P(Operators, ComputeTheirFormulas) {
  const Slot& slot = *GetParam();
  const auto contract = contract::parse(contract_text(slot), "slot.toml");
  ASSERT_TRUE(contract) << contract.error().text();
  const auto reference = reference::Reference::make(*contract);
  ASSERT_TRUE(reference);
  for (const bool reordered : {false, true}) {
    Random random(5);
    contract::Bindings bindings;
    for (const contract::Dim& dim : contract->dims) bindings.shape[dim.name] = kShape.find(dim.name)->second;
    Operands<float> operands{bindings.shape};
    std::vector<Array<float>> arrays(slot.tensors.size());
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const SlotTensor& tensor = slot.tensors[i];
      arrays[i].shape(tensor.dtype, *contract->tensor(tensor.name)->extents(bindings.shape));
      operands.tensors.emplace_back(tensor.name, &arrays[i]);
      if (tensor.role == contract::Role::Out) continue;
      auto value = contract::Tensor::zeros(tensor.dtype, arrays[i].dims);
      if (!contract::is_float(tensor.dtype)) arrays[i].values.clear();
      for (int64_t e = 0; e < value.count(); ++e) {
        if (contract::is_float(tensor.dtype)) {
          value.store(e, draw(tensor, random));
          arrays[i].values[static_cast<std::size_t>(e)] = static_cast<float>(value.load(e));
        } else {
          value.store_int(e, draw_integer(tensor, random));
          arrays[i].integers.push_back(value.load_int(e));
        }
      }
      bindings.inputs[std::string(tensor.name)] = std::make_shared<const contract::Tensor>(std::move(value));
    }
    for (const SlotScalar& scalar : slot.scalars) {
      bindings.scalars[std::string(scalar.name)] =
          contract::is_float(scalar.dtype)
              ? contract::Scalar::of(scalar.dtype, scalar.usual)
              : contract::Scalar::of_int(scalar.dtype, static_cast<int64_t>(scalar.usual));
      operands.scalars.emplace_back(scalar.name, scalar.usual);
    }
    Team team(2);
    compute(team, slot, {.reordered = reordered}, operands);
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const SlotTensor& tensor = slot.tensors[i];
      if (tensor.role == contract::Role::In) continue;
      const auto expected = reference->expect_all(bindings, std::string(tensor.name));
      ASSERT_TRUE(expected) << expected.error().text();
      int64_t outside = 0;
      for (std::size_t e = 0; e < expected->size(); ++e) {
        const auto stored =
            static_cast<double>(arrays[i].values[static_cast<std::size_t>(expected->element[e])]);
        if (!expected->admits(e, stored) && outside++ < 3)
          ADD_FAILURE() << tensor.name << " element " << expected->element[e] << " is " << stored << ", not "
                        << expected->value[e] << (reordered ? " (reordered)" : "");
      }
      EXPECT_EQ(outside, 0) << tensor.name;
    }
  }
}

// A NaN in the last token is behind the mask for all others.
TEST(Attention, DoesNotSeeWhatIsMasked) {
  const contract::Shape shape = {{"H", 1}, {"S", 5}, {"D", 4}};
  const auto outputs = [&](const char* name, std::string_view poisoned) {
    const Slot& slot = *slot_named(name);
    Random random(7);
    std::vector<Array<float>> arrays(slot.tensors.size());
    Operands<float> operands{shape};
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const SlotTensor& tensor = slot.tensors[i];
      std::vector<int64_t> extents;
      for (const std::string_view dim : tensor.dims) extents.push_back(shape.find(dim)->second);
      arrays[i].shape(tensor.dtype, extents);
      for (float& value : arrays[i].values) value = static_cast<float>(draw(tensor, random));
      if (tensor.name == poisoned) arrays[i].values.back() = std::numeric_limits<float>::quiet_NaN();
      operands.tensors.emplace_back(tensor.name, &arrays[i]);
    }
    Team team(1);
    compute(team, slot, {.rounds = false}, operands);
    std::map<std::string_view, std::vector<float>> found;
    for (std::size_t i = 0; i < arrays.size(); ++i)
      if (slot.tensors[i].role == contract::Role::Out) found[slot.tensors[i].name] = arrays[i].values;
    return found;
  };
  constexpr std::size_t kBefore = 4 * 4;  // elements of the tokens before the last
  for (const char* input : {"k", "v"}) {
    const auto o = outputs("attention", input).at("o");
    EXPECT_EQ(std::count_if(o.begin(), o.end(), [](float x) { return std::isnan(x); }) > 0, true) << input;
    for (std::size_t i = 0; i < kBefore; ++i) EXPECT_TRUE(std::isfinite(o[i])) << input << " " << i;
    const auto dq = outputs("attention_grad", input).at("dq");
    for (std::size_t i = 0; i < kBefore; ++i) EXPECT_TRUE(std::isfinite(dq[i])) << input << " " << i;
  }
}

std::vector<const Slot*> computed_slots() {
  std::vector<const Slot*> rows;
  for (const Slot& slot : slots()) rows.push_back(&slot);
  return rows;
}
INSTANTIATE_TEST_SUITE_P(Train, Operators, ::testing::ValuesIn(computed_slots()),
                         [](const auto& row) { return std::string(row.param->name); });

}  // namespace
}  // namespace assay::train
