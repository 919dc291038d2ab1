// Flags that blocks wait for: a kernel that the rules prove, and for each thing that they rest on a kernel without it, which must
// not be proved.
#include "kernel.h"

namespace assay::prove::testing {
namespace {

// Each block draws the number of its tile, d. Its thread 0 leaves a number in w[64 + d], sets the flag w[d], waits for the flag of the
// tile before and reads what that one has left. %rd6 = the flag of d, %r21 = d, %p1: not thread 0.
struct Parts {
  std::string number = "atom.global.add.u32 %r20, [%rd3+512], 1;";
  std::string before;  // what all threads do first
  std::string leave = "st.global.f32 [%rd6+256], 0f00000000;";
  std::string release = "membar.gl;";
  std::string set = "atom.global.exch.b32 %r30, [%rd6], 1;";
  std::string behind_set;
  std::string look = "atom.global.add.u32 %r22, [%rd6+-4], 0;";
  std::string again = "setp.eq.u32 %p3, %r22, 0; @%p3 bra WAIT;";
  std::string acquire = "membar.gl;";
  std::string read = "ld.global.f32 %f1, [%rd6+252];";
  std::string cleared_from = "0", cleared_bytes = "516";
  std::string grid = "64";
};

KernelText text_of(const Parts& parts) {
  KernelText text;
  text.body =
      std::string(kStart) + fmt::format(R"(
    ld.param.u64 %rd3, [p3];
    setp.ne.u32 %p1, %r5, 0; @%p1 bra DRAWN;
    {} st.shared.u32 [c], %r20;
    DRAWN: bar.sync 0;
    ld.shared.u32 %r21, [c]; mul.wide.u32 %rd5, %r21, 4; add.s64 %rd6, %rd3, %rd5; {}
    @%p1 bra END;
    {} {} {} {}
    setp.eq.u32 %p2, %r21, 0; @%p2 bra STORE;
    WAIT: {} {}
    {} {}
    STORE: add.s64 %rd8, %rd2, %rd5; st.global.f32 [%rd8], 0f00000000;
    END: bar.sync 0;)",
                                        parts.number, parts.before, parts.leave, parts.release, parts.set,
                                        parts.behind_set, parts.look, parts.again, parts.acquire, parts.read);
  text.shared = ".shared .align 4 .b8 c[4];";
  text.y = "dtype = \"f32\"\nshape = [64]";
  text.more_tensors = "[tensors.w]\ndtype = \"f32\"\nshape = [129]";
  text.parameters = {"x", "y", "= n", "w"};
  text.grid = parts.grid;
  if (!parts.cleared_bytes.empty())
    text.zeroed = {{"w", expr(parts.cleared_from), expr(parts.cleared_bytes), true, 0}};
  return text;
}

Status races(const Parts& parts) {
  return ProvedKernel(text_of(parts)).prove(prove_races).status;
}
Obligation barriers(const Parts& parts) {
  return ProvedKernel(text_of(parts)).prove(prove_barriers);
}

TEST(Flags, order_what_was_written_before_them) {
  ProvedKernel k(text_of({}));
  EXPECT_EQ(k.bounds(), Status::Proved);
  EXPECT_EQ(k.prove(prove_races).status, Status::Proved);
  EXPECT_EQ(k.barriers(), Status::Proved);
  EXPECT_EQ(k.coverage().status, Status::Proved);
}

TEST(Flags, need_a_fence_on_both_sides) {
  for (const char* fence :
       {"", "membar.cta;", "setp.lt.u32 %p9, %r1, 9; @%p9 membar.gl;", "fence.acq_rel.cta;"}) {
    Parts release, acquire;
    release.release = acquire.acquire = fence;
    EXPECT_EQ(races(release), Status::Unknown) << fence;
    EXPECT_EQ(races(acquire), Status::Unknown) << fence;
  }
  Parts without;
  without.release = without.acquire = "";
  without.set = "st.release.gpu.global.u32 [%rd6], 1;";
  without.look = "ld.acquire.gpu.global.u32 %r22, [%rd6+-4];";
  EXPECT_EQ(races(without), Status::Proved);
  Parts narrow = without;
  narrow.set = "st.release.cta.global.u32 [%rd6], 1;";
  EXPECT_EQ(races(narrow), Status::Unknown);
  narrow = without;
  narrow.look = "ld.acquire.cta.global.u32 %r22, [%rd6+-4];";
  EXPECT_EQ(races(narrow), Status::Unknown);
}

// The number is left by an atomic operation that acquires: that makes nothing known to others.
TEST(Flags, what_acquires_releases_nothing) {
  Parts parts;
  parts.number = "mov.u32 %r20, %ctaid.x;";
  parts.leave = "atom.acq_rel.gpu.global.exch.b32 %r31, [%rd6+256], 7;";
  parts.set = "st.relaxed.gpu.global.u32 [%rd6], 1;";
  EXPECT_EQ(races(parts), Status::Proved);
  parts.release = "";
  EXPECT_EQ(races(parts), Status::Unknown);
}

TEST(Flags, are_strong) {
  Parts parts;
  parts.set = "st.volatile.global.u32 [%rd6], 1;";
  parts.look = "ld.volatile.global.u32 %r22, [%rd6+-4];";
  EXPECT_EQ(races(parts), Status::Proved);
  parts.set = "st.global.u32 [%rd6], 1;";
  EXPECT_EQ(races(parts), Status::Unknown);
  parts.set = "st.relaxed.gpu.global.u32 [%rd6], 1;";
  EXPECT_EQ(races(parts), Status::Proved);
  parts.look = "ld.global.u32 %r22, [%rd6+-4];";
  EXPECT_EQ(races(parts), Status::Unknown);
}

TEST(Flags, are_set_behind_what_they_announce) {
  Parts behind;
  behind.leave = "";
  behind.behind_set = "st.global.f32 [%rd6+256], 0f00000000;";
  EXPECT_EQ(races(behind), Status::Unknown);
  Parts also;
  also.behind_set = "st.global.f32 [%rd6+256], 0f00000000;";
  EXPECT_EQ(races(also), Status::Unknown);
}

TEST(Flags, speak_of_their_own_block) {
  for (const char* look : {"atom.global.add.u32 %r22, [%rd6], 0;", "atom.global.add.u32 %r22, [%rd3], 0;",
                           "ld.volatile.global.u32 %r22, [%rd6+-8];"}) {
    Parts other;
    other.look = look;
    EXPECT_EQ(races(other), Status::Unknown) << look;
  }
  Parts for_the_next;  // it sets the flag of the next tile
  for_the_next.set = "atom.global.exch.b32 %r30, [%rd6+4], 1;";
  EXPECT_EQ(races(for_the_next), Status::Unknown);
  Parts both;  // its own and that of the next
  both.behind_set = "atom.global.exch.b32 %r31, [%rd6+4], 1;";
  EXPECT_EQ(races(both), Status::Unknown);
  Parts far;
  far.read = "ld.global.f32 %f1, [%rd6+248];";
  EXPECT_EQ(races(far), Status::Unknown);
}

TEST(Flags, start_from_zero) {
  Parts never;
  never.cleared_from = "512";
  never.cleared_bytes = "4";
  EXPECT_EQ(races(never), Status::Unknown);
  Parts some;
  some.cleared_from = "4";
  some.cleared_bytes = "512";
  EXPECT_EQ(races(some), Status::Unknown);
  Parts by_index;  // so that no counter is needed
  by_index.number = "mov.u32 %r20, %ctaid.x;";
  KernelText text = text_of(by_index);
  EXPECT_EQ(ProvedKernel(text).prove(prove_races).status, Status::Proved);
  text.overlaps = true;  // the host code may still be about to set them
  EXPECT_EQ(ProvedKernel(text).prove(prove_races).status, Status::Unknown);
  text.overlaps = false;
  text.zeroed.front().array = "x";
  EXPECT_EQ(ProvedKernel(text).prove(prove_races).status, Status::Unknown);
}

// The output may lie in the memory of the flags, and every block stores to it.
TEST(Flags, have_memory_of_their_own) {
  Parts by_index;
  by_index.number = "mov.u32 %r20, %ctaid.x;";
  const auto with = [&](const char* shape, const char* alias, Obligation (*which)(Setting&),
                        const Parts& parts) {
    KernelText text = text_of(parts);
    text.y = fmt::format("dtype = \"f32\"\nshape = [{}]\n{}", shape, alias);
    return ProvedKernel(text).prove(which).status;
  };
  EXPECT_EQ(with("129", "", prove_races, by_index), Status::Proved);
  EXPECT_EQ(with("129", "may_alias = \"w\"", prove_races, by_index), Status::Unknown);
  EXPECT_EQ(with("129", "", prove_barriers, {}), Status::Proved);
  EXPECT_EQ(with("129", "may_alias = \"w\"", prove_barriers, {}), Status::Unknown);
}

TEST(Flags, must_have_been_found) {
  Parts not_looked_at;
  not_looked_at.again = "";
  EXPECT_EQ(races(not_looked_at), Status::Unknown);
  Parts sometimes;
  sometimes.again =
      "setp.eq.u32 %p3, %r22, 0; setp.lt.u32 %p4, %r1, 50; and.pred %p3, %p3, %p4; @%p3 bra WAIT;";
  EXPECT_EQ(races(sometimes), Status::Unknown);
  Parts the_other_way;
  the_other_way.again = "setp.ne.u32 %p3, %r22, 0; @%p3 bra WAIT;";
  EXPECT_EQ(races(the_other_way), Status::Unknown);
  Parts skipped;  // a thread that finds no flag leaves it at that
  skipped.again = "setp.eq.u32 %p3, %r22, 0; @%p3 bra STORE;";
  EXPECT_EQ(races(skipped), Status::Proved);
}

TEST(Flags, have_values) {
  Parts two;  // 1: not yet, 2: it is there
  two.leave = "";
  two.release = "";
  two.set = "atom.global.exch.b32 %r30, [%rd6], 1;";
  two.behind_set = "st.global.f32 [%rd6+256], 0f00000000; membar.gl; atom.global.exch.b32 %r31, [%rd6], 2;";
  EXPECT_EQ(races(two), Status::Unknown);
  two.again = "setp.ne.u32 %p3, %r22, 2; @%p3 bra WAIT;";
  EXPECT_EQ(races(two), Status::Proved);
  two.again = "setp.lt.u32 %p3, %r22, 2; @%p3 bra WAIT;";
  EXPECT_EQ(races(two), Status::Proved);
  Parts unknown;
  unknown.set = "atom.global.exch.b32 %r30, [%rd6], %r1;";  // n, which is at least 1
  EXPECT_EQ(races(unknown), Status::Proved);
  Parts counted;  // what an addition leaves is not followed
  counted.set = "atom.global.add.u32 %r30, [%rd6], 1;";
  EXPECT_EQ(races(counted), Status::Unknown);
}

TEST(Flags, nobody_else_writes_them) {
  for (const char* store : {"st.global.u32 [%rd6], 0;", "atom.global.exch.b32 %r33, [%rd3+4], 1;",
                            "st.volatile.global.u32 [%rd3+8], 1;"}) {
    Parts also;
    also.before = store;
    EXPECT_EQ(races(also), Status::Unknown) << store;
  }
}

// Thread 0 waits for all: behind the barrier everybody reads.
KernelText waited_for(const std::string& acquire, const std::string& barrier, const char* who = "%r5, 0") {
  KernelText text = text_of({});
  const size_t from = text.body.find("@%p1 bra END;"), to = text.body.find("END: bar.sync 0;");
  text.body.replace(from, to - from,
                    fmt::format(R"(
    @%p1 bra LEFT;
    st.global.f32 [%rd6+256], 0f00000000; membar.gl; atom.global.exch.b32 %r30, [%rd6], 1;
    LEFT: setp.ne.u32 %p4, {}; @%p4 bra FOUND;
    setp.eq.u32 %p2, %r21, 0; @%p2 bra FOUND;
    WAIT: ld.volatile.global.u32 %r22, [%rd6+-4]; setp.eq.u32 %p3, %r22, 0; @%p3 bra WAIT; {}
    FOUND: {}
    setp.eq.u32 %p2, %r21, 0; @%p2 bra END;
    ld.global.f32 %f1, [%rd6+252];)",
                                who, acquire, barrier));
  return text;
}

