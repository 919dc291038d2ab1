// Index arithmetic a second time, over the integers: a kernel's text with a 64-bit companion for each of its registers,
// which an addition, a subtraction, a multiplication or a left shift computes without a wrap. Where an address differs from
// its companion, an index wrapped on the way into it, and a word is set.
//
//   std::string body = traced(kernel.body);   // %flag holds the address of the word
//
// What a register holds after any other instruction (a load, a division, a mask, an unsigned conversion) is what it
// means, so each difference is a wrap of signed arithmetic. An address of 32 bits (of shared memory) is taken modulo 2^32, as
// its index is: no wrap changes it. The other way round nothing is promised: wraps that a mask or
// an unsigned conversion hides are not seen. For texts of random_kernels.h only.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace assay::fuzz {

class IndexTrace {
 public:
  static constexpr const char* kRegisters =
      ".reg .pred %wrapped, %chosen; .reg .b64 %flag; .reg .b64 %i<900>; .reg .b64 %j<400>;\n";

  std::string of(std::string_view body) {
    while (!body.empty()) {
      const size_t end = body.find_first_of(";\n");
      statement(trimmed(body.substr(0, end)));
      body.remove_prefix(end == std::string_view::npos ? body.size() : end + 1);
    }
    return std::move(out_);
  }

 private:
  static std::string_view trimmed(std::string_view text) {
    const size_t first = text.find_first_not_of(" "), last = text.find_last_not_of(" ");
    return first == std::string_view::npos ? "" : text.substr(first, last - first + 1);
  }

  // "%r3" -> "%i3", "%rd3" -> "%j3"; a constant stays; of another operand there is none.
  static std::string companion(std::string_view operand) {
    if (operand.starts_with("%rd")) return fmt::format("%j{}", operand.substr(3));
    if (operand.starts_with("%r")) return fmt::format("%i{}", operand.substr(2));
    return operand.starts_with("%") ? "" : std::string(operand);
  }

  static std::vector<std::string_view> registers_in(std::string_view text) {
    std::vector<std::string_view> found;
    for (size_t at = text.find("%r"); at != std::string_view::npos; at = text.find("%r", at + 1)) {
      const size_t end = text.find_first_not_of("%rd0123456789", at);
      found.push_back(text.substr(at, end == std::string_view::npos ? end : end - at));
    }
    return found;
  }

  void say(const std::string& text) { out_ += "  " + text + "\n"; }

  void statement(std::string_view text) {
    if (text.empty()) return;
    if (text.ends_with(":")) return say(std::string(text));
    const size_t space = text.find(' ');
    const std::string_view op = text.substr(0, space);
    if (op.starts_with("@") || space == std::string_view::npos) return say(std::string(text) + ";");
    std::vector<std::string_view> operands;
    for (std::string_view rest = text.substr(space + 1);;) {
      const size_t brace = rest.starts_with("{") ? rest.find('}') : 0;
      const size_t comma = rest.find(',', brace);
      operands.push_back(trimmed(rest.substr(0, comma)));
      if (comma == std::string_view::npos) break;
      rest = trimmed(rest.substr(comma + 1));
    }
    check_addresses(op, operands);
    const bool exact = follow(op, operands);
    say(std::string(text) + ";");
    if (exact || op.starts_with("st.") || op.starts_with("red.") || op.starts_with("bar.") ||
        op.starts_with("cp."))
      return;
    for (const std::string_view written : registers_in(operands[0])) forget(written);
  }

  void check_addresses(std::string_view op, const std::vector<std::string_view>& operands) {
    if (op.starts_with("ld.param")) return;
    for (const std::string_view operand : operands) {
      if (!operand.starts_with("[%rd")) continue;
      const std::string_view address = registers_in(operand).front();
      say(fmt::format("setp.ne.s64 %wrapped, {}, {}; @%wrapped red.global.or.b32 [%flag], 1;", address,
                      companion(address)));
    }
  }

  // What the register holds is what it means.
  void forget(std::string_view written) {
    if (written.starts_with("%rd")) {
      say(fmt::format("mov.b64 {}, {};", companion(written), written));
    } else {
      say(fmt::format("cvt.s64.s32 {}, {};", companion(written), written));
    }
  }

  // Before the instruction, which may change its own operands. False: it is not followed.
  bool follow(std::string_view op, const std::vector<std::string_view>& operands) {
    std::vector<std::string> on;
    for (const std::string_view operand : operands) on.push_back(companion(operand));
    const auto known = [&](size_t count) {
      for (size_t i = 0; i < count; ++i)
        if (on[i].empty()) return false;
      return true;
    };
    if ((op == "add.s32" || op == "sub.s32" || op == "add.s64") && known(3)) {
      say(fmt::format("{}.s64 {}, {}, {};", op.substr(0, 3), on[0], on[1], on[2]));
    } else if ((op == "mul.lo.s32" || op == "mul.wide.s32") && known(3)) {
      say(fmt::format("mul.lo.s64 {}, {}, {};", on[0], on[1], on[2]));
    } else if (op == "mad.lo.s32" && known(4)) {
      say(fmt::format("mad.lo.s64 {}, {}, {}, {};", on[0], on[1], on[2], on[3]));
    } else if (op == "shl.b32" && known(3) && !operands[2].starts_with("%")) {
      say(fmt::format("shl.b64 {}, {}, {};", on[0], on[1], on[2]));
    } else if ((op == "min.s32" || op == "max.s32") && known(3)) {
      say(fmt::format("setp.{}.s32 %chosen, {}, {};", op == "min.s32" ? "lt" : "gt", operands[1],
                      operands[2]));
      say(fmt::format("selp.b64 {}, {}, {}, %chosen;", on[0], on[1], on[2]));
    } else if (op == "selp.b32" && known(3)) {
      say(fmt::format("selp.b64 {}, {}, {}, {};", on[0], on[1], on[2], operands[3]));
    } else if ((op == "mov.u32" || op == "cvt.s64.s32") && known(2) && operands[1].starts_with("%r")) {
      say(fmt::format("mov.b64 {}, {};", on[0], on[1]));
    } else {
      return false;
    }
    return true;
  }

  std::string out_;
};

inline std::string traced(const std::string& body) {
  return IndexTrace().of(body);
}

}  // namespace assay::fuzz
