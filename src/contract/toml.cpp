#include "contract/toml.h"

#include <algorithm>
#include <optional>

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace assay::contract {
namespace {

Place place_of(const toml::source_region& region) {
  return {static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

bool before(const TomlEntry& a, const TomlEntry& b) {
  return std::pair(a.place.line, a.place.column) < std::pair(b.place.line, b.place.column);
}

TomlValue convert(const toml::node& node) {
  TomlValue value;
  value.place = place_of(node.source());
  if (const auto* string = node.as_string()) {
    value.kind = TomlKind::String;
    value.string = string->get();
  } else if (const auto* integer = node.as_integer()) {
    value.kind = TomlKind::Integer;
    value.integer = integer->get();
    value.real = static_cast<double>(value.integer);
  } else if (const auto* real = node.as_floating_point()) {
    value.kind = TomlKind::Real;
    value.real = real->get();
  } else if (const auto* boolean = node.as_boolean()) {
    value.kind = TomlKind::Bool;
    value.boolean = boolean->get();
  } else if (const auto* array = node.as_array()) {
    value.kind = TomlKind::Array;
    for (const toml::node& item : *array) value.array.push_back(convert(item));
  } else if (const auto* table = node.as_table()) {
    value.kind = TomlKind::Table;
    for (const auto& [key, item] : *table)
      value.table.push_back({std::string(key.str()), place_of(key.source()), convert(item)});
    std::ranges::stable_sort(value.table, before);
  }
  return value;
}

// A quote in the middle of a word or number is part of that to the library.
bool opens_string(std::string_view text, std::size_t at) {
  return at == 0 || std::string_view(" \t\r\n=[{,.\"'").find(text[at - 1]) != std::string_view::npos;
}

// Characters beyond ASCII stand in strings and comments only; the library does not
// expect them elsewhere. The place of the first that does not, or nothing.
std::optional<Place> stray_character(std::string_view text) {
  Place at{1, 1};
  std::string_view quote;  // that ends the string we are in
  bool comment = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const std::string_view rest = text.substr(i);
    std::size_t step = 1;
    if (c == '\n') {
      comment = false;
      if (quote.size() == 1) quote = {};  // an error that the library will name
    } else if (comment) {
    } else if (!quote.empty()) {
      if (c == '\\' && quote[0] == '"')
        step = 2;
      else if (rest.starts_with(quote)) {
        step = quote.size();
        quote = {};
      }
    } else if (c == '#') {
      comment = true;
    } else if ((c == '"' || c == '\'') && opens_string(text, i)) {
      const bool triple = rest.size() >= 3 && rest[1] == c && rest[2] == c;
      step = triple ? 3 : 1;
      quote = rest.substr(0, step);
    } else if (static_cast<unsigned char>(c) >= 0x80 && !(i == 0 && rest.starts_with("\xEF\xBB\xBF"))) {
      return at;
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      step = 3;  // the byte-order mark
    }
    for (std::size_t k = 0; k < step && i + k < text.size(); ++k)
      at = text[i + k] == '\n' ? Place{at.line + 1, 1} : Place{at.line, at.column + 1};
    i += step - 1;
  }
  return std::nullopt;
}

}  // namespace

const TomlValue* TomlValue::find(std::string_view key) const {
  for (const TomlEntry& entry : table)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

Result<TomlValue> parse_toml(std::string_view text, const std::string& path) {
  if (const std::optional<Place> stray = stray_character(text))
    return Error{"a character that has no meaning outside of strings and comments", path, stray->line,
                 stray->column};
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    const Place place = place_of(error.source());
    return Error{std::string(error.description()), path, place.line, place.column};
  }
  return convert(parsed.table());
}

Place content_place(std::string_view text, Place quote) {
  std::size_t at = 0;
  for (int line = 1; line < quote.line && at < text.size(); ++at)
    if (text[at] == '\n') ++line;
  at += static_cast<std::size_t>(std::max(quote.column - 1, 0));
  if (at >= text.size()) return quote;
  const std::string_view rest = text.substr(at);
  if (!rest.starts_with("\"\"\"") && !rest.starts_with("'''")) return {quote.line, quote.column + 1};
  const bool breaks = rest.substr(3).starts_with("\n") || rest.substr(3).starts_with("\r\n");
  return breaks ? Place{quote.line + 1, 1} : Place{quote.line, quote.column + 3};
}

}  // namespace assay::contract
