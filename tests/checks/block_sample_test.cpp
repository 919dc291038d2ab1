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

  explicit BlockSampleTest(const char* kernels = kKernels)
      : machine_(kernels, {.threads = 1, .watch = true}), sample_(log_, machine_.device().memory()) {
    machine_.device().listen(&sample_);
    checks_ = make_checks(protocol::CheckSet::for_run(), log_, machine_.device().memory());
    for (auto& check : checks_) machine_.device().listen(check.get());
  }

  Address giant(const char* label, bool defined) {
    vgpu::Memory& memory = machine_.device().memory();
    const Address base = *memory.allocate(4 * kCount, 256, vgpu::MemoryKind::Device, label);
    GeneratedValues values{.table = std::vector<std::byte>(4, std::byte{0x3f}), .item = 4};
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
  EXPECT_LT(machine_.device().memory().generated_bytes(), 1u << 20);
}

// The second kernel reads what the first would have written, had all its blocks been run.
TEST_F(BlockSampleTest, EndsWhereAKernelReadsWhatAnotherWrote) {
  const Address x = giant("x", true), y = giant("y", false), z = giant("z", false);
  sample_.begin({.seed = 1, .blocks = 20});
  launch("copy", kCount / 256, {x, y, kCount});
  launch("copy", kCount / 256, {y, z, kCount});
  EXPECT_THAT(sample_.end().ended, HasSubstr("an earlier kernel wrote"));
  EXPECT_TRUE(log_.take().empty()) << "reads of what was not written are not reported";
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

// ---- Loops over the whole tensor

// Kernels whose 64 blocks of 256 threads go through n elements together.
constexpr const char* kLoops = R"(
.visible .entry by_64_bits(.param .u64 x, .param .u64 y, .param .u64 n) {
  .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<12>; .reg .f32 %f;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %rd4, %r1, %r2; cvt.u64.u32 %rd5, %r3; add.u64 %rd4, %rd4, %rd5; mul.wide.u32 %rd6, %r4, %r2;
more:
  setp.ge.u64 %p, %rd4, %rd3; @%p bra done;
  shl.b64 %rd7, %rd4, 2; add.u64 %rd8, %rd1, %rd7; add.u64 %rd9, %rd2, %rd7;
  ld.global.f32 %f, [%rd8]; st.global.f32 [%rd9], %f;
  add.u64 %rd4, %rd4, %rd6;
  bra more;
done:
  ret;
}
.visible .entry by_32_bits(.param .u64 x, .param .u64 y, .param .u64 n, .param .u64 signed) {
  .reg .pred %p, %q; .reg .b32 %r<9>; .reg .b64 %rd<12>; .reg .f32 %f;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [n]; ld.param.u64 %rd11, [signed];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;
  mad.lo.u32 %r5, %r1, %r2, %r3; mul.lo.u32 %r6, %r4, %r2;
  setp.ne.u64 %q, %rd11, 0; @%q bra signed_more;
  cvt.u64.u32 %rd4, %r5;
more:  // as compilers write it: %rd4 is computed from the count for the next iteration
  shl.b64 %rd7, %rd4, 2; add.u64 %rd8, %rd1, %rd7; add.u64 %rd9, %rd2, %rd7;
  ld.global.f32 %f, [%rd8]; st.global.f32 [%rd9], %f;
  add.u32 %r5, %r5, %r6;
  cvt.u64.u32 %rd4, %r5; setp.lt.u64 %p, %rd4, %rd3; @%p bra more;
  ret;
signed_more:
  mul.wide.s32 %rd7, %r5, 4; add.s64 %rd8, %rd1, %rd7; add.s64 %rd9, %rd2, %rd7;
  ld.global.f32 %f, [%rd8]; st.global.f32 [%rd9], %f;
  add.s32 %r5, %r5, %r6;
  cvt.s64.s32 %rd4, %r5; setp.lt.s64 %p, %rd4, %rd3; @%p bra signed_more;
  ret;
}
.visible .entry from_the_last(.param .u64 x, .param .u64 n) {  // x[i] = x[i - distance], whatever lies there by then
  .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<12>; .reg .f32 %f;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd3, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %rd4, %r1, %r2; cvt.u64.u32 %rd5, %r3; add.u64 %rd4, %rd4, %rd5; mul.wide.u32 %rd6, %r4, %r2;
  mul.lo.u64 %rd10, %rd6, 20; add.u64 %rd4, %rd4, %rd10; shl.b64 %rd10, %rd10, 2;
more:
  shl.b64 %rd7, %rd4, 2; add.u64 %rd8, %rd1, %rd7; sub.u64 %rd9, %rd8, %rd10;
  ld.global.f32 %f, [%rd9]; st.global.f32 [%rd8], %f;
  add.u64 %rd4, %rd4, %rd6;
  setp.lt.u64 %p, %rd4, %rd3; @%p bra more;
  ret;
}
.visible .entry in_place(.param .u64 x, .param .u64 n) {  // counts down, and steps a pointer
  .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<12>; .reg .f32 %f;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd3, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mov.u32 %r4, %nctaid.x;
  mul.wide.u32 %rd4, %r1, %r2; cvt.u64.u32 %rd5, %r3; add.u64 %rd4, %rd4, %rd5; mul.wide.u32 %rd6, %r4, %r2;
  shl.b64 %rd7, %rd4, 2; add.u64 %rd8, %rd1, %rd7; div.u64 %rd9, %rd3, %rd6; shl.b64 %rd10, %rd6, 2;
more:
  ld.global.f32 %f, [%rd8]; add.f32 %f, %f, %f; st.global.f32 [%rd8], %f;
  add.u64 %rd8, %rd8, %rd10; add.s64 %rd9, %rd9, -1;
  setp.ne.s64 %p, %rd9, 0; @%p bra more;
  ret;
}
.visible .entry unrolled(.param .u64 y, .param .u64 n, .param .u64 stride) {  // two at a time, through other registers
  .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [y]; ld.param.u64 %rd3, [n]; ld.param.u64 %rd6, [stride];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mul.wide.u32 %rd4, %r1, %r2; cvt.u64.u32 %rd5, %r3; add.u64 %rd4, %rd4, %rd5;
  shl.b64 %rd7, %rd4, 2; add.u64 %rd8, %rd1, %rd7; shl.b64 %rd9, %rd6, 2;
more:
  st.global.u32 [%rd8], %r1; add.u64 %rd10, %rd8, %rd9; st.global.u32 [%rd10], %r1; add.u64 %rd8, %rd10, %rd9;
  add.u64 %rd11, %rd4, %rd6; add.u64 %rd4, %rd11, %rd6;
  setp.lt.u64 %p, %rd4, %rd3; @%p bra more;
  ret;
}
.visible .entry standing(.param .u64 x, .param .u64 n) {  // the stride is 0
  .reg .pred %p; .reg .b32 %r<9>; .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd3, [n]; mov.u64 %rd4, 0; sub.u64 %rd5, %rd3, %rd3;
more:
  st.global.u64 [%rd1], %rd4; add.u64 %rd4, %rd4, %rd5;
  setp.lt.u64 %p, %rd4, %rd3; @%p bra more;
  ret;
}
)";

