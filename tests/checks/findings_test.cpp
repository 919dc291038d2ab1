// What the checks say of small kernels: for each defect a wrong kernel and the right one beside it.
#include <gmock/gmock.h>

#include <set>

#include "base/symbol.h"
#include "checks/checks.h"
#include "finding/message.h"
#include "vgpu/machine.h"

namespace assay::checks {
namespace {

using vgpu::Address;
using vgpu::Dim3;
using vgpu::testing::Machine;

TEST(Names, AreAsInTheSource) {
  EXPECT_EQ(plain_name("_Z6reduceIfEvPKT_PS0_i"), "reduce<float>");
  EXPECT_EQ(plain_name("_ZN12_GLOBAL__N_16columnEPfi"), "column");
  EXPECT_EQ(plain_name("_ZN41_GLOBAL__N__7cc9a8d4_9_kernel_cu_31b7a5e24scanEPi"), "scan");
  EXPECT_EQ(plain_name("main"), "main");
}

TEST(Names, LoseTemplateArgumentsBeforeTheyAreCut) {
  EXPECT_EQ(short_name("_Z6reduceIfEvPKT_PS0_i", 13), "reduce<float>");
  EXPECT_EQ(short_name("_Z6reduceIfEvPKT_PS0_i", 12), "reduce<...>");
  EXPECT_EQ(short_name("_Z6reduceIfEvPKT_PS0_i", 8), "...<...>");
}

struct Case {
  const char* name;
  const char*
      body;  // of a kernel with parameters x (u64) and flag (u32); %t is the thread, %a its address in x
  Dim3 grid, block;
  uint32_t flag;
  const char* expected;  // the kinds found, in order, with commas; "" for none
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.name;
}

// Registers and addresses that every case uses: %rd1 = x, %rd3 = &x[global thread], %r1 = thread, %r6 =
// &s[thread].
std::string kernel(const char* body) {
  return std::string(R"(
.global .align 4 .u32 ticket;
.global .align 4 .u32 ready;
.visible .entry k(.param .u64 x, .param .u64 flag) {
  .shared .align 4 .b8 s[1024];
  .reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<12>; .reg .f32 %f<9>;
  ld.param.u64 %rd1, [x];
  ld.param.u32 %r9, [flag];
  setp.ne.u32 %p8, %r9, 0;
  mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
  mad.lo.s32 %r4, %r2, %r3, %r1;
  mul.wide.u32 %rd2, %r4, 4;
  add.s64 %rd3, %rd1, %rd2;
  mov.u32 %r5, s;
  shl.b32 %r7, %r1, 2;
  add.u32 %r6, %r5, %r7;
)") + body +
         "\n  ret;\n}\n";
}

class Checks : public ::testing::TestWithParam<Case> {};

TEST_P(Checks, FindsWhatIsThereAndNothingElse) {
  const Case& c = GetParam();
  for (uint64_t seed : {0, 3}) {
    Machine m(kernel(c.body), {.seed = seed, .watch = true});
    FindingLog log;
    auto checks = make_checks(CheckSet::for_run(), log, m.device().memory());
    for (auto& check : checks) m.device().listen(check.get());
    const Address x = m.array(std::vector<uint32_t>(1024), "x");
    m.launch("k", c.grid, c.block, {x, c.flag});
    std::set<std::string> found;
    for (const Finding& finding : log.take()) {
      found.emplace(to_string(finding.kind));
      EXPECT_FALSE(message(finding).empty());
      EXPECT_GE(finding.count, 1u);
      EXPECT_EQ(kernel_of(finding), "k");
    }
    std::string kinds;
    for (const std::string& kind : found) kinds += (kinds.empty() ? "" : ",") + kind;
    EXPECT_EQ(kinds, c.expected) << "seed " << seed;
  }
}

constexpr const char* kExchange = R"(
  ld.global.u32 %r10, [%rd3];
  st.shared.u32 [%r6], %r10;
  @%p8 bar.sync 0;
  xor.b32 %r11, %r7, 128;
  add.u32 %r12, %r5, %r11;
  ld.shared.u32 %r13, [%r12];
  st.global.u32 [%rd3], %r13;)";

constexpr const char* kExchangeInWarp = R"(
  ld.global.u32 %r10, [%rd3];
  st.shared.u32 [%r6], %r10;
  @%p8 bar.warp.sync 0xffffffff;
  xor.b32 %r11, %r7, 4;
  add.u32 %r12, %r5, %r11;
  ld.shared.u32 %r13, [%r12];
  st.global.u32 [%rd3], %r13;)";

// Every block writes one value, the last one to come reads them all.
constexpr const char* kLastBlock = R"(
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra DONE;
  mul.wide.u32 %rd4, %r2, 4;
  add.s64 %rd5, %rd1, %rd4;
  st.global.u32 [%rd5], %r2;
  @%p8 membar.gl;
  mov.u64 %rd6, ticket;
  atom.global.add.u32 %r10, [%rd6], 1;
  mov.u32 %r11, %nctaid.x;
  sub.u32 %r11, %r11, 1;
  setp.ne.u32 %p2, %r10, %r11;
  @%p2 bra DONE;
  membar.gl;
  ld.global.u32 %r12, [%rd1];
  ld.global.u32 %r13, [%rd1+4];
  add.u32 %r14, %r12, %r13;
  st.global.u32 [%rd1+2048], %r14;
DONE:)";

