// Messages between blocks: the last block to draw a number reads what the others have left. A kernel that the rules prove, and
// for each thing that they rest on a kernel without it, which must not be proved.
#include "kernel.h"

namespace assay::prove::testing {
namespace {

// Each block leaves a number in `partial`, behind which the counter is; the last one adds them up. %rd3 = partial, %rd5 = the
// counter, %rd6 = the block's own partial; the shared variable c holds whether the block is the last.
struct Parts {
  std::string before;  // what all threads do first
  std::string leave = "st.global.f32 [%rd6], 0f00000000;";
  std::string release = "membar.gl;";
  std::string draw = "atom.global.add.u32 %r20, [%rd5], 1;";
  std::string compare = "setp.eq.u32 %p2, %r20, 63;";
  std::string behind_draw;
  std::string who = "setp.ne.u32 %p1, %r5, 0;";  // does not draw
  std::string barrier = "bar.sync 0;";
  std::string of_last = "setp.ne.u32 %p4, %r5, 0; @%p4 bra END;";
  std::string acquire = "membar.gl;";
  std::string read = "ld.global.f32 %f1, [%rd3]; ld.global.f32 %f2, [%rd3+252];";
  std::string store = "st.global.f32 [%rd2], %f1;";
  std::string cleared_from = "256", cleared_bytes = "4";
  std::string grid = "64";
};

KernelText text_of(const Parts& parts) {
  KernelText text;
  text.body = std::string(kStart) + fmt::format(R"(
    ld.param.u64 %rd3, [p3]; ld.param.u64 %rd5, [p4];
    mul.wide.u32 %rd7, %r3, 4; add.s64 %rd6, %rd3, %rd7;
    {}
    {} @%p1 bra DRAWN;
    {} {} {} {}
    selp.u32 %r21, 1, 0, %p2; {} st.shared.u32 [c], %r21;
    DRAWN: {}
    ld.shared.u32 %r22, [c]; setp.eq.u32 %p3, %r22, 0; @%p3 bra END;
    {} {} {} {}
    END:)",
                                                parts.before, parts.who, parts.leave, parts.release,
                                                parts.draw, parts.compare, parts.behind_draw, parts.barrier,
                                                parts.of_last, parts.acquire, parts.read, parts.store);
  text.shared = ".shared .align 4 .b8 c[4];";
  text.y = "dtype = \"f32\"\nshape = [1]";
  text.more_tensors = "[tensors.w]\ndtype = \"f32\"\nshape = [65]";
  text.parameters = {"x", "y", "= n", "w", "w + 256"};
  text.grid = parts.grid;
  if (!parts.cleared_bytes.empty())
    text.zeroed = {{"w", expr(parts.cleared_from), expr(parts.cleared_bytes), true, 0}};
  return text;
}

Status races(const Parts& parts) {
  return ProvedKernel(text_of(parts)).prove(prove_races).status;
}

TEST(LastBlock, reads_what_the_others_left) {
  ProvedKernel k(text_of({}));
  EXPECT_EQ(k.prove(prove_races).status, Status::Proved);
  EXPECT_EQ(k.barriers(), Status::Proved);
  EXPECT_TRUE(k.summary().exchanges);  // it rests on the barriers
  EXPECT_EQ(k.coverage().status, Status::Proved);
}

TEST(LastBlock, needs_a_fence_on_both_sides) {
  for (const char* fence :
       {"", "membar.cta;", "setp.lt.u32 %p9, %r1, 9; @%p9 membar.gl;", "fence.acq_rel.cta;"}) {
    Parts release, acquire;
    release.release = acquire.acquire = fence;
    EXPECT_EQ(races(release), Status::Unknown) << fence;
    EXPECT_EQ(races(acquire), Status::Unknown) << fence;
  }
  for (const char* fence : {"membar.sys;", "fence.acq_rel.gpu;", "fence.sc.sys;"}) {
    Parts both;
    both.release = both.acquire = fence;
    EXPECT_EQ(races(both), Status::Proved) << fence;
  }
  Parts drawn_with;  // the draw is both
  drawn_with.release = drawn_with.acquire = "";
  drawn_with.draw = "atom.acq_rel.gpu.global.add.u32 %r20, [%rd5], 1;";
  EXPECT_EQ(races(drawn_with), Status::Proved);
  drawn_with.draw = "atom.acq_rel.cta.global.add.u32 %r20, [%rd5], 1;";
  EXPECT_EQ(races(drawn_with), Status::Unknown);
}

TEST(LastBlock, what_is_left_comes_before_the_fence) {
  Parts late;
  late.release = "membar.gl; st.global.f32 [%rd6], 0f00000000;";
  EXPECT_EQ(races(late), Status::Unknown);
  Parts behind;
  behind.behind_draw = "st.global.f32 [%rd6], 0f00000000;";
  EXPECT_EQ(races(behind), Status::Unknown);
}

TEST(LastBlock, is_the_one_that_all_others_drew_before) {
  for (const char* compare : {"setp.eq.u32 %p2, %r20, 62;", "setp.ge.u32 %p2, %r20, 62;",
                              "setp.ne.u32 %p2, %r20, 63;", "setp.eq.u32 %p2, %r5, 0;"}) {
    Parts other;
    other.compare = compare;
    EXPECT_EQ(races(other), Status::Unknown) << compare;
  }
  Parts at_least;
  at_least.compare = "setp.ge.u32 %p2, %r20, 63;";
  EXPECT_EQ(races(at_least), Status::Proved);
  Parts more_blocks;
  more_blocks.grid = "65";
  EXPECT_EQ(races(more_blocks), Status::Unknown);
  Parts by_two;
  by_two.draw = "atom.global.add.u32 %r20, [%rd5], 2;";
  EXPECT_EQ(races(by_two), Status::Unknown);
  by_two.compare = "setp.eq.u32 %p2, %r20, 126;";
  EXPECT_EQ(races(by_two), Status::Proved);
}

TEST(LastBlock, the_counter_starts_from_zero) {
  Parts never;
  never.cleared_bytes = "";
  EXPECT_EQ(races(never), Status::Unknown);
  Parts elsewhere;
  elsewhere.cleared_from = "252";
  EXPECT_EQ(races(elsewhere), Status::Unknown);
  Parts half;
  half.cleared_bytes = "2";
  EXPECT_EQ(races(half), Status::Unknown);
  Parts all;
  all.cleared_from = "0";
  all.cleared_bytes = "260";
  EXPECT_EQ(races(all), Status::Proved);
}

TEST(LastBlock, a_block_draws_once) {
  Parts all_threads;
  all_threads.who = "setp.ne.u32 %p1, %r5, %r5;";
  EXPECT_EQ(races(all_threads), Status::Unknown);
  Parts two_threads;
  two_threads.who = "setp.gt.u32 %p1, %r5, 1;";
  EXPECT_EQ(races(two_threads), Status::Unknown);
  Parts twice;
  twice.draw =
      "mov.u32 %r30, 0; AGAIN: atom.global.add.u32 %r20, [%rd5], 1; add.u32 %r30, %r30, 1; "
      "setp.lt.u32 %p8, %r30, 2; @%p8 bra AGAIN;";
  EXPECT_EQ(races(twice), Status::Unknown);
  Parts per_pair;  // two counters
  per_pair.draw =
      "and.b32 %r31, %r3, 1; mul.wide.u32 %rd8, %r31, 4; sub.s64 %rd9, %rd5, %rd8; "
      "atom.global.add.u32 %r20, [%rd9], 1;";
  EXPECT_EQ(races(per_pair), Status::Unknown);
}

TEST(LastBlock, nobody_else_writes_the_counter) {
  Parts also;
  also.before = "st.global.u32 [%rd5], 60;";
  EXPECT_EQ(races(also), Status::Unknown);
  Parts more;  // another instruction draws, too
  more.before = "setp.ne.u32 %p7, %r5, 3; @%p7 bra NOT; red.global.add.u32 [%rd5], 1; NOT:";
  EXPECT_EQ(races(more), Status::Unknown);
  Parts reset;  // behind all draws
  reset.store = "st.global.f32 [%rd2], %f1; st.global.u32 [%rd5], 0;";
  EXPECT_EQ(races(reset), Status::Proved);
}

TEST(LastBlock, an_increment_goes_back_only_behind_all) {
  Parts inc;
  inc.draw = "atom.global.inc.u32 %r20, [%rd5], 63;";
  EXPECT_EQ(races(inc), Status::Proved);
  inc.draw = "atom.global.inc.u32 %r20, [%rd5], 62;";
  EXPECT_EQ(races(inc), Status::Unknown);
  inc.draw = "atom.global.inc.u32 %r20, [%rd5], %r1;";
  EXPECT_EQ(races(inc), Status::Unknown);
}

TEST(LastBlock, all_its_threads_may_read_behind_a_fence_of_the_one_that_drew) {
  Parts all;
  all.of_last = "";
  all.store = "setp.ne.u32 %p4, %r5, 0; @%p4 bra END; st.global.f32 [%rd2], %f1;";
  EXPECT_EQ(races(all), Status::Unknown);  // each fences for itself, but who drew does so behind the barrier
  all.behind_draw = "membar.gl;";
  EXPECT_EQ(races(all), Status::Proved);
  all.behind_draw = "@%p2 bra OVER; membar.gl; OVER:";
  EXPECT_EQ(races(all), Status::Unknown);
}

// Every thread leaves something: in `partial` there is room for the 32 threads of two blocks.
TEST(LastBlock, all_threads_may_leave_something_before_a_barrier) {
  Parts all;
  all.grid = "2";
  all.compare = "setp.eq.u32 %p2, %r20, 1;";
  all.leave = "";
  const std::string own =
      "mul.wide.u32 %rd10, %r2, 4; add.s64 %rd11, %rd3, %rd10; st.global.f32 [%rd11], 0f00000000;";
  const auto with = [&](const std::string& between, const char* release) {
    Parts parts = all;
    parts.before = own + between;
    parts.release = release;
    KernelText text = text_of(parts);
    text.block = "32";
    return ProvedKernel(text).prove(prove_races).status;
  };
  EXPECT_EQ(with("bar.sync 0;", "membar.gl;"), Status::Proved);
  EXPECT_EQ(with("membar.gl; bar.sync 0;", ""), Status::Proved);
  EXPECT_EQ(with("", "membar.gl;"), Status::Unknown);
  EXPECT_EQ(with("membar.gl;", "membar.gl;"), Status::Unknown);
  EXPECT_EQ(with("bar.sync 0;", ""), Status::Unknown);
}

TEST(LastBlock, what_it_knows_comes_from_behind_a_barrier) {
  Parts at_once;
  at_once.barrier = "";
  EXPECT_EQ(races(at_once), Status::Unknown);
  Parts overwritten;
  overwritten.behind_draw = "mov.u32 %r21, 1;";
  EXPECT_EQ(races(overwritten), Status::Unknown);
}

TEST(LastBlock, reads_through_coherent_caches) {
  Parts cached;
  cached.read = "ld.global.nc.f32 %f1, [%rd3];";
  EXPECT_EQ(races(cached), Status::Unknown);
  Parts of_another;  // what no thread of its own block has written
  of_another.read = "setp.eq.u32 %p7, %r3, 0; @%p7 bra END; ld.global.f32 %f1, [%rd6+-4];";
  EXPECT_EQ(races(of_another), Status::Proved);
  of_another.read = "setp.eq.u32 %p7, %r3, 0; @%p7 bra END; ld.global.nc.f32 %f1, [%rd6+-4];";
  EXPECT_EQ(races(of_another), Status::Unknown);
}

// Every block copies a word that the last one overwrites.
TEST(LastBlock, does_not_wait_for_copies_of_the_others) {
  Parts copied;
  copied.leave = "";
  copied.store = "st.global.f32 [%rd2], %f1; st.global.f32 [%rd3], %f1;";
  const auto with = [&](const char* copy) {
    Parts parts = copied;
    parts.leave = copy;
    KernelText text = text_of(parts);
    text.shared += " .shared .align 16 .b8 s[16];";
    return ProvedKernel(text).prove(prove_races).status;
  };
  EXPECT_EQ(with("ld.global.f32 %f5, [%rd3]; st.shared.f32 [s], %f5;"), Status::Proved);
  EXPECT_EQ(with("mov.u32 %r50, s; cp.async.ca.shared.global [%r50], [%rd3], 4;"), Status::Unknown);
  copied.acquire = "cp.async.wait_all; membar.gl;";  // it does for its own
  EXPECT_EQ(with("mov.u32 %r50, s; cp.async.ca.shared.global [%r50], [%rd3], 4;"), Status::Unknown);
}

TEST(LastBlock, writes_its_outputs_only_if_every_block_draws) {
  Parts some;
  some.who = "setp.ne.u32 %p1, %r5, 0; setp.gt.u32 %p6, %r1, 5; or.pred %p1, %p1, %p6;";
  ProvedKernel k(text_of(some));
  EXPECT_EQ(k.coverage().status, Status::Unknown);
  Parts wrong;
  wrong.compare = "setp.eq.u32 %p2, %r20, 64;";
  ProvedKernel never(text_of(wrong));
  EXPECT_EQ(never.coverage().status, Status::Unknown);
}

// ---- numbers of blocks

// Each block takes the tile that it drew.
KernelText tiles(const std::string& draw, const std::string& store = "st.global.f32 [%rd4], 0f00000000;") {
  KernelText text = kernel(fmt::format(R"(
    ld.param.u64 %rd5, [p3];
    setp.ne.u32 %p1, %r5, 0; @%p1 bra DRAWN; {} st.shared.u32 [c], %r20; DRAWN: bar.sync 0;
    ld.shared.u32 %r22, [c]; shl.b32 %r23, %r22, 8; add.s32 %r24, %r23, %r5;
    setp.ge.s32 %p2, %r24, %r1; @%p2 bra END;
    mul.wide.s32 %rd3, %r24, 4; add.s64 %rd4, %rd2, %rd3; {}
    END:)",
                                       draw, store));
  text.shared = ".shared .align 4 .b8 c[4];";
  text.more_tensors = "[tensors.w]\ndtype = \"i32\"\nshape = [1]";
  text.parameters = {"x", "y", "= n", "w"};
  text.zeroed = {{"w", expr("0"), expr("4"), true, 0}};
  return text;
}

