// Races and barriers of small kernels: for each rule a kernel that it proves, and a kernel next to it that must
// not be proved.
#include <cstring>

#include "kernel.h"

namespace assay::prove::testing {
namespace {

KernelText with_shared(const std::string& body) {
  KernelText text;
  text.body = kStart + body;
  text.shared = ".shared .align 16 .b8 s[4096];";
  return text;
}

Status races(const KernelText& text) {
  return ProvedKernel(text).prove(prove_races).status;
}
Status races(const std::string& body) {
  return races(with_shared(body));
}

// ---- global memory, between blocks and within one

// y[index] = 0, where the index is in %r10.
std::string store_at(const std::string& index) {
  return index + "mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], 0f00000000;";
}

TEST(Races, each_thread_its_own_element) {
  EXPECT_EQ(races(store_at("mov.u32 %r10, %r2;")), Status::Proved);
}

TEST(Races, blocks_with_the_same_elements_race) {
  EXPECT_EQ(races(store_at("mov.u32 %r10, %r5;")), Status::Unknown);
  KernelText one_block = with_shared(store_at("mov.u32 %r10, %r5;"));
  one_block.grid = "1";
  EXPECT_EQ(races(one_block), Status::Proved);
}

TEST(Races, threads_with_the_same_element_race) {
  const std::string half = store_at("shr.u32 %r9, %r5, 1; mad.lo.s32 %r10, %r3, 256, %r9;");
  EXPECT_EQ(races(half), Status::Unknown);
  KernelText one_thread = with_shared(half);
  one_thread.block = "1";
  EXPECT_EQ(races(one_thread), Status::Proved);
}

// min(a, b) is not below 0 with .relu: the element of all threads is the first.
TEST(Races, a_minimum_that_is_cut_off_at_0) {
  KernelText text = with_shared(store_at("neg.s32 %r8, %r5; min.s32 %r9, %r8, 5; neg.s32 %r10, %r9;"));
  text.grid = "1";
  EXPECT_EQ(races(text), Status::Proved);
  text.body.replace(text.body.find("min.s32"), 7, "min.relu.s32");
  EXPECT_EQ(races(text), Status::Unknown);
}

TEST(Races, a_candidate_names_a_shape) {
  ProvedKernel k(with_shared(store_at("mov.u32 %r10, %r5;")));
  const Obligation race = k.prove(prove_races, true);
  ASSERT_FALSE(race.open.empty());
  EXPECT_TRUE(race.open.front().candidate);
}

TEST(Races, all_bytes_of_an_access_count) {
  EXPECT_EQ(
      races("mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd2, %rd3; st.global.v2.f32 [%rd4], {%f1, %f2};"),
      Status::Unknown);
  EXPECT_EQ(
      races("mul.wide.s32 %rd3, %r2, 8; add.s64 %rd4, %rd2, %rd3; st.global.v2.f32 [%rd4], {%f1, %f2};"),
      Status::Proved);
}

TEST(Races, a_read_of_a_neighbour_races_with_its_write) {
  const std::string own = store_at("mov.u32 %r10, %r2;");
  EXPECT_EQ(races(own + "ld.global.f32 %f1, [%rd4+4];"), Status::Unknown);
  EXPECT_EQ(races(own + "ld.global.f32 %f1, [%rd4];"), Status::Proved);
}

// Rows of a matrix: the column must stay within the row.
std::string row_store(const std::string& guard) {
  return R"(
    mov.u32 %r11, %ctaid.x; mov.u32 %r12, %r5;
    )" + guard +
         R"(
    mad.lo.s32 %r10, %r11, %r1, %r12;
    mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], 0f00000000;
    END:)";
}

TEST(Races, columns_within_their_row_are_apart) {
  KernelText text = with_shared(row_store("setp.ge.s32 %p1, %r12, %r1; @%p1 bra END;"));
  text.dims = "n = { min = 1, max = 10000 }";
  text.grid = "100";
  EXPECT_EQ(races(text), Status::Proved);
}

TEST(Races, columns_beyond_their_row_are_in_the_next) {
  for (const char* guard : {"", "setp.gt.s32 %p1, %r12, %r1; @%p1 bra END;"}) {
    KernelText text = with_shared(row_store(guard));
    text.dims = "n = { min = 1, max = 10000 }";
    text.grid = "100";
    EXPECT_EQ(races(text), Status::Unknown) << guard;
  }
}

// Two columns for each thread: the second one of the last thread is the next row's first where n is odd.
TEST(Races, the_last_columns_of_a_row_stay_in_it) {
  const auto two = [](const char* more) {
    KernelText text = with_shared(R"(
      shl.b32 %r12, %r5, 1; setp.ge.s32 %p1, %r12, %r1; @%p1 bra END;
      mad.lo.s32 %r10, %r3, %r1, %r12;
      mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd2, %rd3; st.global.v2.f32 [%rd4], {%f1, %f2};
      END:)");
    text.dims = fmt::format("n = {{ min = 2, max = 10000{} }}", more);
    text.grid = "100";
    return races(text);
  };
  EXPECT_EQ(two(", multiple_of = 2"), Status::Proved);
  EXPECT_EQ(two(""), Status::Unknown);
}

