// Messages between blocks, as parts of random kernels: the last block that reads what the others have left, and flags.
#pragma once

#include "fuzz/kernel_writer.h"

namespace assay::fuzz {

class MessageWriter : protected KernelWriter {
 public:
  using KernelWriter::KernelWriter;

 protected:
  // One thread of each block leaves a word and draws a number; the block that drew the last, or just its thread, reads what the
  // others have left. Or the number says which element the block is to store.
  void last_block() {
    const std::string w = fresh_long(), own = fresh_long(), at = fresh_long(), p = predicate(),
                      q = predicate(), drawn = fresh(), last = fresh(), place = fresh(), limit = fresh(),
                      over = label(), end = label();
    const bool broadcasts = kernel_.static_shared > 0 && !choices_.one_in(4);
    kernel_.zeroed = choices_.one_in(10) ? 0 : 4;
    add(fmt::format(
        "ld.param.u64 {}, [p4]; and.b32 {}, %r5, 255; mul.wide.u32 {}, {}, 4; add.s64 {}, {}, {};", w, place,
        at, place, own, w, at));
    const std::string leave = fmt::format("st.global.u32 [{}+4], %r3;", own);
    const bool all_leave = choices_.one_in(10);
    if (all_leave) add(leave);
    if (all_leave || choices_.one_in(8)) barrier();
    add(fmt::format("sub.u32 {}, %r6, {}; mov.u32 {}, 0;", limit, choices_.one_in(10) ? 2 : 1, last));
    add(fmt::format("setp.{}.u32 {}, %r3, {}; @{} bra {};", choices_.one_in(12) ? "gt" : "ne", p,
                    choices_.one_in(8) ? "1" : "0", p, over));
    if (!all_leave) add(leave);
    fence();
    add(choices_.one_in(3)
            ? fmt::format("atom.global.inc.u32 {}, [{}], {};", drawn, w, limit)
            : fmt::format("atom.global.add.u32 {}, [{}], {};", drawn, w, choices_.one_in(12) ? 2 : 1));
    if (choices_.one_in(16)) add(fmt::format("st.global.u32 [{}+4], %r5;", own));
    add(fmt::format("setp.{}.u32 {}, {}, {}; selp.u32 {}, 1, 0, {};", choices_.one_in(8) ? "ge" : "eq", q,
                    drawn, limit, last, q));
    const bool numbers = choices_.one_in(3);
    if (choices_.one_in(2)) fence();
    if (broadcasts) add(fmt::format("st.shared.u32 [c], {};", numbers ? drawn : last));
    add(over + ":");
    const std::string got = broadcasts ? fresh() : numbers ? drawn : last;
    if (broadcasts) barrier(10);
    if (broadcasts) add(fmt::format("ld.shared.u32 {}, [c];", got));
    if (numbers) {
      if (!broadcasts) add(fmt::format("@{} bra {};", p, end));
      leave_unless_below(got, "%r1", end);
      plain_store(got);
    } else {
      const std::string r = predicate(), sum = fresh();
      add(fmt::format("setp.eq.u32 {}, {}, 0; @{} bra {};", r, got, r, end));
      if (!choices_.one_in(3)) add(fmt::format("@{} bra {};", p, end));
      fence();
      add(fmt::format("ld.global.u32 {}, [{}+{}];", sum, w, 4 + 4 * choices_.below(3)));
      if (choices_.one_in(4)) add(fmt::format("st.global.u32 [{}], 0;", w));
      add(fmt::format("st.global.u32 [%rd2], {};", sum));
    }
    add(end + ":");
    if (choices_.one_in(3)) barrier();
  }

