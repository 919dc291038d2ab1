// Schedules other than that of the text: lanes that leave their warp, the last first, one starved, interleaved.
#include <numeric>
#include <set>

#include "base/schedule.h"
#include "machine.h"

namespace assay::vgpu {
namespace {

using testing::Machine;

constexpr uint64_t kSchedules = 64;  // eight of each kind

// A tree over 32 words of shared memory, with something between its steps.
std::string tree(const std::string& between) {
  return R"(
.visible .entry tree(.param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<12>; .reg .b64 %rd<5>;
  .shared .align 4 .b8 s[256];
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.u32 %r3, s;
  add.u32 %r4, %r3, %r2;
  mov.u32 %r5, 1;
  st.volatile.shared.u32 [%r4], %r5;
  mov.u32 %r9, 0;
  st.volatile.shared.u32 [%r4+128], %r9;
  mov.u32 %r6, 64;
)" + between +
         R"(
STEP:
  add.u32 %r7, %r4, %r6;
  ld.volatile.shared.u32 %r8, [%r7];
  ld.volatile.shared.u32 %r9, [%r4];
)" + between +
         R"(
  add.u32 %r9, %r9, %r8;
  st.volatile.shared.u32 [%r4], %r9;
)" + between +
         R"(
  shr.u32 %r6, %r6, 1;
  setp.gt.u32 %p1, %r6, 2;
  @%p1 bra STEP;
  setp.ne.u32 %p2, %r1, 0;
  @%p2 bra DONE;
  ld.volatile.shared.u32 %r10, [%r4];
  st.global.u32 [%rd1], %r10;
DONE:
  ret;
})";
}

uint32_t total(const std::string& code, uint64_t seed, bool watch) {
  Machine m(code, {.threads = 1, .seed = seed, .watch = watch});
  const Address a = m.array(std::vector<uint32_t>(1));
  EXPECT_EQ(m.launch("tree", {1}, {32}, {a}).fault.message, "") << seed;
  return m.read<uint32_t>(a, 1)[0];
}

TEST(Drift, LanesThatRelyOnRunningInStepGetOtherResults) {
  EXPECT_EQ(total(tree(""), 0, false), 32u);
  std::set<uint32_t> ahead, in_turn, others;
  for (uint64_t seed = 1; seed < kSchedules; ++seed) {
    const ScheduleKind kind = schedule_kind(seed);
    (kind == ScheduleKind::LanesAhead    ? ahead
     : kind == ScheduleKind::LanesInTurn ? in_turn
                                         : others)
        .insert(total(tree(""), seed, seed % 16 < 8));
  }
  EXPECT_GT(ahead.size(), 1u);
  EXPECT_GT(in_turn.size(), 1u);
  EXPECT_EQ(others, std::set<uint32_t>{32});
}

TEST(Drift, LanesThatMeetBetweenStepsDoNot) {
  for (uint64_t seed = 1; seed < kSchedules; ++seed) {
    EXPECT_EQ(total(tree("bar.warp.sync 0xffffffff;"), seed, seed % 16 < 8), 32u) << seed;
    EXPECT_EQ(total(tree("bar.sync 0;"), seed, false), 32u) << seed;
    EXPECT_EQ(total(tree("vote.sync.any.pred %p2, 1, 0xffffffff;"), seed, true), 32u) << seed;
  }
}

TEST(Drift, TheSameNumberIsTheSameRun) {
  for (const uint64_t seed : {uint64_t{3}, uint64_t{5}, uint64_t{11}, uint64_t{13}})
    EXPECT_EQ(total(tree(""), seed, false), total(tree(""), seed, false)) << seed;
}

// Lanes call a function apart, and meet at the shuffle in it.
TEST(Drift, LanesMeetInAFunctionThatTheyCalledApart) {
  const char* code = R"(
.func (.param .b32 result) rotate(.param .b32 value) {
  .reg .b32 %r<4>; .reg .b64 %rd<3>;
  ld.param.u32 %r1, [value];
  shfl.sync.idx.b32 %r2, %r1, 7, 31, 0xffffffff;
  add.u32 %r3, %r1, %r2;
  st.param.b32 [result], %r3;
  ret;
}
.visible .entry calls(.param .u64 out) {
  .reg .b32 %r<6>; .reg .b64 %rd<5>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r4, 0;
LOOP:
  ld.global.u32 %r2, [%rd3];
  { .param .b32 value; .param .b32 result;
    st.param.b32 [value], %r2;
    call (result), rotate, (value);
    ld.param.b32 %r3, [result]; }
  st.global.u32 [%rd3], %r3;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p1, %r4, 5;
  @%p1 bra LOOP;
  ret;
})";
  std::vector<uint32_t> expected;
  for (uint64_t seed = 0; seed < kSchedules; ++seed) {
    Machine m(code, {.threads = 1, .seed = seed, .watch = seed % 2 == 1});
    std::vector<uint32_t> x(32);
    std::iota(x.begin(), x.end(), 1);
    const Address a = m.array(x);
    EXPECT_EQ(m.launch("calls", {1}, {32}, {a}).fault.message, "") << seed;
    if (seed == 0)
      expected = m.read<uint32_t>(a, 32);
    else
      EXPECT_EQ(m.read<uint32_t>(a, 32), expected) << seed;
  }
}

