#include "ptx/token_reader.h"

#include <fmt/format.h>

namespace assay::ptx {

std::string quote(std::string_view text) {
  constexpr size_t kLongest = 60;
  std::string result = "'";
  for (char c : text.substr(0, kLongest)) {
    if (c >= 0x20 && c < 0x7f) {
      result += c;
    } else {
      result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (text.size() > kLongest) result += "…";
  return result + "'";
}

std::string quote(const Token& token) {
  if (token.kind == TokenKind::End) return "the end of the text";
  if (token.kind == TokenKind::Invalid && token.text.starts_with('"'))
    return "a string without its closing quote";
  return quote(token.text);
}

void TokenReader::fail(const Token& at, std::string message) const {
  throw Failure{std::move(message), at.line, at.column};
}

void TokenReader::fail_expected(std::string_view what) const {
  fail(token_, fmt::format("expected {}, found {}", what, quote(token_)));
}

void TokenReader::expect(char punctuator) {
  if (!accept(punctuator)) fail_expected(fmt::format("'{}'", punctuator));
}

Token TokenReader::expect_name(std::string_view what) {
  if (!is_name()) fail_expected(what);
  return take();
}

std::string TokenReader::expect_string() {
  if (token_.kind != TokenKind::String) fail_expected("a string");
  std::string_view text = token_.text.substr(1, token_.text.size() - 2);
  advance();
  return std::string(text);
}

Token TokenReader::take_word() {
  Token word = lexer_.extend(token_);
  advance();
  if (!is_dotted()) return word;
  std::string joined(word.text);  // rare: spaces before a dot
  while (is_dotted()) joined += take().text;
  joined_words_.push_back(std::move(joined));
  word.text = joined_words_.back();
  return word;
}

Token TokenReader::peek() {
  Lexer::Mark mark = lexer_.mark();
  Token token = lexer_.next();
  lexer_.reset(mark);
  return token;
}

bool TokenReader::at_label() {
  return is_name() && (lexer_.at_colon() || peek().is(':'));
}

std::optional<uint32_t> TokenReader::range(uint32_t limit) {
  if (!accept('<')) return std::nullopt;
  if (token_.kind != TokenKind::Number) fail_expected("a number of names");
  Token at = take();
  Constant count = literal(at);
  if (count.is_float || count.bits > limit)
    fail(at, fmt::format("{} names are more than {}", at.text, limit));
  expect('>');
  return static_cast<uint32_t>(count.bits);
}

bool TokenReader::skip_old_debug_line() {
  Lexer::Mark mark = lexer_.mark();
  if (lexer_.next().is('@') && lexer_.next().text == "DWARF") {
    lexer_.skip_line();
    advance();
    return true;
  }
  lexer_.reset(mark);
  return false;
}

void TokenReader::skip_braces() {
  Token open = token_;
  expect('{');
  for (int depth = 1; depth > 0;) {
    if (at_end()) fail(open, "'{' without its '}'");
    if (is('{')) ++depth;
    if (is('}')) --depth;
    advance();
  }
}

}  // namespace assay::ptx