// A grid-stride loop: the stride must be that of the whole grid.
std::string grid_stride(const char* stride) {
  return fmt::format(R"(
    mov.u32 %r10, %r2; mov.u32 %r6, %nctaid.x; mul.lo.s32 %r7, %r6, %r4; {}
    setp.ge.s32 %p1, %r10, %r1; @%p1 bra END;
    LOOP:
    mul.wide.s32 %rd3, %r10, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], 0f00000000;
    add.s32 %r10, %r10, %r7;
    setp.lt.s32 %p2, %r10, %r1; @%p2 bra LOOP;
    END:)",
                     stride);
}

TEST(Races, a_grid_stride_loop_is_apart) {
  KernelText text = with_shared(grid_stride(""));
  text.grid = "min(ceil_div(n, 256), 64)";
  EXPECT_EQ(races(text), Status::Proved);
}

TEST(Races, a_stride_short_of_the_grid_races) {
  KernelText text = with_shared(grid_stride("sub.s32 %r7, %r7, 256;"));
  text.grid = "min(ceil_div(n, 256), 64)";
  EXPECT_EQ(races(text), Status::Unknown);
}

// i - 256 is no iteration of the loop in the first one, and wraps there: all threads store to y[i - tid] in it.
TEST(Races, the_counter_before_the_first_iteration_wraps) {
  const auto body = [](const char* guard) {
    KernelText text = with_shared(fmt::format(R"(
      mov.u32 %r10, %r5;
      setp.ge.u32 %p1, %r10, %r1; @%p1 bra END;
      LOOP:
      sub.u32 %r11, %r10, 256; {} @%p2 bra SKIP;
      sub.u32 %r12, %r10, %r5; mul.wide.u32 %rd3, %r12, 4; add.s64 %rd4, %rd2, %rd3;
      st.global.f32 [%rd4], 0f00000000;
      SKIP:
      add.u32 %r10, %r10, 256; setp.lt.u32 %p3, %r10, %r1; @%p3 bra LOOP;
      END:)",
                                              guard));
    text.grid = "1";
    return text;
  };
  EXPECT_EQ(races(body("setp.lt.u32 %p2, %r11, 1000000;")), Status::Unknown);
  EXPECT_EQ(races(body("setp.ge.u32 %p2, %r10, 0;")), Status::Proved);  // never
}

// Accesses that differ by a constant are compared as one: each distance counts.
TEST(Races, unrolled_stores_are_compared_at_every_distance) {
  const std::string four = R"(
    shl.b32 %r10, %r2, 4; cvt.s64.s32 %rd3, %r10; add.s64 %rd4, %rd2, %rd3;
    st.global.f32 [%rd4], %f1; st.global.f32 [%rd4+4], %f1; st.global.f32 [%rd4+8], %f1; st.global.f32 [%rd4+{}], %f1;)";
  EXPECT_EQ(races(fmt::format(fmt::runtime(four), 12)), Status::Proved);
  EXPECT_EQ(races(fmt::format(fmt::runtime(four), 16)), Status::Unknown);
}

// ---- atomics

std::string twice(const char* first, const char* second) {
  return fmt::format("{} {}", first, second);
}

TEST(Races, atomics_do_not_race_with_atomics) {
  const char* add = "red.global.add.f32 [%rd2], %f1;";
  EXPECT_EQ(races(add), Status::Proved);
  EXPECT_EQ(races(twice(add, "ld.relaxed.gpu.global.f32 %f2, [%rd2];")), Status::Proved);
  EXPECT_EQ(races(twice(add, "ld.volatile.global.f32 %f2, [%rd2];")), Status::Proved);
}

TEST(Races, atomics_race_with_plain_accesses) {
  const char* add = "red.global.add.f32 [%rd2], %f1;";
  EXPECT_EQ(races(twice(add, "ld.global.f32 %f2, [%rd2];")), Status::Unknown);
  EXPECT_EQ(races(twice(add, "st.global.f32 [%rd2], %f2;")), Status::Unknown);
}

TEST(Races, atomics_of_a_block_race_between_blocks) {
  for (const char* scope : {"cta", "cluster"}) {
    KernelText text = with_shared(fmt::format("red.relaxed.{}.global.add.f32 [%rd2], %f1;", scope));
    EXPECT_EQ(races(text), Status::Unknown) << scope;
    text.grid = "1";
    EXPECT_EQ(races(text), Status::Proved) << scope;
  }
}

// i & 5 is i only where it is 0, 1, 4 or 5.
TEST(Races, a_mask_with_a_hole) {
  const auto masked = [](const char* threads, const char* index) {
    KernelText text = with_shared(store_at(index));
    text.grid = "1";
    text.block = threads;
    return races(text);
  };
  EXPECT_EQ(masked("2", "and.b32 %r10, %r5, 5;"), Status::Unknown);  // 0 and 1, but that is not seen
  EXPECT_EQ(masked("6", "and.b32 %r10, %r5, 5;"), Status::Unknown);
  EXPECT_EQ(masked("8", "and.b32 %r10, %r5, 7;"), Status::Proved);
}

