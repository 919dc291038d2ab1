// What is proved of small kernels, and above all what is not: each rule of the prover has here a kernel that
// it must not let through.
#include "kernel.h"

namespace assay::prove::testing {
namespace {

TEST(Bounds, an_index_below_n_is_within_a_tensor_of_n) {
  ProvedKernel k(kernel(R"(
    setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
    mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    END:)"));
  EXPECT_EQ(k.bounds(), Status::Proved);
  EXPECT_EQ(k.overflow(), Status::Proved);
  EXPECT_EQ(k.alignment(), Status::Proved);
  EXPECT_EQ(k.legality(), Status::Proved);
}

TEST(Bounds, what_the_contract_requires_of_dims_is_known) {
  const auto bounds = [](const std::string& require) {
    KernelText text = kernel(R"(
      setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
      mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      END:)");
    text.dims = "m = { min = 1, max = 1000 }\nn = { min = 1, max = 1000 }\n" + require;
    text.parameters = {"x", "y", "= m"};
    text.grid = "ceil_div(m, 256)";
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("require = \"m <= n\""), Status::Proved);
  EXPECT_EQ(bounds("require = \"n > 2 * m - 1\""), Status::Proved);
  EXPECT_EQ(bounds("require = \"m == n\""), Status::Proved);
  EXPECT_EQ(bounds("require = \"m <= n + 1\""), Status::Unknown);
  EXPECT_EQ(bounds("require = \"m != n\""), Status::Unknown);
  EXPECT_EQ(bounds(""), Status::Unknown);
}

TEST(Bounds, an_index_up_to_n_is_not) {
  ProvedKernel k(kernel(R"(
    setp.gt.s32 %p1, %r2, %r1; @%p1 bra END;
    mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    END:)"));
  const Obligation bounds = k.prove(prove_bounds, true);
  EXPECT_EQ(bounds.status, Status::Unknown);
  ASSERT_EQ(bounds.open.size(), 1u);
  ASSERT_TRUE(bounds.open.front().candidate);
  EXPECT_LE(bounds.open.front().candidate->shape.at("n"), 40);  // small shapes first
}

TEST(Overflow, an_index_cut_to_16_bits_wraps_from_65536_on) {
  const auto overflow = [](const char* most) {
    KernelText text = kernel(R"(
      setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
      and.b32 %r10, %r2, 65535; mul.wide.u32 %rd3, %r10, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      END:)");
    text.dims = fmt::format("n = {{ min = 1, max = {} }}", most);
    ProvedKernel k(text);
    EXPECT_EQ(k.bounds(), Status::Proved);
    return k.overflow();
  };
  EXPECT_EQ(overflow("65536"), Status::Proved);
  EXPECT_EQ(overflow("65537"), Status::Unknown);
}

TEST(Bounds, the_second_element_of_a_pair_counts) {
  ProvedKernel k(kernel(R"(
    setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
    mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.v2.f32 {%f1, %f2}, [%rd4];
    END:)"));
  EXPECT_EQ(k.bounds(), Status::Unknown);
  EXPECT_EQ(k.alignment(), Status::Unknown);  // 4 * i is no multiple of 8
}

TEST(Bounds, a_guard_on_the_access_itself_counts) {
  ProvedKernel k(kernel(R"(
    setp.lt.s32 %p1, %r2, %r1;
    mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3;
    @%p1 ld.global.f32 %f1, [%rd4];)"));
  EXPECT_EQ(k.bounds(), Status::Proved);
}

TEST(Bounds, a_pointer_chosen_between_two_tensors_is_checked_in_both) {
  const char* body = R"(
    setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
    setp.lt.s32 %p2, %r5, 7; selp.b64 %rd5, %rd1, %rd2, %p2;
    mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd5, %rd3; ld.global.f32 %f1, [%rd4+{}];
    END:)";
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(body), 0))).bounds(), Status::Proved);
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(body), 4))).bounds(), Status::Unknown);
}

// ---- rows and columns (strides.h)

// x[row * m + column] of an n by m tensor: a block for each row, which `rows` and `columns` guard.
KernelText matrix(const std::string& rows, const std::string& columns, const std::string& more = "") {
  KernelText text;
  text.dims = "n = { min = 1, max = 100000 }\nm = { min = 1, max = 100000 }";
  text.x = "dtype = \"f32\"\nshape = [\"n\", \"m\"]";
  text.grid = "n + 3";
  text.parameters = {"x", "y", "= n", "= m"};
  text.body = fmt::format(R"({}
    ld.param.u32 %r6, [p3];
    setp.{}.u32 %p1, %r3, %r1; @%p1 bra END;
    setp.{}.u32 %p2, %r5, %r6; @%p2 bra END;
    mov.u32 %r7, %r3; {}
    cvt.u64.u32 %rd5, %r7; cvt.u64.u32 %rd6, %r6; cvt.u64.u32 %rd7, %r5;
    mad.lo.s64 %rd3, %rd5, %rd6, %rd7; shl.b64 %rd3, %rd3, 2;
    add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    END:)",
                          kStart, rows, columns, more);
  return text;
}

TEST(Strides, a_row_and_a_column_below_their_extents_are_in_bounds) {
  EXPECT_EQ(ProvedKernel(matrix("ge", "ge")).bounds(), Status::Proved);
}

TEST(Strides, a_column_that_reaches_the_next_row_is_not) {
  EXPECT_EQ(ProvedKernel(matrix("ge", "gt")).bounds(), Status::Unknown);
}

TEST(Strides, a_row_too_many_is_not) {
  EXPECT_EQ(ProvedKernel(matrix("gt", "ge")).bounds(), Status::Unknown);
}

