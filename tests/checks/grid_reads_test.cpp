// Reads of memory that a grid cannot write are remembered by rows, not by threads (race_grid_reads.h). An operation that
// begins after the grid has ended, and is not ordered after it, is compared with them.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "checks/checks.h"
#include "finding/message.h"
#include "vgpu/machine.h"

namespace assay::checks {
namespace {

using vgpu::Address;
using vgpu::OperationInfo;
using vgpu::testing::Machine;

// read: y[t] = x[first + t * step]; write: x[first + t] = 1; in halves of words, those at byte `first`.
// read_tile: eight halves of words from byte `first` of the rows 0, 2, 4 and 6, as a warp reads the operand of a matrix
// instruction: four lanes one below the other, and the next four beside them. A row has 64 bytes. Lanes from 17 on read `torn` bytes
// further on.
constexpr const char* kKernels = R"(
.visible .entry read(.param .u64 x_, .param .u64 y_, .param .u64 first_, .param .u64 step_) {
  .reg .b32 %r<4>;
  .reg .b64 %d<9>;
  ld.param.u64 %d1, [x_];
  ld.param.u64 %d2, [y_];
  ld.param.u64 %d3, [first_];
  ld.param.u64 %d4, [step_];
  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %d5, %r1;
  mad.lo.u64 %d6, %d5, %d4, %d3;
  shl.b64 %d6, %d6, 2;
  add.u64 %d7, %d1, %d6;
  ld.global.u32 %r2, [%d7];
  shl.b64 %d5, %d5, 2;
  add.u64 %d8, %d2, %d5;
  st.global.u32 [%d8], %r2;
  ret;
}
.visible .entry read_half(.param .u64 x_, .param .u64 y_) {
  .reg .b16 %h;
  .reg .b64 %d<3>;
  ld.param.u64 %d1, [x_];
  ld.param.u64 %d2, [y_];
  ld.global.u16 %h, [%d1];
  st.global.u16 [%d2], %h;
  ret;
}
.visible .entry read_tile(.param .u64 x_, .param .u64 y_, .param .u64 first_, .param .u64 torn_) {
  .reg .pred %p;
  .reg .b16 %h;
  .reg .b32 %r<5>;
  .reg .b64 %d<6>;
  ld.param.u64 %d1, [x_];
  ld.param.u64 %d2, [y_];
  ld.param.u64 %d3, [first_];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 3;
  shr.u32 %r3, %r1, 2;
  shl.b32 %r2, %r2, 7;
  mad.lo.u32 %r4, %r3, 2, %r2;
  cvt.u64.u32 %d4, %r4;
  add.u64 %d4, %d4, %d3;
  add.u64 %d5, %d1, %d4;
  setp.ge.u32 %p, %r1, 17;
  ld.param.u64 %d3, [torn_];
  @%p add.u64 %d5, %d5, %d3;
  ld.global.u16 %h, [%d5];
  st.global.u16 [%d2], %h;
  ret;
}
.visible .entry write(.param .u64 x_, .param .u64 first_) {
  .reg .b32 %r<3>;
  .reg .b64 %d<6>;
  ld.param.u64 %d1, [x_];
  ld.param.u64 %d2, [first_];
  mov.u32 %r1, %tid.x;
  cvt.u64.u32 %d3, %r1;
  add.u64 %d4, %d3, %d2;
  shl.b64 %d4, %d4, 2;
  add.u64 %d5, %d1, %d4;
  mov.u32 %r2, 1;
  st.global.u32 [%d5], %r2;
  ret;
}
.visible .entry write_half(.param .u64 x_, .param .u64 first_) {
  .reg .b16 %h;
  .reg .b64 %d<3>;
  ld.param.u64 %d1, [x_];
  ld.param.u64 %d2, [first_];
  add.u64 %d1, %d1, %d2;
  mov.u16 %h, 1;
  st.global.u16 [%d1], %h;
  ret;
})";

class GridReads : public ::testing::Test {
 protected:
  GridReads() : m_(kKernels, {.threads = 1, .watch = true}) {
    check_ = make_race_check(log_, m_.device().memory(), RaceScope{});
    m_.device().listen(check_.get());
    std::vector<uint32_t> values(256);
    std::iota(values.begin(), values.end(), 2u);  // stores of what is there are no races
    x_ = m_.array(values, "x");
    y_ = m_.array(std::vector<uint32_t>(64), "y");
  }

  // A kernel on a stream of its own, after these operations and no others.
  void launch(const char* kernel, unsigned threads, std::initializer_list<uint64_t> arguments,
              std::vector<uint64_t> after = {}) {
    begin(OperationInfo::Kind::Grid, after);
    EXPECT_EQ(m_.launch(kernel, {1, 1, 1}, {threads, 1, 1}, arguments).fault.message, "");
  }
  OperationInfo begin(OperationInfo::Kind kind, const std::vector<uint64_t>& after) {
    ++operations_;
    const OperationInfo info{operations_, operations_, kind, after};
    check_->on_operation(info);
    return info;
  }
  std::vector<std::string> races() {
    std::vector<std::string> found;
    for (const Finding& finding : log_.take()) found.push_back(message(finding));
    return found;
  }

