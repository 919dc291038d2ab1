// Counters and lists in shared memory: a kernel that the rules prove, and for each thing that they rest on a kernel without it,
// which must not be proved.
#include "kernel.h"

namespace assay::prove::testing {
namespace {

// Threads with an element t of x (t < n) put t into a list. Then all go over the list, and read x there.
struct Parts {
  std::string set = "setp.ne.u32 %p1, %r5, 0; @%p1 bra SET; st.shared.u32 [%r20], 0; SET:";
  std::string set_barrier = "bar.sync 0;";
  std::string guard = "setp.ge.s32 %p2, %r2, %r1; @%p2 bra DRAWN;";
  std::string draw = "atom.shared.add.u32 %r8, [%r20], 1;";
  std::string between;  // the draw and the store
  std::string what = "%r2";
  std::string barrier = "bar.sync 0;";
  std::string count = "ld.shared.u32 %r9, [%r20];";
  std::string first = "mov.u32 %r10, 0;";
  std::string next = "shl.b32 %r11, %r10, 2;";  // where in the list
  std::string last = "bar.sync 0;";
  std::string block = "256";
};

KernelText text_of(const Parts& parts) {
  KernelText text =
      kernel(fmt::format(R"(
    mov.u32 %r20, c; mov.u32 %r21, s;
    {} {}
    {} {} {}
    shl.b32 %r12, %r8, 2; add.s32 %r13, %r21, %r12; st.shared.u32 [%r13], {};
    DRAWN: {}
    {} {}
    LOOP: setp.ge.s32 %p3, %r10, %r9; @%p3 bra DONE;
    {} add.s32 %r14, %r21, %r11; ld.shared.u32 %r15, [%r14];
    mul.wide.s32 %rd3, %r15, 4; add.s64 %rd4, %rd1, %rd3; ld.global.f32 %f1, [%rd4];
    add.s32 %r10, %r10, 1; bra LOOP;
    DONE: {})",
                         parts.set, parts.set_barrier, parts.guard, parts.draw, parts.between, parts.what,
                         parts.barrier, parts.count, parts.first, parts.next, parts.last));
  text.shared = ".shared .align 4 .b8 s[1024]; .shared .align 4 .b8 c[4];";
  text.block = parts.block;
  return text;
}

Status bounds(const Parts& parts) {
  return ProvedKernel(text_of(parts)).bounds();
}

// With something else in the place of a part of the text, and other lengths of the list and of c, in bytes.
Status bounds(const Parts& parts, const std::string& part, const std::string& other, int list = 1024,
              int c = 4) {
  KernelText text = text_of(parts);
  text.body.replace(text.body.find(part), part.size(), other);
  text.shared = fmt::format(".shared .align 4 .b8 s[{}]; .shared .align 4 .b8 c[{}];", list, c);
  return ProvedKernel(text).bounds();
}
constexpr const char* kNotRead = "bra DONE;";  // in the place of the count: nobody goes over the list

TEST(Counters, a_list_holds_what_was_stored) {
  ProvedKernel k(text_of({}));
  EXPECT_EQ(k.bounds(), Status::Proved);
  EXPECT_EQ(k.overflow(), Status::Proved);
  EXPECT_EQ(k.barriers(), Status::Proved);
  EXPECT_EQ(k.prove(prove_races).status, Status::Proved);
  EXPECT_TRUE(k.summary().exchanges);  // it rests on the barriers
}

TEST(Counters, an_address_of_64_bits_is_the_one_of_32) {
  Parts by_name;
  by_name.set = "setp.ne.u32 %p1, %r5, 0; @%p1 bra SET; st.shared.u32 [c], 0; SET:";
  by_name.count = "ld.shared.u32 %r9, [c];";
  EXPECT_EQ(bounds(by_name), Status::Proved);
}

TEST(Counters, an_array_must_have_room_for_all_threads) {
  Parts larger;
  larger.block = "257";
  EXPECT_EQ(bounds(larger), Status::Unknown);
}

TEST(Counters, must_be_set_on_every_way) {
  Parts never;
  never.set = "";
  EXPECT_EQ(bounds(never), Status::Unknown);
  Parts by_another;  // a thread that a block may not have
  by_another.set = "setp.ne.u32 %p1, %r5, 300; @%p1 bra SET; st.shared.u32 [%r20], 0; SET:";
  EXPECT_EQ(bounds(by_another), Status::Unknown);
  Parts at_times;
  at_times.set = "setp.lt.u32 %p1, %r1, 7; @%p1 bra SET; st.shared.u32 [%r20], 0; SET:";
  EXPECT_EQ(bounds(at_times), Status::Unknown);
}

TEST(Counters, are_set_where_they_are) {
  const std::string set = "st.shared.u32 [%r20], 0";
  EXPECT_EQ(bounds({}, set, set, 1024, 8), Status::Proved);
  EXPECT_EQ(bounds({}, set, "st.shared.u32 [%r20+4], 0", 1024, 8), Status::Unknown);
  const std::string count = "ld.shared.u32 %r9, [%r20]";
  EXPECT_EQ(bounds({}, count, "ld.shared.u32 %r9, [%r20+4]", 1024, 8), Status::Unknown);
}

TEST(Counters, are_not_read_by_a_way_round_what_sets_them) {
  Parts around;
  around.count = "READ: ld.shared.u32 %r9, [%r20];";
  EXPECT_EQ(bounds(around), Status::Proved);
  const std::string set = around.set;
  for (const char* way : {"READ", "DRAWN"}) {
    around.set = fmt::format("setp.lt.u32 %p9, %r1, 50; @%p9 bra {}; ", way) + set;
    EXPECT_EQ(bounds(around), Status::Unknown) << way;
  }
}

// All 256 threads may have drawn: then there is no element of that number.
TEST(Counters, count_all_that_have_drawn) {
  Parts number;
  number.first =
      "shl.b32 %r41, %r9, 2; add.s32 %r42, %r21, %r41; ld.shared.u32 %r43, [%r42]; mov.u32 %r10, 0;";
  EXPECT_EQ(bounds(number, "bar.sync 0;", "bar.sync 0;", 1028), Status::Proved);
  EXPECT_EQ(bounds(number), Status::Unknown);
}

TEST(Counters, must_be_set_before_anyone_draws) {
  Parts together;
  together.set_barrier = "";
  EXPECT_EQ(bounds(together), Status::Unknown);
}

TEST(Counters, what_sets_it_must_be_constant_and_one) {
  Parts other;
  other.set = "st.shared.u32 [%r20], %r1;";
  EXPECT_EQ(bounds(other), Status::Unknown);
  Parts two;
  two.set = "st.shared.u32 [%r20], 5; setp.ne.u32 %p1, %r5, 0; @%p1 bra SET; st.shared.u32 [%r20], 0; SET:";
  EXPECT_EQ(bounds(two), Status::Unknown);
  Parts from_one;  // 257 is the end of the list
  from_one.set = "setp.ne.u32 %p1, %r5, 0; @%p1 bra SET; st.shared.u32 [%r20], 1; SET:";
  EXPECT_EQ(bounds(from_one), Status::Unknown);
}

TEST(Counters, a_thread_may_draw_once) {
  Parts twice;
  twice.draw = "mov.u32 %r30, 0; AGAIN: atom.shared.add.u32 %r8, [%r20], 1;";
  twice.between = "add.s32 %r30, %r30, 1; setp.lt.s32 %p5, %r30, 2; @%p5 bra AGAIN;";
  EXPECT_EQ(bounds(twice), Status::Unknown);
  Parts once;
  once.count = twice.count = kNotRead;
  EXPECT_EQ(bounds(once), Status::Proved);
  EXPECT_EQ(bounds(twice), Status::Unknown);
  Parts by_two;
  by_two.draw = "atom.shared.add.u32 %r8, [%r20], 2;";
  EXPECT_EQ(bounds(by_two), Status::Unknown);
}

TEST(Counters, nobody_else_may_write_it) {
  Parts also;
  also.between = "st.shared.u32 [%r20], %r2;";
  EXPECT_EQ(bounds(also), Status::Unknown);
}

TEST(Counters, in_a_loop_it_must_be_set_each_time) {
  const auto rounds = [](const char* head, const char* again) {
    Parts parts;
    parts.set = fmt::format("mov.u32 %r40, 0; {}", head) + parts.set;
    parts.last =
        fmt::format("bar.sync 0; add.s32 %r40, %r40, 1; setp.lt.s32 %p6, %r40, 3; @%p6 bra {};", again);
    return bounds(parts);
  };
  EXPECT_EQ(rounds("ROUND: ", "ROUND"), Status::Proved);
  EXPECT_EQ(rounds("", "SET"), Status::Unknown);  // behind the store: it goes on from where it was
}

// Set at the end of each round, behind which comes the barrier of the next one: not before the first.
TEST(Counters, must_be_set_before_the_first_round) {
  const auto rounds = [](const std::string& before) {
    Parts parts;
    parts.set = "mov.u32 %r40, 0; setp.ne.u32 %p1, %r5, 0;" + before + "ROUND:";
    parts.count = kNotRead;
    parts.last =
        "bar.sync 0; @%p1 bra SET; st.shared.u32 [%r20], 0; SET:"
        "add.s32 %r40, %r40, 1; setp.lt.s32 %p6, %r40, 3; @%p6 bra ROUND;";
    return bounds(parts);
  };
  EXPECT_EQ(rounds(""), Status::Unknown);
}

// Without a barrier between the draws of one round and what sets the counter for the next, some draws of the round before may
// come behind that. And with the counter set before the first round only, it goes on.
TEST(Counters, begin_each_round_from_their_start) {
  Parts rounds;
  rounds.set = "mov.u32 %r40, 0; ROUND: " + rounds.set;
  rounds.count = kNotRead;
  rounds.last = "add.s32 %r40, %r40, 1; setp.lt.s32 %p6, %r40, 3; @%p6 bra ROUND;";
  EXPECT_EQ(bounds(rounds), Status::Proved);
  rounds.barrier = "";
  EXPECT_EQ(bounds(rounds), Status::Unknown);
  Parts set_once;
  set_once.set_barrier = "bar.sync 0; mov.u32 %r40, 0; ROUND:";
  set_once.count = kNotRead;
  EXPECT_EQ(bounds(set_once), Status::Proved);
  set_once.last = rounds.last;
  EXPECT_EQ(bounds(set_once), Status::Unknown);
}

// An element that nobody has stored holds anything.
TEST(Lists, have_no_holes) {
  const std::string zero = "st.shared.u32 [%r20], 0", by_four = "shl.b32 %r12, %r8, 2;",
                    what = "add.s32 %r13, %r21, %r12;";
  EXPECT_EQ(bounds({}, zero, zero, 4096), Status::Proved);
  EXPECT_EQ(bounds({}, zero, "st.shared.u32 [%r20], 1", 4096), Status::Unknown);
  Parts by_two;
  by_two.draw = "atom.shared.add.u32 %r8, [%r20], 2;";
  EXPECT_EQ(bounds(by_two, zero, zero, 4096), Status::Unknown);
  EXPECT_EQ(bounds({}, by_four, "shl.b32 %r12, %r8, 3;", 4096), Status::Unknown);
  EXPECT_EQ(bounds({}, what, "add.s32 %r13, %r21, %r12; add.s32 %r13, %r13, 4;", 4096), Status::Unknown);
  const std::string store = "st.shared.u32 [%r13]";
  EXPECT_EQ(bounds({}, store, "setp.eq.u32 %p5, %r5, 3; @!%p5 st.shared.u32 [%r13]"), Status::Unknown);
}

TEST(Lists, are_not_written_otherwise) {
  Parts later;
  later.barrier =
      "bar.sync 0; setp.ne.u32 %p5, %r5, 7; @%p5 bra OVER; st.shared.u32 [s], 77777777; OVER: bar.sync 0;";
  EXPECT_EQ(bounds(later), Status::Unknown);
}

TEST(Lists, are_read_behind_a_barrier) {
  Parts at_once;
  at_once.barrier = "";
  EXPECT_EQ(bounds(at_once), Status::Unknown);
}

TEST(Lists, hold_what_the_guard_lets_through) {
  Parts unguarded;
  unguarded.guard = "";
  EXPECT_EQ(bounds(unguarded), Status::Unknown);
  Parts one_more;
  one_more.guard = "setp.gt.s32 %p2, %r2, %r1; @%p2 bra DRAWN;";
  EXPECT_EQ(bounds(one_more), Status::Unknown);
  Parts negative;  // t - 1 < n, but -1 is no element
  negative.what = "%r31";
  negative.guard = "sub.s32 %r31, %r2, 1; setp.ge.s32 %p2, %r31, %r1; @%p2 bra DRAWN;";
  EXPECT_EQ(bounds(negative), Status::Unknown);
}

TEST(Lists, are_read_below_the_count) {
  Parts beyond;
  beyond.count = "mov.u32 %r9, 256;";
  EXPECT_EQ(bounds(beyond), Status::Unknown);
  Parts next;  // the element behind the one that the loop has got to
  next.next = "shl.b32 %r11, %r10, 2; add.s32 %r11, %r11, 4;";
  EXPECT_EQ(bounds(next), Status::Unknown);
  Parts between;  // two elements
  between.next = "shl.b32 %r11, %r10, 2; add.s32 %r11, %r11, 2;";
  EXPECT_EQ(bounds(between), Status::Unknown);
  const std::string zero = "st.shared.u32 [%r20], 0";  // with room for both
  EXPECT_EQ(bounds(next, zero, zero, 4096), Status::Unknown);
  EXPECT_EQ(bounds(between, zero, zero, 4096), Status::Unknown);
}

// What a guard says of the thread that stored, it does not say of the one that reads.
TEST(Lists, hold_what_other_threads_have_compared_with_their_own) {
  Parts own;
  own.guard = "shl.b32 %r45, %r5, 3; add.s32 %r46, %r45, 1; setp.ge.s32 %p2, %r45, %r46; @%p2 bra DRAWN;";
  own.what = "%r45";
  own.first = "setp.ne.u32 %p7, %r5, 0; @%p7 bra DONE; mov.u32 %r10, 0;";
  EXPECT_EQ(bounds(own), Status::Unknown);
}

TEST(Lists, are_stored_by_whoever_draws) {
  Parts some;  // a number may be drawn and nothing stored
  some.between = "setp.eq.u32 %p5, %r5, 3; @%p5 bra DRAWN;";
  EXPECT_EQ(bounds(some), Status::Unknown);
  Parts another;
  another.between = "mov.u32 %r32, s; st.shared.u32 [%r32], 77777777;";
  EXPECT_EQ(bounds(another), Status::Unknown);
}

TEST(Lists, the_count_is_read_where_nobody_draws) {
  Parts early;  // by a thread that draws next
  early.count = "";
  early.guard = "ld.shared.u32 %r9, [%r20]; setp.ge.s32 %p2, %r2, %r1; @%p2 bra DRAWN;";
  EXPECT_EQ(bounds(early), Status::Unknown);
}

}  // namespace
}  // namespace assay::prove::testing
