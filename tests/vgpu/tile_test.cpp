// Matrices between memory and registers.
#include <fmt/format.h>

#include "recorder.h"

namespace assay::vgpu {
namespace {

using testing::Machine;
using testing::one_thread;
using testing::Recorder;

class Tiles : public ::testing::TestWithParam<bool> {
 protected:
  Options options() const { return one_thread(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Builds, Tiles, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "watched" : "plain"; });

std::vector<uint16_t> halves(size_t count) {
  std::vector<uint16_t> v(count);
  for (size_t i = 0; i < count; ++i) v[i] = static_cast<uint16_t>(i * 5 + 1);
  return v;
}

// Four 8x8 matrices of 16-bit elements, copied to shared memory with rows 32 bytes apart;
// out[lane][register].
std::string load_kernel(int matrices, bool transposed) {
  std::string list;
  for (int m = 0; m < matrices; ++m) list += fmt::format("{}%d{}", m ? ", " : "", m);
  return fmt::format(R"(
.shared .align 16 .b8 tile[1024];
.visible .entry k(.param .u64 src, .param .u64 dst) {{
  .reg .b64 %src, %dst, %o; .reg .b32 %t, %s, %v, %d<4>; .reg .b32 %x<4>;
  ld.param.u64 %src, [src]; ld.param.u64 %dst, [dst]; mov.u32 %t, %tid.x;
  mul.wide.u32 %o, %t, 16; add.u64 %src, %src, %o; ld.global.v4.u32 {{%x0, %x1, %x2, %x3}}, [%src];
  mov.u32 %s, tile; shl.b32 %v, %t, 5; add.u32 %s, %s, %v; st.shared.v4.u32 [%s], {{%x0, %x1, %x2, %x3}};
  bar.sync 0;
  ldmatrix.sync.aligned.m8n8.x{}{}.shared.b16 {{{}}}, [%s];
  mul.wide.u32 %o, %t, 16; add.u64 %dst, %dst, %o;
  {}
  ret;
}})",
                     matrices, transposed ? ".trans" : "", list, [&] {
                       std::string stores;
                       for (int m = 0; m < matrices; ++m)
                         stores += fmt::format("st.global.u32 [%dst+{}], %d{};\n  ", m * 4, m);
                       return stores;
                     }());
}

TEST_P(Tiles, LoadMatrix) {
  const auto in = halves(256);
  for (const int matrices : {1, 2, 4}) {
    for (const bool transposed : {false, true}) {
      Machine m(load_kernel(matrices, transposed), options());
      const Address dst = m.array(std::vector<uint16_t>(256, 0));
      ASSERT_EQ(m.launch("k", {1}, {32}, {m.array(in), dst}).fault.message, "");
      const auto got = m.read<uint16_t>(dst, 256);
      for (size_t l = 0; l < 32; ++l)
        for (size_t r = 0; r < static_cast<size_t>(matrices); ++r)
          for (size_t half = 0; half < 2; ++half) {
            const size_t a = l / 4, b = l % 4 * 2 + half;
            const size_t row = transposed ? b : a, col = transposed ? a : b;
            ASSERT_EQ(got[l * 8 + r * 2 + half], in[(r * 8 + row) * 8 + col])
                << matrices << transposed << " lane " << l;
          }
    }
  }
}

TEST_P(Tiles, StoreMatrixIsItsInverse) {
  const auto in = halves(256);
  for (const char* trans : {"", ".trans"}) {
    Machine m(fmt::format(R"(
.shared .align 16 .b8 tile[512];
.shared .align 16 .b8 copy[512];
.visible .entry k(.param .u64 src, .param .u64 dst) {{
  .reg .b64 %src, %dst, %o; .reg .b32 %t, %s, %c, %v, %x<4>;
  ld.param.u64 %src, [src]; ld.param.u64 %dst, [dst]; mov.u32 %t, %tid.x;
  mul.wide.u32 %o, %t, 16; add.u64 %src, %src, %o; add.u64 %dst, %dst, %o; ld.global.v4.u32 {{%x0, %x1, %x2, %x3}}, [%src];
  shl.b32 %v, %t, 4; mov.u32 %s, tile; add.u32 %s, %s, %v; mov.u32 %c, copy; add.u32 %c, %c, %v;
  st.shared.v4.u32 [%s], {{%x0, %x1, %x2, %x3}};
  bar.sync 0;
  ldmatrix.sync.aligned.m8n8.x4{0}.shared.b16 {{%x0, %x1, %x2, %x3}}, [%s];
  stmatrix.sync.aligned.m8n8.x4{0}.shared.b16 [%c], {{%x0, %x1, %x2, %x3}};
  bar.sync 0;
  ld.shared.v4.u32 {{%x0, %x1, %x2, %x3}}, [%c]; st.global.v4.u32 [%dst], {{%x0, %x1, %x2, %x3}};
  ret;
}})",
                          trans),
              options());
    const Address dst = m.array(std::vector<uint16_t>(256, 0));
    ASSERT_EQ(m.launch("k", {1}, {32}, {m.array(in), dst}).fault.message, "");
    EXPECT_EQ(m.read<uint16_t>(dst, 256), in) << trans;
  }
}

TEST_P(Tiles, MoveMatrixTransposes) {
  Machine m(R"(
.visible .entry k(.param .u64 src, .param .u64 dst) {
  .reg .b64 %src, %dst, %o; .reg .b32 %t, %x;
  ld.param.u64 %src, [src]; ld.param.u64 %dst, [dst]; mov.u32 %t, %tid.x;
  mul.wide.u32 %o, %t, 4; add.u64 %src, %src, %o; add.u64 %dst, %dst, %o; ld.global.u32 %x, [%src];
  movmatrix.sync.aligned.m8n8.trans.b16 %x, %x;
  st.global.u32 [%dst], %x;
  ret;
})",
            options());
  const auto in = halves(64);
  const Address dst = m.array(std::vector<uint16_t>(64, 0));
  ASSERT_EQ(m.launch("k", {1}, {32}, {m.array(in), dst}).fault.message, "");
  const auto got = m.read<uint16_t>(dst, 64);
  for (size_t r = 0; r < 8; ++r)
    for (size_t c = 0; c < 8; ++c) EXPECT_EQ(got[r * 8 + c], in[c * 8 + r]);
}

