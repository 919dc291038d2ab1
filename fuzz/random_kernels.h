// Small random kernels in PTX, for contradicting proofs: index arithmetic, guards, loops, shared memory with
// barriers, warp operations.
//
//   Choices choices(bytes, size);
//   RandomKernel kernel = random_kernel(choices);   // kernel.toml, kernel.ptx, kernel.parameters …
//
// Arithmetic on random operands is hardly ever in bounds, and a proof that never succeeds cannot be wrong. So a
// kernel is made of the usual parts (a guarded store, a strided loop, a reduction in shared memory), and each part
// is sometimes made a little wrong: another comparison, another constant, a missing guard or barrier.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace assay::fuzz {

// Decisions that come from the fuzzer's bytes; zeros when they are used up.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint32_t below(uint32_t n) { return n == 0 ? 0 : next() % n; }
  bool one_in(uint32_t n) { return below(n) == n - 1; }
  template <class T>
  T of(const std::vector<T>& list) {
    return list[below(static_cast<uint32_t>(list.size()))];
  }
  bool used_up() const { return at_ >= size_; }

 private:
  uint32_t next() {
    if (at_ >= size_) return 0;
    return data_[at_++];
  }
  const uint8_t* data_;
  size_t size_, at_ = 0;
};

struct RandomKernel {
  std::string dims;  // of the contract, TOML
  std::string x, y;  // keys of the tables of the tensors x (i32, indices) and y (i32)
  std::string grid, block;
  std::string shared;  // declarations in the module
  std::string body;
  bool large = false;  // the promised range goes beyond the shapes that are run
  uint32_t shared_words = 0;
};

// Parameters are always: x, y, n, m.
class KernelMaker {
 public:
  explicit KernelMaker(Choices& choices) : choices_(choices) {}

  RandomKernel make() {
    kernel_.large = choices_.one_in(3);
    const std::string most = kernel_.large ? "3000000" : "9";
    const std::string by = choices_.one_in(4) ? ", multiple_of = 4" : "";
    kernel_.dims =
        fmt::format("n = {{ min = {}, max = {}{} }}\nm = {{ min = 1, max = {} }}", by.empty() ? 1 : 4,
                    by.empty()      ? most
                    : kernel_.large ? "3000000"
                                    : "12",
                    by, kernel_.large ? "700" : "4");
    sizes();
    launch();
    add("ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; ld.param.u32 %r1, [p2]; ld.param.u32 %r2, [p3];");
    add("cvta.to.global.u64 %rd1, %rd1; cvta.to.global.u64 %rd2, %rd2;");
    add("mov.u32 %r3, %tid.x; mov.u32 %r4, %ntid.x; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %nctaid.x;");
    add("mad.lo.s32 %r7, %r5, %r4, %r3;");  // the thread's number in the grid
    add("mul.lo.s32 %r8, %r6, %r4;");       // threads of the grid
    known_ = {"%r1", "%r2", "%r3", "%r4", "%r5", "%r6", "%r7", "%r8"};
    if (choices_.one_in(2)) declare_shared();
    const uint32_t parts = 1 + choices_.below(3);
    for (uint32_t i = 0; i < parts; ++i) part(2);
    kernel_.body = std::move(text_);
    return std::move(kernel_);
  }

 private:
  void add(const std::string& line) { text_ += "  " + line + "\n"; }
  std::string fresh() { return fmt::format("%r{}", next_register_++); }
  std::string fresh_long() { return fmt::format("%rd{}", next_long_++); }
  std::string predicate() { return fmt::format("%p{}", next_predicate_++); }
  std::string label() { return fmt::format("L{}", next_label_++); }

  // The extents of the tensors, mostly those that the usual accesses need.
  void sizes() {
    kind_ = choices_.below(4);  // y has n, n * m, n + m or 4 * n elements
    const std::vector<std::string> sizes = {"\"n\"", "\"n\", \"m\"", "\"n + m\"", "\"4 * n\""};
    kernel_.y = fmt::format("dtype = \"i32\"\nshape = [{}]\nrole = \"inout\"\nvalues = \"integers(0, 3)\"",
                            sizes[kind_]);
    kernel_.x = fmt::format("dtype = \"i32\"\nshape = [{}]\nvalues = \"index(n)\"", sizes[kind_]);
  }

  void launch() {
    const uint32_t threads = choices_.of<uint32_t>({4, 8, 32, 33, 64, 1});
    kernel_.block = fmt::format("{}", threads);
    const std::vector<std::string> grids = {fmt::format("ceil_div(n, {})", threads),
                                            "n",
                                            "m",
                                            "1",
                                            "2",
                                            fmt::format("ceil_div(n * m, {})", threads),
                                            fmt::format("min(ceil_div(n, {}), 3)", threads)};
    kernel_.grid = choices_.of(grids);
    if (choices_.one_in(8) && !kernel_.large) kernel_.block = "n";
    threads_ = threads;
  }

