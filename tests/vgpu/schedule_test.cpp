// How threads run: divergence, independent progress, barriers, calls, and launches that cannot end.
#include "machine.h"

namespace assay::vgpu {
namespace {

using testing::Machine;
using ::testing::Test;

constexpr const char* kSaxpy = R"(
.visible .entry scale(.param .u64 x, .param .u64 n) {
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %rd<6>; .reg .f32 %f<3>;
  ld.param.u64 %rd1, [x];
  ld.param.u32 %r5, [n];
  mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x;
  mad.lo.s32 %r4, %r1, %r2, %r3;
  setp.ge.u32 %p1, %r4, %r5;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd2, %rd1;
  mul.wide.u32 %rd3, %r4, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.f32 %f1, [%rd4];
  fma.rn.f32 %f2, %f1, 0f40000000, 0f3F800000;
  st.global.f32 [%rd4], %f2;
DONE:
  ret;
})";

TEST(Launch, EveryThreadRunsOnce) {
  Machine m(kSaxpy);
  std::vector<float> x(1000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  const Address a = m.array(x);
  const LaunchOutcome outcome = m.launch("scale", {8}, {128}, {a, 1000});
  EXPECT_EQ(outcome.fault.message, "");
  const auto y = m.read<float>(a, 1000);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], 2 * x[i] + 1) << i;
  EXPECT_GT(outcome.warp_instructions, 8u * 4 * 10);
}

TEST(Launch, TheGuardOfATailHolds) {
  Machine m(kSaxpy);
  const Address a = m.array(std::vector<float>(100, 3));
  const LaunchOutcome outcome = m.launch("scale", {1}, {128}, {a, 99});
  EXPECT_EQ(outcome.fault.message, "");
  EXPECT_EQ(m.read<float>(a, 100)[98], 7);
  EXPECT_EQ(m.read<float>(a, 100)[99], 3);
}

TEST(Launch, AnAccessPastTheEndFaultsWithItsPlace) {
  Machine m(kSaxpy);
  const Address a = m.array(std::vector<float>(100, 3));
  const LaunchOutcome outcome = m.launch("scale", {1}, {128}, {a, 128});
  EXPECT_EQ(outcome.fault.kind, FaultInfo::Kind::IllegalAddress);
  EXPECT_NE(outcome.fault.message.find("kernel `scale`"), std::string::npos) << outcome.fault.message;
}

// Each lane leaves the loop after its own number of rounds.
TEST(Divergence, LanesLeaveALoopOneByOneAndMeetAfterIt) {
  Machine m(R"(
.visible .entry loops(.param .u64 out) {
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, 0;
  mov.u32 %r3, 0;
LOOP:
  setp.ge.u32 %p1, %r2, %r1;
  @%p1 bra OUT;
  add.u32 %r2, %r2, 1;
  add.u32 %r3, %r3, %r2;
  bra LOOP;
OUT:
  vote.sync.ballot.b32 %r4, %p1, 0xffffffff;
  mul.wide.u32 %rd2, %r1, 8;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r3;
  st.global.u32 [%rd3+4], %r4;
  ret;
})");
  const Address a = m.array(std::vector<uint32_t>(64));
  EXPECT_EQ(m.launch("loops", {1}, {32}, {a}).fault.message, "");
  const auto out = m.read<uint32_t>(a, 64);
  for (uint32_t l = 0; l < 32; ++l) {
    EXPECT_EQ(out[2 * l], l * (l + 1) / 2);
    EXPECT_EQ(out[2 * l + 1], 0xffffffffu);
  }
}

// A lock taken by one lane at a time within a warp: only independent progress ends this.
TEST(Progress, LanesOfAWarpCanWaitForEachOther) {
  Machine m(R"(
.visible .entry lock(.param .u64 mutex) {
  .reg .pred %p<3>; .reg .b32 %r<8>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [mutex];
SPIN:
  atom.global.cas.b32 %r1, [%rd1], 0, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra SPIN;
  ld.volatile.global.u32 %r2, [%rd1+4];
  add.u32 %r2, %r2, 1;
  st.volatile.global.u32 [%rd1+4], %r2;
  membar.gl;
  atom.global.exch.b32 %r3, [%rd1], 0;
  ret;
})");
  const Address a = m.array(std::vector<uint32_t>(2));
  EXPECT_EQ(m.launch("lock", {4}, {96}, {a}).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(a, 2)[1], 4u * 96);
}

constexpr const char* kChain = R"(
.visible .entry chain(.param .u64 flags, .param .u64 forward) {
  .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [flags];
  ld.param.u32 %r7, [forward];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %nctaid.x;
  setp.ne.u32 %p3, %r7, 0;
  @%p3 bra FORWARD;
  add.u32 %r3, %r1, 1;
  setp.eq.u32 %p1, %r3, %r2;
  bra CHOSEN;
FORWARD:
  sub.u32 %r3, %r1, 1;
  setp.eq.u32 %p1, %r1, 0;
CHOSEN:
  mov.u32 %r4, 0;
  @%p1 bra READY;
  mul.wide.u32 %rd2, %r3, 4;
  add.s64 %rd3, %rd1, %rd2;
WAIT:
  ld.acquire.gpu.global.u32 %r4, [%rd3];
  setp.eq.u32 %p2, %r4, 0;
  @%p2 bra WAIT;
READY:
  add.u32 %r5, %r4, 1;
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd5, %rd1, %rd4;
  st.release.gpu.global.u32 [%rd5], %r5;
  ret;
})";