TEST(Strides, a_column_before_the_first_is_not) {
  KernelText text = matrix("ge", "ge");
  const std::string column = "mad.lo.s64 %rd3";
  text.body.insert(text.body.find(column), "add.s64 %rd7, %rd7, -1;");
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

TEST(Strides, a_row_before_the_first_is_not) {
  EXPECT_EQ(ProvedKernel(matrix("ge", "ge", "sub.u32 %r7, %r7, 1;")).bounds(), Status::Unknown);
}

// A row for each thread of an axis of the block: the last begins at as many numbers as there are rows before it.
TEST(Strides, rows_of_a_block) {
  const auto bounds = [](const char* threads, const char* rows) {
    KernelText text = kernel(R"(
      mov.u32 %r6, %tid.y; setp.ge.u32 %p1, %r2, %r1; @%p1 bra END;
      mad.lo.s32 %r7, %r6, %r1, %r2; mul.wide.s32 %rd3, %r7, 4; add.s64 %rd4, %rd1, %rd3;
      ld.global.f32 %f1, [%rd4];
      END:)");
    text.block_y = threads;
    text.x = fmt::format("dtype = \"f32\"\nshape = [\"{} * n\"]", rows);
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("3", "3"), Status::Proved);
  EXPECT_EQ(bounds("3", "2"), Status::Unknown);
  EXPECT_EQ(bounds("2", "2"), Status::Proved);
  EXPECT_EQ(bounds("2", "1"), Status::Unknown);
}

// (n - 1 - i) v: not negative if v is not.
TEST(Strides, a_factor_that_may_be_negative) {
  const auto bounds = [](const char* values) {
    KernelText text = kernel(R"(
      setp.ge.u32 %p1, %r2, %r1; @%p1 bra END;
      ld.global.u32 %r6, [%rd1]; not.b32 %r7, %r2; add.s32 %r7, %r7, %r1; mul.lo.s32 %r8, %r7, %r6;
      mul.wide.s32 %rd3, %r8, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], 0f00000000;
      END:)");
    text.x = fmt::format("dtype = \"i32\"\nshape = [\"n\"]\nvalues = \"integers({}, 5)\"", values);
    text.y = "dtype = \"f32\"\nshape = [\"10 * n + 10\"]";
    text.grid = "1";
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("0"), Status::Proved);
  EXPECT_EQ(bounds("-5"), Status::Unknown);
}

// A row of 16 bits goes wrong in a tall matrix only. The shape is to be run: one of few columns will do.
TEST(Counterexamples, one_dim_alone_may_be_large) {
  const Obligation bounds = ProvedKernel(matrix("ge", "ge", "cvt.u16.u32 %h1, %r7; cvt.s32.s16 %r7, %h1;"))
                                .prove(prove_bounds, true);
  EXPECT_EQ(bounds.status, Status::Unknown);
  ASSERT_EQ(bounds.open.size(), 1u);
  ASSERT_TRUE(bounds.open.front().candidate);
  EXPECT_GT(bounds.open.front().candidate->shape.at("n"), 32768);
  EXPECT_LE(bounds.open.front().candidate->shape.at("m"), 40);
}

// i / m and i % m of a flat index: the quotient times the divisor is the index less the remainder.
KernelText flat(const std::string& column) {
  KernelText text = matrix("ge", "ge");
  text.grid = "ceil_div(n * m, 256)";
  text.parameters = {"x", "y", "= n", "= m", "== n * m"};
  text.body = fmt::format(R"({}
    ld.param.u32 %r6, [p3]; ld.param.u64 %rd8, [p4];
    mul.wide.u32 %rd5, %r3, %r4; cvt.u64.u32 %rd6, %r5; add.s64 %rd5, %rd5, %rd6;
    setp.ge.s64 %p1, %rd5, %rd8; @%p1 bra END;
    cvt.u64.u32 %rd6, %r6; div.u64 %rd7, %rd5, %rd6; mul.lo.s64 %rd9, %rd7, %rd6; sub.s64 %rd10, %rd5, %rd9;
    {}
    shl.b64 %rd3, %rd10, 2; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    END:)",
                          kStart, column);
  return text;
}

TEST(Strides, a_remainder_computed_from_a_quotient_is_one) {
  EXPECT_EQ(ProvedKernel(flat("")).bounds(), Status::Proved);  // a column of the first row
  EXPECT_EQ(ProvedKernel(flat("add.s64 %rd10, %rd10, %rd9;")).bounds(), Status::Proved);  // the index again
  EXPECT_EQ(ProvedKernel(flat("add.s64 %rd10, %rd10, %rd5;")).bounds(), Status::Unknown);
}

// ---- bits

// Of two buffers of 128 floats each in shared memory, the other one: an exclusive or with a constant.
TEST(Bits, the_other_of_two_buffers_is_within_both) {
  const auto body = [](int flipped) {
    return kernel(fmt::format(R"(
      and.b32 %r10, %r3, 1; shl.b32 %r10, %r10, 9; xor.b32 %r11, %r10, {};
      and.b32 %r12, %r5, 127; shl.b32 %r12, %r12, 2; add.s32 %r13, %r11, %r12;
      mov.u32 %r14, buffers; add.s32 %r15, %r14, %r13; ld.shared.f32 %f1, [%r15];)",
                              flipped));
  };
  for (const auto& [flipped, status] : {std::pair{512, Status::Proved}, {1024, Status::Unknown}}) {
    KernelText text = body(flipped);
    text.shared = ".shared .align 4 .b8 buffers[1024];";
    EXPECT_EQ(ProvedKernel(text).bounds(), status) << flipped;
  }
}

// Thread t of 32 has x = t + 32: x | 32 is x, and x ^ 32 is t.
TEST(Bits, or_and_exclusive_or_with_a_constant_are_exact) {
  const auto status = [](const char* operation, int elements) {
    KernelText text = kernel(fmt::format(R"(
      and.b32 %r10, %r5, 31; add.s32 %r10, %r10, 32; {}.b32 %r11, %r10, 32; shl.b32 %r11, %r11, 2;
      mov.u32 %r14, buffer; add.s32 %r15, %r14, %r11; ld.shared.f32 %f1, [%r15];)",
                                         operation));
    text.shared = fmt::format(".shared .align 4 .b8 buffer[{}];", 4 * elements);
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(status("or", 64), Status::Proved);
  EXPECT_EQ(status("or", 63), Status::Unknown);
  EXPECT_EQ(status("xor", 32), Status::Proved);
  EXPECT_EQ(status("xor", 31), Status::Unknown);
}

// (i | i) & mask == 0 bounds i where the mask reaches to the top.
TEST(Bits, bits_that_are_0_bound_a_number_if_all_above_are) {
  const auto bounds = [](const char* mask) {
    KernelText text = kernel(fmt::format(R"(
      setp.ge.u32 %p1, %r2, %r1; @%p1 bra END;
      or.b32 %r6, %r2, %r1; and.b32 %r7, %r6, {}; setp.ne.s32 %p2, %r7, 0; @%p2 bra END;
      mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      END:)",
                                         mask));
    text.x = "dtype = \"f32\"\nshape = [16]";
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("-16"), Status::Proved);
  EXPECT_EQ(bounds("48"), Status::Unknown);
}

// i + ((i - 5) >> 31): one less for the first five.
TEST(Bits, the_sign_of_a_number_is_minus_one) {
  const auto bounds = [](int more) {
    return ProvedKernel(kernel(fmt::format(R"(
      setp.ge.u32 %p1, %r2, %r1; @%p1 bra END;
      sub.s32 %r6, %r5, 5; shr.s32 %r7, %r6, 31; add.s32 %r8, %r2, %r7; add.s32 %r9, %r8, {};
      setp.ge.s32 %p2, %r9, %r1; @%p2 bra END;
      mul.wide.s32 %rd3, %r9, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      END:)",
                                           more)))
        .bounds();
  };
  EXPECT_EQ(bounds(0), Status::Unknown);
  EXPECT_EQ(bounds(1), Status::Proved);
}