TEST(Flags, may_be_waited_for_by_one_thread_for_its_block) {
  const auto races = [](const KernelText& text) { return ProvedKernel(text).prove(prove_races).status; };
  EXPECT_EQ(races(waited_for("membar.gl;", "bar.sync 0;")), Status::Proved);
  EXPECT_EQ(races(waited_for("membar.gl;", "bar.sync 0;", "%r5, 255")), Status::Proved);
  EXPECT_EQ(races(waited_for("membar.gl;", "")), Status::Unknown);
  EXPECT_EQ(races(waited_for("", "bar.sync 0;")), Status::Unknown);
  EXPECT_EQ(races(waited_for("", "bar.sync 0; membar.gl;")),
            Status::Unknown);  // by the others, not by who waited
  EXPECT_EQ(races(waited_for("membar.gl;", "bar.sync 0;", "%r5, 256")), Status::Unknown);  // nobody
  EXPECT_EQ(races(waited_for("membar.gl;", "bar.sync 0;", "%r1, 7")), Status::Unknown);    // not always
  // A barrier that all pass or none.
  EXPECT_EQ(races(waited_for("membar.gl;", "setp.lt.u32 %p9, %r1, 50; @%p9 bar.sync 0;")), Status::Unknown);
}

// Thread 0 has waited for the tile that it has loaded the number of, and the others read those that they have loaded.
TEST(Flags, that_one_thread_waits_for_are_those_that_it_knows) {
  const auto races = [](const char* loaded_at) {
    KernelText text = waited_for("membar.gl;", "bar.sync 0;");
    const std::string find = "@%p1 bra LEFT;", wait = "[%rd6+-4]", read = "[%rd6+252]";
    text.body.replace(text.body.find(read), read.size(), "[%rd13+256]");
    text.body.replace(text.body.find(wait), wait.size(), "[%rd13]");
    text.body.insert(
        text.body.find(find),
        fmt::format("ld.param.u64 %rd9, [p4]; mul.wide.u32 %rd10, {}, 4; add.s64 %rd11, %rd9, %rd10; "
                    "ld.global.u32 %r45, [%rd11]; mul.wide.u32 %rd12, %r45, 4; add.s64 %rd13, %rd3, %rd12;",
                    loaded_at));
    text.more_tensors += "\n[tensors.v]\ndtype = \"i32\"\nshape = [256]\nvalues = \"index(64)\"";
    text.parameters.emplace_back("v");
    return ProvedKernel(text).prove(prove_races).status;
  };
  EXPECT_EQ(races("%r5"), Status::Unknown);
}