  void declare_shared() {
    kernel_.shared_words = choices_.of<uint32_t>({64, 32, 33, 8, 16});
    kernel_.shared = fmt::format(".shared .align 16 .b8 s[{}];", 4 * kernel_.shared_words);
  }

  // ---- expressions: the name of a register that holds one

  int64_t constant() {
    static const std::vector<int64_t> kConstants = {
        1, 2,     3,          4,          8,  31,  32,           33, -1,  -4,
        7, 65536, 0x40000000, 0x7fffffff, 16, 255, 0x80000000LL, 5,  100, 0xffffLL};
    return choices_.of(kConstants);
  }

  std::string value(int depth) {
    if (depth == 0 || choices_.one_in(3)) return choices_.of(known_);
    const std::string a = value(depth - 1), out = fresh();
    const std::string b =
        choices_.one_in(2) ? value(depth - 1) : fmt::format("{}", static_cast<int32_t>(constant()));
    switch (choices_.below(16)) {
      case 0:
      case 1:
      case 2:
        add(fmt::format("add.s32 {}, {}, {};", out, a, b));
        break;
      case 3:
        add(fmt::format("sub.s32 {}, {}, {};", out, a, b));
        break;
      case 4:
      case 5:
        add(fmt::format("mul.lo.s32 {}, {}, {};", out, a, b));
        break;
      case 6:
        add(fmt::format("mad.lo.s32 {}, {}, {}, {};", out, a, b, choices_.of(known_)));
        break;
      case 7:
        add(fmt::format("and.b32 {}, {}, {};", out, a, choices_.of<int>({1, 3, 7, 31, 63, 255, -4, -2})));
        break;
      case 8:
        add(fmt::format("shl.b32 {}, {}, {};", out, a, choices_.of<int>({1, 2, 3, 5, 16, 31})));
        break;
      case 9:
        add(fmt::format("shr.{}32 {}, {}, {};", choices_.one_in(2) ? "u" : "s", out, a,
                        choices_.of<int>({1, 2, 5, 31})));
        break;
      case 10:
        add(fmt::format("{}.{}32 {}, {}, {};", choices_.one_in(2) ? "min" : "max",
                        choices_.one_in(2) ? "u" : "s", out, a, b));
        break;
      case 11:
        add(fmt::format(
            "{}.{}32 {}, {}, {};", choices_.one_in(2) ? "div" : "rem", choices_.one_in(2) ? "u" : "s", out, a,
            choices_.one_in(2) ? "%r1" : fmt::format("{}", choices_.of<int>({1, 2, 3, 4, 8, 32}))));
        break;
      case 12: {
        const std::string p = comparison(a, b);
        add(fmt::format("selp.b32 {}, {}, {}, {};", out, a, choices_.of(known_), p));
        break;
      }
      case 13: {  // through 16 bits
        const std::string h = fmt::format("%h{}", next_half_++);
        add(fmt::format("cvt.u16.u32 {}, {}; cvt.{}.{}16 {}, {};", h, a, choices_.one_in(2) ? "u32" : "s32",
                        choices_.one_in(2) ? "u" : "s", out, h));
        break;
      }
      case 14:
        add(fmt::format("{}.b32 {}, {}, {};", choices_.one_in(2) ? "or" : "xor", out, a, b));
        break;
      default:
        add(fmt::format("bfe.u32 {}, {}, {}, {};", out, a, choices_.below(8), 1 + choices_.below(8)));
    }
    if (choices_.one_in(2)) known_.push_back(out);
    return out;
  }

  std::string comparison(const std::string& a, const std::string& b) {
    static const std::vector<std::string> kOperators = {"lt", "lt", "lt", "le", "ne", "eq", "ge", "gt"};
    const std::string p = predicate();
    add(fmt::format("setp.{}.{}32 {}, {}, {};", choices_.of(kOperators), choices_.one_in(3) ? "u" : "s", p, a,
                    b));
    return p;
  }

  // An index and the bound that keeps it inside of y and x.
  struct Index {
    std::string index, bound;
  };
  Index usual() {
    const auto product = [&](const char* a, const char* b) {
      const std::string out = fresh();
      add(fmt::format("mul.lo.s32 {}, {}, {};", out, a, b));
      return out;
    };
    switch (choices_.below(5)) {
      case 0:
        if (kind_ == 1) return {"%r7", product("%r1", "%r2")};
        if (kind_ == 2) {
          const std::string out = fresh();
          add(fmt::format("add.s32 {}, %r1, %r2;", out));
          return {"%r7", out};
        }
        if (kind_ == 3) {
          const std::string out = fresh();
          add(fmt::format("shl.b32 {}, %r1, 2;", out));
          return {"%r7", out};
        }
        return {"%r7", "%r1"};
      case 1:
        return {"%r7", "%r1"};
      case 2:
        return {"%r5", "%r1"};
      case 3:
        return {"%r3", "%r1"};
      default: {
        const std::string out = value(2);
        return {out, "%r1"};
      }
    }
  }