TEST(Races, atomics_of_different_sizes_race) {
  EXPECT_EQ(races("red.global.add.u32 [%rd2], 1; red.global.add.u64 [%rd2], %rd1;"), Status::Unknown);
}

// ---- shared memory and barriers

// s[tid] is written, then s[255 - tid] is read.
std::string mirror(const char* between) {
  return fmt::format(R"(
    mov.u64 %rd10, s; mul.wide.u32 %rd11, %r5, 4; add.s64 %rd12, %rd10, %rd11; st.shared.f32 [%rd12], %f1;
    {}
    sub.s32 %r10, 255, %r5; mul.wide.u32 %rd13, %r10, 4; add.s64 %rd14, %rd10, %rd13; ld.shared.f32 %f2, [%rd14];)",
                     between);
}

TEST(Races, a_barrier_orders_the_block) {
  EXPECT_EQ(races(mirror("bar.sync 0;")), Status::Proved);
  EXPECT_EQ(races(mirror("barrier.sync 0;")), Status::Proved);
}

TEST(Races, no_barrier_orders_nothing) {
  for (const char* between :
       {"", "bar.warp.sync 0xffffffff;", "membar.cta;", "shfl.sync.bfly.b32 %r20, %r5, 1, 31, -1;"})
    EXPECT_EQ(races(mirror(between)), Status::Unknown) << between;
}

TEST(Races, a_barrier_of_some_threads_orders_nothing) {
  EXPECT_EQ(races(mirror("bar.sync 1, 128;")), Status::Unknown);
}

TEST(Races, a_barrier_on_one_path_only_orders_nothing) {
  EXPECT_EQ(races(mirror("setp.lt.s32 %p1, %r1, 7; @%p1 bra SKIP; bar.sync 0; SKIP:")), Status::Unknown);
  EXPECT_EQ(races(mirror("setp.lt.s32 %p1, %r1, 7; @%p1 bar.sync 0;")), Status::Unknown);
}

TEST(Races, arrays_are_apart) {
  KernelText text = with_shared(R"(
    mov.u64 %rd10, s; mul.wide.u32 %rd11, %r5, 4; add.s64 %rd12, %rd10, %rd11; st.shared.f32 [%rd12], %f1;
    mov.u64 %rd13, t; ld.shared.f32 %f2, [%rd13];)");
  text.shared = ".shared .align 4 .b8 s[1024]; .shared .align 4 .b8 t[1024];";
  EXPECT_EQ(races(text), Status::Proved);
}

// In a loop: write, barrier, read; a second barrier must keep the next write from this read.
std::string tile_loop(const char* at_end) {
  return fmt::format(R"(
    mov.u64 %rd10, s; mul.wide.u32 %rd11, %r5, 4; add.s64 %rd12, %rd10, %rd11;
    sub.s32 %r10, 255, %r5; mul.wide.u32 %rd13, %r10, 4; add.s64 %rd14, %rd10, %rd13;
    mov.u32 %r11, 0;
    LOOP:
    st.shared.f32 [%rd12], %f1;
    bar.sync 0;
    ld.shared.f32 %f2, [%rd14];
    {}
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p1, %r11, %r1; @%p1 bra LOOP;)",
                     at_end);
}

TEST(Races, a_loop_needs_a_second_barrier) {
  EXPECT_EQ(races(tile_loop("bar.sync 0;")), Status::Proved);
  EXPECT_EQ(races(tile_loop("")), Status::Unknown);
}

// Two buffers by turns need one barrier: reads of iteration k and writes of k + 1 go to different ones.
std::string two_buffers(const char* which) {
  return fmt::format(R"(
    mov.u64 %rd10, s; mul.wide.u32 %rd11, %r5, 4; sub.s32 %r10, 255, %r5; mul.wide.u32 %rd13, %r10, 4;
    mov.u32 %r11, 0;
    LOOP:
    and.b32 %r12, %r11, {}; mul.wide.u32 %rd15, %r12, 1024; add.s64 %rd16, %rd10, %rd15;
    add.s64 %rd12, %rd16, %rd11; add.s64 %rd14, %rd16, %rd13;
    st.shared.f32 [%rd12], %f1;
    bar.sync 0;
    ld.shared.f32 %f2, [%rd14];
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p1, %r11, %r1; @%p1 bra LOOP;)",
                     which);
}

TEST(Races, two_buffers_by_turns_need_one_barrier) {
  EXPECT_EQ(races(two_buffers("1")), Status::Proved);
  EXPECT_EQ(races(two_buffers("2")),
            Status::Unknown);  // 0, 0, 2, 2: the next write follows in the same buffer
}

// The same with a register that goes back and forth between the buffers.
std::string turning_buffers(const char* turn) {
  std::string text = two_buffers("1");
  text.replace(text.find("and.b32 %r12, %r11, 1;"), std::strlen("and.b32 %r12, %r11, 1;"), "");
  text.replace(text.find("LOOP:"), 0, "mov.u32 %r12, 0; ");
  text.replace(text.find("add.s32 %r11"), 0, std::string(turn) + " ");
  return text;
}