TEST(GridTickets, are_different_and_below_the_number_of_blocks) {
  ProvedKernel k(tiles("atom.global.add.u32 %r20, [%rd5], 1;"));
  EXPECT_EQ(k.bounds(), Status::Proved);
  EXPECT_EQ(k.prove(prove_races).status, Status::Proved);
  EXPECT_EQ(k.coverage().status, Status::Proved);
}

// Blocks may be called by their numbers only where nothing else tells them apart: here the tile of block b that has drawn d is
// 2 d - b, or it stores only if d = b.
TEST(GridTickets, are_not_the_index_of_the_block) {
  const auto coverage = [](const std::string& behind_draw, const std::string& tile,
                           const std::string& guard) {
    KernelText text = kernel(fmt::format(R"(
      ld.param.u64 %rd5, [p3];
      setp.ne.u32 %p1, %r5, 0; @%p1 bra DRAWN; atom.global.add.u32 %r20, [%rd5], 1; {} st.shared.u32 [c], %r20;
      DRAWN: bar.sync 0; ld.shared.u32 %r22, [c]; {} {}
      shl.b32 %r23, %r22, 8; add.s32 %r24, %r23, %r5;
      mul.wide.s32 %rd3, %r24, 4; add.s64 %rd4, %rd2, %rd3; st.global.f32 [%rd4], 0f00000000;
      END:)",
                                         behind_draw, guard, tile));
    text.dims = "n = { min = 256, max = 100000, multiple_of = 256 }";
    text.shared = ".shared .align 4 .b8 c[4];";
    text.more_tensors = "[tensors.w]\ndtype = \"i32\"\nshape = [1]";
    text.parameters = {"x", "y", "= n", "w"};
    text.zeroed = {{"w", expr("0"), expr("4"), true, 0}};
    return ProvedKernel(text).coverage().status;
  };
  EXPECT_EQ(coverage("", "", ""), Status::Proved);
  EXPECT_EQ(coverage("", "shl.b32 %r22, %r22, 1; sub.s32 %r22, %r22, %r3;", ""), Status::Unknown);
  EXPECT_EQ(coverage("shl.b32 %r20, %r20, 1; sub.s32 %r20, %r20, %r3;", "", ""), Status::Unknown);
  EXPECT_EQ(coverage("", "", "setp.ne.s32 %p3, %r22, %r3; @%p3 bra END;"), Status::Unknown);
}

