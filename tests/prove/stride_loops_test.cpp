// Loops that stride by something that is no constant, as compilers leave them, and indices that follow a loop's count. For
// each rule a kernel that it proves, and a kernel next to it that must not be proved.
#include "kernel.h"

namespace assay::prove::testing {
namespace {

// %rd10 = n, %rd6 = the stride of the grid, %rd20 = the thread's first index, which is below n.
constexpr const char* kGridStride = R"(
  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u64 %rd10, [p2];
  mov.u32 %r1, %nctaid.x; mov.u32 %r2, %ntid.x; mul.wide.u32 %rd6, %r1, %r2;
  mov.u32 %r3, %ctaid.x; mul.wide.u32 %rd11, %r3, %r2;
  mov.u32 %r4, %tid.x; cvt.u64.u32 %rd12, %r4; add.s64 %rd20, %rd11, %rd12;
  setp.ge.s64 %p1, %rd20, %rd10; @%p1 bra END;
)";

KernelText striding(const std::string& body) {
  KernelText text;
  text.dims = "n = { min = 1, max = 4831838208, type = \"i64\" }";
  text.grid = "min(ceil_div(n, 1024), 65536)";
  text.parameters = {"x", "y", "== n"};
  text.body = kGridStride + body + "\n  END:";
  return text;
}

// y[i] and y[i + stride] in each step, after a single one if the number of all, which is q + 1, is odd. `odd` gets q.
std::string two_at_a_time(const std::string& odd) {
  return fmt::format(R"(
  sub.s64 %rd13, %rd10, %rd20; add.s64 %rd13, %rd13, -1;
  or.b64 %rd30, %rd13, %rd6; and.b64 %rd31, %rd30, -4294967296; setp.eq.s64 %p2, %rd31, 0; @%p2 bra NARROW;
  div.u64 %rd14, %rd13, %rd6;
  bra.uni DIVIDED;
  NARROW:
  cvt.u32.u64 %r10, %rd6; cvt.u32.u64 %r11, %rd13; div.u32 %r12, %r11, %r10; cvt.u64.u32 %rd14, %r12;
  DIVIDED:
  {} setp.eq.s64 %p3, %rd21, 0; @%p3 bra MAIN;
  shl.b64 %rd15, %rd20, 2; add.s64 %rd16, %rd2, %rd15; st.global.f32 [%rd16], 0f00000000; add.s64 %rd20, %rd20, %rd6;
  MAIN:
  setp.lt.u64 %p5, %rd14, 1; @%p5 bra END;
  LOOP:
  shl.b64 %rd15, %rd20, 2; add.s64 %rd16, %rd2, %rd15; st.global.f32 [%rd16], 0f00000000; add.s64 %rd20, %rd20, %rd6;
  shl.b64 %rd17, %rd20, 2; add.s64 %rd18, %rd2, %rd17; st.global.f32 [%rd18], 0f00000000; add.s64 %rd20, %rd20, %rd6;
  setp.lt.s64 %p6, %rd20, %rd10; @%p6 bra LOOP;)",
                     odd);
}

TEST(StrideLoops, the_steps_before_an_unrolled_loop_leave_whole_steps) {
  EXPECT_EQ(
      ProvedKernel(striding(two_at_a_time("add.s64 %rd19, %rd14, 1; and.b64 %rd21, %rd19, 1;"))).bounds(),
      Status::Proved);
}

TEST(StrideLoops, not_if_the_wrong_number_is_even) {
  EXPECT_EQ(ProvedKernel(striding(two_at_a_time("and.b64 %rd21, %rd14, 1;"))).bounds(), Status::Unknown);
}

TEST(StrideLoops, not_if_the_division_is_of_one_more) {
  std::string body = two_at_a_time("add.s64 %rd19, %rd14, 1; and.b64 %rd21, %rd19, 1;");
  body.replace(body.find("add.s64 %rd13, %rd13, -1;"), 25, "add.s64 %rd13, %rd13, 0; ");
  EXPECT_EQ(ProvedKernel(striding(body)).bounds(), Status::Unknown);
}

