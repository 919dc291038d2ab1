// The vocabulary of PTX: instruction names, modifiers, types and special registers,
// each an enumeration made from its own list (opcodes.def, modifiers.def, types.def,
// special_registers.def).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace assay::ptx {

enum class Opcode : uint16_t {
#define OPCODE(id, spelling) id,
#include "ptx/opcodes.def"
#undef OPCODE
  Count_
};

enum class Mod : uint16_t {
#define MODIFIER(id, spelling) id,
#include "ptx/modifiers.def"
#undef MODIFIER
  Count_
};

enum class Type : uint8_t {
  None,
#define TYPE(id, spelling, bits, kind) id,
#include "ptx/types.def"
#undef TYPE
  Count_
};

enum class SpecialRegister : uint8_t {
#define SPECIAL(id, spelling, components, type) id,
#include "ptx/special_registers.def"
#undef SPECIAL
  Count_
};

// What a value of a type is made of.
enum class TypeKind : uint8_t { None, Bits, Unsigned, Signed, Float, Predicate, Opaque };

// Spellings, without dot or percent sign: "cp.async.bulk", "shared::cta", "f32", "tid".
std::string_view name(Opcode opcode);
std::string_view name(Mod mod);
std::string_view name(Type type);
std::string_view name(SpecialRegister special);

// The reverse; no value for an unknown spelling.
std::optional<Opcode> find_opcode(std::string_view spelling);
std::optional<Mod> find_mod(std::string_view spelling);
std::optional<Type> find_type(std::string_view spelling);
std::optional<SpecialRegister> find_special(std::string_view spelling);

TypeKind kind_of(Type type);
uint32_t bits_of(Type type);                 // 0 for None and Pred
Type type_of(SpecialRegister special);       // of one component
int components_of(SpecialRegister special);  // 4 (.x .y .z .w) or 1

}  // namespace assay::ptx