// Every thread has a flag of its own: 32 threads, two blocks, w[32 d + t].
KernelText of_threads(const std::string& read, const std::string& fence = "membar.gl;") {
  KernelText text = text_of({});
  const size_t from = text.body.find("@%p1 bra END;"), to = text.body.find("END: bar.sync 0;");
  text.body.replace(from, to - from,
                    fmt::format(R"(
    shl.b32 %r40, %r21, 5; add.u32 %r41, %r40, %r5; mul.wide.u32 %rd9, %r41, 4; add.s64 %rd10, %rd3, %rd9;
    st.global.f32 [%rd10+256], 0f00000000; {} st.volatile.global.u32 [%rd10], 1;
    setp.eq.u32 %p2, %r21, 0; @%p2 bra END;
    WAIT: ld.volatile.global.u32 %r22, [%rd10+-128]; setp.eq.u32 %p3, %r22, 0; @%p3 bra WAIT;
    membar.gl; {})",
                                fence, read));
  text.grid = "2";
  text.block = "32";
  return text;
}

TEST(Flags, may_be_of_threads) {
  const auto races = [](const KernelText& text) { return ProvedKernel(text).prove(prove_races).status; };
  EXPECT_EQ(races(of_threads("ld.global.f32 %f1, [%rd10+128];")), Status::Proved);
  EXPECT_EQ(races(of_threads("ld.global.f32 %f1, [%rd10+128];", "")), Status::Unknown);
  // What another thread of that block has left, whose flag it has not found.
  EXPECT_EQ(races(of_threads("setp.eq.u32 %p4, %r5, 0; @%p4 bra END; ld.global.f32 %f1, [%rd10+124];")),
            Status::Unknown);
}