TEST(StrideLoops, not_if_the_loop_goes_on_at_the_end) {
  std::string body = two_at_a_time("add.s64 %rd19, %rd14, 1; and.b64 %rd21, %rd19, 1;");
  body.replace(body.find("setp.lt.s64 %p6"), 15, "setp.le.s64 %p6");
  EXPECT_EQ(ProvedKernel(striding(body)).bounds(), Status::Unknown);
}

// The bits of the two are asked about, and not those of something else.
TEST(StrideLoops, a_narrow_division_is_one_only_where_both_are_narrow) {
  std::string body = two_at_a_time("add.s64 %rd19, %rd14, 1; and.b64 %rd21, %rd19, 1;");
  body.replace(body.find("or.b64 %rd30, %rd13, %rd6;"), 26, "or.b64 %rd30, %rd6, %rd6; ");
  EXPECT_EQ(ProvedKernel(striding(body)).bounds(), Status::Unknown);
}

// `next = i + stride` is carried round the loop and tested at its end.
std::string carries_the_next(const std::string& next) {
  return fmt::format(R"(
  add.s64 %rd21, %rd20, %rd6; setp.ge.s64 %p2, %rd21, %rd10; @%p2 bra END;
  shl.b64 %rd7, %rd6, 1;
  LOOP:
  shl.b64 %rd15, %rd21, 2; add.s64 %rd16, %rd2, %rd15; st.global.f32 [%rd16], 0f00000000;
  add.s64 %rd20, %rd20, %rd7; {}
  setp.lt.s64 %p3, %rd21, %rd10; @%p3 bra LOOP;)",
                     next);
}

TEST(StrideLoops, a_register_that_is_computed_from_one_that_grows_grows) {
  EXPECT_EQ(ProvedKernel(striding(carries_the_next("add.s64 %rd21, %rd20, %rd6;"))).bounds(), Status::Proved);
}

// It begins as i + stride, and goes on as i + 2 * stride: what it is at first is not what the loop makes of it.
TEST(StrideLoops, not_if_it_began_as_something_else) {
  std::string body = carries_the_next("add.s64 %rd21, %rd20, %rd7;");
  body.replace(body.find("setp.lt.s64 %p3, %rd21, %rd10;"), 30, "setp.lt.s64 %p3, %rd20, %rd10;");
  EXPECT_EQ(ProvedKernel(striding(body)).bounds(), Status::Unknown);
}

// y[tid + 256 k], with k in a register and the index computed from it.
KernelText counted(const std::string& most) {
  KernelText text = kernel(R"(
    setp.ge.s32 %p1, %r5, %r1; @%p1 bra END; mov.u32 %r10, 0;
    LOOP:
    mad.lo.s32 %r11, %r4, %r10, %r5; mul.wide.s32 %rd3, %r11, 4; add.s64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], 0f00000000;
    add.s32 %r12, %r11, %r4; add.s32 %r10, %r10, 1; setp.lt.s32 %p2, %r12, %r1; @%p2 bra LOOP;
    END:)");
  text.dims = fmt::format("n = {{ min = 1, max = {} }}", most);
  text.grid = "1";
  return text;
}

TEST(StrideLoops, an_index_computed_from_the_count_is_what_the_loop_tests) {
  EXPECT_EQ(ProvedKernel(counted("100000")).bounds(), Status::Proved);
}

TEST(StrideLoops, not_where_the_index_wraps) {
  EXPECT_EQ(ProvedKernel(counted("2147483647")).bounds(), Status::Unknown);
}

// ---- coverage

// Blocks count down, threads count up: i = (blocks - `back` - ctaid) * 256 + tid.
Status covered_backwards(int back) {
  return ProvedKernel(kernel(fmt::format(R"(
    mov.u32 %r10, %nctaid.x; add.s32 %r11, %r10, -{}; sub.s32 %r11, %r11, %r3; mad.lo.s32 %r12, %r11, %r4, %r5;
    setp.ge.s32 %p1, %r12, %r1; @%p1 bra END;
    mul.wide.s32 %rd3, %r12, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], 0f00000000;
    END:)",
                                         back)))
      .coverage()
      .status;
}

TEST(StrideCoverage, blocks_may_count_down) {
  EXPECT_EQ(covered_backwards(1), Status::Proved);
  EXPECT_EQ(covered_backwards(2), Status::Unknown);  // the last block's elements are nobody's
}

