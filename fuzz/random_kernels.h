// Small random kernels in PTX, for contradicting proofs: index arithmetic, guards, loops, vectors, shared memory with barriers,
// warp operations, atomics, asynchronous copies, messages between blocks.
//
// Arithmetic on random operands is hardly ever in bounds, and a proof that never succeeds cannot be wrong. So a
// kernel is made of the usual parts (a guarded store, a strided loop, a reduction in shared memory), and each part
// is sometimes made a little wrong: another comparison, another constant, a missing guard or barrier.
#pragma once

#include "fuzz/random_messages.h"

namespace assay::fuzz {

class KernelMaker : MessageWriter {
 public:
  using MessageWriter::MessageWriter;

  // `covers`: the kernel writes every element of y, or nearly so.
  RandomLaunch make(bool covers) {
    covers_ = covers;
    launch();
    add("ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u32 %r1, [p2]; ld.param.u32 %r2, [p3];");
    add("cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2;");
    add("mov.u32 %r3, %tid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %nctaid.x;");
    add("mad.lo.s32 %r7, %r5, %r4, %r3;");  // the thread's number in the grid
    add("mul.lo.s32 %r8, %r6, %r4;");       // threads of the grid
    add("mov.u32 %r9, %tid.y;");
    known_ = {"%r1", "%r2", "%r3", "%r4", "%r5", "%r6", "%r7", "%r8"};
    if (kernel_.block_y != "1") known_.push_back("%r9");
    if (covers_) covering();
    if (choices_.one_in(2)) declare_shared();
    const uint32_t parts = (covers_ ? 0 : 1) + choices_.below(3);
    for (uint32_t i = 0; i < parts; ++i) part(2);
    kernel_.body = std::move(text_);
    return std::move(kernel_);
  }

 private:
  // What the innermost statement does.
  void access() {
    const Index at = usual();
    const std::string end = label();
    if (!choices_.one_in(10)) {
      const std::string p = predicate();
      const std::string op = choices_.one_in(8) ? choices_.of<std::string>({"gt", "ne", "lt"}) : "ge";
      add(fmt::format("setp.{}.{}32 {}, {}, {};", op, choices_.one_in(3) ? "u" : "s", p, at.index, at.bound));
      add(fmt::format("@{} bra {};", p, end));
    }
    std::string what = choices_.of(known_);
    if (choices_.one_in(2)) what = load(at.index, !choices_.one_in(8));
    std::string where = at.index;
    if (choices_.one_in(4)) where = load(at.index, true);  // an index tensor
    store(where, what);
    add(end + ":");
  }

  void strided() {
    const std::string i = fresh(), head = label(), end = label(), p = predicate();
    const std::string start = choices_.of<std::string>({"%r7", "%r3", "%r5", "0", "1"});
    const std::string step = choices_.of<std::string>({"%r8", "%r4", "1", "2", "4", "%r6"});
    const std::string bound = choices_.one_in(4) ? choices_.of(known_) : "%r1";
    const bool down = choices_.one_in(8);
    add(fmt::format("mov.u32 {}, {};", i, down ? bound : start));
    const std::string trips = fresh();
    add(fmt::format("mov.u32 {}, 0;", trips));
    add(head + ":");
    if (down) {
      add(fmt::format("setp.{}.s32 {}, {}, {};", choices_.one_in(3) ? "eq" : "le", p, i,
                      choices_.one_in(4) ? "1" : "0"));
    } else {
      add(fmt::format("setp.{}.{}32 {}, {}, {};", choices_.one_in(6) ? "gt" : "ge",
                      choices_.one_in(3) ? "u" : "s", p, i, bound));
    }
    add(fmt::format("@{} bra {};", p, end));
    const auto before = known_;
    const std::string at = fresh();
    if (down && !choices_.one_in(4)) {
      add(fmt::format("add.s32 {}, {}, -1;", at, i));
    } else {
      add(fmt::format("mov.u32 {}, {};", at, i));
    }
    known_.push_back(at);
    if (choices_.one_in(3)) {
      access();
    } else {
      store(at, choices_.one_in(2) ? load(at, true) : std::string("7"));
    }
    if (choices_.one_in(5)) add("bar.sync 0;");
    known_ = before;
    if (choices_.one_in(6)) {
      const std::string q = comparison(trips, "3");
      add(fmt::format("@{} bra {};", q, end));  // leaves early
    }
    add(fmt::format("add.s32 {}, {}, 1;", trips, trips));
    if (down) {
      add(fmt::format("add.s32 {}, {}, -1;", i, i));
    } else {
      add(fmt::format("add.s32 {}, {}, {};", i, i, step));
    }
    add(fmt::format("bra {};", head));
    add(end + ":");
    known_.push_back(i);
  }

