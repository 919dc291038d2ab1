// The signature of a function as its compiler understood it: typedefs, macros, templates and namespaces are
// resolved. Read from the library's debugging information (DWARF 4 and 5), which costs no further
// compilation.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fatbinary/elf.h"

namespace assay::subject {

struct CType {
  enum class Kind : uint8_t { Void, Integer, Float, Pointer, Reference, Other };
  Kind kind = Kind::Other;
  int bytes = 0;
  bool is_const = false;
  std::string text;                      // as written, typedefs kept: "const __nv_bfloat16*"
  std::string name;                      // of the type itself, typedefs resolved: "__nv_bfloat16", "float"
  std::shared_ptr<const CType> pointee;  // of a pointer or a reference
};

struct CParameter {
  std::string name;  // may be empty
  CType type;
};

struct CSignature {
  int line = 0;
  CType result;
  std::vector<CParameter> parameters;
  bool variadic = false;
};

// Of the C function `name` (or of the C++ one with this name or mangled name, if `mangled`): nothing where
// the library does not tell, or tells of several that differ.
std::optional<CSignature> signature_of(const fatbinary::ElfFile& library, std::string_view name,
                                       bool mangled = false);

}  // namespace assay::subject