  Machine m_;
  FindingLog log_;
  std::unique_ptr<vgpu::Listener> check_;
  Address x_ = 0, y_ = 0;
  uint64_t operations_ = 0;
};

TEST_F(GridReads, MeetALaterWriteOfAnotherStream) {
  launch("read", 32, {x_, y_, 0, 1});
  launch("write", 32, {x_, 31});
  const auto found = races();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("a thread of block (0,0,0) of kernel read on stream 1 reads"), std::string::npos)
      << found[0];
}

TEST_F(GridReads, DoNotMeetAWriteThatComesAfterThem) {
  launch("read", 32, {x_, y_, 0, 1});
  launch("write", 32, {x_, 0}, {1});
  EXPECT_TRUE(races().empty());
}

TEST_F(GridReads, DoNotMeetAWriteBesideThem) {
  launch("read", 24, {x_, y_, 0, 1});
  launch("write", 8, {x_, 24});
  EXPECT_TRUE(races().empty());
}

TEST_F(GridReads, AreKnownWordByWordWhereLanesAreApart) {
  launch("read", 32, {x_, y_, 0, 3});
  launch("write", 2, {x_, 1});
  launch("write", 2, {x_, 61});
  EXPECT_TRUE(races().empty());
  launch("write", 1, {x_, 63});
  EXPECT_EQ(races().size(), 1u);
}

TEST_F(GridReads, AreKnownByteByByteWhereWordsAreReadInPart) {
  launch("read_half", 1, {x_, y_});
  launch("write_half", 1, {x_, 2});
  EXPECT_TRUE(races().empty());
  launch("write_half", 1, {x_, 0});
  EXPECT_EQ(races().size(), 1u);
}

TEST_F(GridReads, OfAMatrixAreKnownByteByByte) {
  for (const uint64_t first : {0, 2}) {
    SCOPED_TRACE(first);
    launch("read_tile", 32, {x_, y_, first, 0});
    races();  // its lanes store to one place
    const uint64_t row = 2 * 64;
    for (const uint64_t beside : {row + first - 2, row + first + 16, row + 64 + first})
      launch("write_half", 1, {x_, beside});
    EXPECT_TRUE(races().empty());
    for (const uint64_t inside : {row + first, row + first + 14, 3 * row + first + 6}) {
      launch("write_half", 1, {x_, inside});
      EXPECT_EQ(races().size(), 1u) << inside;
    }
    x_ = m_.array(std::vector<uint32_t>(256, 7u), "x");
  }
}

// Lane 16 reads the fifth half word of row 0, lane 17 that of row 2, and 64 bytes on.
TEST_F(GridReads, OfPairsThatAreTornAreKnownByteByByte) {
  launch("read_tile", 32, {x_, y_, 0, 64});
  races();
  for (const uint64_t beside : {2 * 64 + 8, 2 * 64 + 10, 3 * 64 + 6}) launch("write_half", 1, {x_, beside});
  EXPECT_TRUE(races().empty());
  for (const uint64_t inside : {8, 2 * 64 + 6, 3 * 64 + 8}) {
    launch("write_half", 1, {x_, inside});
    EXPECT_EQ(races().size(), 1u) << inside;
  }
}

TEST_F(GridReads, MeetAFill) {
  launch("read", 32, {x_, y_, 0, 1});
  const OperationInfo beside = begin(OperationInfo::Kind::Fill, {});
  check_->on_fill(beside, {x_ + 128, nullptr, 64, 1, 1, 0, 0});
  EXPECT_TRUE(races().empty());
  const OperationInfo fill = begin(OperationInfo::Kind::Fill, {});
  check_->on_fill(fill, {x_ + 126, nullptr, 2, 1, 1, 0, 0});
  EXPECT_EQ(races().size(), 1u);
}

TEST_F(GridReads, AreComparedWithAnEarlierWriteOfAnotherStream) {
  launch("write", 32, {x_, 0});
  launch("read", 32, {x_, y_, 31, 1});
  EXPECT_EQ(races().size(), 1u);
}

// The second reader is remembered in the place of the first, where both have read.
TEST_F(GridReads, OfTheLatestGridAreKept) {
  launch("read", 32, {x_, y_, 0, 1});
  launch("read", 16, {x_, y_, 0, 1}, {1});
  launch("write", 32, {x_, 0}, {1});
  const auto found = races();
  ASSERT_EQ(found.size(), 1u);
  launch("write", 16, {x_, 16}, {1, 3});
  EXPECT_TRUE(races().empty());
}

TEST_F(GridReads, AreNotAssumedOfWhatTheGridAlsoWrites) {
  launch("read", 32, {x_, x_ + 4, 0, 1});  // thread t writes what thread t + 1 reads
  EXPECT_EQ(races().size(), 1u);
}

}  // namespace
}  // namespace assay::checks
