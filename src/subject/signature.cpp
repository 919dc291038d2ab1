#include "subject/signature.h"

#include <algorithm>
#include <vector>

#include "subject/source_text.h"

namespace assay::subject {

namespace {

std::vector<std::string> split(std::string_view list) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : list) {
    if (c == '(' || c == '<' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == '>' || c == ']' || c == '}') --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// "const float* x" has a type and a name; "FOO" may be anything.
bool is_parameter(std::string_view text) {
  int words = 0;
  bool inside = false, pointer = false;
  for (const char c : text) {
    if (is_word(c) && !inside) ++words;
    inside = is_word(c);
    pointer |= c == '*' || c == '&';
  }
  return words >= 2 || (words == 1 && pointer);
}

std::optional<int> count(std::string_view list) {
  const std::vector<std::string> parts = split(list);
  if (parts.size() == 1) {
    const std::size_t first = parts[0].find_first_not_of(" \t\r\n");
    if (first == std::string::npos) return 0;
    const std::size_t last = parts[0].find_last_not_of(" \t\r\n");
    if (parts[0].substr(first, last - first + 1) == "void") return 0;
  }
  for (const std::string& part : parts)
    if (!is_parameter(part)) return std::nullopt;
  return static_cast<int>(parts.size());
}

}  // namespace

std::optional<int> parameters_of(std::string_view source, std::string_view name) {
  const std::string text = without_comments(source);
  std::optional<int> found;
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t after = at + name.size();
    if ((at > 0 && is_word(text[at - 1])) || (after < text.size() && is_word(text[after]))) continue;
    const std::size_t open = text.find_first_not_of(" \t\r\n", after);
    if (open == std::string::npos || text[open] != '(') continue;
    int depth = 0;
    std::size_t close = open;
    for (; close < text.size(); ++close) {
      if (text[close] == '(') ++depth;
      if (text[close] == ')' && --depth == 0) break;
    }
    const std::size_t body = text.find_first_not_of(" \t\r\n", std::min(close + 1, text.size()));
    if (body == std::string::npos || text[body] != '{') continue;  // a call, or a declaration
    if (found) return std::nullopt;
    found = count(std::string_view(text).substr(open + 1, close - open - 1));
    if (!found) return std::nullopt;
  }
  return found;
}

}  // namespace assay::subject