// ---- loops that wait

TEST(Waiting, ends_if_a_block_that_has_started_sets_the_flag) {
  EXPECT_EQ(barriers({}).status, Status::Proved);
  Parts far;  // any smaller number will do
  far.look = "setp.lt.u32 %p9, %r21, 5; @%p9 bra STORE; ld.volatile.global.u32 %r22, [%rd6+-20];";
  EXPECT_EQ(barriers(far).status, Status::Proved);
}

TEST(Waiting, for_a_block_that_may_not_have_started_may_not_end) {
  for (const char* look :
       {"ld.volatile.global.u32 %r22, [%rd6+4];", "ld.volatile.global.u32 %r22, [%rd3];"}) {
    Parts parts;
    parts.look = look;
    EXPECT_EQ(barriers(parts).status, Status::Unknown) << look;
    EXPECT_TRUE(barriers(parts).threads_agree) << look;
  }
  Parts by_index;  // blocks may start in any order
  by_index.number = "mov.u32 %r20, %ctaid.x;";
  EXPECT_EQ(barriers(by_index).status, Status::Unknown);
  EXPECT_EQ(races(by_index), Status::Proved);
  ProvedKernel k(text_of(by_index));
  EXPECT_EQ(k.coverage().status, Status::Unknown);
}

TEST(Waiting, for_its_own_flag_may_not_end) {
  Parts own;
  own.set = "";
  own.look = "ld.volatile.global.u32 %r22, [%rd6];";
  own.acquire = "atom.global.exch.b32 %r30, [%rd6], 1; membar.gl;";
  EXPECT_EQ(barriers(own).status, Status::Unknown);
}

