// wmma in every shape and type: loads, the product and the store agree on where elements live, and the
// product of small whole numbers is exact.
#include <fmt/format.h>

#include "machine.h"
#include "numerics/formats.h"

namespace assay::vgpu {
namespace {

struct Shape {
  const char* name;
  int m, n, k;
  const char* ab;  // type of A and B
  const char* cd;  // type of C and D
  int a_registers, b_registers;
  const char* tail;  // types of the product, after the shape
  const char* prefix = "";
};

const Shape kShapes[] = {
    {"m16n16k16", 16, 16, 16, "f16", "f32", 8, 8, "f32.f32"},
    {"m8n32k16", 8, 32, 16, "f16", "f32", 8, 8, "f32.f32"},
    {"m32n8k16", 32, 8, 16, "f16", "f32", 8, 8, "f32.f32"},
    {"m16n16k16", 16, 16, 16, "f16", "f16", 8, 8, "f16.f16"},
    {"m32n8k16", 32, 8, 16, "f16", "f16", 8, 8, "f16.f16"},
    {"m16n16k16", 16, 16, 16, "bf16", "f32", 4, 4, "f32.bf16.bf16.f32"},
    {"m8n32k16", 8, 32, 16, "bf16", "f32", 2, 8, "f32.bf16.bf16.f32"},
    {"m32n8k16", 32, 8, 16, "bf16", "f32", 8, 2, "f32.bf16.bf16.f32"},
    {"m16n16k8", 16, 16, 8, "tf32", "f32", 4, 4, "f32.tf32.tf32.f32"},
    {"m8n8k4", 8, 8, 4, "f64", "f64", 1, 1, "f64.f64.f64.f64"},
    {"m16n16k16", 16, 16, 16, "s8", "s32", 2, 2, "s32.s8.s8.s32"},
    {"m16n16k16", 16, 16, 16, "u8", "s32", 2, 2, "s32.u8.u8.s32"},
    {"m8n32k16", 8, 32, 16, "s8", "s32", 1, 4, "s32.s8.s8.s32"},
    {"m32n8k16", 32, 8, 16, "s8", "s32", 4, 1, "s32.s8.s8.s32"},
    {"m8n8k32", 8, 8, 32, "s4", "s32", 1, 1, "s32.s4.s4.s32"},
    {"m8n8k32", 8, 8, 32, "u4", "s32", 1, 1, "s32.u4.u4.s32"},
    {"m8n8k128", 8, 8, 128, "b1", "s32", 1, 1, "s32.b1.b1.s32", "and.popc."},
    {"m8n8k128", 8, 8, 128, "b1", "s32", 1, 1, "s32.b1.b1.s32", "xor.popc."},
};

int bits_of(const std::string& type) {
  if (type == "b1") return 1;
  if (type == "s4" || type == "u4") return 4;
  if (type == "s8" || type == "u8") return 8;
  if (type == "f16" || type == "bf16") return 16;
  return type == "f64" ? 64 : 32;
}

uint64_t code_of(const std::string& type, int value) {
  numerics::Format format;
  if (numerics::format_named(type, format)) return numerics::from_double(format, value);
  return static_cast<uint64_t>(static_cast<int64_t>(value));
}

// Elements packed one after another, from the low bits of each byte on.
std::vector<uint8_t> packed(const std::string& type, const std::vector<int>& values) {
  const int bits = bits_of(type);
  std::vector<uint8_t> bytes((values.size() * static_cast<size_t>(bits) + 7) / 8);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint64_t code = code_of(type, values[i]);
    for (int b = 0; b < bits; ++b) {
      const size_t at = i * static_cast<size_t>(bits) + static_cast<size_t>(b);
      bytes[at / 8] |= static_cast<uint8_t>((code >> b & 1) << (at % 8));
    }
  }
  return bytes;
}

std::string list(char name, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) text += fmt::format("{}%{}{}", i ? ", " : "", name, i);
  return text + "}";
}

std::string kernel(const Shape& s, const std::string& la, const std::string& lb) {
  const bool f64 = std::string(s.ab) == "f64";
  const int c = s.m * s.n / 32 / (std::string(s.cd) == "f16" ? 2 : 1);
  const int lda = la == "row" ? s.k : s.m, ldb = lb == "row" ? s.n : s.k;
  const char* cd = f64 ? "f64" : std::string(s.cd) == "f32" ? "f32" : "b32";
  return fmt::format(R"(
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c) {{
  .reg .{0} %a<8>, %b<8>; .reg .{1} %c<8>; .reg .b64 %p<3>;
  ld.param.u64 %p0, [a]; ld.param.u64 %p1, [b]; ld.param.u64 %p2, [c];
  wmma.load.a.sync.aligned.{2}.{4}.global.{5} {7}, [%p0], {10};
  wmma.load.b.sync.aligned.{3}.{4}.global.{5} {8}, [%p1], {11};
  wmma.load.c.sync.aligned.row.{4}.global.{6} {9}, [%p2], {12};
  wmma.mma.{13}sync.aligned.{2}.{3}.{4}.{14} {9}, {7}, {8}, {9};
  wmma.store.d.sync.aligned.row.{4}.global.{6} [%p2], {9}, {12};
  ret;
}})",
                     f64 ? "f64" : "b32", cd, la, lb, s.name, s.ab, s.cd, list('a', s.a_registers),
                     list('b', s.b_registers), list('c', c), lda, ldb, s.n, s.prefix, s.tail);
}