constexpr const char* kFlag = R"(
  mov.u64 %rd6, ready;
  setp.ne.u32 %p1, %r2, 0;
  @%p1 bra READER;
  st.global.u32 [%rd1+512], 7;
  @%p8 membar.gl;
  st.volatile.global.u32 [%rd6], 1;
  bra DONE;
READER:
  ld.volatile.global.u32 %r10, [%rd6];
  setp.eq.u32 %p2, %r10, 0;
  @%p2 bra READER;
  membar.gl;
  ld.global.u32 %r11, [%rd1+512];
  st.global.u32 [%rd1+1024], %r11;
DONE:)";

// The compiler hoists a load out of a condition: threads that discard the value race with nobody.
constexpr const char* kHoisted = R"(
  st.shared.u32 [%r6], %r1;
  bar.sync 0;
  ld.shared.u32 %r10, [%r5];
  setp.eq.u32 %p1, %r1, 0;
  selp.b32 %r11, %r10, 0, %p1;
  @!%p1 bra DONE;
  add.u32 %r12, %r11, 5;
  st.shared.u32 [%r5], %r12;
DONE:)";

const Case kSmallKernels[] = {
    {"SharedExchangeWithoutBarrier", kExchange, {1}, {64}, 0, "data-race,uninitialized"},
    {"SharedExchangeWithBarrier", kExchange, {2}, {64}, 1, ""},
    {"WarpExchangeWithoutSync", kExchangeInWarp, {1}, {32}, 0, "data-race"},
    {"WarpExchangeWithSync", kExchangeInWarp, {1}, {32}, 1, ""},
    {"LastBlockWithoutFence", kLastBlock, {2}, {32}, 0, "data-race"},
    {"LastBlockWithFence", kLastBlock, {2}, {32}, 1, ""},
    {"FlagWithoutFence", kFlag, {2}, {1}, 0, "data-race"},
    {"FlagWithFence", kFlag, {2}, {1}, 1, ""},
    {"HoistedLoad", kHoisted, {1}, {64}, 0, ""},
    {"DifferentValuesToOneAddress", "st.global.u32 [%rd1], %r1;", {1}, {32}, 0, "data-race"},
    {"SameValueToOneAddress", "st.global.u32 [%rd1], 5;", {2}, {32}, 0, ""},
    {"PlainIncrement",
     "ld.global.u32 %r10, [%rd1]; add.u32 %r10, %r10, 1; st.global.u32 [%rd1], %r10;",
     {2},
     {1},
     0,
     "data-race"},
    {"AtomicIncrement", "atom.global.add.u32 %r10, [%rd1], 1;", {2}, {64}, 0, ""},
    {"AtomicAgainstPlainRead",
     "setp.eq.u32 %p1, %r1, 0; @%p1 atom.global.add.u32 %r10, [%rd1], 1; @!%p1 ld.global.u32 %r11, [%rd1]; "
     "st.global.u32 [%rd3+256], %r11;",
     {1},
     {2},
     0,
     "data-race,uninitialized"},
    {"BlockScopeAtomicsOfTwoBlocks",
     "atom.relaxed.cta.global.add.u32 %r10, [%rd1], 1;",
     {2},
     {1},
     0,
     "data-race"},
    {"PastTheEnd", "st.global.u32 [%rd3+4096], %r1;", {1}, {32}, 0, "out-of-bounds"},
    {"PastSharedMemory", "st.shared.u32 [%r6+1024], %r1;", {1}, {32}, 0, "out-of-bounds"},
    {"InsideToTheLastByte",
     "st.global.u32 [%rd3+3968], %r1; st.shared.u32 [%r6+896], %r1;",
     {1},
     {32},
     0,
     ""},
    {"Misaligned", "st.global.u32 [%rd3+2], %r1;", {1}, {32}, 0, "misaligned"},
    {"RegisterNeverWritten", "st.global.u32 [%rd3], %r20;", {1}, {32}, 0, "uninitialized"},
    {"SharedNeverWritten",
     "ld.shared.u32 %r10, [%r6]; st.global.u32 [%rd3], %r10;",
     {1},
     {32},
     0,
     "uninitialized"},
    {"LoadedAndNotUsed", "ld.shared.u32 %r10, [%r6];", {1}, {32}, 0, ""},
    {"BranchOnUndefined",
     "setp.eq.u32 %p1, %r20, 3; @%p1 bra OVER; st.global.u32 [%rd3], 1; OVER:",
     {1},
     {32},
     0,
     "uninitialized"},
    {"UndefinedBitsMaskedAway", "and.b32 %r10, %r20, 0; st.global.u32 [%rd3], %r10;", {1}, {32}, 0, ""},
    {"BarrierOfHalfAWarp",
     "setp.ge.u32 %p1, %r1, 16; @%p1 bra OVER; bar.sync 0; OVER: st.global.u32 [%rd3], 1;",
     {1},
     {32},
     0,
     "barrier-divergence"},
    {"EarlyReturnBeforeABarrier",
     "setp.ge.u32 %p1, %r1, 16; @%p1 ret; bar.sync 0; st.global.u32 [%rd3], 1;",
     {1},
     {32},
     0,
     ""},
    {"EarlyReturnAfterAStore",
     "setp.lt.u32 %p1, %r1, 16; @!%p1 bra LEAVE; bar.sync 0; st.global.u32 [%rd3], 1; ret; LEAVE: "
     "st.global.u32 [%rd3], 2;",
     {1},
     {32},
     0,
     ""},
    {"VolatileWordOfAnotherLane",
     "st.volatile.shared.u32 [%r6], %r3; ld.volatile.shared.u32 %r10, [%r5]; st.global.u32 [%rd3], %r10;",
     {1},
     {32},
     0,
     "data-race"},
    {"VolatileWordOfAnotherLaneAfterAWarpBarrier",
     "st.volatile.shared.u32 [%r6], %r3; bar.warp.sync 0xffffffff; ld.volatile.shared.u32 %r10, [%r5]; "
     "st.global.u32 [%rd3], %r10;",
     {1},
     {32},
     0,
     ""},
    {"VolatileWordThatLanesWaitFor",
     "setp.ne.u32 %p1, %r1, 0; st.volatile.shared.u32 [%r6], 0; bar.sync 0; @%p1 bra WAIT; "
     "st.volatile.shared.u32 [%r5], 1; WAIT: ld.volatile.shared.u32 %r10, [%r5]; setp.eq.u32 %p2, %r10, 0; "
     "@%p2 bra WAIT; st.global.u32 [%rd3], %r10;",
     {1},
     {32},
     0,
     ""},
    // A loop all right, but it goes on by its counter, and what was read is added up.
    {"VolatileWordReadInALoop",
     "mov.u32 %r11, 0; st.volatile.shared.u32 [%r6], 0; bar.sync 0; STEP: ld.volatile.shared.u32 %r10, "
     "[%r5]; "
     "add.u32 %r10, %r10, %r3; st.volatile.shared.u32 [%r6], %r10; add.u32 %r11, %r11, 1; setp.lt.u32 %p2, "
     "%r11, 3; "
     "@%p2 bra STEP;",
     {1},
     {32},
     0,
     "data-race"},
    {"BarrierAfterOneLaneDidMore",
     "setp.ne.u32 %p1, %r1, 0; @%p1 bra OVER; st.shared.u32 [%r5], 1; OVER: bar.sync 0; ld.shared.u32 %r10, "
     "[%r5]; st.global.u32 [%rd3], %r10;",
     {1},
     {64},
     0,
     ""},
};

INSTANTIATE_TEST_SUITE_P(Kernels, Checks, ::testing::ValuesIn(kSmallKernels),
                         [](const auto& c) { return std::string(c.param.name); });

TEST(MakeChecks, WhatIsOffSaysNothing) {
  Machine m(kernel("st.global.u32 [%rd1], %r1;"), {.watch = true});
  FindingLog log;
  auto made = make_checks({protocol::Check::Memory, protocol::Check::Init}, log, m.device().memory());
  for (auto& check : made) m.device().listen(check.get());
  const Address x = m.array(std::vector<uint32_t>(1024), "x");
  m.launch("k", {1}, {32}, {x, 0});
  EXPECT_TRUE(log.take().empty());
}

}  // namespace
}  // namespace assay::checks
