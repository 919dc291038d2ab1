// Constant expressions of PTX: integers are 64-bit, signed or unsigned; floats are double.
#include <fmt/format.h>

#include <bit>
#include <charconv>

#include "ptx/token_reader.h"

namespace assay::ptx {
namespace {

constexpr int kDeepest = 64;

int precedence(const Token& token) {
  static constexpr std::pair<std::string_view, int> kOperators[] = {
      {"*", 10}, {"/", 10}, {"%", 10}, {"+", 9},  {"-", 9}, {"<<", 8}, {">>", 8}, {"<", 7},  {">", 7},
      {"<=", 7}, {">=", 7}, {"==", 6}, {"!=", 6}, {"&", 5}, {"^", 4},  {"|", 3},  {"&&", 2}, {"||", 1},
  };
  if (token.kind != TokenKind::Punctuator) return 0;
  constexpr std::string_view kNever = ",;[](){}:?@~";
  if (kNever.find(token.text[0]) != std::string_view::npos) return 0;
  for (auto [text, level] : kOperators)
    if (token.text == text) return level;
  return 0;
}

double as_double(const Constant& value) {
  if (value.is_f32_bits) return std::bit_cast<float>(static_cast<uint32_t>(value.bits));
  if (value.is_float) return std::bit_cast<double>(value.bits);
  return value.is_unsigned ? static_cast<double>(value.bits)
                           : static_cast<double>(static_cast<int64_t>(value.bits));
}

Constant from_double(double value) {
  return {std::bit_cast<uint64_t>(value), false, true, false};
}
Constant from_bool(bool value) {
  return {value ? 1u : 0u, false, false, false};
}
bool is_true(const Constant& value) {
  return value.is_float ? as_double(value) != 0 : value.bits != 0;
}

template <class T>
bool compare(std::string_view op, T a, T b) {
  if (op == "<") return a < b;
  if (op == ">") return a > b;
  if (op == "<=") return a <= b;
  if (op == ">=") return a >= b;
  return op == "==" ? a == b : a != b;
}

bool is_comparison(std::string_view op) {
  return op == "<" || op == ">" || op == "<=" || op == ">=" || op == "==" || op == "!=";
}

std::optional<Constant> apply_float(std::string_view op, double a, double b) {
  if (is_comparison(op)) return from_bool(compare(op, a, b));
  if (op == "+") return from_double(a + b);
  if (op == "-") return from_double(a - b);
  if (op == "*") return from_double(a * b);
  if (op == "/") return from_double(a / b);
  return std::nullopt;
}

uint64_t shift(std::string_view op, const Constant& a, uint64_t by) {
  if (op == "<<") return by > 63 ? 0 : a.bits << by;
  if (a.is_unsigned) return by > 63 ? 0 : a.bits >> by;
  return static_cast<uint64_t>(static_cast<int64_t>(a.bits) >> std::min<uint64_t>(by, 63));
}

uint64_t divide(std::string_view op, uint64_t a, uint64_t b, bool is_unsigned) {
  bool quotient = op == "/";
  if (is_unsigned) return quotient ? a / b : a % b;
  if (b == ~uint64_t{0}) return quotient ? 0 - a : 0;  // also the one division that overflows
  auto x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
  return static_cast<uint64_t>(quotient ? x / y : x % y);
}

Constant apply_integer(std::string_view op, const Constant& a, const Constant& b) {
  Constant result;
  result.is_unsigned = a.is_unsigned || b.is_unsigned;
  if (is_comparison(op)) {
    return from_bool(result.is_unsigned
                         ? compare(op, a.bits, b.bits)
                         : compare(op, static_cast<int64_t>(a.bits), static_cast<int64_t>(b.bits)));
  }
  switch (op[0]) {
    case '+':
      result.bits = a.bits + b.bits;
      break;
    case '-':
      result.bits = a.bits - b.bits;
      break;
    case '*':
      result.bits = a.bits * b.bits;
      break;
    case '/':
    case '%':
      result.bits = divide(op, a.bits, b.bits, result.is_unsigned);
      break;
    case '&':
      result.bits = a.bits & b.bits;
      break;
    case '^':
      result.bits = a.bits ^ b.bits;
      break;
    case '|':
      result.bits = a.bits | b.bits;
      break;
    default:
      result.is_unsigned = a.is_unsigned;
      result.bits = shift(op, a, b.bits);
  }
  return result;
}

}  // namespace

struct TokenReader::Deeper {
  explicit Deeper(TokenReader& r) : reader(r) {
    if (++reader.depth_ > kDeepest) reader.fail(reader.token_, "expression nested too deeply");
  }
  ~Deeper() { --reader.depth_; }
  TokenReader& reader;
};

Constant TokenReader::constant() {
  return ternary();
}

Constant TokenReader::ternary() {
  Deeper deeper(*this);
  Constant condition = binary(1);
  if (!accept('?')) return condition;
  Constant yes = ternary();
  expect(':');
  Constant no = ternary();
  return is_true(condition) ? yes : no;
}

Constant TokenReader::binary(int least_precedence) {
  Deeper deeper(*this);
  Constant left = unary();
  for (int level = precedence(token_); level >= least_precedence && level > 0; level = precedence(token_)) {
    Token op = take();
    Constant right = binary(level + 1);
    if (op.text == "&&" || op.text == "||") {
      left = from_bool(op.text == "&&" ? is_true(left) && is_true(right) : is_true(left) || is_true(right));
    } else if (left.is_float || right.is_float) {
      std::optional<Constant> result = apply_float(op.text, as_double(left), as_double(right));
      if (!result) fail(op, fmt::format("{} does not apply to floating-point constants", quote(op)));
      left = *result;
    } else {
      if ((op.text == "/" || op.text == "%") && right.bits == 0)
        fail(op, "division by zero in a constant expression");
      left = apply_integer(op.text, left, right);
    }
  }
  return left;
}

Constant TokenReader::unary() {
  Deeper deeper(*this);
  if (accept('+')) return unary();
  if (accept('-')) {
    Constant value = unary();
    if (value.is_f32_bits) {
      value.bits ^= 0x80000000u;
    } else if (value.is_float) {
      value.bits ^= uint64_t{1} << 63;
    } else {
      value.bits = 0 - value.bits;
    }
    return value;
  }
  if (accept('!')) return from_bool(!is_true(unary()));
  if (is('~')) {
    Token op = take();
    Constant value = unary();
    if (value.is_float) fail(op, "'~' does not apply to floating-point constants");
    value.bits = ~value.bits;
    return value;
  }
  return primary();
}

Constant TokenReader::primary() {
  if (token_.kind == TokenKind::Number) return literal(take());
  if (is_dotted()) {  // .5
    Token number = take();
    double value = 0;
    auto [end, error] = std::from_chars(number.text.data(), number.text.data() + number.text.size(), value);
    if (error != std::errc() || end != number.text.data() + number.text.size())
      fail(number, fmt::format("expected a constant, found {}", quote(number)));
    return from_double(value);
  }
  if (is_name() && token_.text == "WARP_SZ") {
    advance();
    return {32, false, false, false};
  }
  if (accept('(')) {
    if (is_dotted(".s64") || is_dotted(".u64")) {
      bool is_unsigned = take().text == ".u64";
      expect(')');
      Constant value = unary();
      if (value.is_float) {
        double real = as_double(value);
        if (!(real > -9.2e18 && real < 9.2e18))
          fail(token_, "a cast of a constant that no 64-bit integer holds");
        value.bits = static_cast<uint64_t>(static_cast<int64_t>(real));
      }
      value.is_float = value.is_f32_bits = false;
      value.is_unsigned = is_unsigned;
      return value;
    }
    Constant value = ternary();
    expect(')');
    return value;
  }
  fail_expected("a constant");
}

namespace {

bool parse_digits(std::string_view digits, int base, uint64_t& value) {
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  return error == std::errc() && end == digits.data() + digits.size() && !digits.empty();
}

bool is_float_text(std::string_view text) {
  return text.find_first_of(".eE") != std::string_view::npos && !text.starts_with("0x") &&
         !text.starts_with("0X");
}

}  // namespace

Constant TokenReader::literal(const Token& number) {
  std::string_view text = number.text;
  Constant value;
  char marker = text.size() > 1 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  if (marker == 'f' || marker == 'd') {
    size_t digits = marker == 'f' ? 8 : 16;
    if (text.size() != digits + 2 || !parse_digits(text.substr(2), 16, value.bits))
      fail(number, fmt::format("{} needs {} hexadecimal digits", quote(number), digits));
    value.is_float = true;
    value.is_f32_bits = marker == 'f';
    return value;
  }
  if (is_float_text(text)) {
    double real = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), real);
    if (error != std::errc() || end != text.data() + text.size())
      fail(number, fmt::format("{} is not a number", quote(number)));
    return from_double(real);
  }
  if (text.back() == 'U') {
    value.is_unsigned = true;
    text.remove_suffix(1);
  }
  int base = marker == 'x' ? 16 : marker == 'b' ? 2 : text.size() > 1 && text[0] == '0' ? 8 : 10;
  std::string_view digits = base == 16 || base == 2 ? text.substr(2) : text;
  if (!parse_digits(digits, base, value.bits))
    fail(number, fmt::format("{} is not a 64-bit number", quote(number)));
  if (static_cast<int64_t>(value.bits) < 0) value.is_unsigned = true;
  return value;
}

int64_t TokenReader::integer(std::string_view what) {
  Token at = token_;
  Constant value = constant();
  if (value.is_float) fail(at, fmt::format("{} must be an integer", what));
  return static_cast<int64_t>(value.bits);
}

uint64_t TokenReader::count(std::string_view what, uint64_t limit) {
  Token at = token_;
  Constant value = constant();
  if (value.is_float) fail(at, fmt::format("{} must be an integer", what));
  if ((!value.is_unsigned && static_cast<int64_t>(value.bits) < 0) || value.bits > limit)
    fail(at, fmt::format("{} must be from 0 to {}", what, limit));
  return value.bits;
}

}  // namespace assay::ptx
