// Asynchronous copies take effect at the wait and not before; mbarriers count as the manual says.
#include <fmt/format.h>

#include "recorder.h"

namespace assay::vgpu {
namespace {

using testing::Machine;
using testing::one_thread;
using testing::Recorder;

class Async : public ::testing::TestWithParam<bool> {
 protected:
  Options options() const { return one_thread(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Builds, Async, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "watched" : "plain"; });

std::vector<uint32_t> numbers(size_t count) {
  std::vector<uint32_t> v(count);
  for (size_t i = 0; i < count; ++i) v[i] = static_cast<uint32_t>(i * 3 + 7);
  return v;
}

// Each thread copies `bytes` to shared memory, waits as told, and stores the first and last word.
std::string copy_kernel(const std::string& copy, const std::string& wait) {
  return fmt::format(R"(
.shared .align 16 .b8 tile[1024];
.visible .entry k(.param .u64 src, .param .u64 dst, .param .u64 size) {{
  .reg .b64 %src, %dst, %o; .reg .b32 %t, %s, %v, %w, %n; .reg .pred %p;
  ld.param.u64 %src, [src]; ld.param.u64 %dst, [dst]; ld.param.u32 %n, [size]; mov.u32 %t, %tid.x;
  mul.wide.u32 %o, %t, 16; add.u64 %src, %src, %o; mov.u32 %s, tile; shl.b32 %v, %t, 4; add.u32 %s, %s, %v;
  mov.u32 %v, 1; st.shared.v4.u32 [%s], {{%v, %v, %v, %v}};
  setp.ne.u32 %p, %n, 0;
  {}
  {}
  ld.shared.u32 %v, [%s]; ld.shared.u32 %w, [%s+12];
  mul.wide.u32 %o, %t, 8; add.u64 %dst, %dst, %o; st.global.v2.u32 [%dst], {{%v, %w}};
  ret;
}})",
                     copy, wait);
}

TEST_P(Async, CopiesOfEverySize) {
  struct Case {
    const char* copy;
    uint32_t size;         // parameter
    uint32_t first, last;  // words that the copy brings; 0: keeps the 1 that was there, 9: zero
  };
  for (const Case& c : {Case{"cp.async.ca.shared.global [%s], [%src], 16;", 0, 1, 1},
                        Case{"cp.async.cg.shared.global.L2::128B [%s], [%src], 16;", 0, 1, 1},
                        Case{"cp.async.ca.shared.global [%s], [%src], 4;", 0, 1, 0},
                        Case{"cp.async.ca.shared.global [%s], [%src], 8;", 0, 1, 0},
                        Case{"cp.async.cg.shared.global [%s], [%src], 16, 8;", 0, 1, 9},
                        Case{"cp.async.cg.shared.global [%s], [%src], 16, %n;", 0, 9, 9},
                        Case{"cp.async.cg.shared.global [%s], [%src], 16, %n;", 4, 1, 9},
                        Case{"cp.async.cg.shared.global [%s], [%src], 16, %p;", 1, 9, 9},
                        Case{"cp.async.cg.shared.global [%s], [%src], 16, %p;", 0, 1, 1}}) {
    for (const char* wait : {"cp.async.wait_all;", "cp.async.commit_group; cp.async.wait_group 0;"}) {
      Machine m(copy_kernel(c.copy, wait), options());
      const auto in = numbers(128);
      const Address dst = m.array(std::vector<uint32_t>(64, 0));
      ASSERT_EQ(m.launch("k", {1}, {32}, {m.array(in), dst, c.size}).fault.message, "") << c.copy;
      const auto got = m.read<uint32_t>(dst, 64);
      for (uint32_t t = 0; t < 32; ++t) {
        const auto want = [&](uint32_t what, uint32_t word) {
          return what == 0 ? 1 : what == 9 ? 0 : in[t * 4 + word];
        };
        ASSERT_EQ(got[t * 2], want(c.first, 0)) << c.copy << ' ' << c.size << " lane " << t;
        ASSERT_EQ(got[t * 2 + 1], want(c.last, 3)) << c.copy << ' ' << c.size << " lane " << t;
      }
    }
  }
}

TEST(AsyncLate, ACopyThatNobodyWaitedForHasNotHappened) {
  for (const char* wait : {"", "cp.async.commit_group;", "cp.async.wait_group 0;",
                           "cp.async.commit_group; cp.async.wait_group 1;"}) {
    Machine m(copy_kernel("cp.async.cg.shared.global [%s], [%src], 16;", wait));
    const Address dst = m.array(std::vector<uint32_t>(64, 0));
    ASSERT_EQ(m.launch("k", {1}, {32}, {m.array(numbers(128)), dst, 0}).fault.message, "");
    EXPECT_EQ(m.read<uint32_t>(dst, 64), std::vector<uint32_t>(64, 1)) << wait;
  }
}

TEST(AsyncLate, AWatchedReadBeforeTheWaitIsUndefined) {
  Machine m(copy_kernel("cp.async.cg.shared.global [%s], [%src], 16;", "cp.async.commit_group;"),
            one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  const Address dst = m.array(std::vector<uint32_t>(64, 0));
  ASSERT_EQ(m.launch("k", {1}, {32}, {m.array(numbers(128)), dst, 0}).fault.message, "");
  EXPECT_EQ(seen.count(Violation::UndefinedStore), 1u);
  Machine right(copy_kernel("cp.async.cg.shared.global [%s], [%src], 16;", "cp.async.wait_all;"),
                one_thread(true));
  Recorder silent;
  right.device().listen(&silent);
  const Address out = right.array(std::vector<uint32_t>(64, 0));
  ASSERT_EQ(right.launch("k", {1}, {32}, {right.array(numbers(128)), out, 0}).fault.message, "");
  EXPECT_EQ(silent.violations.size(), 0u);
}

// Two groups in flight: waiting for all but one brings the first only.
TEST_P(Async, GroupsArriveInOrder) {
  Machine m(R"(
.shared .align 16 .b8 tile[64];
.visible .entry k(.param .u64 src, .param .u64 dst) {
  .reg .b64 %src, %dst; .reg .b32 %s, %v;
  ld.param.u64 %src, [src]; ld.param.u64 %dst, [dst]; mov.u32 %s, tile; mov.u32 %v, 1;
  st.shared.v4.u32 [%s], {%v, %v, %v, %v}; st.shared.v4.u32 [%s+16], {%v, %v, %v, %v};
  cp.async.ca.shared.global [%s], [%src], 4; cp.async.commit_group;
  cp.async.ca.shared.global [%s+16], [%src+4], 4; cp.async.commit_group;
  cp.async.wait_group 1; ld.shared.u32 %v, [%s]; st.global.u32 [%dst], %v;
  cp.async.wait_group 0; ld.shared.u32 %v, [%s+16]; st.global.u32 [%dst+4], %v;
  ret;
})",
            options());
  const Address dst = m.array(std::vector<uint32_t>(2, 0));
  ASSERT_EQ(m.launch("k", {1}, {1}, {m.array(numbers(2)), dst}).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(dst, 2), numbers(2));
}

TEST(AsyncBounds, TheSourceIsCheckedForWhatIsRead) {
  Machine m(copy_kernel("cp.async.cg.shared.global [%s], [%src], 16, %n;", "cp.async.wait_all;"));
  const Address src = m.array(numbers(125));  // the last lane may read 4 bytes
  const Address dst = m.array(std::vector<uint32_t>(64, 0));
  EXPECT_EQ(m.launch("k", {1}, {32}, {src, dst, 4}).fault.message, "");
  EXPECT_EQ(m.launch("k", {1}, {32}, {src, dst, 8}).fault.kind, FaultInfo::Kind::IllegalAddress);
  EXPECT_EQ(m.launch("k", {1}, {32}, {src + 4, dst, 0}).fault.message, "") << "nothing is read";
  EXPECT_EQ(m.launch("k", {1}, {16}, {src + 4, dst, 16}).fault.kind, FaultInfo::Kind::MisalignedAddress);
}

// ---- mbarrier ----

TEST_P(Async, AnMbarrierCountsArrivalsAndPhases) {
  Machine m(R"(
.shared .align 8 .b64 bar;
.visible .entry k(.param .u64 dst) {
  .reg .b64 %dst, %s1, %s2; .reg .b32 %b, %v, %n; .reg .pred %p;
  ld.param.u64 %dst, [dst]; mov.u32 %b, bar;
  mbarrier.init.shared.b64 [%b], 3;
  mbarrier.arrive.shared.b64 %s1, [%b];
  mbarrier.pending_count.b64 %n, %s1; st.global.u32 [%dst], %n;
  mbarrier.test_wait.shared.b64 %p, [%b], %s1; selp.u32 %v, 1, 0, %p; st.global.u32 [%dst+4], %v;
  mbarrier.arrive.noComplete.shared.b64 %s2, [%b], 1;
  mbarrier.pending_count.b64 %n, %s2; st.global.u32 [%dst+8], %n;
  mbarrier.test_wait.parity.shared.b64 %p, [%b], 0; selp.u32 %v, 1, 0, %p; st.global.u32 [%dst+12], %v;
  mbarrier.arrive.shared.b64 _, [%b];
  mbarrier.test_wait.shared.b64 %p, [%b], %s1; selp.u32 %v, 1, 0, %p; st.global.u32 [%dst+16], %v;
  mbarrier.test_wait.parity.shared.b64 %p, [%b], 0; selp.u32 %v, 1, 0, %p; st.global.u32 [%dst+20], %v;
  mbarrier.test_wait.parity.shared.b64 %p, [%b], 1; selp.u32 %v, 1, 0, %p; st.global.u32 [%dst+24], %v;
  mbarrier.arrive_drop.shared.b64 %s1, [%b]; mbarrier.arrive.shared.b64 %s1, [%b], 2;
  mbarrier.arrive.shared.b64 %s1, [%b]; mbarrier.pending_count.b64 %n, %s1; st.global.u32 [%dst+28], %n;
  mbarrier.inval.shared.b64 [%b];
  ret;
})",
            options());
  const Address dst = m.array(std::vector<uint32_t>(8, 77));
  ASSERT_EQ(m.launch("k", {1}, {1}, {dst}).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(dst, 8), (std::vector<uint32_t>{3, 0, 2, 0, 1, 1, 0, 2}));
}

TEST_P(Async, ThreadsWaitAtAnMbarrier) {
  Machine m(R"(
.shared .align 8 .b64 bar;
.shared .align 4 .b8 tile[512];
.visible .entry k(.param .u64 dst) {
  .reg .b64 %dst, %o, %st; .reg .b32 %b, %t, %s, %v, %n; .reg .pred %p, %q;
  ld.param.u64 %dst, [dst]; mov.u32 %b, bar; mov.u32 %t, %tid.x; mov.u32 %s, tile;
  setp.ne.u32 %q, %t, 0; @%q bra READY;
  mbarrier.init.shared.b64 [%b], 128;
READY:
  bar.sync 0;
  shl.b32 %v, %t, 2; add.u32 %v, %s, %v; st.shared.u32 [%v], %t;
  mbarrier.arrive.shared.b64 %st, [%b];
WAIT:
  mbarrier.try_wait.shared.b64 %p, [%b], %st; @!%p bra WAIT;
  xor.b32 %n, %t, 127; shl.b32 %v, %n, 2; add.u32 %v, %s, %v; ld.shared.u32 %v, [%v];
  mul.wide.u32 %o, %t, 4; add.u64 %dst, %dst, %o; st.global.u32 [%dst], %v;
  ret;
})",
            options());
  const Address dst = m.array(std::vector<uint32_t>(128, 0));
  ASSERT_EQ(m.launch("k", {1}, {128}, {dst}).fault.message, "");
  const auto got = m.read<uint32_t>(dst, 128);
  for (uint32_t t = 0; t < 128; ++t) EXPECT_EQ(got[t], 127 - t);
}

