// That every element is written, and above all where it is not: each rule of coverage.cpp has here a kernel that
// would be let through without it.
#include "kernel.h"

namespace assay::prove::testing {
namespace {

// %r20 -> the address of y[%r20] in %rd20
constexpr const char* kAddress = "mul.wide.s32 %rd3, %r20, 4; add.s64 %rd20, %rd2, %rd3;";

std::string store(const std::string& index) {
  return fmt::format("mov.u32 %r20, {}; {} st.global.f32 [%rd20], 0f00000000;\n", index, kAddress);
}

std::string guarded(const std::string& test) {
  return fmt::format("{} @%p1 bra END; {} END:", test, store("%r2"));
}

TEST(Coverage, a_thread_for_each_element) {
  EXPECT_EQ(ProvedKernel(kernel(guarded("setp.ge.s32 %p1, %r2, %r1;"))).coverage().status, Status::Proved);
}

// A kernel that first does something with w[0] (%rd30), and then writes every element.
Status behind(const std::string& first) {
  KernelText text =
      kernel("ld.param.u64 %rd30, [p3]; mov.u32 %r31, 0;" + first + guarded("setp.ge.s32 %p1, %r2, %r1;"));
  text.more_tensors = "[tensors.w]\ndtype = \"f32\"\nshape = [1]";
  text.parameters = {"x", "y", "= n", "w"};
  text.shared = ".shared .align 4 .b8 c[4];";
  return ProvedKernel(text).coverage().status;
}

TEST(Coverage, behind_a_loop_that_may_wait_for_ever) {
  const std::string four_times = "add.u32 %r31, %r31, 1; setp.lt.u32 %p4, %r31, 4; @%p4 bra AGAIN;";
  EXPECT_EQ(behind("AGAIN: atom.global.max.u32 %r30, [%rd30], 1;" + four_times), Status::Proved);
  // A lock, a shared variable, and a flag that an inner loop reads for the loop around it.
  EXPECT_EQ(behind("AGAIN: atom.global.cas.b32 %r30, [%rd30], 0, 1;"
                   "setp.ne.u32 %p3, %r30, 0; @%p3 bra AGAIN;"),
            Status::Unknown);
  EXPECT_EQ(behind("AGAIN: ld.volatile.shared.u32 %r30, [c]; setp.eq.u32 %p3, %r30, 0; @%p3 bra AGAIN;"),
            Status::Unknown);
  EXPECT_EQ(behind("OUTER: mov.u32 %r31, 0; AGAIN: ld.volatile.global.u32 %r30, [%rd30];" + four_times +
                   "setp.eq.u32 %p3, %r30, 0; @%p3 bra OUTER;"),
            Status::Unknown);
}

// The launch that waits need not be the one that writes: those behind it never begin.
TEST(Coverage, behind_a_launch_that_may_wait_for_ever) {
  ProvedKernel writes(kernel(guarded("setp.ge.s32 %p1, %r2, %r1;")));
  const auto beside = [&](const std::string& body) {
    KernelText text = kernel(body);
    text.shared = ".shared .align 4 .b8 c[4]; .shared .align 8 .b8 m[8];";
    ProvedKernel other(text);
    return writes.coverage_with({&other}).status;
  };
  EXPECT_EQ(beside("ld.volatile.shared.u32 %r30, [c];"), Status::Proved);
  EXPECT_EQ(beside("AGAIN: ld.volatile.shared.u32 %r30, [c]; setp.eq.u32 %p3, %r30, 0; @%p3 bra AGAIN;"),
            Status::Unknown);
  // Of a kernel that is not modelled, whatever may wait.
  const std::string not_modelled = "bar.arrive 1, 64;";
  EXPECT_EQ(beside(not_modelled), Status::Proved);
  EXPECT_EQ(beside(not_modelled + "bar.sync 0;"), Status::Unknown);
  EXPECT_EQ(beside(not_modelled + "ld.volatile.shared.u32 %r30, [c];"), Status::Unknown);
  EXPECT_EQ(
      beside("mov.u32 %r31, m; AGAIN: mbarrier.test_wait.parity.shared.b64 %p3, [%r31], 0; @!%p3 bra AGAIN;"),
      Status::Unknown);
}

// Every other element, by stores that reach to the next one, but not over it.
TEST(Coverage, every_other_element) {
  const char* doubled = "shl.b32 %r21, %r2, 1; setp.ge.s32 %p1, %r21, %r1; @%p1 bra END;";
  EXPECT_EQ(ProvedKernel(kernel(doubled + store("%r21") + "END:")).coverage().status, Status::Unknown);
}

// A pointer that for one thread is to something else.
TEST(Coverage, a_pointer_that_is_not_always_to_the_output) {
  const auto coverage = [](const char* who) {
    return ProvedKernel(
               kernel(fmt::format("setp.ge.s32 %p1, %r2, %r1; @%p1 bra END; setp.eq.u32 %p2, {}; "
                                  "selp.b64 %rd8, %rd1, %rd2, %p2; mul.wide.s32 %rd3, %r2, 4; "
                                  "add.s64 %rd20, %rd8, %rd3; st.global.f32 [%rd20], 0f00000000; END:",
                                  who)))
        .coverage()
        .status;
  };
  EXPECT_EQ(coverage("%r5, 256"), Status::Proved);  // none
  EXPECT_EQ(coverage("%r5, 3"), Status::Unknown);
}

// The instruction stores to shared memory, whatever the address was made from.
TEST(Coverage, a_store_to_another_space) {
  const auto coverage = [](const char* space) {
    return ProvedKernel(
               kernel(fmt::format("setp.ge.s32 %p1, %r2, %r1; @%p1 bra END; setp.eq.u32 %p2, %r1, 0; "
                                  "selp.b64 %rd8, %rd1, %rd2, %p2; mul.wide.s32 %rd3, %r2, 4; "
                                  "add.s64 %rd20, %rd8, %rd3; st.{}.f32 [%rd20], 0f00000000; END:",
                                  space)))
        .coverage()
        .status;
  };
  EXPECT_EQ(coverage("global"), Status::Proved);
  EXPECT_EQ(coverage("shared"), Status::Unknown);
}

TEST(Coverage, behind_what_is_not_modelled) {
  EXPECT_EQ(behind("mov.u64 %rd9, 0; mapa.shared::cluster.u64 %rd8, %rd9, 0;"), Status::Unknown);
}

// Who waits at a barrier for threads that never come writes nothing behind it.
TEST(Coverage, behind_a_barrier) {
  EXPECT_EQ(behind("bar.sync 0;"), Status::Proved);
  EXPECT_EQ(behind("setp.lt.u32 %p3, %r3, 3; @%p3 bar.sync 0;"), Status::Proved);  // whole blocks
  EXPECT_EQ(behind("setp.lt.u32 %p3, %r5, 64; @%p3 bar.sync 0;"), Status::Unknown);
  EXPECT_EQ(behind("setp.lt.u32 %p3, %r5, 64; @%p3 bar.sync 1, 256;"), Status::Unknown);
  // A shuffle waits for the lanes that it names.
  EXPECT_EQ(behind("setp.lt.u32 %p3, %r5, 7; @%p3 shfl.sync.idx.b32 %r30, %r5, 0, 31, -1;"), Status::Unknown);
}

// Nor is anything written later, by other launches or by the host.
TEST(Coverage, a_barrier_that_some_never_reach_holds_up_all_that_follows) {
  const auto beside = [](const std::string& first, std::vector<Fill> fills = {}) {
    ProvedKernel waits(kernel(first)), writes(kernel(guarded("setp.ge.s32 %p1, %r2, %r1;")));
    return waits.coverage_with({&writes}, std::move(fills)).status;
  };
  const std::string some = "setp.lt.u32 %p3, %r5, 64; @%p3 bar.sync 1, 256;";
  EXPECT_EQ(beside("bar.sync 0;"), Status::Proved);
  EXPECT_EQ(beside(some), Status::Unknown);
  EXPECT_EQ(beside(some, {{"y", expr("0"), expr("4 * n"), true, 1}}), Status::Unknown);
}

// What is known of the barriers already is not asked again, and is believed.
TEST(Coverage, barriers_that_were_decided_before) {
  ProvedKernel k(kernel("bar.sync 0;" + guarded("setp.ge.s32 %p1, %r2, %r1;")));
  EXPECT_EQ(k.coverage().status, Status::Proved);
  k.threads_agree = {{"k", false}};
  EXPECT_EQ(k.coverage().status, Status::Unknown);
}

// What one thread stops, the others never finish.
TEST(Coverage, a_thread_that_may_stop_the_grid) {
  EXPECT_EQ(behind("setp.ge.s32 %p3, %r2, %r1; @%p3 trap;"), Status::Unknown);
  EXPECT_EQ(behind("setp.ge.s32 %p3, %r5, 999; @%p3 brkpt;"), Status::Proved);  // of 256 threads
  EXPECT_EQ(behind("setp.ge.s32 %p3, %r5, 99; @%p3 brkpt;"), Status::Unknown);
  EXPECT_EQ(behind("setp.ge.s32 %p3, %r5, 999; @!%p3 bra FINE; trap; FINE:"), Status::Proved);
}

// Nor what comes behind it.
TEST(Coverage, a_launch_that_may_stop_all) {
  const KernelText writes = kernel(guarded("setp.ge.s32 %p1, %r2, %r1;"));
  const auto beside = [&](const std::string& body, std::vector<Fill> fills = {}) {
    ProvedKernel k(writes), other(kernel(body));
    return k.coverage_with({&other}, std::move(fills)).status;
  };
  EXPECT_EQ(beside(""), Status::Proved);
  EXPECT_EQ(beside("setp.eq.s32 %p1, %r2, 7; @%p1 trap;"), Status::Unknown);
  EXPECT_EQ(beside("setp.eq.s32 %p1, %r2, 7; @%p1 trap;", {{"y", expr("0"), expr("4 * n"), true, 1}}),
            Status::Unknown);
  const std::string not_modelled = "mov.u64 %rd9, 0; mapa.shared::cluster.u64 %rd8, %rd9, 0;";
  EXPECT_EQ(beside(not_modelled), Status::Proved);
  EXPECT_EQ(beside(not_modelled + "setp.eq.s32 %p1, %r2, 7; @%p1 trap;"), Status::Unknown);
}

TEST(Coverage, a_guard_that_leaves_out_the_last) {
  const Obligation result =
      ProvedKernel(kernel("sub.s32 %r6, %r1, 1;" + guarded("setp.ge.s32 %p1, %r2, %r6;"))).coverage({}, true);
  EXPECT_EQ(result.status, Status::Unknown);
  ASSERT_EQ(result.open.size(), 1u);
  ASSERT_TRUE(result.open.front().candidate);
  EXPECT_LE(result.open.front().candidate->shape.at("n"), 40);
}

TEST(Coverage, a_grid_one_block_short) {
  KernelText text = kernel(guarded("setp.ge.s32 %p1, %r2, %r1;"));
  text.dims = "n = { min = 256, max = 100000 }";
  text.grid = "n / 256";
  const Obligation result = ProvedKernel(text).coverage({}, true);
  EXPECT_EQ(result.status, Status::Unknown);
  ASSERT_TRUE(result.open.front().candidate);
  EXPECT_NE(result.open.front().candidate->shape.at("n") % 256, 0);
}

// No thread exists: everything holds of its indices.
TEST(Coverage, a_grid_that_may_be_empty) {
  KernelText text = kernel(guarded("setp.ge.s32 %p1, %r2, %r1;"));
  text.dims = "n = { min = 1, max = 200 }";
  text.grid = "n / 256";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

TEST(Coverage, a_guard_on_a_loaded_value) {
  EXPECT_EQ(ProvedKernel(kernel("setp.ge.s32 %p2, %r2, %r1; @%p2 bra END; mul.wide.s32 %rd5, %r2, 4;"
                                "add.s64 %rd6, %rd1, %rd5; ld.global.f32 %f1, [%rd6];" +
                                guarded("setp.lt.f32 %p1, %f1, 0f00000000;")))
                .coverage()
                .status,
            Status::Unknown);
}

TEST(Coverage, either_branch_writes) {
  const std::string both = R"(
    setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
    mul.wide.s32 %rd5, %r2, 4; add.s64 %rd6, %rd1, %rd5; ld.global.f32 %f1, [%rd6];
    setp.lt.f32 %p2, %f1, 0f00000000; @%p2 bra LOW;)" +
                           store("%r2") + "bra END; LOW:" + store("%r2") + "END:";
  EXPECT_EQ(ProvedKernel(kernel(both)).coverage().status, Status::Proved);
}

// Of a NaN neither x < 0 holds nor its opposite.
TEST(Coverage, neither_of_two_opposites_of_a_nan) {
  const auto coverage = [](const char* type, const char* value) {
    return ProvedKernel(
               kernel(fmt::format(R"(
      setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
      mul.wide.s32 %rd5, %r2, 4; add.s64 %rd6, %rd1, %rd5; ld.global.{0} {1}, [%rd6];
      setp.lt.{0} %p2|%p3, {1}, {1};)",
                                  type, value) +
                      "mov.u32 %r20, %r2;" + kAddress +
                      "@%p2 st.global.f32 [%rd20], 0f00000000; @%p3 st.global.f32 [%rd20], 0f00000000; END:"))
        .coverage()
        .status;
  };
  EXPECT_EQ(coverage("s32", "%r30"), Status::Proved);
  EXPECT_EQ(coverage("f32", "%f1"), Status::Unknown);
}

// A step of s - 1 rows: with s = 0 the loop goes from the last row to the first; with 1, all iterations write the last one.
TEST(Coverage, a_loop_whose_step_may_be_0) {
  const auto coverage = [](const char* most) {
    KernelText text = kernel(R"(
      ld.param.u32 %r6, [p3]; ld.param.u32 %r7, [p4]; sub.s32 %r8, %r7, 1; mov.u32 %r10, 0;
      setp.ge.u32 %p1, %r5, %r6; @%p1 bra END;
      LOOP: mul.lo.s32 %r11, %r10, %r8; add.s32 %r12, %r1, %r11; sub.s32 %r12, %r12, 1;
      mad.lo.s32 %r20, %r12, %r6, %r5;)" +
                             std::string(kAddress) + R"(
      st.global.f32 [%rd20], 0f00000000; add.s32 %r10, %r10, 1; setp.lt.s32 %p1, %r10, %r1; @%p1 bra LOOP;
      END:)");
    text.dims = fmt::format(
        "n = {{ min = 1, max = 1000 }}\nm = {{ min = 1, max = 256 }}\ns = {{ min = 0, max = {} }}", most);
    text.y = "dtype = \"f32\"\nshape = [\"n\", \"m\"]";
    text.left = "y[i, j]";
    text.parameters = {"x", "y", "= n", "= m", "= s"};
    text.grid = "1";
    return ProvedKernel(text).coverage().status;
  };
  EXPECT_EQ(coverage("0"), Status::Proved);
  EXPECT_EQ(coverage("1"), Status::Unknown);
}