// A fragment stored in one layout after being loaded in the other is the transposed matrix.
TEST_P(Tiles, WmmaFragmentsComeBack) {
  struct Case {
    const char* type;
    uint32_t bytes, registers;
  };
  for (const Case& c : {Case{"f32", 4, 8}, Case{"f16", 2, 4}, Case{"s32", 4, 8}}) {
    for (const bool flip : {false, true}) {
      std::string list;
      for (uint32_t r = 0; r < c.registers; ++r) list += fmt::format("{}%x{}", r ? ", " : "", r);
      Machine m(fmt::format(R"(
.visible .entry k(.param .u64 src, .param .u64 dst) {{
  .reg .b64 %src, %dst; .reg .b32 %s, %x<8>;
  ld.param.u64 %src, [src]; ld.param.u64 %dst, [dst]; mov.u32 %s, 24;
  wmma.load.c.sync.aligned.row.m16n16k16.global.{0} {{{1}}}, [%src], %s;
  wmma.store.d.sync.aligned.{2}.m16n16k16.global.{0} [%dst], {{{1}}}, 16;
  ret;
}})",
                            c.type, list, flip ? "col" : "row"),
                options());
      std::vector<uint8_t> in(16 * 24 * c.bytes);
      for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint8_t>(i * 7 + i / 256);
      const Address dst = m.array(std::vector<uint8_t>(256 * c.bytes, 0));
      ASSERT_EQ(m.launch("k", {1}, {32}, {m.array(in), dst}).fault.message, "") << c.type;
      const auto got = m.read<uint8_t>(dst, 256 * c.bytes);
      for (uint32_t row = 0; row < 16; ++row)
        for (uint32_t col = 0; col < 16; ++col)
          for (uint32_t b = 0; b < c.bytes; ++b)
            ASSERT_EQ(got[((flip ? col * 16 + row : row * 16 + col)) * c.bytes + b],
                      in[(row * 24 + col) * c.bytes + b])
                << c.type << flip << ' ' << row << ' ' << col;
    }
  }
}

