#include "compiler/operation.h"

#include <algorithm>

#include "vgpu/access.h"

namespace assay::compiler {

namespace {

using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;
using ptx::TypeKind;
using Kind = Operand::Kind;

// Handlers of these go on with the next instruction when all lanes of a warp run, or end the launch.
constexpr Opcode kCalls[] = {
    Opcode::abs,   Opcode::add,   Opcode::addc,      Opcode::and_,      Opcode::bfe,        Opcode::bfi,
    Opcode::bfind, Opcode::bmsk,  Opcode::brev,      Opcode::clz,       Opcode::cnot,       Opcode::copysign,
    Opcode::cos,   Opcode::cvt,   Opcode::cvta,      Opcode::div,       Opcode::dp2a,       Opcode::dp4a,
    Opcode::ex2,   Opcode::fma,   Opcode::fns,       Opcode::isspacep,  Opcode::lg2,        Opcode::lop3,
    Opcode::mad,   Opcode::mad24, Opcode::madc,      Opcode::max,       Opcode::min,        Opcode::mov,
    Opcode::mul,   Opcode::mul24, Opcode::neg,       Opcode::not_,      Opcode::or_,        Opcode::popc,
    Opcode::prmt,  Opcode::rcp,   Opcode::red,       Opcode::rem,       Opcode::rsqrt,      Opcode::sad,
    Opcode::selp,  Opcode::set,   Opcode::setp,      Opcode::shf,       Opcode::shl,        Opcode::shr,
    Opcode::sin,   Opcode::slct,  Opcode::sqrt,      Opcode::sub,       Opcode::subc,       Opcode::tanh,
    Opcode::testp, Opcode::xor_,  Opcode::shfl_sync, Opcode::vote_sync, Opcode::activemask, Opcode::mma,
};
constexpr Opcode kCallsThatMayWait[] = {Opcode::atom};

// Reads of these count instructions or tell the time.
bool is_clock(const Operand& operand) {
  using S = ptx::SpecialRegister;
  if (operand.kind != Kind::Special) return false;
  return operand.special >= S::Clock && operand.special <= S::GlobaltimerHi;
}

bool is_among(Opcode opcode, auto& list) {
  return std::find(std::begin(list), std::end(list), opcode) != std::end(list);
}

bool orders(const ptx::Instruction& inst) {
  for (Mod mod : inst.mods)
    if (mod == Mod::volatile_ || mod == Mod::relaxed || mod == Mod::acquire || mod == Mod::release ||
        mod == Mod::acq_rel || mod == Mod::sc || mod == Mod::mmio)
      return true;
  return false;
}

uint32_t lane_bits(Type type) {
  if (type == Type::Pred) return 1;
  return std::max<uint32_t>(ptx::size_of(type), 2) * 8;
}

class Translator {
 public:
  Translator(const vgpu::CompileRequest& request, const ptx::Instruction& inst, const InstRange& range)
      : request_(request), function_(*request.function->ptx), inst_(inst), range_(range) {}

  Operation run() {
    op_.guard = inst_.guard;
    op_.guard_negated = inst_.guard_negated;
    if (inst_.opcode == Opcode::bra && inst_.operands.at(0).kind == Kind::Label &&
        range_.last == range_.first + 1) {
      op_.code = Code::Branch;
      op_.target = inst_.operands[0].index;
      return op_;
    }
    if (op_.guard == ptx::kNone && translate()) return op_;
    Operation other;
    other.guard = inst_.guard;
    other.code = fallback();
    return other;
  }

 private:
  const vgpu::CompileRequest& request_;
  const ptx::Function& function_;
  const ptx::Instruction& inst_;
  const InstRange& range_;
  Operation op_;