TEST(Bits, as_many_are_set_as_there_are) {
  const auto bounds = [](const char* count, int most) {
    KernelText text = kernel(std::string(count) + R"(
      mul.wide.u32 %rd3, %r6, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];)");
    text.x = fmt::format("dtype = \"f32\"\nshape = [{}]", most);
    return ProvedKernel(text).bounds();
  };
  for (const auto& [count, bits] :
       {std::pair("popc.b32 %r6, %r2;", 32), std::pair("popc.b64 %r6, %rd1;", 64)}) {
    EXPECT_EQ(bounds(count, bits + 1), Status::Proved) << count;
    EXPECT_EQ(bounds(count, bits), Status::Unknown) << count;
  }
}

// The lowest bits of an element are within what its width gives, not within what the contract says of the element.
TEST(Bits, part_of_an_index_is_its_lowest_bits) {
  const auto status = [](int most) {
    KernelText text = kernel(R"(
      setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
      mul.wide.s32 %rd3, %r2, 8; add.s64 %rd4, %rd1, %rd3; ld.global.s16 %h1, [%rd4];
      cvt.s64.s16 %rd5, %h1; shl.b64 %rd5, %rd5, 2; add.s64 %rd6, %rd2, %rd5; st.global.f32 [%rd6], %f1;
      END:)");
    text.dims = fmt::format("n = {{ min = 1, max = {} }}", most);
    text.x = "dtype = \"i64\"\nshape = [\"n\"]\nvalues = \"index(n)\"";
    ProvedKernel k(text);
    return k.prove(prove_bounds, true);
  };
  EXPECT_EQ(status(32768).status, Status::Proved);
  const Obligation wrong = status(65536);
  EXPECT_EQ(wrong.status, Status::Unknown);
  ASSERT_TRUE(wrong.open.front().candidate);
  EXPECT_GT(wrong.open.front().candidate->shape.at("n"), 32768);
}

TEST(Bits, a_shared_variable_alone_begins_where_shared_memory_does) {
  const auto status = [](const std::string& more) {
    KernelText text = kernel("mov.u32 %r14, buffer; ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r14];");
    text.shared = ".shared .align 4 .b8 buffer[512];" + more;
    return ProvedKernel(text).alignment();
  };
  EXPECT_EQ(status(""), Status::Proved);
  EXPECT_EQ(status("\n.shared .align 4 .b8 another[4];"), Status::Unknown);
}

// ---- loops

// An inner loop whose length depends on how far the outer one has come.
std::string triangle(const char* test) {
  return fmt::format(R"(
    mov.u32 %r10, 0;
    OUTER:
    mov.u32 %r11, 0;
    INNER:
    mul.wide.s32 %rd3, %r11, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    add.s32 %r11, %r11, 1;
    setp.{}.s32 %p2, %r11, %r10;
    @%p2 bra INNER;
    add.s32 %r10, %r10, 1;
    setp.lt.s32 %p3, %r10, %r1;
    @%p3 bra OUTER;)",
                     test);
}

TEST(Loops, the_length_of_an_inner_loop_may_depend_on_the_outer_one) {
  EXPECT_EQ(ProvedKernel(kernel(triangle("le"))).bounds(), Status::Proved);
  EXPECT_EQ(ProvedKernel(kernel(triangle("ne"))).bounds(), Status::Unknown);  // 1 never equals 0
}

std::string strided_loop(int step, const char* test) {
  return fmt::format(R"(
    mov.u32 %r10, %r5;
    setp.ge.s32 %p1, %r10, %r1; @%p1 bra END;
    LOOP:
    mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    add.s32 %r10, %r10, {};
    {}
    @%p2 bra LOOP;
    END:)",
                     step, test);
}

TEST(Loops, a_counter_below_n_is_in_bounds) {
  EXPECT_EQ(ProvedKernel(kernel(strided_loop(256, "setp.lt.s32 %p2, %r10, %r1;"))).bounds(), Status::Proved);
}

// The no-wrap claim is needed and checked: with a step of 2^30 the counter passes INT_MAX and comes back
// negative.
TEST(Loops, a_counter_that_wraps_is_not) {
  KernelText text = kernel(strided_loop(1 << 30, "setp.lt.s32 %p2, %r10, %r1;"));
  text.dims = "n = { min = 1, max = 2000000000 }";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
  text.dims = "n = { min = 1, max = 1000000000 }";  // 10^9 + 2^30 < 2^31
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Proved);
}

// That counters are exact holds of iterations. The kernel's own i - step is none in the first, and wraps there.
TEST(Loops, the_counter_before_the_first_iteration_wraps) {
  KernelText text = kernel(R"(
    mov.u32 %r10, %r5;
    setp.ge.u32 %p1, %r10, %r1; @%p1 bra END;
    mul.wide.s32 %rd5, %r1, 4; add.s64 %rd6, %rd1, %rd5;
    LOOP:
    sub.u32 %r11, %r10, 256; setp.lt.u32 %p2, %r11, 1000000; @%p2 bra SKIP;
    mul.wide.u32 %rd7, %r10, 4; add.s64 %rd8, %rd6, %rd7; ld.global.f32 %f1, [%rd8];
    SKIP:
    add.u32 %r10, %r10, 256; setp.lt.u32 %p3, %r10, %r1; @%p3 bra LOOP;
    END:)");
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

TEST(Loops, one_iteration_too_many_is_not) {
  EXPECT_EQ(ProvedKernel(kernel(strided_loop(256, "setp.le.s32 %p2, %r10, %r1;"))).bounds(), Status::Unknown);
}

// A loop that ends on equality ends where the counter meets the limit, if it ever does.
std::string until_equal(int step) {
  return fmt::format(R"(
    mov.u32 %r10, 0;
    LOOP:
    mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    add.s32 %r10, %r10, {};
    setp.ne.s32 %p2, %r10, %r1;
    @%p2 bra LOOP;)",
                     step);
}

TEST(Loops, ending_on_equality_bounds_the_counter) {
  EXPECT_EQ(ProvedKernel(kernel(until_equal(1))).bounds(), Status::Proved);
}

