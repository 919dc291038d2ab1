// Reads the golden vectors (README.md beside this says what they are) and
// makes the pseudo-random operands whose results are kept as a hash.
#pragma once

#include <zstd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace assay::golden {

// One form: `kinds` of the result and the operands, and `count` tuples of them.
struct Record {
  std::string form;
  std::string text;  // PTX with %d %a %b %c for the registers; empty for mma
  std::vector<std::string> kinds;
  std::vector<int> shape;      // mma: m n k
  std::vector<int> registers;  // mma: registers a lane, of d a b c
  uint64_t count = 0;          // tuples; for mma: warps
  uint64_t stream = 0;         // tuples of the hashed run
  uint64_t hash = 0;
  std::vector<std::vector<uint64_t>> operands;
  std::vector<uint64_t> results;
};

// Bits of the register that holds a kind.
inline int width(std::string_view kind) {
  if (kind == "f64" || kind == "b64" || kind == "u64" || kind == "s64") return 64;
  for (const char* narrow : {"u8", "s8", "b16", "u16", "s16", "f16", "bf16", "e4m3x2", "e5m2x2"}) {
    if (kind == narrow) return 16;
  }
  return 32;
}

inline uint64_t mix(uint64_t x) {
  uint64_t z = x + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

inline uint64_t name_seed(std::string_view name) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : name) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return h;
}

// The hash of results 0, 1, 2, ...: the sum of digest(i, result).
inline uint64_t digest(uint64_t index, uint64_t result) {
  return mix(result ^ mix(index));
}

namespace detail {

inline uint64_t shape_f32(uint64_t r) {
  const uint64_t v = mix(r) & 0xffffffffu;
  switch (r & 7) {
    case 0:
      return v;
    case 1:
      return v & (0xffffffffu << ((r >> 3) & 31));
    case 2:
      return v & 0x80ffffffu;
    case 6:
      return (v & 0x83ffffffu) + 0x3e000000u;
    case 7:
      return (v & 0x81ffffffu) | 0x7e000000u;
    default:
      return (v & 0x80ffffffu) + 0x3f000000u;
  }
}

inline uint64_t shape_f64(uint64_t r) {
  const uint64_t v = mix(r);
  switch (r & 7) {
    case 0:
      return v;
    case 1:
      return v & (~uint64_t{0} << ((r >> 3) & 63));
    case 2:
      return v & 0x801fffffffffffffu;
    case 6:
      return (v & 0x807fffffffffffffu) + 0x3fc0000000000000u;
    case 7:
      return (v & 0x803fffffffffffffu) | 0x7fc0000000000000u;
    default:
      return (v & 0x801fffffffffffffu) + 0x3fe0000000000000u;
  }
}

inline uint64_t shape_half(uint64_t r, uint64_t fraction, uint64_t near_mask, uint64_t near) {
  const uint64_t v = mix(r) & 0xffffu;
  switch (r & 7) {
    case 4:
      return v & (0xffffu << ((r >> 3) & 15)) & 0xffffu;
    case 5:
      return v & (0x8000u | fraction);
    case 6:
    case 7:
      return (v & near_mask) + near;
    default:
      return v;
  }
}
inline uint64_t shape_f16(uint64_t r) {
  return shape_half(r, 0x3ff, 0x87ff, 0x3800);
}
inline uint64_t shape_bf16(uint64_t r) {
  return shape_half(r, 0x7f, 0x80ff, 0x3f00);
}

inline uint64_t shape_integer(uint64_t r, int bits) {
  const uint64_t ones = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  const uint64_t v = mix(r) & ones;
  const uint64_t n = (r >> 3) & static_cast<uint64_t>(bits - 1);
  const uint64_t small = v & ((uint64_t{1} << n) - 1);
  switch (r & 7) {
    case 2:
    case 3:
      return small;
    case 4:
      return ~small & ones;
    case 5:
      return ((uint64_t{1} << n) + (v & 3) - 1) & ones;
    default:
      return v;
  }
}

inline uint64_t shape_position(uint64_t r) {
  const uint64_t v = mix(r) & 0xffffffffu;
  switch (r & 7) {
    case 4:
      return v & 63;
    case 5:
      return v & 255;
    case 6:
      return v;
    case 7:
      return v & 7;
    default:
      return v & 31;
  }
}

using Shape = uint64_t (*)(uint64_t);

inline Shape shape_of(std::string_view kind) {
  if (kind == "f32" || kind == "tf32") return shape_f32;
  if (kind == "f64") return shape_f64;
  if (kind == "f16") return shape_f16;
  if (kind == "bf16") return shape_bf16;
  if (kind == "f16x2") return [](uint64_t r) { return shape_f16(r) | shape_f16(mix(r + 1)) << 16; };
  if (kind == "bf16x2") return [](uint64_t r) { return shape_bf16(r) | shape_bf16(mix(r + 1)) << 16; };
  if (kind == "pos") return shape_position;
  if (kind == "u8" || kind == "s8") return [](uint64_t r) { return mix(r) & 0xff; };
  if (width(kind) == 16) return [](uint64_t r) { return shape_integer(r, 16); };
  if (width(kind) == 64) return [](uint64_t r) { return shape_integer(r, 64); };
  return [](uint64_t r) { return shape_integer(r, 32); };
}

}  // namespace detail