  // One thread of each block leaves a word and sets a flag; then it looks at the flag of another block, once or until it is set,
  // and reads what that one has left. Blocks are called by their index or by the number that they drew. The workspace has a
  // counter, 64 flags and 64 words.
  void flags() {
    const std::string w = fresh_long(), own = fresh_long(), at = fresh_long(), p = predicate(),
                      number = fresh(), place = fresh(), over = label(), end = label();
    const bool draws = !choices_.one_in(3),
               broadcasts = draws && kernel_.static_shared > 0 && !choices_.one_in(3);
    kernel_.zeroed = choices_.one_in(10) ? 4 : choices_.one_in(16) ? 128 : 260;
    add(fmt::format("ld.param.u64 {}, [p4]; mov.u32 {}, %r5;", w, number));
    add(fmt::format("setp.{}.u32 {}, %r3, {}; @{} bra {};", choices_.one_in(16) ? "gt" : "ne", p,
                    choices_.one_in(10) ? "1" : "0", p, over));
    if (draws) add(fmt::format("atom.global.add.u32 {}, [{}], {};", number, w, choices_.one_in(16) ? 2 : 1));
    if (broadcasts) add(fmt::format("st.shared.u32 [c], {};", number));
    add(over + ":");
    if (broadcasts) barrier(10);
    if (broadcasts) add(fmt::format("ld.shared.u32 {}, [c];", number));
    if (!choices_.one_in(6)) leave_unless_below(number, "64", end);
    add(fmt::format("and.b32 {}, {}, {}; mul.wide.u32 {}, {}, 4; add.s64 {}, {}, {};", place, number,
                    choices_.one_in(10) ? 1 : 63, at, place, own, w, at));
    if (broadcasts && choices_.one_in(6)) add(fmt::format("st.global.u32 [{}+260], %r3;", own));
    const std::string wait = label();
    if (!choices_.one_in(8)) add(fmt::format("@{} bra {};", p, wait));
    const bool late = choices_.one_in(12);
    if (!late) add(fmt::format("st.global.u32 [{}+260], %r3;", own));
    fence();
    set_flag(own, end);
    if (late) add(fmt::format("st.global.u32 [{}+260], %r3;", own));
    add(wait + ":");
    find_flag(own, number, p, end);
    add(end + ":");
    if (choices_.one_in(2)) barrier();
  }

 private:
  void fence() {
    if (!choices_.one_in(8)) add(choices_.one_in(12) ? "membar.cta;" : "membar.gl;");
  }

  void set_flag(const std::string& own, const std::string& end) {
    if (choices_.one_in(12)) leave_unless_below("%r2", "3", end);
    const uint32_t value = choices_.one_in(10) ? 0 : 1 + choices_.below(2);
    switch (choices_.below(5)) {
      case 0:
      case 1:
        add(fmt::format("atom.global.exch.b32 {}, [{}+4], {};", fresh(), own, value));
        break;
      case 2:
        add(fmt::format("st.volatile.global.u32 [{}+4], {};", own, value));
        break;
      case 3:
        add(fmt::format("st.{}.gpu.global.u32 [{}+4], {};", choices_.of<std::string>({"relaxed", "release"}),
                        own, value));
        break;
      default:
        add(fmt::format("{}.global.u32 [{}+4], {};", choices_.one_in(4) ? "st" : "st.volatile", own, value));
    }
    if (choices_.one_in(12)) add(fmt::format("atom.global.exch.b32 {}, [{}+4], 0;", fresh(), own));
  }

  void find_flag(const std::string& own, const std::string& number, const std::string& others,
                 const std::string& end) {
    const std::string first = predicate(), missing = predicate(), seen = fresh(), again = label(),
                      found = label();
    const int back = choices_.one_in(8) ? -1 : choices_.one_in(8) ? 0 : 1;  // the tile that is looked at
    const bool for_all = choices_.one_in(4);
    add(fmt::format("setp.lt.s32 {}, {}, 1; @{} bra {};", first, number, first, end));
    add(fmt::format("@{} bra {};", others, for_all ? found : end));
    add(again + ":");
    const bool atomic = choices_.one_in(2);
    add(fmt::format("{} {}, [{}+{}]{};", atomic ? "atom.global.add.u32" : "ld.volatile.global.u32", seen, own,
                    4 - 4 * back, atomic ? ", 0" : ""));
    add(fmt::format("setp.{}.u32 {}, {}, {}; @{} bra {};", choices_.one_in(12) ? "ne" : "eq", missing, seen,
                    choices_.one_in(12) ? 1 : 0, missing, choices_.one_in(2) ? again : end));
    fence();
    add(found + ":");
    if (for_all) barrier(6);
    const std::string got = fresh();
    add(fmt::format("ld.global.u32 {}, [{}+{}];", got, own, 260 - 4 * (choices_.one_in(10) ? 2 : back)));
    known_.push_back(got);
  }
};

}  // namespace assay::fuzz
