// Compiled kernels against the interpreter: the same memory, the same number of instructions, bit for bit, plain and
// watched, for blocks of every shape.
#include "vgpu/compiled.h"

#include <random>
#include <utility>

#include "vgpu/machine.h"
#include "vgpu/warp.h"

namespace assay::vgpu::compiled_kernels {
namespace {

using testing::Machine;

constexpr uint32_t kWords = 1 << 13;
constexpr uint32_t kRandomKernels = 12;  // more than a second each: six compilations

// What checks are told: of each event, where it is and a hash of all else.
struct Event {
  uint32_t warp, instruction;
  uint64_t hash;
  bool operator==(const Event&) const = default;
};
void PrintTo(const Event& e, std::ostream* out) {
  *out << "warp " << e.warp << ", instruction " << e.instruction << ", hash " << e.hash;
}

struct Events : Listener {
  std::vector<Event> seen;

  void on_access(const Warp& warp, const Inst& inst, const Access& access) override {
    add(warp.index, inst.index,
        {uint64_t(access.kind), uint64_t(access.space), uint64_t(access.shape), access.lanes, access.bytes});
    for (uint32_t l = 0; l < kWarpSize; ++l) {
      if ((access.lanes >> l & 1) == 0) continue;
      mix(access.addresses[l]);
      for (uint32_t b = 0; access.values && b < access.bytes; ++b)
        mix(uint64_t(access.values[l * access.bytes + b]));
    }
  }
  void on_violation(const Warp& warp, const Inst& inst, const ViolationInfo& info) override {
    add(warp.index, inst.index, {uint64_t(info.what), info.lanes, info.address, info.bytes});
  }
  void on_block_barrier(const Block& block, uint32_t barrier) override { add(0, 0, {block.linear, barrier}); }

