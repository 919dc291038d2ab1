// From a PTX instruction to decoded ones: what a lowering function may ask for and emit.
//
// Each family of instructions (handlers/*.cpp) has a table of rows: opcode and the function that
// lowers it. A lowering function looks at the types and modifiers, picks a handler, names the
// planes of its operands and emits one Inst (rarely more). What it cannot do exactly as the
// hardware does, it refuses with unsupported().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "vgpu/code.h"

namespace assay::vgpu {

struct Program;

// Bits of an immediate as a lane of `type` holds it.
uint64_t immediate_bits(const ptx::Operand& operand, ptx::Type type);

class Lowering {
 public:
  const ptx::Module& module;
  const ptx::Function& function;
  const ptx::Instruction* inst = nullptr;  // the one being lowered

  // Plane of a source operand read as `type` (a register of at least that width, an immediate, a special
  // register, a symbol's address). Immediates are converted to the type: floats to its bits. `!%p` works for Pred.
  PlaneOffset source(const ptx::Operand& operand, ptx::Type type);
  PlaneOffset source(size_t operand, ptx::Type type) { return source(inst->operands.at(operand), type); }
  PlaneOffset source(size_t operand) { return source(operand, inst->type()); }
  // Plane of a destination register; a scratch plane for `_`.
  PlaneOffset dest(const ptx::Operand& operand, ptx::Type type);
  PlaneOffset dest(size_t operand = 0) { return dest(inst->operands.at(operand), inst->type()); }
  PlaneOffset reg(uint32_t register_index) const;  // plane of a ptx register
  PlaneOffset constant(uint64_t bits,
                       uint32_t lane_bytes);  // a plane with the same bits in every lane; 0 = predicate
  PlaneOffset scratch(uint32_t lane_bytes);   // a plane of its own
  PlaneOffset storage(uint32_t bytes);        // `bytes` of every frame, for an Instrumenter's own use
  PlaneOffset carry_plane();                  // the condition-code register: a predicate plane
  uint32_t lane_bytes(const ptx::Operand& operand,
                      ptx::Type type) const;  // of the operand's plane: 2, 4, 8, 16; 0 predicate

  // Base plane (u64 lanes; constant 0 when the base is static) and byte offset of an [address] operand.
  // `space` comes back resolved for symbols. Shared, local and param symbols give offsets in their memory.
  struct AddressParts {
    PlaneOffset base;
    bool has_base;
    int64_t offset;
    uint32_t base_bytes;
  };
  AddressParts address(const ptx::Operand& operand, ptx::Space space);

  // Appends an Inst with guard, index and source set, dst/a/b/c 0.
  Inst& emit(Handler handler);
  // Memory for Inst::extra, zeroed, that lives as long as the program.
  template <class T>
  T* extra() {
    static_assert(std::is_trivially_destructible_v<T>);
    return new (allocate(sizeof(T), alignof(T))) T{};
  }
  template <class T>
  T* extra_array(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    T* first = static_cast<T*>(allocate(sizeof(T) * (count ? count : 1), alignof(T)));
    for (size_t i = 0; i < count; ++i) new (first + i) T{};
    return first;
  }
  uint32_t next_site();            // numbers memory instructions
  void order_dependent_atomics();  // this function must not run its blocks in parallel
  // Address (or offset) of a variable, for symbols outside [ ].
  uint64_t symbol_value(const ptx::SymbolRef& symbol, ptx::Space* space) const;
  // `*slot` will name the decoded instruction where body[body_index] begins (its join, if it has one).
  void resolve(const Inst** slot, uint32_t body_index);
  const Function* callee(
      uint32_t function_index) const;  // decoded function; its code is complete before anything runs
  uint32_t param_offset(
      const ptx::SymbolRef& symbol) const;  // of a parameter, return value or .param variable in its frame
  void unsupported(std::string why);        // refuses the instruction
  uint32_t position() const;                // Insts emitted so far
  const Inst& emitted(uint32_t position) const;  // one of them; emitting more moves it
  const Program& program() const;                // half decoded
  const Function& decoded() const;               // what the Insts go into

  struct Impl;
  Lowering(Impl& impl, const ptx::Module& m, const ptx::Function& f, uint32_t* sites)
      : module(m), function(f), impl_(impl), site_counter_(sites) {}

 private:
  void* allocate(size_t bytes, size_t align);
  Impl& impl_;
  uint32_t* site_counter_;
};

// Whether an operand reads or writes the register: as itself, as part of an address, a vector or a pair.
bool names(const ptx::Operand& operand, uint32_t reg);

// Adds Insts of its own around those of each PTX instruction. Branches lead to what it emits before.
class Instrumenter {
 public:
  virtual ~Instrumenter() = default;
  virtual void begin(Lowering&) {}     // a function whose registers have their planes
  virtual void before(Lowering&) = 0;  // Lowering::inst is about to be lowered
  virtual void after(Lowering&) = 0;   // it has been
};

using LowerFunction = void (*)(Lowering&);
struct LowerRow {
  ptx::Opcode opcode;
  LowerFunction lower;
};

// One build of the handlers: an instruction set of the host × plain or watched.
struct Engine {
  const char* name;              // "avx512", "avx2 watched"
  LowerFunction by_opcode[512];  // null: not supported
  Handler join, end, unsupported, not_predicate;
  Handler warp_barrier;    // bar.warp.sync
  Handler clock, clock64;  // reads of %clock and its like: they count instructions, as branches do
};

// The best build for this host, of those that were compiled.
const Engine& engine(bool watched);
bool uses_avx512();  // it is one for AVX-512

}  // namespace assay::vgpu