// The operands of a record's hashed run.
class Stream {
 public:
  explicit Stream(const Record& record)
      : seed_(name_seed(record.form)), all_codes_(record.kinds.size() == 2 && width(record.kinds[1]) == 16) {
    for (size_t j = 1; j < record.kinds.size(); ++j) shapes_.push_back(detail::shape_of(record.kinds[j]));
  }
  // Operand j of tuple i.
  uint64_t operand(uint64_t i, size_t j) const {
    return all_codes_ ? i & 0xffff : shapes_[j](mix(seed_ + i * 4 + j));
  }

 private:
  uint64_t seed_;
  bool all_codes_;
  std::vector<detail::Shape> shapes_;
};

// The same for one operand; `seed` is name_seed(record.form).
inline uint64_t stream_operand(const Record& record, uint64_t seed, uint64_t i, size_t j) {
  const std::string& kind = record.kinds[j + 1];
  if (record.kinds.size() == 2 && width(kind) == 16) return i & 0xffff;
  return detail::shape_of(kind)(mix(seed + i * 4 + j));
}

namespace detail {

inline std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), {}};
}
inline std::vector<int> numbers(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<int>(in), {}};
}

inline void set_field(Record& record, const std::string& key, const std::string& value) {
  if (key == "form") record.form = value;
  if (key == "text") record.text = value;
  if (key == "kinds") record.kinds = words(value);
  if (key == "shape") record.shape = numbers(value);
  if (key == "registers") record.registers = numbers(value);
  if (key == "count") record.count = std::stoull(value);
  if (key == "stream") record.stream = std::stoull(value);
  if (key == "hash") record.hash = std::stoull(value, nullptr, 16);
}

inline std::vector<uint64_t> column(const char*& at, uint64_t count, int bits) {
  std::vector<uint64_t> values(count);
  for (uint64_t& v : values) {
    std::memcpy(&v, at, static_cast<size_t>(bits / 8));
    at += bits / 8;
  }
  return values;
}

inline std::string decompressed(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string packed{std::istreambuf_iterator<char>(in), {}};
  const auto size = ZSTD_getFrameContentSize(packed.data(), packed.size());
  if (packed.empty() || size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN) return {};
  std::string data(size, '\0');
  const size_t got = ZSTD_decompress(data.data(), data.size(), packed.data(), packed.size());
  return ZSTD_isError(got) ? std::string{} : data;
}

}  // namespace detail

// All records of a family (tests/golden/vectors/<family>.gold.zst); empty if the file is missing or damaged.
inline std::vector<Record> read(const std::string& path) {
  constexpr std::string_view kMagic = "assay golden 1\n";
  const std::string data = detail::decompressed(path);
  std::vector<Record> records;
  if (data.compare(0, kMagic.size(), kMagic) != 0) return records;
  const char* at = data.data() + kMagic.size();
  const char* end = data.data() + data.size();
  while (at < end) {
    uint32_t length = 0;
    std::memcpy(&length, at, 4);
    at += 4;
    std::istringstream header(std::string(at, length));
    at += length;
    Record record;
    for (std::string line; std::getline(header, line) && !line.empty();) {
      const size_t colon = line.find(": ");
      detail::set_field(record, line.substr(0, colon), line.substr(colon + 2));
    }
    const bool mma = !record.registers.empty();
    const auto size = [&](size_t i) {
      return mma ? record.count * 32 * static_cast<uint64_t>(record.registers[i]) : record.count;
    };
    const auto bits = [&](size_t i) {
      return mma ? (record.kinds[i] == "f64" ? 64 : 32) : width(record.kinds[i]);
    };
    for (size_t i = 1; i < record.kinds.size(); ++i) {
      record.operands.push_back(detail::column(at, size(i), bits(i)));
    }
    record.results = detail::column(at, size(0), bits(0));
    records.push_back(std::move(record));
  }
  return records;
}

}  // namespace assay::golden
