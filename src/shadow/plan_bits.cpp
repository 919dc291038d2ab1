// Plans of instructions that move bits, or compute with the bits of floats.
#include "shadow/planner.h"

namespace assay::shadow {

void Planner::copy_bytes(Plan& p, const Operand& to, uint32_t to_at, const Operand& from, uint32_t from_at,
                         uint32_t bytes, uint8_t act) const {
  if (to.kind != OperandKind::Register || from.kind != OperandKind::Register) return;
  for (uint32_t b = 0; b < bytes; ++b)
    if (to_at + b < bytes_of(to.index) && from_at + b < bytes_of(from.index))
      p.edges.push_back({{to.index, static_cast<uint8_t>(to_at + b)},
                         {from.index, static_cast<uint8_t>(from_at + b)},
                         kForAll,
                         act});
}

void Planner::move(const Instruction& inst, Plan& p) const {
  if (inst.operands.size() < 2) return;
  const Operand &to = inst.operands[0], &from = inst.operands[1];
  p.kind = Kind::Move;
  const uint32_t bytes = ptx::size_of(inst.type());
  if (from.kind == OperandKind::Vector) {
    const auto count = static_cast<uint32_t>(from.elements.size());
    const uint32_t each = bytes / std::max(count, 1u);
    // {0, bf16} is the float of a bf16.
    const bool widens = count == 2 && each == 2 && from.elements[0].kind == OperandKind::Immediate;
    for (uint32_t k = 0; k < count; ++k)
      copy_bytes(p, to, k * each, from.elements[k], 0, each, widens ? kWiden : 0);
  } else if (to.kind == OperandKind::Vector) {
    const auto count = static_cast<uint32_t>(to.elements.size());
    const uint32_t each = bytes / std::max(count, 1u);
    if (count == 2 && each == 2 && from.kind == OperandKind::Register && is_f32_[from.index]) {
      if (to.elements[1].kind == OperandKind::Register) cut(p, to.elements[1].index, 1, from.index);
      return;
    }
    for (uint32_t k = 0; k < count; ++k) copy_bytes(p, to.elements[k], 0, from, k * each, each);
  } else {
    copy_bytes(p, to, 0, from, 0, bytes);
  }
}

// The upper half of a float as a bf16, whose last byte is `byte`.
void Planner::cut(Plan& p, uint32_t to, uint8_t byte, uint32_t from) const {
  p.kind = Kind::Cut;
  p.edges.push_back({{to, byte}, {from, 3}, kForAll, kCut});
  p.gives.push_back({to, byte});
}

void Planner::select(const Instruction& inst, Plan& p) const {
  if (inst.operands.size() != 4) return other(p);
  p.kind = Kind::Select;
  const uint32_t bytes = ptx::size_of(inst.type());
  copy_bytes(p, inst.operands[0], 0, inst.operands[1], 0, bytes);
  copy_bytes(p, inst.operands[0], 0, inst.operands[2], 0, bytes);
}

void Planner::shift(const Instruction& inst, Plan& p) const {
  const Operand &to = inst.operands.at(0), &from = inst.operands.at(1), &by = inst.operands.at(2);
  p.kind = Kind::Move;
  if (from.kind != OperandKind::Register || to.kind != OperandKind::Register) return;
  if (by.kind != OperandKind::Immediate || by.bits % 8 != 0 || by.bits == 0) return;
  const auto step = static_cast<uint32_t>(by.bits / 8), bytes = ptx::size_of(inst.type());
  if (step >= bytes) return;
  if (inst.opcode == Opcode::shl)
    return copy_bytes(p, to, step, from, 0, bytes - step, step == 2 && bytes == 4 ? kWiden : 0);
  if (step == 2 && bytes == 4 && is_f32_[from.index]) return cut(p, to.index, 1, from.index);
  copy_bytes(p, to, 0, from, step, bytes - step);
}

void Planner::logic(const Instruction& inst, Plan& p) const {
  p.kind = Kind::Move;
  if (inst.type() == Type::Pred) {
    p.kind = Kind::None;
    return;
  }
  const Operand &to = inst.operands.at(0), &a = inst.operands.at(1), &b = inst.operands.at(2);
  if (to.kind != OperandKind::Register) return;
  const uint32_t bytes = ptx::size_of(inst.type());
  const bool constant_first = a.kind == OperandKind::Immediate;
  const Operand &mask = constant_first ? a : b, &from = constant_first ? b : a;
  if (mask.kind == OperandKind::Immediate && from.kind == OperandKind::Register)
    return mask_bytes(inst, p, to, from, mask.bits, bytes);
  if (inst.opcode == Opcode::or_) {
    p.kind = Kind::Merge;
    copy_bytes(p, to, 0, a, 0, bytes);
    copy_bytes(p, to, 0, b, 0, bytes);
  } else if (bytes == 4) {
    bits(p, to, a);
  }
}

void Planner::mask_bytes(const Instruction& inst, Plan& p, const Operand& to, const Operand& from,
                         uint64_t mask, uint32_t bytes) const {
  const bool odd_f32 =
      bytes == 4 && is_f32_[from.index] && !is_plain_mask(inst.opcode, static_cast<uint32_t>(mask));
  if (odd_f32) return bits(p, to, from);
  for (uint32_t k = 0; k < bytes; ++k) {
    const auto m = static_cast<uint8_t>(mask >> (8 * k));
    const bool kept = inst.opcode == Opcode::and_ ? m == 0xff : m == 0;
    const uint8_t act = inst.opcode == Opcode::xor_ && m == 0x80   ? kNegate
                        : inst.opcode == Opcode::and_ && m == 0x7f ? kAbsolute
                                                                   : 0;
    if (kept || act != 0) copy_bytes(p, to, k, from, k, 1, act);
  }
}

// Of a float: keeps it, flips or drops its sign, or drops it.
bool Planner::is_plain_mask(Opcode opcode, uint32_t mask) {
  switch (opcode) {
    case Opcode::and_:
      return mask == 0x7fffffff || mask == 0xffffffff || mask == 0;
    case Opcode::xor_:
      return mask == 0x80000000 || mask == 0;
    default:
      return mask == 0;
  }
}

// Integer work on the bits of a float; worth following only if floats come of it.
void Planner::bits(Plan& p, const Operand& to, const Operand& from) const {
  if (to.kind != OperandKind::Register || from.kind != OperandKind::Register) return;
  if (bytes_of(to.index) != 4 || bytes_of(from.index) != 4) return;
  p.kind = Kind::Bits;
  p.wide = !is_f32_[from.index] && !is_f32_[to.index] && (is_upper_[from.index] || is_upper_[to.index]);
  p.edges.push_back({{to.index, 3}, {from.index, 3}, kForFloats});
  p.gives.push_back({to.index, 3});
}

void Planner::permute(const Instruction& inst, Plan& p) const {
  const Operand& to = inst.operands.at(0);
  const auto selector = integer_constant(inst.operands.at(3));
  if (!selector || !inst.mods.empty()) return other(p);
  p.kind = Kind::Move;
  for (uint32_t half = 0; half < 2; ++half) {
    const auto choices = static_cast<uint32_t>(*selector >> (8 * half) & 0xff);
    const Operand& from = inst.operands[1 + (choices & 0xf) / 4 % 2];
    const bool upper = choices == 0x32 || choices == 0x76;
    if (upper && from.kind == OperandKind::Register && is_f32_[from.index] &&
        to.kind == OperandKind::Register) {
      cut(p, to.index, static_cast<uint8_t>(2 * half + 1), from.index);
      continue;
    }
    for (uint32_t k = 2 * half; k < 2 * half + 2; ++k) {
      const auto choice = static_cast<uint32_t>(*selector >> (4 * k) & 0xf);
      if (choice & 8) continue;
      copy_bytes(p, to, k, inst.operands[1 + choice / 4], choice % 4, 1);
    }
  }
}

void Planner::integer(const Instruction& inst, Plan& p) const {
  const uint32_t bytes = ptx::size_of(inst.type());
  const bool is_plain = inst.operands.size() == 3 && inst.types.size() == 1;
  if (is_plain && bytes == 4 && (inst.opcode == Opcode::add || inst.opcode == Opcode::sub)) {
    p.kind = Kind::Move;
    const Operand &a = inst.operands[1], &b = inst.operands[2];
    const bool second = inst.opcode == Opcode::add && a.kind != OperandKind::Register;
    return bits(p, inst.operands[0], second ? b : a);
  }
  if (is_plain && (inst.opcode == Opcode::min || inst.opcode == Opcode::max)) {  // clamps a quantised number
    p.kind = Kind::Merge;
    for (size_t s = 1; s < 3; ++s) copy_bytes(p, inst.operands[0], 0, inst.operands[s], 0, 1);
    for (Edge& e : p.edges) e.passes = kForMemory;
    return;
  }
  other(p);
}

}  // namespace assay::shadow
