#include "contract/lexer.h"

#include <fmt/format.h>

#include <array>
#include <charconv>

namespace assay::contract {
namespace {

// Longest first: `..` before `.`, `<=` before `<`.
constexpr std::array<std::string_view, 31> kSigns = {
    "..", "+=", "<=", ">=", "==", "!=", "//", "&&", "||", "<<", ">>", "**", "(", ")", "[", "]",
    ",",  "+",  "-",  "*",  "/",  "%",  "^",  "=",  "<",  ">",  "|",  ";",  "!", "&", "~"};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Result<std::vector<Token>> run() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        add(TokenKind::Newline, 1);
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (c == '#') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (is_letter(c)) {
        std::size_t length = 1;
        while (is_letter(peek(length)) || is_digit(peek(length))) ++length;
        add(TokenKind::Name, length);
      } else if (is_digit(c) || (c == '.' && is_digit(peek(1)))) {
        const std::size_t first = at_;
        if (const std::string_view wrong = number(); !wrong.empty()) {
          at_ = first;
          return error(std::string(wrong));
        }
      } else if (!sign()) {
        if (c == '?') return error("there is no operator `?`; write `if c then a else b`");
        const bool plain = c > 32 && c < 127;
        return error(plain ? fmt::format("unexpected character `{}`", c) : "unexpected character");
      }
    }
    add(TokenKind::End, 0);
    return std::move(tokens_);
  }

 private:
  char peek(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  Error error(std::string message) const {
    return Error{std::move(message), "", 1, static_cast<int>(at_) + 1};
  }

  Token& add(TokenKind kind, std::size_t length) {
    tokens_.push_back({kind, text_.substr(at_, length), 0, 0, at_});
    at_ += length;
    return tokens_.back();
  }

  // Empty, or what is wrong with it.
  std::string_view number() {
    std::size_t length = 0;
    bool real = false;
    while (is_digit(peek(length))) ++length;
    // `0..n` is a range, not the number 0. followed by a dot.
    if (peek(length) == '.' && peek(length + 1) != '.') {
      real = true;
      ++length;
      while (is_digit(peek(length))) ++length;
    }
    if (peek(length) == 'e' || peek(length) == 'E') {
      std::size_t end = length + 1;
      if (peek(end) == '+' || peek(end) == '-') ++end;
      if (is_digit(peek(end))) {
        real = true;
        while (is_digit(peek(end))) ++end;
        length = end;
      }
    }
    if (is_letter(peek(length))) return "this is not a number; for a product, write `*` between its factors";
    const char* first = text_.data() + at_;
    Token& token = add(real ? TokenKind::Real : TokenKind::Integer, length);
    const bool fits = std::from_chars(first, first + length, token.real).ec == std::errc{} &&
                      (real || std::from_chars(first, first + length, token.integer).ec == std::errc{});
    return fits ? "" : "this number is too large or too small";
  }

  bool sign() {
    for (const std::string_view candidate : kSigns)
      if (text_.substr(at_).starts_with(candidate)) {
        add(TokenKind::Sign, candidate.size());
        return true;
      }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view text) {
  return Lexer(text).run();
}

}  // namespace assay::contract
