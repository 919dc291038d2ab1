#include "fatbinary/fatbinary.h"

#include <fmt/format.h>
#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <tuple>

#include "fatbinary/elf.h"

namespace assay::fatbinary {
namespace {

constexpr uint32_t kContainerMagic = 0xba55ed50;
constexpr uint64_t kLargestImage = uint64_t{1} << 31;  // more is corrupt input, not device code

// Flags of an image.
constexpr uint64_t kLz4 = 0x2000, kZstd = 0x8000, kExact = 0x100000, kFamily = 0x200000;

struct ContainerHeader {
  uint32_t magic;
  uint16_t version;
  uint16_t header_size;
  uint64_t size;  // of what follows the header
};
static_assert(sizeof(ContainerHeader) == 16);

struct ImageHeader {
  uint16_t kind;  // 1 PTX, 2 SASS
  uint16_t version;
  uint32_t header_size;
  uint64_t payload_size;  // padded
  uint32_t packed_size;   // 0 when plain
  uint32_t options_offset;
  uint16_t minor, major;
  uint32_t architecture;
  uint32_t name_offset, name_size;
  uint64_t flags;
  uint64_t unused;
  uint64_t unpacked_size;
};
static_assert(sizeof(ImageHeader) == 64);

template <class T>
std::optional<T> peek(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

Error corrupt(std::string_view what) {
  return {fmt::format("corrupt fatbinary: {}", what), "", 0, 0};
}

Image::Kind image_kind(uint16_t kind) {
  return kind == 1 ? Image::Kind::Ptx : kind == 2 ? Image::Kind::Sass : Image::Kind::Other;
}

Image::Packing packing(uint64_t flags) {
  return flags & kZstd ? Image::Packing::Zstd : flags & kLz4 ? Image::Packing::Lz4 : Image::Packing::Plain;
}

// Reads the images of one container's body.
Result<void> read_images(std::span<const std::byte> body, std::vector<Image>& images) {
  while (!body.empty()) {
    auto header = peek<ImageHeader>(body);
    if (!header) return corrupt("an image header is truncated");
    if (header->header_size < sizeof(ImageHeader) || header->header_size > body.size())
      return corrupt("an image header has an impossible size");
    body = body.subspan(header->header_size);
    if (header->payload_size > body.size()) return corrupt("an image is truncated");
    Image image{.kind = image_kind(header->kind),
                .packing = packing(header->flags),
                .architecture = header->architecture,
                .exact = (header->flags & kExact) != 0,
                .family = (header->flags & kFamily) != 0,
                .payload = body.first(header->payload_size),
                .unpacked_size = 0};
    if (image.packing != Image::Packing::Plain) {
      if (header->packed_size > header->payload_size) return corrupt("a compressed image is truncated");
      if (header->unpacked_size > kLargestImage) return corrupt("an image has an impossible size");
      image.payload = body.first(header->packed_size);
      image.unpacked_size = header->unpacked_size;
    }
    images.push_back(image);
    body = body.subspan(header->payload_size);
  }
  return {};
}

// The size that a header claims is believed only where the packed bytes can hold that much.
Result<std::string> unpack_zstd(const Image& image) {
  if (ZSTD_getFrameContentSize(image.payload.data(), image.payload.size()) != image.unpacked_size)
    return corrupt("zstd image does not have the size it claims");
  std::string text(image.unpacked_size, '\0');
  size_t size = ZSTD_decompress(text.data(), text.size(), image.payload.data(), image.payload.size());
  if (ZSTD_isError(size) || size != text.size()) return corrupt("zstd image does not unpack");
  return text;
}

Result<std::string> unpack_lz4(const Image& image) {
  constexpr uint64_t kBestRatio = 255;
  if (image.unpacked_size > image.payload.size() * kBestRatio)
    return corrupt("LZ4 image does not have the size it claims");
  std::string text(image.unpacked_size, '\0');
  int size = LZ4_decompress_safe(reinterpret_cast<const char*>(image.payload.data()), text.data(),
                                 static_cast<int>(image.payload.size()), static_cast<int>(text.size()));
  if (size < 0 || static_cast<size_t>(size) != text.size()) return corrupt("LZ4 image does not unpack");
  return text;
}

Result<std::string> unpack_bytes(const Image& image) {
  if (image.packing == Image::Packing::Plain)
    return std::string(reinterpret_cast<const char*>(image.payload.data()), image.payload.size());
  return image.packing == Image::Packing::Zstd ? unpack_zstd(image) : unpack_lz4(image);
}

}  // namespace

uint64_t container_size(const void* start) {
  if (!start) return 0;
  auto header = peek<ContainerHeader>({static_cast<const std::byte*>(start), sizeof(ContainerHeader)});
  if (header->magic != kContainerMagic || header->header_size < sizeof(ContainerHeader)) return 0;
  if (header->size > kLargestImage * 4) return 0;
  return header->header_size + header->size;
}

Result<std::vector<Image>> read_fatbinary(std::span<const std::byte> bytes) {
  std::vector<Image> images;
  do {
    auto header = peek<ContainerHeader>(bytes);
    if (!header) return corrupt("the header is truncated");
    if (header->magic != kContainerMagic) return corrupt("wrong magic number");
    if (header->header_size < sizeof(ContainerHeader) || header->header_size > bytes.size())
      return corrupt("the header has an impossible size");
    bytes = bytes.subspan(header->header_size);
    if (header->size > bytes.size()) return corrupt("the container is truncated");
    if (auto read = read_images(bytes.first(header->size), images); !read) return read.error();
    bytes = bytes.subspan(header->size);
  } while (!bytes.empty());
  return images;
}

const Image* choose_ptx(std::span<const Image> images, unsigned architecture) {
  const Image* best = nullptr;
  auto rank = [](const Image& image) { return std::tuple(image.architecture, image.exact, image.family); };
  for (const Image& image : images) {
    if (image.kind != Image::Kind::Ptx || image.architecture > architecture) continue;
    if (image.exact && image.architecture != architecture) continue;
    if (image.family && image.architecture / 10 != architecture / 10) continue;
    if (!best || rank(image) > rank(*best)) best = &image;
  }
  return best;
}

const Image* choose_machine_code(std::span<const Image> images, unsigned architecture) {
  const Image* best = nullptr;
  for (const Image& image : images) {
    if (image.kind != Image::Kind::Sass || image.architecture > architecture) continue;
    if (image.architecture / 10 != architecture / 10) continue;  // it runs on later ones of its generation
    if (image.exact && image.architecture != architecture) continue;
    if (!best || std::tuple(image.architecture, image.exact) > std::tuple(best->architecture, best->exact))
      best = &image;
  }
  return best;
}

Result<std::string> unpack(const Image& image) {
  auto text = unpack_bytes(image);
  if (text) text->resize(std::min(text->size(), text->find('\0')));  // padding
  return text;
}

Result<std::map<std::string, uint32_t>> registers_of(const Image& image) {
  const auto code = unpack_bytes(image);
  if (!code) return code.error();
  return registers_in(*code);
}

std::vector<std::string_view> containers_in(std::string_view file) {
  std::vector<std::string_view> found;
  constexpr std::size_t kAlignment = 8, kHeader = 16;
  for (std::size_t at = 0; at + kHeader <= file.size();) {
    const uint64_t size = container_size(file.data() + at);
    const bool fits = size != 0 && size <= file.size() - at;
    const bool is_one = fits && read_fatbinary(std::as_bytes(std::span(file)).subspan(at, size));
    if (is_one) found.push_back(file.substr(at, size));
    at += is_one ? (size + kAlignment - 1) / kAlignment * kAlignment : kAlignment;
  }
  return found;
}

Result<std::vector<std::string>> ptx_in(std::string_view file, unsigned architecture) {
  std::vector<std::string> texts;
  for (const std::string_view container : containers_in(file)) {
    const auto images = read_fatbinary(std::as_bytes(std::span(container)));
    const Image* image = images ? choose_ptx(*images, architecture) : nullptr;
    if (!image) continue;
    auto text = unpack(*image);
    if (!text) return text.error();
    texts.push_back(std::move(*text));
  }
  return texts;
}

}  // namespace assay::fatbinary