  // Every thread writes a word, waits, and reads another thread's; or a tree of halving strides.
  void exchange() {
    if (shared_words_ == 0) return access();
    std::string mine = "%r3";
    if (choices_.one_in(6)) mine = value(1);
    const std::string end = label(), p = predicate();
    const bool guarded = choices_.one_in(2);
    const std::string size = words();
    if (guarded) {
      add(fmt::format("setp.ge.u32 {}, {}, {};", p, mine, size));
      add(fmt::format("@{} bra {};", p, end));
    }
    add(fmt::format("st{}.shared.u32 [{}], {};", volatile_, shared_address(mine), choices_.of(known_)));
    if (guarded) add(end + ":");
    if (!choices_.one_in(6)) add("bar.sync 0;");
    if (choices_.one_in(3)) {
      tree();
    } else {
      const std::string other = fresh(), q = predicate(), skip = label();
      const std::vector<std::string> forms = {
          fmt::format("sub.s32 {}, {}, 1;", other, "%r4"), fmt::format("add.s32 {}, {}, 1;", other, mine),
          fmt::format("xor.b32 {}, {}, 1;", other, mine), fmt::format("sub.s32 {}, %r4, %r3;", other),
          fmt::format("mov.u32 {}, {};", other, mine)};
      add(choices_.of(forms));
      add(fmt::format("setp.ge.u32 {}, {}, {};", q, other, choices_.one_in(4) ? "%r4" : size));
      add(fmt::format("@{} bra {};", q, skip));
      const std::string out = fresh();
      add(fmt::format("ld{}.shared.u32 {}, [{}];", volatile_, out, shared_address(other)));
      if (choices_.one_in(3)) {
        if (choices_.one_in(2))
          add(fmt::format("st{}.shared.u32 [{}], {};", volatile_, shared_address(mine), out));
      } else {
        const Index at = usual();
        const std::string r = predicate();
        add(fmt::format("setp.ge.u32 {}, {}, {}; @{} bra {};", r, at.index, at.bound, r, skip));
        store(at.index, out);
      }
      add(skip + ":");
    }
    if (choices_.one_in(2)) add("bar.sync 0;");
  }

  void tree() {
    const std::string s = fresh(), head = label(), skip = label(), end = label(), p = predicate(),
                      q = predicate();
    const std::string other = fresh(), a = fresh(), b = fresh();
    add(fmt::format("shr.u32 {}, %r4, 1;", s));
    add(head + ":");
    add(fmt::format("setp.eq.u32 {}, {}, 0; @{} bra {};", p, s, p, end));
    add(fmt::format("setp.{}.u32 {}, %r3, {}; @{} bra {};", choices_.one_in(6) ? "gt" : "ge", q, s, q, skip));
    add(fmt::format("add.s32 {}, %r3, {};", other, s));
    add(fmt::format("ld{}.shared.u32 {}, [{}];", volatile_, a, shared_address(other)));
    add(fmt::format("ld{}.shared.u32 {}, [{}];", volatile_, b, shared_address("%r3")));
    add(fmt::format("add.s32 {}, {}, {};", a, a, b));
    add(fmt::format("st{}.shared.u32 [{}], {};", volatile_, shared_address("%r3"), a));
    add(skip + ":");
    if (!choices_.one_in(6)) add("bar.sync 0;");
    add(fmt::format("shr.u32 {}, {}, 1; bra {};", s, s, head));
    add(end + ":");
  }