TEST(Progress, ABlockMayWaitForAnEarlierOne) {
  Machine m(kChain);
  const Address a = m.array(std::vector<uint32_t>(500));
  EXPECT_EQ(m.launch("chain", {500}, {1}, {a, 1}).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(a, 500)[499], 500u);
}

TEST(Progress, ABlockMayWaitForALaterResidentOne) {
  Machine m(kChain);
  const Address a = m.array(std::vector<uint32_t>(500));
  EXPECT_EQ(m.launch("chain", {500}, {1}, {a, 0}).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(a, 500)[0], 500u);
}

TEST(Progress, WaitingForeverIsALivelockThatSaysWhere) {
  Machine n(R"(
.visible .entry never(.param .u64 flag) {
  .reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [flag];
WAIT:
  ld.volatile.global.u32 %r1, [%rd1];
  setp.eq.u32 %p1, %r1, 0;
  @%p1 bra WAIT;
  ret;
})");
  const Address b = n.array(std::vector<uint32_t>(1));
  const LaunchOutcome stuck = n.launch("never", {2}, {32}, {b});
  EXPECT_EQ(stuck.fault.kind, FaultInfo::Kind::Livelock);
  EXPECT_NE(stuck.fault.message.find("test.ptx:"), std::string::npos) << stuck.fault.message;
}

TEST(Progress, AnEndlessLoopEndsAtTheInstructionLimit) {
  Machine m(R"(
.visible .entry forever() {
LOOP:
  bra LOOP;
})",
            {.instruction_limit = 1'000'000});
  EXPECT_EQ(m.launch("forever", {1}, {32}, {}).fault.kind, FaultInfo::Kind::Livelock);
}

constexpr const char* kReverse = R"(
.visible .entry reverse(.param .u64 x) {
  .shared .align 4 .b8 tile[1024];
  .reg .b32 %r<8>; .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [x];
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  ld.global.u32 %r2, [%rd3];
  shl.b32 %r3, %r1, 2;
  mov.u32 %r4, tile;
  add.u32 %r5, %r4, %r3;
  st.shared.u32 [%r5], %r2;
  bar.sync 0;
  sub.u32 %r6, 1020, %r3;
  add.u32 %r6, %r4, %r6;
  ld.shared.u32 %r7, [%r6];
  st.global.u32 [%rd3], %r7;
  ret;
})";

TEST(Barrier, SharedMemoryIsSeenAfterIt) {
  for (uint64_t seed : {0, 1, 2, 77}) {
    Machine m(kReverse, {.seed = seed});
    std::vector<uint32_t> x(256);
    for (uint32_t i = 0; i < 256; ++i) x[i] = i;
    const Address a = m.array(x);
    EXPECT_EQ(m.launch("reverse", {1}, {256}, {a}).fault.message, "");
    const auto y = m.read<uint32_t>(a, 256);
    for (uint32_t i = 0; i < 256; ++i) ASSERT_EQ(y[i], 255 - i);
  }
}

TEST(Barrier, ThreadsThatHaveExitedCountAsArrived) {
  Machine m(R"(
.visible .entry early(.param .u64 out) {
  .reg .pred %p<2>; .reg .b32 %r<3>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 40;
  @%p1 ret;
  bar.sync 0;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r1;
  ret;
})");
  const Address a = m.array(std::vector<uint32_t>(128, 999));
  EXPECT_EQ(m.launch("early", {1}, {128}, {a}).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(a, 128)[39], 39u);
  EXPECT_EQ(m.read<uint32_t>(a, 128)[40], 999u);
}

TEST(Barrier, DifferentBarriersInOneBlockAreADeadlock) {
  Machine m(R"(
.visible .entry stuck() {
  .reg .pred %p<2>; .reg .b32 %r<3>;
  mov.u32 %r1, %tid.x;
  setp.ge.u32 %p1, %r1, 32;
  @%p1 bra OTHER;
  bar.sync 1;
  ret;
OTHER:
  bar.sync 2;
  ret;
})");
  const LaunchOutcome outcome = m.launch("stuck", {1}, {64}, {});
  EXPECT_EQ(outcome.fault.kind, FaultInfo::Kind::Deadlock);
  EXPECT_NE(outcome.fault.message.find("warp 1"), std::string::npos) << outcome.fault.message;
}

