#include "subject/images.h"

#include <gmock/gmock.h>

#include <cstring>
#include <set>

#include "support.h"

namespace assay::subject {
namespace {

using contract::Contract;

struct Images {
  Folder folder;
  Contract contract = contract_in(folder, "k.cu", "entry = \"k\"");
  trial::Trial trial = trial_of(10);
  contract::Bindings bindings = *trial::make_inputs(contract, trial);
  MemoryFileLayout layout = *lay_out(contract, trial, {&bindings}, 4096);
  std::vector<std::byte> memory = std::vector<std::byte>(static_cast<std::size_t>(layout.size));

  Images() {
    write_images(layout, trial, memory.data());
    for (const Buffer& b : layout.calls[0].buffers)
      std::memcpy(out(b), memory.data() + b.in, static_cast<std::size_t>(b.bytes));
  }
  std::byte* out(const Buffer& b) { return memory.data() + b.out; }
  const Buffer& buffer(const std::string& name) {
    for (const Buffer& b : layout.calls[0].buffers) {
      if (b.name == name) return b;
    }
    throw std::runtime_error(name);
  }
  Call read() { return read_images(layout.calls[0], trial, memory.data()); }
};

TEST(Images, AreAlignedToThePromiseAndNoMore) {
  Images images;
  EXPECT_EQ(images.buffer("x").offset % 8, 4);
  EXPECT_EQ(images.buffer("y").offset % 256, 0);
}

TEST(Images, AnUntouchedCallShowsPoisonAndNoTrespass) {
  Images images;
  const Call call = images.read();
  EXPECT_TRUE(call.trespasses.empty());
  EXPECT_TRUE(call.changed_inputs.empty());
  const uint64_t pattern = trial::pattern(images.trial.condition.poison);
  uint32_t first;
  std::memcpy(&first, call.outputs.at("y")->at(0), 4);
  EXPECT_EQ(first, static_cast<uint32_t>(pattern));
}

TEST(Images, AChangedInputIsSeen) {
  Images images;
  const Buffer& x = images.buffer("x");
  images.out(x)[x.offset + 5] ^= std::byte{1};
  EXPECT_THAT(images.read().changed_inputs, ::testing::ElementsAre("x"));
}

// x in rows of 5, y in rows of 6; or w of 4-bit elements, y of them, too.
struct Laid {
  Contract contract;
  trial::Trial trial;
  contract::Bindings bindings;
  MemoryFileLayout layout;
  std::vector<std::byte> memory;

