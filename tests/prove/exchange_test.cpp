// Values that come from other lanes, and loaded values that are the same for several threads or iterations. For each rule a
// kernel that it proves, and a kernel next to it that must not be proved.
#include "kernel.h"

namespace assay::prove::testing {
namespace {

constexpr const char* kIndices = "dtype = \"i32\"\nshape = [\"n\"]\nvalues = \"index(n)\"";

// %r10 = x[i] for i < n, -1 for other threads; the lane takes `what` from another lane, and writes y there.
KernelText exchanged(const std::string& what = "%r10", const std::string& mask = "-1") {
  KernelText text = kernel(fmt::format(R"(
    mov.u32 %r10, -1; setp.ge.s32 %p1, %r2, %r1; @%p1 bra LOADED;
    mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r10, [%rd4];
    LOADED:
    shfl.sync.idx.b32 %r11, {}, 3, 31, {};
    setp.lt.s32 %p2, %r11, 0; @%p2 bra END;
    mul.wide.s32 %rd5, %r11, 4; add.s64 %rd6, %rd2, %rd5; st.global.f32 [%rd6], 0f00000000;
    END:)",
                                       what, mask));
  text.x = kIndices;
  return text;
}

TEST(Exchange, what_another_lane_loaded_is_an_index_as_well) {
  ProvedKernel k(exchanged());
  EXPECT_EQ(k.bounds(), Status::Proved);
  EXPECT_EQ(k.barriers(), Status::Proved);
  EXPECT_TRUE(k.summary().exchanges);  // what is proved rests on the barriers
}

// Lanes that have loaded one element may get different ones from other lanes: lane 0 that of lane 0, lane 2 that of lane 1.
TEST(Exchange, what_another_lane_loaded_it_loaded_elsewhere) {
  const auto races = [](const char* given) {
    KernelText text = kernel(fmt::format(R"(
      and.b32 %r6, %r5, 1; mul.wide.u32 %rd3, %r6, 4; add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r10, [%rd4];
      shr.u32 %r7, %r5, 1; shfl.sync.idx.b32 %r11, %r10, %r7, 31, -1;
      setp.ne.u32 %p1, %r6, 0; @%p1 bra END;
      add.s32 %r12, %r2, {}; setp.ge.u32 %p2, %r12, %r1; @%p2 bra END;
      mul.wide.s32 %rd5, %r12, 4; add.s64 %rd6, %rd2, %rd5; st.global.f32 [%rd6], 0f00000000;
      END:)",
                                         given));
    text.dims = "n = { min = 2, max = 1000 }";
    text.x = kIndices;
    text.grid = "1";
    text.block = "32";
    return ProvedKernel(text).prove(prove_races).status;
  };
  EXPECT_EQ(races("%r10"), Status::Proved);
  EXPECT_EQ(races("%r11"), Status::Unknown);
}