// D = A * B + C with matrices that tell every element apart, through load, multiply and store.
TEST_P(Tiles, WmmaMultiplies) {
  for (const bool a_col : {false, true}) {
    for (const bool b_col : {false, true}) {
      Machine m(fmt::format(R"(
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 d) {{
  .reg .b64 %a, %b, %d; .reg .b32 %fa<8>, %fb<8>; .reg .f32 %c<8>;
  ld.param.u64 %a, [a]; ld.param.u64 %b, [b]; ld.param.u64 %d, [d];
  wmma.load.a.sync.aligned.{0}.m16n16k16.global.f16 {{%fa0,%fa1,%fa2,%fa3,%fa4,%fa5,%fa6,%fa7}}, [%a], 16;
  wmma.load.b.sync.aligned.{1}.m16n16k16.global.f16 {{%fb0,%fb1,%fb2,%fb3,%fb4,%fb5,%fb6,%fb7}}, [%b], 16;
  wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {{%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7}}, [%d], 16;
  wmma.mma.sync.aligned.{0}.{1}.m16n16k16.f32.f32 {{%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7}},
    {{%fa0,%fa1,%fa2,%fa3,%fa4,%fa5,%fa6,%fa7}}, {{%fb0,%fb1,%fb2,%fb3,%fb4,%fb5,%fb6,%fb7}}, {{%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7}};
  wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%d], {{%c0,%c1,%c2,%c3,%c4,%c5,%c6,%c7}}, 16;
  ret;
}})",
                            a_col ? "col" : "row", b_col ? "col" : "row"),
                options());
      // Small integers as f16: exact.
      auto half = [](int v) {
        return static_cast<uint16_t>(v == 0 ? 0 : v == 1 ? 0x3c00 : v == 2 ? 0x4000 : 0x4200);
      };
      auto a = [](uint32_t r, uint32_t k) { return static_cast<int>((r * 3 + k * 5) % 4); };
      auto b = [](uint32_t k, uint32_t c) { return static_cast<int>((k * 7 + c) % 4); };
      std::vector<uint16_t> ma(256), mb(256);
      std::vector<float> mc(256);
      for (uint32_t r = 0; r < 16; ++r)
        for (uint32_t c = 0; c < 16; ++c) {
          ma[a_col ? c * 16 + r : r * 16 + c] = half(a(r, c));
          mb[b_col ? c * 16 + r : r * 16 + c] = half(b(r, c));
          mc[r * 16 + c] = static_cast<float>(r * 100 + c);
        }
      const Address d = m.array(mc);
      ASSERT_EQ(m.launch("k", {1}, {32}, {m.array(ma), m.array(mb), d}).fault.message, "");
      const auto got = m.read<float>(d, 256);
      for (uint32_t r = 0; r < 16; ++r)
        for (uint32_t c = 0; c < 16; ++c) {
          float want = static_cast<float>(r * 100 + c);
          for (uint32_t k = 0; k < 16; ++k) want += static_cast<float>(a(r, k) * b(k, c));
          ASSERT_EQ(got[r * 16 + c], want) << a_col << b_col << ' ' << r << ' ' << c;
        }
    }
  }
}

TEST(TileChecks, UndefinedElementsKeepTheirPlace) {
  Machine m(load_kernel(4, true), one_thread(true));
  Recorder seen;
  m.device().listen(&seen);
  const Address src = m.array(halves(256)), dst = m.array(std::vector<uint16_t>(256, 0));
  m.device().memory().mark_initialised(src + 2 * (8 + 3), 2, false);  // matrix 0, row 1, column 3
  ASSERT_EQ(m.launch("k", {1}, {32}, {src, dst}).fault.message, "");
  ASSERT_EQ(seen.violations.size(), 1u);
  EXPECT_EQ(seen.violations[0].what, Violation::UndefinedStore);
  EXPECT_EQ(seen.violations[0].lanes, 1u << 12) << "lane 4 * 3 holds rows 0 and 1 of column 3";
}

}  // namespace
}  // namespace assay::vgpu