 private:
  void add(uint32_t warp, uint32_t instruction, std::initializer_list<uint64_t> what) {
    seen.push_back({warp, instruction, 0});
    for (uint64_t w : what) mix(w);
  }
  void mix(uint64_t value) { seen.back().hash = (seen.back().hash ^ value) * 0x9e3779b97f4a7c15 + 1; }
};

struct Ending {
  std::string what;
  std::vector<uint32_t> out;
  std::vector<Event> events;
  uint64_t executed = 0;
  FaultInfo::Kind fault = FaultInfo::Kind::None;
};

std::vector<uint32_t> inputs() {
  std::vector<uint32_t> in(kWords);
  std::mt19937 random(7);
  for (uint32_t& w : in) w = random();
  for (uint32_t k = 0; k < kWords; k += 3) in[k] = 0x3f000000 + (random() & 0xffffff);  // numbers near one
  for (uint32_t k = 0; k < kWords; k += 61) in[k] = 0x7f800000 + random() % 3;          // infinities and NaNs
  return in;
}

// Rows, half rows and neither; all lanes and some; in order and not.
std::vector<Ending> run(const std::string& text, Compiling compiling, bool watch) {
  Machine machine(text, {.threads = 1, .watch = watch, .compiling = compiling});
  const std::vector<uint32_t> in = inputs();
  const Address a = machine.array(in, "in");
  Events events;
  if (watch) machine.device().listen(&events);
  std::vector<Ending> results;
  for (const Dim3 block : {Dim3{64}, Dim3{16, 4}, Dim3{8, 8}, Dim3{50}}) {
    for (const uint64_t seed : {uint64_t{0}, uint64_t{3}}) {
      machine.device().set_seed(seed);
      const Address b = machine.array(std::vector<uint32_t>(kWords), "out");
      const LaunchOutcome outcome = machine.launch("k", {3}, block, {a, b, 5});
      results.push_back({"block " + std::to_string(block.x) + "x" + std::to_string(block.y) + ", seed " +
                             std::to_string(seed) + (watch ? ", watched" : ""),
                         machine.read<uint32_t>(b, kWords), std::exchange(events.seen, {}),
                         outcome.warp_instructions, outcome.fault.kind});
    }
  }
  return results;
}

void expect_same(const std::string& text, const std::string& name) {
  for (const bool watch : {false, true}) {
    const std::vector<Ending> want = run(text, Compiling::Never, watch),
                              got = run(text, Compiling::Always, watch);
    for (size_t k = 0; k < want.size(); ++k) {
      SCOPED_TRACE(name + ", " + want[k].what + "\n" + text);
      ASSERT_EQ(want[k].fault, got[k].fault);
      ASSERT_EQ(want[k].executed, got[k].executed);
      for (uint32_t w = 0; w < kWords; ++w) ASSERT_EQ(want[k].out[w], got[k].out[w]) << "word " << w;
      for (size_t e = 0; e < want[k].events.size() && e < got[k].events.size(); ++e)
        ASSERT_EQ(want[k].events[e], got[k].events[e]) << "event " << e;
      ASSERT_EQ(want[k].events.size(), got[k].events.size());
    }
  }
}

// %rd1 in, %rd2 out, %r1 the thread in its block, %r2 in the grid, %r3 the third parameter.
constexpr const char* kHead = R"(
.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 n) {
  .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .f32 %f<24>; .reg .b64 %rd<24>;
  .shared .align 16 .b8 tile[4096];
  ld.param.u64 %rd1, [in];
  ld.param.u64 %rd2, [out];
  ld.param.u32 %r3, [n];
  cvta.to.global.u64 %rd1, %rd1;
  cvta.to.global.u64 %rd2, %rd2;
  mov.u32 %r4, %tid.x; mov.u32 %r5, %tid.y; mov.u32 %r6, %ntid.x; mov.u32 %r7, %ntid.y; mov.u32 %r8, %ctaid.x;
  mad.lo.u32 %r1, %r5, %r6, %r4;
  mul.lo.u32 %r9, %r6, %r7;
  mad.lo.u32 %r2, %r8, %r9, %r1;
)";

std::string kernel(const std::string& body) {
  return kHead + body + "\n  ret;\n}\n";
}

TEST(Compiled, IsThere) {
  // Without LLVM there is nothing to compare; the build says so.
  Machine machine(kernel("st.global.u32 [%rd2], %r3;"), {.compiling = Compiling::Always});
  const Address a = machine.array(std::vector<uint32_t>(8)), b = machine.array(std::vector<uint32_t>(8));
  machine.launch("k", {1}, {32}, {a, b, 5});
  EXPECT_EQ(machine.read<uint32_t>(b, 1)[0], 5u);
  const Kernel found = *machine.device().kernel(0, "k");
#ifdef ASSAY_HAS_COMPILER
  ASSERT_TRUE(found.function->compiled);
  EXPECT_TRUE(found.function->compiled->variants[0].code) << "the kernel was not compiled";
#endif
}

TEST(Compiled, RunsUniformTwoRowsAndStridedAccesses) {
  expect_same(kernel(R"(
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  mov.u32 %r10, tile;
  shl.b32 %r11, %r1, 2;
  add.u32 %r12, %r10, %r11;
  mov.f32 %f1, 0f00000000;
  mov.u32 %r13, 0;
$loop:
  ld.global.f32 %f2, [%rd4];
  st.shared.f32 [%r12], %f2;
  bar.sync 0;
  mad.lo.u32 %r14, %r5, 64, %r10;
  ld.shared.f32 %f3, [%r14+4];
  mad.lo.u32 %r15, %r4, 4, %r10;
  ld.shared.f32 %f4, [%r15];
  fma.rn.f32 %f1, %f3, %f4, %f1;
  mad.lo.u32 %r16, %r4, 20, %r10;
  ld.shared.f32 %f5, [%r16];
  max.f32 %f6, %f5, %f3;
  sub.f32 %f1, %f1, %f6;
  bar.sync 0;
  add.s64 %rd4, %rd4, 1024;
  add.u32 %r13, %r13, 1;
  setp.lt.u32 %p1, %r13, %r3;
  @%p1 bra $loop;
  st.global.f32 [%rd5], %f1;)"),
              "a tiled product, nearly");
}

// In lanes, and of what is the same in all of them: the first number of the input times the first and the second.
TEST(Compiled, RoundsAndSaturatesAsItIsTold) {
  std::string body = R"(
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd1, %rd3;
  mad.lo.u32 %r10, %r2, 48, 0;
  cvt.u64.u32 %rd5, %r10;
  add.s64 %rd5, %rd2, %rd5;
  setp.ge.u32 %p1, %r2, 80;
  @%p1 bra $end;
  ld.global.f32 %f1, [%rd4];
  ld.global.f32 %f2, [%rd4+4];
  ld.global.f32 %f3, [%rd4+8];
  ld.global.f32 %f11, [%rd1];
  ld.global.f32 %f12, [%rd1+12];
)";
  int at = 0;
  for (const std::string operation :
       {"fma.rm.f32 R, A, B, C;", "fma.rp.f32 R, A, B, C;", "fma.rz.f32 R, A, B, C;",
        "fma.rn.sat.f32 R, A, B, C;", "add.sat.f32 R, A, B;", "cvt.sat.f32.f32 R, A;"}) {
    for (const bool same : {false, true}) {
      std::string line = operation;
      const auto put = [&](const char* name, const char* reg) {
        if (const size_t where = line.find(name); where != std::string::npos) line.replace(where, 1, reg);
      };
      put("R", same ? "%f15" : "%f5");
      put("A", same ? "%f11" : "%f1");
      put("B", same ? "%f12" : "%f2");
      put("C", same ? "%f12" : "%f3");
      body += line + " st.global.f32 [%rd5+" + std::to_string(4 * at++) + "], " + (same ? "%f15;" : "%f5;");
    }
  }
  expect_same(kernel(body + "\n$end:"), "rounding and saturation");
}

