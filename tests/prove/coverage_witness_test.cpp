// Which thread writes an element: patterns that compilers make of tiles, halves of rows and loops over the grid. Each is proved, and
// with one store left out it is not.
#include "kernel.h"

namespace assay::prove::testing {
namespace {

// y[%r{row} * %rd30 + %r{column}] = 0, in 64 bits
std::string store_at(const std::string& row, const std::string& column) {
  return fmt::format(
      "cvt.s64.s32 %rd31, {}; cvt.s64.s32 %rd32, {}; mad.lo.s64 %rd33, %rd31, %rd30, %rd32; "
      "shl.b64 %rd34, %rd33, 2; add.s64 %rd35, %rd2, %rd34; st.global.f32 [%rd35], 0f00000000;\n",
      row, column);
}

KernelText of_two_dims(const std::string& body, const std::string& dims) {
  KernelText text = kernel("ld.param.u32 %r6, [p3]; cvt.s64.s32 %rd30, %r6;" + body);
  text.dims = dims;
  text.y = "dtype = \"f32\"\nshape = [\"n\", \"C\"]";
  text.left = "y[i, j]";
  text.parameters = {"x", "y", "= n", "= C"};
  return text;
}

// Tiles of 32 x 32 in a grid of one dimension: the row of tiles is ctaid / across, the column ctaid - (ctaid / across) * across.
Status flat_tiles(int stores) {
  std::string body = R"(
    mov.u32 %r7, %tid.y;
    add.s32 %r10, %r6, 31; shr.u32 %r11, %r10, 5;
    div.u32 %r12, %r3, %r11; mul.lo.s32 %r13, %r12, %r11; sub.s32 %r14, %r3, %r13;
    shl.b32 %r15, %r12, 5; shl.b32 %r16, %r14, 5; add.s32 %r17, %r16, %r5;
    setp.ge.s32 %p1, %r17, %r6; @%p1 bra END;)";
  for (int i = 0; i < stores; ++i)
    body += fmt::format(
                "add.s32 %r18, %r15, %r7; add.s32 %r18, %r18, {}; setp.ge.s32 %p2, %r18, %r1; @%p2 bra END;",
                8 * i) +
            store_at("%r18", "%r17");
  KernelText text = of_two_dims(body + "END:", "n = { min = 1, max = 10000 }\nC = { min = 1, max = 10000 }");
  text.block = "32";
  text.block_y = "8";
  text.grid = "ceil_div(n, 32) * ceil_div(C, 32)";
  return ProvedKernel(text).coverage().status;
}

TEST(CoverageWitness, tiles_of_a_flat_grid) {
  EXPECT_EQ(flat_tiles(4), Status::Proved);
  EXPECT_EQ(flat_tiles(3), Status::Unknown);
}

// A tile of 16 x 16 for each warp: a lane has column lane % 16 of every other row.
KernelText tile_of_a_warp(const std::string& body) {
  KernelText text = of_two_dims("mov.u32 %r7, %ctaid.y; shl.b32 %r8, %r7, 4; shl.b32 %r9, %r3, 4;" + body,
                                "n = { min = 16, max = 4096, multiple_of = 16 }\n"
                                "C = { min = 16, max = 4096, multiple_of = 16 }");
  text.block = "32";
  text.grid = "C / 16";
  text.grid_y = "n / 16";
  return text;
}

Status unrolled_tile(int stores) {
  std::string body =
      "shr.u32 %r10, %r5, 4; add.s32 %r10, %r10, %r8; and.b32 %r11, %r5, 15; add.s32 %r11, %r11, %r9;";
  for (int i = 0; i < stores; ++i)
    body += fmt::format("add.s32 %r12, %r10, {};", 2 * i) + store_at("%r12", "%r11");
  return ProvedKernel(tile_of_a_warp(body)).coverage().status;
}

TEST(CoverageWitness, lanes_take_every_other_row_of_a_tile) {
  EXPECT_EQ(unrolled_tile(8), Status::Proved);
  EXPECT_EQ(unrolled_tile(7), Status::Unknown);
}

// The same in a loop, with i / 16 and i % 16 of a signed i, which compilers round towards zero.
Status signed_tile(int elements) {
  return ProvedKernel(tile_of_a_warp(fmt::format(R"(
    mov.u32 %r20, %r5;
    LOOP:
    shr.s32 %r21, %r20, 31; shr.u32 %r22, %r21, 28; add.s32 %r23, %r20, %r22; shr.s32 %r24, %r23, 4;
    and.b32 %r25, %r23, -16; sub.s32 %r26, %r20, %r25;
    add.s32 %r27, %r24, %r8; add.s32 %r28, %r26, %r9;
    {}
    add.s32 %r20, %r20, 32; setp.lt.s32 %p1, %r20, {}; @%p1 bra LOOP;)",
                                                 store_at("%r27", "%r28"), elements)))
      .coverage()
      .status;
}

