// A PTX module as typed data: what the text says, with every name resolved.
//
// `parse` turns any byte string into a Module or an Error with line and column.
// The parser checks each instruction against the instruction table (table.h), so
// every instruction of a Module is known to be a legal form.
// Nothing here knows how an instruction is executed.
//
// Example:
//
//     Result<Module> module = parse(ptx_text, "kernel.ptx");
//     for (const Function& function : module->functions) use(function.name, function.is_entry);
//     use(print(*module));  // PTX again
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ptx/opcode.h"  // enum class Opcode, Type, Mod: generated from the table's X-macros

namespace assay::ptx {

inline constexpr uint32_t kNone = 0xffffffff;

enum class Space : uint8_t { None, Generic, Global, Shared, Local, Const, Param };

// A `.loc` line, with the chain of inlining that led to it.
struct SourceLocation {
  uint32_t file = 0;  // index into Module::files
  uint32_t line = 0;
  uint32_t column = 0;
  std::string function;         // of the inlined code; empty at the outermost level
  uint32_t inlined_at = kNone;  // index into Module::locations

  bool operator==(const SourceLocation&) const = default;
};

struct Register {
  std::string name;  // as written, "%r12"
  Type type = Type::None;

  bool operator==(const Register&) const = default;
};

// A variable of any state space: module scope, function scope (shared, local, param), or a parameter.
struct Variable {
  std::string name;
  Space space = Space::None;  // None: a parameter passed in a register (.reg)
  Type type = Type::None;
  uint32_t align = 1;
  uint64_t size = 0;  // bytes; 0 for `extern .shared x[]`
  bool is_extern = false;
  bool is_visible = false;
  bool is_weak = false;
  bool is_unsized = false;    // extern .shared arrays
  bool is_managed = false;    // .attribute(.managed)
  std::vector<uint8_t> init;  // the bytes given, from offset 0; the rest of `size` is zero
  struct Relocation {
    uint64_t offset;
    uint32_t size;
    std::string symbol;
    int64_t addend;
    bool generic;
    uint32_t shift = 0;  // of a masked address, 0xff00(symbol): the bits below the mask

    bool operator==(const Relocation&) const = default;
  };
  std::vector<Relocation> relocations;  // addresses of other symbols within init
  uint32_t declared_line = 0;           // line in the PTX text
  bool is_common = false;
  bool is_pointer = false;  // a parameter marked .ptr: what it points to
  Space pointee_space = Space::None;
  uint32_t pointee_align = 0;

  bool operator==(const Variable&) const = default;
};

struct SymbolRef {  // where a name leads
  enum class Kind : uint8_t {
    None,
    ModuleVariable,
    FunctionVariable,
    Parameter,
    ReturnParameter,
    Function,
    TargetList,  // of brx.idx and of indirect calls
  };
  Kind kind = Kind::None;
  uint32_t index = 0;  // into Module::variables, Function::variables, ::parameters, ::returns,
                       // Module::functions, Function::target_lists

  bool operator==(const SymbolRef&) const = default;
};

struct Operand {
  enum class Kind : uint8_t {
    None,
    Register,   // %r1; `negated` for !%p1 and -%r1 where the form allows it
    Immediate,  // integer (two's complement in `bits`) or float (`is_float`, `bits` = f64 image; 0f… sets
                // is_f32_bits)
    Special,    // %tid.x
    Symbol,     // name or name+offset: its address
    Address,    // [base+offset]; base is a Register, a Symbol or an Immediate
    Vector,     // {a, b, c, d}: `elements`
    Label,      // branch target: `index` = instruction index in Function::body
    Sink,       // _
    List,       // (a, b): call arguments and results: `elements`
  };
  Kind kind = Kind::None;
  bool negated = false;
  bool is_float = false;     // Immediate written as 0d…, 0f… or a decimal float
  bool is_f32_bits = false;  // Immediate written as 0f…: `bits` holds the 32-bit image
  uint8_t component =
      0;  // Special: 0 x, 1 y, 2 z, 3 w. Register: 0 whole, else 1+byte/half selector of video forms
  SpecialRegister special{};
  uint32_t index = kNone;   // Register: Function::registers. Label: instruction index
  uint32_t pair = kNone;    // second register of `d|p`: Function::registers
  bool sink_pair = false;   // `d|_`
  bool is_unified = false;  // Address written [a].unified
  SymbolRef symbol;         // Symbol, Address with symbol base
  enum class Base : uint8_t { Register, Symbol, Immediate } base = Base::Register;  // Address
  int64_t offset = 0;             // Address and Symbol: byte offset
  uint64_t bits = 0;              // Immediate
  std::vector<Operand> elements;  // Vector, List; also Address of texture/tensor form: coordinates