TEST(Races, two_values_by_turns_are_told_by_the_iteration) {
  EXPECT_EQ(races(turning_buffers("xor.b32 %r12, %r12, 1;")), Status::Proved);
  EXPECT_EQ(races(turning_buffers("sub.s32 %r12, 1, %r12;")), Status::Proved);
  EXPECT_EQ(races(turning_buffers("xor.b32 %r12, %r12, 0;")), Status::Unknown);
  EXPECT_EQ(races(turning_buffers("@%p1 xor.b32 %r12, %r12, 1;")), Status::Unknown);
  EXPECT_EQ(races(turning_buffers("xor.b32 %r12, %r12, %r5;")), Status::Unknown);  // threads differ
}

// ---- lanes of a warp

// Lane i writes, lane i ^ 1 reads.
std::string neighbours(const char* between) {
  return fmt::format(R"(
    mov.u64 %rd10, s; mul.wide.u32 %rd11, %r5, 4; add.s64 %rd12, %rd10, %rd11; st.shared.f32 [%rd12], %f1;
    {}
    shr.u32 %r10, %r5, 5; shl.b32 %r11, %r10, 5; and.b32 %r12, %r5, 31; sub.s32 %r13, 31, %r12;
    add.s32 %r14, %r11, %r13; mul.wide.u32 %rd13, %r14, 4; add.s64 %rd14, %rd10, %rd13; ld.shared.f32 %f2, [%rd14];)",
                     between);
}

TEST(Races, a_barrier_of_the_warp_orders_its_lanes) {
  EXPECT_EQ(races(neighbours("bar.warp.sync 0xffffffff;")), Status::Proved);
}

TEST(Races, nothing_else_orders_lanes) {
  for (const char* between : {"", "bar.warp.sync 0x0000ffff;", "shfl.sync.bfly.b32 %r20, %r5, 1, 31, -1;",
                              "setp.lt.s32 %p1, %r1, 7; @%p1 bra SKIP; bar.warp.sync 0xffffffff; SKIP:"})
    EXPECT_EQ(races(neighbours(between)), Status::Unknown) << between;
}

// ---- asynchronous copies

std::string copy(const char* between, const char* source = "%r5") {
  return fmt::format(R"(
    mov.u32 %r20, s; shl.b32 %r21, {}, 4; add.s32 %r22, %r20, %r21;
    mul.wide.u32 %rd20, %r5, 16; add.s64 %rd21, %rd1, %rd20;
    cp.async.cg.shared.global [%r22], [%rd21], 16;
    cp.async.commit_group;
    {}
    sub.s32 %r23, 255, %r5; shl.b32 %r24, %r23, 4; add.s32 %r25, %r20, %r24; ld.shared.f32 %f2, [%r25];)",
                     source, between);
}

TEST(Races, a_copy_is_waited_for_before_the_barrier) {
  EXPECT_EQ(races(copy("cp.async.wait_group 0; bar.sync 0;")), Status::Proved);
  EXPECT_EQ(races(copy("cp.async.wait_all; bar.sync 0;")), Status::Proved);
}

TEST(Races, a_copy_that_is_not_waited_for_races) {
  for (const char* between :
       {"bar.sync 0;", "cp.async.wait_group 1; bar.sync 0;", "bar.sync 0; cp.async.wait_group 0;",
        "cp.async.wait_group 0;", "setp.lt.u32 %p9, %r5, 3; @%p9 cp.async.wait_group 0; bar.sync 0;",
        "setp.lt.u32 %p9, %r5, 3; @%p9 cp.async.wait_all; bar.sync 0;"})
    EXPECT_EQ(races(copy(between)), Status::Unknown) << between;
}

TEST(Races, a_thread_waits_for_its_own_copy) {
  const char* text = R"(
    mov.u32 %r20, s; shl.b32 %r21, %r5, 4; add.s32 %r22, %r20, %r21;
    mul.wide.u32 %rd20, %r5, 16; add.s64 %rd21, %rd1, %rd20;
    cp.async.cg.shared.global [%r22], [%rd21], 16;
    cp.async.commit_group; {} ld.shared.f32 %f2, [%r22];)";
  EXPECT_EQ(races(fmt::format(fmt::runtime(text), "cp.async.wait_group 0;")), Status::Proved);
  EXPECT_EQ(races(fmt::format(fmt::runtime(text), "")), Status::Unknown);
}

// ---- loaded values

// y[x[i]] with every i once: elements may repeat. x[c] by blocks c that write only where x says so.
std::string owner(const char* test) {
  return fmt::format(R"(
    mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r10, [%rd4];
    {}
    add.s64 %rd5, %rd2, %rd3; st.global.f32 [%rd5], 0f00000000;
    END:)",
                     test);
}