TEST(GridTickets, that_leave_out_numbers_do_not_name_all_tiles) {
  EXPECT_EQ(ProvedKernel(tiles("atom.global.add.u32 %r20, [%rd5], 2;")).coverage().status, Status::Unknown);
}

TEST(GridTickets, that_begin_again_are_not) {
  ProvedKernel k(
      tiles("mov.u32 %r30, %nctaid.x; shr.u32 %r31, %r30, 1; atom.global.inc.u32 %r20, [%rd5], %r31;"));
  EXPECT_EQ(k.prove(prove_races).status, Status::Unknown);
  EXPECT_EQ(k.coverage().status, Status::Unknown);
}

TEST(GridTickets, need_the_host_code_to_have_set_their_counter) {
  KernelText text = tiles("atom.global.add.u32 %r20, [%rd5], 1;");
  text.overlaps = true;  // it may still be about to
  EXPECT_EQ(ProvedKernel(text).prove(prove_races).status, Status::Unknown);
  text.overlaps = false;
  text.zeroed.clear();
  EXPECT_EQ(ProvedKernel(text).prove(prove_races).status, Status::Unknown);
}

// Of one block everything is the last.
TEST(GridTickets, are_not_set_before_by_a_single_block) {
  for (const char* by : {"setp.ne.u32 %p6, %r30, 1; @%p6 bra MORE; st.global.u32 [%rd5], 5; MORE:",
                         "setp.ne.u32 %p6, %r5, 0; @%p6 bra MORE; setp.ne.u32 %p6, %r30, 1; @%p6 bra MORE; "
                         "st.global.u32 [%rd5], 5; MORE:",
                         "setp.eq.u32 %p6, %r5, 0; @%p6 bra MORE; setp.ne.u32 %p6, %r30, 1; @%p6 bra MORE; "
                         "st.global.u32 [%rd5], 5; MORE:"}) {
    KernelText text = tiles("atom.global.add.u32 %r20, [%rd5], 1;", "");
    text.body = std::string("mov.u32 %r30, %nctaid.x; ") + text.body;
    const std::string load = "ld.param.u64 %rd5, [p3];", read = "ld.shared.u32 %r22, [c];";
    text.body.insert(text.body.find(load) + load.size(), by);
    text.body.insert(text.body.find(read) + read.size(),
                     "mul.wide.u32 %rd7, %r22, 1024; add.s64 %rd8, %rd1, %rd7; ld.global.f32 %f1, [%rd8];");
    text.x = "dtype = \"f32\"\nshape = [\"256 * ceil_div(n, 256)\"]";
    EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown) << by;
  }
}