// The other lane is another thread: what a guard says of this one's index it does not say of that one's.
TEST(Exchange, what_holds_of_the_own_index_does_not_hold_of_anothers) {
  KernelText text = exchanged("%r2");
  const std::string guard = "setp.ge.s32 %p3, %r2, %r1; @%p3 bra END;";
  text.body.replace(text.body.find("setp.lt.s32 %p2"), 0, guard);
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

TEST(Exchange, a_lane_that_the_mask_does_not_name_has_no_value) {
  EXPECT_EQ(ProvedKernel(exchanged("%r10", "65535")).bounds(), Status::Unknown);
  KernelText half_a_warp = exchanged();
  half_a_warp.block = "48";
  half_a_warp.grid = "ceil_div(n, 48)";
  EXPECT_EQ(ProvedKernel(half_a_warp).bounds(), Status::Unknown);
}

// How often a lane went round a loop is its own.
TEST(Exchange, the_count_of_a_loop_that_is_over_is_each_lanes_own) {
  KernelText text = kernel(R"(
    setp.ge.s32 %p1, %r5, %r1; @%p1 bra OVER; mov.u32 %r10, %r5;
    LOOP:
    add.s32 %r10, %r10, 256; setp.lt.s32 %p2, %r10, %r1; @%p2 bra LOOP;
    OVER:
    shfl.sync.idx.b32 %r11, %r10, 3, 31, -1; sub.s32 %r12, %r11, %r10; add.s32 %r12, %r12, 0;
    mul.wide.s32 %rd5, %r12, 4; add.s64 %rd6, %rd2, %rd5; st.global.f32 [%rd6], 0f00000000;)");
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
  // The counts alone: their difference is 0 only if all lanes have gone round as often.
  text = kernel(R"(
    mov.u32 %r10, %r5; mov.u32 %r13, 0;
    LOOP:
    add.s32 %r13, %r13, 1; add.s32 %r10, %r10, 256; setp.lt.s32 %p2, %r10, %r1; @%p2 bra LOOP;
    shfl.sync.idx.b32 %r11, %r13, 3, 31, -1; sub.s32 %r12, %r11, %r13;
    mul.wide.s32 %rd5, %r12, 4; add.s64 %rd6, %rd2, %rd5; st.global.f32 [%rd6], 0f00000000;)");
  text.grid = "1";
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
}

// ---- loads that are the same every time

// y[k] for k below what is loaded in every iteration from x, at `index`; all threads of a block meet in each.
KernelText limit_is_loaded(const std::string& index) {
  KernelText text = kernel(fmt::format(R"(
    mov.u32 %r10, 0;
    LOOP:
    mul.wide.u32 %rd3, {}, 4; add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r11, [%rd4];
    setp.ge.s32 %p1, %r10, %r11; @%p1 bra END;
    bar.sync 0;
    mul.wide.s32 %rd5, %r10, 4; add.s64 %rd6, %rd2, %rd5; ld.global.f32 %f1, [%rd6];
    add.s32 %r10, %r10, 1; bra.uni LOOP;
    END:)",
                                       index));
  text.x = "dtype = \"i32\"\nshape = [\"n\"]\nvalues = \"integers(0, n)\"";
  text.grid = "n";
  text.dims = "n = { min = 256, max = 100000 }";
  return text;
}

TEST(FixedLoads, a_limit_that_is_loaded_each_time_is_a_limit) {
  ProvedKernel k(limit_is_loaded("%r3"));
  EXPECT_EQ(k.bounds(), Status::Proved);
  EXPECT_EQ(k.barriers(), Status::Proved);
}

TEST(FixedLoads, threads_that_load_from_different_places_may_part) {
  ProvedKernel k(limit_is_loaded("%r5"));
  EXPECT_EQ(k.bounds(), Status::Proved);
  EXPECT_EQ(k.barriers(), Status::Unknown);
}

// What is loaded at x[k] in one iteration says nothing of the next: with y[k + 1] in the place of y[k] the last one may be
// out of bounds, and an iteration's own limit is what it loaded itself.
TEST(FixedLoads, a_load_that_moves_with_the_loop_is_not_fixed) {
  ProvedKernel k(limit_is_loaded("%r10"));
  for (const Access& access : k.summary().accesses)
    for (const Var var : k.terms().mentions(access.address)) EXPECT_FALSE(k.terms().var(var).is_fixed);
  EXPECT_EQ(k.barriers(), Status::Unknown);  // the loop is not shown to end
}

// ---- elements that differ

Status scattered(const std::string& values, const std::string& guard = "") {
  KernelText text = kernel(fmt::format(R"(
    setp.ge.s32 %p1, %r2, %r1; @%p1 bra END;
    mul.wide.s32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r10, [%rd4];
    {}
    mul.wide.s32 %rd5, %r10, 4; add.s64 %rd6, %rd2, %rd5; st.global.f32 [%rd6], 0f00000000;
    END:)",
                                       guard));
  text.x = fmt::format("dtype = \"i32\"\nshape = [\"n\"]\nvalues = \"{}\"", values);
  return ProvedKernel(text).prove(prove_races).status;
}

TEST(Distinct, writes_to_places_that_differ_do_not_meet) {
  EXPECT_EQ(scattered("distinct(n)"), Status::Proved);
  EXPECT_EQ(scattered("index(n)"), Status::Unknown);
}

TEST(Distinct, slots_differ_where_they_are_slots) {
  EXPECT_EQ(scattered("slots(n)", "setp.lt.s32 %p2, %r10, 0; @%p2 bra END;"), Status::Proved);
  EXPECT_EQ(scattered("slots(n)"), Status::Unknown);  // -1 may be there twice
}

}  // namespace
}  // namespace assay::prove::testing
