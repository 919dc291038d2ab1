#include "cli/elf.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>

namespace assay::cli {
namespace {

// Reads pieces of a file, however wrong its own offsets are.
class Reader {
 public:
  explicit Reader(const std::string& path) : file_(path, std::ios::binary) {}

  template <class T>
  std::optional<T> at(uint64_t offset) {
    T value;
    return bytes(offset, reinterpret_cast<char*>(&value), sizeof value) ? std::optional(value) : std::nullopt;
  }
  std::string text(uint64_t offset) {
    std::string found;
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    std::getline(file_, found, '\0');
    return found;
  }

 private:
  bool bytes(uint64_t offset, char* to, size_t size) {
    file_.clear();
    file_.seekg(static_cast<std::streamoff>(offset));
    return static_cast<bool>(file_.read(to, static_cast<std::streamsize>(size)));
  }
  std::ifstream file_;
};

Error wrong(std::string message) {
  return {std::move(message), "", 0, 0};
}

// File offset of a virtual address.
std::optional<uint64_t> file_offset(Reader& reader, const Elf64_Ehdr& header, uint64_t address) {
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    auto segment = reader.at<Elf64_Phdr>(header.e_phoff + uint64_t{i} * header.e_phentsize);
    if (segment && segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
        address - segment->p_vaddr < segment->p_filesz)
      return segment->p_offset + (address - segment->p_vaddr);
  }
  return std::nullopt;
}

void read_dynamic(Reader& reader, const Elf64_Ehdr& header, const Elf64_Phdr& segment, ProgramFile& file) {
  std::vector<uint64_t> names;
  std::optional<uint64_t> strings;
  for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
    auto entry = reader.at<Elf64_Dyn>(segment.p_offset + at);
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
    if (entry->d_tag == DT_STRTAB) strings = file_offset(reader, header, entry->d_un.d_ptr);
    if (entry->d_tag == DT_RPATH) file.has_rpath = true;
  }
  if (!strings) return;
  for (uint64_t name : names) file.needed.push_back(reader.text(*strings + name));
}

bool has_section(Reader& reader, const Elf64_Ehdr& header, std::string_view name) {
  auto names = reader.at<Elf64_Shdr>(header.e_shoff + uint64_t{header.e_shstrndx} * header.e_shentsize);
  if (!names) return false;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    auto section = reader.at<Elf64_Shdr>(header.e_shoff + uint64_t{i} * header.e_shentsize);
    if (section && reader.text(names->sh_offset + section->sh_name) == name) return true;
  }
  return false;
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::stringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string full = (folder.empty() ? "." : folder) + "/" + name;
    if (access(full.c_str(), X_OK) == 0) return full;
  }
  return name;
}

Result<ProgramFile> read_program(const std::string& path) {
  if (access(path.c_str(), F_OK) != 0) return wrong(fmt::format("{}: no such program", path));
  if (access(path.c_str(), X_OK) != 0) return wrong(fmt::format("{}: not an executable file", path));
  Reader reader(path);
  if (auto start = reader.at<std::array<char, 2>>(0); start && (*start)[0] == '#' && (*start)[1] == '!')
    return wrong(
        fmt::format("{} is a script; run the program that it starts, or its interpreter, instead", path));
  auto header = reader.at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
    return wrong(fmt::format("{} is not an ELF program", path));
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64)
    return wrong(fmt::format("{} is not a program for 64-bit x86", path));
  ProgramFile file;
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    auto segment = reader.at<Elf64_Phdr>(header->e_phoff + uint64_t{i} * header->e_phentsize);
    if (!segment) break;
    if (segment->p_type == PT_INTERP) file.is_dynamic = true;
    if (segment->p_type == PT_DYNAMIC) read_dynamic(reader, *header, *segment, file);
  }
  file.has_device_code = has_section(reader, *header, ".nv_fatbin");
  return file;
}

Result<void> check_runtime(const ProgramFile& file, const std::string& path) {
  auto is_runtime = [](const std::string& name) { return name.starts_with("libcudart.so"); };
  auto found = std::find_if(file.needed.begin(), file.needed.end(), is_runtime);
  if (found != file.needed.end() && *found != "libcudart.so.13")
    return wrong(fmt::format("{} is linked to {}; Assay provides libcudart.so.13: build it with CUDA 13",
                             path, *found));
  if (found == file.needed.end() && file.has_device_code)
    return wrong(
        fmt::format("{} has the CUDA runtime linked into it; link it with `nvcc -cudart shared`", path));
  if (!file.is_dynamic)
    return wrong(fmt::format("{} is statically linked; link it dynamically, with `-cudart shared`", path));
  return {};
}

}  // namespace assay::cli