TEST(Loops, a_step_that_jumps_over_the_limit_does_not) {
  EXPECT_EQ(ProvedKernel(kernel(until_equal(4))).bounds(), Status::Unknown);
  KernelText odd = kernel(until_equal(4));
  odd.dims = "n = { min = 4, max = 100000 }";
  EXPECT_EQ(ProvedKernel(odd).bounds(), Status::Unknown);
  KernelText divisible = kernel(until_equal(4));
  divisible.dims = "n = { min = 4, max = 100000, multiple_of = 4 }";
  EXPECT_EQ(ProvedKernel(divisible).bounds(), Status::Proved);
}

TEST(Loops, a_limit_behind_the_start_does_not) {
  KernelText text = kernel(until_equal(1));
  text.dims = "n = { min = 0, max = 100000 }";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);  // for n = 0 it goes round 2^32 times
}

// What is compared is the count and something else that changes: k + (k & 1), which is always even.
TEST(Loops, a_limit_that_changes_does_not) {
  const auto bounds = [](int mask) {
    KernelText text = kernel(fmt::format(R"(
      mov.u32 %r10, 0;
      LOOP:
      mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      and.b32 %r11, %r10, {}; add.s32 %r12, %r10, %r11; add.s32 %r10, %r10, 1;
      setp.ne.s32 %p2, %r12, %r1; @%p2 bra LOOP;)",
                                         mask));
    text.x = "dtype = \"f32\"\nshape = [\"n + 1\"]";
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds(0), Status::Proved);
  EXPECT_EQ(bounds(1), Status::Unknown);
}

// What is tested is the count and something else that changes: it was not one less in the iteration before.
TEST(Loops, what_changes_otherwise_too_does_not_count) {
  const auto bounds = [](int odd) {
    KernelText text = kernel(fmt::format(R"(
      mov.u32 %r10, 0;
      LOOP:
      and.b32 %r11, %r10, 1; mad.lo.s32 %r12, %r11, {}, %r10;
      mul.wide.s32 %rd3, %r12, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      add.s32 %r10, %r10, 1;
      setp.lt.s32 %p2, %r12, %r1; @%p2 bra LOOP;)",
                                         odd));
    text.x = "dtype = \"f32\"\nshape = [\"n + 1\"]";
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds(0), Status::Proved);
  EXPECT_EQ(bounds(1000000), Status::Unknown);
}

// The condition for going on would not have held in an iteration before the first, and that says nothing about the second.
TEST(Loops, there_is_no_iteration_before_the_first) {
  KernelText text = kernel(R"(
    mov.u32 %r10, 5;
    LOOP:
    mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    setp.lt.s32 %p1, %r10, 0; @%p1 bra END;
    add.s32 %r10, %r10, 2147483645; bra LOOP;
    END:)");
  text.dims = "n = { min = 6, max = 100000 }";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

// The first iteration comes without one before it, whose condition would have failed.
TEST(Loops, the_first_iteration_has_no_condition) {
  const auto bounds = [](const char* start) {
    return ProvedKernel(kernel(fmt::format(R"(
      sub.s32 %r10, %r1, {};
      LOOP:
      mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      setp.lt.s32 %p2, %r10, %r1; setp.gt.s32 %p3, %r10, 0; and.pred %p2, %p2, %p3; add.s32 %r10, %r10, -1;
      @%p2 bra LOOP;)",
                                           start)))
        .bounds();
  };
  EXPECT_EQ(bounds("1"), Status::Proved);
  EXPECT_EQ(bounds("0"), Status::Unknown);
}

TEST(Loops, a_counter_that_only_some_iterations_change_is_unknown) {
  EXPECT_EQ(ProvedKernel(kernel(R"(
    mov.u32 %r10, 0; mov.u32 %r11, 0;
    LOOP:
    mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    setp.gt.f32 %p3, %f1, 0f00000000;
    @%p3 add.s32 %r10, %r10, 1;
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p2, %r11, %r1;
    @%p2 bra LOOP;)"))
                .bounds(),
            Status::Unknown);
}

// What one iteration has seen says nothing about the next: the loaded bound is another value each time.
TEST(Loops, a_condition_on_a_loaded_value_bounds_nothing) {
  EXPECT_EQ(ProvedKernel(kernel(R"(
    mov.u32 %r10, 0;
    LOOP:
    mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r11, [%rd4];
    add.s32 %r10, %r10, 1;
    setp.lt.s32 %p2, %r10, %r11;
    @%p2 bra LOOP;)"))
                .bounds(),
            Status::Unknown);
}

// In the first block the row before its own is none.
TEST(Strides, the_row_before_the_first_is_not) {
  const auto bounds = [](int before) {
    KernelText text = kernel(fmt::format(R"(
      setp.ge.s32 %p1, %r5, %r1; @%p1 bra END; sub.s32 %r6, %r3, {};
      mul.wide.s32 %rd3, %r6, %r1; cvt.s64.s32 %rd6, %r5; add.s64 %rd3, %rd3, %rd6; shl.b64 %rd3, %rd3, 2;
      add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      END:)",
                                         before));
    text.dims = "rows = { min = 1, max = 65536 }\ncols = { min = 1, max = 256 }";
    text.x = text.y = "dtype = \"f32\"\nshape = [\"rows\", \"cols\"]";
    text.left = "y[i, j]";
    text.grid = "rows";
    text.parameters = {"x", "y", "= cols"};
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds(0), Status::Proved);
  EXPECT_EQ(bounds(1), Status::Unknown);
}

// The value that was let through belongs to the iteration before, and so does one that a register carries on.
TEST(Loops, what_the_iteration_before_let_through_is_another_value) {
  const char* loop = R"(
    mov.u32 %r10, 0; mov.u32 %r11, 0;
    LOOP:
    mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd1, %rd3; {0}
    setp.eq.s32 %p3, %r10, 0; @%p3 bra NEXT;
    mul.wide.u32 %rd5, %r11, 4; add.s64 %rd6, %rd1, %rd5; ld.global.f32 %f1, [%rd6];
    NEXT: setp.ge.u32 %p4, %r11, %r1; @%p4 bra END; {1}
    add.s32 %r10, %r10, 1; setp.lt.s32 %p2, %r10, %r1; @%p2 bra LOOP;
    END:)";
  const std::string load = "ld.global.u32 %r11, [%rd4];";
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(loop), "", ""))).bounds(), Status::Proved);
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(loop), load, ""))).bounds(), Status::Unknown);
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(loop), "", load))).bounds(), Status::Unknown);
}

// A register that follows another from the second iteration on, and one that has 16 bits from then on.
TEST(Loops, the_first_iteration_has_what_was_there_before) {
  const auto bounds = [](int first, const char* next, int least) {
    KernelText text = kernel(fmt::format(R"(
      mov.u32 %r10, 0; mov.u32 %r12, {};
      LOOP:
      mul.wide.u32 %rd3, %r12, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      add.s32 %r10, %r10, 4; {} setp.lt.s32 %p2, %r10, %r1; @%p2 bra LOOP;)",
                                         first, next));
    text.dims = fmt::format("n = {{ min = {}, max = 100000 }}", least);
    return ProvedKernel(text).bounds();
  };
  const char *follows = "mov.u32 %r12, %r10;", *narrow = "add.s32 %r12, %r12, 1; and.b32 %r12, %r12, 65535;";
  EXPECT_EQ(bounds(0, follows, 1), Status::Proved);
  EXPECT_EQ(bounds(100000, follows, 1), Status::Unknown);
  EXPECT_EQ(bounds(0, narrow, 70000), Status::Proved);
  EXPECT_EQ(bounds(70000, narrow, 70000), Status::Unknown);
}

TEST(Loops, halving_strides_stay_within_the_array) {
  KernelText text = kernel(R"(
    mov.u32 %r10, 128; mov.u32 %r20, tile; shl.b32 %r21, %r5, 2; add.s32 %r22, %r20, %r21;
    LOOP:
    setp.ge.u32 %p1, %r5, %r10; @%p1 bra SKIP;
    shl.b32 %r23, %r10, 2; add.s32 %r24, %r22, %r23; ld.shared.f32 %f1, [%r24];
    SKIP: bar.sync 0;
    shr.u32 %r11, %r10, 1; setp.gt.u32 %p2, %r10, 1; mov.u32 %r10, %r11;
    @%p2 bra LOOP;)");
  text.shared = ".shared .align 4 .b8 tile[1024];";
  ProvedKernel k(text);
  EXPECT_EQ(k.bounds(), Status::Proved);
  text.shared = ".shared .align 4 .b8 tile[1020];";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

// The place of the best so far: the loop carries it, and the elements decide. x[best] is read in every iteration and
// after the last.
KernelText best_so_far(int start, int offered, const std::string& more = "") {
  return kernel(fmt::format(R"(
    mov.u32 %r10, 0; mov.u32 %r11, {}; mov.u32 %r12, 0;
    LOOP:
    mul.wide.u32 %rd3, %r11, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    mul.wide.u32 %rd5, %r10, 4; add.s64 %rd6, %rd1, %rd5; ld.global.f32 %f2, [%rd6];
    setp.gt.f32 %p1, %f2, %f1; add.u32 %r13, %r10, {}; {}
    selp.u32 %r14, %r11, %r12, %p1; selp.u32 %r11, %r13, %r11, %p1; mov.u32 %r12, %r14;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, %r1; @%p2 bra LOOP;
    mul.wide.u32 %rd7, %r11, 4; add.s64 %rd8, %rd1, %rd7; ld.global.f32 %f3, [%rd8];
    mul.wide.u32 %rd9, %r12, 4; add.s64 %rd10, %rd1, %rd9; ld.global.f32 %f4, [%rd10];)",
                            start, offered, more));
}

TEST(Loops, what_a_loop_selects_is_what_it_was_offered) {
  EXPECT_EQ(ProvedKernel(best_so_far(0, 0)).bounds(), Status::Proved);
  EXPECT_EQ(ProvedKernel(best_so_far(1, 0)).bounds(), Status::Unknown);  // n = 1
  EXPECT_EQ(ProvedKernel(best_so_far(0, 1)).bounds(), Status::Unknown);  // the last iteration offers n
  // A register that is selected from, and changes otherwise.
  EXPECT_EQ(ProvedKernel(best_so_far(0, 0, "add.u32 %r12, %r12, 1;")).bounds(), Status::Unknown);
  EXPECT_EQ(ProvedKernel(best_so_far(0, 0, "ld.global.u32 %r13, [%rd6];")).bounds(), Status::Unknown);
}

// What is read in iteration k was offered before: i + 1 of an earlier one is at most i.
TEST(Loops, what_a_loop_selects_was_offered_earlier) {
  const auto body = [](int offered) {
    return kernel(fmt::format(R"(
      mov.u32 %r10, 0; mov.u32 %r11, 0;
      LOOP:
      mul.wide.u32 %rd3, %r11, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      setp.gt.f32 %p1, %f1, 0f00000000; add.u32 %r13, %r10, {}; selp.u32 %r11, %r13, %r11, %p1;
      add.u32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, %r1; @%p2 bra LOOP;)",
                              offered));
  };
  EXPECT_EQ(ProvedKernel(body(1)).bounds(), Status::Proved);
  EXPECT_EQ(ProvedKernel(body(2)).bounds(), Status::Unknown);
}

// ---- indices from memory

KernelText gather(const std::string& load) {
  KernelText text = kernel(R"(
    setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
    mul.wide.s32 %rd3, %r2, 8; ld.param.u64 %rd9, [p3]; add.s64 %rd4, %rd9, %rd3;
    )" + load + R"(
    shl.b64 %rd6, %rd5, 2; add.s64 %rd7, %rd1, %rd6; ld.global.f32 %f1, [%rd7];
    END:)");
  text.dims = "n = { min = 1, max = 100000 }\nV = { min = 1, max = 50000 }";
  text.x = "dtype = \"f32\"\nshape = [\"V\"]";
  text.more_tensors = "[tensors.at]\ndtype = \"i64\"\nshape = [\"n\"]\nvalues = \"index(V)\"\n";
  text.parameters = {"x", "y", "= n", "at"};
  return text;
}

