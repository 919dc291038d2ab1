// Values of JSON appended to a text. A tree of JSON for each event of a program with many took most of the time of writing its files.
#pragma once

#include <algorithm>
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

#include "finding/json.h"

namespace assay::activity {

template <class Number>
requires std::integral<Number> || std::floating_point<Number>
void append_number(std::string& text, Number value) {
  char digits[40];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

inline void append_quoted(std::string& text, std::string_view value) {
  if (std::ranges::any_of(value, [](char c) { return c < ' ' || c == '"' || c == '\\' || c == '\x7f'; })) {
    text += Json(value).dump(-1, ' ', false, Json::error_handler_t::replace);
    return;
  }
  text += '"';
  text += value;
  text += '"';
}

}  // namespace assay::activity
