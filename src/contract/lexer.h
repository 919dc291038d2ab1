// Words and signs of integer expressions and formulas.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace assay::contract {

enum class TokenKind : uint8_t { Name, Integer, Real, Sign, Newline, End };

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;  // of names and signs
  double real = 0;        // of both kinds of number
  int64_t integer = 0;
  std::size_t offset = 0;  // in the text

  bool is(std::string_view sign) const { return kind == TokenKind::Sign && text == sign; }
  bool is_word(std::string_view word) const { return kind == TokenKind::Name && text == word; }
};

// The last token is End. `#` comments are skipped. Views point into `text`. An error's column is its offset
// in the text plus one, whatever line breaks are before it.
Result<std::vector<Token>> tokenize(std::string_view text);

constexpr int kDeepest = 200;  // nesting of either, which the parsers follow by recursion

}  // namespace assay::contract
