// Reads integers off C++ text: a lexer that knows comments, strings, literals and `#define`, names whose
// value is constant, and what stands beside each constant.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "lint/constants.h"

namespace assay::lint {

namespace {

enum class TokenKind : uint8_t { Word, Number, Sign };

struct Token {
  TokenKind kind = TokenKind::Sign;
  std::string text;
  int64_t value = 0;  // of a number
};
using Tokens = std::vector<Token>;

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}
bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c));
}

// "0x2000", "1'048'576ull", "1e6"; none where it is no integer.
std::optional<int64_t> number(std::string text) {
  std::erase(text, '\'');
  char* end = nullptr;
  const bool hexadecimal = text.size() > 2 && (text[1] == 'x' || text[1] == 'X');
  if (!hexadecimal && text.find_first_of(".eEfF") != std::string::npos) {
    const double value = std::strtod(text.c_str(), &end);
    const bool integer = value == std::floor(value) && value >= 0 && value < 0x1p53;
    return integer ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
  }
  const unsigned long long value = std::strtoull(text.c_str(), &end, 0);
  return value <= INT64_MAX ? std::optional(static_cast<int64_t>(value)) : std::nullopt;
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Tokens run() {
    while (at_ < text_.size()) step();
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void sign(std::string text) { tokens_.push_back({TokenKind::Sign, std::move(text), 0}); }

  void step() {
    const char c = peek();
    if (c == '\\' && (peek(1) == '\n' || peek(1) == '\r')) {
      at_ += peek(1) == '\r' ? 3 : 2;
    } else if (c == '\n') {
      if (directive_) sign(";");
      directive_ = false;
      fresh_ = true;
      ++at_;
    } else if (std::isspace(static_cast<unsigned char>(c))) {
      ++at_;
    } else if (c == '/' && peek(1) == '/') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '/' && peek(1) == '*') {
      const std::size_t end = text_.find("*/", at_ + 2);
      at_ = end == std::string_view::npos ? text_.size() : end + 2;
    } else if (c == '#' && fresh_) {
      directive();
    } else {
      fresh_ = false;
      if (c == '"' || c == '\'') {
        quoted(c);
      } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
        digits();
      } else if (is_word(c)) {
        word();
      } else {
        punctuation();
      }
    }
  }

  // `#define NAME value` reads as `NAME = value;`. Conditions count, other directives do not.
  void directive() {
    ++at_;
    while (peek() == ' ' || peek() == '\t') ++at_;
    const std::string name = take_word();
    fresh_ = false;
    if (name == "define") {
      while (peek() == ' ' || peek() == '\t') ++at_;
      tokens_.push_back({TokenKind::Word, take_word(), 0});
      if (peek() != '(') sign("=");
      directive_ = true;
    } else if (name == "if" || name == "elif") {
      directive_ = true;
    } else {
      at_ = std::min(text_.find('\n', at_), text_.size());
    }
  }

  std::string take_word() {
    const std::size_t first = at_;
    while (is_word(peek())) ++at_;
    return std::string(text_.substr(first, at_ - first));
  }

  void word() {
    const std::string name = take_word();
    if (peek() == '"' && name.ends_with('R')) {
      raw();
    } else {
      tokens_.push_back({TokenKind::Word, name, 0});
    }
  }

  void raw() {  // R"x(…)x"
    const std::size_t open = text_.find('(', at_);
    if (open == std::string_view::npos) return void(at_ = text_.size());
    const std::string close = ")" + std::string(text_.substr(at_ + 1, open - at_ - 1)) + "\"";
    const std::size_t end = text_.find(close, open);
    at_ = end == std::string_view::npos ? text_.size() : end + close.size();
  }

  void quoted(char quote) {
    for (++at_; at_ < text_.size() && peek() != quote && peek() != '\n'; ++at_)
      if (peek() == '\\') ++at_;
    if (peek() == quote) ++at_;
    tokens_.push_back({TokenKind::Word, "", 0});
  }

  void digits() {
    const std::size_t first = at_;
    const auto exponent = [&] {
      const char before = text_[at_ - 1];
      return (peek() == '+' || peek() == '-') && (before == 'e' || before == 'E') && !(peek(0) == '\0') &&
             text_.substr(first, 2) != "0x";
    };
    while (at_ < text_.size() && (is_word(peek()) || peek() == '.' || (peek() == '\'' && is_word(peek(1))) ||
                                  (at_ > first && exponent())))
      ++at_;
    const auto value = number(std::string(text_.substr(first, at_ - first)));
    tokens_.push_back({value ? TokenKind::Number : TokenKind::Word, "", value.value_or(0)});
  }

  void punctuation() {
    static constexpr std::array<std::string_view, 20> kLong = {
        "<<<", ">>>", "<<=", ">>=", "<=", ">=", "==", "!=", "&&", "||",
        "<<",  ">>",  "->",  "::",  "++", "--", "+=", "-=", "*=", "%="};
    for (const std::string_view candidate : kLong) {
      if (text_.substr(at_, candidate.size()) != candidate) continue;
      at_ += candidate.size();
      return sign(std::string(candidate));
    }
    sign(std::string(1, peek()));
    ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  bool fresh_ = true;  // nothing yet on this line
  bool directive_ = false;
  Tokens tokens_;
};

