// Values by position: each element of a tensor is a function of its index, so a tensor of many gigabytes is known
// element by element and stored nowhere. Whoever looks at an element makes it; everybody makes the same.
//
// Example:
//
//     const GeneratedValues values{.table = std::vector<std::byte>(4 * 1000), .item = 4, .seed = 7};
//     std::byte row[4 * 128];
//     make_values(values, 1'000'000'000, 128, row);  // elements from the thousand millionth on
//
// An element is one of the table's, picked by a hash of its index: the table says what is legal, and no stride of a
// kernel is in step with a hash. Or the elements rise evenly from 0, as offsets do.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/random.h"

namespace assay {

struct GeneratedValues {
  std::vector<std::byte> table;  // whole elements; empty: they rise
  uint32_t item = 1;             // bytes of an element, at most 8
  uint64_t seed = 0;
  // Of elements that rise, integers: the last one, and its index.
  int64_t last_value = 0, last_index = 0;
  bool operator==(const GeneratedValues&) const = default;
};

// Elements [first, first + count), to `to`.
inline void make_values(const GeneratedValues& values, uint64_t first, uint64_t count, std::byte* to) {
  const uint64_t salt = mix(values.seed);
  const uint64_t choices = values.table.size() / values.item;
  for (uint64_t i = first; i < first + count; ++i, to += values.item) {
    if (choices == 0) {
      __extension__ using Wide = __int128;
      const Wide last = std::max<int64_t>(values.last_index, 1);
      const auto value = static_cast<int64_t>(Wide{values.last_value} * static_cast<int64_t>(i) / last);
      std::memcpy(to, &value, values.item);
      continue;
    }
    const uint64_t which = choices == 1 ? 0 : ((mix(i ^ salt) >> 32) * choices) >> 32;
    std::memcpy(to, values.table.data() + which * values.item, values.item);
  }
}

// Bytes [from, from + length) of the elements side by side.
inline void make_bytes(const GeneratedValues& values, uint64_t from, uint64_t length, std::byte* to) {
  const auto part = [&](uint64_t at, uint64_t bytes, std::byte* target) {  // of one element
    std::byte element[8];
    make_values(values, at / values.item, 1, element);
    std::memcpy(target, element + at % values.item, bytes);
  };
  if (const uint64_t inside = from % values.item; inside != 0 && length > 0) {
    const uint64_t bytes = std::min(values.item - inside, length);
    part(from, bytes, to);
    from += bytes, to += bytes, length -= bytes;
  }
  const uint64_t whole = length / values.item;
  make_values(values, from / values.item, whole, to);
  if (const uint64_t rest = length % values.item)
    part(from + whole * values.item, rest, to + whole * values.item);
}

}  // namespace assay
