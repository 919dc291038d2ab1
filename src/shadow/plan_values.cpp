// Plans of arithmetic, conversions and comparisons.
#include <algorithm>
#include <cmath>

#include "shadow/planner.h"

namespace assay::shadow {

namespace {

struct OpRow {
  Opcode opcode;
  Op op;
  uint8_t sources;
};
constexpr OpRow kOps[] = {
    {Opcode::add, Op::Add, 2},           {Opcode::sub, Op::Sub, 2},   {Opcode::mul, Op::Mul, 2},
    {Opcode::fma, Op::Fma, 3},           {Opcode::mad, Op::Fma, 3},   {Opcode::div, Op::Div, 2},
    {Opcode::rcp, Op::Rcp, 1},           {Opcode::sqrt, Op::Sqrt, 1}, {Opcode::rsqrt, Op::Rsqrt, 1},
    {Opcode::ex2, Op::Ex2, 1},           {Opcode::lg2, Op::Lg2, 1},   {Opcode::sin, Op::Sin, 1},
    {Opcode::cos, Op::Cos, 1},           {Opcode::tanh, Op::Tanh, 1}, {Opcode::neg, Op::Neg, 1},
    {Opcode::abs, Op::Abs, 1},           {Opcode::min, Op::Min, 2},   {Opcode::max, Op::Max, 2},
    {Opcode::copysign, Op::Copysign, 2},
};

}  // namespace

void Planner::arithmetic(const Instruction& inst, Plan& p) const {
  const auto row =
      std::find_if(std::begin(kOps), std::end(kOps), [&](const OpRow& r) { return r.opcode == inst.opcode; });
  if (row == std::end(kOps) || inst.operands.size() != row->sources + 1u) return other(p);
  const Packing& packed = *packing(inst.type());
  p.kind = Kind::Arithmetic;
  p.op = row->op;
  p.clamps = inst.has(Mod::sat);
  p.clamps_below = inst.has(Mod::relu);
  p.on_purpose = rounds_on_purpose(inst, row->op, packed.number);
  for (uint32_t i = 0; i < packed.count; ++i) {
    PartOp part;
    part.to = part_of(inst.operands[0], packed, i);
    for (uint32_t s = 0; s < row->sources; ++s) part.from[s] = part_of(inst.operands[s + 1], packed, i);
    p.parts.push_back(part);
  }
  if (p.on_purpose) {  // the result is taken as it is, whatever its operands' errors
    p.kind = Kind::Integral;
    return;
  }
  const bool exact = packed.number == Number::F64 || row->op == Op::Neg || row->op == Op::Abs ||
                     row->op == Op::Min || row->op == Op::Max || row->op == Op::Copysign;
  connect(p, !exact);
}

// x + 1.5 * 2^23 and the like: the addition is there to round.
bool Planner::rounds_on_purpose(const Instruction& inst, Op op, Number number) const {
  const double low = number == Number::F32 ? 0x1p22 : number == Number::F64 ? 0x1p51 : 0;
  if (low == 0 || (op != Op::Add && op != Op::Sub && op != Op::Fma)) return false;
  for (size_t s = op == Op::Fma ? 3 : 1; s < inst.operands.size(); ++s)
    if (const auto c = constant(inst.operands[s]); c && std::fabs(*c) >= low && std::fabs(*c) <= low * 8)
      return true;
  return false;
}

void Planner::convert(const Instruction& inst, Plan& p) const {
  const Packing *to = packing(inst.type(0)), *from = packing(inst.type(1));
  const Operand& d = inst.operands.at(0);
  if (to == nullptr || from == nullptr || inst.types.size() != 2) return other(p);
  const bool whole = inst.has(Mod::rni) || inst.has(Mod::rzi) || inst.has(Mod::rmi) || inst.has(Mod::rpi);
  if (is_integer(to->number) && is_integer(from->number)) {
    const uint32_t bytes = std::min(size_of(to->number), size_of(from->number));
    p.kind = Kind::Move;
    return copy_bytes(p, d, 0, inst.operands.at(1), 0, bytes);
  }
  p.op = Op::Convert;
  p.clamps = inst.has(Mod::sat);
  p.clamps_below = inst.has(Mod::relu);
  const uint32_t sources = static_cast<uint32_t>(inst.operands.size()) - 1;
  for (uint32_t i = 0; i < to->count; ++i) {
    PartOp part;
    part.to = part_of(d, *to, i);
    if (from->count == to->count)
      part.from[0] = part_of(inst.operands.at(1), *from, i);
    else if (from->count == 1 && sources == to->count)  // d, upper, lower
      part.from[0] = part_of(inst.operands.at(to->count - i), *from, 0);
    else
      return other(p);
    p.parts.push_back(part);
  }
  if (is_integer(to->number)) {
    p.kind = Kind::ToInteger;
    p.rounds = inst.has(Mod::rni);
    if (d.kind == OperandKind::Register) p.gives.push_back({d.index, 0});
    for (const PartOp& part : p.parts)
      if (const auto place = home_of(part.from[0])) {
        p.needs.push_back({*place, kForDecisions});
        if (d.kind == OperandKind::Register) p.edges.push_back({{d.index, 0}, *place, kForMemory});
      }
    return;
  }
  p.kind = whole ? Kind::Integral : Kind::Arithmetic;
  p.to_nearest = inst.has(Mod::rni);
  p.rounds = inst.has(Mod::rn) && size_of(to->number) <= 2 && size_of(to->number) < size_of(from->number);
  connect(p, !whole && (size_of(to->number) < size_of(from->number) || is_integer(from->number) ||
                        inst.has(Mod::ftz)));
  if (p.kind == Kind::Integral)
    for (const PartOp& part : p.parts)
      if (const auto place = home_of(part.from[0])) p.needs.push_back({*place, kForDecisions});
}

void Planner::compare(const Instruction& inst, Plan& p) const {
  if (!is_float(inst.type()) || packing(inst.type())->count != 1 || inst.operands.size() < 3) return;
  p.kind = Kind::Compare;
  PartOp part;
  for (uint32_t s = 0; s < 2; ++s) {
    part.from[s] = part_of(inst.operands[s + 1], *packing(inst.type()), 0);
    if (const auto place = home_of(part.from[s])) p.needs.push_back({*place, kForDecisions});
  }
  p.parts.push_back(part);
}

}  // namespace assay::shadow