TEST(Mbarrier, MisuseIsAFault) {
  for (const char* wrong :
       {"mbarrier.arrive.shared.b64 _, [%b];", "mbarrier.test_wait.parity.shared.b64 %p, [%b], 0;",
        "mbarrier.init.shared.b64 [%b], 0;",
        "mbarrier.init.shared.b64 [%b], 2; mbarrier.arrive.shared.b64 _, [%b], 3;",
        "mbarrier.init.shared.b64 [%b], 1; mbarrier.arrive.noComplete.shared.b64 %s, [%b], 1;"}) {
    Machine m(fmt::format(
        ".shared .align 8 .b64 bar;\n.visible .entry k() {{ .reg .b32 %b; .reg .b64 %s; .reg .pred %p;"
        " mov.u32 %b, bar; st.shared.u64 [%b], 0; {} ret; }}",
        wrong));
    EXPECT_EQ(m.launch("k", {1}, {1}, {}).fault.kind, FaultInfo::Kind::IllegalInstruction) << wrong;
  }
}

TEST_P(Async, CopiesArriveAtAnMbarrier) {
  Machine m(R"(
.shared .align 8 .b64 bar;
.shared .align 16 .b8 tile[512];
.visible .entry k(.param .u64 src, .param .u64 dst) {
  .reg .b64 %src, %dst, %o; .reg .b32 %b, %t, %s, %v; .reg .pred %p, %q;
  ld.param.u64 %src, [src]; ld.param.u64 %dst, [dst]; mov.u32 %b, bar; mov.u32 %t, %tid.x;
  mul.wide.u32 %o, %t, 16; add.u64 %src, %src, %o; mov.u32 %s, tile; shl.b32 %v, %t, 4; add.u32 %s, %s, %v;
  setp.ne.u32 %q, %t, 0; @%q bra READY;
  mbarrier.init.shared.b64 [%b], 32;
READY:
  bar.sync 0;
  cp.async.cg.shared.global [%s], [%src], 16;
  cp.async.mbarrier.arrive.noinc.shared.b64 [%b];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p, [%b], 0; @!%p bra WAIT;
  xor.b32 %t, %t, 31; mov.u32 %s, tile; shl.b32 %v, %t, 4; add.u32 %s, %s, %v; ld.shared.u32 %v, [%s+4];
  mul.wide.u32 %o, %t, 4; add.u64 %dst, %dst, %o; st.global.u32 [%dst], %v;
  ret;
})",
            options());
  const auto in = numbers(128);
  const Address dst = m.array(std::vector<uint32_t>(32, 0));
  ASSERT_EQ(m.launch("k", {1}, {32}, {m.array(in), dst}).fault.message, "");
  const auto got = m.read<uint32_t>(dst, 32);
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(got[t], in[t * 4 + 1]);
}

