#include "subject/images.h"

#include <gmock/gmock.h>

#include <cstring>

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

}  // namespace
}  // namespace assay::subject