// A lane that is far ahead arrives at the next phase of the cluster's barrier before others have left the last.
TEST(Drift, LanesPassTheClusterBarrierApart) {
  const char* code = R"(
.visible .entry phases(.param .u64 out) {
  .reg .b32 %r<8>; .reg .b64 %rd<5>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r5, %ctaid.x;
  mad.lo.u32 %r1, %r5, 32, %r1;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r4, 0;
LOOP:
  barrier.cluster.arrive.release;
  ld.global.u32 %r2, [%rd3];
  add.u32 %r2, %r2, 1;
  st.global.u32 [%rd3], %r2;
  barrier.cluster.wait.acquire;
  add.u32 %r4, %r4, 1;
  setp.lt.u32 %p1, %r4, 6;
  @%p1 bra LOOP;
  ret;
})";
  for (uint64_t seed = 0; seed < kSchedules; ++seed) {
    Machine m(code, {.threads = 1, .seed = seed});
    const Address a = m.array(std::vector<uint32_t>(64));
    EXPECT_EQ(m.launch("phases", {2}, {32}, {a}, {.cluster = {2, 1, 1}}).fault.message, "") << seed;
    EXPECT_EQ(m.read<uint32_t>(a, 64), std::vector<uint32_t>(64, 6)) << seed;
  }
}

// Who adds to a counter first.
std::vector<uint32_t> order_of_arrival(uint64_t seed, uint32_t blocks, uint32_t warps) {
  Machine m(R"(
.visible .entry arrive(.param .u64 out) {
  .reg .b32 %r<8>; .reg .b64 %rd<5>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 31;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra DONE;
  atom.global.add.u32 %r3, [%rd1], 1;
  mov.u32 %r4, %ctaid.x;
  mov.u32 %r5, %ntid.x;
  mad.lo.u32 %r6, %r4, %r5, %r1;
  shr.u32 %r6, %r6, 5;
  mul.wide.u32 %rd2, %r6, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3+4], %r3;
DONE:
  ret;
})",
            {.threads = 1, .seed = seed});
  const Address a = m.array(std::vector<uint32_t>(1 + blocks * warps));
  EXPECT_EQ(m.launch("arrive", {blocks}, {warps * 32}, {a}).fault.message, "") << seed;
  return m.read<uint32_t>(a + 4, blocks * warps);
}

TEST(Orders, TheLastComesFirst) {
  EXPECT_EQ(order_of_arrival(0, 2, 2), (std::vector<uint32_t>{0, 1, 2, 3}));
  EXPECT_EQ(order_of_arrival(schedule_of(ScheduleKind::LastFirst, 1), 2, 2),
            (std::vector<uint32_t>{3, 2, 1, 0}));
}

TEST(Orders, TheStarvedBlockComesLast) {
  for (const uint64_t seed : {uint64_t{8}, uint64_t{16}, uint64_t{24}}) {
    const auto arrival = order_of_arrival(schedule_of(ScheduleKind::Starved, seed), 5, 1);
    EXPECT_EQ(std::set<uint32_t>(arrival.begin(), arrival.end()), (std::set<uint32_t>{0, 1, 2, 3, 4}));
  }
  std::set<size_t> last;
  for (uint64_t seed = 8; seed < 80; seed += 8) {
    const auto arrival = order_of_arrival(schedule_of(ScheduleKind::Starved, seed), 5, 1);
    last.insert(static_cast<size_t>(std::find(arrival.begin(), arrival.end(), 4u) - arrival.begin()));
  }
  EXPECT_GT(last.size(), 2u);
}

// Block n waits for block n - 1. In text order that ends; so it must where others were started first and no more fit.
TEST(Orders, LowerBlocksAreLetInWhenAllOthersWait) {
  const char* code = R"(
.visible .entry chain(.param .u64 flags) {
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [flags];
  mov.u32 %r1, %ctaid.x;
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd5, %rd1, %rd4;
  mov.u32 %r4, 0;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra READY;
WAIT:
  ld.acquire.gpu.global.u32 %r4, [%rd5+-4];
  setp.eq.u32 %p2, %r4, 0;
  @%p2 bra WAIT;
READY:
  add.u32 %r5, %r4, 1;
  st.release.gpu.global.u32 [%rd5], %r5;
  ret;
})";
  constexpr uint32_t kBlocks = 90;  // a multiprocessor holds 32
  for (const uint64_t seed :
       {uint64_t{0}, schedule_of(ScheduleKind::LastFirst, 8), uint64_t{1}, uint64_t{2}}) {
    Machine m(code, {.threads = 1, .seed = seed, .multiprocessors = 1});
    const Address a = m.array(std::vector<uint32_t>(kBlocks));
    EXPECT_EQ(m.launch("chain", {kBlocks}, {32}, {a}).fault.message, "") << seed;
    EXPECT_EQ(m.read<uint32_t>(a, kBlocks).back(), kBlocks) << seed;
  }
}

// A counter that is read and written in two volatile accesses loses additions when warps change places in between.
TEST(Orders, WarpsChangePlacesBetweenVolatileAccesses) {
  const char* code = R"(
.visible .entry count(.param .u64 out) {
  .reg .b32 %r<8>; .reg .b64 %rd<5>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  and.b32 %r2, %r1, 31;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra DONE;
  ld.volatile.global.u32 %r3, [%rd1];
  add.u32 %r3, %r3, 1;
  st.volatile.global.u32 [%rd1], %r3;
DONE:
  ret;
})";
  const auto count = [&](uint64_t seed) {
    Machine m(code, {.threads = 1, .seed = seed});
    const Address a = m.array(std::vector<uint32_t>(1));
    EXPECT_EQ(m.launch("count", {1}, {256}, {a}).fault.message, "") << seed;
    return m.read<uint32_t>(a, 1)[0];
  };
  EXPECT_EQ(count(0), 8u);
  EXPECT_LT(count(schedule_of(ScheduleKind::Interleaved, 8)), 8u);
}

}  // namespace
}  // namespace assay::vgpu
