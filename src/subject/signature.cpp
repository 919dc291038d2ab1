#include "subject/signature.h"

#include <cctype>
#include <vector>

namespace assay::subject {

namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// Comments and literals become blanks; lines keep their places.
std::string bare(std::string_view text) {
  std::string out(text);
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to && i < out.size(); ++i)
      if (out[i] != '\n') out[i] = ' ';
  };
  for (std::size_t i = 0; i + 1 < out.size(); ++i) {
    if (out[i] == '/' && out[i + 1] == '/') {
      blank(i, std::min(out.find('\n', i), out.size()));
    } else if (out[i] == '/' && out[i + 1] == '*') {
      const std::size_t end = out.find("*/", i + 2);
      blank(i, end == std::string::npos ? out.size() : end + 2);
    } else if (out[i] == '"') {
      std::size_t end = i + 1;
      while (end < out.size() && out[end] != '"' && out[end] != '\n') end += out[end] == '\\' ? 2 : 1;
      blank(i, end + 1);
    }
  }
  return out;
}

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
  const std::string text = bare(source);
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
