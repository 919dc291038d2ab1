// Reading what compilers leave in files: fatbinaries, the containers in which nvcc embeds device code, and
// the ELF files that hold them.
//
// Example:
//
//     Result<std::vector<std::string>> found = ptx_in(library, 90);  // what sm_90 would take
//     for (const std::string& ptx : *found) use(ptx);
//
//   fatbinary.h   containers and their images     elf.h   sections and symbols of programs and libraries
//
// A container holds images for several architectures, PTX or SASS, plain or compressed (zstd,
// LZ4). Reading is total: any bytes give images or an Error. Decompression happens when an image is
// asked for, so that registering a large library costs nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace assay::fatbinary {

struct Image {
  enum class Kind : uint8_t { Ptx, Sass, Other };
  enum class Packing : uint8_t { Plain, Lz4, Zstd };
  Kind kind = Kind::Other;
  Packing packing = Packing::Plain;
  unsigned architecture = 0;           // 90 for sm_90
  bool exact = false;                  // runs on its very architecture only (sm_90a)
  bool family = false;                 // runs on its family only (sm_100f)
  std::span<const std::byte> payload;  // points into the container
  uint64_t unpacked_size = 0;          // 0 when plain
};

// How long a container says it is, header included; 0 when `start` holds no container.
// Reads 16 bytes: what the runtime may trust of a pointer that a program hands it.
uint64_t container_size(const void* start);

// All images of the container (or the containers, one after another) in `bytes`.
Result<std::vector<Image>> read_fatbinary(std::span<const std::byte> bytes);

// The PTX that a device of `architecture` would compile: the newest that it may run.
const Image* choose_ptx(std::span<const Image> images, unsigned architecture);

// The machine code that a device of `architecture` would run: the newest that it may. Null: it would compile PTX.
const Image* choose_machine_code(std::span<const Image> images, unsigned architecture);

// The registers that a thread of each kernel needs, by its name, as the assembler noted them in machine code (SASS).
Result<std::map<std::string, uint32_t>> registers_of(const Image& image);

// The text of a PTX image.
Result<std::string> unpack(const Image& image);

// The containers in a file, a library or a program, as bytes of it.
std::vector<std::string_view> containers_in(std::string_view file);

// The PTX that a device of `architecture` would take of every container in a file, one text for each
// translation unit. Empty if the file holds machine code only. `file` is a library or a program, as bytes.
Result<std::vector<std::string>> ptx_in(std::string_view file, unsigned architecture);

}  // namespace assay::fatbinary
