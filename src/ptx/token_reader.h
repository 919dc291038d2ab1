// The parser's view of the text: one token of look-ahead, errors with a place, constant expressions.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "ptx/lexer.h"
#include "ptx/module.h"

namespace assay::ptx {

// Thrown inside the parser only; `parse` turns it into an Error.
struct Failure {
  std::string message;
  uint32_t line, column;
};

// The value of a constant expression.
struct Constant {
  uint64_t bits = 0;         // integer; or the image of the float
  bool is_unsigned = false;  // .u64, else .s64
  bool is_float = false;
  bool is_f32_bits = false;  // one literal 0f…: bits is its 32-bit image
};

inline constexpr uint32_t kMostVariables = 1u << 12;  // of one range

class TokenReader {
 public:
  explicit TokenReader(std::string_view text) : lexer_(text) { advance(); }

  const Token& token() const { return token_; }
  bool at_end() const { return token_.kind == TokenKind::End; }
  bool is(char punctuator) const { return token_.is(punctuator); }
  bool is_name() const { return token_.kind == TokenKind::Name; }
  bool is_dotted() const { return token_.kind == TokenKind::Dotted; }
  bool is_dotted(std::string_view word) const { return token_.is_dotted(word); }

  void advance() { token_ = lexer_.next(); }
  Token take() {
    Token result = token_;
    advance();
    return result;
  }
  bool accept(char punctuator) {
    if (!is(punctuator)) return false;
    advance();
    return true;
  }
  bool accept_dotted(std::string_view word) {
    if (!is_dotted(word)) return false;
    advance();
    return true;
  }
  void expect(char punctuator);
  Token expect_name(std::string_view what);
  std::string expect_string();

  // The dotted word that starts at the current Name, as one view: ld.global.f32
  Token take_word();
  // The token after the current one.
  Token peek();
  // Whether the current Name is a label: a colon follows.
  bool at_label();
  // Whether the current token touches the one before it, as .x in %tid.x
  bool touches(const Token& before) const {
    return before.text.data() + before.text.size() == token_.text.data();
  }

  Constant constant();
  int64_t integer(std::string_view what);
  uint64_t count(std::string_view what, uint64_t limit);  // an integer from 0 to limit

  // `<N>` after a name, as in %r<100>: N, at most `limit`.
  std::optional<uint32_t> range(uint32_t limit);
  // Skips the `@@DWARF …` lines of PTX 1.x; the current token is '@'. False if it is none.
  bool skip_old_debug_line();

  // Skips a balanced {…} whose opening brace is the current token.
  void skip_braces();

  [[noreturn]] void fail(const Token& at, std::string message) const;
  [[noreturn]] void fail_expected(std::string_view what) const;

 private:
  Constant ternary();
  Constant binary(int least_precedence);
  Constant unary();
  Constant primary();
  Constant literal(const Token& number);
  struct Deeper;

  Lexer lexer_;
  Token token_;
  int depth_ = 0;
  std::deque<std::string> joined_words_;  // words written with spaces inside
};

// What a token looks like in an error: 'foo', end of text, …
std::string quote(const Token& token);
// Text in quotes, shortened, with bytes that no terminal should see escaped.
std::string quote(std::string_view text);

}  // namespace assay::ptx
