// ld and st. The pattern of the 32 addresses decides the common cases: one run of bytes is one copy, one
// address for all lanes is one value; addresses scattered over one allocation go lane by lane, checked once
// by the lowest and the highest. Everything else is in access.cpp.
//
//   memory.h             what both share
//   load.cpp, store.cpp  global and shared memory
//   private_memory.cpp   local memory and parameters
//
// This file lowers the instructions: it picks the handler by types and space.
#include "vgpu/handlers/memory.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

// Follows a load that may be part of a wait.
const Inst* poll(Warp& w, const Inst& i) {
  if (w.lanes_of(i) != 0 && ++w.polls > kPollsBeforeYield) return yield(w, &i + 1);
  return &i + 1;
}

// Any load, lane by lane.
const Inst* load_any(Warp& w, const Inst& i) {
  return load_by_lane(w, i, w.lanes_of(i));
}

const Inst* store_any(Warp& w, const Inst& i) {
  return store_by_lane(w, i, w.lanes_of(i));
}

// Whether a selp is the first to use what the instruction loads, before anything leads elsewhere.
bool selp_comes_first(const Lowering& l) {
  const Operand& loaded = l.inst->operands.at(0);
  if (loaded.kind != Operand::Kind::Register) return false;
  const auto& body = l.function.body;
  bool redefined = false;
  for (const ptx::Instruction* next = l.inst + 1; next < body.data() + body.size(); ++next) {
    if (next->opcode == Opcode::bra || next->opcode == Opcode::brx_idx || next->opcode == Opcode::ret)
      return false;
    for (size_t o = 0; o < next->operands.size(); ++o) {
      const Operand& operand = next->operands[o];
      if (o > 0 && names(operand, loaded.index)) return next->opcode == Opcode::selp;
      if (o == 0 && operand.kind == Operand::Kind::Register && operand.index == loaded.index)
        redefined = true;
    }
    if (redefined) return false;
  }
  return false;
}

// Null: no fast path for it.
Handler handler_of(const Choice& c, bool is_store) {
  switch (c.space) {
    case Space::Global:
    case Space::Const:
    case Space::Generic:
    case Space::Shared:
      return is_store ? store_handler(c) : load_handler(c);
    case Space::Local:
    case Space::Param:
      return is_store ? private_store_handler(c) : private_load_handler(c);
    case Space::None:
      break;
  }
  return nullptr;
}

void lower_access(Lowering& l, bool is_store) {
  const ptx::Instruction& inst = *l.inst;
  const Operand& value = inst.operands.at(is_store ? 1 : 0);
  const Operand& place = inst.operands.at(is_store ? 0 : 1);
  const Type type = inst.type();
  MemoryForm& form = *l.extra<MemoryForm>();
  form.kind = is_store ? AccessKind::Store : AccessKind::Load;
  form.order = order_of(inst, Order::Weak);
  form.scope = scope_of(inst, form.order == Order::Weak ? Scope::Thread : Scope::System);
  form.element_bytes = static_cast<uint8_t>(ptx::size_of(type));
  form.sign_extend = ptx::kind_of(type) == TypeKind::Signed;
  form.poll = !is_store && form.order != Order::Weak;
  const bool vector = value.kind == Operand::Kind::Vector;
  form.count = static_cast<uint8_t>(vector ? value.elements.size() : 1);
  form.bytes = uint32_t{form.element_bytes} * form.count;
  if (form.element_bytes == 0 || form.count > kMaxVector || form.bytes > 32 ||
      (form.bytes & (form.bytes - 1)) != 0)
    return l.unsupported("this vector");
  const AddressPlane at = lower_address(l, place, space_of(inst).space, form);
  if constexpr (kWatched)
    form.may_wait =
        !is_store && form.order == Order::Weak && form.space != Space::Const && !selp_comes_first(l);
  bool same_width = true;
  for (uint32_t e = 0; e < form.count; ++e) {
    const Operand& one = vector ? value.elements[e] : value;
    form.planes[e] = is_store ? l.source(one, type) : l.dest(one, type);
    form.register_bytes[e] = static_cast<uint8_t>(l.lane_bytes(one, type));
    same_width &= form.register_bytes[e] == form.register_bytes[0];
  }
  const Choice choice{.space = form.space,
                      .memory_bytes = form.element_bytes,
                      .register_bytes = form.register_bytes[0],
                      .count = form.count,
                      .sign_extend = form.sign_extend,
                      .wide_base = form.base_bytes == 8,
                      .known_place = place.base != Operand::Base::Register,
                      .kernel_parameter = form.kernel_parameter};
  Handler handler = nullptr;
  if (same_width && !(form.count > 1 && form.space == Space::Param && form.element_bytes > 8))
    handler = handler_of(choice, is_store);
  // A fast handler leaves the waiting to an instruction of its own; the slow one does both.
  const bool polls = handler != nullptr && form.poll;
  if (polls) form.poll = false;
  if (handler == nullptr) handler = is_store ? store_any : load_any;
  Inst& out = l.emit(handler);
  out.a = at.base;
  out.imm = at.offset;
  out.dst = is_store ? 0 : form.planes[0];
  out.b = is_store ? form.planes[0] : 0;
  out.c = form.site;
  out.extra = &form;
  if (polls) l.emit(poll);
}

void lower_ld(Lowering& l) {
  lower_access(l, false);
}

void lower_st(Lowering& l) {
  lower_access(l, true);
}

constexpr LowerRow kRows[] = {
    {Opcode::ld, lower_ld},
    {Opcode::ldu, lower_ld},
    {Opcode::st, lower_st},
};

}  // namespace

AddressPlane lower_address(Lowering& l, const Operand& operand, Space space, MemoryForm& form) {
  if (operand.base == Operand::Base::Symbol) {
    Space found = Space::None;
    l.symbol_value(operand.symbol, &found);
    if (space == Space::Generic && found == Space::Local) space = Space::Local;
    form.frame_relative = space == Space::Local && found == Space::Local;
  }
  // A register that holds a parameter's address can only be about the function's own parameters.
  const bool own =
      operand.base != Operand::Base::Symbol || operand.symbol.kind == ptx::SymbolRef::Kind::Parameter;
  form.kernel_parameter = space == Space::Param && l.function.is_entry && own;
  form.space = space;
  form.site = l.next_site();
  const Lowering::AddressParts parts = l.address(operand, space);
  form.base_bytes = static_cast<uint8_t>(parts.base_bytes);
  if (parts.base_bytes != 4 && parts.base_bytes != 8) l.unsupported("an address of this width");
  return {parts.base, parts.offset};
}

std::span<const LowerRow> memory_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD