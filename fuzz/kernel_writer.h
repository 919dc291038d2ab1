// What random kernels (random_kernels.h) are written with: a launch, registers, expressions, single accesses.
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

struct RandomLaunch {
  std::string grid, block, block_y = "1";  // expressions over the dims
  std::string dynamic_shared = "0";        // bytes
  std::string shared;                      // declarations in the module
  uint32_t static_shared = 0;              // bytes of them
  std::string body;                        // of a kernel whose parameters are x, y, n, m and the workspace
  uint32_t zeroed = 4;                     // bytes at the beginning of the workspace that the host sets to 0
};

// What is launched for some of the shapes, one after the other.
struct RandomCase {
  enum class When : uint8_t {
    Always,
    MultipleOf4,
    NoMultipleOf4,
    AtLeast5,
    AtMost4
  } when = When::Always;  // of n
  std::vector<RandomLaunch> launches;
  std::string filled;  // bytes at the beginning of y that the host fills first; empty: none
};

struct RandomCall {
  std::string dims;     // of the contract, TOML
  std::string x, y;     // keys of the tables of the tensors x (i32, indices) and y (i32)
  bool output = false;  // y is only written
  bool large = false;   // the promised range goes beyond the shapes that are run
  std::vector<RandomCase> cases;
};

// The extents of x and y.
enum class Extent : uint8_t { N, NTimesM, NPlusM, FourN };
// The text of one kernel, as it grows.
class KernelWriter {
 public:
  KernelWriter(Choices& choices, Extent extent, bool large)
      : choices_(choices), extent_(extent), large_(large) {}

 protected:
  static constexpr const char* kElements[] = {"n", "n * m", "n + m", "4 * n"};  // by Extent

  void add(const std::string& line) { text_ += "  " + line + "\n"; }
  std::string fresh() { return fmt::format("%r{}", next_register_++); }
  std::string fresh_long() { return fmt::format("%rd{}", next_long_++); }
  std::string predicate() { return fmt::format("%p{}", next_predicate_++); }
  std::string label() { return fmt::format("L{}", next_label_++); }

  void launch() {
    const uint32_t threads = choices_.of<uint32_t>({4, 8, 32, 33, 64, 1});
    kernel_.block = fmt::format("{}", threads);
    const std::vector<std::string> grids = {fmt::format("ceil_div(n, {})", threads),
                                            "n",
                                            "m",
                                            "1",
                                            "2",
                                            fmt::format("ceil_div(n * m, {})", threads),
                                            fmt::format("min(ceil_div(n, {}), 3)", threads),
                                            fmt::format("ceil_div(n, {})", 4 * threads),
                                            "n * m",
                                            "n / 2",
                                            "n - 1"};
    kernel_.grid = choices_.of(grids);
    if (covers_) {
      const char* elements = kElements[static_cast<size_t>(extent_)];
      const std::vector<std::string> enough = {fmt::format("ceil_div({}, {})", elements, threads), "n",
                                               fmt::format("min(ceil_div({}, {}), 5)", elements, threads)};
      kernel_.grid = choices_.one_in(12) ? "n / 2" : choices_.of(enough);
      return;
    }
    if (choices_.one_in(8)) {
      kernel_.block = large_ ? choices_.of<std::string>({"m + 300", "min(n, 256)", "2 * m", "m"})
                             : choices_.of<std::string>({"n", "m", "4 * n", "n * m"});
    }
    if (choices_.one_in(8)) kernel_.block_y = choices_.of<std::string>({"2", "3", "m"});
  }

