// Rows of device memory that one warp has written whole are remembered in 64 bits each (WholeWrite in race_shadow.h).
// Whoever touches one afterwards is compared with that write as with any other.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "checks/checks.h"
#include "checks/race_shadow.h"
#include "finding/message.h"
#include "vgpu/machine.h"

namespace assay::checks {
namespace {

using vgpu::Address;
using vgpu::OperationInfo;
using vgpu::testing::Machine;

// ---- The encoding ----

TEST(WholeWrite, SaysWhatTheMarkSaid) {
  for (const uint32_t shift : {1u, 2u, 3u, 4u}) {
    const uint32_t lanes = kRowBytes >> shift;
    for (uint32_t base = 0; base < 32; base += lanes) {
      const RowMark mark{Who::make(12345, 7, 600, kWeak, 0xabc), kAllWords, static_cast<int16_t>(base),
                         static_cast<uint8_t>(shift)};
      const WholeWrite write = WholeWrite::of(mark);
      ASSERT_NE(write.bits, WholeWrite::kOther) << shift << ", " << base;
      const RowMark back = write.mark();
      EXPECT_TRUE(back.same_author(mark)) << shift << ", " << base;
      EXPECT_EQ(back.words, kAllWords);
    }
  }
  const RowMark fill{Who::make(3, 0, kCopyWrites, kWeak, 0), kAllWords, 0, RowMark::kOneLane};
  EXPECT_TRUE(WholeWrite::of(fill).mark().same_author(fill));
}

TEST(WholeWrite, IsNoOtherMark) {
  const RowMark whole{Who::make(5, 1, 1, kWeak, 1), kAllWords, 16, 2};
  ASSERT_NE(WholeWrite::of(whole).bits, WholeWrite::kOther);
  const auto is_other = [&](auto change) {
    RowMark mark = whole;
    change(mark);
    return WholeWrite::of(mark).bits == WholeWrite::kOther;
  };
  EXPECT_TRUE(is_other([](RowMark& m) { m.words = 0x7fff; }));
  EXPECT_TRUE(is_other([](RowMark& m) { m.base = 8; }));  // begins within the row before
  EXPECT_TRUE(is_other([](RowMark& m) { m.base = -16; }));
  EXPECT_TRUE(is_other([](RowMark& m) { m.stride = 2; }));
  EXPECT_TRUE(is_other([](RowMark& m) { m.shift = 0; }));  // a warp's bytes are half a row
  EXPECT_TRUE(is_other([](RowMark& m) { m.several = true; }));
  EXPECT_TRUE(is_other([](RowMark& m) { m.who = Who::make(5, 1, 1, kStrong, 1); }));
  EXPECT_TRUE(is_other([](RowMark& m) { m.who = Who::make(1u << 27, 1, 1, kWeak, 1); }));  // no bits left
}

// ---- Races ----

// Thread t of block b works on word b * apart + t + first of x. copy: y[global thread] = x[...];
// both: stores, and then reads the word `reads` further on; add: an atomic.
constexpr const char* kHead =
    R"((.param .u64 x_, .param .u64 y_, .param .u64 apart_, .param .u64 first_, .param .u64 reads_) {
  .reg .b32 %r<9>;
  .reg .b64 %d<12>;
  ld.param.u64 %d1, [x_];
  ld.param.u64 %d2, [y_];
  ld.param.u32 %r1, [apart_];
  ld.param.u32 %r2, [first_];
  ld.param.u32 %r3, [reads_];
  mov.u32 %r4, %tid.x;
  mov.u32 %r5, %ctaid.x;
  mov.u32 %r6, %ntid.x;
  mad.lo.u32 %r7, %r5, %r1, %r4;
  add.u32 %r7, %r7, %r2;
  mul.wide.u32 %d3, %r7, 4;
  add.u64 %d4, %d1, %d3;
  mad.lo.u32 %r8, %r5, %r6, %r4;
  mul.wide.u32 %d5, %r8, 4;
  add.u64 %d6, %d2, %d5;
  add.u32 %r8, %r8, 1000;
)";

std::string kernels() {
  const auto entry = [](const char* name, const char* body) {
    return std::string(".visible .entry ") + name + kHead + body + "  ret;\n}\n";
  };
  return entry("store", "  st.global.u32 [%d4], %r8;\n") +
         entry("store_pairs",
               "  mul.wide.u32 %d7, %r7, 8;\n  add.u64 %d7, %d1, %d7;\n"
               "  st.global.v2.u32 [%d7], {%r8, %r8};\n") +
         entry("store_quads",
               "  mul.wide.u32 %d7, %r7, 16;\n  add.u64 %d7, %d1, %d7;\n"
               "  st.global.v4.u32 [%d7], {%r8, %r8, %r8, %r8};\n") +
         entry("copy", "  ld.global.u32 %r1, [%d4];\n  st.global.u32 [%d6], %r1;\n") +
         entry("both",
               "  st.global.u32 [%d4], %r8;\n  mul.wide.s32 %d7, %r3, 4;\n  add.u64 %d7, %d4, %d7;\n"
               "  ld.global.u32 %r1, [%d7];\n  st.global.u32 [%d6], %r1;\n") +
         entry("first_reads",
               "  mul.wide.s32 %d7, %r3, 4;\n  add.u64 %d7, %d4, %d7;\n"
               "  ld.global.u32 %r1, [%d7];\n  st.global.u32 [%d6], %r1;\n"
               "  st.global.u32 [%d4], %r8;\n") +
         entry("adds",
               "  st.global.u32 [%d4], %r8;\n  mul.wide.s32 %d7, %r3, 4;\n  add.u64 %d7, %d4, %d7;\n"
               "  red.global.add.u32 [%d7], 1;\n");
}

class WholeRows : public ::testing::Test {
 protected:
  WholeRows() : m_(kernels(), {.threads = 1, .watch = true}) {
    check_ = make_race_check(log_, m_.device().memory(), RaceScope{});
    m_.device().listen(check_.get());
    std::vector<uint32_t> values(1024);
    std::iota(values.begin(), values.end(), 1u << 20);  // stores of what is there are no races
    x_ = m_.array(values, "x");
    y_ = m_.array(std::vector<uint32_t>(1024), "y");
  }

