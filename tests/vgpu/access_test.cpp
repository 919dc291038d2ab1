// ld and st: every type into every register width, every space, every way 32 addresses can lie.
#include <fmt/format.h>

#include <functional>

#include "recorder.h"

namespace assay::vgpu {
namespace {

using testing::Machine;
using testing::one_thread;
using testing::Recorder;

struct TypeCase {
  const char* type;
  uint32_t bytes;
  bool sign;
};
constexpr TypeCase kTypes[] = {{"u8", 1, false},  {"s8", 1, true},   {"b8", 1, false}, {"u16", 2, false},
                               {"s16", 2, true},  {"u32", 4, false}, {"s32", 4, true}, {"f32", 4, false},
                               {"u64", 8, false}, {"s64", 8, true},  {"f64", 8, false}};

struct Pattern {
  const char* name;
  std::function<uint32_t(uint32_t)> index;
  uint32_t threads;  // of the 32 that take part
};
const Pattern kPatterns[] = {
    {"unit", [](uint32_t t) { return t + 3; }, 32},
    {"uniform", [](uint32_t) { return 7u; }, 32},
    {"reversed", [](uint32_t t) { return 40 - t; }, 32},
    {"strided", [](uint32_t t) { return t * 3; }, 32},
    {"scattered", [](uint32_t t) { return t * 37 % 101; }, 32},
    {"half runs", [](uint32_t t) { return t < 16 ? t + 2 : t + 60; }, 32},
    {"run, then not", [](uint32_t t) { return t < 16 ? t + 2 : 120 - 2 * t; }, 32},
    {"not, then run", [](uint32_t t) { return t < 16 ? 120 - 2 * t : t + 2; }, 32},
    {"half uniform", [](uint32_t t) { return t < 16 ? 3u : 9u; }, 32},
    {"tail", [](uint32_t t) { return t + 1; }, 13},
    {"nobody", [](uint32_t t) { return t; }, 0},
};

std::string reg_class(uint32_t bytes) {
  return fmt::format("b{}", bytes * 8);
}

// Bits that a load leaves in a register of `register_bytes`.
uint64_t extended(const std::vector<uint8_t>& memory, uint64_t at, const TypeCase& t,
                  uint32_t register_bytes) {
  uint64_t value = 0;
  std::memcpy(&value, memory.data() + at, t.bytes);
  if (t.sign && t.bytes < 8 && (value >> (t.bytes * 8 - 1) & 1)) value |= ~uint64_t{0} << (t.bytes * 8);
  if (register_bytes < 8) value &= (uint64_t{1} << register_bytes * 8) - 1;
  return value;
}

// Copies `source` to shared memory where the space asks for it, then x = ld(base + index[tid] * bytes).
std::string load_kernel(const std::string& space, const TypeCase& t, uint32_t register_bytes) {
  const bool shared = space == "shared" || space == "generic-shared" || space == "shared32";
  std::string base = "%src";
  std::string text = R"(
.shared .align 16 .b8 tile[1024];
.visible .entry k(.param .u64 src, .param .u64 index, .param .u64 dst, .param .u64 threads) {
  .reg .b64 %src, %index, %dst, %a, %o, %s; .reg .b32 %t, %i, %n, %v, %sa; .reg .pred %p;
)" + fmt::format("  .reg .{} %x;\n", reg_class(register_bytes));
  text += R"(
  ld.param.u64 %src, [src]; ld.param.u64 %index, [index]; ld.param.u64 %dst, [dst]; ld.param.u32 %n, [threads];
  mov.u32 %t, %tid.x;
)";
  if (shared)
    text += R"(
  mul.wide.u32 %o, %t, 4; mov.u64 %s, tile; add.u64 %s, %s, %o; add.u64 %a, %src, %o; mov.u32 %i, 0;
AGAIN:
  ld.global.u32 %v, [%a]; st.shared.u32 [%s], %v; add.u64 %a, %a, 128; add.u64 %s, %s, 128; add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, 8; @%p bra AGAIN;
  bar.sync 0;
)";
  text += R"(
  mul.wide.u32 %o, %t, 4; add.u64 %a, %index, %o; ld.global.u32 %i, [%a];
  setp.ge.u32 %p, %t, %n; @%p bra DONE;
)";
  text += fmt::format("  mul.wide.u32 %o, %i, {};\n", t.bytes);
  std::string modifier = "." + space;
  if (space == "generic") {
    modifier = "";
    text += "  add.u64 %a, %src, %o;\n";
  } else if (space == "generic-shared") {
    modifier = "";
    text += "  mov.u64 %s, tile; cvta.shared.u64 %a, %s; add.u64 %a, %a, %o;\n";
  } else if (space == "shared") {
    text += "  mov.u64 %a, tile; add.u64 %a, %a, %o;\n";
  } else if (space == "shared32") {
    modifier = ".shared";
    text += "  mov.u32 %sa, tile; cvt.u32.u64 %v, %o; add.u32 %sa, %sa, %v;\n";
  } else {
    text += "  add.u64 %a, %src, %o;\n";
  }
  text += fmt::format("  ld{}.{} %x, [{}+{}];\n", modifier, t.type, space == "shared32" ? "%sa" : "%a",
                      t.bytes * 2);
  text += "  mul.wide.u32 %o, %t, 8; add.u64 %a, %dst, %o;\n";
  text += fmt::format("  st.global.b{} [%a], %x;\nDONE:\n  ret;\n}}", register_bytes * 8);
  return text;
}