  // Every element once: by one thread each, in a loop over all of them, row by row, or four at a time.
  void covering() {
    const std::string count = fresh();
    switch (extent_) {
      case Extent::N:
        add(fmt::format("mov.u32 {}, %r1;", count));
        break;
      case Extent::NTimesM:
        add(fmt::format("mul.lo.s32 {}, %r1, %r2;", count));
        break;
      case Extent::NPlusM:
        add(fmt::format("add.s32 {}, %r1, %r2;", count));
        break;
      default:
        add(fmt::format("shl.b32 {}, %r1, 2;", count));
    }
    if (choices_.one_in(12)) add(fmt::format("add.s32 {}, {}, -1;", count, count));
    const std::string end = label(), head = label(), i = fresh(), p = predicate(), q = predicate();
    if (extent_ == Extent::NTimesM && choices_.one_in(3)) {
      const std::string at = fresh();
      add(fmt::format("setp.ge.s32 {}, %r5, %r1; @{} bra {};", p, p, end));
      add(fmt::format("mov.u32 {}, %r3;", i));
      add(head + ":");
      add(fmt::format("setp.ge.s32 {}, {}, %r2; @{} bra {};", q, i, q, end));
      add(fmt::format("mad.lo.s32 {}, %r5, %r2, {};", at, i));
      plain_store(at);
      add(fmt::format("add.s32 {}, {}, %r4; bra {};", i, i, head));
    } else if (extent_ == Extent::FourN && choices_.one_in(3)) {
      add(fmt::format("setp.ge.s32 {}, %r7, %r1; @{} bra {};", p, p, end));
      add(fmt::format("shl.b32 {}, %r7, {};", i, choices_.one_in(12) ? 3 : 2));
      add(fmt::format("st.global.v4.u32 [{}], {{1, 2, 3, 4}};", plain_address(i)));
    } else if (choices_.one_in(2)) {
      add(fmt::format("setp.ge.{}32 {}, %r7, {}; @{} bra {};", choices_.one_in(3) ? "u" : "s", p, count, p,
                      end));
      plain_store("%r7");
    } else {
      add(fmt::format("mov.u32 {}, %r7;", i));
      add(head + ":");
      add(fmt::format("setp.ge.s32 {}, {}, {}; @{} bra {};", q, i, count, q, end));
      plain_store(i);
      add(fmt::format("add.s32 {}, {}, {}; bra {};", i, i, choices_.one_in(12) ? "%r4" : "%r8", head));
    }
    add(end + ":");
  }

  // ---- more of what kernels are made of