  // The races of a kernel of `blocks` blocks on a stream of its own, after these operations and no others.
  size_t races(const char* kernel, unsigned blocks, unsigned threads, uint64_t apart, uint64_t first,
               uint64_t reads, std::vector<uint64_t> after = {}) {
    begin(OperationInfo::Kind::Grid, after);
    const auto outcome = m_.launch(kernel, {blocks, 1, 1}, {threads, 1, 1}, {x_, y_, apart, first, reads});
    EXPECT_EQ(outcome.fault.message, "");
    return log_.take().size();
  }
  OperationInfo begin(OperationInfo::Kind kind, const std::vector<uint64_t>& after) {
    ++operations_;
    const OperationInfo info{operations_, operations_, kind, after};
    check_->on_operation(info);
    return info;
  }
  size_t races_of_fill(uint64_t first_byte, uint64_t bytes, const std::vector<uint64_t>& after) {
    check_->on_fill(begin(OperationInfo::Kind::Fill, after), {x_ + first_byte, nullptr, bytes, 1, 1, 0, 0});
    return log_.take().size();
  }

  Machine m_;
  FindingLog log_;
  std::unique_ptr<vgpu::Listener> check_;
  Address x_ = 0, y_ = 0;
  uint64_t operations_ = 0;
};

TEST_F(WholeRows, OfTwoBlocksSideBySideAreNoRace) {
  EXPECT_EQ(races("store", 4, 64, 64, 0, 0), 0u);
  EXPECT_EQ(races("store", 4, 32, 32, 16, 0, {1}), 0u);
}

TEST_F(WholeRows, OfTwoBlocksAtOnePlaceAre) {
  EXPECT_EQ(races("store", 2, 32, 0, 0, 0), 1u);
}

TEST_F(WholeRows, ThatTwoBlocksShareInPartAre) {
  EXPECT_EQ(races("store", 2, 32, 24, 0, 0), 1u);  // words 24 to 31, in a row that the first wrote whole
}

TEST_F(WholeRows, ThatStartWithinARowAre) {
  EXPECT_EQ(races("store", 2, 32, 32, 5, 0), 0u);
  EXPECT_EQ(races("store", 2, 32, 31, 5, 0, {1}), 1u);
}

TEST_F(WholeRows, OfPairsAndQuadsAre) {
  EXPECT_EQ(races("store_pairs", 2, 32, 32, 0, 0), 0u);
  EXPECT_EQ(races("store_pairs", 2, 32, 31, 0, 0, {1}), 1u);
  EXPECT_EQ(races("store_quads", 2, 32, 32, 0, 0, {1, 2}), 0u);
  EXPECT_EQ(races("store_quads", 2, 32, 31, 0, 0, {1, 2, 3}), 1u);
}

TEST_F(WholeRows, MeetAReadOfAnotherBlock) {
  EXPECT_EQ(races("both", 2, 32, 32, 32, 0), 0u);  // what the thread has written itself
  EXPECT_EQ(races("both", 2, 32, 32, 32, ~uint64_t{0}, {1}),
            1u);  // the word before: thread 0 reads block 0's last
}

TEST_F(WholeRows, MeetAReadOfAnotherLane) {
  EXPECT_EQ(races("both", 1, 32, 0, 32, 1), 1u);
}

TEST_F(WholeRows, MeetAWriteAfterARead) {
  EXPECT_EQ(races("first_reads", 2, 32, 32, 0, 32), 1u);  // block 1 writes what block 0 has read
  EXPECT_EQ(races("first_reads", 2, 32, 32, 128, 0, {1}), 0u);
}

TEST_F(WholeRows, MeetAtomics) {
  EXPECT_EQ(races("adds", 2, 32, 32, 32, 0), 0u);
  EXPECT_EQ(races("adds", 2, 32, 32, 32, ~uint64_t{0}, {1}), 1u);
}

TEST_F(WholeRows, MeetAnotherStream) {
  EXPECT_EQ(races("store", 2, 32, 32, 0, 0), 0u);
  EXPECT_EQ(races("copy", 1, 8, 0, 40, 0, {1}), 0u);
  EXPECT_EQ(races("copy", 1, 8, 0, 40, 0), 1u);          // not after the first
  EXPECT_EQ(races("copy", 1, 8, 0, 64, 0, {2, 3}), 0u);  // nobody has written there
}

TEST_F(WholeRows, AreReplacedByALaterGrids) {
  EXPECT_EQ(races("store", 2, 32, 32, 0, 0), 0u);
  EXPECT_EQ(races("store", 2, 32, 32, 0, 0, {1}), 0u);
  EXPECT_EQ(races("copy", 1, 32, 0, 0, 0, {1}), 1u);  // after the first, beside the second
  EXPECT_EQ(races("copy", 1, 32, 0, 0, 0, {1, 2}), 0u);
}

TEST_F(WholeRows, MeetFillsAndAreFills) {
  EXPECT_EQ(races_of_fill(0, 256, {}), 0u);
  EXPECT_EQ(races("store", 2, 32, 32, 0, 0, {1}), 0u);
  EXPECT_EQ(races_of_fill(62, 1, {1}), 1u);
  EXPECT_EQ(races_of_fill(64, 64, {1}), 1u);
  EXPECT_EQ(races_of_fill(256, 64, {}), 0u);
  EXPECT_EQ(races("copy", 1, 1, 0, 79, 0), 1u);
}

// A row that was read and written in part, and is then written whole, is one again.
TEST_F(WholeRows, ComeBack) {
  EXPECT_EQ(races("both", 2, 20, 20, 0, 0), 0u);
  EXPECT_EQ(races("store", 2, 32, 32, 0, 0, {1}), 0u);
  EXPECT_EQ(races("copy", 1, 4, 0, 30, 0, {1}), 1u);
  EXPECT_EQ(races("store", 1, 32, 0, 16, 0, {1, 2}), 1u);  // beside the reads of the third
}

}  // namespace
}  // namespace assay::checks