// ---- Bulk copies ----

std::string bulk_kernel(const std::string& after_issue) {
  return R"(
.shared .align 8 .b64 bar;
.shared .align 128 .b8 tile[256];
.visible .entry k(.param .u64 src, .param .u64 dst) {
  .reg .b64 %src, %dst, %o; .reg .b32 %b, %t, %s, %v; .reg .pred %p, %q;
  ld.param.u64 %src, [src]; ld.param.u64 %dst, [dst]; mov.u32 %b, bar; mov.u32 %t, %tid.x; mov.u32 %s, tile;
  shl.b32 %v, %t, 2; add.u32 %v, %s, %v; st.shared.u32 [%v], 1; st.shared.u32 [%v+128], 1;
  setp.ne.u32 %q, %t, 0; @%q bra READY;
  mbarrier.init.shared.b64 [%b], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 _, [%b], 256;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s], [%src], 128, [%b];
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%s+128], [%src+128], 128, [%b];
READY:
  bar.sync 0;
)" + after_issue +
         R"(
  shl.b32 %v, %t, 2; add.u32 %v, %s, %v; ld.shared.u32 %v, [%v+128];
  mul.wide.u32 %o, %t, 4; add.u64 %dst, %dst, %o; st.global.u32 [%dst], %v;
  ret;
})";
}