// The last thread stores while thread 0 draws.
TEST(GridTickets, are_not_set_meanwhile_by_a_single_block) {
  const auto bounds = [](const char* store) {
    KernelText text = tiles("atom.global.add.u32 %r20, [%rd5], 1;", "");
    text.body = std::string("mov.u32 %r30, %nctaid.x; ") + text.body;
    const std::string drawn = "DRAWN:", read = "ld.shared.u32 %r22, [c];";
    text.body.insert(text.body.find(drawn) + drawn.size(), store);
    text.body.insert(text.body.find(read) + read.size(),
                     "mul.wide.u32 %rd7, %r22, 1024; add.s64 %rd8, %rd1, %rd7; ld.global.f32 %f1, [%rd8];");
    text.x = "dtype = \"f32\"\nshape = [\"256 * ceil_div(n, 256)\"]";
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds(""), Status::Proved);
  EXPECT_EQ(bounds("setp.ne.u32 %p6, %r5, 255; @%p6 bra MORE; setp.ne.u32 %p6, %r30, 1; @%p6 bra MORE; "
                   "st.global.u32 [%rd5], 5; MORE:"),
            Status::Unknown);
}

// A grid of one block, whose number is the last in any case: before the draw, or by another thread than the one that draws.
TEST(GridTickets, of_a_single_block_are_not_set_before_or_beside_the_draw) {
  const auto bounds = [](const char* before, const char* beside) {
    KernelText text = tiles(fmt::format("{} atom.global.add.u32 %r20, [%rd5], 1;", before), "");
    text.body =
        "mov.u32 %r30, %nctaid.x; setp.ne.u32 %p6, %r30, 1; setp.lt.u32 %p7, %r30, %r30; "
        "bar.red.or.pred %p8, 0, %p7;" +
        text.body;
    const std::string drawn = "DRAWN:", read = "ld.shared.u32 %r22, [c];";
    text.body.insert(text.body.find(drawn) + drawn.size(), beside);
    text.body.insert(text.body.find(read) + read.size(),
                     "mul.wide.u32 %rd7, %r22, 1024; add.s64 %rd8, %rd1, %rd7; ld.global.f32 %f1, [%rd8];");
    text.x = "dtype = \"f32\"\nshape = [\"256 * ceil_div(n, 256)\"]";
    return ProvedKernel(text).bounds();
  };
  const char* set = "@%p6 bra MORE; @%p8 bra MORE; st.global.u32 [%rd5], 5; MORE:";
  EXPECT_EQ(bounds("", ""), Status::Proved);
  EXPECT_EQ(bounds(set, ""), Status::Unknown);
  EXPECT_EQ(bounds("",
                   "setp.ne.u32 %p9, %r5, 255; @%p9 bra MORE; @%p6 bra MORE; @%p8 bra MORE; "
                   "st.global.u32 [%rd5], 5; MORE:"),
            Status::Unknown);
}