// Rows by the grid's height, of which there may be fewer than rows.
Status covered_rows(const std::string& step) {
  KernelText text = kernel(fmt::format(R"(
    setp.ge.s32 %p1, %r2, %r1; @%p1 bra END; ld.param.u32 %r20, [p3];
    mov.u32 %r10, %ctaid.y; mov.u32 %r11, %nctaid.y;
    setp.ge.s32 %p2, %r10, %r20; @%p2 bra END;
    LOOP:
    cvt.s64.s32 %rd5, %r10; cvt.s64.s32 %rd6, %r1; cvt.s64.s32 %rd7, %r2; mad.lo.s64 %rd8, %rd5, %rd6, %rd7;
    shl.b64 %rd9, %rd8, 2; add.s64 %rd10, %rd2, %rd9; st.global.f32 [%rd10], 0f00000000;
    {} setp.lt.s32 %p3, %r10, %r20; @%p3 bra LOOP;
    END:)",
                                       step));
  text.dims = "n = { min = 1, max = 4096 }\nrows = { min = 1, max = 1000000 }";
  text.y = "dtype = \"f32\"\nshape = [\"rows\", \"n\"]";
  text.left = "y[i, j]";
  text.parameters = {"x", "y", "= n", "= rows"};
  text.grid_y = "min(rows, 65535)";
  return ProvedKernel(text).coverage().status;
}

TEST(StrideCoverage, rows_by_the_height_of_the_grid) {
  EXPECT_EQ(covered_rows("add.s32 %r10, %r10, %r11;"), Status::Proved);
  EXPECT_EQ(covered_rows("add.s32 %r10, %r10, %r11; add.s32 %r10, %r10, 1;"), Status::Unknown);
}

// ---- divisions by a product

// y[(h / g) * 64 + tid], h below kv * g: `g` of the kernel is the contract's or another number.
KernelText groups(const std::string& g) {
  KernelText text = kernel(R"(
    div.s32 %r10, %r3, %r1; shl.b32 %r11, %r10, 6; add.s32 %r12, %r11, %r5;
    mul.wide.s32 %rd3, %r12, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], 0f00000000;)");
  text.dims = "kv = { min = 1, max = 16 }\ng = { min = 2, max = 8 }\nn = 1";
  text.y = "dtype = \"f32\"\nshape = [\"kv\", \"64\"]";
  text.left = "y[i, j]";
  text.parameters = {"x", "y", "= " + g};
  text.grid = "kv * g";
  text.block = "64";
  return text;
}

TEST(Divisions, what_is_below_a_product_is_below_one_factor_when_divided_by_the_other) {
  EXPECT_EQ(ProvedKernel(groups("g")).bounds(), Status::Proved);
  EXPECT_EQ(ProvedKernel(groups("g - 1")).bounds(), Status::Unknown);
}

TEST(Divisions, a_product_is_divided_by_its_factor) {
  KernelText text = groups("g");
  text.parameters.push_back("= kv * g");
  // (kv * g) / g - 1 is the last row
  text.body = std::string(kStart) + R"(
    ld.param.u32 %r20, [p3]; div.s32 %r10, %r20, %r1; add.s32 %r10, %r10, -1; shl.b32 %r11, %r10, 6;
    add.s32 %r12, %r11, %r5; mul.wide.s32 %rd3, %r12, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], 0f00000000;)";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Proved);
  text.parameters.back() = "= kv * g + g";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

// 4 i mod 1024, as of bytes: four times i mod 256, and as far as that.
TEST(Divisions, a_remainder_of_bytes_is_that_of_elements_times_their_size) {
  const auto bounds = [](const char* elements) {
    KernelText text = kernel(
        "shl.b32 %r10, %r2, 2; rem.u32 %r11, %r10, 1024; cvt.u64.u32 %rd3, %r11; add.s64 %rd4, %rd2, %rd3;"
        "st.global.f32 [%rd4], 0f00000000;");
    text.dims = "n = { min = 1000, max = 100000 }";
    text.block = "300";
    text.y = fmt::format("dtype = \"f32\"\nshape = [{}]", elements);
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("256"), Status::Proved);
  EXPECT_EQ(bounds("255"), Status::Unknown);
  EXPECT_EQ(bounds("65"), Status::Unknown);  // the offset is not i mod 256
}