// Nobody draws the number, or sets that flag.
TEST(Waiting, for_what_is_no_number_may_not_end) {
  Parts by_two;
  by_two.number = "atom.global.add.u32 %r20, [%rd3+512], 2;";
  by_two.grid = "16";
  EXPECT_EQ(barriers(by_two).status, Status::Unknown);
  Parts alone;
  alone.leave = alone.read = "";
  alone.grid = "32";
  Parts apart = alone;  // flags lie 8 bytes apart
  apart.before = "mul.wide.u32 %rd5, %r21, 8; add.s64 %rd6, %rd3, %rd5;";
  apart.look = "ld.volatile.global.u32 %r22, [%rd6+-8];";
  EXPECT_EQ(barriers(apart).status, Status::Proved);
  apart.look = "setp.lt.u32 %p9, %r21, 2; @%p9 bra STORE; ld.volatile.global.u32 %r22, [%rd6+-12];";
  EXPECT_EQ(barriers(apart).status, Status::Unknown);
  Parts uneven = alone;  // the flag of d is d + d / 2
  uneven.before =
      "shr.u32 %r45, %r21, 1; add.u32 %r46, %r45, %r21; mul.wide.u32 %rd5, %r46, 4; add.s64 %rd6, %rd3, "
      "%rd5;";
  EXPECT_EQ(barriers(uneven).status, Status::Unknown);
  KernelText first = text_of(alone);  // that of tile 0 waits as well
  const std::string guard = "setp.eq.u32 %p2, %r21, 0; @%p2 bra STORE;";
  first.body.replace(first.body.find(guard), guard.size(), "");
  EXPECT_EQ(ProvedKernel(first).barriers(), Status::Unknown);
}