// The counter is the second word of w.
TEST(GridTickets, are_not_set_by_a_store_that_reaches_over_them) {
  const auto bounds = [](const char* store) {
    KernelText text = tiles(fmt::format("{} atom.global.add.u32 %r20, [%rd5+4], 1;", store), "");
    const std::string read = "ld.shared.u32 %r22, [c];";
    text.body.insert(text.body.find(read) + read.size(),
                     "mul.wide.u32 %rd7, %r22, 1024; add.s64 %rd8, %rd1, %rd7; ld.global.f32 %f1, [%rd8];");
    text.x = "dtype = \"f32\"\nshape = [\"256 * ceil_div(n, 256)\"]";
    text.more_tensors = "[tensors.w]\ndtype = \"i32\"\nshape = [2]";
    text.zeroed = {{"w", expr("0"), expr("8"), true, 0}};
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("st.global.u32 [%rd5], %r1;"), Status::Proved);
  EXPECT_EQ(bounds("st.global.v2.u32 [%rd5], {%r1, %r1};"), Status::Unknown);
}

TEST(GridTickets, are_of_one_counter_for_the_device) {
  EXPECT_EQ(ProvedKernel(tiles("atom.cta.global.add.u32 %r20, [%rd5], 1;")).coverage().status,
            Status::Unknown);
  const std::string by_parity =
      "and.b32 %r31, %r3, 1; mul.wide.u32 %rd7, %r31, 4; add.s64 %rd8, %rd5, %rd7; "
      "atom.global.add.u32 %r20, [%rd8], 1;";
  KernelText two = tiles(by_parity);
  two.more_tensors = "[tensors.w]\ndtype = \"i32\"\nshape = [2]";
  two.zeroed = {{"w", expr("0"), expr("8"), true, 0}};
  EXPECT_EQ(ProvedKernel(two).prove(prove_races).status, Status::Unknown);
}

