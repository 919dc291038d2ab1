#include "shadow/flow.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <unordered_map>

namespace assay::shadow {

namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;
using OperandKind = ptx::Operand::Kind;

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

// How many elements a type packs into a register, and what they are.
struct Packing {
  Type type;
  Number number;
  uint8_t count;
};
constexpr Packing kPackings[] = {
    {Type::F64, Number::F64, 1},     {Type::F32, Number::F32, 1},     {Type::TF32, Number::TF32, 1},
    {Type::F16, Number::F16, 1},     {Type::BF16, Number::BF16, 1},   {Type::F16x2, Number::F16, 2},
    {Type::BF16x2, Number::BF16, 2}, {Type::F32x2, Number::F32, 2},   {Type::E4M3x2, Number::E4M3, 2},
    {Type::E5M2x2, Number::E5M2, 2}, {Type::E4M3x4, Number::E4M3, 4}, {Type::E5M2x4, Number::E5M2, 4},
    {Type::S8, Number::S8, 1},       {Type::U8, Number::U8, 1},       {Type::S16, Number::S16, 1},
    {Type::U16, Number::U16, 1},     {Type::S32, Number::S32, 1},     {Type::U32, Number::U32, 1},
    {Type::S64, Number::S64, 1},     {Type::U64, Number::U64, 1},
};

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

class Planner {
 public:
  explicit Planner(const ptx::Function& function) : function_(function) {
    find_constants();
    find_floats();
    find_upper_halves();
  }

  Plan plan(const Instruction& inst) const {
    Plan p;
    for (uint32_t r : written(inst)) p.writes.push_back(r);
    fill(inst, p);
    return p;
  }

 private:
  const ptx::Function& function_;
  std::vector<int> definitions_;
  std::unordered_map<uint32_t, double> constants_;  // registers that only ever hold this
  std::vector<bool> is_upper_;
  std::vector<bool> is_f32_;  // registers that some instruction reads or writes as one float

  uint32_t bytes_of(uint32_t reg) const {
    return std::max<uint32_t>(ptx::size_of(function_.registers[reg].type), 1);
  }

  static std::vector<uint32_t> written(const Instruction& inst) {
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

  static double value_of(const Operand& o) {
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

  void find_constants() {
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
      }
    }
  }

  // Upper halves of doubles: what is packed into or out of one.
  void find_upper_halves() {
    is_upper_.assign(function_.registers.size(), false);
    for (const Instruction& inst : function_.body) {
      if (inst.opcode != Opcode::mov || inst.operands.size() < 2 || ptx::size_of(inst.type()) != 8) continue;
      for (const Operand& o : inst.operands)
        if (o.kind == OperandKind::Vector && o.elements.size() == 2 &&
            o.elements[1].kind == OperandKind::Register)
          is_upper_[o.elements[1].index] = true;
    }
  }

  void find_floats() {
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
        if (inst.opcode != Opcode::mov || inst.operands.size() < 2 || ptx::size_of(inst.type()) != 4)
          continue;
        const Operand &to = inst.operands[0], &from = inst.operands[1];
        if (to.kind != OperandKind::Register || from.kind != OperandKind::Register) continue;
        if (is_f32_[from.index] && !is_f32_[to.index] && definitions_[to.index] == 1)
          is_f32_[to.index] = changed = true;
      }
    }
  }

  std::optional<double> constant(const Operand& o) const {
    if (o.kind == OperandKind::Immediate) return value_of(o);
    if (o.kind != OperandKind::Register) return std::nullopt;
    const auto found = constants_.find(o.index);
    return found == constants_.end() ? std::nullopt : std::optional(found->second);
  }

  static std::optional<Place> home_of(const Part& part) {
    if (part.operand == nullptr || part.operand->kind != OperandKind::Register) return std::nullopt;
    return Place{part.operand->index, part.home()};
  }

  // Results carry errors of their own and of their sources.
  void connect(Plan& p, bool gives) const {
    for (const PartOp& part : p.parts) {
      const auto to = home_of(part.to);
      if (!to) continue;
      if (gives) p.gives.push_back(*to);
      for (const Part& source : part.from) {
        const auto from = home_of(source);
        if (from && !is_integer(source.number)) {
          p.edges.push_back({*to, *from});
          // Whoever computes with it needs it as a float, whatever becomes of the result.
          p.edges.back().passes = kForAll;
        }
      }
    }
  }

  static Part part_of(const Operand& operand, const Packing& packing, uint32_t index) {
    return {&operand, packing.type, static_cast<uint8_t>(index * size_of(packing.number)), packing.number};
  }

  void fill(const Instruction& inst, Plan& p) const {
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

  void arithmetic(const Instruction& inst, Plan& p) const {
    const auto row = std::find_if(std::begin(kOps), std::end(kOps),
                                  [&](const OpRow& r) { return r.opcode == inst.opcode; });
    if (row == std::end(kOps) || inst.operands.size() != row->sources + 1u) return other(p);
    const Packing& packed = *packing(inst.type());
    p.kind = Kind::Arithmetic;
    p.op = row->op;
    p.clamps = inst.has(Mod::sat);
    p.clamps_below = inst.has(Mod::relu);
    p.on_purpose = rounds_on_purpose(inst, *row, packed.number);
    for (uint32_t i = 0; i < packed.count; ++i) {
      PartOp part;
      part.to = part_of(inst.operands[0], packed, i);
      for (uint32_t s = 0; s < row->sources; ++s) part.from[s] = part_of(inst.operands[s + 1], packed, i);
      p.parts.push_back(part);
    }
    if (p.on_purpose) p.kind = Kind::Integral;
    const bool exact = packed.number == Number::F64 || row->op == Op::Neg || row->op == Op::Abs ||
                       row->op == Op::Min || row->op == Op::Max || row->op == Op::Copysign || p.on_purpose;
    connect(p, !exact);
  }

  // x + 1.5 * 2^23 and the like: the addition is there to round.
  bool rounds_on_purpose(const Instruction& inst, const OpRow& row, Number number) const {
    const double low = number == Number::F32 ? 0x1p22 : number == Number::F64 ? 0x1p51 : 0;
    if (low == 0 || (row.op != Op::Add && row.op != Op::Sub && row.op != Op::Fma)) return false;
    for (size_t s = row.op == Op::Fma ? 3 : 1; s < inst.operands.size(); ++s)
      if (const auto c = constant(inst.operands[s]); c && std::fabs(*c) >= low && std::fabs(*c) <= low * 8)
        return true;
    return false;
  }

  void convert(const Instruction& inst, Plan& p) const {
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

  void compare(const Instruction& inst, Plan& p) const {
    if (!is_float(inst.type()) || packing(inst.type())->count != 1 || inst.operands.size() < 3) return;
    p.kind = Kind::Compare;
    PartOp part;
    for (uint32_t s = 0; s < 2; ++s) {
      part.from[s] = part_of(inst.operands[s + 1], *packing(inst.type()), 0);
      if (const auto place = home_of(part.from[s])) p.needs.push_back({*place, kForDecisions});
    }
    p.parts.push_back(part);
  }

  void copy_bytes(Plan& p, const Operand& to, uint32_t to_at, const Operand& from, uint32_t from_at,
                  uint32_t bytes, uint8_t act = 0) const {
    if (to.kind != OperandKind::Register || from.kind != OperandKind::Register) return;
    for (uint32_t b = 0; b < bytes; ++b)
      if (to_at + b < bytes_of(to.index) && from_at + b < bytes_of(from.index))
        p.edges.push_back({{to.index, static_cast<uint8_t>(to_at + b)},
                           {from.index, static_cast<uint8_t>(from_at + b)},
                           kForAll,
                           act});
  }

  void move(const Instruction& inst, Plan& p) const {
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
  void cut(Plan& p, uint32_t to, uint8_t byte, uint32_t from) const {
    p.kind = Kind::Cut;
    p.edges.push_back({{to, byte}, {from, 3}, kForAll, kCut});
    p.gives.push_back({to, byte});
  }

  void select(const Instruction& inst, Plan& p) const {
    if (inst.operands.size() != 4) return other(p);
    p.kind = Kind::Select;
    const uint32_t bytes = ptx::size_of(inst.type());
    copy_bytes(p, inst.operands[0], 0, inst.operands[1], 0, bytes);
    copy_bytes(p, inst.operands[0], 0, inst.operands[2], 0, bytes);
  }

  void shift(const Instruction& inst, Plan& p) const {
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

  void logic(const Instruction& inst, Plan& p) const {
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

  void mask_bytes(const Instruction& inst, Plan& p, const Operand& to, const Operand& from, uint64_t mask,
                  uint32_t bytes) const {
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
  static bool is_plain_mask(Opcode opcode, uint32_t mask) {
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
  void bits(Plan& p, const Operand& to, const Operand& from) const {
    if (to.kind != OperandKind::Register || from.kind != OperandKind::Register) return;
    if (bytes_of(to.index) != 4 || bytes_of(from.index) != 4) return;
    p.kind = Kind::Bits;
    p.wide = !is_f32_[from.index] && !is_f32_[to.index] && (is_upper_[from.index] || is_upper_[to.index]);
    p.edges.push_back({{to.index, 3}, {from.index, 3}, kForFloats});
    p.gives.push_back({to.index, 3});
  }

  void permute(const Instruction& inst, Plan& p) const {
    const Operand &to = inst.operands.at(0), &selector = inst.operands.at(3);
    if (inst.operands.size() != 4 || selector.kind != OperandKind::Immediate || !inst.mods.empty())
      return other(p);
    p.kind = Kind::Move;
    for (uint32_t half = 0; half < 2; ++half) {
      const auto choices = static_cast<uint32_t>(selector.bits >> (8 * half) & 0xff);
      const Operand& from = inst.operands[1 + (choices & 0xf) / 4 % 2];
      const bool upper = choices == 0x32 || choices == 0x76;
      if (upper && from.kind == OperandKind::Register && is_f32_[from.index] &&
          to.kind == OperandKind::Register) {
        cut(p, to.index, static_cast<uint8_t>(2 * half + 1), from.index);
        continue;
      }
      for (uint32_t k = 2 * half; k < 2 * half + 2; ++k) {
        const auto choice = static_cast<uint32_t>(selector.bits >> (4 * k) & 0xf);
        if (choice & 8) continue;
        copy_bytes(p, to, k, inst.operands[1 + choice / 4], choice % 4, 1);
      }
    }
  }

  void shuffle(const Instruction& inst, Plan& p) const {
    p.kind = Kind::Shuffle;
    copy_bytes(p, inst.operands.at(0), 0, inst.operands.at(1), 0, 4);
  }

  static const std::vector<Operand>& elements(const Operand& o, std::vector<Operand>& one) {
    if (o.kind == OperandKind::Vector) return o.elements;
    one.assign(1, o);
    return one;
  }

  void load(const Instruction& inst, Plan& p) const {
    p.kind = Kind::Load;
    const bool of_kernel = function_.is_entry && (inst.has(Mod::param) || inst.has(Mod::param_entry));
    if (of_kernel || inst.has(Mod::const_)) {
      p.kind = Kind::Move;  // nothing has an error
      return;
    }
    std::vector<Operand> one;
    for (const Operand& e : elements(inst.operands.at(0), one)) give_bytes(p, e, ptx::size_of(inst.type()));
  }

  void give_bytes(Plan& p, const Operand& to, uint32_t bytes) const {
    if (to.kind != OperandKind::Register) return;
    for (uint32_t b = 0; b < std::min(bytes, bytes_of(to.index)); ++b)
      p.gives.push_back({to.index, static_cast<uint8_t>(b)});
  }
  void need_bytes(Plan& p, const Operand& from, uint32_t bytes) const {
    if (from.kind != OperandKind::Register) return;
    for (uint32_t b = 0; b < std::min(bytes, bytes_of(from.index)); ++b)
      p.needs.push_back({{from.index, static_cast<uint8_t>(b)}, kForMemory});
  }

  void store(const Instruction& inst, Plan& p) const {
    p.kind = inst.has(Mod::param) || inst.has(Mod::param_func) ? Kind::Call : Kind::Store;
    std::vector<Operand> one;
    for (const Operand& e : elements(inst.operands.at(1), one)) need_bytes(p, e, ptx::size_of(inst.type()));
  }

  void atomic(const Instruction& inst, Plan& p) const {
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
  static std::vector<uint8_t> fragment_homes(Type type) {
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

  void product(const Instruction& inst, Plan& p) const {
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
              for (uint8_t from : fragment_homes(types[s]))
                p.edges.push_back({{d.index, to}, {e.index, from}});
      }
    }
  }

  void load_matrix(const Instruction& inst, Plan& p) const {
    const bool plain = inst.opcode == Opcode::ldmatrix;
    const Type type = plain ? Type::BF16 : inst.type();
    if (fragment_homes(type).empty() || (plain && !inst.has(Mod::m8n8))) return other(p);
    p.kind = Kind::LoadMatrix;
    std::vector<Operand> one;
    for (const Operand& e : elements(inst.operands.at(0), one))
      if (e.kind == OperandKind::Register)
        for (uint8_t home : fragment_homes(type)) p.gives.push_back({e.index, home});
  }

  void store_matrix(const Instruction& inst, Plan& p) const {
    const Type type = inst.opcode == Opcode::stmatrix ? Type::BF16 : inst.type();
    if (fragment_homes(type).empty()) return;
    p.kind = Kind::StoreMatrix;
    std::vector<Operand> one;
    for (const Operand& e : elements(inst.operands.at(1), one))
      if (e.kind == OperandKind::Register)
        for (uint8_t home : fragment_homes(type)) p.needs.push_back({{e.index, home}, kForMemory});
  }

  void integer(const Instruction& inst, Plan& p) const {
    const uint32_t bytes = ptx::size_of(inst.type());
    const bool is_plain = inst.operands.size() == 3 && inst.types.size() == 1;
    if (is_plain && bytes == 4 && (inst.opcode == Opcode::add || inst.opcode == Opcode::sub)) {
      p.kind = Kind::Move;
      const Operand &a = inst.operands[1], &b = inst.operands[2];
      const bool second = inst.opcode == Opcode::add && a.kind != OperandKind::Register;
      return bits(p, inst.operands[0], second ? b : a);
    }
    if (is_plain &&
        (inst.opcode == Opcode::min || inst.opcode == Opcode::max)) {  // clamps a quantised number
      p.kind = Kind::Merge;
      for (size_t s = 1; s < 3; ++s) copy_bytes(p, inst.operands[0], 0, inst.operands[s], 0, 1);
      for (Edge& e : p.edges) e.passes = kForMemory;
      return;
    }
    other(p);
  }

  static void other(Plan& p) {
    p.parts.clear();
    p.edges.clear();
    p.kind = p.writes.empty() ? Kind::None : Kind::Other;
  }
};

}  // namespace

uint32_t size_of(Number number) {
  switch (number) {
    case Number::F64:
    case Number::S64:
    case Number::U64:
      return 8;
    case Number::F32:
    case Number::TF32:
    case Number::S32:
    case Number::U32:
      return 4;
    case Number::F16:
    case Number::BF16:
    case Number::S16:
    case Number::U16:
      return 2;
    default:
      return 1;
  }
}

uint8_t Part::home() const {
  return is_integer(number) ? offset : static_cast<uint8_t>(offset + size_of(number) - 1);
}

Flow::Flow(const ptx::Function& function) {
  const Planner planner(function);
  plans_.reserve(function.body.size());
  for (const ptx::Instruction& inst : function.body) plans_.push_back(planner.plan(inst));
  const size_t registers = function.registers.size();
  std::vector<uint32_t> carries(registers, 0), needs[3];
  for (auto& n : needs) n.assign(registers, 0);
  for (const Plan& p : plans_) {
    for (const Place& g : p.gives) carries[g.reg] |= 1u << g.byte;
    for (const auto& [place, whom] : p.needs)
      for (uint32_t w = 0; w < 3; ++w)
        if (whom >> w & 1) needs[w][place.reg] |= 1u << place.byte;
  }
  for (bool changed = true; changed;) {
    changed = false;
    const auto add = [&](uint32_t& bits, uint32_t bit) {
      if ((bits & bit) == 0) bits |= bit, changed = true;
    };
    for (const Plan& p : plans_)
      for (const Edge& e : p.edges) {
        if (carries[e.from.reg] >> e.from.byte & 1) add(carries[e.to.reg], 1u << e.to.byte);
        const bool picks = p.op == Op::Min || p.op == Op::Max || p.op == Op::Neg || p.op == Op::Abs;
        const bool computes =
            (p.kind == Kind::Arithmetic && !picks) || p.kind == Kind::Integral || p.kind == Kind::Product;
        for (uint32_t w = 0; w < 3; ++w) {
          if ((e.passes >> w & 1) == 0 || (needs[w][e.to.reg] >> e.to.byte & 1) == 0) continue;
          add(needs[computes ? 0 : w][e.from.reg], 1u << e.from.byte);
        }
      }
  }
  find_numbers(function);
  followed_.resize(registers);
  for (size_t r = 0; r < registers; ++r)
    followed_[r] = carries[r] & (needs[0][r] | needs[1][r] | needs[2][r]);
  // A float rounded to a whole number only to be stored as an integer is quantised, and what is rounded away
  // is its error.
  for (Plan& p : plans_) {
    if (p.kind != Kind::Integral || p.on_purpose || p.parts.size() != 1) continue;
    const ptx::Operand* to = p.parts[0].to.operand;
    if (to->kind != OperandKind::Register) continue;
    const uint32_t bit = 1u << p.parts[0].to.home();
    if ((needs[0][to->index] & bit) != 0 || (needs[1][to->index] & bit) == 0) continue;
    p.kind = Kind::Arithmetic;
    p.rounds = p.to_nearest;
    followed_[to->index] |= bit;
  }
}

namespace {
constexpr uint8_t kUnknown = 0xff;
}

void Flow::find_numbers(const ptx::Function& function) {
  numbers_.assign(function.registers.size(), kUnknown);
  const auto note = [&](const Part& part) {
    if (part.operand == nullptr || part.operand->kind != OperandKind::Register || is_integer(part.number))
      return;
    numbers_[part.operand->index] = static_cast<uint8_t>(part.number);
  };
  for (const Plan& p : plans_)
    for (const PartOp& part : p.parts) {
      note(part.to);
      for (const Part& from : part.from) note(from);
    }
  for (bool changed = true; changed;) {
    changed = false;
    for (const Plan& p : plans_) {
      const bool moves =
          p.kind == Kind::Move || p.kind == Kind::Select || p.kind == Kind::Shuffle || p.kind == Kind::Merge;
      for (const Edge& e : p.edges) {
        uint8_t &to = numbers_[e.to.reg], &from = numbers_[e.from.reg];
        if (!moves || (to == kUnknown) == (from == kUnknown)) continue;
        (to == kUnknown ? to : from) = to == kUnknown ? from : to;
        changed = true;
      }
    }
  }
}

std::optional<Number> Flow::number(uint32_t reg) const {
  const uint8_t known = numbers_[reg];
  return known == kUnknown ? std::nullopt : std::optional(static_cast<Number>(known));
}

}  // namespace assay::shadow