  Code fallback() const {
    for (const Operand& operand : inst_.operands)
      if (is_clock(operand)) return Code::Leave;
    if (range_.first == range_.last) return Code::Leave;
    if (inst_.opcode == Opcode::ld || inst_.opcode == Opcode::st)
      return orders(inst_) || range_.last != range_.first + 1 ? Code::Leave : Code::Call;
    if (is_among(inst_.opcode, kCallsThatMayWait)) {
      // An atomic whose old value nobody reads is no part of a wait.
      const vgpu::Inst* inst = only_inst();
      const bool polls = !inst || !inst->extra || static_cast<const vgpu::MemoryForm*>(inst->extra)->poll;
      return polls ? Code::CallThatMayWait : Code::Call;
    }
    return is_among(inst_.opcode, kCalls) ? Code::Call : Code::Leave;
  }

  bool set(Code code, uint32_t bits) {
    op_.code = code;
    op_.bits = bits;
    return true;
  }

  bool to(size_t operand, uint32_t bits) {
    if (operand >= inst_.operands.size()) return false;
    const Operand& o = inst_.operands[operand];
    if (o.kind != Kind::Register || o.pair != ptx::kNone || o.sink_pair || o.component != 0) return false;
    if (lane_bits(function_.registers.at(o.index).type) != bits) return false;
    op_.to.push_back(o.index);
    return true;
  }

  bool source(const Operand& o, Type type, uint32_t bits, Source& out) const {
    if (o.negated || o.component != 0) return false;
    if (o.kind == Kind::Register) {
      if (lane_bits(function_.registers.at(o.index).type) != bits) return false;
      out.kind = Source::Kind::Register;
      out.reg = o.index;
      return true;
    }
    if (o.kind == Kind::Immediate) {
      out.kind = Source::Kind::Constant;
      out.bits = request_.immediate(o, type);
      if (bits < 64) out.bits &= (uint64_t{1} << bits) - 1;
      return true;
    }
    return false;
  }
  bool from(size_t operand, Type type, uint32_t bits) {
    Source s;
    if (operand >= inst_.operands.size() || !source(inst_.operands[operand], type, bits, s)) return false;
    op_.from.push_back(s);
    return true;
  }
  // d = code(operands 1 .. count), all of this type.
  bool same(Code code, size_t count) {
    const Type type = inst_.type();
    const uint32_t bits = ptx::bits_of(type);
    if (inst_.operands.size() != count + 1 || !to(0, bits)) return false;
    for (size_t i = 1; i <= count; ++i)
      if (!from(i, type, bits)) return false;
    return set(code, bits);
  }

  bool is_integer(Type type) const {
    switch (type) {
      case Type::B16:
      case Type::U16:
      case Type::S16:
      case Type::B32:
      case Type::U32:
      case Type::S32:
      case Type::B64:
      case Type::U64:
      case Type::S64:
        return true;
      default:
        return false;
    }
  }

  // f32 rounded to nearest, subnormals and all. (A NaN of f64 keeps its payload, which handlers know how to do.)
  bool is_plain_float() {
    if (inst_.type() != Type::F32) return false;
    op_.saturates = inst_.has(Mod::sat);
    for (Mod mod : inst_.mods)
      if (mod != Mod::rn && mod != Mod::sat) return false;
    return true;
  }

  // AVX-512 rounds each instruction as it says; before, the CPU's control register would have to change.
  bool is_directed_fma() {
    if (inst_.type() != Type::F32 || inst_.mods.size() != 1 || !request_.avx512) return false;
    op_.rounding = inst_.mods[0];
    return op_.rounding == Mod::rz || op_.rounding == Mod::rm || op_.rounding == Mod::rp;
  }