TEST(Races, the_same_element_of_an_input_is_the_same_for_both) {
  KernelText text = with_shared(owner("setp.ne.u32 %p1, %r10, %r3; @%p1 bra END;"));
  text.x = "dtype = \"i32\"\nshape = [\"n\"]\nvalues = \"index(n)\"";
  EXPECT_EQ(races(text), Status::Proved);
  KernelText other = with_shared(owner("setp.lt.u32 %p1, %r10, %r3; @%p1 bra END;"));
  other.x = text.x;
  EXPECT_EQ(races(other), Status::Unknown);
}

// ---- numbers drawn from a counter

// Threads for which it pays draw a number, and write where it says.
std::string tickets(const char* draw, const char* before = "bar.sync 0;") {
  return fmt::format(R"(
    setp.ne.u32 %p1, %r5, 0; mov.u64 %rd10, s; mov.u64 %rd11, c;
    @%p1 bra DRAW; st.shared.u32 [%rd11], 0; DRAW:
    {}
    {}
    and.b32 %r10, %r9, 255; mul.wide.u32 %rd12, %r10, 4; add.s64 %rd13, %rd10, %rd12; st.shared.u32 [%rd13], %r5;)",
                     before, draw);
}

KernelText with_counter(const std::string& body) {
  KernelText text = with_shared(body);
  text.shared = ".shared .align 4 .b8 s[1024]; .shared .align 4 .b8 c[4];";
  return text;
}

TEST(Races, numbers_drawn_from_a_counter_differ) {
  const char* bounded =
      "atom.shared.add.u32 %r8, [%rd11], 1; min.u32 %r9, %r8, 255; setp.ge.u32 %p2, %r8, 256; @%p2 ret;";
  EXPECT_EQ(races(with_counter(tickets(bounded))), Status::Proved);
  const char* exchanged =
      "atom.shared.exch.b32 %r8, [%rd11], 1; min.u32 %r9, %r8, 255; setp.ge.u32 %p2, %r8, 256; @%p2 ret;";
  EXPECT_EQ(races(with_counter(tickets(exchanged))), Status::Unknown);
  const char* beginning_again =
      "atom.shared.inc.u32 %r8, [%rd11], 15; min.u32 %r9, %r8, 255; setp.ge.u32 %p2, %r8, 256; @%p2 ret;";
  EXPECT_EQ(races(with_counter(tickets(beginning_again))), Status::Unknown);
  // The counter is set back while others draw.
  EXPECT_EQ(races(with_counter(tickets(bounded, ""))), Status::Unknown);
  const std::string set_back = std::string("atom.shared.exch.b32 %r30, [%rd11], 0;") + bounded;
  EXPECT_EQ(races(with_counter(tickets(set_back.c_str()))), Status::Unknown);
}

TEST(Races, numbers_drawn_twice_do_not) {
  // In a loop without a barrier a thread draws more than once, and uses the last.
  for (const int step : {1 << 30, 1 << 20}) {
    const std::string many = fmt::format(R"(mov.u32 %r11, 0;
      LOOP: atom.shared.add.u32 %r8, [%rd11], {}; add.s32 %r11, %r11, 1; setp.lt.s32 %p3, %r11, %r1; @%p3 bra LOOP;
      min.u32 %r9, %r8, 255; setp.ge.u32 %p2, %r8, 256; @%p2 ret;)",
                                         step);
    EXPECT_EQ(races(with_counter(tickets(many.c_str()))), Status::Unknown) << step;
  }
}

// Every warp has a counter of its own: two of them give the same numbers.
TEST(Races, numbers_drawn_from_several_counters_do_not) {
  const auto races_with = [](const char* counter) {
    return races(with_counter(fmt::format(R"(
      mov.u64 %rd10, s; {} mul.wide.u32 %rd12, %r6, 4; mov.u64 %rd11, c; add.s64 %rd11, %rd11, %rd12;
      atom.shared.add.u32 %r8, [%rd11], 1; setp.ge.u32 %p2, %r8, 256; @%p2 ret;
      mul.wide.u32 %rd13, %r8, 4; add.s64 %rd14, %rd10, %rd13; st.shared.u32 [%rd14], %r5;)",
                                          counter)));
  };
  EXPECT_EQ(races_with("mov.u32 %r6, 0;"), Status::Proved);
  EXPECT_EQ(races_with("shr.u32 %r6, %r5, 5;"), Status::Unknown);
}

// s[thread] is written, then the loop reads s[thread + k]: in the first iteration each thread what it has written itself.
TEST(Races, the_second_iteration_is_not_the_first) {
  const auto races_with = [](const char* where) {
    return races(fmt::format(R"(
      bar.sync 0;
      mov.u64 %rd10, s; mul.wide.u32 %rd11, %r5, 4; add.s64 %rd12, %rd10, %rd11; st.shared.f32 [%rd12], 0f00000000;
      mov.u32 %r10, 0;
      LOOP: add.s32 %r11, %r5, %r10; mul.wide.u32 %rd13, %r11, 4; add.s64 %rd14, %rd10, %rd13; ld.shared.f32 %f2, [%rd14];
      {}
      bar.sync 0;
      SKIP: add.s32 %r10, %r10, 1; setp.lt.s32 %p2, %r10, 8; @%p2 bra LOOP;)",
                             where));
  };
  EXPECT_EQ(races_with(""), Status::Proved);
  EXPECT_EQ(races_with("setp.ne.s32 %p1, %r10, 5; @%p1 bra SKIP;"), Status::Unknown);
}