// Where m is 0 no block starts.
TEST(Coverage, a_grid_of_no_blocks_at_some_shapes) {
  const auto coverage = [](const char* least) {
    KernelText text = kernel(guarded("setp.ge.s32 %p1, %r2, %r1;"));
    text.dims = fmt::format("n = {{ min = 1, max = 256 }}\nm = {{ min = {}, max = 3 }}", least);
    text.grid = "m";
    return ProvedKernel(text).coverage().status;
  };
  EXPECT_EQ(coverage("1"), Status::Proved);
  EXPECT_EQ(coverage("0"), Status::Unknown);
}

// Where an iteration stores depends on what it loads, 0 or 1: two iterations may store to one place, and leave one out.
TEST(Coverage, an_address_that_each_iteration_loads) {
  const auto coverage = [](const char* loaded) {
    KernelText text = kernel(guarded("setp.ge.s32 %p1, %r2, %r1;") + R"(
      mov.u32 %r10, %r5;
      LOOP: setp.ge.s32 %p2, %r10, %r1; @%p2 bra DONE;
      mul.wide.s32 %rd5, %r10, 4; add.s64 %rd6, %rd1, %rd5; )" +
                             loaded + R"( shl.b32 %r9, %r8, 8; add.s32 %r20, %r10, %r9;
      setp.ge.s32 %p3, %r20, %r1; @%p3 bra NEXT;)" +
                             kAddress + R"(
      st.global.f32 [%rd20], 0f00000000;
      NEXT: add.s32 %r10, %r10, 256; bra LOOP;
      DONE:)");
    text.x = "dtype = \"i32\"\nshape = [\"n\"]\nvalues = \"integers(0, 1)\"";
    text.grid = "1";
    return ProvedKernel(text).coverage().status;
  };
  EXPECT_EQ(coverage("mov.u32 %r8, 0;"), Status::Proved);
  EXPECT_EQ(coverage("ld.global.u32 %r8, [%rd6];"), Status::Unknown);
}

