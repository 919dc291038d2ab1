#include "subject/source_text.h"

#include <algorithm>
#include <cctype>

namespace assay::subject {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

std::string without_comments(std::string_view text) {
  std::string out(text);
  const auto blank = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to && i < out.size(); ++i)
      if (out[i] != '\n') out[i] = ' ';
  };
  for (std::size_t i = 0; i + 1 < out.size(); ++i) {
    const bool separates_digits = out[i] == '\'' && i > 0 && is_word(out[i - 1]);
    if (out[i] == '/' && out[i + 1] == '/') {
      blank(i, std::min(out.find('\n', i), out.size()));
    } else if (out[i] == '/' && out[i + 1] == '*') {
      const std::size_t end = out.find("*/", i + 2);
      blank(i, end == std::string::npos ? out.size() : end + 2);
    } else if (out[i] == '"' || (out[i] == '\'' && !separates_digits)) {
      std::size_t end = i + 1;
      while (end < out.size() && out[end] != out[i] && out[end] != '\n') end += out[end] == '\\' ? 2 : 1;
      blank(i, end + 1);
    }
  }
  return out;
}

bool line_names(std::string_view text, int line, std::string_view name) {
  std::size_t start = 0;
  for (int i = 1; i < line && start != std::string_view::npos; ++i) {
    const std::size_t end = text.find('\n', start);
    start = end == std::string_view::npos ? end : end + 1;
  }
  if (start == std::string_view::npos || line < 1) return false;
  return text.substr(start, text.find('\n', start) - start).find(name) != std::string_view::npos;
}

}  // namespace assay::subject