// Of stores that differ by a constant, a condition that holds for one says nothing of the other.
TEST(Races, what_holds_for_one_of_several_stores_does_not_for_all) {
  const auto races_with = [](int threads) {
    return races(fmt::format(R"(
      mov.u64 %rd10, s; mul.wide.u32 %rd11, %r5, 4; add.s64 %rd12, %rd10, %rd11;
      setp.ge.u32 %p1, %r5, 16; @%p1 bra NEXT; st.shared.f32 [%rd12], 0f00000000;
      NEXT: setp.ge.u32 %p2, %r5, {}; @%p2 bra LAST; st.shared.f32 [%rd12+256], 0f00000000;
      LAST: setp.ne.u32 %p3, %r5, 0; @%p3 bra END; st.shared.f32 [s+400], 0f00000000;
      END:)",
                             threads));
  };
  EXPECT_EQ(races_with(16), Status::Proved);
  EXPECT_EQ(races_with(64), Status::Unknown);
}

// s[lane] of the warp is written, then s[31 - lane] is read, both volatile.
std::string volatile_mirror(const char* between) {
  return fmt::format(R"(
    mov.u64 %rd10, s; mul.wide.u32 %rd11, %r5, 4; add.s64 %rd12, %rd10, %rd11; st.volatile.shared.f32 [%rd12], %f1;
    {}
    xor.b32 %r10, %r5, 31;
    mul.wide.u32 %rd13, %r10, 4; add.s64 %rd14, %rd10, %rd13; ld.volatile.shared.f32 %f2, [%rd14];)",
                     between);
}

TEST(Races, volatile_accesses_of_lanes_rely_on_step) {
  EXPECT_EQ(races(volatile_mirror("")), Status::Unknown);
  EXPECT_EQ(races(volatile_mirror("bar.warp.sync 0xffffffff;")), Status::Proved);
  EXPECT_EQ(races(volatile_mirror("bar.sync 0;")), Status::Proved);
  // A word of its own.
  EXPECT_EQ(races(R"(
    mov.u64 %rd10, s; mul.wide.u32 %rd11, %r5, 4; add.s64 %rd12, %rd10, %rd11;
    st.volatile.shared.f32 [%rd12], %f1; ld.volatile.shared.f32 %f2, [%rd12]; st.volatile.shared.f32 [s], %f2;)"),
            Status::Unknown);  // the last store meets the load of the first lane
  EXPECT_EQ(races(R"(
    mov.u64 %rd10, s; mul.wide.u32 %rd11, %r5, 4; add.s64 %rd12, %rd10, %rd11;
    st.volatile.shared.f32 [%rd12], %f1; ld.volatile.shared.f32 %f2, [%rd12];)"),
            Status::Proved);
}

// ---- barriers

Status barriers(const std::string& body) {
  return ProvedKernel(with_shared(body)).barriers();
}

TEST(Barriers, a_loop_before_a_barrier_must_end) {
  const char* loop = R"(
    mov.u32 %r10, 0;
    LOOP: ld.volatile.global.u32 %r11, [%rd1]; add.s32 %r10, %r10, {}; setp.{} %p1, {}; @%p1 bra LOOP;
    bar.sync 0;)";
  EXPECT_EQ(barriers(fmt::format(fmt::runtime(loop), 1, "lt.s32", "%r10, %r1")), Status::Proved);
  EXPECT_EQ(barriers(fmt::format(fmt::runtime(loop), 0, "lt.s32", "%r10, %r1")), Status::Unknown);
  EXPECT_EQ(barriers(fmt::format(fmt::runtime(loop), 1, "ne.s32", "%r11, 0")), Status::Unknown);
}

// A number that nobody knows is still the same for all threads; one that they load is not.
// From one loaded index to another by steps of 32, counted in 32 bits: that it has not passed the end when it begins is known from the
// values alone.
TEST(Barriers, a_loop_between_loaded_indices_ends) {
  const auto between = [](const std::string& guard) {
    KernelText text = kernel(R"(
      setp.ge.s32 %p1, %r3, %r1; @%p1 bra END; mul.wide.s32 %rd5, %r3, 4; add.s64 %rd6, %rd1, %rd5;
      ld.global.u32 %r10, [%rd6]; ld.global.u32 %r11, [%rd1];
      and.b32 %r12, %r5, 31; add.s32 %r10, %r10, %r12;)" +
                             guard + R"(
      sub.s32 %r13, %r11, %r10; add.s32 %r13, %r13, 31; shr.u32 %r13, %r13, 5;
      LOOP: add.s32 %r13, %r13, -1; setp.ne.s32 %p3, %r13, 0; @%p3 bra LOOP;
      DONE: bar.sync 0; END:)");
    text.x = "dtype = \"i32\"\nshape = [\"n\"]\nvalues = \"index(n)\"";
    return ProvedKernel(text).barriers();
  };
  EXPECT_EQ(between("setp.ge.s32 %p2, %r10, %r11; @%p2 bra DONE;"), Status::Proved);
}