// Each thread returns in one of the iterations: none gets out of the loop.
TEST(Coverage, behind_a_loop_in_which_threads_return) {
  const auto coverage = [](const char* inside) {
    return ProvedKernel(
               kernel(fmt::format("mov.u32 %r10, 0; LOOP: setp.eq.u32 %p3, %r10, %r5; {} "
                                  "add.u32 %r10, %r10, 1; setp.lt.u32 %p4, %r10, 300; @%p4 bra LOOP;",
                                  inside) +
                      guarded("setp.ge.s32 %p1, %r2, %r1;")))
        .coverage()
        .status;
  };
  EXPECT_EQ(coverage(""), Status::Proved);
  EXPECT_EQ(coverage("@%p3 ret;"), Status::Unknown);
}

TEST(Coverage, vectors_cover_their_lanes_and_no_more) {
  const std::string body = R"(
    shl.b32 %r6, %r2, 2; setp.ge.s32 %p1, %r6, %r1; @%p1 bra END;
    mul.wide.s32 %rd3, %r6, 4; add.s64 %rd4, %rd2, %rd3;
    st.global.{}.f32 [%rd4], {};
    END:)";
  KernelText text = kernel(fmt::format(fmt::runtime(body), "v4", "{%f1, %f2, %f3, %f4}"));
  text.dims = "n = { min = 4, max = 100000, multiple_of = 4 }";
  text.grid = "ceil_div(n, 1024)";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Proved);
  text.body = kStart + fmt::format(fmt::runtime(body), "v2", "{%f1, %f2}");
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