void check(const Shape& s, const std::string& la, const std::string& lb) {
  const std::string type = s.ab;
  const bool is_unsigned = type[0] == 'u', is_bit = type == "b1",
             counts_xor = std::string(s.prefix) == "xor.popc.";
  uint32_t state = 12345;
  const auto next = [&](int low, int high) {
    state = state * 1664525u + 1013904223u;
    return low + static_cast<int>((state >> 8) % static_cast<uint32_t>(high - low + 1));
  };
  const auto element = [&] { return is_bit ? next(0, 1) : is_unsigned ? next(0, 7) : next(-4, 4); };
  const auto at = [](int row, int col, int rows, int cols, const std::string& layout) {
    return static_cast<size_t>(layout == "row" ? row * cols + col : col * rows + row);
  };
  std::vector<int> a(static_cast<size_t>(s.m * s.k)), b(static_cast<size_t>(s.k * s.n)),
      c(static_cast<size_t>(s.m * s.n));
  for (int& v : a) v = element();
  for (int& v : b) v = element();
  for (int& v : c) v = next(-9, 9);
  std::vector<int> expected = c;
  for (int i = 0; i < s.m; ++i) {
    for (int j = 0; j < s.n; ++j) {
      for (int k = 0; k < s.k; ++k) {
        const int x = a[at(i, k, s.m, s.k, la)], y = b[at(k, j, s.k, s.n, lb)];
        expected[static_cast<size_t>(i * s.n + j)] += counts_xor ? x ^ y : x * y;
      }
    }
  }
  testing::Machine m(kernel(s, la, lb));
  const Address pa = m.array(packed(type, a)), pb = m.array(packed(type, b)), pc = m.array(packed(s.cd, c));
  const LaunchOutcome outcome = m.launch("k", {1}, {32}, {pa, pb, pc});
  const std::string name = fmt::format("{} {} {} {} {}", s.prefix, s.name, s.tail, la, lb);
  ASSERT_EQ(outcome.fault.message, "") << name;
  const std::vector<uint8_t> want = packed(s.cd, expected);
  EXPECT_EQ(m.read<uint8_t>(pc, want.size()), want) << name;
}

TEST(Wmma, ProductsOfSmallNumbersAreExactInEveryShape) {
  for (const Shape& s : kShapes) {
    const bool fixed = bits_of(s.ab) < 8;  // .row.col only
    for (const char* la : {"row", "col"}) {
      for (const char* lb : {"row", "col"}) {
        if (fixed && (std::string(la) != "row" || std::string(lb) != "col")) continue;
        check(s, la, lb);
      }
    }
  }
}

// The sum is kept in f32: 2049 + 1 is 2050, where an f16 accumulator would start from 2048. Its result goes
// to the nearest, ties to even: 2049 to 2048, 2051 to 2052.
TEST(Wmma, AnF32AccumulatorIsRoundedOnceToAnF16Result) {
  testing::Machine m(R"(
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {
  .reg .b32 %a<8>, %b<8>, %d<4>; .reg .f32 %c<8>; .reg .b64 %p<4>;
  ld.param.u64 %p0, [a]; ld.param.u64 %p1, [b]; ld.param.u64 %p2, [c]; ld.param.u64 %p3, [d];
  wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7}, [%p0], 16;
  wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {%b0,%b1,%b2,%b3,%b4,%b5,%b6,%b7}, [%p1], 16;
  wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7}, [%p2], 16;
  wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32 {%d0,%d1,%d2,%d3}, {%a0,%a1,%a2,%a3,%a4,%a5,%a6,%a7},
    {%b0,%b1,%b2,%b3,%b4,%b5,%b6,%b7}, {%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7};
  wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%p3], {%d0,%d1,%d2,%d3}, 16;
  ret;
})");
  std::vector<int> a(256, 0), b(256, 0), c(256), expected(256);
  for (size_t row = 0; row < 16; ++row) {
    a[row * 16] = row % 2 ? 1 : 0;  // times one, from the first row of B
    b[row * 16] = 1;
    for (size_t column = 0; column < 16; ++column) {
      c[row * 16 + column] = column % 2 ? 2051 : 2049;
      expected[row * 16 + column] = column % 2 ? 2052 : row % 2 ? 2050 : 2048;
    }
  }
  const Address pa = m.array(packed("f16", a)), pb = m.array(packed("f16", b)),
                pc = m.array(packed("f32", c)), pd = m.array(std::vector<uint8_t>(512));
  ASSERT_EQ(m.launch("k", {1}, {32}, {pa, pb, pc, pd}).fault.message, "");
  EXPECT_EQ(m.read<uint8_t>(pd, 512), packed("f16", expected));
}

}  // namespace
}  // namespace assay::vgpu