// A lock that nobody gives back: a deadlock, though no barrier is behind it.
TEST(Barriers, a_loop_that_may_wait_for_ever) {
  EXPECT_EQ(ProvedKernel(kernel("AGAIN: atom.global.cas.b32 %r30, [%rd2], 0, 1; "
                                "setp.ne.u32 %p3, %r30, 0; @%p3 bra AGAIN;"))
                .barriers(),
            Status::Unknown);
  EXPECT_EQ(ProvedKernel(kernel("mov.u32 %r31, 0; AGAIN: atom.global.max.u32 %r30, [%rd2], 1;"
                                "add.u32 %r31, %r31, 1; setp.lt.u32 %p3, %r31, 4; @%p3 bra AGAIN;"))
                .barriers(),
            Status::Proved);
}

TEST(Barriers, a_parameter_decides_for_all_threads) {
  KernelText text =
      with_shared("ld.param.u32 %r10, [p3]; setp.gt.s32 %p1, %r10, 0; @%p1 bra END; bar.sync 0; END:");
  text.parameters.push_back("= ?");
  EXPECT_EQ(ProvedKernel(text).barriers(), Status::Proved);
  text = with_shared("ld.global.u32 %r10, [%rd1]; setp.gt.s32 %p1, %r10, 0; @%p1 bra END; bar.sync 0; END:");
  EXPECT_EQ(ProvedKernel(text).barriers(), Status::Unknown);
}

TEST(Barriers, halving_ends_at_zero) {
  const char* loop = R"(
    mov.u32 %r10, 128;
    LOOP: bar.sync 0; shr.u32 %r11, %r10, 1; setp.{} %p1, %r10, {}; mov.u32 %r10, %r11; @%p1 bra LOOP;)";
  EXPECT_EQ(barriers(fmt::format(fmt::runtime(loop), "gt.u32", 1)), Status::Proved);
  EXPECT_EQ(barriers(fmt::format(fmt::runtime(loop), "ge.u32", 0)), Status::Unknown);
}

// Threads leave the loop in different iterations, and with different values.
TEST(Barriers, what_is_left_of_halving_differs) {
  EXPECT_EQ(barriers(R"(
    mov.u32 %r10, 128;
    LOOP: shr.u32 %r10, %r10, 1; setp.gt.u32 %p1, %r10, %r5; @%p1 bra LOOP;
    setp.eq.u32 %p2, %r10, 0; @%p2 bra END; bar.sync 0; END:)"),
            Status::Unknown);
}

// An element that all read decides for all; elements of their own do not.
TEST(Barriers, an_element_of_an_input_decides_for_those_that_read_it) {
  const auto barriers_with = [](const char* address) {
    KernelText text = with_shared(fmt::format(R"(
      mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r10, [{}];
      setp.ne.u32 %p1, %r10, 0; @%p1 bra END; bar.sync 0; END:)",
                                              address));
    text.x = "dtype = \"i32\"\nshape = [\"n\"]\nvalues = \"mask\"";
    return ProvedKernel(text).barriers();
  };
  EXPECT_EQ(barriers_with("%rd1"), Status::Proved);
  EXPECT_EQ(barriers_with("%rd4"), Status::Unknown);
}

TEST(Barriers, a_loop_left_by_two_ways_decides) {
  const char* loop = R"(
    mov.u32 %r10, 0;
    LOOP: setp.eq.s32 %p2, %r10, {}; @%p2 bra END; add.s32 %r10, %r10, 1; setp.lt.s32 %p1, %r10, 100; @%p1 bra LOOP;
    bar.sync 0;
    END:)";
  EXPECT_EQ(barriers(fmt::format(fmt::runtime(loop), "%r5")), Status::Unknown);
}

TEST(Barriers, a_loop_around_a_barrier_is_left_together) {
  const char* loop = R"(
    mov.u32 %r10, {};
    LOOP: bar.sync 0; add.s32 %r10, %r10, 256; setp.lt.s32 %p1, %r10, %r1; @%p1 bra LOOP;)";
  EXPECT_EQ(barriers(fmt::format(fmt::runtime(loop), "0")), Status::Proved);
  EXPECT_EQ(barriers(fmt::format(fmt::runtime(loop), "%r5")), Status::Unknown);
}

TEST(Barriers, a_count_must_be_that_of_the_block) {
  EXPECT_EQ(barriers("bar.sync 1, 256;"), Status::Proved);
  EXPECT_EQ(barriers("bar.sync 1, 288;"), Status::Unknown);
  EXPECT_EQ(barriers("bar.sync 1, 128;"), Status::Unknown);
  EXPECT_EQ(barriers("bar.sync %r5;"), Status::Unknown);
}