// Of what is all written, read by columns: 8, 12 and 16 bytes apart, forwards and backwards; and beyond what is written.
TEST(Compiled, ReadsColumnsOfATile) {
  const auto read = [](const std::string& address) {
    return "  " + address + "\n  ld.shared.f32 %f3, [%r14];\n  add.rn.f32 %f1, %f1, %f3;\n";
  };
  const std::string reads =
      read("mad.lo.u32 %r14, %r4, 8, %r10;") + read("mad.lo.u32 %r14, %r4, 12, %r10;") +
      read("mad.lo.u32 %r14, %r4, 16, %r10;") +
      read("mul.lo.u32 %r15, %r4, 8; add.u32 %r14, %r10, 504; sub.u32 %r14, %r14, %r15;") +
      read("mad.lo.u32 %r14, %r4, 36, %r10;");
  expect_same(kernel(R"(
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  mov.u32 %r10, tile;
  shl.b32 %r11, %r1, 2;
  add.u32 %r12, %r10, %r11;
  ld.global.f32 %f2, [%rd4];
  st.shared.f32 [%r12], %f2;
  st.shared.f32 [%r12+192], %f2;
  st.shared.f32 [%r12+448], %f2;
  st.shared.f32 [%r12+704], %f2;
  st.shared.f32 [%r12+960], %f2;
  mov.f32 %f1, 0f00000000;
  bar.sync 0;
)" + reads + R"(
  bar.sync 0;
  st.shared.f32 [%r12], %f1;
  bar.sync 0;
)" + reads + R"(
  st.global.f32 [%rd5], %f1;)"),
              "columns");
}

TEST(Compiled, LanesPartAndMeetAgain) {
  expect_same(kernel(R"(
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd5, %rd2, %rd3;
  mov.u32 %r10, tile;
  shl.b32 %r11, %r1, 2;
  add.u32 %r12, %r10, %r11;
  st.shared.u32 [%r12], %r2;
  bar.sync 0;
  mov.u32 %r13, 32;
$step:
  setp.ge.u32 %p1, %r1, %r13;
  @%p1 bra $skip;
  shl.b32 %r14, %r13, 2;
  add.u32 %r15, %r12, %r14;
  ld.shared.u32 %r16, [%r15];
  ld.shared.u32 %r17, [%r12];
  add.u32 %r18, %r16, %r17;
  st.shared.u32 [%r12], %r18;
$skip:
  bar.sync 0;
  shr.u32 %r13, %r13, 1;
  setp.ne.u32 %p2, %r13, 0;
  @%p2 bra $step;
  ld.shared.u32 %r19, [%r10];
  st.global.u32 [%rd5], %r19;)"),
              "a reduction");
}