// Four at a time, and what is left over one by one by other threads: two stores, each with a thread of its own.
std::string vectors_and_rest(const std::string& rest_from) {
  return fmt::format(R"(
    shr.u32 %r6, %r1, 2; setp.ge.s32 %p1, %r2, %r6; @%p1 bra REST;
    shl.b32 %r7, %r2, 2; mul.wide.s32 %rd3, %r7, 4; add.s64 %rd4, %rd2, %rd3;
    st.global.v4.f32 [%rd4], {{%f1, %f2, %f3, %f4}};
    REST:
    shl.b32 %r8, %r6, 2; add.s32 %r9, %r8, {}; add.s32 %r12, %r9, %r2;
    setp.ge.s32 %p2, %r12, %r1; @%p2 bra END;
    {}
    END:)",
                     rest_from, store("%r12"));
}

TEST(Coverage, vectors_and_what_is_left_over) {
  EXPECT_EQ(ProvedKernel(kernel(vectors_and_rest("0"))).coverage().status, Status::Proved);
  EXPECT_EQ(ProvedKernel(kernel(vectors_and_rest("1"))).coverage().status, Status::Unknown);
}

// ---- loops

// i = the thread's index in the grid; i < n; i += step
std::string strided(const std::string& step, const std::string& test = "setp.lt.s32 %p2, %r10, %r1;") {
  return fmt::format(R"(
    mov.u32 %r10, %r2;
    setp.ge.s32 %p1, %r10, %r1; @%p1 bra END;
    LOOP:
    {}
    add.s32 %r10, %r10, {};
    {}
    @%p2 bra LOOP;
    END:)",
                     store("%r10"), step, test);
}

