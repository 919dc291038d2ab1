// Constants of a piece of CUDA source: what an array's dimensions come to, as far as the text alone tells.
//
// Names are looked up among template arguments, macros, constants and enumerators. Whatever is not certain
// (two definitions that differ, a call, a condition) has no value.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace assay::report {

// Names as a declaration sees them.
struct Scope {
  const std::string& code;
  size_t begin = 0, at = 0;                      // of the function; of the declaration
  std::map<std::string, std::string> arguments;  // of the template
};

// Of an integer expression: + - * / % << >>, brackets, sizeof, names. `steps`: names that led here.
std::optional<int64_t> value_of(const Scope& scope, std::string_view text, int steps = 0);
// Of a type, in bytes.
std::optional<uint64_t> size_of(const Scope& scope, const std::string& type, int steps = 0);

// ---- Text ----

bool is_word(char c);
// Where `word` stands by itself, from `from` on.
size_t find_word(const std::string& text, const std::string& word, size_t from = 0);
std::string trimmed(std::string_view text);

}  // namespace assay::report