  // s: an array of this many bytes, or the dynamic shared memory.
  void declare_shared() {
    shared_words_ = choices_.of<uint32_t>({64, 32, 33, 8, 16});
    if (choices_.one_in(6)) volatile_ = ".volatile";
    if (choices_.one_in(4)) {
      kernel_.shared = ".extern .shared .align 16 .b8 s[];";
      kernel_.dynamic_shared =
          choices_.of<std::string>({fmt::format("{}", 4 * shared_words_), "4 * n", "4 * m", "16 * n"});
      if (kernel_.dynamic_shared == "4 * n") words_ = "%r1";
      if (kernel_.dynamic_shared == "4 * m") words_ = "%r2";
    } else {
      kernel_.shared =
          fmt::format(".shared .align 16 .b8 s[{}];\n.shared .align 4 .b8 c[8];", 4 * shared_words_);
      kernel_.static_shared = 4 * shared_words_ + 8;
    }
    if (words_.empty()) words_ = fmt::format("{}", shared_words_);
  }

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
        if (extent_ == Extent::NTimesM) return {"%r7", product("%r1", "%r2")};
        if (extent_ == Extent::NPlusM) {
          const std::string out = fresh();
          add(fmt::format("add.s32 {}, %r1, %r2;", out));
          return {"%r7", out};
        }
        if (extent_ == Extent::FourN) {
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
    std::string how = "global";
    if (choices_.one_in(6))
      how = choices_.of<std::string>(
          {"global.nc", "volatile.global", "relaxed.gpu.global", "relaxed.cta.global"});
    add(fmt::format("ld.{}.u32 {}, [{}+{}];", how, out, at, displacement()));
    return out;
  }

  void store(const std::string& index, const std::string& what) {
    const std::string at = address(index, choices_.one_in(24));
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
      case 5:
        add(fmt::format(
            "st.{}.u32 [{}+{}], {};",
            choices_.of<std::string>({"volatile.global", "relaxed.gpu.global", "relaxed.cta.global"}), at,
            displacement(), what));
        break;
      default:
        add(fmt::format("st.global.u32 [{}+{}], {};", at, displacement(), what));
    }
  }

  std::string shared_address(const std::string& index) {
    const std::string out = fresh(), base = fresh();
    add(fmt::format("mov.u32 {}, s; shl.b32 {}, {}, 2; add.s32 {}, {}, {};", base, out, index, out, out,
                    base));
    return out;
  }

  std::string plain_address(const std::string& index) {
    const std::string offset = fresh_long(), out = fresh_long();
    add(fmt::format("mul.wide.s32 {}, {}, 4; add.s64 {}, %rd2, {};", offset, index, out, offset));
    return out;
  }

  void plain_store(const std::string& index) {
    add(fmt::format("st.global.u32 [{}], 8;", plain_address(index)));
  }

  void barrier(uint32_t left_out_one_in = 8) {
    if (choices_.one_in(left_out_one_in)) return;
    if (choices_.one_in(16)) return add("bar.warp.sync -1;");
    if (choices_.one_in(16)) {
      const bool is_number = kernel_.block.find_first_not_of("0123456789") == std::string::npos;
      return add(fmt::format("bar.sync 1{};", choices_.one_in(2) && is_number ? ", " + kernel_.block : ""));
    }
    add("bar.sync 0;");
  }

  // The words of s, or one more.
  std::string words() {
    if (!choices_.one_in(8)) return words_;
    const std::string out = fresh();
    add(fmt::format("add.s32 {}, {}, 1;", out, words_));
    return out;
  }

  void leave_unless_below(const std::string& index, const std::string& bound, const std::string& end) {
    const std::string p = predicate();
    add(fmt::format("setp.{}.{}32 {}, {}, {}; @{} bra {};", choices_.one_in(12) ? "gt" : "ge",
                    choices_.one_in(3) ? "u" : "s", p, index, bound, p, end));
  }

  Choices& choices_;
  RandomLaunch kernel_;
  std::string text_;
  std::vector<std::string> known_;
  Extent extent_;
  bool large_, covers_ = false;
  uint32_t shared_words_ = 0;
  std::string volatile_;  // ".volatile" of accesses to s, or nothing
  std::string words_;     // of s, a constant or a register
  int next_register_ = 10, next_long_ = 10, next_predicate_ = 1, next_half_ = 1, next_label_ = 0;
};

}  // namespace assay::fuzz
