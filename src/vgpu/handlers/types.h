// What the arithmetic families share: C++ types for PTX types, and one way to emit an instruction
// whose operands are planes. A table that has no entry gives a null handler, which is refused.
#pragma once

#include "vgpu/handlers/lanes.h"

namespace assay::vgpu::ASSAY_BUILD {

using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;
using ptx::TypeKind;

// add, mul, … exist for integers, floats and halves: the row is in integer.cpp or logic.cpp, and the
// instruction's type decides whose it is.
enum class Family : uint8_t { Integer, Float, Half };

inline Family family_of(Type type) {
  switch (type) {
    case Type::F32:
    case Type::F64:
    case Type::F32x2:
      return Family::Float;
    case Type::F16:
    case Type::BF16:
    case Type::F16x2:
    case Type::BF16x2:
      return Family::Half;
    default:
      return Family::Integer;
  }
}

template <LowerFunction Integer, LowerFunction Float, LowerFunction Half>
void by_family(Lowering& l) {
  switch (family_of(l.inst->type())) {
    case Family::Integer:
      return Integer(l);
    case Family::Float:
      return Float(l);
    case Family::Half:
      return Half(l);
  }
}

// float.cpp
void lower_float_binary(Lowering& l);   // add sub mul div min max copysign
void lower_float_unary(Lowering& l);    // abs neg sqrt rcp rsqrt sin cos lg2 ex2 tanh
void lower_float_ternary(Lowering& l);  // fma mad
// half.cpp
void lower_half_binary(Lowering& l);
void lower_half_unary(Lowering& l);
void lower_half_ternary(Lowering& l);
// compare.cpp
void lower_setp(Lowering& l);
void lower_set(Lowering& l);
void lower_selp(Lowering& l);
void lower_slct(Lowering& l);
// move.cpp
void lower_mov(Lowering& l);

inline void refuse(Lowering& l) {
  l.unsupported("these types and modifiers");
}
inline void lower_nothing(Lowering& l) {
  refuse(l);
}

inline bool is_signed(Type type) {
  return ptx::kind_of(type) == TypeKind::Signed;
}

// Handlers of an operation by the width of a type, signs ignored or not.
template <class Op, class T, size_t Sources>
inline constexpr Handler kMapOf = nullptr;
template <class Op, class T>
inline constexpr Handler kMapOf<Op, T, 1> = map1<Op, T, T>;
template <class Op, class T>
inline constexpr Handler kMapOf<Op, T, 2> = map2<Op, T, T, T>;
template <class Op, class T>
inline constexpr Handler kMapOf<Op, T, 3> = map3<Op, T, T, T, T>;

template <class Op, size_t Sources>
Handler by_width(Type type) {
  switch (ptx::bits_of(type)) {
    case 16:
      return kMapOf<Op, uint16_t, Sources>;
    case 32:
      return kMapOf<Op, uint32_t, Sources>;
    case 64:
      return kMapOf<Op, uint64_t, Sources>;
    default:
      return nullptr;
  }
}

template <class Op, size_t Sources>
Handler by_integer(Type type) {
  if (!is_signed(type)) return by_width<Op, Sources>(type);
  switch (ptx::bits_of(type)) {
    case 16:
      return kMapOf<Op, int16_t, Sources>;
    case 32:
      return kMapOf<Op, int32_t, Sources>;
    case 64:
      return kMapOf<Op, int64_t, Sources>;
    default:
      return nullptr;
  }
}

// Emits a handler for `d, a, b, c`, of these types. Planes come first: naming one may emit.
inline Inst* emit_types(Lowering& l, Handler handler, Type d, Type a, Type b = Type::None,
                        Type c = Type::None) {
  if (handler == nullptr) {
    refuse(l);
    return nullptr;
  }
  const auto& operands = l.inst->operands;
  const size_t sources = c != Type::None ? 3 : b != Type::None ? 2 : 1;
  if (operands.size() < sources + 1) {
    l.unsupported("this number of operands");
    return nullptr;
  }
  const PlaneOffset pa = l.source(operands[1], a);
  const PlaneOffset pb = sources > 1 ? l.source(operands[2], b) : 0;
  const PlaneOffset pc = sources > 2 ? l.source(operands[3], c) : 0;
  const PlaneOffset pd = l.dest(operands[0], d);
  Inst& inst = l.emit(handler);
  inst.dst = pd;
  inst.a = pa;
  inst.b = pb;
  inst.c = pc;
  return &inst;
}

// The same where every operand has the instruction's type.
inline Inst* emit_same(Lowering& l, Handler handler, size_t sources) {
  const Type t = l.inst->type();
  return emit_types(l, handler, t, t, sources > 1 ? t : Type::None, sources > 2 ? t : Type::None);
}

}  // namespace assay::vgpu::ASSAY_BUILD