TEST(Indices, a_promised_index_is_within_its_table) {
  EXPECT_EQ(ProvedKernel(gather("ld.global.u64 %rd5, [%rd4];")).bounds(), Status::Proved);
}
TEST(Indices, not_if_it_is_read_from_between_two_elements) {
  EXPECT_EQ(ProvedKernel(gather("ld.global.u32 %r30, [%rd4+4]; cvt.u64.u32 %rd5, %r30;")).bounds(),
            Status::Unknown);
}
TEST(Indices, not_if_it_is_half_of_one_or_two) {
  EXPECT_EQ(ProvedKernel(gather("ld.global.v2.u32 {%r30, %r31}, [%rd4]; cvt.u64.u32 %rd5, %r31;")).bounds(),
            Status::Unknown);
  KernelText two = gather("ld.global.u64 %rd5, [%rd4];");
  two.more_tensors = "[tensors.at]\ndtype = \"i32\"\nshape = [\"2 * n\"]\nvalues = \"index(V)\"\n";
  EXPECT_EQ(ProvedKernel(two).bounds(), Status::Unknown);
}
TEST(Indices, keep_their_sign) {
  const auto bounds = [](int more) {
    KernelText text =
        gather(fmt::format("shr.u64 %rd3, %rd3, 3; add.s64 %rd4, %rd9, %rd3; ld.global.s8 %r30, [%rd4];"
                           "cvt.s64.s32 %rd5, %r30; add.s64 %rd5, %rd5, {};",
                           more));
    text.more_tensors = "[tensors.at]\ndtype = \"i8\"\nshape = [\"n\"]\nvalues = \"integers(-1, 5)\"\n";
    text.x = "dtype = \"f32\"\nshape = [256]";
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds(0), Status::Unknown);
  EXPECT_EQ(bounds(1), Status::Proved);
}
TEST(Indices, not_if_the_kernel_writes_the_indices) {
  EXPECT_EQ(ProvedKernel(gather("ld.global.u64 %rd5, [%rd4]; st.global.u64 [%rd4], %rd3;")).bounds(),
            Status::Unknown);
}
TEST(Indices, not_if_the_promise_is_larger) {
  KernelText text = gather("ld.global.u64 %rd5, [%rd4];");
  text.more_tensors = "[tensors.at]\ndtype = \"i64\"\nshape = [\"n\"]\nvalues = \"index(V + 1)\"\n";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

// Where V is 0 no index is promised, and none is loaded: what is promised of it says nothing about that shape.
TEST(Indices, a_promise_about_no_values_proves_nothing) {
  KernelText text = gather(R"(
    ld.param.u32 %r6, [p4]; setp.gt.s32 %p2, %r6, 0; mov.u64 %rd5, 0; @%p2 ld.global.u64 %rd5, [%rd4];)");
  text.parameters = {"x", "y", "= n", "at", "= V"};
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Proved);
  text.dims = "n = { min = 1, max = 100000 }\nV = { min = 0, max = 50000 }";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);  // V = 0: it reads x[0]
}

// 1.0 is 0x3f800000.
TEST(Indices, the_bits_of_a_mask_of_numbers_are_any) {
  const auto bounds = [](const char* dtype) {
    KernelText text = kernel(R"(
      setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
      mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.b32 %r8, [%rd4];
      mul.wide.u32 %rd5, %r8, 4; add.s64 %rd6, %rd2, %rd5; st.global.f32 [%rd6], %f1;
      END:)");
    text.dims = "n = { min = 2, max = 100000 }";
    text.x = fmt::format("dtype = \"{}\"\nshape = [\"n\"]\nvalues = \"mask\"", dtype);
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("f32"), Status::Unknown);
}

// A variable that has the name of a tensor is not the tensor.
TEST(Names, of_variables_and_tensors) {
  for (const char* space : {"global", "shared"}) {
    const auto bounds = [&](const std::string& body) {
      KernelText text =
          kernel("setp.ge.u32 %p1, %r2, %r1; @%p1 bra END; mul.wide.u32 %rd3, %r2, 4;" + body + "END:");
      text.shared = fmt::format(".{} .align 4 .b8 x[16];", space);
      return ProvedKernel(text).bounds();
    };
    EXPECT_EQ(bounds("add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];"), Status::Proved) << space;
    EXPECT_EQ(bounds(fmt::format("mov.u64 %rd5, x; add.s64 %rd4, %rd5, %rd3; ld.{}.f32 %f1, [%rd4];", space)),
              Status::Unknown)
        << space;
  }
}

// ---- arithmetic

// x[(uint32_t)i], as nvcc writes it: 4 * i & 4 * (2^32 - 1).
TEST(Arithmetic, an_index_that_is_converted_to_32_bits_may_lose_bits) {
  const auto overflow = [](const char* most) {
    KernelText text = kernel(R"(
      ld.param.u64 %rd5, [p2]; mul.wide.u32 %rd6, %r3, 256; cvt.u64.u32 %rd7, %r5; add.s64 %rd8, %rd6, %rd7;
      setp.ge.s64 %p1, %rd8, %rd5; @%p1 bra END;
      shl.b64 %rd9, %rd8, 2; and.b64 %rd10, %rd9, 17179869180;
      add.s64 %rd11, %rd1, %rd10; ld.global.f32 %f1, [%rd11];
      END:)");
    text.dims = fmt::format("n = {{ min = 1, max = {}, type = \"i64\" }}", most);
    text.parameters = {"x", "y", "== n"};
    ProvedKernel k(text);
    EXPECT_EQ(k.bounds(), Status::Proved);
    return k.overflow();
  };
  EXPECT_EQ(overflow("4294967296"), Status::Proved);
  EXPECT_EQ(overflow("4294967297"), Status::Unknown);
}

TEST(Arithmetic, a_32_bit_row_offset_overflows_where_the_shape_is_large_enough) {
  KernelText text = kernel(R"(
    ld.param.u32 %r6, [p3];
    setp.ge.s32 %p1, %r3, %r1; @%p1 bra END; setp.ge.s32 %p2, %r5, %r6; @%p2 bra END;
    mad.lo.s32 %r7, %r3, %r6, %r5;
    mul.wide.s32 %rd3, %r7, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    END:)");
  text.x = "dtype = \"f32\"\nshape = [\"n\", \"D\"]";
  text.grid = "n";
  text.parameters = {"x", "y", "= n", "= D"};
  text.dims = "n = { min = 1, max = 65536 }\nD = { min = 1, max = 8192 }";
  ProvedKernel small(text);
  EXPECT_EQ(small.bounds(), Status::Proved);
  EXPECT_EQ(small.overflow(), Status::Proved);
  text.dims = "n = { min = 1, max = 1000000 }\nD = { min = 8000, max = 8192 }";  // quick to find a shape in
  ProvedKernel large(text);
  EXPECT_EQ(large.bounds(), Status::Unknown);
  const Obligation overflow = large.prove(prove_overflow, true);
  EXPECT_EQ(overflow.status, Status::Unknown);
  ASSERT_TRUE(overflow.open.front().candidate && overflow.open.front().candidate->control);
  const contract::Shape& control = *overflow.open.front().candidate->control;
  EXPECT_LT(control.at("n") * control.at("D"), Int{1} << 31);
}

// That a guard keeps the wrapped index within the tensor does not undo the wrap, though the guard looks at it first.
TEST(Arithmetic, an_index_that_wraps_before_its_guard_overflows) {
  const auto body = [](int factor) {
    return kernel(fmt::format(R"(
      mul.lo.s32 %r7, %r2, {};
      setp.ge.u32 %p1, %r7, %r1; @%p1 bra END;
      mul.wide.u32 %rd3, %r7, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      END:)",
                              factor));
  };
  ProvedKernel narrow(body(100000));
  EXPECT_EQ(narrow.bounds(), Status::Proved);
  EXPECT_EQ(narrow.overflow(), Status::Unknown);
  EXPECT_EQ(ProvedKernel(body(3)).overflow(), Status::Proved);
}

// A condition that wraps chooses between two indices, neither of which does: -i - 1 >u -4 asks for i < 3.
TEST(Arithmetic, a_choice_by_what_wraps_is_no_overflow) {
  const auto body = [](const char* chosen) {
    return kernel(fmt::format(R"(
      setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
      not.b32 %r7, %r2; setp.gt.u32 %p2, %r7, -4; mul.lo.s32 %r9, %r2, 100000; selp.b32 %r8, 0, {}, %p2;
      setp.ge.u32 %p1, %r8, %r1; @%p1 bra END;
      mul.wide.u32 %rd3, %r8, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
      END:)",
                              chosen));
  };
  EXPECT_EQ(ProvedKernel(body("%r2")).overflow(), Status::Proved);
  EXPECT_EQ(ProvedKernel(body("%r9")).overflow(), Status::Unknown);  // what is chosen may
}

// Addresses of shared memory have 32 bits: a multiple of 2^32 falls away, and the array's first element is left.
TEST(Arithmetic, an_address_of_shared_memory_that_wraps_overflows) {
  const auto body = [](int factor) {
    KernelText text = kernel(fmt::format(R"(
      setp.ge.s32 %p1, %r2, 64; @%p1 bra END;
      mul.lo.s32 %r7, %r2, {}; shl.b32 %r8, %r7, 2;
      mov.u32 %r14, buffer; add.s32 %r15, %r14, %r8; ld.shared.f32 %f1, [%r15];
      END:)",
                                         factor));
    text.shared = ".shared .align 4 .b8 buffer[1024];";
    return text;
  };
  EXPECT_EQ(ProvedKernel(body(4)).overflow(), Status::Proved);
  EXPECT_EQ(ProvedKernel(body(1 << 30)).overflow(), Status::Unknown);
}

// What wraps only in a guard reaches no address.
TEST(Arithmetic, a_wrap_in_a_guard_alone_is_no_overflow) {
  EXPECT_EQ(ProvedKernel(kernel(R"(
    mul.lo.s32 %r7, %r2, 100000; setp.lt.s32 %p1, %r7, 0; @%p1 bra END;
    setp.ge.s32 %p2, %r2, %r1; @%p2 bra END;
    mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    END:)"))
                .overflow(),
            Status::Proved);
}

// i - 3 < n, unsigned, keeps out negative numbers by a wrap. The address reads i - 3 as signed, and none is left.
TEST(Arithmetic, a_wrap_of_another_view_is_no_overflow) {
  ProvedKernel k(kernel(R"(
    sub.s32 %r7, %r2, 3; setp.ge.u32 %p1, %r7, %r1; @%p1 bra END;
    mul.wide.s32 %rd3, %r7, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    END:)"));
  EXPECT_EQ(k.bounds(), Status::Proved);
  EXPECT_EQ(k.overflow(), Status::Proved);
}

TEST(Arithmetic, a_negative_index_is_not_hidden_by_an_unsigned_extension) {
  EXPECT_EQ(ProvedKernel(kernel(R"(
    setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
    sub.s32 %r7, %r2, 1; mul.wide.u32 %rd3, %r7, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    END:)"))
                .bounds(),
            Status::Unknown);
}

TEST(Arithmetic, a_quotient_of_what_may_be_zero_is_unknown) {
  KernelText text = kernel(R"(
    div.u32 %r7, %r5, %r1; setp.ge.u32 %p1, %r5, %r1; @!%p1 bra END;
    mul.wide.u32 %rd3, %r7, 0; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    rem.u32 %r8, %r5, %r1; mul.wide.u32 %rd3, %r8, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    END:)");
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Proved);
  text.dims = "n = { min = 0, max = 100000 }";
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

// ---- what is not modelled

// The same bits are an address in one space and none in another.
TEST(Spaces, an_address_is_one_of_the_space_that_the_instruction_names) {
  const auto bounds = [](const std::string& body) {
    KernelText text = kernel("mov.u64 %rd6, s; cvta.shared.u64 %rd7, %rd6; cvt.u32.u64 %r7, %rd7;" + body);
    text.shared = ".shared .align 4 .b8 s[4];";
    text.x = "dtype = \"f32\"\nshape = [1]";
    return ProvedKernel(text).bounds();
  };
  for (const char* fine :
       {"ld.shared.f32 %f1, [%rd6];", "ld.f32 %f1, [%rd7];", "ld.global.f32 %f1, [%rd1];",
        "ld.f32 %f1, [%rd1];", "cvta.to.shared.u64 %rd8, %rd7; ld.shared.f32 %f1, [%rd8];"})
    EXPECT_EQ(bounds(fine), Status::Proved) << fine;
  for (const char* wrong :
       {"ld.shared.f32 %f1, [%rd7];", "ld.shared.f32 %f1, [%r7];", "ld.f32 %f1, [%rd6];",
        "ld.global.f32 %f1, [%rd6];", "ld.global.f32 %f1, [%rd7];", "ld.shared.f32 %f1, [%rd1];",
        "ld.local.f32 %f1, [%rd6];", "st.shared.f32 [%rd1], %f1;",
        "cp.async.ca.shared.global [%r7], [%rd1], 4;",
        "setp.eq.u32 %p1, %r2, 3; selp.b64 %rd8, %rd6, %rd1, %p1; ld.global.f32 %f1, [%rd8];"})
    EXPECT_EQ(bounds(wrong), Status::Unknown) << wrong;
}

TEST(Gaps, an_instruction_that_may_touch_memory_leaves_everything_open) {
  ProvedKernel k(kernel("discard.global.L2 [%rd1], 128;"));
  EXPECT_EQ(k.bounds(), Status::Unknown);
  EXPECT_EQ(k.barriers(), Status::Unknown);
}

TEST(Gaps, an_unknown_grid_may_be_any) {
  KernelText text = kernel("mul.wide.s32 %rd3, %r3, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];");
  text.grid = "n";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Proved);
  text.grid = "n + 1";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

// What held of a value in the iteration before does not hold of the one that ended the loop: behind it there is an access
// that is out of bounds.
TEST(Loops, what_ended_a_loop_is_not_what_kept_it_going) {
  const auto bounds = [](const char* body) {
    return ProvedKernel(
               kernel(fmt::format("mov.u32 %r31, 0; mov.u32 %r30, %r1; {} OUT: setp.eq.u32 %p6, %r31, 0; "
                                  "@%p6 bra END; ld.global.f32 %f1, [%rd1+-4]; END:",
                                  body)))
        .bounds();
  };
  EXPECT_EQ(
      bounds("L: setp.eq.u32 %p5, %r30, 0; @%p5 bra OUT; ld.global.u32 %r30, [%rd1]; add.u32 %r31, %r31, 1; "
             "bra L;"),
      Status::Unknown);
  EXPECT_EQ(
      bounds("L: ld.global.u32 %r30, [%rd1]; setp.eq.u32 %p5, %r30, 0; @%p5 bra OUT; add.u32 %r31, %r31, 1; "
             "bra L;"),
      Status::Unknown);
}

// ---- barriers and launches

TEST(Barriers, in_a_branch_of_whole_warps) {
  EXPECT_EQ(ProvedKernel(kernel("setp.ge.u32 %p1, %r5, 32; @%p1 bra END; bar.sync 0; END:")).barriers(),
            Status::Unknown);
}

TEST(Barriers, that_the_number_of_iterations_decides_about) {
  const auto barriers = [](const char* loop) {
    return ProvedKernel(kernel(fmt::format(
                            "{} OUT: setp.gt.u32 %p7, %r30, 5; @%p7 bra SKIP; bar.sync 0; SKIP:", loop)))
        .barriers();
  };
  EXPECT_EQ(
      barriers("mov.u32 %r30, 0; L: setp.ge.u32 %p5, %r30, %r5; @%p5 bra OUT; add.u32 %r30, %r30, 1; bra L;"),
      Status::Unknown);
  EXPECT_EQ(
      barriers(
          "mov.u32 %r30, 128; L: setp.le.u32 %p5, %r30, %r5; @%p5 bra OUT; shr.u32 %r30, %r30, 1; bra L;"),
      Status::Unknown);
}

TEST(Barriers, a_warp_operation_needs_whole_warps_and_a_mask_that_is_known) {
  const auto barriers = [](const char* block, const char* mask) {
    KernelText text = kernel(fmt::format("shfl.sync.idx.b32 %r30, %r5, 0, 31, {};", mask));
    text.block = block;
    return ProvedKernel(text).barriers();
  };
  EXPECT_EQ(barriers("64", "-1"), Status::Proved);
  EXPECT_EQ(barriers("48", "-1"), Status::Unknown);
  EXPECT_EQ(barriers("64", "%r1"), Status::Unknown);
}

TEST(Barriers, in_a_branch_that_only_some_threads_take) {
  EXPECT_EQ(ProvedKernel(kernel("setp.lt.s32 %p1, %r3, %r1; @%p1 bra END; bar.sync 0; END:")).barriers(),
            Status::Proved);
  EXPECT_EQ(ProvedKernel(kernel("setp.lt.s32 %p1, %r2, %r1; @%p1 bra END; bar.sync 0; END:")).barriers(),
            Status::Unknown);
  EXPECT_EQ(ProvedKernel(kernel("setp.lt.s32 %p1, %r5, 256; @!%p1 bra END; bar.sync 0; END:")).barriers(),
            Status::Proved);
}

TEST(Barriers, in_a_loop_of_which_threads_make_different_numbers_of_iterations) {
  const char* loop =
      "mov.u32 %r10, {}; LOOP: bar.sync 0; add.s32 %r10, %r10, 256; setp.lt.s32 %p2, %r10, %r1; @%p2 bra "
      "LOOP;";
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(loop), "0"))).barriers(), Status::Proved);
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(loop), "%r5"))).barriers(), Status::Unknown);
}