// What is stored nobody knows where may be the counter.
TEST(GridTickets, are_not_stored_over) {
  KernelText text = tiles("atom.global.add.u32 %r20, [%rd5], 1;");
  text.body = "ld.param.u64 %rd40, [p0]; ld.global.u64 %rd41, [%rd40]; st.global.u32 [%rd41], 7;" + text.body;
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

TEST(GridTickets, have_memory_of_their_own) {
  KernelText text = tiles("atom.global.add.u32 %r20, [%rd5], 1;");
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Proved);
  text.y += "\nmay_alias = \"w\"";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

// 0, 2^30, 2^31, 3 * 2^30, and 0 again.
TEST(GridTickets, that_wrap_are_not_different) {
  const auto races = [](const char* step) {
    KernelText text = tiles(fmt::format("atom.global.add.u32 %r20, [%rd5], {};", step));
    const std::string by_thread =
        "shl.b32 %r23, %r22, 8; add.s32 %r24, %r23, %r5;\n    setp.ge.s32 %p2, %r24, %r1;";
    const std::string one = "setp.ne.u32 %p2, %r5, 0;", from = "mul.wide.s32 %rd3, %r24, 4;";
    text.body.replace(text.body.find(by_thread), by_thread.size(), one);
    text.body.replace(text.body.find(from), from.size(), "mul.wide.u32 %rd3, %r22, 4;");
    text.grid = "5";
    return ProvedKernel(text).prove(prove_races).status;
  };
  EXPECT_EQ(races("1"), Status::Proved);
  EXPECT_EQ(races("268435456"), Status::Proved);
  EXPECT_EQ(races("1073741824"), Status::Unknown);
}

TEST(GridTickets, cover_what_they_count) {
  ProvedKernel by_two(tiles("atom.global.add.u32 %r20, [%rd5], 2;"));
  EXPECT_EQ(by_two.coverage().status, Status::Unknown);
  ProvedKernel from_one(tiles("atom.global.add.u32 %r20, [%rd5], 1; add.u32 %r20, %r20, 1;"));
  EXPECT_EQ(from_one.coverage().status, Status::Unknown);
  ProvedKernel by_block(tiles("atom.global.add.u32 %r20, [%rd5], 1;",
                              "setp.eq.u32 %p5, %r3, 3; @%p5 bra END; st.global.f32 [%rd4], 0f00000000;"));
  EXPECT_EQ(by_block.coverage().status, Status::Unknown);  // whichever tile block 3 has drawn is left out
  ProvedKernel own(tiles("atom.global.add.u32 %r20, [%rd5], 1;",
                         "setp.ne.u32 %p5, %r22, %r3; @%p5 bra END; st.global.f32 [%rd4], 0f00000000;"));
  EXPECT_EQ(own.coverage().status, Status::Unknown);  // only who has drawn its own index
  ProvedKernel mixed(
      tiles("atom.global.add.u32 %r20, [%rd5], 1; add.u32 %r20, %r20, %r3; shr.u32 %r20, %r20, 1;"));
  EXPECT_EQ(mixed.coverage().status, Status::Unknown);
}

// Each block writes its tile in two steps, but block 3 makes one.
TEST(GridTickets, do_not_say_how_often_a_block_goes_round) {
  KernelText text = tiles("atom.global.add.u32 %r20, [%rd5], 1;");
  const std::string by_256 = "shl.b32 %r23, %r22, 8;", guard = "setp.ge.s32 %p2", end = "END:";
  text.body.replace(text.body.find(by_256), by_256.size(), "shl.b32 %r23, %r22, 9; mov.u32 %r50, 0;");
  text.body.insert(text.body.find(guard), "AGAIN: ");
  text.body.insert(text.body.find(end),
                   "add.s32 %r24, %r24, 256; add.u32 %r50, %r50, 1; "
                   "setp.ge.u32 %p7, %r50, 2; @%p7 bra END; setp.eq.u32 %p8, %r3, 3; "
                   "@%p8 bra END; bra AGAIN; ");
  text.grid = "ceil_div(n, 512)";
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

// Threads that part at a barrier get nothing from one another there.
TEST(GridTickets, cover_nothing_where_threads_part_at_a_barrier) {
  KernelText text = tiles("atom.global.add.u32 %r20, [%rd5], 1;");
  text.body.insert(text.body.find("setp.ne.u32 %p1"),
                   "setp.lt.u32 %p9, %r5, 7; @%p9 bra OVER; bar.sync 0; OVER: ");
  EXPECT_EQ(ProvedKernel(text).coverage().status, Status::Unknown);
}

// ---- what one thread leaves for its block

// Thread 0 leaves an index for all.
KernelText left(const std::string& index, const std::string& barrier = "bar.sync 0;",
                const std::string& more = "") {
  KernelText text = kernel(fmt::format(R"(
    setp.ne.u32 %p1, %r5, 0; @%p1 bra LEFT; {} st.shared.u32 [c], %r20; LEFT: {} {}
    ld.shared.u32 %r22, [c]; mul.wide.u32 %rd3, %r22, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];)",
                                       index, barrier, more));
  text.shared = ".shared .align 4 .b8 c[4];";
  text.dims = "n = { min = 8, max = 1000 }";
  return text;
}

