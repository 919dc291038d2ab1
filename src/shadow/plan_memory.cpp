// Plans of memory instructions and of warp-wide operations.
#include "shadow/planner.h"

namespace assay::shadow {

void Planner::shuffle(const Instruction& inst, Plan& p) const {
  p.kind = Kind::Shuffle;
  copy_bytes(p, inst.operands.at(0), 0, inst.operands.at(1), 0, 4);
}

const std::vector<Operand>& Planner::elements(const Operand& o, std::vector<Operand>& one) {
  if (o.kind == OperandKind::Vector) return o.elements;
  one.assign(1, o);
  return one;
}

void Planner::load(const Instruction& inst, Plan& p) const {
  p.kind = Kind::Load;
  const bool of_kernel = function_.is_entry && (inst.has(Mod::param) || inst.has(Mod::param_entry));
  if (of_kernel || inst.has(Mod::const_)) {
    p.kind = Kind::Move;  // nothing has an error
    return;
  }
  std::vector<Operand> one;
  for (const Operand& e : elements(inst.operands.at(0), one)) give_bytes(p, e, ptx::size_of(inst.type()));
}

void Planner::give_bytes(Plan& p, const Operand& to, uint32_t bytes) const {
  if (to.kind != OperandKind::Register) return;
  for (uint32_t b = 0; b < std::min(bytes, bytes_of(to.index)); ++b)
    p.gives.push_back({to.index, static_cast<uint8_t>(b)});
}

void Planner::need_bytes(Plan& p, const Operand& from, uint32_t bytes) const {
  if (from.kind != OperandKind::Register) return;
  for (uint32_t b = 0; b < std::min(bytes, bytes_of(from.index)); ++b)
    p.needs.push_back({{from.index, static_cast<uint8_t>(b)}, kForMemory});
}

void Planner::store(const Instruction& inst, Plan& p) const {
  p.kind = inst.has(Mod::param) || inst.has(Mod::param_func) ? Kind::Call : Kind::Store;
  std::vector<Operand> one;
  for (const Operand& e : elements(inst.operands.at(1), one)) need_bytes(p, e, ptx::size_of(inst.type()));
}

void Planner::atomic(const Instruction& inst, Plan& p) const {
  const size_t first = inst.opcode == Opcode::atom ? 1 : 0;
  const Packing* packed = packing(inst.type());
  const bool adds = inst.has(Mod::add) && packed != nullptr && !is_integer(packed->number);
  const bool swaps = inst.has(Mod::exch) || inst.has(Mod::cas);
  if (!adds && !swaps) return other(p);
  p.kind = Kind::Atomic;
  std::vector<Operand> to, from;
  const Operand& operand = inst.operands.at(first + (inst.has(Mod::cas) ? 2 : 1));
  for (const Operand& e : elements(operand, from)) need_bytes(p, e, ptx::size_of(inst.type()));
  if (first == 1)
    for (const Operand& e : elements(inst.operands[0], to)) give_bytes(p, e, ptx::size_of(inst.type()));
}

// Bytes where the elements of a fragment's registers have their errors.
std::vector<uint8_t> Planner::fragment_homes(Type type) {
  switch (type) {
    case Type::F16:
    case Type::BF16:
      return {1, 3};
    case Type::F32:
    case Type::TF32:
      return {3};
    case Type::F64:
      return {7};
    case Type::E4M3:
    case Type::E5M2:
      return {0, 1, 2, 3};
    default:
      return {};
  }
}

void Planner::product(const Instruction& inst, Plan& p) const {
  const bool short_form = inst.types.size() == 2;
  const Type types[4] = {inst.type(0), short_form ? Type::F16 : inst.type(1),
                         short_form ? Type::F16 : inst.type(2), short_form ? inst.type(1) : inst.type(3)};
  if (inst.operands.size() < 4 || fragment_homes(types[0]).empty() || fragment_homes(types[1]).empty() ||
      (inst.has(Mod::m8n8k4) && types[1] == Type::F16))
    return other(p);
  p.kind = Kind::Product;
  std::vector<Operand> one, ones;
  for (const Operand& d : elements(inst.operands[0], one)) {
    if (d.kind != OperandKind::Register) continue;
    for (uint8_t to : fragment_homes(types[0])) {
      p.gives.push_back({d.index, to});
      for (uint32_t s = 1; s < 4; ++s)
        for (const Operand& e : elements(inst.operands[s], ones))
          if (e.kind == OperandKind::Register)
            for (uint8_t from : fragment_homes(types[s])) p.edges.push_back({{d.index, to}, {e.index, from}});
    }
  }
}

void Planner::load_matrix(const Instruction& inst, Plan& p) const {
  const bool plain = inst.opcode == Opcode::ldmatrix;
  const Type type = plain ? Type::BF16 : inst.type();
  if (fragment_homes(type).empty() || (plain && !inst.has(Mod::m8n8))) return other(p);
  p.kind = Kind::LoadMatrix;
  std::vector<Operand> one;
  for (const Operand& e : elements(inst.operands.at(0), one))
    if (e.kind == OperandKind::Register)
      for (uint8_t home : fragment_homes(type)) p.gives.push_back({e.index, home});
}

void Planner::store_matrix(const Instruction& inst, Plan& p) const {
  const Type type = inst.opcode == Opcode::stmatrix ? Type::BF16 : inst.type();
  if (fragment_homes(type).empty()) return;
  p.kind = Kind::StoreMatrix;
  std::vector<Operand> one;
  for (const Operand& e : elements(inst.operands.at(1), one))
    if (e.kind == OperandKind::Register)
      for (uint8_t home : fragment_homes(type)) p.needs.push_back({{e.index, home}, kForMemory});
}

}  // namespace assay::shadow
