#include "base/diagnostic.h"

#include <algorithm>

namespace assay {
namespace {

constexpr std::size_t kNumberWidth = 5;  // of the line number

bool continues_character(char c) {  // of UTF-8
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

bool is_word(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         byte >= 0x80;
}

// The offset of a column, which counts characters from 1.
std::size_t offset_of(std::string_view line, int column) {
  std::size_t at = 0;
  for (int passed = 1; passed < column && at < line.size(); ++passed) {
    ++at;
    while (at < line.size() && continues_character(line[at])) ++at;
  }
  return at;
}

// How many characters the word, string or sign takes that begins here.
std::size_t token_width(std::string_view rest) {
  std::size_t end = 1;
  if (rest.starts_with("\"\"\"") || rest.starts_with("'''")) {
    end = 3;
  } else if (!rest.empty() && (rest[0] == '"' || rest[0] == '\'')) {
    const std::size_t close = rest.find(rest[0], 1);
    end = close == std::string_view::npos ? 1 : close + 1;
  } else if (!rest.empty() && is_word(rest[0])) {
    while (end < rest.size() && is_word(rest[end])) ++end;
  }
  const std::string_view token = rest.substr(0, end);
  return std::max<std::size_t>(
      1, token.size() - static_cast<std::size_t>(std::ranges::count_if(token, continues_character)));
}

// Blanks as wide as the text before the caret: tabs stay tabs, so that the caret stands right at any tab
// width.
std::string blanks_for(std::string_view before) {
  std::string blanks;
  for (const char c : before)
    if (!continues_character(c)) blanks += c == '\t' ? '\t' : ' ';
  return blanks;
}

}  // namespace

std::string line_of(std::string_view text, int line) {
  for (int passed = 1; passed < line; ++passed) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return "";
    text.remove_prefix(end + 1);
  }
  std::string_view found = text.substr(0, text.find('\n'));
  if (found.ends_with('\r')) found.remove_suffix(1);
  return std::string(found);
}

std::string diagnostic(const Error& error) {
  if (error.line <= 0) return "assay: " + error.text();
  Error place = error;
  place.message = "error: " + error.message;
  std::string shown = place.text();
  if (error.source_line.empty()) return shown;
  const std::string number = std::to_string(error.line);
  const std::string margin(std::max(kNumberWidth, number.size()), ' ');
  shown += "\n" + margin.substr(number.size()) + number + " | " + error.source_line;
  if (error.column <= 0) return shown;
  const std::string_view line = error.source_line;
  const std::size_t at = offset_of(line, error.column);
  shown += "\n" + margin + " | " + blanks_for(line.substr(0, at)) + "^";
  return shown + std::string(token_width(line.substr(at)) - 1, '~');
}

}  // namespace assay