TEST_P(Async, BulkCopiesReportToAnMbarrier) {
  Machine m(bulk_kernel("WAIT:\n mbarrier.try_wait.parity.shared.b64 %p, [%b], 0; @!%p bra WAIT;\n"),
            options());
  const auto in = numbers(64);
  const Address dst = m.array(std::vector<uint32_t>(32, 0));
  ASSERT_EQ(m.launch("k", {1}, {32}, {m.array(in), dst}).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(dst, 32), std::vector<uint32_t>(in.begin() + 32, in.end()));
}

TEST(AsyncLate, ABulkCopyThatNobodyWaitedForHasNotHappened) {
  Machine m(bulk_kernel(""));
  const Address dst = m.array(std::vector<uint32_t>(32, 0));
  ASSERT_EQ(m.launch("k", {1}, {32}, {m.array(numbers(64)), dst}).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(dst, 32), std::vector<uint32_t>(32, 1));
}

TEST_P(Async, BulkCopiesOutOfSharedMemory) {
  for (const std::string form : {"cp.async.bulk.global.shared::cta.bulk_group",
                                 "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32",
                                 "cp.reduce.async.bulk.global.shared::cta.bulk_group.max.s32"}) {
    Machine m(fmt::format(R"(
.shared .align 128 .b8 tile[128];
.visible .entry k(.param .u64 dst) {{
  .reg .b64 %dst; .reg .b32 %t, %s, %v; .reg .pred %q;
  ld.param.u64 %dst, [dst]; mov.u32 %t, %tid.x; mov.u32 %s, tile;
  shl.b32 %v, %t, 2; add.u32 %v, %s, %v; st.shared.u32 [%v], %t;
  fence.proxy.async; bar.sync 0;
  setp.ne.u32 %q, %t, 0; @%q bra DONE;
  {} [%dst], [%s], 128;
  cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
DONE:
  ret;
}})",
                          form),
              options());
    const Address dst = m.array(std::vector<uint32_t>(32, 10));
    ASSERT_EQ(m.launch("k", {1}, {32}, {dst}).fault.message, "");
    const auto got = m.read<uint32_t>(dst, 32);
    for (uint32_t t = 0; t < 32; ++t)
      EXPECT_EQ(got[t], form.find("add") != std::string::npos   ? 10 + t
                        : form.find("max") != std::string::npos ? std::max(10u, t)
                                                                : t)
          << form;
  }
}

