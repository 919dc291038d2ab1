#include "ptx/opcode.h"

#include <array>
#include <unordered_map>

namespace assay::ptx {
namespace {

constexpr std::string_view kOpcodeNames[] = {
#define OPCODE(id, spelling) spelling,
#include "ptx/opcodes.def"
#undef OPCODE
};

constexpr std::string_view kModNames[] = {
#define MODIFIER(id, spelling) spelling,
#include "ptx/modifiers.def"
#undef MODIFIER
};

struct TypeFacts {
  std::string_view spelling;
  uint32_t bits;
  TypeKind kind;
};
constexpr TypeKind B = TypeKind::Bits, U = TypeKind::Unsigned, S = TypeKind::Signed, F = TypeKind::Float,
                   P = TypeKind::Predicate, O = TypeKind::Opaque;
constexpr TypeFacts kTypes[] = {
    {"", 0, TypeKind::None},
#define TYPE(id, spelling, bits, kind) {spelling, bits, kind},
#include "ptx/types.def"
#undef TYPE
};

struct SpecialFacts {
  std::string_view spelling;
  int components;
  Type type;
};
constexpr SpecialFacts kSpecials[] = {
#define SPECIAL(id, spelling, components, type) {spelling, components, Type::type},
#include "ptx/special_registers.def"
#undef SPECIAL
};

template <class Enum>
using Index = std::unordered_map<std::string_view, Enum>;

template <class Enum>
Index<Enum> make_index() {
  Index<Enum> index;
  for (size_t i = 0; i < static_cast<size_t>(Enum::Count_); ++i) {
    Enum value = static_cast<Enum>(i);
    if (!name(value).empty()) index.emplace(name(value), value);
  }
  return index;
}

template <class Enum>
std::optional<Enum> find(std::string_view spelling) {
  static const Index<Enum>& index = *new Index<Enum>(make_index<Enum>());  // never destroyed
  auto it = index.find(spelling);
  if (it == index.end()) return std::nullopt;
  return it->second;
}

}  // namespace

std::string_view name(Opcode opcode) {
  return kOpcodeNames[static_cast<size_t>(opcode)];
}
std::string_view name(Mod mod) {
  return kModNames[static_cast<size_t>(mod)];
}
std::string_view name(Type type) {
  return kTypes[static_cast<size_t>(type)].spelling;
}
std::string_view name(SpecialRegister special) {
  return kSpecials[static_cast<size_t>(special)].spelling;
}

std::optional<Opcode> find_opcode(std::string_view spelling) {
  return find<Opcode>(spelling);
}
std::optional<Mod> find_mod(std::string_view spelling) {
  return find<Mod>(spelling);
}
std::optional<Type> find_type(std::string_view spelling) {
  return find<Type>(spelling);
}
std::optional<SpecialRegister> find_special(std::string_view spelling) {
  return find<SpecialRegister>(spelling);
}

TypeKind kind_of(Type type) {
  return kTypes[static_cast<size_t>(type)].kind;
}
uint32_t bits_of(Type type) {
  return kTypes[static_cast<size_t>(type)].bits;
}
Type type_of(SpecialRegister special) {
  return kSpecials[static_cast<size_t>(special)].type;
}
int components_of(SpecialRegister special) {
  return kSpecials[static_cast<size_t>(special)].components;
}

}  // namespace assay::ptx