bool is_comparison(std::string_view sign) {
  return sign == "<" || sign == ">" || sign == "<=" || sign == ">=" || sign == "==" || sign == "!=";
}

class SourceReader {
 public:
  SourceReader(Tokens tokens, SizeConstants& found) : tokens_(std::move(tokens)), found_(found) {}

  void run() {
    define_names();
    for (std::size_t at = 0; at < tokens_.size();) {
      const std::size_t end = constant_at(at) ? use(at) : at + 1;
      at = std::max(end, at + 1);
    }
  }

 private:
  struct Folded {
    int64_t value = 0;
    std::size_t end = 0;  // one past its last token
  };

  std::string_view text(std::size_t at) const {
    return at < tokens_.size() && tokens_[at].kind != TokenKind::Number ? std::string_view(tokens_[at].text)
                                                                        : std::string_view();
  }
  // Whether a constant begins here: a number, or a name that has one value.
  bool constant_at(std::size_t at) const { return primary(at).has_value() && text(at) != "("; }

  std::optional<Folded> primary(std::size_t at) const {
    if (at >= tokens_.size()) return std::nullopt;
    const Token& token = tokens_[at];
    if (token.kind == TokenKind::Number) return Folded{token.value, at + 1};
    if (token.kind == TokenKind::Word) {
      const auto known = names_.find(token.text);
      if (known == names_.end() || text(at + 1) == "(" || text(at + 1) == "=") return std::nullopt;
      return Folded{known->second, at + 1};
    }
    if (token.text != "(") return std::nullopt;
    const auto inner = folded(at + 1, 0);
    if (!inner || text(inner->end) != ")") return std::nullopt;
    return Folded{inner->value, inner->end + 1};
  }

  // Operators of at least this precedence: 0 shifts, 1 sums, 2 products.
  std::optional<Folded> folded(std::size_t at, int least) const {
    auto left = primary(at);
    while (left) {
      const std::string_view sign = text(left->end);
      const int precedence = sign == "*" || sign == "/"   ? 2
                             : sign == "+" || sign == "-" ? 1
                             : sign == "<<"               ? 0
                                                          : -1;
      if (precedence < least) break;
      const auto right = folded(left->end + 1, precedence + 1);
      const auto value = right ? apply(sign, left->value, right->value) : std::nullopt;
      if (!value) break;
      left = Folded{*value, right->end};
    }
    return left;
  }

  static std::optional<int64_t> apply(std::string_view sign, int64_t a, int64_t b) {
    int64_t value = 0;
    if (sign == "*") return __builtin_mul_overflow(a, b, &value) ? std::nullopt : std::optional(value);
    if (sign == "/") return b == 0 ? std::nullopt : std::optional(a / b);
    if (sign == "+") return __builtin_add_overflow(a, b, &value) ? std::nullopt : std::optional(value);
    if (sign == "-") return __builtin_sub_overflow(a, b, &value) ? std::nullopt : std::optional(value);
    return b < 0 || b > 40 || a < 0 || a > 1 << 20 ? std::nullopt : std::optional(a << b);
  }

