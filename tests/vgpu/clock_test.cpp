// Clocks: counted in instructions, so that equal runs read equal values.
#include "recorder.h"

namespace assay::vgpu {
namespace {

using testing::Machine;
using testing::one_thread;

constexpr uint32_t kBlocks = 64;  // enough for several threads to share them

// For each thread: the clock before and after a loop, and how far it came until at least `n` had passed.
const char* const kKernel = R"(
.visible .entry k(.param .u64 out, .param .u64 n) {
 .reg .b64 %out, %o, %a, %b, %c, %n; .reg .b32 %t, %i, %blk; .reg .pred %p;
 ld.param.u64 %out, [out]; ld.param.u64 %n, [n]; mov.u32 %t, %tid.x; mov.u32 %blk, %ctaid.x;
 mov.u64 %a, %clock64;
 mov.u32 %i, 0;
LOOP: add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 100; @%p bra LOOP;
 mov.u64 %b, %clock64;
SPIN: mov.u64 %c, %clock64; sub.u64 %c, %c, %b; setp.lt.u64 %p, %c, %n; @%p bra SPIN;
 mad.lo.u32 %t, %blk, 64, %t; mul.wide.u32 %o, %t, 24; add.u64 %out, %out, %o;
 st.global.u64 [%out], %a; st.global.u64 [%out+8], %b; st.global.u64 [%out+16], %c; ret;
}
)";

std::vector<uint64_t> read_clocks(Machine& m) {
  const Address out = m.array(std::vector<uint64_t>(3 * 64 * kBlocks));
  EXPECT_EQ(m.launch("k", {kBlocks}, {64}, {out, 10000}).fault.message, "");
  return m.read<uint64_t>(out, 3 * 64 * kBlocks);
}

TEST(Clock, GrowsAndEnds) {
  for (const bool watch : {false, true}) {
    Machine m(kKernel, one_thread(watch));
    const auto clocks = read_clocks(m);
    for (size_t i = 0; i < clocks.size(); i += 3) {
      EXPECT_GE(clocks[i + 1] - clocks[i], 300u) << "a hundred iterations of three instructions";
      EXPECT_LT(clocks[i + 1] - clocks[i], 10000u);
      EXPECT_GE(clocks[i + 2], 10000u);
    }
  }
}

TEST(Clock, IsTheSameInEveryRun) {
  Machine one(kKernel, one_thread(false));
  Options two_threads;
  two_threads.threads = 2;
  Machine two(kKernel, two_threads);
  EXPECT_EQ(read_clocks(one), read_clocks(two));
}

TEST(Clock, NeverGoesBackFromLaunchToLaunch) {
  Machine m(kKernel, one_thread(false));
  uint64_t latest = 0;
  for (int i = 0; i < 3; ++i) {
    const auto clocks = read_clocks(m);
    EXPECT_GT(clocks[0], latest);
    for (size_t k = 1; k < clocks.size(); k += 3) latest = std::max(latest, clocks[k]);
  }
}

}  // namespace
}  // namespace assay::vgpu