// bar.red gives one result to all threads of the block, a vote one to each warp, and a loop one in each iteration.
TEST(Barriers, what_the_whole_block_votes_decides_for_all) {
  const std::string votes = "setp.lt.u32 %p3, %r5, 7;", then = "@%p4 bra END; bar.sync 0; END:";
  EXPECT_EQ(barriers(votes + "bar.red.or.pred %p4, 0, %p3;" + then), Status::Proved);
  EXPECT_EQ(barriers(votes + "barrier.cta.red.popc.u32 %r30, 0, %p3; setp.gt.u32 %p4, %r30, 9;" + then),
            Status::Proved);
  EXPECT_EQ(barriers(votes + "vote.sync.any.pred %p4, %p3, -1;" + then), Status::Unknown);
  EXPECT_EQ(barriers(votes + "bar.red.or.pred %p4, 0, 128, %p3;" + then), Status::Unknown);
  EXPECT_EQ(barriers(votes + "@%p3 bar.red.or.pred %p4, 0, %p3;" + then), Status::Unknown);
  // Threads leave the loop with what they found in different iterations.
  EXPECT_EQ(barriers(votes +
                     "mov.u32 %r10, 0; LOOP: bar.red.or.pred %p4, 0, %p3; add.u32 %r10, %r10, 1;"
                     "setp.lt.u32 %p5, %r10, 9; @%p5 bra LOOP;" +
                     then),
            Status::Unknown);
}

// A counter that nobody writes between the same barriers is one number for all threads.
TEST(Barriers, what_all_threads_read_of_shared_memory_decides_for_all) {
  const auto decided = [](const std::string& between, const std::string& read,
                          const std::string& behind = "") {
    return barriers(
        "mov.u32 %r40, s; shl.b32 %r41, %r5, 2; add.u32 %r42, %r40, %r41; setp.lt.u32 %p3, %r5, 7;"
        "@%p3 atom.shared.add.u32 %r30, [s], 1;" +
        between + read + behind + "setp.gt.u32 %p4, %r31, 3; @%p4 bra END; bar.sync 0; END:");
  };
  EXPECT_EQ(decided("bar.sync 0;", "ld.shared.u32 %r31, [s];"), Status::Proved);
  EXPECT_EQ(decided("", "ld.shared.u32 %r31, [s];"), Status::Unknown);
  EXPECT_EQ(decided("bar.warp.sync -1;", "ld.shared.u32 %r31, [s];"), Status::Unknown);
  EXPECT_EQ(decided("bar.sync 0;", "ld.shared.u32 %r31, [%r42];"), Status::Unknown);
  EXPECT_EQ(decided("bar.sync 0;", "ld.shared.u32 %r31, [s];", "@%p3 st.shared.u32 [%r42], 5;"),
            Status::Unknown);
  EXPECT_EQ(decided("bar.sync 0;", "ld.shared.u32 %r31, [s]; bar.sync 0;", "@%p3 st.shared.u32 [%r42], 5;"),
            Status::Proved);
  // Read twice, and the second time while it changes.
  EXPECT_EQ(decided("bar.sync 0;", "ld.shared.u32 %r32, [s]; bar.sync 0; @%p3 st.shared.u32 [s], 5;",
                    "ld.shared.u32 %r31, [s];"),
            Status::Unknown);
  // Threads leave the loop with what they found in different iterations.
  EXPECT_EQ(decided("bar.sync 0;",
                    "mov.u32 %r10, 0; LOOP: ld.shared.u32 %r31, [s]; add.u32 %r10, %r10, 1;"
                    "setp.lt.u32 %p5, %r10, %r5; @%p5 bra LOOP;"),
            Status::Unknown);
}

std::string shuffle(const char* guard, const char* mask) {
  return fmt::format(
      "and.b32 %r10, %r5, 31; setp.{} %p1, %r10, 16; @%p1 bra END; shfl.sync.bfly.b32 %r20, %r5, 1, 31, {}; "
      "END:",
      guard, mask);
}

TEST(Barriers, lanes_that_a_mask_names_get_there_and_no_others) {
  EXPECT_EQ(barriers(shuffle("ge.u32", "0x0000ffff")), Status::Proved);
  EXPECT_EQ(barriers(shuffle("gt.u32", "0x0000ffff")), Status::Unknown);  // lane 16 gets there unnamed
  EXPECT_EQ(barriers(shuffle("ge.u32", "0x0001ffff")), Status::Unknown);  // lane 16 is named and does not
  EXPECT_EQ(barriers(shuffle("lt.u32", "0xffff0000")), Status::Proved);
  EXPECT_EQ(barriers(shuffle("ge.u32", "0xffffffff")), Status::Unknown);
}

TEST(Barriers, a_candidate_names_a_shape) {
  ProvedKernel k(with_shared("setp.ge.s32 %p1, %r2, %r1; @%p1 bra END; bar.sync 0; END:"));
  const Obligation barrier = k.prove(prove_barriers, true);
  ASSERT_EQ(barrier.open.size(), 1u);
  ASSERT_TRUE(barrier.open.front().candidate);
  EXPECT_NE(barrier.open.front().candidate->shape.at("n") % 256, 0);
}

}  // namespace
}  // namespace assay::prove::testing
