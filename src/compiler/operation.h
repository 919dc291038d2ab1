// What the compiler does with each PTX instruction of a kernel: its own code, a call of the interpreter's handler, or
// leaving. `Operation` says it in terms of few codes, so the analysis of lanes (forms.h) and the emitter (emit.cpp)
// read the same thing.
#pragma once

#include <cstdint>
#include <vector>

#include "ptx/module.h"
#include "vgpu/compiled.h"

namespace assay::compiler {

enum class Code : uint8_t {
  Leave,            // the interpreter goes on from here
  Call,             // a handler that goes on with the next instruction, or ends the launch
  CallThatMayWait,  // a handler after which other warps may run: all registers are in their planes
  Mov,
  Add,
  Sub,
  MulLo,
  MulWide,
  MadLo,
  MadWide,
  And,
  Or,
  Xor,
  Not,
  Shl,
  Shr,
  Min,
  Max,
  Neg,
  Abs,
  Compare,
  Select,
  Extend,  // or truncate, or nothing
  FloatAdd,
  FloatSub,
  FloatMul,
  FloatFma,
  FloatMin,
  FloatMax,
  FloatNeg,
  FloatAbs,
  FloatCompare,
  FloatFromInteger,
  FloatSaturate,
  PredicateAnd,
  PredicateOr,
  PredicateXor,
  PredicateNot,
  Load,
  Store,
  LoadParameter,
  Branch,
};

struct Source {
  enum class Kind : uint8_t { Register, Constant, Plane } kind = Kind::Constant;
  uint32_t reg = 0;    // Register
  uint64_t bits = 0;   // Constant
  uint32_t plane = 0;  // Plane: a special register
  ptx::SpecialRegister special{};
  uint8_t component = 0;
};

struct Operation {
  Code code = Code::Leave;
  uint32_t bits = 0;       // of the operation; of Compare: of what is compared
  uint32_t from_bits = 0;  // of the sources of Extend, MulWide, MadWide, FloatFromInteger
  bool is_signed = false;
  ptx::Mod compare{};                // Compare, FloatCompare
  ptx::Mod rounding = ptx::Mod::rn;  // FloatFma
  bool saturates = false;            // FloatAdd, FloatSub, FloatMul, FloatFma
  std::vector<uint32_t> to;          // registers; of a Load, by element
  std::vector<Source> from;          // of a Store: the elements
  // Load and Store
  bool shared = false;
  Source address;
  uint32_t address_bits = 64;
  int64_t offset = 0;
  uint32_t element_bytes = 0;  // in memory; `bits` is the registers'
  uint32_t site = 0;
  bool may_wait = false;  // it may be reported later
  uint32_t target = 0;    // Branch: body index
  uint32_t guard = ptx::kNone;
  bool guard_negated = false;
};

// Where the decoded instructions of one PTX instruction are.
struct InstRange {
  uint32_t first = 0, last = 0;  // [first, last) in Function::code, the join not among them
  bool has_join = false;         // it is at first - 1
};

std::vector<InstRange> ranges_of(const vgpu::CompileRequest& request);
Operation operation_of(const vgpu::CompileRequest& request, const ptx::Instruction& inst,
                       const InstRange& range);

}  // namespace assay::compiler