// Code is entered behind a barrier, at an instruction that it leaves at: where lanes part, or an address wraps.
TEST(Compiled, LeavesWhereItIsEntered) {
  expect_same(kernel(R"(
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd5, %rd2, %rd3;
  setp.lt.u32 %p1, %r1, 40;
  mov.u32 %r10, 1;
  bar.sync 0;
  @%p1 bra $low;
  mov.u32 %r10, 2;
$low:
  st.global.u32 [%rd5], %r10;)"),
              "lanes that part behind a barrier");
  expect_same(kernel(R"(
  mul.wide.u32 %rd3, %r2, 8;
  add.s64 %rd5, %rd2, %rd3;
  add.u32 %r10, %r1, 0x7ffffff0;
  bar.sync 0;
  cvt.s64.s32 %rd6, %r10;
  st.global.u64 [%rd5], %rd6;)"),
              "lanes that wrap behind a barrier");
}

TEST(Compiled, WideAddressesThatWrap) {
  expect_same(kernel(R"(
  add.u32 %r10, %r1, 0x7ffffff0;
  cvt.s64.s32 %rd3, %r10;
  mul.wide.s32 %rd4, %r10, 4;
  add.u32 %r11, %r1, 0xffffffe8;
  cvt.u64.u32 %rd6, %r11;
  mad.wide.u32 %rd7, %r11, 8, %rd6;
  mul.wide.u32 %rd8, %r2, 32;
  add.s64 %rd5, %rd2, %rd8;
  st.global.u64 [%rd5], %rd3;
  st.global.u64 [%rd5+8], %rd4;
  st.global.v2.u64 [%rd5+16], {%rd6, %rd7};)"),
              "lanes that wrap");
}

TEST(Compiled, UndefinedValuesAreFollowed) {
  // Shared memory is half initialised: what was not reaches the output as it does in the interpreter.
  expect_same(kernel(R"(
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd5, %rd2, %rd3;
  mov.u32 %r10, tile;
  shl.b32 %r11, %r1, 2;
  add.u32 %r12, %r10, %r11;
  setp.lt.u32 %p1, %r1, 40;
  mov.u32 %r14, 7;
  @%p1 st.shared.u32 [%r12], %r14;
  bar.sync 0;
  ld.shared.u32 %r13, [%r12];
  and.b32 %r13, %r13, 0;
  add.u32 %r13, %r13, %r3;
  st.global.u32 [%rd5], %r13;)"),
              "undefined values");
}

// Every block but the first reads and writes past the end, or where nothing was written: with all lanes or with some.
// Whoever leaves at a barrier with undefined lanes comes back with them.
TEST(Compiled, UndefinedValuesPassABarrier) {
  expect_same(kernel(R"(
  mov.u32 %r10, tile;
  shl.b32 %r11, %r1, 2;
  add.u32 %r12, %r10, %r11;
  st.shared.u32 [%r12], %r1;
  bar.sync 0;
  ld.shared.u32 %r13, [%r12+216];
  bar.sync 0;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd2, %rd3;
  st.global.u32 [%rd4], %r13;)"),
              "undefined behind a barrier");
}

TEST(Compiled, WrongAccessesAreReportedAlike) {
  expect_same(kernel(R"(
  mul.lo.u32 %r10, %r8, 32736;
  mul.wide.u32 %rd3, %r10, 1;
  mul.wide.u32 %rd4, %r1, 4;
  add.s64 %rd3, %rd3, %rd4;
  add.s64 %rd5, %rd1, %rd3;
  add.s64 %rd6, %rd2, %rd3;
  ld.global.u32 %r11, [%rd5];
  st.global.u32 [%rd6], %r11;
  ld.global.u32 %r12, [%rd1+32764];
  mov.u32 %r13, tile;
  shl.b32 %r14, %r1, 2;
  add.u32 %r15, %r13, %r14;
  st.shared.u32 [%r15], %r12;
  bar.sync 0;
  ld.shared.u32 %r16, [%r15+32];
  ld.shared.u32 %r17, [%r13+1024];
  ld.shared.u32 %r18, [%r13+4];
  add.u32 %r18, %r18, %r11;
  mul.wide.u32 %rd7, %r2, 4;
  add.s64 %rd8, %rd2, %rd7;
  st.global.u32 [%rd8], %r16;
  st.global.u32 [%rd8+1024], %r17;
  st.global.u32 [%rd8+2048], %r18;
  st.global.u32 [%rd8+2], %r18;)"),
              "wrong accesses");
}

// ---- Random kernels ----

class Writer {
 public:
  explicit Writer(uint32_t seed) : random_(seed) {}

