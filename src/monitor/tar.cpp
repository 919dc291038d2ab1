#include "monitor/tar.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace assay::monitor {

namespace {

constexpr std::size_t kBlock = 512;  // bytes; files begin and end at multiples of it

struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], time[12], sum[8], type, link[100];
  char magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155], padding[12];
};
static_assert(sizeof(Header) == kBlock);

template <std::size_t N>
void put(char (&field)[N], const std::string& text) {
  std::memcpy(field, text.data(), std::min(N, text.size()));
}

// Of all bytes, those of the sum itself counted as blanks.
unsigned sum_of(Header header) {
  std::memset(header.sum, ' ', sizeof header.sum);
  unsigned sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) sum += reinterpret_cast<const unsigned char*>(&header)[i];
  return sum;
}

template <std::size_t N>
std::string_view word(const char (&field)[N]) {
  return {field, strnlen(field, N)};
}

template <std::size_t N>
bool octal(const char (&field)[N], uint64_t& value) {
  const std::string_view text = word(field);
  return std::from_chars(text.data(), text.data() + text.size(), value, 8).ec == std::errc();
}

}  // namespace

std::string write_tar(const std::vector<TarFile>& files, int64_t unix_seconds) {
  std::string text;
  for (const TarFile& file : files) {
    Header header{};
    put(header.name, file.name);
    put(header.mode, "0000600");
    put(header.uid, "0000000");
    put(header.gid, "0000000");
    put(header.size, fmt::format("{:011o}", file.bytes.size()));
    put(header.time, fmt::format("{:011o}", unix_seconds));
    header.type = '0';
    put(header.magic, "ustar");
    put(header.version, "00");
    put(header.sum, fmt::format("{:06o}", sum_of(header)));
    header.sum[7] = ' ';
    text.append(reinterpret_cast<const char*>(&header), kBlock);
    text += file.bytes;
    text.append((kBlock - text.size() % kBlock) % kBlock, '\0');
  }
  return text.append(2 * kBlock, '\0');
}

Result<std::vector<TarFile>> read_tar(std::string_view text) {
  std::vector<TarFile> files;
  const Error broken{"not the content of a capture"};
  for (std::size_t at = 0;;) {
    Header header;
    if (text.size() < kBlock || at > text.size() - kBlock) return broken;
    std::memcpy(&header, text.data() + at, kBlock);
    if (header.name[0] == '\0') return files;
    uint64_t size = 0, sum = 0;
    const bool is_folder = header.type == '5';  // of an archive that was packed again
    if (!octal(header.size, size) || !octal(header.sum, sum) || sum != sum_of(header) ||
        (header.type != '0' && !is_folder))
      return broken;
    at += kBlock;
    if (is_folder) continue;
    if (size > text.size() - at) return broken;
    files.push_back({std::string(word(header.name)), std::string(text.substr(at, size))});
    at += (size + kBlock - 1) / kBlock * kBlock;
  }
}

}  // namespace assay::monitor