TEST(Coverage, a_grid_stride_loop) {
  KernelText text = kernel("mov.u32 %r7, %nctaid.x; mul.lo.s32 %r8, %r7, %r4;" + strided("%r8"));
  text.grid = "min(ceil_div(n, 256), 128)";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Proved);
  text.grid = "16";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Proved);
}

// At some shapes: where there are threads, they write everything.
TEST(Coverage, a_grid_that_is_empty_at_some_shapes) {
  KernelText text = kernel("mov.u32 %r7, %nctaid.x; mul.lo.s32 %r8, %r7, %r4;" + strided("%r8"));
  text.dims = "n = { min = 1, max = 1000 }";
  text.grid = "max(n / 256, 1)";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Proved);
  text.grid = "n / 256";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

// Two of the four bytes of each element, by one store and in a loop over the grid.
TEST(Coverage, a_part_of_an_element_is_not_the_element) {
  const auto coverage = [](std::string body, const char* type, const char* value) {
    for (size_t at = 0; (at = body.find("st.global.f32", at)) != std::string::npos; at += 5)
      body.replace(at, body.find(';', at) - at, fmt::format("st.global.{} [%rd20], {}", type, value));
    KernelText text = kernel("mov.u32 %r7, %nctaid.x; mul.lo.s32 %r8, %r7, %r4;" + body);
    return ProvedKernel(text).coverage().status;
  };
  for (const std::string& body : {guarded("setp.ge.s32 %p1, %r2, %r1;"), strided("%r8")}) {
    EXPECT_EQ(coverage(body, "b32", "%r1"), Status::Proved) << body;
    EXPECT_EQ(coverage(body, "b16", "%h1"), Status::Unknown) << body;
  }
}

