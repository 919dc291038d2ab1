// Shuffles, votes, matches, warp reductions: against what CUDA's intrinsics promise.
#include <fmt/format.h>

#include <bit>

#include "recorder.h"

namespace assay::vgpu {
namespace {

using testing::Machine;
using testing::one_thread;
using testing::Recorder;

// out[tid] = body, which makes %d from %x (= in[tid]) and %t, for threads below `threads`.
std::string kernel(const std::string& body, const std::string& declarations = "") {
  return ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 threads) {\n"
         " .reg .b64 %in, %out, %o; .reg .b32 %t, %x, %d, %n, %m; .reg .pred %p, %q, %r;\n " +
         declarations +
         "\n ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u32 %n, [threads]; mov.u32 %t, "
         "%tid.x;\n"
         " mul.wide.u32 %o, %t, 4; add.u64 %in, %in, %o; add.u64 %out, %out, %o; ld.global.u32 %x, [%in];\n"
         " setp.ge.u32 %p, %t, %n; @%p bra DONE;\n" +
         body + "\n st.global.u32 [%out], %d;\nDONE:\n ret;\n}";
}

std::vector<uint32_t> run(Machine& m, const std::vector<uint32_t>& in, uint32_t threads = 32) {
  const Address out = m.array(std::vector<uint32_t>(32, 0xdead));
  const LaunchOutcome outcome = m.launch("k", {1}, {32}, {m.array(in), out, threads});
  EXPECT_EQ(outcome.fault.message, "");
  return m.read<uint32_t>(out, 32);
}

std::vector<uint32_t> numbers() {
  std::vector<uint32_t> v(32);
  for (uint32_t i = 0; i < 32; ++i) v[i] = 1000 + i * i;
  return v;
}

class Collectives : public ::testing::TestWithParam<bool> {
 protected:
  Options options() const { return one_thread(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Builds, Collectives, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "watched" : "plain"; });

TEST_P(Collectives, Shuffles) {
  const auto in = numbers();
  for (const int width : {4, 8, 16, 32}) {
    for (const int by : {0, 1, 3, 7, 16, 31}) {
      for (const std::string mode : {"up", "down", "bfly", "idx"}) {
        const int limits = (32 - width) << 8 | (mode == "up" ? 0 : 31);
        Machine m(
            kernel(fmt::format(
                " shfl.sync.{}.b32 %d|%q, %x, {}, {}, -1; selp.u32 %m, 0x10000, 0, %q; add.u32 %d, %d, %m;",
                mode, by, limits)),
            options());
        const auto got = run(m, in);
        for (int l = 0; l < 32; ++l) {
          const int first = l / width * width, last = first + width - 1;
          const int wanted = mode == "up"     ? l - by
                             : mode == "down" ? l + by
                             : mode == "bfly" ? l ^ by
                                              : first + by % width;
          const bool inside = mode == "up" ? wanted >= first : wanted <= last;
          ASSERT_EQ(got[static_cast<size_t>(l)],
                    in[static_cast<size_t>(inside ? wanted : l)] + (inside ? 0x10000 : 0))
              << mode << " by " << by << " width " << width << " lane " << l;
        }
      }
    }
  }
}

TEST_P(Collectives, ShuffleByRegisterAndInPlace) {
  Machine m(kernel(" xor.b32 %m, %t, 5; shfl.sync.idx.b32 %x, %x, %m, 31, 0xffffffff; mov.u32 %d, %x;"),
            options());
  const auto in = numbers(), got = run(m, in);
  for (uint32_t l = 0; l < 32; ++l) EXPECT_EQ(got[l], in[l ^ 5]);
}

TEST_P(Collectives, Votes) {
  std::vector<uint32_t> in(32, 0);
  for (uint32_t l : {1u, 4u, 9u, 30u}) in[l] = 1;
  const uint32_t truth = 1u << 1 | 1u << 4 | 1u << 9 | 1u << 30;
  struct Case {
    const char* text;
    uint32_t want;
  };
  const std::string before = " setp.ne.u32 %q, %x, 0; ", after = " selp.u32 %d, 1, 0, %r;";
  for (const Case& c : {Case{"vote.sync.any.pred %r, %q, -1;", 1}, Case{"vote.sync.all.pred %r, %q, -1;", 0},
                        Case{"vote.sync.uni.pred %r, %q, -1;", 0}, Case{"vote.sync.any.pred %r, !%q, -1;", 1},
                        Case{"vote.sync.all.pred %r, !%q, -1;", 0}}) {
    Machine m(kernel(before + c.text + after), options());
    EXPECT_EQ(run(m, in), std::vector<uint32_t>(32, c.want)) << c.text;
    Machine same(kernel(" setp.ge.u32 %q, %x, 0; " + std::string(c.text) + after), options());
    const bool negated = std::string(c.text).find('!') != std::string::npos;
    EXPECT_EQ(run(same, in), std::vector<uint32_t>(32, negated ? 0 : 1)) << c.text;
  }
  Machine ballot(kernel(before + "vote.sync.ballot.b32 %d, %q, -1;"), options());
  EXPECT_EQ(run(ballot, in), std::vector<uint32_t>(32, truth));
  Machine inverse(kernel(before + "vote.sync.ballot.b32 %d, !%q, -1;"), options());
  EXPECT_EQ(run(inverse, in), std::vector<uint32_t>(32, ~truth));
  // Half warps with their own masks.
  Machine halves(
      kernel(before + "and.b32 %m, %t, 16; shl.b32 %m, 0xffff, %m; vote.sync.ballot.b32 %d, %q, %m;"),
      options());
  const auto got = run(halves, in);
  for (uint32_t l = 0; l < 32; ++l) EXPECT_EQ(got[l], truth & (l < 16 ? 0xffffu : 0xffff0000u));
}

TEST_P(Collectives, ExitedLanesTakeNoPart) {
  Machine m(kernel(" setp.ge.u32 %q, %x, 0; vote.sync.ballot.b32 %d, %q, -1;"), options());
  const auto got = run(m, std::vector<uint32_t>(32, 0), 10);
  for (uint32_t l = 0; l < 32; ++l) EXPECT_EQ(got[l], l < 10 ? 0x3ffu : 0xdeadu);
}

// Two sides of a branch meet at different times; the collective waits for both.
TEST_P(Collectives, WaitForDivergedLanes) {
  Machine m(kernel(R"(
  and.b32 %m, %t, 1; setp.eq.u32 %q, %m, 0; mov.u32 %d, 0;
  @%q bra EVEN;
  mov.u32 %m, 0;
LOOP: add.u32 %m, %m, 1; add.u32 %x, %x, 1; setp.lt.u32 %r, %m, %t; @%r bra LOOP;
EVEN:
  vote.sync.ballot.b32 %d, %q, -1;
  shfl.sync.bfly.b32 %x, %x, 1, 31, -1; add.u32 %d, %d, %x;
)"),
            options());
  const auto got = run(m, std::vector<uint32_t>(32, 0));
  for (uint32_t l = 0; l < 32; ++l) EXPECT_EQ(got[l], 0x55555555u + (l % 2 == 0 ? l + 1 : 0));
}

TEST_P(Collectives, Matches) {
  std::vector<uint32_t> in(32);
  for (uint32_t l = 0; l < 32; ++l) in[l] = l % 3;
  Machine any(kernel(" match.any.sync.b32 %d, %x, -1;"), options());
  const auto got = run(any, in);
  for (uint32_t l = 0; l < 32; ++l) {
    uint32_t want = 0;
    for (uint32_t k = 0; k < 32; ++k) want |= uint32_t{in[k] == in[l]} << k;
    EXPECT_EQ(got[l], want);
  }
  Machine all(kernel(" match.all.sync.b32 %d|%q, %x, -1; selp.u32 %m, 1, 0, %q; and.b32 %d, %d, 0xfffffffe; "
                     "or.b32 %d, %d, %m;"),
              options());
  EXPECT_EQ(run(all, in), std::vector<uint32_t>(32, 0));
  EXPECT_EQ(run(all, std::vector<uint32_t>(32, 8)), std::vector<uint32_t>(32, ~0u));
  Machine wide(
      kernel(" cvt.u64.u32 %w, %x; shl.b64 %w, %w, 40; match.any.sync.b64 %d, %w, -1;", ".reg .b64 %w;"),
      options());
  EXPECT_EQ(run(wide, in), got);
}

TEST_P(Collectives, WarpReductions) {
  std::vector<uint32_t> in(32);
  for (uint32_t l = 0; l < 32; ++l) in[l] = (l * 2654435761u) ^ 0x80000001u;
  uint32_t sum = 0, band = ~0u, bor = 0, bxor = 0, umin = ~0u, umax = 0;
  int32_t smin = INT32_MAX, smax = INT32_MIN;
  for (uint32_t v : in) {
    sum += v, band &= v, bor |= v, bxor ^= v, umin = std::min(umin, v), umax = std::max(umax, v);
    smin = std::min(smin, static_cast<int32_t>(v)), smax = std::max(smax, static_cast<int32_t>(v));
  }
  for (const auto& [form, want] : {std::pair<const char*, uint32_t>{"add.u32", sum},
                                   {"add.s32", sum},
                                   {"and.b32", band},
                                   {"or.b32", bor},
                                   {"xor.b32", bxor},
                                   {"min.u32", umin},
                                   {"max.u32", umax},
                                   {"min.s32", static_cast<uint32_t>(smin)},
                                   {"max.s32", static_cast<uint32_t>(smax)}}) {
    Machine m(kernel(fmt::format(" redux.sync.{} %d, %x, -1;", form)), options());
    EXPECT_EQ(run(m, in), std::vector<uint32_t>(32, want)) << form;
  }
  Machine halves(kernel(" and.b32 %m, %t, 16; shl.b32 %m, 0xffff, %m; redux.sync.add.u32 %d, %x, %m;"),
                 options());
  const auto got = run(halves, in);
  uint32_t low = 0;
  for (uint32_t l = 0; l < 16; ++l) low += in[l];
  for (uint32_t l = 0; l < 32; ++l) EXPECT_EQ(got[l], l < 16 ? low : sum - low);
}

TEST_P(Collectives, ElectAndActiveMask) {
  Machine m(kernel(" elect.sync %m|%q, 0xffffffff; selp.u32 %d, 100, 0, %q; add.u32 %d, %d, %m;"), options());
  auto got = run(m, std::vector<uint32_t>(32, 0));
  EXPECT_EQ(got[0], 100u);
  for (uint32_t l = 1; l < 32; ++l) EXPECT_EQ(got[l], 0u);
  Machine active(kernel(" activemask.b32 %d;"), options());
  got = run(active, std::vector<uint32_t>(32, 0), 7);
  for (uint32_t l = 0; l < 7; ++l) EXPECT_EQ(got[l], 0x7fu);
}

// Without the barrier lane 0 would read before the others have written.
TEST_P(Collectives, TheWarpBarrierOrders) {
  Machine m(".shared .align 4 .b8 tile[128];\n" + kernel(R"(
  mov.u32 %m, tile; shl.b32 %d, %t, 2; add.u32 %m, %m, %d;
  setp.eq.u32 %q, %t, 0; @%q bra WAIT;
  st.shared.u32 [%m], %t;
WAIT:
  bar.warp.sync 0xffffffff;
  mov.u32 %d, 0; @!%q bra OUT;
  ld.shared.u32 %d, [tile+124];
OUT:
)"),
            options());
  EXPECT_EQ(run(m, std::vector<uint32_t>(32, 0))[0], 31u);
}

// ---- Watching ----

TEST(CollectiveChecks, AShuffleFromALaneThatTakesNoPart) {
  Machine m(kernel(" shfl.sync.down.b32 %d, %x, 4, 31, -1;"), one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  run(m, numbers(), 30);  // lanes 30 and 31 have left: lanes 26 and 27 read them
  ASSERT_EQ(seen.violations.size(), 2u);
  EXPECT_EQ(seen.violations[0].what, Violation::AbsentLane);
  EXPECT_EQ(seen.violations[0].lanes, 3u << 26);
  EXPECT_EQ(seen.violations[1].what, Violation::UndefinedStore);  // what they got is stored
  EXPECT_EQ(seen.violations[1].lanes, 3u << 26);
}

TEST(CollectiveChecks, UndefinedBitsMoveWithAShuffle) {
  Machine m(kernel(" shfl.sync.bfly.b32 %d, %x, 1, 31, -1;"), one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  const Address in = m.array(numbers()), out = m.array(std::vector<uint32_t>(32, 0));
  m.device().memory().mark_initialised(in + 12, 4, false);
  EXPECT_EQ(m.launch("k", {1}, {32}, {in, out, 32}).fault.message, "");
  ASSERT_EQ(seen.violations.size(), 1u);
  EXPECT_EQ(seen.violations[0].what, Violation::UndefinedStore);
  EXPECT_EQ(seen.violations[0].lanes, 1u << 2);
}

TEST(CollectiveChecks, ABallotIsUndefinedBitByBit) {
  Machine m(kernel(" setp.ne.u32 %q, %x, 0; vote.sync.ballot.b32 %d, %q, -1; and.b32 %d, %d, 0xfffffff7;"),
            one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  const Address in = m.array(numbers()), out = m.array(std::vector<uint32_t>(32, 0));
  m.device().memory().mark_initialised(in + 12, 4, false);  // lane 3, which the mask takes out again
  EXPECT_EQ(m.launch("k", {1}, {32}, {in, out, 32}).fault.message, "");
  EXPECT_EQ(seen.violations.size(), 0u);
}

TEST(CollectiveChecks, AnyIsDefinedWhenOneDefinedLaneSaysYes) {
  Machine m(kernel(" setp.ne.u32 %q, %x, 0; vote.sync.any.pred %r, %q, -1; selp.u32 %d, 1, 0, %r;"),
            one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  const Address in = m.array(numbers()), out = m.array(std::vector<uint32_t>(32, 0));
  m.device().memory().mark_initialised(in + 12, 4, false);
  EXPECT_EQ(m.launch("k", {1}, {32}, {in, out, 32}).fault.message, "");
  EXPECT_EQ(seen.violations.size(), 0u);
  m.device().memory().mark_initialised(in, 128, false);
  EXPECT_EQ(m.launch("k", {1}, {32}, {in, out, 32}).fault.message, "");
  EXPECT_EQ(seen.count(Violation::UndefinedStore), 1u);
}

// Lanes 0 to 3 come with a mask of their own while lane 4's mates are elsewhere, waiting for what lane 0 does
// after it: judged by the union of the masks, nobody could go on.
TEST_P(Collectives, EachLaneWaitsForItsOwnMembers) {
  const std::string body = R"(
  and.b32 %m, %t, 28; setp.eq.u32 %q, %m, 0;          // lanes 0 to 3
  mov.u32 %d, 0;
  setp.gt.u32 %r, %t, 7; @%r bra OUT;
  setp.gt.u32 %r, %t, 4; @%r bra WAIT;
  bra MEET;
WAIT:                                                  // lanes 5 to 7 wait for lane 0's word
  ld.volatile.shared.u32 %m, [flag]; setp.eq.u32 %r, %m, 0; @%r bra WAIT;
MEET:
  selp.b32 %m, 0x0f, 0xf0, %q;
  shfl.sync.bfly.b32 %d, %x, 1, 31, %m;
  setp.ne.u32 %r, %t, 0; @%r bra OUT;
  st.volatile.shared.u32 [flag], 1;
OUT:
)";
  Machine m(".shared .u32 flag;\n" + kernel(" st.volatile.shared.u32 [flag], 0; bar.warp.sync -1;" + body),
            options());
  const auto in = numbers(), got = run(m, in);
  for (uint32_t l = 0; l < 8; ++l) EXPECT_EQ(got[l], in[l ^ 1]) << l;
}

// Lane 0 names lanes 0 and 1, lane 1 names 1 and 2, lane 2 names 2 and 0: no order satisfies that.
TEST(Collective, ContradictingMasksAreReportedAndLetGo) {
  const std::string body = R"(
  setp.gt.u32 %q, %t, 2; @%q bra OUT;
  setp.eq.u32 %q, %t, 1; @%q bra ONE; setp.eq.u32 %q, %t, 2; @%q bra TWO;
  bar.warp.sync 3; bra OUT;
ONE: bar.warp.sync 6; bra OUT;
TWO: bar.warp.sync 5;
OUT: mov.u32 %d, 7;
)";
  Machine m(kernel(body), one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  EXPECT_EQ(run(m, numbers()), std::vector<uint32_t>(32, 7));
  EXPECT_EQ(seen.count(Violation::BarrierDivergence), 3u);
  EXPECT_EQ(seen.count(Violation::Deadlock), 0u);
  m.device().ignore(&seen);
}

}  // namespace
}  // namespace assay::vgpu
