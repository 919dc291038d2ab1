#include "fatbinary/elf.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <optional>

namespace assay::fatbinary {

namespace {

// Pieces of a file, however wrong its own offsets are.
class Bytes {
 public:
  explicit Bytes(std::string_view all) : all_(all) {}

  template <class T>
  std::optional<T> at(uint64_t offset) const {
    if (offset > all_.size() || all_.size() - offset < sizeof(T)) return std::nullopt;
    T value;
    std::memcpy(&value, all_.data() + offset, sizeof value);
    return value;
  }
  std::string_view part(uint64_t offset, uint64_t size) const {
    if (offset > all_.size() || all_.size() - offset < size) return {};
    return all_.substr(offset, size);
  }
  std::string text(uint64_t offset) const {
    if (offset >= all_.size()) return "";
    return std::string(all_.substr(offset, all_.find('\0', offset) - offset));
  }

 private:
  std::string_view all_;
};

class Reader {
 public:
  Reader(std::string_view bytes, const Elf64_Ehdr& header) : bytes_(bytes), header_(header) {}

  ElfFile read() {
    for (unsigned i = 0; i < header_.e_phnum; ++i) {
      const auto segment = bytes_.at<Elf64_Phdr>(header_.e_phoff + uint64_t{i} * header_.e_phentsize);
      if (!segment) break;
      if (segment->p_type == PT_INTERP) file_.has_interpreter = true;
      if (segment->p_type == PT_DYNAMIC) read_dynamic(*segment);
    }
    read_sections();
    return std::move(file_);
  }

 private:
  // File offset of a virtual address.
  std::optional<uint64_t> file_offset(uint64_t address) const {
    for (unsigned i = 0; i < header_.e_phnum; ++i) {
      const auto segment = bytes_.at<Elf64_Phdr>(header_.e_phoff + uint64_t{i} * header_.e_phentsize);
      if (segment && segment->p_type == PT_LOAD && address >= segment->p_vaddr &&
          address - segment->p_vaddr < segment->p_filesz)
        return segment->p_offset + (address - segment->p_vaddr);
    }
    return std::nullopt;
  }

  void read_dynamic(const Elf64_Phdr& segment) {
    std::vector<uint64_t> names;
    std::optional<uint64_t> strings;
    for (uint64_t at = 0; at + sizeof(Elf64_Dyn) <= segment.p_filesz; at += sizeof(Elf64_Dyn)) {
      const auto entry = bytes_.at<Elf64_Dyn>(segment.p_offset + at);
      if (!entry || entry->d_tag == DT_NULL) break;
      if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
      if (entry->d_tag == DT_STRTAB) strings = file_offset(entry->d_un.d_ptr);
      if (entry->d_tag == DT_RPATH) file_.has_rpath = true;
    }
    if (!strings) return;
    for (const uint64_t name : names) file_.needed.push_back(bytes_.text(*strings + name));
  }

  std::optional<Elf64_Shdr> section(unsigned index) const {
    if (index >= header_.e_shnum) return std::nullopt;
    return bytes_.at<Elf64_Shdr>(header_.e_shoff + uint64_t{index} * header_.e_shentsize);
  }

  void read_sections() {
    const auto names = section(header_.e_shstrndx);
    if (!names) return;
    for (unsigned i = 0; i < header_.e_shnum; ++i) {
      const auto found = section(i);
      if (!found) return;
      const bool stored = found->sh_type != SHT_NOBITS && (found->sh_flags & SHF_COMPRESSED) == 0;
      file_.sections.push_back({bytes_.text(names->sh_offset + found->sh_name),
                                stored ? bytes_.part(found->sh_offset, found->sh_size) : std::string_view()});
      if (found->sh_type == SHT_DYNSYM) read_symbols(*found, true, file_.exported);
      if (found->sh_type == SHT_SYMTAB) read_symbols(*found, false, file_.local);
    }
  }

  // Symbols that are defined here and that others can see, or those that they cannot.
  void read_symbols(const Elf64_Shdr& table, bool exported, std::vector<ElfSymbol>& symbols) {
    const auto strings = section(table.sh_link);
    if (!strings) return;
    for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      const auto symbol = bytes_.at<Elf64_Sym>(table.sh_offset + at);
      if (!symbol) return;
      const auto type = ELF64_ST_TYPE(symbol->st_info), visibility = ELF64_ST_VISIBILITY(symbol->st_other);
      const bool visible = ELF64_ST_BIND(symbol->st_info) != STB_LOCAL &&
                           (visibility == STV_DEFAULT || visibility == STV_PROTECTED);
      const bool named = symbol->st_name != 0 && type != STT_SECTION && type != STT_FILE;
      if (!named || visible != exported) continue;
      std::string name = bytes_.text(strings->sh_offset + symbol->st_name);
      if (symbol->st_shndx != SHN_UNDEF)
        symbols.push_back({std::move(name), type == STT_FUNC || type == STT_GNU_IFUNC});
      else if (exported && ELF64_ST_BIND(symbol->st_info) == STB_GLOBAL)
        file_.undefined.push_back(std::move(name));
    }
  }

  Bytes bytes_;
  Elf64_Ehdr header_;
  ElfFile file_;
};

}  // namespace

const ElfSection* ElfFile::section(std::string_view name) const {
  const auto found = std::find_if(sections.begin(), sections.end(),
                                  [&](const ElfSection& section) { return section.name == name; });
  return found == sections.end() ? nullptr : &*found;
}

Result<ElfFile> read_elf(std::string_view bytes) {
  const auto header = Bytes(bytes).at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return Error{"this is not an ELF file"};
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_machine != EM_X86_64)
    return Error{"this file is not for 64-bit x86"};
  return Reader(bytes, *header).read();
}

}  // namespace assay::fatbinary
