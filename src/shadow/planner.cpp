#include "shadow/planner.h"

#include <algorithm>
#include <cstring>

namespace assay::shadow {

namespace {

constexpr Packing kPackings[] = {
    {Type::F64, Number::F64, 1},     {Type::F32, Number::F32, 1},     {Type::TF32, Number::TF32, 1},
    {Type::F16, Number::F16, 1},     {Type::BF16, Number::BF16, 1},   {Type::F16x2, Number::F16, 2},
    {Type::BF16x2, Number::BF16, 2}, {Type::F32x2, Number::F32, 2},   {Type::E4M3x2, Number::E4M3, 2},
    {Type::E5M2x2, Number::E5M2, 2}, {Type::E4M3x4, Number::E4M3, 4}, {Type::E5M2x4, Number::E5M2, 4},
    {Type::S8, Number::S8, 1},       {Type::U8, Number::U8, 1},       {Type::S16, Number::S16, 1},
    {Type::U16, Number::U16, 1},     {Type::S32, Number::S32, 1},     {Type::U32, Number::U32, 1},
    {Type::S64, Number::S64, 1},     {Type::U64, Number::U64, 1},
};

// Instructions that write no register, though their first operand may be one.
constexpr Opcode kWriteNothing[] = {
    Opcode::st,
    Opcode::red,
    Opcode::bra,
    Opcode::brx_idx,
    Opcode::bar_sync,
    Opcode::bar_arrive,
    Opcode::barrier_sync,
    Opcode::barrier_arrive,
    Opcode::bar_warp_sync,
    Opcode::nanosleep,
    Opcode::call,
    Opcode::ret,
    Opcode::exit,
    Opcode::stackrestore,
    Opcode::setmaxnreg,
    Opcode::pmevent,
    Opcode::stmatrix,
    Opcode::wmma_store_d,
    Opcode::cp_async,
    Opcode::cp_async_bulk,
    Opcode::cp_async_bulk_tensor,
    Opcode::cp_reduce_async_bulk,
    Opcode::cp_reduce_async_bulk_tensor,
    Opcode::st_async,
    Opcode::red_async,
};

}  // namespace

const Packing* packing(Type type) {
  for (const Packing& p : kPackings)
    if (p.type == type) return &p;
  return nullptr;
}

bool is_integer(Number number) {
  return number >= Number::S8;
}
bool is_float(Type type) {
  const Packing* p = packing(type);
  return p != nullptr && !is_integer(p->number);
}

Planner::Planner(const ptx::Function& function) : function_(function) {
  find_constants();
  find_floats();
  find_upper_halves();
}

Plan Planner::plan(const Instruction& inst) const {
  Plan p;
  for (uint32_t r : written(inst)) p.writes.push_back(r);
  fill(inst, p);
  return p;
}

uint32_t Planner::bytes_of(uint32_t reg) const {
  return std::max<uint32_t>(ptx::size_of(function_.registers[reg].type), 1);
}

std::vector<uint32_t> Planner::written(const Instruction& inst) {
  std::vector<uint32_t> found;
  if (inst.operands.empty() ||
      std::find(std::begin(kWriteNothing), std::end(kWriteNothing), inst.opcode) != std::end(kWriteNothing))
    return found;
  const Operand& first = inst.operands[0];
  const auto add = [&](const Operand& o) {
    if (o.kind == OperandKind::Register && o.index != ptx::kNone) found.push_back(o.index);
  };
  add(first);
  if (first.kind == OperandKind::Vector)
    for (const Operand& e : first.elements) add(e);
  return found;
}

double Planner::value_of(const Operand& o) {
  if (o.is_f32_bits) {
    const auto bits = static_cast<uint32_t>(o.bits);
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return static_cast<double>(f);
  }
  if (!o.is_float) return static_cast<double>(static_cast<int64_t>(o.bits));
  double d;
  std::memcpy(&d, &o.bits, sizeof d);
  return d;
}

void Planner::find_constants() {
  definitions_.assign(function_.registers.size(), 0);
  for (const Instruction& inst : function_.body)
    for (uint32_t r : written(inst)) ++definitions_[r];
  for (const Instruction& inst : function_.body) {
    if (inst.opcode != Opcode::mov || inst.operands.size() < 2 || inst.guard != ptx::kNone) continue;
    const Operand &to = inst.operands[0], &from = inst.operands[1];
    if (to.kind == OperandKind::Register && from.kind == OperandKind::Immediate &&
        definitions_[to.index] == 1) {
      double value = value_of(from);
      if (!from.is_float && ptx::size_of(inst.type()) == 4) {  // bits of a float, perhaps
        const auto bits = static_cast<uint32_t>(from.bits);
        float f;
        std::memcpy(&f, &bits, sizeof f);
        value = static_cast<double>(f);
      }
      constants_[to.index] = value;
      if (!from.is_float && !from.is_f32_bits) integers_[to.index] = from.bits;
    }
  }
}

// Upper halves of doubles: what is packed into or out of one.
void Planner::find_upper_halves() {
  is_upper_.assign(function_.registers.size(), false);
  for (const Instruction& inst : function_.body) {
    if (inst.opcode != Opcode::mov || inst.operands.size() < 2 || ptx::size_of(inst.type()) != 8) continue;
    for (const Operand& o : inst.operands)
      if (o.kind == OperandKind::Vector && o.elements.size() == 2 &&
          o.elements[1].kind == OperandKind::Register)
        is_upper_[o.elements[1].index] = true;
  }
}

void Planner::find_floats() {
  is_f32_.assign(function_.registers.size(), false);
  for (const Instruction& inst : function_.body) {
    const bool converts = inst.opcode == Opcode::cvt;
    for (size_t i = 0; i < inst.operands.size(); ++i) {
      const Operand& o = inst.operands[i];
      if (o.kind != OperandKind::Register) continue;
      const Type type = converts ? inst.type(i == 0 ? 0 : 1) : inst.type();
      if (type == Type::F32 && bytes_of(o.index) == 4) is_f32_[o.index] = true;
    }
  }
  // … and those that are only copied to or from one.
  for (bool changed = true; changed;) {
    changed = false;
    for (const Instruction& inst : function_.body) {
      if (inst.opcode != Opcode::mov || inst.operands.size() < 2 || ptx::size_of(inst.type()) != 4) continue;
      const Operand &to = inst.operands[0], &from = inst.operands[1];
      if (to.kind != OperandKind::Register || from.kind != OperandKind::Register) continue;
      if (is_f32_[from.index] && !is_f32_[to.index] && definitions_[to.index] == 1)
        is_f32_[to.index] = changed = true;
    }
  }
}

std::optional<double> Planner::constant(const Operand& o) const {
  if (o.kind == OperandKind::Immediate) return value_of(o);
  if (o.kind != OperandKind::Register) return std::nullopt;
  const auto found = constants_.find(o.index);
  return found == constants_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<uint64_t> Planner::integer_constant(const Operand& o) const {
  if (o.kind == OperandKind::Immediate) return o.bits;
  if (o.kind != OperandKind::Register) return std::nullopt;
  const auto found = integers_.find(o.index);
  return found == integers_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<Place> Planner::home_of(const Part& part) {
  if (part.operand == nullptr || part.operand->kind != OperandKind::Register) return std::nullopt;
  return Place{part.operand->index, part.home()};
}

// Results carry errors of their own and of their sources.
void Planner::connect(Plan& p, bool gives) const {
  for (const PartOp& part : p.parts) {
    const auto to = home_of(part.to);
    if (!to) continue;
    if (gives) p.gives.push_back(*to);
    for (const Part& source : part.from) {
      const auto from = home_of(source);
      if (from && !is_integer(source.number)) {
        p.edges.push_back({*to, *from});
        // An operation that uses it needs it as a float, whatever becomes of the result.
        p.edges.back().passes = kForAll;
      }
    }
  }
}

Part Planner::part_of(const Operand& operand, const Packing& packing, uint32_t index) {
  return {&operand, packing.type, static_cast<uint8_t>(index * size_of(packing.number)), packing.number};
}

void Planner::fill(const Instruction& inst, Plan& p) const {
  switch (inst.opcode) {
    case Opcode::mov:
      return move(inst, p);
    case Opcode::selp:
      return select(inst, p);
    case Opcode::setp:
      return compare(inst, p);
    case Opcode::cvt:
      return convert(inst, p);
    case Opcode::ld:
    case Opcode::ldu:
      return load(inst, p);
    case Opcode::st:
      return store(inst, p);
    case Opcode::atom:
    case Opcode::red:
      return atomic(inst, p);
    case Opcode::shfl_sync:
      return shuffle(inst, p);
    case Opcode::shl:
    case Opcode::shr:
      return shift(inst, p);
    case Opcode::and_:
    case Opcode::or_:
    case Opcode::xor_:
      return logic(inst, p);
    case Opcode::prmt:
      return permute(inst, p);
    case Opcode::mma:
    case Opcode::wmma_mma:
      return product(inst, p);
    case Opcode::ldmatrix:
    case Opcode::wmma_load_a:
    case Opcode::wmma_load_b:
    case Opcode::wmma_load_c:
      return load_matrix(inst, p);
    case Opcode::stmatrix:
    case Opcode::wmma_store_d:
      return store_matrix(inst, p);
    case Opcode::cp_async:
      p.kind = Kind::AsyncCopy;
      return;
    case Opcode::cp_async_bulk:
      p.kind = inst.has(Mod::multicast_cluster) ? Kind::Unseen : Kind::BulkCopy;
      return;
    case Opcode::cp_async_bulk_tensor:
    case Opcode::cp_reduce_async_bulk:
    case Opcode::cp_reduce_async_bulk_tensor:
    case Opcode::st_async:
    case Opcode::red_async:
      p.kind = Kind::Unseen;
      return;
    case Opcode::wgmma_mma_async:
      other(p);
      p.unfollowed = true;
      return;
    default:
      break;
  }
  if (is_float(inst.type()) && inst.types.size() == 1) return arithmetic(inst, p);
  integer(inst, p);
}

void Planner::other(Plan& p) {
  p.parts.clear();
  p.edges.clear();
  p.kind = p.writes.empty() ? Kind::None : Kind::Other;
}

}  // namespace assay::shadow
