// Floats made bf16 by cutting off their lower half: by shift, mask, permutation, or a conversion that rounds
// toward zero. Bits to which something was added first are being rounded; a masked float whose remainder is
// also taken is being split, not shortened.
#include <algorithm>

#include "lint/rules.h"

namespace assay::lint {

using ptx::Instruction;
using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

namespace {

// Whether a value is the result of arithmetic in f32, its bits unchanged.
bool is_float_value(const Flow& flow, Index i, const Operand& operand, int depth = 0) {
  if (operand.kind != Operand::Kind::Register || depth > 8) return false;
  const std::vector<Index> definitions = flow.reaching(i, operand.index);
  return !definitions.empty() && std::all_of(definitions.begin(), definitions.end(), [&](Index d) {
    const Instruction& definition = flow.at(d);
    if (definition.opcode == Opcode::mov) {
      return definition.operands[0].kind == Operand::Kind::Register &&
             is_float_value(flow, d, definition.operands[1], depth + 1);
    }
    if (definition.opcode == Opcode::selp) {
      return is_float_value(flow, d, definition.operands[1], depth + 1) &&
             is_float_value(flow, d, definition.operands[2], depth + 1);
    }
    if (definition.opcode == Opcode::setp || definition.opcode == Opcode::set) return false;
    // The bf16 that was made an f32 has nothing to lose.
    if (definition.opcode == Opcode::cvt && is_narrow(definition.type(1))) return false;
    return definition.type() == Type::F32;
  });
}

// Whether the result ends as a number: stored, converted, or computed with.
bool becomes_number(const Flow& flow, Index i, int depth = 0) {
  if (depth > 6) return false;
  return std::any_of(flow.users(i).begin(), flow.users(i).end(), [&](Index user) {
    const Instruction& instruction = flow.at(user);
    switch (instruction.opcode) {
      case Opcode::st:
      case Opcode::atom:
      case Opcode::red:
        return true;
      case Opcode::cvt:
        if (is_narrow(instruction.type(1)) || instruction.type(1) == Type::F32) return true;
        break;
      case Opcode::mov:
      case Opcode::or_:
      case Opcode::shl:
      case Opcode::prmt:
      case Opcode::bfi:
      case Opcode::selp:
      case Opcode::shfl_sync:
        break;
      default: {
        const std::string_view name = ptx::name(instruction.opcode);
        if (name == "mma" || name == "wmma.mma") return true;
        return ptx::kind_of(instruction.type()) == ptx::TypeKind::Float && instruction.opcode != Opcode::setp;
      }
    }
    return becomes_number(flow, user, depth + 1);
  });
}

// x - (x & mask): the remainder is kept.
bool remainder_is_taken(const Flow& flow, Index mask) {
  const auto whole = flow.source(mask, flow.at(mask).operands[1]);
  std::vector<Index> work = flow.users(mask);
  for (std::size_t n = 0; n < work.size() && n < 16; ++n) {
    const Instruction& user = flow.at(work[n]);
    if (user.opcode == Opcode::mov) {
      for (const Index next : flow.users(work[n])) work.push_back(next);
    }
    if (user.opcode != Opcode::sub && user.opcode != Opcode::add && user.opcode != Opcode::fma) continue;
    for (std::size_t o = 1; o < user.operands.size(); ++o) {
      if (whole && flow.source(work[n], user.operands[o]) == whole) return true;
    }
  }
  return false;
}

// Of `mov.b32 {low, high}, x`: whether the lower half is used.
bool lower_half_is_used(const Flow& flow, Index i) {
  const Operand& low = flow.at(i).operands[0].elements[0];
  if (low.kind != Operand::Kind::Register) return false;
  return std::any_of(flow.users(i).begin(), flow.users(i).end(), [&](Index user) {
    const auto& uses = flow.uses(user);
    return std::any_of(uses.begin(), uses.end(), [&](const Use& use) { return use.reg == low.index; });
  });
}

// prmt that takes the upper two bytes of a float.
bool permutes_upper_half(const Flow& flow, Index i) {
  const Instruction& instruction = flow.at(i);
  const auto selector = flow.constant(i, instruction.operands[3]);
  if (!selector || !instruction.mods.empty()) return false;
  for (const int half : {0, 8}) {
    const auto bytes = *selector >> half & 0xff;
    if (bytes == 0x32 && is_float_value(flow, i, instruction.operands[1])) return true;
    if (bytes == 0x76 && is_float_value(flow, i, instruction.operands[2])) return true;
  }
  return false;
}

bool cuts(const Flow& flow, Index i) {
  const Instruction& instruction = flow.at(i);
  switch (instruction.opcode) {
    case Opcode::shr:
      return flow.constant(i, instruction.operands[2]) == 16 &&
             is_float_value(flow, i, instruction.operands[1]);
    case Opcode::and_:
      return (flow.constant(i, instruction.operands[2]).value_or(0) & 0xffffffff) == 0xffff0000 &&
             is_float_value(flow, i, instruction.operands[1]) && !remainder_is_taken(flow, i);
    case Opcode::prmt:
      return permutes_upper_half(flow, i);
    case Opcode::mov:
      return instruction.operands[0].kind == Operand::Kind::Vector &&
             instruction.operands[0].elements.size() == 2 && instruction.type() == Type::B32 &&
             is_float_value(flow, i, instruction.operands[1]) && !lower_half_is_used(flow, i);
    default:
      return false;
  }
}

}  // namespace

bool truncates(const Flow& flow, Index i) {
  const Instruction& instruction = flow.at(i);
  if (instruction.opcode == Opcode::cvt) {
    return instruction.has(Mod::rz) && is_narrow(instruction.type(0)) &&
           (instruction.type(1) == Type::F32 || instruction.type(1) == Type::F64);
  }
  return cuts(flow, i) && becomes_number(flow, i);
}

void find_truncations(const Subject& subject, Hits& hits) {
  for (Index i = 0; i < subject.flow.size(); ++i) {
    if (!truncates(subject.flow, i)) continue;
    hits.push_back({Kind::TruncatingConversion, i,
                    "a float is narrowed by cutting off its lower bits: every result is biased toward zero, "
                    "by half a unit in the last place on average. Round to nearest (cvt.rn, "
                    "__float2bfloat16_rn)"});
  }
}

}  // namespace assay::lint