  // y[index] or x[index], as an address.
  std::string address(const std::string& index, bool of_x) {
    const std::string offset = fresh_long(), out = fresh_long();
    const uint32_t scale = choices_.one_in(24) ? choices_.of<uint32_t>({1, 2, 8}) : 4;
    if (choices_.one_in(6)) {  // 32-bit arithmetic, then extended
      const std::string scaled = fresh();
      add(fmt::format("mul.lo.s32 {}, {}, {}; cvt.{}64.{}32 {}, {};", scaled, index, scale,
                      choices_.one_in(2) ? "u" : "s", choices_.one_in(2) ? "u" : "s", offset, scaled));
    } else {
      add(fmt::format("mul.wide.{}32 {}, {}, {};", choices_.one_in(4) ? "u" : "s", offset, index, scale));
    }
    add(fmt::format("add.s64 {}, {}, {};", out, of_x ? "%rd1" : "%rd2", offset));
    return out;
  }

  int displacement() {
    if (!choices_.one_in(16)) return 0;
    return choices_.of<int>({4, -4, 8, 4, -4, 2});
  }

  std::string load(const std::string& index, bool of_x) {
    const std::string at = address(index, of_x), out = fresh();
    add(fmt::format("ld.global.u32 {}, [{}+{}];", out, at, displacement()));
    return out;
  }

  void store(const std::string& index, const std::string& what) {
    const std::string at = address(index, false);
    switch (choices_.below(20)) {
      case 0:
      case 3:
        add(fmt::format("red.global.add.u32 [{}+{}], {};", at, displacement(), what));
        break;
      case 1:
      case 4: {
        const std::string out = fresh();
        add(fmt::format("atom.global.add.u32 {}, [{}+{}], 1;", out, at, displacement()));
        known_.push_back(out);
        break;
      }
      case 2:
        add(fmt::format("st.global.v2.u32 [{}+{}], {{{}, {}}};", at, displacement(), what, what));
        break;
      default:
        add(fmt::format("st.global.u32 [{}+{}], {};", at, displacement(), what));
    }
  }

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
    if (choices_.one_in(2)) what = load(at.index, true);
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

  std::string shared_address(const std::string& index) {
    const std::string out = fresh(), base = fresh();
    add(fmt::format("mov.u32 {}, s; shl.b32 {}, {}, 2; add.s32 {}, {}, {};", base, out, index, out, out,
                    base));
    return out;
  }

  // Every thread writes a word, waits, and reads another thread's; or a tree of halving strides.
  void exchange() {
    if (kernel_.shared_words == 0) return access();
    std::string mine = "%r3";
    if (choices_.one_in(6)) mine = value(1);
    const std::string end = label(), p = predicate();
    const bool guarded = choices_.one_in(2);
    const std::string size =
        fmt::format("{}", choices_.one_in(8) ? kernel_.shared_words + 1 : kernel_.shared_words);
    if (guarded) {
      add(fmt::format("setp.ge.u32 {}, {}, {};", p, mine, size));
      add(fmt::format("@{} bra {};", p, end));
    }
    add(fmt::format("st.shared.u32 [{}], {};", shared_address(mine), choices_.of(known_)));
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
      add(fmt::format("ld.shared.u32 {}, [{}];", out, shared_address(other)));
      if (choices_.one_in(3)) {
        if (choices_.one_in(2)) add(fmt::format("st.shared.u32 [{}], {};", shared_address(mine), out));
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
    add(fmt::format("ld.shared.u32 {}, [{}];", a, shared_address(other)));
    add(fmt::format("ld.shared.u32 {}, [{}];", b, shared_address("%r3")));
    add(fmt::format("add.s32 {}, {}, {};", a, a, b));
    add(fmt::format("st.shared.u32 [{}], {};", shared_address("%r3"), a));
    add(skip + ":");
    if (!choices_.one_in(6)) add("bar.sync 0;");
    add(fmt::format("shr.u32 {}, {}, 1; bra {};", s, s, head));
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
    switch (choices_.below(3)) {
      case 0:
        add(fmt::format("shfl.sync.bfly.b32 {}, {}, {}, 31, -1;", out, choices_.of(known_),
                        1 << choices_.below(5)));
        break;
      case 1: {
        const std::string p = comparison(choices_.of(known_), choices_.of(known_));
        add(fmt::format("vote.sync.ballot.b32 {}, {}, -1;", out, p));
        break;
      }
      default:
        add("bar.warp.sync -1;");
        return;
    }
    known_.push_back(out);
  }

  void part(int depth) {
    switch (choices_.below(12)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return kernel_.shared_words > 0 && choices_.one_in(2) ? exchange() : access();
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
      default:
        if (choices_.one_in(3)) add("bar.sync 0;");
        return access();
    }
  }

  Choices& choices_;
  RandomKernel kernel_;
  std::string text_;
  std::vector<std::string> known_;
  uint32_t kind_ = 0, threads_ = 32;
  int next_register_ = 10, next_long_ = 10, next_predicate_ = 1, next_half_ = 1, next_label_ = 0;
};

inline RandomKernel random_kernel(Choices& choices) {
  return KernelMaker(choices).make();
}

}  // namespace assay::fuzz