class LoopSampleTest : public BlockSampleTest {
 protected:
  LoopSampleTest() : BlockSampleTest(kLoops) {}
  static constexpr uint32_t kBlocks = 64;
  void begin(double seconds = 20) {
    sample_.begin({.seed = 1, .blocks = 8, .seconds = seconds, .shares = {0.25, 0.5}});
  }
};

TEST_F(LoopSampleTest, RunsIterationsAtBothEndsAndWhereTheyTellMost) {
  const Address x = giant("x", true), y = giant("y", false);
  begin();
  launch("by_64_bits", kBlocks, {x, y, kCount});
  const protocol::SampleReport report = sample_.end();
  EXPECT_EQ(report.ended, "");
  EXPECT_TRUE(log_.take().empty());
  ASSERT_EQ(report.launches.size(), 1u);
  EXPECT_EQ(report.launches[0].run, 8u);
  EXPECT_FALSE(report.launches[0].endless);
  const uint64_t iterations = kCount / (kBlocks * 256);
  EXPECT_GT(report.launches[0].left_out, 8 * 8 * (iterations - 100));
  const protocol::SampledWrites& writes = report.launches[0].writes.at(0);
  EXPECT_EQ(writes.most, 4 * kCount / kBlocks) << "all that the block would have written";
  EXPECT_EQ(writes.sum, writes.distinct);
  const auto written = sample_.written(y);
  // Within so many iterations of an element: each warp runs one of those about a share.
  const auto reaches = [&](uint64_t element, uint64_t distance) {
    const uint64_t low = 4 * (element - std::min(element, distance * kBlocks * 256));
    const uint64_t high = 4 * (element + distance * kBlocks * 256 + 1);
    return std::any_of(written.begin(), written.end(), [&](const auto& piece) {
      return piece.first < high && piece.first + piece.second > low;
    });
  };
  EXPECT_TRUE(reaches(0, 0));
  EXPECT_TRUE(reaches(kCount - 1, 0));
  EXPECT_TRUE(reaches(kCount / 4, 2));
  EXPECT_TRUE(reaches(kCount / 2, 2));
  uint64_t bytes = 0;
  for (const auto& piece : written) bytes += piece.second;
  EXPECT_LT(bytes, kCount / 100) << "most are left out";
}

