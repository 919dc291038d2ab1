#include "contract/toml.h"

#include <algorithm>

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

}  // namespace

const TomlValue* TomlValue::find(std::string_view key) const {
  for (const TomlEntry& entry : table)
    if (entry.key == key) return &entry.value;
  return nullptr;
}

Result<TomlValue> parse_toml(std::string_view text, const std::string& path) {
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