  void define_names() {
    for (std::size_t at = 0; at + 2 < tokens_.size(); ++at) {
      if (tokens_[at].kind != TokenKind::Word || text(at + 1) != "=") continue;
      if (const auto value = folded(at + 2, 0)) {
        const std::string_view after = text(value->end);
        if (after == ";" || after == "," || after == "}") names_[tokens_[at].text] = value->value;
      }
    }
  }

  // Beyond opening parentheses and casts to the left.
  std::string_view before(std::size_t at) const {
    while (at > 0) {
      const std::string_view sign = text(at - 1);
      if (sign == "(" && at >= 2 && text(at - 2) == ">") {
        std::size_t open = at - 2;
        while (open > 0 && text(open) != "<") --open;
        if (open == 0 || text(open - 1) != "static_cast") return sign;
        at = open - 1;
      } else if (sign == ")") {
        std::size_t open = at - 1;
        while (open > 0 && text(open) != "(") --open;
        const bool cast = at - 1 - open >= 2 && is_type(open + 1, at - 1);
        if (!cast) return sign;
        at = open;
      } else if (sign == "(" && (at < 2 || tokens_[at - 2].kind == TokenKind::Sign)) {
        --at;
      } else {
        return sign;
      }
    }
    return "";
  }
  bool is_type(std::size_t first, std::size_t end) const {
    for (std::size_t i = first; i < end; ++i) {
      const std::string_view word = text(i);
      if (word != "int" && word != "long" && word != "unsigned" && word != "short" && !word.ends_with("_t"))
        return false;
    }
    return first < end;
  }
  std::size_t after(std::size_t at) const {
    while (text(at) == ")") ++at;
    return at;
  }

  // What a constant is there for; returns where it ends.
  std::size_t use(std::size_t at) {
    const std::string_view left = before(at);
    const bool factor = left == "*" || left == "/" || left == "%" || left == "&";
    const auto constant = folded(at, factor || left == "-" ? 3 : left == "+" ? 2 : 0);
    const std::size_t next = after(constant->end);
    const std::string_view right = text(next);
    if (left == "%" || (left == "&" && is_mask(constant->value))) {
      const int64_t modulus = constant->value + (left == "&");
      const auto remainder = right == "==" || right == "!=" ? folded(next + 1, 0) : std::nullopt;
      add_residue({modulus, remainder ? remainder->value : 0});
    } else if (is_comparison(left) || is_comparison(right)) {
      add(found_.compared, constant->value);
      if (is_comparison(left)) add_scaled(at, constant->value);
    } else if (left == "case") {
      add(found_.compared, constant->value);
    } else {
      add(found_.mentioned, constant->value);
    }
    return constant->end;
  }

  static bool is_mask(int64_t value) { return value > 0 && value < 1 << 20 && (value & (value + 1)) == 0; }

  // n / 4 > 1024: where n is beyond 4096.
  void add_scaled(std::size_t at, int64_t value) {
    for (std::size_t i = at; i-- > 0;) {
      const std::string_view sign = text(i);
      if (sign == ";" || sign == "{" || sign == "}" || sign == "&&" || sign == "||" || sign == "?" ||
          sign == "=")
        return;
      const auto by = sign == "/" || sign == ">>" || sign == "*" ? primary(i + 1) : std::nullopt;
      if (!by || by->value <= 0 || value > INT64_MAX / by->value) continue;
      if (sign == "/") add(found_.compared, value * by->value);
      if (sign == "*") add(found_.compared, value / by->value);
      if (sign == ">>" && by->value < 20) add(found_.compared, value << by->value);
    }
  }

  static void add(std::vector<int64_t>& list, int64_t value) {
    if (value > 1 && std::find(list.begin(), list.end(), value) == list.end()) list.push_back(value);
  }
  void add_residue(Residue residue) {
    if (residue.modulus < 2 || residue.remainder < 0 || residue.remainder >= residue.modulus) return;
    auto& list = found_.residues;
    if (std::find(list.begin(), list.end(), residue) == list.end()) list.push_back(residue);
  }

  Tokens tokens_;
  SizeConstants& found_;
  std::map<std::string, int64_t, std::less<>> names_;
};

}  // namespace

void constants_of(std::string_view source, SizeConstants& found) {
  SourceReader(Lexer(source).run(), found).run();
}

}  // namespace assay::lint