  std::string kernel() {
    // %r29: what a loop counts to that lanes leave one after another.
    line("and.b32 %r29, %r1, 3; add.u32 %r29, %r29, 1; setp.eq.u32 %p3, %r1, 5;");
    line("mov.f32 %f6, 0f3f800000; mov.f32 %f7, 0f7fc00001;");
    line("mov.u32 %r30, tile; shl.b32 %r10, %r1, 2; add.u32 %r31, %r30, %r10;");
    line(
        "mul.wide.u32 %rd10, %r1, 4; add.s64 %rd11, %rd1, %rd10; mul.wide.u32 %rd12, %r2, 64; add.s64 %rd13, "
        "%rd2, %rd12;");
    for (int k = 0; k < 6; ++k) line("ld.global.u32 %r1" + num(k) + ", [%rd11+" + num(k * 256) + "];");
    for (int k = 0; k < 6; ++k) line("ld.global.f32 %f" + num(k) + ", [%rd11+" + num(4096 + k * 256) + "];");
    line("mov.u32 %r16, %tid.x; mov.u32 %r17, %tid.y; mov.u32 %r18, 3; mov.u32 %r19, %ctaid.x;");
    line("cvt.u64.u32 %rd14, %r16; mov.u64 %rd15, 77; mov.u64 %rd16, %rd10;");
    line("setp.lt.u32 %p0, %r16, 9; setp.gt.u32 %p1, %r3, 2; setp.eq.u32 %p2, %r3, 2;");
    for (int k = 0; k < 8; ++k) line("st.shared.u32 [%r31+" + num(k * 256) + "], %r1" + num(k % 6) + ";");
    line("bar.sync 0;");
    block(3, true);
    for (int k = 0; k < 8; ++k) line("st.global.u32 [%rd13+" + num(4 * k) + "], %r1" + num(k) + ";");
    for (int k = 0; k < 4; ++k) line("st.global.f32 [%rd13+" + num(32 + 4 * k) + "], %f" + num(k) + ";");
    line("st.global.u64 [%rd13+48], %rd14; st.global.u64 [%rd13+56], %rd15;");
    return compiled_kernels::kernel(text_);
  }

 private:
  std::mt19937 random_;
  std::string text_;
  int labels_ = 0;

  static std::string num(int64_t n) { return std::to_string(n); }
  uint32_t pick(uint32_t n) { return random_() % n; }
  void line(const std::string& s) { text_ += "  " + s + "\n"; }
  std::string r() { return "%r1" + num(pick(10)); }
  std::string ri() { return pick(4) ? r() : num(int64_t{pick(70)}); }
  std::string f() { return "%f" + num(pick(8)); }
  std::string d() { return "%rd1" + num(4 + pick(3)); }
  std::string p() { return "%p" + num(pick(4)); }
  template <size_t N>
  std::string of(const char* const (&list)[N]) {
    return list[pick(N)];
  }

  // `together`: all threads of the block come here, and may meet at a barrier.
  void block(int depth, bool together) {
    const int count = 4 + static_cast<int>(pick(10));
    for (int k = 0; k < count; ++k) {
      const uint32_t what = pick(14);
      if (depth > 0 && what == 0) {
        branch(depth);
      } else if (depth > 0 && what == 1) {
        loop(depth, together);
      } else if (together && what == 2) {
        line("bar.sync " + num(pick(2)) + ";");
      } else {
        statement();
      }
    }
  }

  void branch(int depth) {
    const std::string label = "$b" + num(labels_++);
    line("@" + std::string(pick(2) ? "!" : "") + p() + " bra " + label + ";");
    block(depth - 1, false);
    line(label + ":");
  }

  void loop(int depth, bool together) {
    const std::string label = "$l" + num(labels_++), counter = "%r2" + num(depth);
    line("mov.u32 " + counter + ", 0;");
    const bool ends_at_once = pick(2);
    line(label + ":");
    block(depth - 1, together && ends_at_once);
    line("add.u32 " + counter + ", " + counter + ", 1;");
    line("setp.lt.u32 %p6, " + counter + ", " + (ends_at_once ? "3" : "%r29") + ";");
    line("@%p6 bra " + label + ";");
  }