  // A prefix sum with doubling (or other) distances: s[i] += s[i - step], a barrier before and after.
  void scan() {
    if (shared_words_ == 0) return access();
    const std::string step = fresh(), head = label(), done = label(), p = predicate(), out = fresh(),
                      sum = fresh();
    const std::string end = label(), from = fresh();
    const bool halving = choices_.one_in(3);
    const std::string limit = choices_.one_in(2) ? "%r4" : fmt::format("{}", shared_words_);
    leave_unless_below("%r3", words(), end);
    add(fmt::format("st.shared.u32 [{}], %r7;", shared_address("%r3")));
    add(end + ":");
    barrier();
    add(fmt::format("mov.u32 {}, {};", step, halving ? std::to_string(shared_words_ / 2) : "1"));
    add(head + ":");
    if (halving) {
      add(fmt::format("setp.eq.u32 {}, {}, 0; @{} bra {};", p, step, p, done));
    } else {
      add(fmt::format("setp.ge.s32 {}, {}, {}; @{} bra {};", p, step, limit, p, done));
    }
    const auto under_guard = [&](const auto& body) {
      const std::string q = predicate(), r = predicate(), skip = label();
      add(fmt::format("setp.{}.{}32 {}, %r3, {}; @{} bra {};", choices_.one_in(8) ? "le" : "lt",
                      choices_.one_in(4) ? "u" : "s", q, step, q, skip));
      add(fmt::format("setp.ge.u32 {}, %r3, {}; @{} bra {};", r, words_, r, skip));
      body();
      add(skip + ":");
    };
    under_guard([&] {
      add(fmt::format("sub.s32 {}, %r3, {};", from, step));
      add(fmt::format("ld.shared.u32 {}, [{}];", out, shared_address(from)));
    });
    barrier();
    under_guard([&] {
      const std::string mine = fresh(), at = shared_address("%r3");
      add(fmt::format("ld.shared.u32 {}, [{}]; add.s32 {}, {}, {}; st.shared.u32 [{}], {};", mine, at, sum,
                      mine, out, at, sum));
    });
    barrier();
    add(fmt::format("{} {}, {}, 1;", halving ? "shr.u32" : "shl.b32", step, step));
    add(fmt::format("bra {};", head));
    add(done + ":");
  }

  // y[i] = x[i - step] and the like: a neighbour, under a guard of one comparison or two.
  void neighbour() {
    const std::string end = label(), at = fresh();
    const Index mine = usual();
    const int step = choices_.of<int>({1, 1, 2, 4, -1});
    add(fmt::format("sub.s32 {}, {}, {};", at, mine.index, step));
    leave_unless_below(mine.index, mine.bound, end);
    const std::string p = predicate();
    if (choices_.one_in(2)) {
      add(fmt::format("setp.ge.u32 {}, {}, {}; @{} bra {};", p, at, mine.bound, p, end));
    } else {
      add(fmt::format("setp.lt.s32 {}, {}, {}; @{} bra {};", p, mine.index,
                      choices_.one_in(6) ? step - 1 : step, p, end));
    }
    const std::string what = load(at, !choices_.one_in(6));
    store(choices_.one_in(6) ? at : mine.index, what);
    add(end + ":");
  }

  // Four elements at a time, and what is left over one by one.
  void vectors() {
    const std::string first = fresh(), last = fresh(), rest = label(), end = label(), p = predicate();
    const int width = choices_.of<int>({4, 4, 2});
    const Index mine = usual();
    add(fmt::format("shl.b32 {}, {}, {};", first, mine.index, choices_.one_in(12) ? 1 : width == 4 ? 2 : 1));
    add(fmt::format("add.s32 {}, {}, {};", last, first, choices_.one_in(4) ? 0 : width - 1));
    add(fmt::format("setp.ge.{}32 {}, {}, {}; @{} bra {};", choices_.one_in(3) ? "u" : "s", p, last,
                    mine.bound, p, rest));
    const std::string from = address(first, true), to = address(first, false);
    const std::string values = width == 4
                                   ? fmt::format("{{{}, {}, {}, {}}}", fresh(), fresh(), fresh(), fresh())
                                   : fmt::format("{{{}, {}}}", fresh(), fresh());
    add(fmt::format("ld.global{}.v{}.u32 {}, [{}];", choices_.one_in(3) ? ".nc" : "", width, values, from));
    add(fmt::format("st.global.v{}.u32 [{}], {};", width, to, values));
    add(fmt::format("bra {};", end));
    add(rest + ":");
    if (choices_.one_in(2)) {
      const std::string i = fresh(), head = label(), q = predicate();
      add(fmt::format("mov.u32 {}, {};", i, first));
      add(head + ":");
      add(fmt::format("setp.ge.s32 {}, {}, {}; @{} bra {};", q, i, mine.bound, q, end));
      store(i, "5");
      add(fmt::format("add.s32 {}, {}, 1; bra {};", i, i, head));
    }
    add(end + ":");
  }