// One block sends to all four of its cluster, itself included.
TEST_P(Async, MulticastReachesEveryBlock) {
  Machine m(R"(
.shared .align 8 .b64 bar;
.shared .align 128 .b8 tile[128];
.visible .entry k(.param .u64 src, .param .u64 dst) {
  .reg .b64 %src, %dst, %o; .reg .b32 %b, %t, %s, %v, %r; .reg .pred %p, %q; .reg .b16 %mask;
  ld.param.u64 %src, [src]; ld.param.u64 %dst, [dst]; mov.u32 %b, bar; mov.u32 %t, %tid.x; mov.u32 %s, tile;
  mov.u32 %r, %cluster_ctarank; mov.b16 %mask, 15;
  setp.ne.u32 %q, %t, 0; @%q bra READY;
  mbarrier.init.shared.b64 [%b], 1;
  mbarrier.arrive.expect_tx.shared.b64 _, [%b], 128;
READY:
  barrier.cluster.arrive; barrier.cluster.wait;
  or.b32 %v, %r, %t; setp.ne.u32 %q, %v, 0; @%q bra WAIT;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%s], [%src], 128, [%b], %mask;
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p, [%b], 0; @!%p bra WAIT;
  shl.b32 %v, %t, 2; add.u32 %v, %s, %v; ld.shared.u32 %v, [%v];
  mad.lo.u32 %t, %r, 32, %t; mul.wide.u32 %o, %t, 4; add.u64 %dst, %dst, %o; st.global.u32 [%dst], %v;
  barrier.cluster.arrive; barrier.cluster.wait;
  ret;
})",
            options());
  const auto in = numbers(32);
  const Address dst = m.array(std::vector<uint32_t>(128, 0));
  LaunchConfig config;
  config.cluster = {4};
  ASSERT_EQ(m.launch("k", {4}, {32}, {m.array(in), dst}, config).fault.message, "");
  const auto got = m.read<uint32_t>(dst, 128);
  for (uint32_t i = 0; i < 128; ++i) EXPECT_EQ(got[i], in[i % 32]);
}