  explicit Laid(const std::string& tensors) {
    auto parsed = contract::parse(R"([kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "n"]
[dims]
n = { min = 1, max = 100 }
)" + tensors + R"(
[reference]
formula = "y[i, j] = x[i, j]"
)");
    EXPECT_TRUE(parsed) << parsed.error().text();
    contract = std::move(*parsed);
    trial.shape = {{"n", 3}};
    bindings = *trial::make_inputs(contract, trial);
    layout = *lay_out(contract, trial, {&bindings}, 4096);
    memory.resize(static_cast<std::size_t>(layout.size));
    write_images(layout, trial, memory.data());
    for (const Buffer& b : layout.calls[0].buffers)
      std::memcpy(memory.data() + b.out, memory.data() + b.in, static_cast<std::size_t>(b.bytes));
  }
  const Buffer& buffer(std::size_t i) const { return layout.calls[0].buffers[i]; }
  std::byte* out(std::size_t i) { return memory.data() + buffer(i).out + buffer(i).offset; }
  Call read() { return read_images(layout.calls[0], trial, memory.data()); }
};

constexpr const char* kStrided = R"([tensors.x]
dtype = "f32"
shape = ["n", 4]
strides = [5, 1]
[tensors.y]
dtype = "f32"
shape = ["n", 4]
strides = [6, 1]
role = "out")";

TEST(Images, AreLaidOutByStrides) {
  Laid laid(kStrided);
  EXPECT_EQ(laid.buffer(0).length, 4 * (2 * 5 + 4));
  EXPECT_EQ(laid.buffer(1).length, 4 * (2 * 6 + 4));
  // A kernel that copies rows.
  for (int row = 0; row < 3; ++row) std::memcpy(laid.out(1) + 24 * row, laid.out(0) + 20 * row, 16);
  const Call call = laid.read();
  EXPECT_TRUE(call.trespasses.empty());
  EXPECT_EQ(call.outputs.at("y")->bytes, laid.bindings.inputs.at("x")->bytes);
}

TEST(Images, AWriteBetweenElementsIsSeen) {
  Laid laid(kStrided);
  laid.out(1)[4 * 6 + 17] ^= std::byte{1};
  const Call call = laid.read();
  ASSERT_EQ(call.trespasses.size(), 1u);
  EXPECT_EQ(call.trespasses[0].tensor, "y");
  EXPECT_EQ(call.trespasses[0].offset, 4 * 6 + 17);
  EXPECT_TRUE(call.trespasses[0].in_gap);
  laid.out(0)[4 * 4] ^= std::byte{1};  // of an input
  EXPECT_THAT(laid.read().changed_inputs, ::testing::ElementsAre("x"));
}

TEST(Images, OfFourBitElementsHoldTwoInAByte) {
  Laid laid(R"([tensors.x]
dtype = "i4"
shape = ["n", 3]
[tensors.y]
dtype = "i4"
shape = ["n", 3]
role = "out")");
  EXPECT_EQ(laid.buffer(0).length, 5);  // nine elements
  // What was there before: one code in all elements, another for each poison.
  std::set<int64_t> codes;
  for (const trial::Poison poison : {trial::Poison::Nan, trial::Poison::OtherNan, trial::Poison::Zeros,
                                     trial::Poison::Ones, trial::Poison::Large}) {
    laid.trial.condition.poison = poison;
    write_images(laid.layout, laid.trial, laid.memory.data());
    std::memcpy(laid.out(1), laid.memory.data() + laid.buffer(1).in + laid.buffer(1).offset, 5);
    const Call untouched = laid.read();
    for (int64_t i = 1; i < 9; ++i)
      EXPECT_EQ(untouched.outputs.at("y")->load_int(i), untouched.outputs.at("y")->load_int(0));
    codes.insert(untouched.outputs.at("y")->load_int(0));
  }
  EXPECT_EQ(codes.size(), 5u);
  std::memcpy(laid.out(1), laid.out(0), 5);
  EXPECT_EQ(laid.read().outputs.at("y")->bytes, laid.bindings.inputs.at("x")->bytes);
}

TEST(Images, AnAbsentTensorIsANullPointer) {
  Laid laid(R"([tensors.x]
dtype = "f32"
shape = ["n", 4]
optional = true
[tensors.y]
dtype = "f32"
shape = ["n", 4]
role = "out")");
  const auto given = [&](int present) {
    laid.bindings.scalars["present(x)"] = contract::Scalar::of_int(contract::DType::boolean, present);
    return lay_out(laid.contract, laid.trial, {&laid.bindings}, 4096)->calls[0].request.arguments[0];
  };
  EXPECT_TRUE(std::holds_alternative<protocol::BufferArgument>(given(1)));
  const protocol::Argument absent = given(0);
  const auto* null = std::get_if<protocol::ScalarArgument>(&absent);
  ASSERT_TRUE(null);
  EXPECT_EQ(null->bits, 0u);
  EXPECT_EQ(null->bytes, 8);
}

TEST(Images, InputsAtOneAddressAreOneBuffer) {
  Folder folder;
  auto contract = contract::parse(R"([kernel]
source = "k.cu"
entry = "k"
args = ["a", "b", "y", "n"]
[dims]
n = { min = 1, max = 100 }
[tensors.a]
dtype = "f32"
shape = ["n"]
[tensors.b]
dtype = "f32"
shape = ["n"]
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = a[i] + b[i]"
)",
                                  folder.path("k.toml"));
  ASSERT_TRUE(contract);
  trial::Trial trial = trial_of(10);
  trial.condition.shared_inputs = true;
  const contract::Bindings bindings = *trial::make_inputs(*contract, trial);
  const MemoryFileLayout layout = *lay_out(*contract, trial, {&bindings}, 4096);
  const auto& buffers = layout.calls[0].buffers;
  EXPECT_EQ(buffers[1].share, 0);
  EXPECT_EQ(buffers[2].share, -1);
  std::vector<std::byte> memory(static_cast<std::size_t>(layout.size));
  write_images(layout, trial, memory.data());
  for (const Buffer& b : buffers)
    std::memcpy(memory.data() + b.out, memory.data() + b.in, static_cast<std::size_t>(b.bytes));
  memory[static_cast<std::size_t>(buffers[0].out + buffers[0].offset)] ^= std::byte{1};
  EXPECT_THAT(read_images(layout.calls[0], trial, memory.data()).changed_inputs, ::testing::ElementsAre("a"));
}

TEST(Images, AWriteOutsideATensorIsSeenAndPlaced) {
  Images images;
  const Buffer& y = images.buffer("y");
  images.out(y)[y.offset + y.length + 8] ^= std::byte{1};
  images.out(y)[y.offset - 3] ^= std::byte{1};
  const Call call = images.read();
  ASSERT_EQ(call.trespasses.size(), 2u);
  EXPECT_EQ(call.trespasses[0].offset, -3);
  EXPECT_EQ(call.trespasses[1].offset, 48);
  EXPECT_EQ(call.trespasses[1].tensor, "y");
}