  bool translate() {
    op_.is_signed = ptx::kind_of(inst_.type()) == TypeKind::Signed;
    switch (inst_.opcode) {
      case Opcode::mov:
        return translate_mov();
      case Opcode::add:
        return sum(Code::Add, Code::FloatAdd);
      case Opcode::sub:
        return sum(Code::Sub, Code::FloatSub);
      case Opcode::mul:
        return product();
      case Opcode::mad:
        return multiply_add();
      case Opcode::fma:
        return (is_plain_float() || is_directed_fma()) && same(Code::FloatFma, 3);
      case Opcode::and_:
        return logic(Code::And, Code::PredicateAnd);
      case Opcode::or_:
        return logic(Code::Or, Code::PredicateOr);
      case Opcode::xor_:
        return logic(Code::Xor, Code::PredicateXor);
      case Opcode::not_:
        if (inst_.type() == Type::Pred) {
          return inst_.operands.size() == 2 && to(0, 1) && from(1, Type::Pred, 1) &&
                 set(Code::PredicateNot, 1);
        }
        return is_integer(inst_.type()) && same(Code::Not, 1);
      case Opcode::shl:
        return shift(Code::Shl);
      case Opcode::shr:
        return shift(Code::Shr);
      case Opcode::min:
        return extreme(Code::Min, Code::FloatMin);
      case Opcode::max:
        return extreme(Code::Max, Code::FloatMax);
      case Opcode::neg:
        return inst_.mods.empty() &&
               (is_integer(inst_.type()) ? same(Code::Neg, 1)
                                         : inst_.type() == Type::F32 && same(Code::FloatNeg, 1));
      case Opcode::abs:
        return inst_.mods.empty() &&
               (is_integer(inst_.type()) ? same(Code::Abs, 1)
                                         : inst_.type() == Type::F32 && same(Code::FloatAbs, 1));
      case Opcode::setp:
        return compare();
      case Opcode::selp:
        return select();
      case Opcode::cvt:
        return convert();
      case Opcode::cvta:
        return inst_.has(Mod::global) && inst_.type() == Type::U64 && same(Code::Mov, 1);
      case Opcode::ld:
        return inst_.has(Mod::param) ? load_parameter() : access(false);
      case Opcode::st:
        return access(true);
      default:
        return false;
    }
  }

  bool translate_mov() {
    const Type type = inst_.type();
    if (inst_.operands.size() != 2) return false;
    const Operand& o = inst_.operands[1];
    if (is_clock(o)) return false;
    const uint32_t bits = type == Type::Pred ? 1 : ptx::bits_of(type);
    if (bits > 64 || bits == 8 || !to(0, bits)) return false;
    if (o.kind == Kind::Register || (o.kind == Kind::Immediate && bits != 1))
      return from(1, type, bits) && set(Code::Mov, bits);
    if (bits == 1 || range_.last != range_.first + 1) return false;
    // A special register or the address of a variable: a plane.
    const uint32_t plane = request_.function->code[range_.first].a;
    Source s;
    s.plane = plane;
    if (o.kind == Kind::Special && ptx::bits_of(ptx::type_of(o.special)) == bits) {
      s.kind = Source::Kind::Plane;
      s.special = o.special;
      s.component = o.component;
      op_.from.push_back(s);
      return set(Code::Mov, bits);
    }
    if (o.kind != Kind::Symbol) return false;
    for (const vgpu::ConstantPlane& c : request_.function->constants) {
      if (c.offset != plane || c.lane_bytes * 8 != bits) continue;
      s.kind = Source::Kind::Constant;
      s.bits = c.bits;
      op_.from.push_back(s);
      return set(Code::Mov, bits);
    }
    return false;
  }

  bool sum(Code integer, Code real) {
    if (is_integer(inst_.type())) return inst_.mods.empty() && same(integer, 2);
    return is_plain_float() && same(real, 2);
  }

  bool product() {
    if (!is_integer(inst_.type())) return is_plain_float() && same(Code::FloatMul, 2);
    if (inst_.mods.size() != 1) return false;
    if (inst_.has(Mod::lo)) return same(Code::MulLo, 2);
    const Type type = inst_.type();
    const uint32_t bits = ptx::bits_of(type);
    if (!inst_.has(Mod::wide) || bits == 64) return false;
    op_.from_bits = bits;
    return to(0, 2 * bits) && from(1, type, bits) && from(2, type, bits) && set(Code::MulWide, 2 * bits);
  }