TEST(CoverageWitness, signed_places_in_a_tile) {
  EXPECT_EQ(signed_tile(256), Status::Proved);
  EXPECT_EQ(signed_tile(240), Status::Unknown);
}

// Rows of 2 H: thread b H + k writes columns k and H + k of row b. The division is one of 32 bits where that will do, and what is
// left over is computed in two ways.
Status halves_of_rows(const std::string& second) {
  const auto store = [](const std::string& offset) {
    return fmt::format(
        "add.s64 %rd20, %rd18, {}; shl.b64 %rd21, %rd20, 2; add.s64 %rd22, %rd2, %rd21; "
        "st.global.f32 [%rd22], 0f00000000;\n",
        offset);
  };
  KernelText text = of_two_dims(R"(
    cvt.u64.u32 %rd9, %r3; cvt.u64.u32 %rd11, %r5; mul.lo.s64 %rd10, %rd9, 128; add.s64 %rd10, %rd10, %rd11;
    cvt.s64.s32 %rd13, %r1; mul.lo.s64 %rd14, %rd13, %rd30;
    setp.ge.s64 %p1, %rd10, %rd14; @%p1 bra END;
    or.b64 %rd15, %rd10, %rd30; and.b64 %rd15, %rd15, -4294967296; setp.eq.s64 %p2, %rd15, 0; @%p2 bra SHORT;
    div.s64 %rd16, %rd10, %rd30; mul.lo.s64 %rd17, %rd16, %rd30; sub.s64 %rd17, %rd10, %rd17; bra DONE;
    SHORT:
    cvt.u32.u64 %r20, %rd30; cvt.u32.u64 %r21, %rd10; div.u32 %r22, %r21, %r20; rem.u32 %r23, %r21, %r20;
    cvt.u64.u32 %rd16, %r22; cvt.u64.u32 %rd17, %r23;
    DONE:
    mul.lo.s64 %rd18, %rd16, %rd30; shl.b64 %rd18, %rd18, 1; add.s64 %rd18, %rd18, %rd17;)" +
                                    store("0") + store(second) + "END:",
                                "n = { min = 1, max = 4096 }\nC = { min = 1, max = 4096 }");
  text.y = "dtype = \"f32\"\nshape = [\"n\", \"2 * C\"]";
  text.block = "128";
  text.grid = "ceil_div(n * C, 128)";
  return ProvedKernel(text).coverage().status;
}

TEST(CoverageWitness, both_halves_of_a_row) {
  EXPECT_EQ(halves_of_rows("%rd30"), Status::Proved);
  EXPECT_EQ(halves_of_rows("0"), Status::Unknown);
}