// x[i / m], x[(i - 5) mod 4 + 3] and such.
Status divided(const std::string& division, const char* size, const char* least = "1") {
  KernelText text = kernel("ld.param.u32 %r6, [p3]; setp.ge.u32 %p1, %r5, %r1; @%p1 bra END;" + division + R"(
    mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    END:)");
  text.dims = fmt::format("n = {{ min = 1, max = 1000 }}\nm = {{ min = {}, max = 1000 }}", least);
  text.x = fmt::format("dtype = \"f32\"\nshape = [\"{}\"]", size);
  text.y = "dtype = \"f32\"\nshape = [\"n\", \"m\"]";
  text.left = "y[i, j]";
  text.parameters = {"x", "y", "= n", "= m"};
  return ProvedKernel(text).bounds();
}

TEST(Divisions, nothing_is_known_of_a_quotient_by_zero) {
  EXPECT_EQ(divided("div.u32 %r10, %r5, %r6;", "n"), Status::Proved);
  EXPECT_EQ(divided("div.u32 %r10, %r5, %r6;", "n", "0"), Status::Unknown);
}

// Towards zero: the remainder of -5 and 4 is -1, and the quotient of -1 and 4 is 0.
TEST(Divisions, of_negative_numbers) {
  EXPECT_EQ(divided("sub.s32 %r9, %r5, 5; rem.s32 %r10, %r9, 4;", "4"), Status::Unknown);
  EXPECT_EQ(divided("sub.s32 %r9, %r5, 5; rem.s32 %r10, %r9, 4; add.s32 %r10, %r10, 3;", "7"),
            Status::Proved);
  EXPECT_EQ(divided("sub.s32 %r9, %r5, 5; rem.s32 %r10, %r9, 4; add.s32 %r10, %r10, 3;", "6"),
            Status::Unknown);
}

// 3 m i / (2 m): half as much again as i.
TEST(Divisions, a_quotient_of_products_is_that_of_their_factors) {
  const std::string halves =
      "mul.lo.s32 %r8, %r5, %r6; mul.lo.s32 %r8, %r8, 3; shl.b32 %r9, %r6, 1; div.u32 %r10, %r8, %r9;";
  EXPECT_EQ(divided(halves, "2 * n"), Status::Proved);
  EXPECT_EQ(divided(halves, "n"), Status::Unknown);
}

// n i mod 3 n: n times i mod 3, up to 2 n.
TEST(Divisions, a_remainder_of_rows_is_that_of_their_numbers_times_their_length) {
  const auto bounds = [](const char* elements) {
    KernelText text = kernel(
        "mul.lo.s32 %r10, %r5, %r1; mul.lo.s32 %r11, %r1, 3; rem.u32 %r12, %r10, %r11; "
        "mul.wide.u32 %rd3, %r12, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], 0f00000000;");
    text.dims = "n = { min = 3, max = 100000 }";
    text.y = fmt::format("dtype = \"f32\"\nshape = [\"{}\"]", elements);
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("2 * n + 1"), Status::Proved);
  EXPECT_EQ(bounds("2 * n"), Status::Unknown);
  EXPECT_EQ(bounds("n"), Status::Unknown);
}

// ---- launches for some shapes only

TEST(Limits, what_is_negative_for_no_shape_of_a_launch_has_a_value) {
  ProvedKernel k(kernel(""));
  Terms terms;
  Dims all(terms, k.contract()), some(terms, k.contract(), {{"n", 1000, false}});
  EXPECT_FALSE(all.term(*expr("ceil_div(n - 1000, 256)")));
  EXPECT_TRUE(some.term(*expr("ceil_div(n - 1000, 256)")));
  EXPECT_FALSE(some.term(*expr("ceil_div(n - 1001, 256)")));
  // Limits that leave no shape are none.
  Dims none(terms, k.contract(), {{"n", 200, false}, {"n", 100, true}});
  EXPECT_EQ(none.contract().dim("n")->min, 200);
  EXPECT_EQ(none.contract().dim("n")->max, 100000);
}

}  // namespace
}  // namespace assay::prove::testing