  bool multiply_add() {
    if (!is_integer(inst_.type())) return is_plain_float() && inst_.has(Mod::rn) && same(Code::FloatFma, 3);
    if (inst_.mods.size() != 1) return false;
    if (inst_.has(Mod::lo)) return same(Code::MadLo, 3);
    const Type type = inst_.type();
    const uint32_t bits = ptx::bits_of(type);
    if (!inst_.has(Mod::wide) || bits != 32) return false;
    op_.from_bits = bits;
    return to(0, 64) && from(1, type, 32) && from(2, type, 32) &&
           from(3, op_.is_signed ? Type::S64 : Type::U64, 64) && set(Code::MadWide, 64);
  }

  bool logic(Code integer, Code predicate) {
    if (inst_.type() == Type::Pred)
      return inst_.operands.size() == 3 && to(0, 1) && from(1, Type::Pred, 1) && from(2, Type::Pred, 1) &&
             op_.from[0].kind == Source::Kind::Register && op_.from[1].kind == Source::Kind::Register &&
             set(predicate, 1);
    return is_integer(inst_.type()) && same(integer, 2);
  }

  bool shift(Code code) {
    const Type type = inst_.type();
    const uint32_t bits = ptx::bits_of(type);
    return is_integer(type) && to(0, bits) && from(1, type, bits) && from(2, Type::U32, 32) &&
           set(code, bits);
  }

  bool extreme(Code integer, Code real) {
    if (inst_.operands.size() != 3 || !inst_.mods.empty()) return false;
    if (is_integer(inst_.type())) return same(integer, 2);
    return inst_.type() == Type::F32 && same(real, 2);
  }

  bool compare() {
    const Type type = inst_.type();
    const bool is_float = type == Type::F32 || type == Type::F64;
    if (inst_.mods.size() != 1 || inst_.operands.size() != 3 || (!is_integer(type) && !is_float))
      return false;
    const uint32_t bits = ptx::bits_of(type);
    op_.compare = inst_.mods[0];
    return to(0, 1) && from(1, type, bits) && from(2, type, bits) &&
           set(is_float ? Code::FloatCompare : Code::Compare, bits);
  }

  bool select() {
    const Type type = inst_.type();
    const uint32_t bits = ptx::bits_of(type);
    if (bits < 16 || bits > 64) return false;
    return to(0, bits) && from(1, type, bits) && from(2, type, bits) && from(3, Type::Pred, 1) &&
           op_.from[2].kind == Source::Kind::Register && set(Code::Select, bits);
  }

  bool convert() {
    const Type d = inst_.type(0), s = inst_.type(1);
    if (inst_.operands.size() != 2 || inst_.operands[1].kind != Kind::Register) return false;
    const uint32_t bits = ptx::bits_of(d), from_bits = ptx::bits_of(s);
    op_.from_bits = from_bits;
    op_.is_signed = ptx::kind_of(s) == TypeKind::Signed;
    if (d == Type::F32 && is_integer(s) && from_bits == 32)
      return inst_.mods.size() == 1 && inst_.has(Mod::rn) && to(0, 32) && from(1, s, 32) &&
             set(Code::FloatFromInteger, 32);
    if (d == Type::F32 && s == Type::F32)
      return inst_.mods.size() == 1 && inst_.has(Mod::sat) && to(0, 32) && from(1, s, 32) &&
             set(Code::FloatSaturate, 32);
    if (!is_integer(d) || !is_integer(s) || !inst_.mods.empty()) return false;
    return to(0, bits) && from(1, s, from_bits) && set(Code::Extend, bits);
  }

  const vgpu::Inst* only_inst() const {
    return range_.last == range_.first + 1 ? &request_.function->code[range_.first] : nullptr;
  }

