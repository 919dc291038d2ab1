#include "shadow/flow.h"

#include "shadow/planner.h"

namespace assay::shadow {

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