TEST(Barriers, a_loop_that_has_ended_divides_nobody_unless_it_returns) {
  const char* loop =
      "mov.u32 %r10, %r5; LOOP: add.s32 %r10, %r10, 256; {} setp.lt.s32 %p2, %r10, %r1; @%p2 bra LOOP; "
      "bar.sync 0;";
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(loop), ""))).barriers(), Status::Proved);
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(loop), "setp.eq.s32 %p3, %r10, 300; @%p3 ret;")))
                .barriers(),
            Status::Unknown);
}

// Three ways lead around, and all of them meet again before the barrier: nothing decides about it any more.
TEST(Barriers, where_all_ways_meet_again_nothing_decides) {
  const auto body = [](const char* third) {
    return kernel(fmt::format(R"(
      setp.lt.f32 %p1, %f1, %f2; @%p1 bra TAKE;
      setp.neu.f32 %p2, %f1, %f2; @%p2 bra LEAVE;
      setp.lt.u32 %p3, %r5, %r1; @%p3 bra {};
      LEAVE: mov.u32 %r10, 1; bra MEET;
      TAKE: mov.u32 %r10, 2;
      MEET: bar.sync 0;
      END:)",
                              third));
  };
  ProvedKernel meets(body("TAKE"));
  EXPECT_TRUE(meets.summary().barriers.front().control.empty());
  EXPECT_EQ(meets.barriers(), Status::Proved);
  ProvedKernel leaves(body("END"));
  EXPECT_FALSE(leaves.summary().barriers.front().control.empty());
  EXPECT_EQ(leaves.barriers(), Status::Unknown);
}

TEST(Barriers, a_shuffle_needs_its_warp_only) {
  const char* shuffle =
      "shr.u32 %r7, %r5, {}; setp.ne.s32 %p1, %r7, 0; @%p1 bra END; shfl.sync.down.b32 %r8, %r5, 1, 31, -1; "
      "END:";
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(shuffle), 5))).barriers(), Status::Proved);
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(shuffle), 4))).barriers(), Status::Unknown);
}

TEST(Launches, an_empty_grid_and_too_many_blocks_are_illegal) {
  KernelText text = kernel("");
  text.dims = "n = { min = 0, max = 100000 }";
  EXPECT_EQ(ProvedKernel(text).legality(), Status::Unknown);
  text.dims = "n = { min = 1, max = 100000 }";
  text.block = "min(n, 1025)";
  EXPECT_EQ(ProvedKernel(text).legality(), Status::Unknown);
  text.block = "min(n, 1024)";
  EXPECT_EQ(ProvedKernel(text).legality(), Status::Proved);
}

TEST(Launches, have_the_threads_that_the_kernel_asks_for) {
  KernelText text = kernel("");
  for (const auto& [directives, status] :
       {std::pair(".maxntid 256", Status::Proved), std::pair(".maxntid 255", Status::Unknown),
        std::pair(".maxntid 16, 16", Status::Proved), std::pair(".reqntid 256", Status::Proved),
        std::pair(".reqntid 512", Status::Unknown), std::pair(".reqntid 128", Status::Unknown),
        std::pair(".reqntid 128, 2", Status::Unknown)}) {
    text.directives = directives;
    EXPECT_EQ(ProvedKernel(text).legality(), status) << directives;
  }
  text.block = "128";
  text.block_y = "2";
  EXPECT_EQ(ProvedKernel(text).legality(), Status::Proved);
}

}  // namespace
}  // namespace assay::prove::testing