  bool load_parameter() {
    const vgpu::Inst* inst = only_inst();
    if (!inst || inst_.operands.at(1).base == Operand::Base::Register) return false;
    const auto& form = *static_cast<const vgpu::MemoryForm*>(inst->extra);
    if (!form.kernel_parameter || form.count != 1 || form.kind != vgpu::AccessKind::Load) return false;
    const uint32_t bits = form.register_bytes[0] * 8;
    const auto at = static_cast<uint64_t>(inst->imm);
    if (at % form.bytes != 0 || at + form.bytes > request_.function->parameter_bytes || form.bytes > 8)
      return false;
    op_.element_bytes = form.element_bytes;
    op_.is_signed = form.sign_extend;
    op_.offset = inst->imm;
    return to(0, bits) && set(Code::LoadParameter, bits);
  }

  bool access(bool store) {
    using ptx::Space;
    const vgpu::Inst* inst = only_inst();
    if (!inst || orders(inst_)) return false;
    const Operand& place = inst_.operands.at(store ? 0 : 1);
    const Operand& value = inst_.operands.at(store ? 1 : 0);
    const auto& form = *static_cast<const vgpu::MemoryForm*>(inst->extra);
    if (form.kind != (store ? vgpu::AccessKind::Store : vgpu::AccessKind::Load) || form.poll) return false;
    const bool shared = form.space == Space::Shared;
    if (!shared && form.space != Space::Global && form.space != Space::Generic) return false;
    // A watched access is reported: a store with its values, as they are in one plane. What a generic address is
    // about, only the handler finds out.
    const bool in_a_plane = form.count == 1 && form.element_bytes == form.register_bytes[0];
    if (request_.watched && (form.space == Space::Generic || !(store ? in_a_plane : form.may_wait)))
      return false;
    op_.shared = shared;
    op_.site = form.site;
    op_.may_wait = form.may_wait;
    op_.element_bytes = form.element_bytes;
    op_.is_signed = form.sign_extend;
    op_.offset = inst->imm;
    op_.address_bits = form.base_bytes * 8u;
    if (place.base == Operand::Base::Register) {
      op_.address.kind = Source::Kind::Register;
      op_.address.reg = place.index;
    }
    const uint32_t bits = form.register_bytes[0] * 8u;
    if (bits > 64 || (form.count > 1 && form.element_bytes * 8u != bits)) return false;
    if (form.count != 1 && form.count != 2 && form.count != 4) return false;
    for (uint32_t e = 0; e < form.count; ++e) {
      const Operand& one = value.kind == Kind::Vector ? value.elements.at(e) : value;
      if (form.register_bytes[e] * 8u != bits) return false;
      Source s;
      if (store) {
        if (!source(one, inst_.type(), bits, s)) return false;
        op_.from.push_back(s);
      } else if (one.kind == Kind::Register && lane_bits(function_.registers.at(one.index).type) == bits) {
        op_.to.push_back(one.index);
      } else {
        return false;
      }
    }
    return set(store ? Code::Store : Code::Load, bits);
  }
};

}  // namespace

std::vector<InstRange> ranges_of(const vgpu::CompileRequest& request) {
  const vgpu::Function& function = *request.function;
  std::vector<InstRange> ranges(function.ptx->body.size());
  std::vector<bool> seen(ranges.size());
  for (uint32_t i = 0; i < function.code.size(); ++i) {
    const uint32_t source = function.code[i].source;
    if (source >= ranges.size()) continue;
    InstRange& range = ranges[source];
    if (!seen[source] && request.interpreted[i] == request.program->engine->join) {
      range.has_join = true;
      range.first = range.last = i + 1;
    } else if (!seen[source] && !range.has_join) {
      range.first = i;
    }
    seen[source] = true;
    range.last = i + 1;
  }
  return ranges;
}

Operation operation_of(const vgpu::CompileRequest& request, const ptx::Instruction& inst,
                       const InstRange& range) {
  return Translator(request, inst, range).run();
}

}  // namespace assay::compiler