  void statement() {
    static constexpr const char* kInteger[] = {"add.u32", "sub.u32", "mul.lo.u32", "and.b32",
                                               "or.b32",  "xor.b32", "min.s32",    "max.u32",
                                               "shl.b32", "shr.u32", "shr.s32",    "rem.u32"};
    static constexpr const char* kFloat[] = {"add.f32",     "sub.f32",       "mul.f32",     "min.f32",
                                             "max.f32",     "add.rz.f32",    "mul.ftz.f32", "div.rn.f32",
                                             "add.sat.f32", "mul.rn.sat.f32"};
    static constexpr const char* kFma[] = {"fma.rn.f32", "fma.rn.sat.f32", "fma.rm.f32",
                                           "fma.rp.f32", "fma.rz.f32",     "fma.rm.sat.f32"};
    static constexpr const char* kUnary[] = {"neg.f32", "abs.f32", "cvt.sat.f32.f32"};
    static constexpr const char* kTest[] = {"lt.u32", "ge.s32", "eq.u32", "ne.u32", "gt.s32", "le.u32"};
    static constexpr const char* kFloatTest[] = {"lt.f32", "geu.f32", "neu.f32",
                                                 "eq.f32", "num.f32", "nan.f32"};
    switch (pick(22)) {
      case 0:
        return line("setp." + of(kTest) + " " + p() + ", " + r() + ", " + ri() + ";");
      case 1:
        return line("setp." + of(kFloatTest) + " " + p() + ", " + f() + ", " + f() + ";");
      case 2:
        return line("selp.b32 " + r() + ", " + r() + ", " + ri() + ", " + p() + ";");
      case 3:
        return line("selp.f32 " + f() + ", " + f() + ", " + f() + ", " + p() + ";");
      case 4:
        return line(of(kFma) + " " + f() + ", " + f() + ", " + f() + ", " + f() + ";");
      case 5:
        return line("mul.wide." + std::string(pick(2) ? "u32 " : "s32 ") + d() + ", " + r() + ", " + ri() +
                    ";");
      case 6:
        return line("cvt." + std::string(pick(2) ? "u64.u32 " : "s64.s32 ") + d() + ", " + r() + ";");
      case 7:
        return line("add.s64 " + d() + ", " + d() + ", " + d() + ";");
      case 8:
        return line("cvt.u32.u64 " + r() + ", " + d() + ";");
      case 9:
        return line("mov.b32 " + r() + ", " + f() + ";");
      case 10:
        return line("mov.b32 " + f() + ", " + r() + ";");
      case 11:
        return line(of(kUnary) + " " + f() + ", " + f() + ";");
      case 12:
        return line("cvt.rn.f32." + std::string(pick(2) ? "u32 " : "s32 ") + f() + ", " + r() + ";");
      case 13:
        line("and.b32 %r28, " + r() + ", 1020; add.u32 %r28, %r28, %r30;");
        return line("ld.shared.u32 " + r() + ", [%r28+" + num(4 * pick(8)) + "];");
      case 14:
        return line("ld.shared.f32 " + f() + ", [%r31+" + num(4 * pick(64)) + "];");
      case 15:
        return line("st.shared.u32 [%r31+2048], " + r() + ";");
      case 16:
        return line("ld.global.u32 " + r() + ", [%rd11+" + num(4 * pick(256)) + "];");
      case 17:
        return line("@" + p() + " add.u32 " + r() + ", " + r() + ", " + ri() + ";");
      case 18:
        return line("shfl.sync.bfly.b32 %r27, " + r() + ", 1, 31, 0xffffffff; mov.u32 " + r() + ", 5;");
      case 19:
        return line((pick(2) ? "and.pred " : "xor.pred ") + p() + ", " + p() + ", " + p() + ";");
      case 20:
        return line("mad.lo.s32 " + r() + ", " + r() + ", " + ri() + ", " + r() + ";");
      default:
        return pick(2) ? line(of(kInteger) + " " + r() + ", " + r() + ", " + ri() + ";")
                       : line(of(kFloat) + " " + f() + ", " + f() + ", " + f() + ";");
    }
  }
};

TEST(Compiled, RandomKernels) {
  for (uint32_t seed = 1; seed <= kRandomKernels; ++seed) {
    const std::string text = Writer(seed).kernel();
    expect_same(text, "random kernel " + std::to_string(seed));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace assay::vgpu::compiled_kernels