// A loop over a grid that may be too small for all, unrolled by two: one step first, if their number is odd.
Status two_steps_at_a_time(const std::string& stores, const std::string& y = "[\"n\", \"C\"]") {
  const std::string one =
      "shl.b64 %rd20, %rd10, 2; add.s64 %rd21, %rd2, %rd20; st.global.f32 [%rd21], 0f00000000;";
  KernelText text = of_two_dims(R"(
    mov.u32 %r7, %nctaid.x; mul.wide.u32 %rd12, %r7, %r4;
    mul.wide.u32 %rd10, %r3, %r4; cvt.u64.u32 %rd11, %r5; add.s64 %rd10, %rd10, %rd11;
    ld.param.u64 %rd13, [p4];
    setp.ge.s64 %p1, %rd10, %rd13; @%p1 bra END;
    not.b64 %rd14, %rd10; add.s64 %rd14, %rd14, %rd13; div.u64 %rd15, %rd14, %rd12;
    and.b64 %rd16, %rd15, 1; setp.eq.b64 %p2, %rd16, 1; @%p2 bra EVEN;)" +
                                    one + R"(
    add.s64 %rd10, %rd10, %rd12;
    EVEN: setp.eq.s64 %p3, %rd15, 0; @%p3 bra END;
    LOOP:)" + stores + R"(
    setp.lt.s64 %p4, %rd10, %rd13; @%p4 bra LOOP;
    END:)",
                                "n = { min = 1, max = 100000 }\nC = { min = 1, max = 10000 }");
  text.y = "dtype = \"f32\"\nshape = " + y;
  text.parameters.emplace_back("== n * C");
  text.grid = "min(ceil_div(n * C, 256), 2048)";
  return ProvedKernel(text).coverage().status;
}

TEST(CoverageWitness, a_loop_over_a_grid_in_steps_of_two) {
  const std::string
      one = "shl.b64 %rd20, %rd10, 2; add.s64 %rd21, %rd2, %rd20; st.global.f32 [%rd21], 0f00000000;",
      step = "add.s64 %rd10, %rd10, %rd12;";
  EXPECT_EQ(two_steps_at_a_time(one + step + one + step), Status::Proved);
  EXPECT_EQ(two_steps_at_a_time(one + step + step), Status::Unknown);
}

// Four elements for each step of a loop over the grid, by stores of one; what is left over from the end, by the first block.
Status fours_and_rest(int stores, const std::string& rest) {
  std::string body = R"(
    shr.u32 %r10, %r1, 2; mov.u32 %r11, %r2; mov.u32 %r12, %nctaid.x; mul.lo.s32 %r12, %r12, %r4;
    setp.ge.s32 %p1, %r11, %r10; @%p1 bra REST;
    LOOP: mul.wide.s32 %rd10, %r11, 16; add.s64 %rd11, %rd2, %rd10;)";
  for (int i = 0; i < stores; ++i) body += fmt::format("st.global.f32 [%rd11 + {}], 0f00000000;", 4 * i);
  body += R"(
    add.s32 %r11, %r11, %r12; setp.lt.s32 %p2, %r11, %r10; @%p2 bra LOOP;
    REST: setp.ne.s32 %p3, %r3, 0; @%p3 bra END; and.b32 %r13, %r1, 3; setp.ge.u32 %p4, %r5, %r13; @%p4 bra END;
    sub.s32 %r14, %r1, )" +
          rest + R"(; sub.s32 %r14, %r14, %r5; mul.wide.s32 %rd12, %r14, 4; add.s64 %rd13, %rd2, %rd12;
    st.global.f32 [%rd13], 0f00000000; END:)";
  KernelText text = kernel(body);
  text.grid = "1056";
  return ProvedKernel(text).coverage().status;
}

TEST(CoverageWitness, fours_and_what_is_left_over_from_the_end) {
  EXPECT_EQ(fours_and_rest(4, "1"), Status::Proved);
  EXPECT_EQ(fours_and_rest(3, "1"), Status::Unknown);
  EXPECT_EQ(fours_and_rest(4, "2"), Status::Unknown);
}

}  // namespace
}  // namespace assay::prove::testing