// Tensors of one allocation, and tensors behind arrays of pointers.
struct Together {
  Contract contract = *contract::parse(R"toml([kernel]
source = "k.cu"
entry = "k"
args = ["w", "rows", "best", "offsets"]
[dims]
G = { max = 4 }
T = { max = 64 }
[tensors.offsets]
dtype = "i32"
shape = ["G + 1"]
values = "offsets(T)"
[tensors.w]
dtype = "f32"
shape = ["T", 3]
pointers = "offsets"
[tensors.rows]
dtype = "f32"
shape = ["G", 5]
role = "out"
pointers = true
[tensors.value]
dtype = "f32"
shape = ["T"]
strides = [3]
role = "out"
buffer = "best"
[tensors.index]
dtype = "i32"
shape = ["T"]
strides = [3]
role = "out"
buffer = "best"
offset = 4
[reference]
formula = """
value[t] = w[t, 0]
index[t] = t
rows[g, j] = 0
"""
)toml");
  trial::Trial trial;
  contract::Bindings bindings;
  MemoryFileLayout layout;
  std::vector<std::byte> memory;

  Together() {
    trial.shape = {{"G", 3}, {"T", 7}};
    bindings = *trial::make_inputs(contract, trial);
    contract::Tensor offsets = contract::Tensor::zeros(contract::DType::i32, {4});
    for (const int64_t i : {0, 1, 2, 3}) offsets.store_int(i, i == 0 ? 0 : i == 1 ? 4 : i == 2 ? 4 : 7);
    bindings.inputs["offsets"] = std::make_shared<const contract::Tensor>(std::move(offsets));
    layout = *lay_out(contract, trial, {&bindings}, 0);
    memory.resize(static_cast<std::size_t>(layout.size));
    write_images(layout, trial, memory.data());
    for (const Buffer& b : layout.calls[0].buffers)
      std::memcpy(memory.data() + b.out, memory.data() + b.in, static_cast<std::size_t>(b.bytes));
  }
  const Buffer& buffer(const std::string& name) const {
    for (const Buffer& b : layout.calls[0].buffers)
      if (b.name == name) return b;
    throw std::runtime_error(name);
  }
  void put(const Buffer& b, int64_t at, uint32_t value) {
    std::memcpy(memory.data() + b.out + b.offset + at, &value, sizeof value);
  }
  Call read() { return read_images(layout.calls[0], trial, memory.data()); }
};

TEST(Images, OfSlicesBehindPointersHaveTheirOwnSizes) {
  Together images;
  EXPECT_EQ(images.buffer("w[0]").length, 4 * 3 * 4);
  EXPECT_EQ(images.buffer("w[1]").length, 0);
  EXPECT_EQ(images.buffer("w[2]").length, 3 * 3 * 4);
  EXPECT_THAT(images.buffer("w").pointers, ::testing::SizeIs(3));
  const Buffer& last = images.buffer("w[2]");
  EXPECT_EQ(std::memcmp(images.memory.data() + last.in + last.offset, images.bindings.inputs["w"]->at(4 * 3),
                        static_cast<std::size_t>(last.length)),
            0);
  const auto& request = images.layout.calls[0].request;
  EXPECT_TRUE(request.buffers[static_cast<std::size_t>(images.buffer("w").pointers[0])].is_read_only);
}

TEST(Images, SlicesBecomeOneTensorAgain) {
  Together images;
  for (uint32_t g = 0; g < 3; ++g) images.put(images.buffer("rows[" + std::to_string(g) + "]"), 8, g + 1);
  const Call call = images.read();
  for (uint32_t g = 0; g < 3; ++g) {
    uint32_t stored = 0;
    std::memcpy(&stored, call.outputs.at("rows")->at(g * 5 + 2), sizeof stored);
    EXPECT_EQ(stored, g + 1);
  }
  EXPECT_TRUE(call.changed_inputs.empty());
}

TEST(Images, TensorsOfOneAllocationAreToldApart) {
  Together images;
  const Buffer& best = images.buffer("best");
  EXPECT_EQ(best.length, (6 * 3 + 2) * 4);
  images.put(best, 2 * 12, 0x3f800000);
  images.put(best, 2 * 12 + 4, 17);
  const Call call = images.read();
  EXPECT_EQ(call.outputs.at("value")->load(2), 1.0);
  EXPECT_EQ(call.outputs.at("index")->load_int(2), 17);
  EXPECT_TRUE(call.trespasses.empty());
}

TEST(Images, WhatBelongsToNoneOfThemMustStay) {
  Together images;
  images.put(images.buffer("best"), 12 + 8, 1);
  const Call call = images.read();
  ASSERT_EQ(call.trespasses.size(), 1u);
  EXPECT_EQ(call.trespasses[0].tensor, "best");
  EXPECT_EQ(call.trespasses[0].offset, 20);
  EXPECT_TRUE(call.trespasses[0].in_gap);
}

TEST(Images, AChangedPointerIsSeen) {
  Together images;
  images.put(images.buffer("w"), 8, 1);
  EXPECT_THAT(images.read().changed_inputs, ::testing::ElementsAre("w"));
}

}  // namespace
}  // namespace assay::subject