TEST(Coverage, a_loop_with_a_step_too_wide) {
  KernelText text = kernel(strided("512"));
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
  text.body = kStart + strided("256");
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Proved);
}

// i - 256 is no iteration of the loop in the first one, and wraps there: the first 256 elements are left out.
TEST(Coverage, the_counter_before_the_first_iteration_wraps) {
  const auto body = [](const std::string& guard) {
    KernelText text = kernel(R"(
      mov.u32 %r10, %r2;
      setp.ge.u32 %p1, %r10, %r1; @%p1 bra END;
      LOOP:
      sub.u32 %r11, %r10, 256; )" +
                             guard + " @%p2 bra SKIP;" + store("%r10") + R"(
      SKIP:
      add.u32 %r10, %r10, 256; setp.lt.u32 %p3, %r10, %r1; @%p3 bra LOOP;
      END:)");
    text.grid = "1";
    return text;
  };
  EXPECT_EQ(ProvedKernel(body("setp.ge.u32 %p2, %r11, 1000000;")).coverage().status, Status::Unknown);
  EXPECT_EQ(ProvedKernel(body("setp.ge.u32 %p2, %r10, 1000000;")).coverage().status, Status::Proved);
}

TEST(Coverage, a_loop_that_ends_early) {
  KernelText text = kernel("sub.s32 %r6, %r1, 7;" + strided("256", "setp.lt.s32 %p2, %r10, %r6;"));
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

TEST(Coverage, a_loop_over_the_grid_that_ends_early) {
  const auto coverage = [](int early) {
    KernelText text =
        kernel(fmt::format("mov.u32 %r7, %nctaid.x; mul.lo.s32 %r8, %r7, %r4; sub.s32 %r6, %r1, {};", early) +
               strided("%r8", "setp.lt.s32 %p2, %r10, %r6;"));
    text.grid = "min(ceil_div(n, 256), 128)";
    return ProvedKernel(text).coverage().status;
  };
  EXPECT_EQ(coverage(0), Status::Proved);
  EXPECT_EQ(coverage(1), Status::Unknown);
  EXPECT_EQ(coverage(2), Status::Unknown);
}

TEST(Coverage, a_loop_that_loaded_values_end) {
  KernelText text = kernel(strided("256", "ld.global.f32 %f1, [%rd1]; setp.lt.f32 %p2, %f1, 0f00000000;"));
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

// The store behind the return is not reached in every iteration that the counter passes.
TEST(Coverage, a_thread_that_may_end_inside_the_loop) {
  KernelText text = kernel(R"(
    mov.u32 %r10, %r2;
    LOOP:
    setp.ge.s32 %p1, %r10, %r1; @%p1 bra END;
    ld.global.f32 %f1, [%rd1]; setp.lt.f32 %p3, %f1, 0f00000000; @%p3 ret;
    )" + store("%r10") + R"(
    add.s32 %r10, %r10, 256; bra LOOP;
    END:)");
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

// What nvcc makes of a loop: one by one until the rest is a multiple of four, then four at a time.
std::string chained(int skipped) {
  std::string four;
  for (int i = 0; i < 4; ++i) four += fmt::format("add.s32 %r12, %r10, {};", 256 * i) + store("%r12");
  return fmt::format(R"(
    mov.u32 %r10, %r5;
    setp.ge.s32 %p1, %r10, %r1; @%p1 bra END;
    not.b32 %r6, %r10; add.s32 %r7, %r1, %r6; shr.u32 %r8, %r7, 8; add.s32 %r9, %r8, 1;
    and.b32 %r11, %r9, 3; setp.eq.s32 %p2, %r11, 0; @%p2 bra MANY;
    ONE:
    {}
    add.s32 %r10, %r10, 256; add.s32 %r11, %r11, -1; setp.ne.s32 %p3, %r11, 0; @%p3 bra ONE;
    add.s32 %r10, %r10, {};
    MANY:
    setp.lt.u32 %p4, %r8, 3; @%p4 bra END;
    FOUR:
    {}
    add.s32 %r10, %r10, 1024; setp.lt.s32 %p5, %r10, %r1; @%p5 bra FOUR;
    END:)",
                     store("%r10"), skipped, four);
}

TEST(Coverage, an_unrolled_loop_after_its_remainder) {
  KernelText text = kernel(chained(0));
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Proved);
}

TEST(Coverage, an_unrolled_loop_that_starts_too_late) {
  KernelText text = kernel(chained(256));
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

// The loop is entered only where the thread's index is below 4. What holds of its end (i == 4) contradicts what
// holds of the other threads; they do not enter it, so nothing may follow for them.
TEST(Coverage, a_loop_that_is_not_entered_proves_nothing) {
  KernelText text = kernel(R"(
    mov.u32 %r10, %r2;
    setp.ge.s32 %p1, %r10, 4; @%p1 bra END;
    LOOP:
    )" + store("%r10") + R"(
    add.s32 %r10, %r10, 1; setp.ne.s32 %p2, %r10, 4; @%p2 bra LOOP;
    END:)");
  text.dims = "n = { min = 8, max = 200 }";
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
  text.dims = "n = { min = 2, max = 4 }";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Proved);
}

TEST(Coverage, backwards) {
  const auto body = [](int last) {
    return fmt::format(R"(
      sub.s32 %r10, %r1, 1; sub.s32 %r10, %r10, %r5;
      setp.lt.s32 %p1, %r10, {0}; @%p1 bra END;
      LOOP:
      {1}
      add.s32 %r10, %r10, -256; setp.ge.s32 %p2, %r10, {0}; @%p2 bra LOOP;
      END:)",
                       last, store("%r10"));
  };
  KernelText text = kernel(body(0));
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Proved);
  text.body = kStart + body(1);
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

