// Containers of device code: every packing is read, and damage of any kind is an error, not a crash.
#include "fatbinary/fatbinary.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <lz4.h>
#include <zstd.h>

#include <cstring>
#include <random>

#include "fatbinary/elf.h"

namespace assay::fatbinary {
namespace {

using Bytes = std::vector<std::byte>;

const std::string kText = [] {
  std::string text = ".version 9.0\n.target sm_90\n.address_size 64\n";
  for (int i = 0; i < 100; ++i) text += ".visible .entry kernel" + std::to_string(i) + "()\n{\n  ret;\n}\n";
  return text;
}();

template <class T>
void put(Bytes& bytes, T value) {
  auto* raw = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), raw, raw + sizeof value);
}

std::string packed(const std::string& text, uint64_t flags) {
  std::string out(text.size() * 2 + 64, '\0');
  if (flags & 0x8000) {
    out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  } else if (flags & 0x2000) {
    out.resize(static_cast<size_t>(LZ4_compress_default(
        text.data(), out.data(), static_cast<int>(text.size()), static_cast<int>(out.size()))));
  } else {
    out = text;
  }
  return out;
}

// An image as nvcc 13.0 lays it out.
Bytes image(uint16_t kind, uint32_t architecture, uint64_t flags, const std::string& text) {
  std::string payload = packed(text, flags);
  bool is_packed = (flags & 0xa000) != 0;
  size_t padded = (payload.size() + 7) / 8 * 8;
  Bytes bytes;
  put(bytes, kind);
  put(bytes, uint16_t{0x0101});
  put(bytes, uint32_t{64});
  put(bytes, uint64_t{padded});
  put(bytes, static_cast<uint32_t>(is_packed ? payload.size() : 0));
  put(bytes, uint32_t{64});
  put(bytes, uint16_t{0});
  put(bytes, uint16_t{9});
  put(bytes, architecture);
  put(bytes, uint64_t{0});
  put(bytes, flags | 0x11);
  put(bytes, uint64_t{0});
  put(bytes, static_cast<uint64_t>(is_packed ? text.size() : 0));
  payload.resize(padded);
  for (char c : payload) put(bytes, c);
  return bytes;
}

Bytes container(const std::vector<Bytes>& images) {
  Bytes body, bytes;
  for (const Bytes& one : images) body.insert(body.end(), one.begin(), one.end());
  put(bytes, uint32_t{0xba55ed50});
  put(bytes, uint16_t{1});
  put(bytes, uint16_t{16});
  put(bytes, uint64_t{body.size()});
  bytes.insert(bytes.end(), body.begin(), body.end());
  return bytes;
}

TEST(Fatbinary, ReadsEveryPacking) {
  for (uint64_t flags : {uint64_t{0}, uint64_t{0x2000}, uint64_t{0x8000}}) {
    Bytes bytes = container({image(1, 90, flags, kText)});
    auto images = read_fatbinary(bytes);
    ASSERT_TRUE(images) << images.error().text();
    ASSERT_EQ(images->size(), 1u);
    auto text = unpack(images->front());
    ASSERT_TRUE(text) << text.error().text();
    EXPECT_EQ(*text, kText);
    EXPECT_EQ(container_size(bytes.data()), bytes.size());
  }
}

TEST(Fatbinary, ReadsContainersOneAfterAnother) {
  Bytes both = container({image(1, 80, 0, kText)}), second = container({image(2, 90, 0, "code")});
  both.insert(both.end(), second.begin(), second.end());
  auto images = read_fatbinary(both);
  ASSERT_TRUE(images);
  ASSERT_EQ(images->size(), 2u);
  EXPECT_EQ((*images)[0].kind, Image::Kind::Ptx);
  EXPECT_EQ((*images)[1].kind, Image::Kind::Sass);
}

TEST(Fatbinary, ChoosesTheNewestPtxThatTheDeviceMayRun) {
  constexpr uint64_t kExact = 0x100000, kFamily = 0x200000;
  struct Case {
    std::vector<std::pair<uint32_t, uint64_t>> images;
    int chosen;  // -1: none
  };
  const Case cases[] = {
      {{{75, 0}, {90, 0}, {80, 0}}, 1},
      {{{90, 0}, {90, kExact}}, 1},
      {{{100, 0}, {80, 0}}, 1},
      {{{100, 0}}, -1},
      {{{100, kExact}, {86, 0}}, 1},
      {{{80, kExact}, {75, 0}}, 1},
      {{{100, kFamily}, {75, 0}}, 1},
      {{{89, kFamily}, {75, 0}}, 1},
      {{}, -1},
  };
  for (const Case& one : cases) {
    std::vector<Bytes> parts = {image(2, 90, 0, "machine code is never chosen")};
    for (auto [architecture, flags] : one.images) parts.push_back(image(1, architecture, flags, kText));
    Bytes bytes = container(parts);
    auto images = read_fatbinary(bytes);
    ASSERT_TRUE(images);
    const Image* chosen = choose_ptx(*images, 90);
    int position = chosen ? static_cast<int>(chosen - images->data()) - 1 : -1;
    EXPECT_EQ(position, one.chosen);
  }
}

