// A sample of the blocks of a grid: which ones, what they write, and when that tells nothing.
#include "checks/block_sample.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "vgpu/machine.h"

namespace assay::checks {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using vgpu::Address;
using vgpu::testing::Machine;

TEST(ChosenClusters, HoldTheEndsAndTheShares) {
  const uint64_t count = uint64_t{1} << 24;
  const auto chosen = chosen_clusters({1u << 24}, {.seed = 1, .blocks = 96, .shares = {0.5}});
  EXPECT_EQ(chosen.size(), 96u);
  for (const uint64_t block : {uint64_t{0}, count - 1, count / 2 - 1, count / 2, count / 2 + 1})
    EXPECT_THAT(chosen, Contains(block));
  std::vector<uint64_t> sorted = chosen;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end()) << "each once";
}

TEST(ChosenClusters, TakeTheAxesInEveryOrder) {
  // Half of the elements lie before row 500, whether rows are on x or on y.
  const auto chosen = chosen_clusters({1000, 10, 1}, {.seed = 1, .blocks = 96, .shares = {0.5}});
  EXPECT_THAT(chosen, Contains(5 * 1000u));  // x changes fastest: row 5 of y
  EXPECT_THAT(chosen, Contains(500u));       // y changes fastest: column 500 of x
}

TEST(ChosenClusters, AreAllOfASmallGrid) {
  EXPECT_EQ(chosen_clusters({7, 3, 2}, {.seed = 1, .blocks = 96}).size(), 42u);
}

constexpr const char* kKernels = R"(
.visible .entry copy(.param .u64 x, .param .u64 y, .param .u64 n) {
  .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .f32 %f;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mul.wide.u32 %rd4, %r1, %r2; cvt.u64.u32 %rd5, %r3; add.u64 %rd4, %rd4, %rd5;
  setp.ge.u64 %p, %rd4, %rd3; @%p ret;
  shl.b64 %rd4, %rd4, 2; add.u64 %rd6, %rd1, %rd4; add.u64 %rd7, %rd2, %rd4;
  ld.global.f32 %f, [%rd6]; st.global.f32 [%rd7], %f; ret;
}
.visible .entry ticket(.param .u64 x) {
  .reg .b32 %r<3>; .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [x]; atom.global.add.u32 %r1, [%rd1], 1; st.global.u32 [%rd1+4], %r1; ret;
}
.visible .entry sum(.param .u64 x) {
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [x]; red.global.add.u32 [%rd1], 1; ret;
}
)";

class BlockSampleTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kCount = uint64_t{1} << 33;

  BlockSampleTest()
      : machine_(kKernels, {.threads = 1, .watch = true}), sample_(log_, machine_.device().memory()) {
    machine_.device().listen(&sample_);
    checks_ = make_checks(protocol::CheckSet::for_run(), log_, machine_.device().memory());
    for (auto& check : checks_) machine_.device().listen(check.get());
  }

  Address giant(const char* label, bool defined) {
    vgpu::Memory& memory = machine_.device().memory();
    const Address base = *memory.allocate(4 * kCount, 256, vgpu::MemoryKind::Device, label);
    MadeValues values{.table = std::vector<std::byte>(4, std::byte{0x3f}), .item = 4};
    EXPECT_TRUE(memory.make_on_touch(base, {.values = values, .length = 4 * kCount, .defined = defined}));
    return base;
  }
  void launch(const char* kernel, uint32_t blocks, std::initializer_list<uint64_t> parameters) {
    vgpu::LaunchConfig config;
    config.grid = {blocks};
    config.block = {256};
    sample_.starts(config);
    machine_.launch(kernel, {blocks}, {256}, parameters, config);
  }

  FindingLog log_;
  Machine machine_;
  BlockSample sample_;
  std::vector<std::unique_ptr<vgpu::Listener>> checks_;
};

TEST_F(BlockSampleTest, TellsWhatTheBlocksWrote) {
  const Address x = giant("x", true), y = giant("y", false);
  sample_.begin({.seed = 1, .blocks = 20, .shares = {0.5}});
  launch("copy", kCount / 256, {x, y, kCount});
  const protocol::SampleReport report = sample_.end();
  EXPECT_EQ(report.ended, "");
  ASSERT_EQ(report.launches.size(), 1u);
  EXPECT_EQ(report.launches[0].blocks, kCount / 256);
  EXPECT_EQ(report.launches[0].run, 20u);
  ASSERT_EQ(report.launches[0].writes.size(), 1u);
  const protocol::SampledWrites& writes = report.launches[0].writes[0];
  EXPECT_EQ(writes.buffer, "y");
  EXPECT_EQ(writes.writers, 20u);
  EXPECT_EQ(writes.least, 1024u);
  EXPECT_EQ(writes.most, 1024u);
  EXPECT_EQ(writes.sum, 20u * 1024);
  EXPECT_EQ(writes.distinct, 20u * 1024);
  const auto written = sample_.written(y);
  EXPECT_EQ(written.front().first, 0u);
  EXPECT_EQ(written.back().first + written.back().second, 4 * kCount);
  EXPECT_TRUE(log_.take().empty());
  EXPECT_LT(machine_.device().memory().made_bytes(), 1u << 20);
}

// The second kernel reads what the first would have written, had all its blocks been run.
TEST_F(BlockSampleTest, EndsWhereAKernelReadsWhatAnotherWrote) {
  const Address x = giant("x", true), y = giant("y", false), z = giant("z", false);
  sample_.begin({.seed = 1, .blocks = 20});
  launch("copy", kCount / 256, {x, y, kCount});
  launch("copy", kCount / 256, {y, z, kCount});
  EXPECT_THAT(sample_.end().ended, HasSubstr("an earlier kernel wrote"));
  EXPECT_TRUE(log_.take().empty()) << "nobody is accused of reading what was not written";
}

TEST_F(BlockSampleTest, ReadsWhatALaunchWroteWhoseBlocksWereAllRun) {
  const Address x = giant("x", true), y = giant("y", false), z = giant("z", false);
  sample_.begin({.seed = 1, .blocks = 20});
  launch("copy", 4, {x, y, 1024});
  launch("copy", 4, {y, z, 1024});
  EXPECT_EQ(sample_.end().ended, "");
}

TEST_F(BlockSampleTest, EndsWhereBlocksTalk) {
  const Address x = giant("x", true);
  sample_.begin({.seed = 1, .blocks = 20});
  launch("ticket", 1000, {x});
  EXPECT_THAT(sample_.end().ended, HasSubstr("old values of atomics"));
}

TEST_F(BlockSampleTest, KnowsWhatIsAddedUp) {
  const Address x = giant("x", true);
  sample_.begin({.seed = 1, .blocks = 20});
  launch("sum", 1000, {x});
  const protocol::SampleReport report = sample_.end();
  EXPECT_EQ(report.ended, "");
  EXPECT_THAT(report.reduced, ::testing::ElementsAre("x"));
}

TEST_F(BlockSampleTest, LeavesOutWhatIsTooLargeToCopy) {
  sample_.begin({.seed = 1, .blocks = 20});
  EXPECT_FALSE(sample_.leaves_out(vgpu::FillWork{.width = 1000}));
  EXPECT_TRUE(sample_.leaves_out(vgpu::FillWork{.width = uint64_t{1} << 33}));
  EXPECT_THAT(sample_.end().ended, HasSubstr("the host code fills"));
  EXPECT_FALSE(sample_.leaves_out(vgpu::FillWork{.width = uint64_t{1} << 33})) << "no sample is under way";
}

}  // namespace
}  // namespace assay::checks
