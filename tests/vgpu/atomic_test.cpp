// atom and red: every operation and type, in global and shared memory, against a plain loop in lane order.
#include <fmt/format.h>

#include <bit>
#include <functional>
#include <thread>

#include "numerics/lanes.h"
#include "recorder.h"

namespace assay::vgpu {
namespace {

using testing::Machine;
using testing::one_thread;
using testing::Recorder;

struct AtomicCase {
  std::string form;  // "add.u32"
  uint32_t bytes;
  std::function<uint64_t(uint64_t old, uint64_t b, uint64_t c, bool shared)> apply;
  bool cas = false;
};

float f32(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
uint64_t bits(float x) {
  return std::bit_cast<uint32_t>(x);
}
uint64_t flushed(uint64_t b) {
  return (b & 0x7f800000) == 0 ? b & 0x80000000 : b;
}

template <class T>
std::function<uint64_t(uint64_t, uint64_t, uint64_t, bool)> typed(T (*f)(T, T)) {
  return [f](uint64_t old, uint64_t b, uint64_t, bool) {
    return static_cast<uint64_t>(
        static_cast<std::make_unsigned_t<T>>(f(static_cast<T>(old), static_cast<T>(b))));
  };
}

uint16_t half_add(uint16_t a, uint16_t b, bool bf) {
  using namespace numerics;
  return bf ? f32_to_bf16_rn(bf16_to_f32(a) + bf16_to_f32(b)) : f32_to_f16_rn(f16_to_f32(a) + f16_to_f32(b));
}

std::vector<AtomicCase> cases() {
  std::vector<AtomicCase> all;
  auto integers = [&](auto tag, const std::string& type) {
    using T = decltype(tag);
    constexpr uint32_t n = sizeof(T);
    all.push_back({"add." + type, n, typed<T>([](T a, T b) {
                     return static_cast<T>(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
                   })});
    all.push_back({"min." + type, n, typed<T>([](T a, T b) { return std::min(a, b); })});
    all.push_back({"max." + type, n, typed<T>([](T a, T b) { return std::max(a, b); })});
  };
  integers(uint32_t{}, "u32");
  integers(int32_t{}, "s32");
  integers(uint64_t{}, "u64");
  all.push_back({"min.s64", 8, typed<int64_t>([](int64_t a, int64_t b) { return std::min(a, b); })});
  for (const auto& [type, n] : {std::pair{"b32", 4u}, std::pair{"b64", 8u}}) {
    const std::string t = type;
    all.push_back({"and." + t, n, [](uint64_t a, uint64_t b, uint64_t, bool) { return a & b; }});
    all.push_back({"or." + t, n, [](uint64_t a, uint64_t b, uint64_t, bool) { return a | b; }});
    all.push_back({"xor." + t, n, [](uint64_t a, uint64_t b, uint64_t, bool) { return a ^ b; }});
    all.push_back({"exch." + t, n, [](uint64_t, uint64_t b, uint64_t, bool) { return b; }});
    all.push_back(
        {"cas." + t, n, [](uint64_t a, uint64_t b, uint64_t c, bool) { return a == b ? c : a; }, true});
  }
  all.push_back(
      {"cas.b16", 2, [](uint64_t a, uint64_t b, uint64_t c, bool) { return a == b ? c : a; }, true});
  all.push_back({"inc.u32", 4, [](uint64_t a, uint64_t b, uint64_t, bool) { return a >= b ? 0 : a + 1; }});
  all.push_back(
      {"dec.u32", 4, [](uint64_t a, uint64_t b, uint64_t, bool) { return a == 0 || a > b ? b : a - 1; }});
  all.push_back({"add.f32", 4, [](uint64_t a, uint64_t b, uint64_t, bool shared) {
                   if (shared) return bits(numerics::canonical(f32(a) + f32(b)));
                   return flushed(bits(numerics::canonical(f32(flushed(a)) + f32(flushed(b)))));
                 }});
  all.push_back({"add.noftz.f16", 2, [](uint64_t a, uint64_t b, uint64_t, bool) -> uint64_t {
                   return half_add(static_cast<uint16_t>(a), static_cast<uint16_t>(b), false);
                 }});
  all.push_back({"add.noftz.bf16", 2, [](uint64_t a, uint64_t b, uint64_t, bool) -> uint64_t {
                   return half_add(static_cast<uint16_t>(a), static_cast<uint16_t>(b), true);
                 }});
  for (const bool bf : {false, true})
    all.push_back({bf ? "add.noftz.bf16x2" : "add.noftz.f16x2", 4,
                   [bf](uint64_t a, uint64_t b, uint64_t, bool) -> uint64_t {
                     const uint32_t high =
                         half_add(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16), bf);
                     return half_add(static_cast<uint16_t>(a), static_cast<uint16_t>(b), bf) | high << 16;
                   }});
  return all;
}

// old[tid] = atom(base + index[tid] * bytes, b[tid], c[tid]); shared memory is copied in and out by thread 0
// of each element.
std::string atomic_kernel(const AtomicCase& c, const std::string& space, bool reduction) {
  const uint32_t bits_wide = c.bytes * 8;
  std::string text =
      ".shared .align 16 .b8 tile[512];\n"
      ".visible .entry k(.param .u64 mem, .param .u64 index, .param .u64 b, .param .u64 c, .param .u64 old) "
      "{\n"
      " .reg .b64 %m, %ix, %pb, %pc, %po, %o, %a, %s; .reg .b32 %t, %i, %w; .reg .pred %p;\n";
  text += fmt::format(" .reg .b{} %d, %b, %c;\n", bits_wide);
  text +=
      " ld.param.u64 %m, [mem]; ld.param.u64 %ix, [index]; ld.param.u64 %pb, [b]; ld.param.u64 %pc, [c];"
      " ld.param.u64 %po, [old]; mov.u32 %t, %tid.x;\n";
  const bool shared = space != "global" && space != "generic";
  if (shared)
    text +=
        " mul.wide.u32 %o, %t, 4; mov.u64 %s, tile; add.u64 %s, %s, %o; add.u64 %a, %m, %o;\n"
        " ld.global.u32 %w, [%a]; st.shared.u32 [%s], %w; ld.global.u32 %w, [%a+128]; st.shared.u32 "
        "[%s+128], %w;\n"
        " bar.sync 0;\n";
  text += " mul.wide.u32 %o, %t, 4; add.u64 %a, %ix, %o; ld.global.u32 %i, [%a];\n";
  text += fmt::format(
      " mul.wide.u32 %o, %t, 8; add.u64 %pb, %pb, %o; add.u64 %pc, %pc, %o; add.u64 %po, %po, %o;\n"
      " ld.global.b{0} %b, [%pb]; ld.global.b{0} %c, [%pc]; mov.b{0} %d, %b;\n",
      bits_wide);
  text += fmt::format(" mul.wide.u32 %o, %i, {};\n", c.bytes);
  if (!shared) text += " add.u64 %a, %m, %o;\n";
  if (shared) text += " mov.u64 %a, tile; add.u64 %a, %a, %o;\n";
  if (space == "generic-shared") text += " cvta.shared.u64 %a, %a;\n";
  const std::string modifier = space.rfind("generic", 0) == 0 ? "" : "." + space;
  if (reduction)
    text += fmt::format(" red{}.{} [%a], %b;\n", modifier, c.form);
  else
    text += fmt::format(" atom{}.{} %d, [%a], %b{};\n st.global.b{} [%po], %d;\n", modifier, c.form,
                        c.cas ? ", %c" : "", bits_wide);
  if (shared)
    text +=
        " bar.sync 0;\n mul.wide.u32 %o, %t, 4; mov.u64 %s, tile; add.u64 %s, %s, %o; add.u64 %a, %m, %o;\n"
        " ld.shared.u32 %w, [%s]; st.global.u32 [%a], %w; ld.shared.u32 %w, [%s+128]; st.global.u32 "
        "[%a+128], %w;\n";
  return text + " ret;\n}";
}

class Atomics : public ::testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(Atomics, AgreeWithALoop) {
  const auto& [space, watched] = GetParam();
  const bool shared = space == "shared" || space == "generic-shared";
  for (const AtomicCase& c : cases()) {
    for (const bool reduction : {false, true}) {
      if (reduction && (c.cas || c.form.rfind("exch", 0) == 0)) continue;
      Machine m(atomic_kernel(c, space, reduction), one_thread(watched));
      for (const uint32_t spread : {1u, 5u, 32u}) {
        uint64_t x = 99;
        auto random = [&] {
          x = x * 6364136223846793005u + 1442695040888963407u;
          return x ^ x >> 29;
        };
        std::vector<uint64_t> b(32), third(32);
        std::vector<uint32_t> index(32);
        std::vector<uint8_t> memory(256);
        const bool small = c.cas || c.form.rfind("inc", 0) == 0 || c.form.rfind("dec", 0) == 0;
        for (auto& byte : memory) byte = small ? 0 : static_cast<uint8_t>(random() >> 40);
        for (uint32_t l = 0; l < 32; ++l) {
          b[l] = small ? random() % 3 : random();
          third[l] = random() % 3;
          index[l] = l * 7 % spread;
        }
        const uint64_t keep = c.bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << c.bytes * 8) - 1;
        std::vector<uint8_t> want = memory;
        std::vector<uint64_t> want_old(32, 0);
        for (uint32_t l = 0; l < 32; ++l) {
          uint64_t old = 0;
          std::memcpy(&old, want.data() + index[l] * c.bytes, c.bytes);
          want_old[l] = reduction ? 0 : old;
          const uint64_t made = c.apply(old, b[l] & keep, third[l] & keep, shared) & keep;
          std::memcpy(want.data() + index[l] * c.bytes, &made, c.bytes);
        }
        const Address mem = m.array(memory), old = m.array(std::vector<uint64_t>(32, 0));
        const LaunchOutcome outcome =
            m.launch("k", {1}, {32}, {mem, m.array(index), m.array(b), m.array(third), old});
        ASSERT_EQ(outcome.fault.message, "") << c.form;
        ASSERT_EQ(m.read<uint64_t>(old, 32), want_old) << c.form << " spread " << spread;
        ASSERT_EQ(m.read<uint8_t>(mem, 256), want) << c.form << " spread " << spread;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Spaces, Atomics,
    ::testing::Combine(::testing::Values("global", "generic", "shared", "generic-shared"), ::testing::Bool()),
    [](const auto& test) {
      std::string name = std::get<0>(test.param) + (std::get<1>(test.param) ? "_watched" : "_plain");
      for (char& c : name)
        if (c == '-') c = '_';
      return name;
    });

// Global memory flushes subnormal operands and results of f32 sums; shared memory keeps them.
TEST(Atomics, SubnormalSums) {
  for (const std::string space : {"global", "shared"}) {
    const AtomicCase add{"add.f32", 4, {}};
    Machine m(atomic_kernel(add, space, true), one_thread(false));
    const uint32_t tiny = 0x00000011, normal = 0x00800001, minus = 0x80800000;
    std::vector<uint32_t> memory(64, 0), index(32);
    memory[0] = tiny, memory[1] = normal, memory[2] = 0x80000005;
    std::vector<uint64_t> b(32, 0);
    for (uint32_t l = 0; l < 32; ++l) index[l] = l;
    b[0] = tiny, b[1] = minus;
    const Address mem = m.array(memory);
    ASSERT_EQ(
        m.launch("k", {1}, {32}, {mem, m.array(index), m.array(b), m.array(b), m.array(b)}).fault.message,
        "");
    const auto got = m.read<uint32_t>(mem, 3);
    if (space == "global")
      EXPECT_EQ(got, (std::vector<uint32_t>{0, 0, 0})) << "sums of zeros";
    else
      EXPECT_EQ(got, (std::vector<uint32_t>{0x22, 1, 0x80000005}));
  }
}

TEST(Atomics, SixteenBytes) {
  Machine m(R"(
.visible .entry k(.param .u64 mem, .param .u64 old) {
  .reg .b64 %m, %o, %l, %h; .reg .b128 %d, %b, %c;
  ld.param.u64 %m, [mem]; ld.param.u64 %o, [old];
  mov.b64 %l, 1; mov.b64 %h, 2; mov.b128 %b, {%l, %h};
  mov.b64 %l, 30; mov.b64 %h, 40; mov.b128 %c, {%l, %h};
  atom.global.cas.b128 %d, [%m], %b, %c; mov.b128 {%l, %h}, %d; st.global.v2.u64 [%o], {%l, %h};
  atom.global.exch.b128 %d, [%m+16], %b; mov.b128 {%l, %h}, %d; st.global.v2.u64 [%o+16], {%l, %h};
  atom.global.cas.b128 %d, [%m+16], %c, %b; mov.b128 {%l, %h}, %d; st.global.v2.u64 [%o+32], {%l, %h};
  ret;
})");
  const Address mem = m.array(std::vector<uint64_t>{1, 2, 7, 8}), old = m.array(std::vector<uint64_t>(6, 0));
  ASSERT_EQ(m.launch("k", {1}, {1}, {mem, old}).fault.message, "");
  EXPECT_EQ(m.read<uint64_t>(mem, 4), (std::vector<uint64_t>{30, 40, 1, 2}));
  EXPECT_EQ(m.read<uint64_t>(old, 6), (std::vector<uint64_t>{1, 2, 7, 8, 1, 2}));
}

TEST(Atomics, Vectors) {
  Machine m(R"(
.visible .entry k(.param .u64 mem, .param .u64 old) {
  .reg .b64 %m, %o; .reg .f32 %a<4>, %d<4>; .reg .b32 %h<4>;
  ld.param.u64 %m, [mem]; ld.param.u64 %o, [old];
  mov.f32 %a0, 0f3F800000; mov.f32 %a1, 0f40000000; mov.f32 %a2, 0f40400000; mov.f32 %a3, 0f40800000;
  atom.global.add.v4.f32 {%d0, %d1, %d2, %d3}, [%m], {%a0, %a1, %a2, %a3};
  st.global.v4.f32 [%o], {%d0, %d1, %d2, %d3};
  red.global.add.v2.f32 [%m+16], {%a2, %a3};
  mov.b32 %h0, 0x3c003c00; mov.b32 %h1, 0x40004000;
  red.global.add.noftz.v2.f16x2 [%m+24], {%h0, %h1};
  ret;
})");
  const Address mem = m.array(std::vector<float>(8, 10));
  std::vector<uint32_t> halves{0x3c003c00, 0x3c003c00};
  std::memcpy(m.device().memory().host(mem + 24, 8), halves.data(), 8);
  const Address old = m.array(std::vector<float>(4, 0));
  ASSERT_EQ(m.launch("k", {1}, {2}, {mem, old}).fault.message, "");
  const auto got = m.read<float>(mem, 6);
  EXPECT_EQ(got, (std::vector<float>{12, 14, 16, 18, 16, 18}));
  EXPECT_EQ(m.read<float>(old, 4), (std::vector<float>{11, 12, 13, 14})) << "of the second lane";
  EXPECT_EQ(m.read<uint32_t>(mem + 24, 2), (std::vector<uint32_t>{0x42004200, 0x45004500}));
}

constexpr const char* kCount = R"(
.visible .entry k(.param .u64 mem) {
  .reg .b64 %m, %o; .reg .b32 %t, %one, %n; .reg .pred %p;
  ld.param.u64 %m, [mem]; mov.u32 %t, %tid.x; and.b32 %t, %t, 3; mul.wide.u32 %o, %t, 4; add.u64 %m, %m, %o;
  mov.u32 %one, 1; mov.u32 %n, 0;
AGAIN:
  red.global.add.u32 [%m], %one;
  add.u32 %n, %n, 1; setp.lt.u32 %p, %n, 50; @%p bra AGAIN;
  ret;
})";

TEST(Atomics, HoldAcrossThreadsOfTheHost) {
  Options options;
  options.threads = 4;
  Machine m(kCount, options);
  const Address mem = m.array(std::vector<uint32_t>(4, 0));
  ASSERT_EQ(m.launch("k", {64}, {256}, {mem}).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(mem, 4), std::vector<uint32_t>(4, 64 * 64 * 50));
}

// A lock taken by every thread of two blocks in turn: lanes of one warp must not starve each other.
TEST(Atomics, ASpinLockEnds) {
  Machine m(R"(
.visible .entry k(.param .u64 lock, .param .u64 counter) {
  .reg .b64 %l, %c; .reg .b32 %v, %old; .reg .pred %p;
  ld.param.u64 %l, [lock]; ld.param.u64 %c, [counter];
SPIN:
  atom.global.acquire.gpu.cas.b32 %old, [%l], 0, 1; setp.ne.u32 %p, %old, 0; @%p bra SPIN;
  ld.volatile.global.u32 %v, [%c]; add.u32 %v, %v, 1; st.volatile.global.u32 [%c], %v;
  atom.global.release.gpu.exch.b32 %old, [%l], 0;
  ret;
})");
  const Address lock = m.array(std::vector<uint32_t>(1, 0)), counter = m.array(std::vector<uint32_t>(1, 0));
  ASSERT_EQ(m.launch("k", {2}, {64}, {lock, counter}).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(counter, 1)[0], 128u);
}

TEST(Atomics, UndefinedMemoryMakesUndefinedResults) {
  Machine m(R"(
.visible .entry k(.param .u64 mem, .param .u64 out) {
  .reg .b64 %m, %o; .reg .b32 %d;
  ld.param.u64 %m, [mem]; ld.param.u64 %o, [out];
  atom.global.add.u32 %d, [%m], 1; st.global.u32 [%o], %d;
  atom.global.exch.b32 %d, [%m], 5; ld.global.u32 %d, [%m]; st.global.u32 [%o+4], %d;
  ret;
})",
            one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  const Address mem = m.array(std::vector<uint32_t>(1, 0)), out = m.array(std::vector<uint32_t>(2, 0));
  m.device().memory().mark_initialised(mem, 4, false);
  ASSERT_EQ(m.launch("k", {1}, {1}, {mem, out}).fault.message, "");
  ASSERT_EQ(seen.violations.size(), 1u) << "the first store; exch made the rest defined";
  EXPECT_EQ(seen.violations[0].what, Violation::UndefinedStore);
  EXPECT_EQ(seen.violations[0].address, out);
  size_t atomics = 0;
  for (const Access& access : seen.accesses)
    atomics += access.kind == AccessKind::Atomic && access.scope == Scope::Device;
  EXPECT_EQ(atomics, 2u);
}

}  // namespace
}  // namespace assay::vgpu