TEST(Broadcast, is_what_was_stored) {
  const std::string fine = "rem.u32 %r20, %r3, %r1;";
  EXPECT_EQ(ProvedKernel(left(fine)).bounds(), Status::Proved);
  EXPECT_EQ(ProvedKernel(left("add.u32 %r20, %r1, 0;")).bounds(), Status::Unknown);  // n is no element
  EXPECT_EQ(ProvedKernel(left(fine, "")).bounds(), Status::Unknown);                 // read at once
  EXPECT_EQ(ProvedKernel(left(fine, "bar.sync 0;",
                              "bar.sync 0; @%p1 bra MORE; st.shared.u32 [c], 99999; MORE: bar.sync 0;"))
                .bounds(),
            Status::Unknown);  // stored twice
  // By the index of the thread that stores, which is 0, and not of the one that reads.
  EXPECT_EQ(ProvedKernel(left("mov.u32 %r20, %r5;")).bounds(), Status::Proved);
}

TEST(Broadcast, one_thread_stores_on_every_way) {
  KernelText some = left("rem.u32 %r20, %r3, %r1;");
  const std::string guard = "setp.ne.u32 %p1, %r5, 0;";
  const auto with = [&](const std::string& other) {
    KernelText text = some;
    text.body.replace(text.body.find(guard), guard.size(), other);
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(with(guard), Status::Proved);
  EXPECT_EQ(with("setp.ne.u32 %p1, %r5, 255;"), Status::Proved);
  EXPECT_EQ(with("setp.ne.u32 %p1, %r5, 256;"), Status::Unknown);  // none
  EXPECT_EQ(with("setp.gt.u32 %p1, %r1, 100;"), Status::Unknown);  // not always
  EXPECT_EQ(
      ProvedKernel(left("rem.u32 %r20, %r3, %r1;", "setp.lt.u32 %p9, %r1, 50; @%p9 bar.sync 0;")).bounds(),
      Status::Unknown);  // a barrier that all pass or none
}

// The same address in the code is another for each thread, or another than that of the store.
TEST(Broadcast, is_read_where_it_was_stored) {
  const auto bounds = [](const std::string& store, const std::string& load) {
    KernelText text = left("rem.u32 %r20, %r3, %r1;");
    text.shared = ".shared .align 4 .b8 c[1024];";
    const std::string own = "mov.u32 %r40, c; shl.b32 %r41, %r5, 2; add.u32 %r42, %r40, %r41;";
    const std::string st = "st.shared.u32 [c]", ld = "ld.shared.u32 %r22, [c]";
    text.body.replace(text.body.find(ld), ld.size(), "ld.shared.u32 %r22, " + load);
    text.body.replace(text.body.find(st), st.size(), "st.shared.u32 " + store);
    const std::string first = "setp.ne.u32 %p1";
    text.body.insert(text.body.find(first), own);
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("[c]", "[c]"), Status::Proved);
  EXPECT_EQ(bounds("[c]", "[c+4]"), Status::Unknown);
  EXPECT_EQ(bounds("[%r42]", "[%r42]"), Status::Unknown);
}

TEST(Broadcast, is_not_read_by_a_way_round_the_barrier) {
  KernelText text = left("rem.u32 %r20, %r3, %r1;");
  const std::string first = "setp.ne.u32 %p1", read = "ld.shared.u32 %r22";
  text.body.insert(text.body.find(read), "ROUND: ");
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Proved);
  text.body.insert(text.body.find(first), "setp.lt.u32 %p9, %r1, 50; @%p9 bra ROUND; ");
  EXPECT_EQ(ProvedKernel(text).bounds(), Status::Unknown);
  // The way leads over another barrier.
  KernelText over = left("rem.u32 %r20, %r3, %r1;", "bar.sync 0;", "ROUND: bar.sync 0;");
  EXPECT_EQ(ProvedKernel(over).bounds(), Status::Proved);
  over.body.insert(over.body.find(first), "setp.lt.u32 %p9, %r1, 50; @%p9 bra ROUND; ");
  EXPECT_EQ(ProvedKernel(over).bounds(), Status::Unknown);
}

