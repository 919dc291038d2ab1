// TOML as plain values with places. The only door to the TOML library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "contract/contract.h"

namespace assay::contract {

enum class TomlKind : uint8_t { String, Integer, Real, Bool, Array, Table, Other };

struct TomlEntry;

struct TomlValue {
  TomlKind kind = TomlKind::Other;
  Place place;
  std::string string;
  int64_t integer = 0;
  double real = 0;  // of integers too
  bool boolean = false;
  std::vector<TomlValue> array;
  std::vector<TomlEntry> table;  // in the order of the file

  const TomlValue* find(std::string_view key) const;
};

struct TomlEntry {
  std::string key;
  Place place;  // of the key
  TomlValue value;
};

Result<TomlValue> parse_toml(std::string_view text, const std::string& path);

// Where each byte of a string's content is in the file `text`, and where its end is, given where its opening
// quote is. They differ by more than an offset: escapes are longer than what they stand for, a line break
// right after
// """ is no part of the string, and a backslash at the end of a line takes out all blanks up to the next
// word.
std::vector<Place> content_places(std::string_view text, Place quote, std::string_view content);

}  // namespace assay::contract