TEST(Fatbinary, FindsTheContainersOfAFile) {
  const auto as_text = [](const Bytes& bytes) {
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const std::string library = "\177ELF and so on  " + as_text(container({image(1, 90, 0x8000, kText)})) +
                              std::string(24, 'x') + as_text(container({image(2, 90, 0, "machine code")})) +
                              as_text(container({image(1, 80, 0, "another unit")}));
  const auto texts = ptx_in(library, 90);
  ASSERT_TRUE(texts) << texts.error().text();
  ASSERT_EQ(texts->size(), 2u);
  EXPECT_EQ((*texts)[0], kText);
  EXPECT_TRUE((*texts)[1].starts_with("another unit"));
  EXPECT_TRUE(ptx_in("no containers here", 90)->empty());
}

// Whatever is cut off, there is an error; and nothing outside the bytes is read (asan would tell).
TEST(Fatbinary, TruncationIsAnError) {
  Bytes whole = container({image(1, 90, 0x8000, kText), image(1, 80, 0x2000, kText)});
  for (size_t size = 0; size < whole.size(); ++size) {
    Bytes part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    auto images = read_fatbinary(part);
    EXPECT_FALSE(images) << size;
    if (!images) {
      EXPECT_NE(images.error().message.find("corrupt fatbinary"), std::string::npos);
    }
  }
}

TEST(Fatbinary, DamageNeverCrashes) {
  Bytes whole = container({image(1, 90, 0x8000, kText), image(1, 80, 0x2000, kText), image(1, 75, 0, kText)});
  std::mt19937_64 random(1);
  size_t errors = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    Bytes damaged = whole;
    for (uint64_t i = 0, count = 1 + random() % 4; i < count; ++i)
      damaged[random() % (trial % 2 ? damaged.size() : 100)] = static_cast<std::byte>(random());
    auto images = read_fatbinary(damaged);
    if (!images) {
      ++errors;
      continue;
    }
    for (const Image& one : *images)
      if (!unpack(one)) ++errors;
  }
  EXPECT_GT(errors, 500u);
}

TEST(Fatbinary, AbsurdSizesAreRefused) {
  Bytes bytes = container({image(1, 90, 0x8000, kText)});
  uint64_t huge = ~uint64_t{0} - 100;
  Bytes payload = bytes;
  std::memcpy(payload.data() + 16 + 8, &huge, 8);
  EXPECT_FALSE(read_fatbinary(payload));
  Bytes unpacked = bytes;
  std::memcpy(unpacked.data() + 16 + 56, &huge, 8);
  EXPECT_FALSE(read_fatbinary(unpacked));
  Bytes total = bytes;
  std::memcpy(total.data() + 8, &huge, 8);
  EXPECT_FALSE(read_fatbinary(total));
  EXPECT_EQ(container_size(total.data()), 0u);
}

// Machine code of a GPU: a header, the names of sections, .nv.info with one attribute for registers, .text.scale.
std::string machine_code(uint32_t registers) {
  const std::string names("\0.shstrtab\0.nv.info\0.text.scale\0", 33);
  std::string attribute("\x04\x2f\x08\x00\x05\x00\x00\x00", 8);
  attribute.append(reinterpret_cast<const char*>(&registers), 4);
  const Elf64_Shdr sections[] = {
      {},
      {.sh_name = 1, .sh_type = SHT_STRTAB, .sh_offset = sizeof(Elf64_Ehdr), .sh_size = names.size()},
      {.sh_name = 11,
       .sh_type = SHT_LOPROC,
       .sh_offset = sizeof(Elf64_Ehdr) + names.size(),
       .sh_size = attribute.size()},
      {.sh_name = 20, .sh_type = SHT_PROGBITS, .sh_info = 5},
  };
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_machine = 190;
  header.e_shoff = sizeof header + names.size() + attribute.size();
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shstrndx = 1;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += names + attribute;
  bytes.append(reinterpret_cast<const char*>(sections), sizeof sections);
  return bytes;
}

TEST(MachineCode, RegistersAreThoseOfTheKernel) {
  const auto found = registers_in(machine_code(168));
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(*found, (std::map<std::string, uint32_t>{{"scale", 168}}));
}

TEST(MachineCode, DamageIsNoRegisters) {
  const std::string code = machine_code(168);
  EXPECT_FALSE(registers_in("PTX"));
  for (size_t size = 0; size < code.size(); ++size) {
    const auto found = registers_in(std::string_view(code).substr(0, size));
    EXPECT_TRUE(!found || found->empty()) << size;
  }
}

}  // namespace
}  // namespace assay::fatbinary
