#include "ptx/lexer.h"

#include <array>

namespace assay::ptx {
namespace {

enum : uint8_t { kNameStart = 1, kNamePart = 2, kDigit = 4, kSpace = 8, kPunctuator = 16 };

constexpr std::array<uint8_t, 256> make_classes() {
  std::array<uint8_t, 256> classes{};
  for (int c = 'a'; c <= 'z'; ++c) classes[c] = kNameStart | kNamePart;
  for (int c = 'A'; c <= 'Z'; ++c) classes[c] = kNameStart | kNamePart;
  for (int c = '0'; c <= '9'; ++c) classes[c] = kNamePart | kDigit;
  classes['_'] = classes['$'] = kNameStart | kNamePart;
  classes[' '] = classes['\t'] = classes['\r'] = classes['\f'] = classes['\v'] = kSpace;
  for (char c : std::string_view("@!-+*/%~&|^<>=?:;,()[]{}")) classes[static_cast<uint8_t>(c)] = kPunctuator;
  return classes;
}
constexpr auto kClasses = make_classes();

bool is(char c, uint8_t what) {
  return (kClasses[static_cast<uint8_t>(c)] & what) != 0;
}

bool is_pair(char a, char b) {
  switch (a) {
    case '<':
    case '>':
      return b == a || b == '=';
    case '=':
    case '!':
      return b == '=';
    case '&':
    case '|':
      return b == a;
    default:
      return false;
  }
}

}  // namespace

void Lexer::skip_space() {
  while (pos_ < text_.size()) {
    char c = text_[pos_];
    if (is(c, kSpace)) {
      ++pos_;
    } else if (c == '\n') {
      ++line_;
      line_start_ = ++pos_;
    } else if (c == '/' && text_.substr(pos_, 2) == "//") {
      pos_ = std::min(text_.find('\n', pos_), text_.size());
    } else if (c == '/' && text_.substr(pos_, 2) == "/*") {
      size_t end = text_.find("*/", pos_ + 2);
      end = end == std::string_view::npos ? text_.size() : end + 2;
      for (; pos_ < end; ++pos_)
        if (text_[pos_] == '\n') ++line_, line_start_ = pos_ + 1;
    } else if (c == '#') {  // a line marker left by a preprocessor
      pos_ = std::min(text_.find('\n', pos_), text_.size());
    } else {
      return;
    }
  }
}

Token Lexer::make(TokenKind kind, size_t start) const {
  return {kind, text_.substr(start, pos_ - start), line_, static_cast<uint32_t>(start - line_start_ + 1)};
}

size_t Lexer::scan_number(size_t start) const {
  size_t end = start;
  bool hex = text_.substr(start, 2) == "0x" || text_.substr(start, 2) == "0X";
  bool image = text_.size() - start > 1 && text_[start] == '0' &&
               (text_[start + 1] == 'f' || text_[start + 1] == 'F' || text_[start + 1] == 'd' ||
                text_[start + 1] == 'D');
  while (end < text_.size()) {
    char c = text_[end];
    bool exponent = !hex && !image && end > start && (text_[end - 1] == 'e' || text_[end - 1] == 'E');
    if (is(c, kNamePart) || ((c == '+' || c == '-') && exponent)) {
      ++end;
    } else if (c == '.' && !hex && !image && (end + 1 >= text_.size() || !is(text_[end + 1], kNameStart))) {
      ++end;
    } else {
      break;
    }
  }
  return end;
}

size_t Lexer::scan_dotted(size_t start) const {
  size_t end = start + 1;
  while (end < text_.size()) {
    if (is(text_[end], kNamePart)) {
      ++end;
    } else if (text_[end] == ':' && text_.substr(end, 2) == "::") {
      end += 2;
    } else {
      break;
    }
  }
  return end;
}

Token Lexer::next() {
  skip_space();
  size_t start = pos_;
  if (pos_ >= text_.size()) return make(TokenKind::End, start);
  char c = text_[pos_];
  if (is(c, kNameStart) || (c == '%' && pos_ + 1 < text_.size() && is(text_[pos_ + 1], kNameStart))) {
    ++pos_;
    while (pos_ < text_.size() && is(text_[pos_], kNamePart)) ++pos_;
    return make(TokenKind::Name, start);
  }
  if (c == '.' && pos_ + 1 < text_.size() && is(text_[pos_ + 1], kNamePart)) {
    pos_ = scan_dotted(start);
    return make(TokenKind::Dotted, start);
  }
  if (is(c, kDigit)) {
    pos_ = scan_number(start);
    return make(TokenKind::Number, start);
  }
  if (c == '"') {
    ++pos_;
    while (pos_ < text_.size() && text_[pos_] != '"' && text_[pos_] != '\n') {
      if (text_[pos_] == '\\' && pos_ + 1 < text_.size() && text_[pos_ + 1] != '\n') ++pos_;
      ++pos_;
    }
    bool closed = pos_ < text_.size() && text_[pos_] == '"';
    if (closed) ++pos_;
    return make(closed ? TokenKind::String : TokenKind::Invalid, start);
  }
  if (!is(c, kPunctuator)) return ++pos_, make(TokenKind::Invalid, start);
  pos_ += is_pair(c, pos_ + 1 < text_.size() ? text_[pos_ + 1] : '\0') ? 2 : 1;
  return make(TokenKind::Punctuator, start);
}

Token Lexer::extend(const Token& name) {
  size_t start = pos_ - name.text.size();
  while (at_dot()) {
    size_t end = scan_dotted(pos_);
    if (end == pos_ + 1) break;
    pos_ = end;
  }
  Token word = name;
  word.text = text_.substr(start, pos_ - start);
  return word;
}

void Lexer::skip_line() {
  pos_ = std::min(text_.find('\n', pos_), text_.size());
}

}  // namespace assay::ptx