TEST(Barrier, ReductionsCountTheThreadsWhosePredicateHolds) {
  Machine m(R"(
.visible .entry votes(.param .u64 out) {
  .reg .pred %p<6>; .reg .b32 %r<8>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 37;
  bar.red.popc.u32 %r2, 0, %p1;
  bar.red.and.pred %p2, 0, %p1;
  bar.red.or.pred %p3, 0, %p1;
  bar.red.or.pred %p4, 0, !%p1;
  selp.u32 %r3, 1, 0, %p2;
  selp.u32 %r4, 1, 0, %p3;
  selp.u32 %r5, 1, 0, %p4;
  mul.wide.u32 %rd2, %r1, 16;
  add.s64 %rd3, %rd1, %rd2;
  st.global.v4.u32 [%rd3], {%r2, %r3, %r4, %r5};
  ret;
})");
  const Address a = m.array(std::vector<uint32_t>(4 * 96));
  EXPECT_EQ(m.launch("votes", {1}, {96}, {a}).fault.message, "");
  const auto out = m.read<uint32_t>(a, 4 * 96);
  for (size_t t : {0u, 40u, 95u}) {
    EXPECT_EQ(out[4 * t], 37u);
    EXPECT_EQ(out[4 * t + 1], 0u);
    EXPECT_EQ(out[4 * t + 2], 1u);
    EXPECT_EQ(out[4 * t + 3], 1u);
  }
}

TEST(Call, FunctionsMayRecurseToDifferentDepths) {
  Machine m(R"(
.func (.param .b32 result) factorial(.param .b32 n) {
  .reg .pred %p<2>; .reg .b32 %r<6>;
  ld.param.u32 %r1, [n];
  mov.u32 %r4, 1;
  setp.le.u32 %p1, %r1, 1;
  @%p1 bra DONE;
  sub.u32 %r2, %r1, 1;
  {
    .param .b32 argument;
    .param .b32 back;
    st.param.b32 [argument], %r2;
    call.uni (back), factorial, (argument);
    ld.param.b32 %r3, [back];
  }
  mul.lo.u32 %r4, %r3, %r1;
DONE:
  st.param.b32 [result], %r4;
  ret;
}
.visible .entry factorials(.param .u64 out) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  {
    .param .b32 argument;
    .param .b32 back;
    st.param.b32 [argument], %r1;
    call.uni (back), factorial, (argument);
    ld.param.b32 %r2, [back];
  }
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;
})");
  const Address a = m.array(std::vector<uint32_t>(12));
  EXPECT_EQ(m.launch("factorials", {1}, {12}, {a}).fault.message, "");
  const auto out = m.read<uint32_t>(a, 12);
  uint32_t expected = 1;
  for (uint32_t i = 0; i < 12; ++i) {
    expected *= i ? i : 1;
    EXPECT_EQ(out[i], expected) << i;
  }
}

TEST(Call, LanesMayCallDifferentFunctionsThroughPointers) {
  Machine m(R"(
.func (.param .b32 result) twice(.param .b32 n) {
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [n];
  add.u32 %r2, %r1, %r1;
  st.param.b32 [result], %r2;
  ret;
}
.func (.param .b32 result) plus(.param .b32 n) {
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [n];
  add.u32 %r2, %r1, 1000;
  st.param.b32 [result], %r2;
  ret;
}
.visible .entry choose(.param .u64 out) {
  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<7>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  and.b32 %r3, %r1, 1;
  setp.eq.u32 %p1, %r3, 0;
  mov.u64 %rd4, twice;
  mov.u64 %rd5, plus;
  selp.b64 %rd6, %rd4, %rd5, %p1;
  {
    .param .b32 argument;
    .param .b32 back;
    st.param.b32 [argument], %r1;
    prototype: .callprototype (.param .b32 _) _ (.param .b32 _);
    call (back), %rd6, (argument), prototype;
    ld.param.b32 %r2, [back];
  }
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3], %r2;
  ret;
})");
  const Address a = m.array(std::vector<uint32_t>(32));
  EXPECT_EQ(m.launch("choose", {1}, {32}, {a}).fault.message, "");
  const auto out = m.read<uint32_t>(a, 32);
  for (uint32_t l = 0; l < 32; ++l) EXPECT_EQ(out[l], l % 2 ? l + 1000 : 2 * l) << l;
}

TEST(Schedule, SameSeedSameRun) {
  const auto run = [](uint64_t seed) {
    Machine m(R"(
.visible .entry order(.param .u64 next) {
  .reg .b32 %r<4>; .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [next];
  atom.global.add.u32 %r1, [%rd1], 1;
  mov.u32 %r2, %ctaid.x;
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd3, %rd1, %rd2;
  st.global.u32 [%rd3+4], %r2;
  ret;
})",
              {.seed = seed});
    const Address a = m.array(std::vector<uint32_t>(101));
    EXPECT_EQ(m.launch("order", {100}, {1}, {a}).fault.message, "");
    return m.read<uint32_t>(a + 4, 100);
  };
  const auto first = run(5);
  EXPECT_EQ(first, run(5));
  EXPECT_NE(first, run(6));
  EXPECT_EQ(run(0)[7], 7u);
}

}  // namespace
}  // namespace assay::vgpu