TEST_F(LoopSampleTest, KnowsALoopThatCannotEndBecauseItsCountWraps) {
  const Address x = giant("x", true), y = giant("y", false);
  begin();
  launch("by_32_bits", kBlocks, {x, y, kCount, 0});
  const protocol::SampleReport report = sample_.end();
  EXPECT_EQ(report.ended, "");
  EXPECT_TRUE(log_.take().empty()) << "no access is wrong";
  ASSERT_TRUE(report.launches.at(0).endless);
  EXPECT_TRUE(report.launches[0].endless->wraps);
}

TEST_F(LoopSampleTest, ComesToAnEndThatA32BitCountReaches) {
  const Address x = giant("x", true), y = giant("y", false);
  begin();
  launch("by_32_bits", kBlocks, {x, y, (uint64_t{1} << 32) - kBlocks * 256, 0});
  const protocol::SampleReport report = sample_.end();
  EXPECT_FALSE(report.launches.at(0).endless);
  EXPECT_EQ(report.launches.at(0).run, 8u);
  EXPECT_TRUE(log_.take().empty());
}

TEST_F(LoopSampleTest, RunsTheIterationInWhichASignedCountTurnsNegative) {
  const Address x = giant("x", true), y = giant("y", false);
  begin();
  launch("by_32_bits", kBlocks, {x, y, uint64_t{1} << 31, 1});
  const std::vector<Finding> findings = log_.take();
  ASSERT_FALSE(findings.empty());
  EXPECT_EQ(findings[0].kind, Kind::OutOfBounds);
}

TEST_F(LoopSampleTest, LeavesOutIterationsThatChangeTheirOwnElements) {
  const Address x = giant("x", true);
  begin();
  launch("in_place", kBlocks, {x, kCount});
  const protocol::SampleReport report = sample_.end();
  EXPECT_EQ(report.ended, "");
  EXPECT_EQ(report.launches.at(0).run, 8u);
  EXPECT_GT(report.launches[0].left_out, 0u);
}

TEST_F(LoopSampleTest, EndsWhereAnIterationReadsWhatAnotherWrites) {
  const Address x = giant("x", true);
  begin(0.05);
  launch("from_the_last", kBlocks, {x, kCount / 4});
  const protocol::SampleReport report = sample_.end();
  EXPECT_TRUE(report.launches.at(0).left_out == 0 || report.ended.find("an iteration of its loop") == 0);
  EXPECT_LT(report.launches[0].run, 8u) << "the loop is too long to be run whole";
}

TEST_F(LoopSampleTest, LeavesOutIterationsOfAnUnrolledLoop) {
  const Address y = giant("y", false);
  begin();
  launch("unrolled", kBlocks, {y, kCount, kBlocks * 256});
  const protocol::SampleReport report = sample_.end();
  EXPECT_EQ(report.launches.at(0).run, 8u);
  EXPECT_GT(report.launches[0].left_out, 0u);
  EXPECT_FALSE(report.launches[0].endless);
}

TEST_F(LoopSampleTest, KnowsAnUnrolledLoopThatDoesNotMove) {
  const Address y = giant("y", false);
  begin(0.05);
  launch("unrolled", kBlocks, {y, kCount, 0});
  const protocol::SampleReport report = sample_.end();
  EXPECT_TRUE(report.launches.at(0).endless);
}

TEST_F(LoopSampleTest, KnowsALoopThatDoesNotMove) {
  const Address x = giant("x", false);
  begin();
  launch("standing", 2, {x, 1000});
  const protocol::SampleReport report = sample_.end();
  ASSERT_TRUE(report.launches.at(0).endless);
  EXPECT_FALSE(report.launches[0].endless->wraps);
}

}  // namespace
}  // namespace assay::checks