// An address that its loop computes from what it has loaded: no iteration can be chosen for it.
TEST(Coverage, an_address_from_a_loaded_index) {
  KernelText text = kernel(R"(
    mov.u32 %r10, %r2;
    setp.ge.s32 %p1, %r10, %r1; @%p1 bra END;
    LOOP:
    mul.wide.s32 %rd5, %r10, 4; add.s64 %rd6, %rd1, %rd5; ld.global.u32 %r13, [%rd6];
    )" + store("%r13") + R"(
    add.s32 %r10, %r10, 256; setp.lt.s32 %p2, %r10, %r1; @%p2 bra LOOP;
    END:)");
  text.x = "dtype = \"i32\"\nshape = [\"n\"]\nvalues = \"index(n)\"";
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

// ---- rows and columns

// A warp for each row: row = 8 ctaid + tid / 32, column = tid % 32 + 32 k.
KernelText rows(const std::string& row_test, const std::string& lanes = "32") {
  KernelText text = kernel(fmt::format(R"(
    shr.u32 %r6, %r5, 5; and.b32 %r7, %r5, 31; shl.b32 %r8, %r3, 3; add.s32 %r9, %r8, %r6;
    ld.param.u32 %r15, [p3];
    {} @%p1 bra END;
    mov.u32 %r10, %r7;
    setp.ge.s32 %p2, %r10, %r15; @%p2 bra END;
    mul.lo.s32 %r14, %r9, %r15;
    LOOP:
    add.s32 %r12, %r14, %r10;
    {}
    add.s32 %r10, %r10, {}; setp.lt.s32 %p3, %r10, %r15; @%p3 bra LOOP;
    END:)",
                                       row_test, store("%r12"), lanes));
  text.dims = "n = { min = 1, max = 10000 }\nC = { min = 1, max = 8192 }";
  text.y = "dtype = \"f32\"\nshape = [\"n\", \"C\"]";
  text.left = "y[i, j]";
  text.grid = "ceil_div(n, 8)";
  text.parameters = {"x", "y", "= n", "= C"};
  return text;
}