TEST_P(Async, StoresAndReductionsToAnotherBlock) {
  Machine m(R"(
.shared .align 8 .b64 bar;
.shared .align 8 .b8 tile[16];
.visible .entry k(.param .u64 dst) {
  .reg .b64 %dst, %o; .reg .b32 %b, %s, %v, %r, %peer, %rb, %rs; .reg .pred %p;
  ld.param.u64 %dst, [dst]; mov.u32 %b, bar; mov.u32 %s, tile; mov.u32 %r, %cluster_ctarank;
  mbarrier.init.shared.b64 [%b], 1; mbarrier.arrive.expect_tx.shared.b64 _, [%b], 8; st.shared.u32 [%s+4], 100;
  barrier.cluster.arrive; barrier.cluster.wait;
  xor.b32 %peer, %r, 1; mapa.shared::cluster.u32 %rb, %b, %peer; mapa.shared::cluster.u32 %rs, %s, %peer;
  add.u32 %v, %r, 50;
  st.async.shared::cluster.mbarrier::complete_tx::bytes.u32 [%rs], %v, [%rb];
  red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%rs+4], %v, [%rb];
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p, [%b], 0; @!%p bra WAIT;
  ld.shared.u32 %v, [%s]; ld.shared.u32 %peer, [%s+4];
  mul.wide.u32 %o, %r, 8; add.u64 %dst, %dst, %o; st.global.v2.u32 [%dst], {%v, %peer};
  barrier.cluster.arrive; barrier.cluster.wait;
  ret;
})",
            options());
  const Address dst = m.array(std::vector<uint32_t>(4, 0));
  LaunchConfig config;
  config.cluster = {2};
  ASSERT_EQ(m.launch("k", {2}, {1}, {dst}, config).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(dst, 4), (std::vector<uint32_t>{51, 151, 50, 150}));
}

TEST(AsyncRefused, TensorMapsSaySo) {
  Machine m(R"(
.shared .align 128 .b8 tile[128];
.shared .align 8 .b64 bar;
.visible .entry k(.param .u64 map) {
  .reg .b64 %m; .reg .b32 %s, %b, %x;
  ld.param.u64 %m, [map]; mov.u32 %s, tile; mov.u32 %b, bar; mov.u32 %x, 0;
  cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%s], [%m, {%x}], [%b];
  ret;
})");
  const LaunchOutcome outcome = m.launch("k", {1}, {1}, {0});
  EXPECT_NE(outcome.fault.kind, FaultInfo::Kind::None);
  EXPECT_NE(outcome.fault.message.find("tensor maps"), std::string::npos) << outcome.fault.message;
}

}  // namespace
}  // namespace assay::vgpu
