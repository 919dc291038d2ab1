// The instruction table: every legal form of every PTX instruction, from instructions.def
// (its legend explains the notation). The parser checks instructions against it; `assay isa`
// and the generator of golden vectors enumerate it.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ptx/module.h"

namespace assay::ptx {

enum class OperandKind : uint8_t {
  Destination,          // d    register or _
  DestinationOrVector,  // dv
  PredicateResult,      // p
  Value,                // a b c e
  ValueOrVector,        // av bv cv
  Vector,               // v
  NegatableValue,       // -a
  Predicate,            // q    perhaps negated; where the type is not .pred, any value
  Constant,             // n
  Address,              // [a]
  Coordinates,          // [t]
  SampledCoordinates,   // [t2]
  ValueOrAddress,       // am
  Label,                // label
  TargetList,           // list
  Callee,               // fn
  Arguments,            // (args)
  CachePolicy,          // h    there exactly if .L2::cache_hint is
  Dropped,              // _
};

struct OperandPattern {
  enum class Pair : uint8_t { None, Optional, Required };
  OperandKind kind{};
  bool optional = false;
  Pair pair = Pair::None;     // d|p
  bool has_selector = false;  // .b0 … .h1 of the video instructions
};

struct Row {
  Opcode opcode{};
  uint16_t index = 0;     // Instruction::form
  int isa = 0;            // PTX version times ten: 86 is 8.6
  int sm = 0;             // first architecture
  std::string_view text;  // modifiers and operands, in the notation of instructions.def
  std::vector<OperandPattern> operands;
};

std::span<const Row> rows();
std::span<const Row> rows(Opcode opcode);

// One concrete choice of modifiers and types of a row: "fma.rn.ftz.f32".
struct Form {
  const Row* row = nullptr;
  std::vector<Mod> mods;
  std::vector<Type> types;
  std::string text;
};

// Calls `visit` for every form of a row, until it returns false.
void for_each_form(const Row& row, const std::function<bool(const Form&)>& visit);

// The rows that an instruction name with these modifiers and types may be: their indices. Empty if none.
std::vector<uint16_t> match_rows(Opcode opcode, std::span<const Mod> mods, std::span<const Type> types);

// The order in which a row's syntax has them: for each word, whether it is a type (else a modifier).
std::vector<bool> word_order(const Row& row, std::span<const Mod> mods, std::span<const Type> types);

// Whether operands fit a row and these modifiers; if not and `problem` is given, it says what is wrong with
// them.
bool match_operands(const Row& row, std::span<const Mod> mods, std::span<const Operand> operands,
                    std::string* problem = nullptr);

// The row's syntax for a person, with the opcode and its sets spelled out: "add{.rn|.rz|.rm|.rp}.f64 d, a,
// b".
std::string describe(const Row& row);

// The row that comes nearest to these modifiers and types, for an error message.
const Row& nearest_row(Opcode opcode, std::span<const Mod> mods, std::span<const Type> types);

// Bytes of errors in instructions.def itself: empty if the table is sound (a test holds it to that).
std::string table_defects();

}  // namespace assay::ptx