TEST(Coverage, a_warp_for_each_row) {
  EXPECT_EQ(ProvedKernel(rows("setp.ge.s32 %p1, %r9, %r1;")).coverage().status, Status::Proved);
}
TEST(Coverage, all_rows_but_the_last) {
  EXPECT_EQ(ProvedKernel(rows("sub.s32 %r16, %r1, 1; setp.ge.s32 %p1, %r9, %r16;")).coverage().status,
            Status::Unknown);
}
TEST(Coverage, every_other_part_of_a_row) {
  EXPECT_EQ(ProvedKernel(rows("setp.ge.s32 %p1, %r9, %r1;", "64")).coverage().status, Status::Unknown);
}

// ---- the host and other launches

// The case of an empty tensor launches nothing, and leaves nothing out.
TEST(Coverage, no_elements_need_no_store) {
  KernelText text = kernel("");
  text.dims = "n = { min = 0, max = 100 }";
  const std::vector<Condition> empty = {{Condition::Kind::AtMost, "n", 0}},
                               one = {{Condition::Kind::AtMost, "n", 1}};
  EXPECT_EQ(ProvedKernel(text).coverage_with({}, {}, empty).status, Status::Proved);
  EXPECT_EQ(ProvedKernel(text).coverage_with({}, {}, one).status, Status::Unknown);
}

TEST(Coverage, what_the_host_fills_is_written) {
  const KernelText nothing = kernel("");
  EXPECT_EQ(ProvedKernel(nothing).coverage({{"y", expr("0"), expr("4 * n")}}).status, Status::Proved);
  EXPECT_EQ(ProvedKernel(nothing).coverage({{"y", expr("0"), expr("4 * n - 4")}}).status, Status::Unknown);
  EXPECT_EQ(ProvedKernel(nothing).coverage({{"y", expr("4"), expr("4 * n")}}).status, Status::Unknown);
  EXPECT_EQ(ProvedKernel(nothing).coverage({{"x", expr("0"), expr("4 * n")}}).status, Status::Unknown);
  EXPECT_EQ(ProvedKernel(nothing).coverage({{"y", expr("0"), nullptr}}).status, Status::Unknown);
}

TEST(Coverage, an_atomic_update_is_no_write) {
  const KernelText text = kernel(R"(
    setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
    mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd2, %rd3; red.global.add.f32 [%rd4], 0f3F800000;
    END:)");
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
  EXPECT_EQ(ProvedKernel(text).coverage({{"y", expr("0"), expr("4 * n")}}).status, Status::Proved);
}

TEST(Coverage, two_launches_write_a_half_each) {
  ProvedKernel low(kernel("shr.u32 %r6, %r1, 1;" + guarded("setp.ge.s32 %p1, %r2, %r6;")));
  ProvedKernel high(kernel("shr.u32 %r6, %r1, 1; setp.lt.s32 %p2, %r2, %r6; @%p2 bra END;" +
                           guarded("setp.ge.s32 %p1, %r2, %r1;")));
  EXPECT_EQ(low.coverage_with({&high}).status, Status::Proved);
  EXPECT_EQ(low.coverage().status, Status::Unknown);
  EXPECT_EQ(high.coverage().status, Status::Unknown);
}

}  // namespace
}  // namespace assay::prove::testing
