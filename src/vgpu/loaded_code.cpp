// Loads the object that the compiler makes: sections that take memory, side by side, and the few relocations that tie
// them together. Objects may come from a file, so nothing in them is believed.
#include <elf.h>
#include <sys/mman.h>

#include <cstring>
#include <string_view>

#include "vgpu/compiled.h"

namespace assay::vgpu {

namespace {

constexpr size_t kCodePage = 4096;
constexpr size_t kMostBytes = size_t{64} << 20;

class Object {
 public:
  explicit Object(std::span<const std::byte> bytes) : bytes_(bytes) {}

  // False: it is not what the compiler makes.
  bool read() {
    if (!get(0, header_)) return false;
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 || header_.e_machine != EM_X86_64 ||
        header_.e_type != ET_REL || header_.e_shentsize != sizeof(Elf64_Shdr))
      return false;
    sections_.resize(header_.e_shnum);
    for (size_t i = 0; i < sections_.size(); ++i)
      if (!get(header_.e_shoff + i * sizeof(Elf64_Shdr), sections_[i])) return false;
    return place();
  }

  size_t size() const { return size_; }

  bool copy_to(std::byte* memory) const {
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Elf64_Shdr& s = sections_[i];
      if ((s.sh_flags & SHF_ALLOC) == 0 || s.sh_type == SHT_NOBITS) continue;
      if (!lies_within(s.sh_offset, s.sh_size)) return false;
      std::memcpy(memory + places_[i], bytes_.data() + s.sh_offset, s.sh_size);
    }
    for (const Elf64_Shdr& s : sections_)
      if (s.sh_type == SHT_RELA && !relocate(s, memory)) return false;
    return true;
  }

  // Where a global function lies; size() where there is none.
  size_t find(std::string_view name) const {
    for (const Elf64_Shdr& s : sections_) {
      if (s.sh_type != SHT_SYMTAB || s.sh_link >= sections_.size()) continue;
      for (size_t k = 0; k < s.sh_size / sizeof(Elf64_Sym); ++k) {
        Elf64_Sym symbol;
        if (!get(s.sh_offset + k * sizeof symbol, symbol)) return size_;
        if (symbol.st_shndx >= sections_.size() || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC) continue;
        const size_t at = sections_[s.sh_link].sh_offset + symbol.st_name;
        if (!lies_within(at, name.size() + 1)) continue;
        const auto* text = reinterpret_cast<const char*>(bytes_.data() + at);
        if (std::string_view(text, name.size()) == name && text[name.size()] == 0)
          return places_[symbol.st_shndx] + symbol.st_value;
      }
    }
    return size_;
  }

 private:
  std::span<const std::byte> bytes_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Shdr> sections_;
  std::vector<size_t> places_;  // by section
  size_t size_ = 0;

  bool lies_within(uint64_t offset, uint64_t count) const {
    return offset <= bytes_.size() && bytes_.size() - offset >= count;
  }
  template <class T>
  bool get(uint64_t offset, T& to) const {
    if (!lies_within(offset, sizeof(T))) return false;
    std::memcpy(&to, bytes_.data() + offset, sizeof(T));
    return true;
  }

  bool place() {
    places_.resize(sections_.size());
    for (size_t i = 0; i < sections_.size(); ++i) {
      const Elf64_Shdr& s = sections_[i];
      if ((s.sh_flags & SHF_ALLOC) == 0) continue;
      if ((s.sh_flags & SHF_WRITE) != 0 || s.sh_size > kMostBytes || s.sh_addralign > kCodePage) return false;
      const size_t align = s.sh_addralign ? s.sh_addralign : 1;
      places_[i] = (size_ + align - 1) / align * align;
      size_ = places_[i] + s.sh_size;
      if (size_ > kMostBytes) return false;
    }
    return size_ > 0;
  }

  bool relocate(const Elf64_Shdr& table, std::byte* memory) const {
    if (table.sh_info >= sections_.size() || table.sh_link >= sections_.size()) return false;
    const Elf64_Shdr& target = sections_[table.sh_info];
    if ((target.sh_flags & SHF_ALLOC) == 0) return true;
    for (size_t k = 0; k < table.sh_size / sizeof(Elf64_Rela); ++k) {
      Elf64_Rela r;
      Elf64_Sym symbol;
      if (!get(table.sh_offset + k * sizeof r, r) ||
          !get(sections_[table.sh_link].sh_offset + ELF64_R_SYM(r.r_info) * sizeof symbol, symbol))
        return false;
      if (symbol.st_shndx == SHN_UNDEF || symbol.st_shndx >= sections_.size()) return false;
      const uint64_t type = ELF64_R_TYPE(r.r_info);
      if ((type != R_X86_64_PC32 && type != R_X86_64_PLT32) || target.sh_size < 4 ||
          r.r_offset > target.sh_size - 4)
        return false;
      const size_t at = places_[table.sh_info] + r.r_offset;
      const auto value = static_cast<int64_t>(places_[symbol.st_shndx] + symbol.st_value) + r.r_addend -
                         static_cast<int64_t>(at);
      const auto narrow = static_cast<int32_t>(value);
      if (narrow != value) return false;
      std::memcpy(memory + at, &narrow, sizeof narrow);
    }
    return true;
  }
};

}  // namespace

std::unique_ptr<LoadedCode> LoadedCode::load(std::span<const std::byte> elf) {
  Object object(elf);
  if (elf.empty() || !object.read()) return nullptr;
  const size_t start = object.find("compiled");
  if (start >= object.size()) return nullptr;
  std::unique_ptr<LoadedCode> code(new LoadedCode);
  const size_t bytes = (object.size() + kCodePage - 1) / kCodePage * kCodePage;
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return nullptr;
  code->pages_ = pages;
  code->bytes_ = bytes;
  auto* memory = static_cast<std::byte*>(pages);
  if (!object.copy_to(memory) || mprotect(pages, bytes, PROT_READ | PROT_EXEC) != 0) return nullptr;
  code->run_ = reinterpret_cast<CompiledCode>(memory + start);
  return code;
}

LoadedCode::~LoadedCode() {
  if (pages_) munmap(pages_, bytes_);
}

}  // namespace assay::vgpu
