// What a loader reads of a program or a library: an ELF file of 64-bit x86.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace assay::fatbinary {

struct ElfSection {
  std::string name;
  std::string_view bytes;  // of the file that it was read from
};

struct ElfSymbol {
  std::string name;
  bool function = false;  // else a variable, or something of no type
};

struct ElfFile {
  std::vector<std::string> needed;  // shared libraries that it names
  bool has_interpreter = false;     // it is a program that is linked dynamically
  bool has_rpath = false;           // which the loader prefers to LD_LIBRARY_PATH
  std::vector<ElfSection> sections;
  // Symbols that it defines: those that the loader finds, and those that it does not (static, hidden).
  std::vector<ElfSymbol> exported, local;
  std::vector<std::string> undefined;  // symbols that others must define, weak ones apart

  const ElfSection* section(std::string_view name) const;
};

// `bytes` must outlive the result. Offsets that point outside the file are an Error, or leave a part empty.
Result<ElfFile> read_elf(std::string_view bytes);

}  // namespace assay::fatbinary