std::vector<uint8_t> noise(size_t bytes) {
  std::vector<uint8_t> v(bytes);
  uint32_t x = 12345;
  for (auto& b : v) b = static_cast<uint8_t>((x = x * 1664525 + 1013904223) >> 24);
  return v;
}

class Loads : public ::testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(Loads, EveryTypeWidthAndPattern) {
  const auto& [space, watched] = GetParam();
  const auto memory = noise(1024);
  for (const TypeCase& t : kTypes) {
    for (uint32_t width : {2u, 4u, 8u}) {
      if (width < t.bytes) continue;
      if (t.type[0] == 'f' && width != t.bytes) continue;
      Machine m(load_kernel(space, t, width), one_thread(watched));
      const Address src = m.array(memory);
      for (const Pattern& pattern : kPatterns) {
        std::vector<uint32_t> index(32);
        for (uint32_t i = 0; i < 32; ++i) index[i] = pattern.index(i);
        const Address dst = m.array(std::vector<uint64_t>(32, 0));
        const LaunchOutcome outcome = m.launch("k", {1}, {32}, {src, m.array(index), dst, pattern.threads});
        ASSERT_EQ(outcome.fault.message, "") << t.type << ' ' << width << ' ' << pattern.name;
        const auto got = m.read<uint64_t>(dst, 32);
        for (uint32_t i = 0; i < 32; ++i) {
          const uint64_t want =
              i < pattern.threads ? extended(memory, (index[i] + 2) * t.bytes, t, width) : 0;
          ASSERT_EQ(got[i], want) << t.type << ' ' << width << ' ' << pattern.name << " lane " << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Spaces, Loads,
                         ::testing::Combine(::testing::Values("global", "global.nc", "volatile.global",
                                                              "generic", "generic-shared", "shared",
                                                              "shared32"),
                                            ::testing::Bool()),
                         [](const auto& test) {
                           std::string name =
                               std::get<0>(test.param) + (std::get<1>(test.param) ? "_watched" : "_plain");
                           for (char& c : name)
                             if (c == '.' || c == '-') c = '_';
                           return name;
                         });

// st(base + index[tid] * bytes) = values[tid], from registers of every width.
std::string store_kernel(const std::string& space, const TypeCase& t, uint32_t register_bytes) {
  const bool shared = space != "global" && space != "generic";
  std::string text = R"(
.shared .align 16 .b8 tile[1024];
.visible .entry k(.param .u64 values, .param .u64 index, .param .u64 dst, .param .u64 threads) {
  .reg .b64 %values, %index, %dst, %a, %o, %s; .reg .b32 %t, %i, %n, %v, %sa; .reg .pred %p, %q;
)" + fmt::format("  .reg .{} %x;\n", reg_class(register_bytes));
  text += R"(
  ld.param.u64 %values, [values]; ld.param.u64 %index, [index]; ld.param.u64 %dst, [dst]; ld.param.u32 %n, [threads];
  mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 4; mov.u32 %v, 0; mov.u32 %i, 0;
  mov.u64 %s, tile; add.u64 %s, %s, %o;
ZERO:
  st.shared.u32 [%s], %v; add.u64 %s, %s, 128; add.u32 %i, %i, 1; setp.lt.u32 %p, %i, 8; @%p bra ZERO;
  bar.sync 0;
  add.u64 %a, %index, %o; ld.global.u32 %i, [%a];
  mul.wide.u32 %o, %t, 8; add.u64 %a, %values, %o;
)";
  text += fmt::format("  ld.global.b{} %x, [%a];\n  mul.wide.u32 %o, %i, {};\n", register_bytes * 8, t.bytes);
  std::string modifier = "." + space, at = "%a";
  if (space == "global" || space == "generic") {
    text += "  add.u64 %a, %dst, %o;\n";
    if (space == "generic") modifier = "";
  } else if (space == "generic-shared") {
    modifier = "";
    text += "  mov.u64 %s, tile; cvta.shared.u64 %a, %s; add.u64 %a, %a, %o;\n";
  } else if (space == "shared32") {
    modifier = ".shared";
    at = "%sa";
    text += "  mov.u32 %sa, tile; cvt.u32.u64 %v, %o; add.u32 %sa, %sa, %v;\n";
  } else {
    text += "  mov.u64 %a, tile; add.u64 %a, %a, %o;\n";
  }
  text += "  setp.lt.u32 %q, %t, %n;\n";
  text += fmt::format("  @%q st{}.{} [{}], %x;\n", modifier, t.type, at);
  if (shared)
    text += R"(
  bar.sync 0;
  mul.wide.u32 %o, %t, 4; mov.u64 %s, tile; add.u64 %s, %s, %o; add.u64 %a, %dst, %o; mov.u32 %i, 0;
OUT:
  ld.shared.u32 %v, [%s]; st.global.u32 [%a], %v; add.u64 %a, %a, 128; add.u64 %s, %s, 128; add.u32 %i, %i, 1;
  setp.lt.u32 %p, %i, 8; @%p bra OUT;
)";
  return text + "  ret;\n}";
}

class Stores : public ::testing::TestWithParam<std::tuple<std::string, bool>> {};

TEST_P(Stores, EveryTypeWidthAndPattern) {
  const auto& [space, watched] = GetParam();
  const auto raw = noise(256);
  for (const TypeCase& t : kTypes) {
    for (uint32_t width : {2u, 4u, 8u}) {
      if (width < t.bytes || (t.type[0] == 'f' && width != t.bytes)) continue;
      Machine m(store_kernel(space, t, width), one_thread(watched));
      const Address values = m.array(raw);
      for (const Pattern& pattern : kPatterns) {
        if (std::string(pattern.name).find("uniform") != std::string::npos)
          continue;  // who wins is nobody's business
        std::vector<uint32_t> index(32);
        for (uint32_t i = 0; i < 32; ++i) index[i] = pattern.index(i);
        const Address dst = m.array(std::vector<uint8_t>(1024, 0));
        const LaunchOutcome outcome =
            m.launch("k", {1}, {32}, {values, m.array(index), dst, pattern.threads});
        ASSERT_EQ(outcome.fault.message, "") << t.type << ' ' << width << ' ' << pattern.name;
        std::vector<uint8_t> want(1024, 0);
        for (uint32_t i = 0; i < pattern.threads; ++i)
          std::memcpy(want.data() + index[i] * t.bytes, raw.data() + i * 8, t.bytes);
        ASSERT_EQ(m.read<uint8_t>(dst, 1024), want) << t.type << ' ' << width << ' ' << pattern.name;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Spaces, Stores,
                         ::testing::Combine(::testing::Values("global", "generic", "generic-shared", "shared",
                                                              "shared32"),
                                            ::testing::Bool()),
                         [](const auto& test) {
                           std::string name =
                               std::get<0>(test.param) + (std::get<1>(test.param) ? "_watched" : "_plain");
                           for (char& c : name)
                             if (c == '-') c = '_';
                           return name;
                         });

class Watched : public ::testing::TestWithParam<bool> {
 protected:
  Options options() const { return one_thread(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Builds, Watched, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "watched" : "plain"; });

TEST_P(Watched, VectorsOfEveryLength) {
  struct Case {
    const char* form;
    uint32_t element, count;
  };
  for (const Case& c : {Case{"v2.u8", 1, 2}, Case{"v4.u8", 1, 4}, Case{"v2.b16", 2, 2}, Case{"v4.b16", 2, 4},
                        Case{"v2.f32", 4, 2}, Case{"v4.f32", 4, 4}, Case{"v2.b64", 8, 2},
                        Case{"v2.f64", 8, 2}, Case{"v8.b32", 4, 8}, Case{"v4.b64", 8, 4}}) {
    for (const char* space : {"global", "shared"}) {
      if (c.element * c.count > 16 && std::string(space) == "shared") continue;
      const uint32_t width = c.element < 2 ? 2 : c.element;
      const bool is_float = c.form[3] == 'f';
      std::string registers, list;
      for (uint32_t e = 0; e < c.count; ++e) list += fmt::format("{}%x{}", e ? ", " : "", e);
      registers = fmt::format(".reg .{}{} %x<{}>;", is_float ? "f" : "b", width * 8, c.count);
      const bool shared = std::string(space) == "shared";
      // Through `space`, reversed: dst[31 - tid] = src[tid], whole vectors.
      std::string text =
          ".shared .align 32 .b8 tile[1024];\n.visible .entry k(.param .u64 src, .param .u64 dst) {\n";
      text += " .reg .b64 %src, %dst, %a, %o, %s; .reg .b32 %t; " + registers + "\n";
      text += " ld.param.u64 %src, [src]; ld.param.u64 %dst, [dst]; mov.u32 %t, %tid.x;\n";
      text += fmt::format(" mul.wide.u32 %o, %t, {}; add.u64 %a, %src, %o;\n", c.element * c.count);
      text += fmt::format(" ld.global.{} {{{}}}, [%a];\n", c.form, list);
      if (shared) {
        text += " mov.u64 %s, tile; add.u64 %s, %s, %o;\n";
        text += fmt::format(" st.shared.{0} [%s], {{{1}}};\n ld.shared.{0} {{{1}}}, [%s];\n", c.form, list);
      }
      text += fmt::format(" sub.u32 %t, 31, %t; mul.wide.u32 %o, %t, {}; add.u64 %a, %dst, %o;\n",
                          c.element * c.count);
      text += fmt::format(" st.global.{} [%a], {{{}}};\n ret;\n}}", c.form, list);
      Machine m(text, options());
      const auto memory = noise(1024);
      const Address src = m.array(memory), dst = m.array(std::vector<uint8_t>(1024, 0));
      ASSERT_EQ(m.launch("k", {1}, {32}, {src, dst}).fault.message, "") << c.form;
      const auto got = m.read<uint8_t>(dst, 1024);
      const uint32_t bytes = c.element * c.count;
      for (uint32_t l = 0; l < 32; ++l)
        for (uint32_t b = 0; b < bytes; ++b)
          ASSERT_EQ(got[(31 - l) * bytes + b], memory[l * bytes + b])
              << c.form << ' ' << space << ' ' << l << ' ' << b;
    }
  }
}

TEST_P(Watched, LocalArraysBelongToTheirThread) {
  Machine m(R"(
.visible .entry k(.param .u64 dst) {
  .local .align 8 .b8 depot[64];
  .reg .b64 %dst, %sp, %gp, %a, %o; .reg .b32 %t, %v, %w; .reg .b16 %h;
  ld.param.u64 %dst, [dst]; mov.u32 %t, %tid.x;
  mov.u64 %sp, depot; cvta.local.u64 %gp, %sp;
  mul.lo.u32 %v, %t, 1000;
  st.local.u32 [%sp+8], %v;
  and.b32 %w, %t, 7; mul.wide.u32 %o, %w, 4; add.u64 %a, %gp, %o;
  st.u32 [%a+16], %t;
  ld.u32 %w, [%a+16]; add.u32 %v, %w, 0;
  ld.local.u32 %w, [depot+8]; add.u32 %v, %v, %w;
  cvt.u16.u32 %h, %t; st.local.u8 [depot+60], %h; ld.local.s8 %w, [depot+60]; add.u32 %v, %v, %w;
  mul.wide.u32 %o, %t, 4; add.u64 %a, %dst, %o; st.global.u32 [%a], %v;
  ret;
})",
            options());
  const Address dst = m.array(std::vector<uint32_t>(64, 0));
  ASSERT_EQ(m.launch("k", {1}, {64}, {dst}).fault.message, "");
  const auto got = m.read<uint32_t>(dst, 64);
  for (uint32_t t = 0; t < 64; ++t) EXPECT_EQ(got[t], t + 1000 * t + t);
}

TEST_P(Watched, ParametersAreRead) {
  Machine m(R"(
.visible .entry k(.param .u64 dst, .param .align 8 .b8 pack[16]) {
  .reg .b64 %dst, %a, %o, %p; .reg .b32 %t, %x, %y, %z, %w; .reg .b16 %h;
  ld.param.u64 %dst, [dst]; mov.u32 %t, %tid.x;
  ld.param.v2.u32 {%x, %y}, [pack];
  ld.param.s8 %z, [pack+8];
  mov.b64 %p, pack; and.b32 %w, %t, 3; mul.wide.u32 %o, %w, 4; add.u64 %a, %p, %o;
  ld.param.u32 %w, [%a];
  add.u32 %x, %x, %w; add.u32 %x, %x, %z; add.u32 %x, %x, %y;
  mul.wide.u32 %o, %t, 4; add.u64 %a, %dst, %o; st.global.u32 [%a], %x;
  ret;
})",
            options());
  const Address dst = m.array(std::vector<uint32_t>(32, 0));
  const uint32_t pack[4] = {10, 200, 0xfffffffe, 4000};
  uint64_t words[2];
  std::memcpy(words, pack, 16);
  ASSERT_EQ(m.launch("k", {1}, {32}, {dst, words[0], words[1]}).fault.message, "");
  const auto got = m.read<uint32_t>(dst, 32);
  for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(got[t], 10 + 200 + pack[t & 3] - 2);
}

TEST_P(Watched, AddressesKnowTheirSpace) {
  Machine m(R"(
.const .u32 answer = 42;
.global .u32 counter = 5;
.shared .u32 tile[4];
.visible .entry k(.param .u64 dst) {
  .local .u32 depot[4];
  .reg .b64 %dst, %a<6>; .reg .b32 %v, %w, %t; .reg .pred %p, %q;
  ld.param.u64 %dst, [dst];
  mov.u64 %a1, tile; cvta.shared.u64 %a1, %a1;
  mov.u64 %a2, depot; cvta.local.u64 %a2, %a2;
  cvta.global.u64 %a3, counter; cvta.const.u64 %a4, answer;
  mov.u32 %v, 0;
  isspacep.shared %p, %a1; selp.u32 %w, 1, 0, %p; or.b32 %v, %v, %w;
  isspacep.local %p, %a2; selp.u32 %w, 2, 0, %p; or.b32 %v, %v, %w;
  isspacep.global %p, %a3; selp.u32 %w, 4, 0, %p; or.b32 %v, %v, %w;
  isspacep.const %p, %a4; selp.u32 %w, 8, 0, %p; or.b32 %v, %v, %w;
  isspacep.global %p, %a1; selp.u32 %w, 16, 0, %p; or.b32 %v, %v, %w;
  isspacep.shared %p, %a3; selp.u32 %w, 32, 0, %p; or.b32 %v, %v, %w;
  isspacep.const %p, %a3; selp.u32 %w, 64, 0, %p; or.b32 %v, %v, %w;
  st.global.u32 [%dst], %v;
  ld.u32 %v, [%a4]; st.global.u32 [%dst+4], %v;
  ld.const.u32 %v, [answer]; st.global.u32 [%dst+8], %v;
  ld.u32 %v, [%a3]; st.global.u32 [%dst+12], %v;
  cvta.to.shared.u64 %a5, %a1; mov.u64 %a1, tile; setp.eq.u64 %p, %a5, %a1; selp.u32 %v, 1, 0, %p;
  st.global.u32 [%dst+16], %v;
  ret;
})",
            options());
  const Address dst = m.array(std::vector<uint32_t>(5, 0));
  ASSERT_EQ(m.launch("k", {1}, {1}, {dst}).fault.message, "");
  EXPECT_EQ(m.read<uint32_t>(dst, 5), (std::vector<uint32_t>{15, 42, 42, 5, 1}));
}

// ---- What is wrong with an access ----

constexpr const char* kCopy = R"(
.visible .entry copy(.param .u64 src, .param .u64 dst) {
  .reg .b64 %s, %d, %o; .reg .b32 %t, %v;
  ld.param.u64 %s, [src]; ld.param.u64 %d, [dst]; mov.u32 %t, %tid.x;
  mul.wide.u32 %o, %t, 4; add.u64 %s, %s, %o; add.u64 %d, %d, %o;
  ld.global.u32 %v, [%s]; st.global.u32 [%d], %v;
  ret;
})";

TEST(Violations, FaultsInThePlainBuild) {
  for (const bool bad_store : {false, true}) {
    Machine m(kCopy);
    const Address full = m.array(std::vector<uint32_t>(32, 1), "full"),
                  brief = m.array(std::vector<uint32_t>(31, 1), "brief");
    const LaunchOutcome outcome =
        bad_store ? m.launch("copy", {1}, {32}, {full, brief}) : m.launch("copy", {1}, {32}, {brief, full});
    EXPECT_EQ(outcome.fault.kind, FaultInfo::Kind::IllegalAddress);
    EXPECT_NE(outcome.fault.message.find("0 bytes past the end of `brief`"), std::string::npos)
        << outcome.fault.message;
    EXPECT_NE(outcome.fault.message.find(bad_store ? "store of 4" : "load of 4"), std::string::npos);
    EXPECT_NE(outcome.fault.message.find("thread (31,0,0)"), std::string::npos) << outcome.fault.message;
  }
  Machine m(kCopy);
  const Address full = m.array(std::vector<uint32_t>(33, 1));
  EXPECT_EQ(m.launch("copy", {1}, {32}, {full + 2, full}).fault.kind, FaultInfo::Kind::MisalignedAddress);
  const Address gone = m.array(std::vector<uint32_t>(32, 1), "gone");
  m.device().memory().release(gone);
  const LaunchOutcome outcome = m.launch("copy", {1}, {32}, {gone, full});
  EXPECT_EQ(outcome.fault.kind, FaultInfo::Kind::IllegalAddress);
  EXPECT_NE(outcome.fault.message.find("freed"), std::string::npos) << outcome.fault.message;
  EXPECT_EQ(m.launch("copy", {1}, {32}, {0, full}).fault.kind, FaultInfo::Kind::IllegalAddress);
  EXPECT_EQ(m.launch("copy", {1}, {32}, {~uint64_t{0} - 63, full}).fault.kind,
            FaultInfo::Kind::IllegalAddress);
}

TEST(Violations, AreReportedAndTheKernelGoesOn) {
  Machine m(kCopy, one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  const Address src = m.array(std::vector<uint32_t>(40, 7)), dst = m.array(std::vector<uint32_t>(20, 1));
  const LaunchOutcome outcome = m.launch("copy", {1}, {32}, {src, dst});
  EXPECT_EQ(outcome.fault.message, "");
  ASSERT_EQ(seen.violations.size(), 1u);
  EXPECT_EQ(seen.violations[0].what, Violation::OutOfBounds);
  EXPECT_EQ(seen.violations[0].lanes, 0xfff00000u);
  EXPECT_EQ(seen.violations[0].address, dst + 80);
  EXPECT_EQ(seen.violations[0].space, ptx::Space::Global);
  EXPECT_EQ(m.read<uint32_t>(dst, 20), std::vector<uint32_t>(20, 7)) << "the lanes inside did store";
}

TEST(Violations, AlignmentIsReported) {
  Machine m(kCopy, one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  const Address src = m.array(std::vector<uint32_t>(40, 7)), dst = m.array(std::vector<uint32_t>(40, 1));
  EXPECT_EQ(m.launch("copy", {1}, {32}, {src + 1, dst}).fault.message, "");
  EXPECT_EQ(seen.count(Violation::Misaligned), 1u);
  EXPECT_EQ(seen.violations[0].lanes, 0xffffffffu);
}

TEST(Violations, SharedMemoryEndsWhereItEnds) {
  for (const uint32_t bytes : {128u, 124u}) {
    Machine m(fmt::format(R"(
.shared .align 4 .b8 tile[{}];
.visible .entry k() {{
  .reg .b32 %t, %s;
  mov.u32 %t, %tid.x; mov.u32 %s, tile; shl.b32 %t, %t, 2; add.u32 %s, %s, %t; st.shared.u32 [%s], %t;
  ret;
}}
.visible .entry larger() {{
  .shared .align 4 .b8 more[4096];
  .reg .b32 %s;
  mov.u32 %s, more; st.shared.u32 [%s+4092], %s;
  ret;
}})",
                          bytes));
    const LaunchOutcome outcome = m.launch("k", {1}, {32}, {});
    EXPECT_EQ(outcome.fault.kind, bytes == 128 ? FaultInfo::Kind::None : FaultInfo::Kind::IllegalAddress)
        << outcome.fault.message;
    EXPECT_EQ(m.launch("larger", {1}, {1}, {}).fault.message, "");
  }
}

TEST(Initialisation, TravelsThroughMemoryAndRegisters) {
  Machine m(R"(
.shared .align 4 .b8 tile[256];
.visible .entry k(.param .u64 src, .param .u64 dst) {
  .reg .b64 %s, %d, %o, %a; .reg .b32 %t, %v;
  ld.param.u64 %s, [src]; ld.param.u64 %d, [dst]; mov.u32 %t, %tid.x;
  mul.wide.u32 %o, %t, 4; add.u64 %s, %s, %o; add.u64 %d, %d, %o; mov.u64 %a, tile; add.u64 %a, %a, %o;
  ld.global.u32 %v, [%s]; st.shared.u32 [%a], %v; ld.shared.u32 %v, [%a]; add.u32 %v, %v, 1; st.global.u32 [%d], %v;
  ret;
})",
            one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  Memory& memory = m.device().memory();
  const Address src = m.array(std::vector<uint32_t>(32, 7)), dst = m.array(std::vector<uint32_t>(32, 1));
  memory.mark_initialised(src + 20, 1, false);  // one byte of lane 5
  EXPECT_EQ(m.launch("k", {1}, {32}, {src, dst}).fault.message, "");
  ASSERT_EQ(seen.violations.size(), 1u);
  EXPECT_EQ(seen.violations[0].what, Violation::UndefinedStore);
  EXPECT_EQ(seen.violations[0].lanes, 1u << 5);
  EXPECT_EQ(memory.first_uninitialised(src, 128), src + 20);
  EXPECT_FALSE(memory.first_uninitialised(dst, 128)) << "reported once, and only here";
}

TEST(Initialisation, PaddingIsCopiedAndNotReported) {
  Machine m(R"(
.visible .entry k(.param .u64 src, .param .u64 dst) {
  .reg .b64 %s, %d; .reg .b32 %v, %w;
  ld.param.u64 %s, [src]; ld.param.u64 %d, [dst];
  ld.global.v2.u32 {%v, %w}, [%s]; st.global.v2.u32 [%d], {%v, %w};
  ret;
})",
            one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  Memory& memory = m.device().memory();
  const Address src = m.array(std::vector<uint32_t>(2, 7)), dst = m.array(std::vector<uint32_t>(2, 1));
  memory.mark_initialised(src + 1, 3, false);
  m.launch("k", {1}, {1}, {src, dst});
  EXPECT_EQ(seen.violations.size(), 0u);
  EXPECT_EQ(memory.first_uninitialised(dst, 8), dst + 1) << "whoever uses it is told";
  memory.mark_initialised(src + 4, 4, false);
  m.launch("k", {1}, {1}, {src, dst});
  EXPECT_EQ(seen.count(Violation::UndefinedStore), 1u) << "a whole element is no padding";
}

TEST(Initialisation, AnUndefinedAddressIsReportedOnce) {
  Machine m(R"(
.visible .entry k(.param .u64 src, .param .u64 dst) {
  .reg .b64 %s, %d, %o; .reg .b32 %t, %v;
  ld.param.u64 %s, [src]; ld.param.u64 %d, [dst]; mov.u32 %t, %tid.x;
  ld.global.u32 %v, [%s]; and.b32 %v, %v, 3; mul.wide.u32 %o, %v, 4; add.u64 %d, %d, %o;
  ld.global.u32 %t, [%d]; st.global.u32 [%d], %t;
  ret;
})",
            one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  const Address src = m.array(std::vector<uint32_t>(4, 0)), dst = m.array(std::vector<uint32_t>(4, 1));
  m.device().memory().mark_initialised(src, 4, false);
  EXPECT_EQ(m.launch("k", {1}, {1}, {src, dst}).fault.message, "");
  EXPECT_EQ(seen.count(Violation::UndefinedAddress), 1u);
  EXPECT_EQ(seen.violations.size(), 1u);
}

TEST(Accesses, AreAnnouncedOncePerInstruction) {
  Machine m(kCopy, one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  const Address src = m.array(std::vector<uint32_t>(32, 7)), dst = m.array(std::vector<uint32_t>(32, 1));
  EXPECT_EQ(m.launch("copy", {1}, {20}, {src, dst}).fault.message, "");
  std::vector<size_t> global;
  for (size_t n = 0; n < seen.accesses.size(); ++n)
    if (seen.accesses[n].space == ptx::Space::Global) global.push_back(n);
  ASSERT_EQ(global.size(), 2u);
  const Access& load = seen.accesses[global[0]];
  const Access& store = seen.accesses[global[1]];
  EXPECT_EQ(load.kind, AccessKind::Load);
  EXPECT_EQ(store.kind, AccessKind::Store);
  EXPECT_EQ(load.lanes, (1u << 20) - 1);
  EXPECT_EQ(load.bytes, 4u);
  EXPECT_EQ(load.order, Order::Weak);
  for (uint32_t l = 0; l < 20; ++l) {
    EXPECT_EQ(seen.addresses[global[0]][l], src + 4 * l);
    EXPECT_EQ(seen.addresses[global[1]][l], dst + 4 * l);
  }
}

TEST(Clusters, BlocksSeeEachOthersSharedMemory) {
  Machine m(R"(
.shared .align 4 .b8 tile[128];
.visible .entry k(.param .u64 dst) {
  .reg .b64 %d, %o, %g; .reg .b32 %t, %v, %r, %a, %b, %peer;
  ld.param.u64 %d, [dst]; mov.u32 %t, %tid.x; mov.u32 %r, %cluster_ctarank;
  mov.u32 %a, tile; shl.b32 %v, %t, 2; add.u32 %a, %a, %v;
  mad.lo.u32 %v, %r, 100, %t; st.shared.u32 [%a], %v;
  barrier.cluster.arrive; barrier.cluster.wait;
  add.u32 %peer, %r, 1; and.b32 %peer, %peer, 3;
  mapa.shared::cluster.u32 %b, %a, %peer;
  ld.shared::cluster.u32 %v, [%b];
  getctarank.shared::cluster.u32 %peer, %b;
  mad.lo.u32 %v, %peer, 1000, %v;
  barrier.cluster.arrive; barrier.cluster.wait;
  mad.lo.u32 %t, %r, 32, %t; mul.wide.u32 %o, %t, 4; add.u64 %d, %d, %o; st.global.u32 [%d], %v;
  ret;
})");
  const Address dst = m.array(std::vector<uint32_t>(128, 0));
  LaunchConfig config;
  config.cluster = {4};
  ASSERT_EQ(m.launch("k", {4}, {32}, {dst}, config).fault.message, "");
  const auto got = m.read<uint32_t>(dst, 128);
  for (uint32_t r = 0; r < 4; ++r)
    for (uint32_t t = 0; t < 32; ++t) EXPECT_EQ(got[r * 32 + t], (r + 1) % 4 * 1100 + t);
}

}  // namespace
}  // namespace assay::vgpu
