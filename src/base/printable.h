// Text from untrusted files, such as a certificate that turns out to be forged, as a terminal may show it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace assay {

// With what would move the cursor, start a line or reorder the text as \u{…}: control characters, and the marks of Unicode for
// line ends and text direction. Everything else stays as it is.
inline std::string printable(std::string_view text) {
  const auto byte = [&](std::size_t at) -> uint32_t {
    return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u;
  };
  std::string shown;
  for (std::size_t i = 0; i < text.size(); ++i) {
    uint32_t code = 0;
    std::size_t length = 1;
    if (byte(i) < 0x20 || byte(i) == 0x7f) {
      code = byte(i);
    } else if (byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0) {  // U+0080 to U+009F
      code = byte(i + 1), length = 2;
    } else if (byte(i) == 0xe2 && (byte(i + 1) == 0x80 || byte(i + 1) == 0x81)) {
      const uint32_t one = 0x2000 + ((byte(i + 1) & 1) << 6) + (byte(i + 2) & 0x3f);
      const bool is_direction = one == 0x200e || one == 0x200f || (one >= 0x202a && one <= 0x202e) ||
                                (one >= 0x2066 && one <= 0x2069);
      if (!is_direction && one != 0x2028 && one != 0x2029) {
        shown += text[i];
        continue;
      }
      code = one, length = 3;
    } else {
      shown += text[i];
      continue;
    }
    shown += fmt::format("\\u{{{:x}}}", code);
    i += length - 1;
  }
  return shown;
}

}  // namespace assay
