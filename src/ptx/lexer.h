// PTX text → tokens. Tokens are views of the text; any byte string lexes (anything else is an Invalid token).
#pragma once

#include <cstdint>
#include <string_view>

namespace assay::ptx {

enum class TokenKind : uint8_t {
  End,
  Name,        // add  %r1  $L__BB0_1  _Z3foov
  Dotted,      // .global  .v4  .shared::cta  (with its dot)
  Number,      // 12  0x1fU  1.5e3  0f3F800000
  String,      // "…", with its quotes
  Punctuator,  // one or two characters
  Invalid,
};

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;
  uint32_t line = 0, column = 0;

  bool is(std::string_view punctuator) const { return kind == TokenKind::Punctuator && text == punctuator; }
  bool is(char punctuator) const {
    return kind == TokenKind::Punctuator && text.size() == 1 && text[0] == punctuator;
  }
  bool is_dotted(std::string_view word) const { return kind == TokenKind::Dotted && text == word; }
};

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token next();

  // Given the Name just read, the whole dotted word that starts with it, if it has no spaces: ld.global.f32
  Token extend(const Token& name);
  bool at_dot() const { return pos_ < text_.size() && text_[pos_] == '.'; }
  bool at_colon() const { return pos_ < text_.size() && text_[pos_] == ':'; }

  // Skips to the end of the line.
  void skip_line();

  struct Mark {
    size_t pos, line_start;
    uint32_t line;
  };
  Mark mark() const { return {pos_, line_start_, line_}; }
  void reset(const Mark& mark) {
    pos_ = mark.pos;
    line_start_ = mark.line_start;
    line_ = mark.line;
  }

 private:
  void skip_space();
  Token make(TokenKind kind, size_t start) const;
  size_t scan_number(size_t start) const;
  size_t scan_dotted(size_t start) const;

  std::string_view text_;
  size_t pos_ = 0, line_start_ = 0;
  uint32_t line_ = 1;
};

}  // namespace assay::ptx