  // A place in shared memory drawn from a counter.
  void tickets() {
    if (kernel_.static_shared == 0) return access();
    const std::string p = predicate(), skip = label(), end = label(), counter = fresh(), drawn = fresh();
    add(fmt::format("mov.u32 {}, c;", counter));
    add(fmt::format("setp.ne.s32 {}, %r3, 0; @{} bra {}; st.shared.u32 [{}], 0;", p, p, skip, counter));
    add(skip + ":");
    barrier();
    if (choices_.one_in(2)) {
      const std::string q = comparison(choices_.of(known_), choices_.of(known_));
      add(fmt::format("@{} bra {};", q, end));
    }
    add(fmt::format("atom.shared.add.u32 {}, [{}], {};", drawn, counter, choices_.one_in(8) ? 2 : 1));
    leave_unless_below(drawn, choices_.one_in(2) ? "%r1" : words(), end);
    if (choices_.one_in(2)) {
      store(drawn, "%r3");
    } else {
      add(fmt::format("st.shared.u32 [{}], %r3;", shared_address(drawn)));
    }
    add(end + ":");
    barrier(2);
  }

  // Who finds something puts it into a list, and all go over the list: by the counter, or by something else.
  void list() {
    if (kernel_.static_shared == 0 || shared_words_ == 0) return access();
    const std::string p = predicate(), skip = label(), end = label(), counter = fresh(), drawn = fresh();
    const std::string start = choices_.one_in(8) ? "1" : "0";
    add(fmt::format("mov.u32 {}, c;", counter));
    add(fmt::format("setp.ne.s32 {}, %r3, {}; @{} bra {}; st.shared.u32 [{}], {};", p,
                    choices_.one_in(8) ? "1" : "0", p, skip, counter, start));
    add(skip + ":");
    barrier();
    const std::string what = choices_.of<std::string>({"%r3", "%r7", "%r7", choices_.of(known_)});
    leave_unless_below(what, choices_.one_in(6) ? "%r2" : "%r1", end);
    const std::string at = fresh(), base = fresh();
    add(fmt::format("atom.shared.add.u32 {}, [{}], {};", drawn, counter, choices_.one_in(8) ? 2 : 1));
    add(fmt::format("mov.u32 {}, s; shl.b32 {}, {}, 2; add.s32 {}, {}, {}; st.shared.u32 [{}], {};", base, at,
                    drawn, at, at, base, at, what));
    add(end + ":");
    barrier();
    go_over_list(counter);
    barrier(3);
  }

  void go_over_list(const std::string& counter) {
    const std::string count = fresh(), i = fresh(), head = label(), done = label(), p = predicate(),
                      found = fresh();
    add(fmt::format("ld.shared.u32 {}, [{}];", count, counter));
    if (choices_.one_in(8)) add(fmt::format("add.s32 {}, {}, 1;", count, count));
    add(fmt::format("mov.u32 {}, {}; {}:", i, choices_.one_in(8) ? "1" : "0", head));
    add(fmt::format("setp.{}.s32 {}, {}, {}; @{} bra {};", choices_.one_in(8) ? "gt" : "ge", p, i,
                    choices_.one_in(8) ? "%r1" : count, p, done));
    add(fmt::format("ld.shared.u32 {}, [{}];", found, shared_address(i)));
    const std::string value = load(found, true);
    if (choices_.one_in(2)) store(found, value);
    add(fmt::format("add.s32 {}, {}, 1; bra {}; {}:", i, i, head, done));
  }