TEST(Waiting, for_a_flag_that_is_no_strong_store_may_not_end) {
  Parts weak;
  weak.set = "st.global.u32 [%rd6], 1;";
  EXPECT_EQ(barriers(weak).status, Status::Unknown);
}

// All threads get to the barrier in front of what may not end, but those of the next block do not.
TEST(Waiting, for_a_flag_behind_a_loop_that_may_not_end) {
  const auto barriers = [](const char* loop) {
    Parts behind;
    behind.set = "";
    KernelText text = text_of(behind);
    text.body += fmt::format(" {} @%p1 bra DONE; atom.global.exch.b32 %r30, [%rd6], 1; DONE:", loop);
    return ProvedKernel(text).barriers();
  };
  EXPECT_EQ(barriers(""), Status::Proved);
  EXPECT_EQ(barriers("AGAIN: ld.global.u32 %r50, [%rd1]; setp.ne.u32 %p8, %r50, 0; @%p8 bra AGAIN;"),
            Status::Unknown);
}

TEST(Waiting, needs_every_block_to_set_its_flag) {
  for (const char* some : {"setp.gt.u32 %p9, %r1, 50;", "and.b32 %r44, %r21, 7; setp.eq.u32 %p9, %r44, 7;"}) {
    Parts parts;
    parts.set = fmt::format("{} @%p9 bra SILENT; atom.global.exch.b32 %r30, [%rd6], 1; SILENT:", some);
    EXPECT_EQ(barriers(parts).status, Status::Unknown) << some;
    EXPECT_EQ(races(parts), Status::Proved) << some;
  }
  Parts after_the_wait;  // by induction
  after_the_wait.set = "";
  after_the_wait.read = "ld.global.f32 %f1, [%rd6+252];";
  KernelText text = text_of(after_the_wait);
  const std::string store = "STORE:";
  text.body.replace(text.body.find(store), store.size(),
                    "STORE: membar.gl; atom.global.exch.b32 %r30, [%rd6], 1;");
  EXPECT_EQ(ProvedKernel(text).barriers(), Status::Proved);
  const std::string of_the_last = "[%rd6+-4]";  // its own instead, before it sets it
  text.body.replace(text.body.find(of_the_last), of_the_last.size(), "[%rd6]");
  EXPECT_EQ(ProvedKernel(text).barriers(), Status::Unknown);
}

TEST(Waiting, ends_with_whatever_is_stored) {
  Parts other;
  other.again = "setp.ne.u32 %p3, %r22, 2; @%p3 bra WAIT;";
  EXPECT_EQ(barriers(other).status, Status::Unknown);
  Parts reset;
  reset.behind_set = "atom.global.exch.b32 %r31, [%rd6], 0;";
  EXPECT_EQ(barriers(reset).status, Status::Unknown);
  Parts swapped;  // which may store nothing
  swapped.set = "atom.global.cas.b32 %r30, [%rd6], 5, 1;";
  EXPECT_EQ(barriers(swapped).status, Status::Unknown);
  Parts both;  // the value and something else decide
  both.again = "setp.eq.u32 %p3, %r22, 0; setp.eq.u32 %p4, %r22, %r1; or.pred %p3, %p3, %p4; @%p3 bra WAIT;";
  EXPECT_EQ(barriers(both).status, Status::Unknown);
}

