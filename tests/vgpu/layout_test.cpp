// Where variables lie, and the stack.
#include "recorder.h"
#include "vgpu/coverage.h"

namespace assay::vgpu {
namespace {

using testing::Machine;
using testing::one_thread;
using testing::Recorder;

uint32_t shared_bytes(Machine& m, const std::string& kernel) {
  for (const Kernel& k : m.device().kernels(0))
    if (k.name() == kernel) return k.function->shared_bytes;
  ADD_FAILURE() << kernel;
  return 0;
}

TEST(Layout, AKernelPaysForTheSharedMemoryItCanReach) {
  Machine m(R"(
.shared .align 4 .b8 big[4096];
.shared .align 4 .b8 small[16];
.shared .align 4 .b8 both[64];
.func helper() { .reg .b32 %r; ld.shared.u32 %r, [small]; ret; }
.visible .entry uses_big() { .reg .b32 %r; ld.shared.u32 %r, [big]; ld.shared.u32 %r, [both]; ret; }
.visible .entry uses_small() { .reg .b32 %r; call helper; mov.u32 %r, both; ret; }
.visible .entry uses_none() { ret; }
.visible .entry calls_anything(.param .u64 f) {
 .reg .b64 %f; ld.param.u64 %f, [f];
 p: .callprototype _ ();
 call %f, p; ret; }
)");
  EXPECT_EQ(shared_bytes(m, "uses_none"), 0u);
  EXPECT_EQ(shared_bytes(m, "calls_anything"), 16u);
  // `both` has one place, above what either kernel has.
  EXPECT_EQ(shared_bytes(m, "uses_big"), 4096u + 64u);
  EXPECT_EQ(shared_bytes(m, "uses_small"), 4096u + 64u);
}

// Each thread takes as many bytes as its number says, twice, fills them, and gives the second back.
const char* const kAlloca = R"(
.func (.param .b32 r) deeper(.param .b32 x) {
 .reg .b32 %x; .local .align 4 .b8 own[64]; .reg .b64 %at;
 ld.param.u32 %x, [x]; mov.u64 %at, own; st.local.u32 [%at+60], %x; ld.local.u32 %x, [%at+60]; add.u32 %x, %x, 1;
 st.param.b32 [r], %x; ret; }
.visible .entry k(.param .u64 out) {
 .reg .b64 %out, %o, %n, %a, %b, %c, %top, %g; .reg .b32 %t, %x, %y, %z;
 ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; add.u64 %out, %out, %o;
 cvt.u64.u32 %n, %t; add.u64 %n, %n, 4;
 alloca.u64 %a, %n, 16; st.local.u32 [%a], %t;
 stacksave.u64 %top;
 alloca.u64 %b, %n; cvta.local.u64 %g, %b; add.u32 %x, %t, 1000; st.u32 [%g], %x;
 { .param .b32 px; .param .b32 pr; st.param.b32 [px], %t; call (pr), deeper, (px); ld.param.b32 %z, [pr]; }
 ld.local.u32 %x, [%a]; ld.local.u32 %y, [%b]; add.u32 %x, %x, %y; add.u32 %x, %x, %z;
 stackrestore.u64 %top;
 alloca.u64 %c, %n; sub.u64 %c, %c, %b; cvt.u32.u64 %y, %c; add.u32 %x, %x, %y;
 st.global.u32 [%out], %x; ret;
}
)";

TEST(Stack, Alloca) {
  for (const bool watch : {false, true}) {
    Machine m(kAlloca, one_thread(watch));
    Recorder seen;
    if (watch) m.device().listen(&seen);
    const Address out = m.array(std::vector<uint32_t>(64));
    EXPECT_EQ(m.launch("k", {1}, {64}, {out}).fault.message, "");
    const auto got = m.read<uint32_t>(out, 64);
    for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(got[t], t + (t + 1000) + (t + 1)) << t;
    EXPECT_TRUE(seen.violations.empty());
    m.device().ignore(&seen);
  }
}

TEST(Stack, AllocaOfTooMuchIsAFault) {
  Machine m(R"(.visible .entry k() { .reg .b64 %a; alloca.u64 %a, 100000000; st.local.u8 [%a], 1; ret; })");
  EXPECT_EQ(m.launch("k", {1}, {32}, {}).fault.kind, FaultInfo::Kind::StackOverflow);
}

TEST(Coverage, AsksTheEngine) {
  Coverage coverage;
  const auto runs = [&](std::string_view text) {
    for (const ptx::Row& row : ptx::rows()) {
      int found = -1;
      ptx::for_each_form(row, [&](const ptx::Form& form) {
        if (form.text == text) found = coverage.runs(form);
        return found < 0;
      });
      if (found >= 0) return found;
    }
    ADD_FAILURE() << "no form " << text;
    return -1;
  };
  EXPECT_EQ(runs("fma.rn.ftz.f32"), 1);
  EXPECT_EQ(runs("ld.global.v4.f32"), 1);
  EXPECT_EQ(runs("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), 1);
  EXPECT_EQ(runs("bar.sync"), 1);
  EXPECT_EQ(runs("isspacep.shared"), 1);
  EXPECT_EQ(runs("cp.async.ca.shared.global"), 1);
  EXPECT_EQ(runs("tcgen05.fence::before_thread_sync"), 0);
}

// No form, however odd, may bring the engine down: it runs or it is refused.
TEST(Coverage, EveryFormHasAnAnswer) {
  Coverage coverage;
  size_t forms = 0, running = 0;
  for (const ptx::Row& row : ptx::rows()) {
    if (row.opcode == ptx::Opcode::ld || row.opcode == ptx::Opcode::st)
      continue;  // thousands of the same kind
    ptx::for_each_form(row, [&](const ptx::Form& form) {
      ++forms;
      EXPECT_NO_THROW(running += coverage.runs(form)) << form.text;
      return true;
    });
  }
  EXPECT_GT(running, forms / 4);
}

// A watched launch goes on past a bad access, and ends as the unwatched one does.
TEST(FaultAfterViolation, IsTheFaultOfTheUnwatchedRun) {
  const std::string kernel = R"(.visible .entry k(.param .u64 out) {
 .reg .b64 %out, %o; .reg .b32 %t; ld.param.u64 %out, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4;
 add.u64 %o, %out, %o; st.global.u32 [%o], %t; st.global.u32 [%out], 77; ret; })";
  Machine plain(kernel, one_thread(false));
  const FaultInfo wanted = plain.launch("k", {1}, {32}, {plain.array(std::vector<uint32_t>(31))}).fault;
  EXPECT_EQ(wanted.kind, FaultInfo::Kind::IllegalAddress);
  for (const bool faults : {false, true}) {
    Options options = one_thread(true);
    options.fault_after_violation = faults;
    Machine m(kernel, options);
    Recorder seen;
    m.device().listen(&seen);
    const Address out = m.array(std::vector<uint32_t>(31));
    const FaultInfo fault = m.launch("k", {1}, {32}, {out}).fault;
    EXPECT_EQ(seen.count(Violation::OutOfBounds), 1u);
    EXPECT_EQ(m.read<uint32_t>(out, 1)[0], 77u) << "the launch goes on";
    EXPECT_EQ(fault.kind, faults ? wanted.kind : FaultInfo::Kind::None);
    if (faults) {
      EXPECT_EQ(fault.message.substr(0, 60), wanted.message.substr(0, 60));
    }
    m.device().ignore(&seen);
  }
}

}  // namespace
}  // namespace assay::vgpu