  bool operator==(const Operand&) const = default;
};

struct Instruction {
  Opcode opcode{};
  uint16_t form = 0;        // row of the instruction table that it matched
  std::vector<Mod> mods;    // modifiers as written, in order, types excluded
  std::vector<Type> types;  // types as written, in order: cvt.f32.s32 → {F32, S32}
  uint32_t guard = kNone;   // predicate register, or kNone
  bool guard_negated = false;
  std::vector<Operand> operands;  // in the order of the text
  uint32_t location = kNone;      // Module::locations
  uint32_t line = 0, column = 0;  // in the PTX text

  bool has(Mod mod) const {
    for (Mod m : mods)
      if (m == mod) return true;
    return false;
  }
  Type type(size_t i = 0) const { return i < types.size() ? types[i] : Type::None; }

  bool operator==(const Instruction&) const = default;
};

// A label list declared with .branchtargets / .calltargets, or a .callprototype.
struct TargetList {
  std::string name;
  std::vector<uint32_t> targets;  // instruction indices (.branchtargets) or function indices (.calltargets)
  bool is_prototype = false;
  bool is_calls = false;                      // .calltargets
  bool is_noreturn = false;                   // of a prototype
  std::vector<Variable> returns, parameters;  // of a prototype

  bool operator==(const TargetList&) const = default;
};

struct Function {
  std::string name;
  bool is_entry = false;
  bool is_extern = false;  // declared, defined nowhere in this module (vprintf, malloc, …)
  bool is_noreturn = false;
  std::vector<Variable> returns;
  std::vector<Variable>
      parameters;  // in order; for entries the sizes and alignments give the parameter layout
  std::vector<Register> registers;  // every register that is used, of every scope, names made unique
  std::vector<Variable> variables;  // .shared/.local/.param declared inside
  std::vector<Instruction> body;
  std::vector<std::pair<std::string, uint32_t>> labels;  // name → instruction index
  std::vector<TargetList> target_lists;
  uint32_t max_threads[3] = {0, 0, 0};       // .maxntid
  uint32_t required_threads[3] = {0, 0, 0};  // .reqntid
  uint32_t required_cluster[3] = {0, 0, 0};  // .reqnctapercluster
  bool explicit_cluster = false;
  uint32_t min_blocks_per_sm = 0, max_registers = 0;
  uint32_t line = 0;
  bool is_visible = false;
  bool is_weak = false;
  bool blocks_are_clusters = false;  // .blocksareclusters
  uint32_t max_cluster_rank = 0;     // .maxclusterrank
  uint32_t alias_of = kNone;         // .alias: the function of this module that the name stands for
  std::vector<std::string> pragmas;

  bool operator==(const Function&) const = default;
};

struct Module {
  int version_major = 0, version_minor = 0;
  std::string target;  // "sm_90a"
  int address_size = 64;
  std::vector<std::string> files;  // of .file; index = file number
  std::vector<SourceLocation> locations;
  std::vector<Variable> variables;  // .global, .const, module-scope .shared
  std::vector<Function> functions;  // entries and functions; a declaration and its definition are one

  const Function* find(std::string_view name) const;

  bool operator==(const Module&) const = default;
};

// Parses PTX text. `name` is what errors call it.
Result<Module> parse(std::string_view text, std::string_view name = "ptx");

// Writes a module (or one instruction of a function) back as PTX text that parses to the same module.
std::string print(const Module& module);
std::string print(const Module& module, const Function& function, const Instruction& instruction);

uint32_t size_of(Type type);  // in bytes; 0 for None and Pred

}  // namespace assay::ptx