// x[v - n] with v = n. The lower half of n is n only below 65536.
TEST(Broadcast, is_as_wide_as_what_was_stored) {
  const auto bounds = [](const char* type) {
    KernelText text = kernel(fmt::format(R"(
      setp.ne.u32 %p1, %r5, 0; @%p1 bra LEFT; st.shared.u32 [c], %r1; LEFT: bar.sync 0;
      ld.shared.{} %r22, [c]; sub.s32 %r23, %r22, %r1; mul.wide.s32 %rd3, %r23, 4; add.s64 %rd4, %rd1, %rd3;
      ld.global.f32 %f1, [%rd4];)",
                                         type));
    text.shared = ".shared .align 4 .b8 c[4];";
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("u32"), Status::Proved);
  EXPECT_EQ(bounds("u16"), Status::Unknown);
}

// What thread 0 has loaded is not what the thread that reads it has loaded.
TEST(Broadcast, of_a_loaded_value_is_that_of_the_thread_that_stored) {
  const auto bounds = [](const char* guarded) {
    KernelText text =
        left("mov.u32 %r20, %r45;", "bar.sync 0;",
             fmt::format("ld.shared.u32 %r46, [c]; setp.ge.u32 %p5, {}, %r1; @%p5 bra END;", guarded));
    text.body = std::string(kStart) +
                "ld.param.u64 %rd9, [p3]; mul.wide.u32 %rd10, %r5, 4; add.s64 %rd11, %rd9, %rd10; "
                "ld.global.u32 %r45, [%rd11];" +
                text.body.substr(std::string(kStart).size()) + " END:";
    text.more_tensors = "[tensors.v]\ndtype = \"i32\"\nshape = [256]\nvalues = \"index(5000)\"";
    text.parameters.emplace_back("v");
    return ProvedKernel(text).bounds();
  };
  EXPECT_EQ(bounds("%r45"), Status::Unknown);
}

// Who stores nobody knows where may store there.
TEST(Broadcast, is_not_stored_over) {
  KernelText text =
      left("rem.u32 %r20, %r3, %r1;", "bar.sync 0;",
           "ld.shared.u32 %r23, [c]; setp.eq.u32 %p5, %r23, 3; @%p5 bra OVER; bar.sync 0; OVER:");
  EXPECT_EQ(ProvedKernel(text).barriers(), Status::Proved);
  text.body.insert(text.body.find("setp.ne.u32 %p1"), "ld.global.u64 %rd41, [%rd1]; st.u32 [%rd41], %r5;");
  EXPECT_EQ(ProvedKernel(text).barriers(), Status::Unknown);
}

TEST(Broadcast, decides_alike_for_all_threads) {
  KernelText text =
      left("rem.u32 %r20, %r3, %r1;", "bar.sync 0;",
           "ld.shared.u32 %r23, [c]; setp.eq.u32 %p5, %r23, 3; @%p5 bra OVER; bar.sync 0; OVER:");
  EXPECT_EQ(ProvedKernel(text).barriers(), Status::Proved);
  KernelText own = left("rem.u32 %r20, %r3, %r1;", "bar.sync 0;",
                        "setp.eq.u32 %p5, %r5, 3; @%p5 bra OVER; bar.sync 0; OVER:");
  EXPECT_EQ(ProvedKernel(own).barriers(), Status::Unknown);
}

}  // namespace
}  // namespace assay::prove::testing