  // Rounds over tiles: each thread brings a word, all wait, each reads another's, all wait again.
  void rounds() {
    if (shared_words_ == 0) return strided();
    const std::string i = fresh(), head = label(), done = label(), p = predicate(), at = fresh();
    const bool copied = choices_.one_in(3);  // by cp.async
    add(fmt::format("mov.u32 {}, {};", i, choices_.of<std::string>({"0", "0", "0", "%r5", "%r3"})));
    add(head + ":");
    add(fmt::format("setp.ge.s32 {}, {}, {}; @{} bra {};", p, i, choices_.one_in(4) ? "%r2" : "%r1", p,
                    done));
    add(fmt::format("add.s32 {}, {}, %r3;", at, i));
    const std::string skip = label(), over = label();
    leave_unless_below(at, "%r1", skip);
    if (!choices_.one_in(6)) leave_unless_below("%r3", words(), skip);
    if (copied) {
      add(fmt::format("cp.async.ca.shared.global [{}], [{}], 4;", shared_address("%r3"), address(at, true)));
    } else {
      add(fmt::format("st.shared.u32 [{}], {};", shared_address("%r3"), load(at, true)));
    }
    add(skip + ":");
    if (copied && !choices_.one_in(8)) add("cp.async.commit_group; cp.async.wait_group 0;");
    if (copied && choices_.one_in(3)) add("cp.async.wait_all;");
    barrier();
    const std::string other = fresh(), out = fresh();
    add(choices_.of<std::string>(
        {fmt::format("sub.s32 {}, %r4, %r3; sub.s32 {}, {}, 1;", other, other, other),
         fmt::format("mov.u32 {}, %r3;", other), fmt::format("xor.b32 {}, %r3, 1;", other),
         fmt::format("mov.u32 {}, 0;", other)}));
    leave_unless_below(other, words(), over);
    add(fmt::format("ld{}.shared.u32 {}, [{}];", volatile_, out, shared_address(other)));
    if (choices_.one_in(2)) {
      leave_unless_below(at, "%r1", over);
      store(at, out);
    }
    add(over + ":");
    barrier(6);
    add(fmt::format("add.s32 {}, {}, {}; bra {};", i, i, choices_.one_in(6) ? "%r8" : "%r4", head));
    add(done + ":");
  }

  // Rows and columns: index = row * m + column, or of the transposed.
  void rows() {
    const std::string row = choices_.of<std::string>({"%r5", "%r7", "%r9", "%r3"});
    const std::string column = fresh(), head = label(), end = label(), at = fresh(), p = predicate();
    leave_unless_below(row, "%r1", end);
    const bool loop = choices_.one_in(2);
    add(fmt::format("mov.u32 {}, {};", column, choices_.of<std::string>({"%r3", "%r9", "0", "%r5"})));
    if (loop) add(head + ":");
    if (!choices_.one_in(8)) add(fmt::format("setp.ge.s32 {}, {}, %r2; @{} bra {};", p, column, p, end));
    if (choices_.one_in(6)) {
      add(fmt::format("mad.lo.s32 {}, {}, %r1, {};", at, column, row));
    } else {
      add(fmt::format("mad.lo.s32 {}, {}, %r2, {};", at, row, column));
    }
    std::string what = "9";
    if (choices_.one_in(2)) what = load(at, true);
    store(at, what);
    if (loop) {
      const std::string step = choices_.of<std::string>({"%r4", "1", "%r4"});
      const std::string q = predicate();
      add(fmt::format("add.s32 {}, {}, {}; setp.lt.s32 {}, {}, %r2; @{} bra {};", column, column, step, q,
                      column, q, head));
    }
    add(end + ":");
  }

