// Declarations of variables and parameters: state space, type, alignment, array bounds, initialiser.
#pragma once

#include "ptx/token_reader.h"

namespace assay::ptx {

inline constexpr uint64_t kLargestVariable = uint64_t{1} << 46;
inline constexpr uint32_t kLargestAlignment = 1u << 16;

std::optional<Space> space_of(std::string_view directive);  // ".global", ".shared", …
std::string_view directive_of(Space space);                 // the reverse; ".reg" for None

// What comes before the name: `.align 4 .v2 .b32`, `.attribute(…)`, `.ptr .global .align 16`.
struct Declarator {
  Variable prototype;
  uint32_t vector = 1;  // elements of .v2, .v4
};

class DeclarationParser {
 public:
  DeclarationParser(TokenReader& reader, size_t text_size) : reader_(reader), text_size_(text_size) {}

  // The specifiers after the state space.
  Declarator specifiers(Space space);
  // A name with array bounds; not the initialiser.
  Variable declare(const Declarator& declarator);
  // `= …` if there is one.
  void initialiser(Variable& variable);
  // One parameter of a function: `.param .u64 .ptr .global .align 16 name`.
  Variable parameter();
  // `.attribute(.managed, …)` after the keyword.
  void attribute(Variable* variable);

 private:
  uint32_t alignment();
  void array_bounds(Variable& variable, uint64_t element_size, bool is_parameter);
  void init_list(Variable& variable, size_t dimension, uint64_t offset, uint64_t extent);
  void init_element(Variable& variable, uint64_t offset);
  void init_symbol(Variable& variable, uint64_t offset, uint64_t mask);
  void store(Variable& variable, uint64_t offset, uint64_t bits);
  uint64_t init_image(const Variable& variable, const Token& at, const Constant& value);

  TokenReader& reader_;
  size_t text_size_;
  std::vector<uint64_t> bounds_;  // of the last declared array, outermost first; 0: left open
  uint32_t vector_ = 1;
};

}  // namespace assay::ptx