// Two loops that wait, of which each sets the flag that ends the other. With numbers from two counters a block may be first by
// the one and second by the other.
TEST(Waiting, for_numbers_of_two_counters_may_not_end) {
  const auto barriers = [](const char* second) {
    KernelText text = text_of({});
    const size_t from = text.body.find("setp.ne.u32 %p1"), to = text.body.find("END: bar.sync 0;");
    text.body.replace(from, to - from,
                      fmt::format(R"(
    setp.ne.u32 %p1, %r5, 0; @%p1 bra END;
    atom.global.add.u32 %r20, [%rd3+512], 1; {}
    mul.wide.u32 %rd5, %r20, 4; add.s64 %rd6, %rd3, %rd5; mul.wide.u32 %rd7, %r21, 4; add.s64 %rd8, %rd3, %rd7;
    setp.eq.u32 %p2, %r20, 0; @%p2 bra ONE;
    WAIT1: ld.volatile.global.u32 %r22, [%rd6+-4]; setp.eq.u32 %p3, %r22, 0; @%p3 bra WAIT1;
    ONE: st.volatile.global.u32 [%rd8+256], 1;
    setp.eq.u32 %p2, %r21, 0; @%p2 bra TWO;
    WAIT2: ld.volatile.global.u32 %r22, [%rd8+252]; setp.eq.u32 %p3, %r22, 0; @%p3 bra WAIT2;
    TWO: st.volatile.global.u32 [%rd6], 1;)",
                                  second));
    text.more_tensors = "[tensors.w]\ndtype = \"f32\"\nshape = [130]";
    text.zeroed = {{"w", expr("0"), expr("520"), true, 0}};
    return ProvedKernel(text).barriers();
  };
  EXPECT_EQ(barriers("mov.u32 %r21, %r20;"), Status::Proved);
  EXPECT_EQ(barriers("atom.global.add.u32 %r21, [%rd3+516], 1;"), Status::Unknown);
}

// ---- what decides behind a loop

// Behind a loop with two ways out all threads meet again, whichever they took.
TEST(Loops, with_two_ways_out_decide_nothing_behind_both) {
  const std::string two_ways = R"(
    mov.u32 %r30, 0;
    AGAIN: setp.eq.u32 %p5, %r30, %r5; @%p5 bra OUT; add.u32 %r30, %r30, 1; setp.lt.u32 %p6, %r30, 99;
    @%p6 bra AGAIN; mov.u32 %r31, 7; {} OUT: bar.sync 0;)";
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(two_ways), ""))).barriers(), Status::Proved);
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(two_ways), "ret;"))).barriers(), Status::Unknown);
  EXPECT_EQ(ProvedKernel(kernel(fmt::format(fmt::runtime(two_ways), "bra END;") + "END:")).barriers(),
            Status::Unknown);
}

// A way that begins the next iteration does not lead to where the others meet.
TEST(Loops, of_which_some_threads_skip_a_part_do_not_meet_there) {
  const auto barriers = [](const char* skip) {
    return ProvedKernel(kernel(fmt::format(R"(
    mov.u32 %r30, 0;
    AGAIN: add.u32 %r30, %r30, 1; setp.gt.u32 %p6, %r30, 99; @%p6 bra OUT;
    setp.lt.u32 %p5, %r30, %r1; @%p5 bra MEET;
    {}
    mov.u32 %r31, 7;
    MEET: bar.sync 0; bra AGAIN;
    OUT:)",
                                           skip)))
        .barriers();
  };
  EXPECT_EQ(barriers(""), Status::Proved);
  EXPECT_EQ(barriers("setp.lt.u32 %p7, %r30, %r5; @%p7 bra AGAIN;"), Status::Unknown);
  EXPECT_EQ(barriers("setp.lt.u32 %p7, %r30, %r5; @%p7 ret;"), Status::Unknown);
}

}  // namespace
}  // namespace assay::prove::testing
