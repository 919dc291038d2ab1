// Emits the Insts that follow the errors of one instruction, with their forms.
#pragma once

#include <string>

#include "shadow/impl.h"

namespace assay::shadow {

using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;
using vgpu::Lowering;
using OperandKind = ptx::Operand::Kind;

// The source line of an instruction; where there is none, that of the PTX.
LineKey line_of(const vgpu::Program& program, const vgpu::Function& function, uint32_t body_index);
// A function's lines, the likeliest to lose precision first.
std::vector<LineKey> ranked_lines(const Flow& flow, const vgpu::Program& program,
                                  const vgpu::Function& function);

class Emitter {
 public:
  Emitter(Shadow::Impl& impl, Lowering& l)
      : impl_(impl),
        l_(l),
        inst_(*l.inst),
        body_index_(static_cast<uint32_t>(l.inst - l.function.body.data())),
        plan_(impl.current->plan(body_index_)) {}

  void before();
  void after();

 private:
  Shadow::Impl& impl_;
  Lowering& l_;
  const ptx::Instruction& inst_;
  uint32_t body_index_;
  const Plan& plan_;

  PlaneOffset errors_of(uint32_t reg, uint32_t byte);
  PlaneOffset errors_of(const Operand& operand, uint32_t byte);
  Element source(const Part& part);
  Element dest(const Part& part);
  Element shape(const Part& part) const;
  Site* site();
  bool writes_followed() const;
  void emit(Handler handler, Form& form, AccessForm* access = nullptr);
  void emit_after(Handler handler, Form* form) { l_.emit(handler).extra = form; }
  void arithmetic();
  static uint8_t rounding_of(const ptx::Instruction& inst);
  void integral();
  void to_integer();
  void compare();
  // emit_moves.cpp
  void fill_moves(MoveForm& f);
  bool moves_within() const;
  void move(Handler handler);
  void select();
  void merge() { move(handlers().merge); }
  void bits();
  void cut();
  void forget();
  void lose_arguments();
  void add_lost(MoveForm& f, size_t first);
  // emit_memory.cpp
  void access(AccessForm& f, Handler handler);
  void add_elements(AccessForm& f, const Operand& value, uint32_t element_bytes);
  void load();
  void store();
  void atomic();
  void clear_dest(const AtomicForm& f);
  bool add_operands(AtomicForm& f, const Operand& value, const Operand* to);
  // emit_warp.cpp
  void shuffle();
  static std::optional<std::pair<Number, uint32_t>> fragment_number(Type type);
  bool fragment(Fragment& out, const Operand& operand, Type type);
  bool shape_of(uint32_t& m, uint32_t& n, uint32_t& k) const;
  void product();
  void matrix();
};

}  // namespace assay::shadow