  // A loop of four elements a turn, and a loop for the rest, as nvcc makes of `for (i = …; i < n; ++i)`.
  void unrolled() {
    const std::string i = fresh(), rest = fresh(), whole = fresh(), head = label(), tail = label(),
                      again = label(), end = label();
    const std::string p = predicate(), q = predicate(), r = predicate();
    add(fmt::format("setp.ne.s32 {}, {}, 0; @{} bra {};", p, choices_.one_in(2) ? "%r7" : "%r3", p, end));
    add(fmt::format("mov.u32 {}, 0; and.b32 {}, %r1, 3; sub.s32 {}, %r1, {};", i, rest, whole, rest));
    add(fmt::format("setp.lt.s32 {}, %r1, 4; @{} bra {};", q, q, tail));
    add(head + ":");
    const std::string to = address(i, false);
    for (int lane = 0; lane < 4; ++lane)
      add(fmt::format("st.global.u32 [{}+{}], {};", to, 4 * lane + (choices_.one_in(24) ? 4 : 0), lane));
    add(fmt::format("add.s32 {}, {}, 4; add.s32 {}, {}, -4;", i, i, whole, whole));
    add(fmt::format("setp.{}.s32 {}, {}, 0; @{} bra {};", choices_.one_in(6) ? "gt" : "ne", r, whole, r,
                    head));
    add(tail + ":");
    const std::string t = predicate(), u = predicate();
    add(fmt::format("setp.eq.s32 {}, {}, 0; @{} bra {};", t, rest, t, end));
    add(again + ":");
    store(i, "6");
    add(fmt::format("add.s32 {}, {}, 1; add.s32 {}, {}, -1; setp.ne.s32 {}, {}, 0; @{} bra {};", i, i, rest,
                    rest, u, rest, u, again));
    add(end + ":");
  }

  void condition(int depth) {
    const std::string p =
        comparison(value(1), choices_.one_in(2) ? choices_.of(known_) : fmt::format("{}", constant()));
    const std::string other = label(), end = label();
    add(fmt::format("@!{} bra {};", p, other));
    const auto before = known_;
    part(depth - 1);
    known_ = before;
    add(fmt::format("bra {};", end));
    add(other + ":");
    if (choices_.one_in(3)) part(depth - 1);
    known_ = before;
    add(end + ":");
  }

  void leave() {
    const std::string p = comparison(choices_.of(known_), choices_.of(known_));
    add(fmt::format("@{} ret;", p));
  }

  void warp() {
    const std::string out = fresh();
    const std::string lanes =
        choices_.one_in(6) ? choices_.of<std::string>({"1", "65535", "15", "%r1"}) : "-1";
    switch (choices_.below(5)) {
      case 0:
        add(fmt::format("shfl.sync.{}.b32 {}, {}, {}, {};", choices_.of<std::string>({"bfly", "down"}), out,
                        choices_.of(known_), 1 << choices_.below(5), "31, " + lanes));
        break;
      case 1:
        add(fmt::format("shfl.sync.idx.b32 {}, {}, 0, 31, {};", out, choices_.of(known_), lanes));
        break;
      case 2: {
        const std::string p = comparison(choices_.of(known_), choices_.of(known_));
        add(fmt::format("vote.sync.ballot.b32 {}, {}, {};", out, p, lanes));
        break;
      }
      case 3:
        add(fmt::format("activemask.b32 {};", out));
        break;
      default:
        add(fmt::format("bar.warp.sync {};", lanes));
        return;
    }
    known_.push_back(out);
  }

  void part(int depth) {
    switch (choices_.below(27)) {
      case 22:
      case 23:
        return last_block();
      case 24:
      case 25:
      case 26:
        return flags();
      case 0:
      case 1:
      case 2:
      case 3:
        return shared_words_ > 0 && choices_.one_in(2) ? exchange() : access();
      case 4:
      case 5:
      case 6:
        return strided();
      case 7:
        return exchange();
      case 8:
      case 9:
        return depth > 0 ? condition(depth) : access();
      case 10:
        if (choices_.one_in(3)) return warp();
        if (choices_.one_in(3)) return leave();
        known_.push_back(value(2));
        return access();
      case 11:
        return scan();
      case 12:
      case 13:
        return neighbour();
      case 14:
      case 15:
        return vectors();
      case 16:
        return choices_.one_in(2) ? list() : tickets();
      case 17:
        return rounds();
      case 18:
      case 19:
        return rows();
      case 20:
        return unrolled();
      default:
        if (choices_.one_in(3)) add("bar.sync 0;");
        return access();
    }
  }
};

}  // namespace assay::fuzz
