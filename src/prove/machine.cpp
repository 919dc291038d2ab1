#include "prove/machine.h"

#include <fmt/format.h>

#include <algorithm>

#include "prove/calls.h"
#include "prove/race_intervals.h"

namespace assay::prove {

using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;
using ptx::TypeKind;

namespace {

constexpr unsigned kLanes = 32;

bool is_barrier(Opcode opcode) {
  return opcode == Opcode::bar_sync || opcode == Opcode::barrier_sync || opcode == Opcode::bar_red ||
         opcode == Opcode::barrier_red || opcode == Opcode::bar_arrive || opcode == Opcode::barrier_arrive;
}

}  // namespace

Machine::Machine(Terms& terms, Dims& dims, const ptx::Module& module, const ptx::Function& kernel,
                 const Launch& launch, const std::vector<std::string>& written)
    : terms_(terms),
      dims_(dims),
      module_(module),
      kernel_(kernel),
      launch_(launch),
      written_(written.begin(), written.end()) {
  set_up_indices();
  uint32_t at = 0;
  for (uint32_t i = 0; i < kernel.parameters.size(); ++i) {
    const ptx::Variable& parameter = kernel.parameters[i];
    const uint32_t align = std::max(1u, parameter.align);
    at = (at + align - 1) / align * align;
    parameter_offsets_[i] = at;
    at += static_cast<uint32_t>(parameter.size);
  }
}

Path Machine::entry_path() {
  return conditions_of(terms_, dims_, launch_.when);
}

// Thread and block indices below the launch's extents. An extent that the relation does not give may be any
// that the hardware takes.
void Machine::set_up_indices() {
  const auto extent = [&](const ExprPtr& expr, const std::string& name, Int most) {
    if (expr)
      if (const auto term = dims_.term(*expr)) return *term;
    Variable variable{name, VarKind::Dim};
    variable.width = 64;
    variable.low = 1;
    variable.high = most;
    return terms_.variable(std::move(variable));
  };
  const auto index = [&](const std::string& name, VarKind kind, Term below, Int most) {
    if (terms_.value(below) == Bits{1}) return terms_.constant(0, 32);
    Variable variable{name, kind};
    variable.width = 32;
    const auto known = terms_.value(below);
    variable.high = (known ? std::min(most, static_cast<Int>(*known)) : most) - 1;
    const Term term = terms_.variable(std::move(variable));
    if (!known)
      terms_.var(terms_.mentions(term).front())
          .facts.push_back(terms_.compare(Op::Ult, terms_.zext(term, 64), below));
    return term;
  };
  for (unsigned i = 0; i < 3; ++i) {
    const char axis = "xyz"[i];
    summary_.threads[i] = extent(launch_.block[i], fmt::format("ntid.{}", axis), kMostThreads[i]);
    summary_.blocks[i] = extent(launch_.grid[i], fmt::format("nctaid.{}", axis), kMostBlocks[i]);
    threads_[i] = terms_.trunc(summary_.threads[i], 32);
    blocks_[i] = terms_.trunc(summary_.blocks[i], 32);
    thread_[i] = index(fmt::format("tid.{}", axis), VarKind::Thread, summary_.threads[i], kMostThreads[i]);
    block_[i] = index(fmt::format("ctaid.{}", axis), VarKind::Block, summary_.blocks[i], kMostBlocks[i]);
    summary_.thread[i] = thread_[i];
    summary_.block[i] = block_[i];
  }
}

unsigned Machine::width_of(uint32_t reg) const {
  return ptx::bits_of(kernel_.registers[reg].type);
}

void Machine::gap(const Step& step, const std::string& why) {
  if (!recording_) return;
  std::string text = fmt::format("{} is not modelled ({})", ptx::name(step.instruction.opcode), why);
  if (std::find(summary_.gaps.begin(), summary_.gaps.end(), text) == summary_.gaps.end())
    summary_.gaps.push_back(std::move(text));
}

Term Machine::guard(const ptx::Instruction& instruction, State& state) {
  if (instruction.guard == ptx::kNone) return terms_.truth(true);
  Term& held = state.registers[instruction.guard];
  if (held == kNoTerm) held = terms_.unknown(0, "unset");
  return instruction.guard_negated ? terms_.negation(held) : held;
}

void Machine::step(const ptx::Instruction& instruction, const std::vector<uint32_t>& defined, State& state) {
  const Step step{instruction, state, guard(instruction, state), defined};
  note_meeting(step);
  note_stop(step);
  if (is_barrier(instruction.opcode)) {
    if (instruction.opcode == Opcode::bar_arrive || instruction.opcode == Opcode::barrier_arrive)
      gap(step, "named barriers that only some wait for");
    forget(step);
    note_result_of_block(step);
    return;
  }
  if (arithmetic(step) || memory(step) || exchange(step)) return;
  forget(step);
  if (instruction.opcode == Opcode::call && calls_a_computation(module_, instruction)) return;
  if (!is_pure(instruction.opcode)) gap(step, "it may touch memory");
}

// Barriers of the block, and operations of a warp that name their lanes.
void Machine::note_meeting(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  const bool of_warp = i.opcode == Opcode::shfl_sync || i.opcode == Opcode::bar_warp_sync ||
                       i.opcode == Opcode::vote_sync || i.opcode == Opcode::redux_sync ||
                       i.opcode == Opcode::match_any || i.opcode == Opcode::match_all ||
                       i.opcode == Opcode::elect_sync;
  const bool whole_warp =
      i.opcode == Opcode::mma || i.opcode == Opcode::wmma_mma || i.opcode == Opcode::ldmatrix ||
      i.opcode == Opcode::stmatrix || i.opcode == Opcode::movmatrix || i.opcode == Opcode::wmma_load_a ||
      i.opcode == Opcode::wmma_load_b || i.opcode == Opcode::wmma_load_c || i.opcode == Opcode::wmma_store_d;
  if (!recording_ || (!is_barrier(i.opcode) && !of_warp && !whole_warp)) return;
  Barrier barrier{&i, of_warp || whole_warp, kNoTerm, step.state.control, loops_};
  if (of_warp) barrier.mask = value(step, i.operands.back(), 32);
  if (whole_warp) barrier.mask = terms_.constant(~Bits{0}, 32);
  barrier.path = step.state.path;
  if (!terms_.is_constant(step.guard)) {
    barrier.control.push_back(step.guard);
    barrier.path.push_back(step.guard);
  }
  summary_.barriers.push_back(std::move(barrier));
}

// bar.red gives all threads of the block one result: what they have added up or voted. Outside of loops, where it has one value
// only. That all of them get there is what `barrier` shows, on which all that compares threads rests.
void Machine::note_result_of_block(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  if ((i.opcode != Opcode::bar_red && i.opcode != Opcode::barrier_red) || !loops_.empty() || !orders_block(i))
    return;
  for (const uint32_t reg : step.defined)
    if (const Term result = step.state.registers[reg]; terms_[result].op == Op::Var)
      terms_.var(terms_.mentions(result).front()).is_of_block = true;
}

void Machine::note_stop(const Step& step) {
  const Opcode opcode = step.instruction.opcode;
  if (!recording_ || (opcode != Opcode::trap && opcode != Opcode::brkpt)) return;
  Path path = step.state.path;
  path.push_back(step.guard);
  summary_.stops.push_back({&step.instruction, std::move(path)});
}

// ---- operands

Term Machine::special(const Operand& operand) {
  using S = ptx::SpecialRegister;
  const unsigned c = operand.component;
  if (c < 3) {
    if (operand.special == S::Tid) return thread_[c];
    if (operand.special == S::Ntid) return threads_[c];
    if (operand.special == S::Ctaid) return block_[c];
    if (operand.special == S::Nctaid) return blocks_[c];
  }
  if (operand.special == S::Laneid) {
    const Term row = terms_.add(thread_[1], terms_.mul(thread_[2], threads_[1]));
    const Term linear = terms_.add(thread_[0], terms_.mul(row, threads_[0]));
    return terms_.bitwise(Op::And, linear, terms_.constant(kLanes - 1, 32));
  }
  return terms_.unknown(ptx::bits_of(ptx::type_of(operand.special)), std::string(ptx::name(operand.special)));
}

Term Machine::value(const Step& step, const Operand& operand, unsigned width) {
  Term term = kNoTerm;
  switch (operand.kind) {
    case Operand::Kind::Register: {
      Term& held = step.state.registers[operand.index];
      if (held == kNoTerm) held = terms_.unknown(width_of(operand.index), "unset");
      term = operand.component == 0 ? held : terms_.unknown(width, "part");
      if (operand.negated) term = terms_.width(term) == 0 ? terms_.negation(term) : terms_.neg(term);
      break;
    }
    case Operand::Kind::Immediate:
      return operand.is_float && !operand.is_f32_bits ? terms_.unknown(width, "float")
                                                      : terms_.constant(operand.bits, width);
    case Operand::Kind::Special:
      term = special(operand);
      break;
    case Operand::Kind::Symbol:
      term = symbol_address(operand.symbol);
      if (term != kNoTerm)
        term = terms_.add(term, terms_.constant(static_cast<Bits>(Int{operand.offset}), 64));
      break;
    default:
      break;
  }
  if (term == kNoTerm || (terms_.width(term) == 0) != (width == 0)) return terms_.unknown(width, "operand");
  return width == 0 ? term : terms_.zext(term, width);
}

void Machine::put(const Step& step, uint32_t reg, Term value) {
  const unsigned width = width_of(reg);
  if ((terms_.width(value) == 0) != (width == 0)) value = terms_.unknown(width, "value");
  if (width != 0 && terms_.width(value) != width) value = terms_.zext(value, width);
  Term& held = step.state.registers[reg];
  if (!terms_.is_constant(step.guard)) {
    if (held == kNoTerm) held = terms_.unknown(width, "unset");
    value = terms_.ite(step.guard, value, held);
  } else if (terms_.value(step.guard) == Bits{0}) {
    return;
  }
  held = value;
}

void Machine::put(const Step& step, const Operand& operand, Term value) {
  if (operand.kind == Operand::Kind::Register) put(step, operand.index, value);
}

void Machine::forget(const Step& step) {
  const Opcode opcode = step.instruction.opcode;
  for (const uint32_t reg : step.defined) {
    Term value = terms_.unknown(width_of(reg), std::string(ptx::name(opcode)));
    // Counts of bits are at most as many as there are.
    if ((opcode == Opcode::popc || opcode == Opcode::clz) && width_of(reg) == 32)
      terms_.var(terms_.mentions(value).front()).high = step.width();
    put(step, reg, value);
  }
}

bool Machine::is_float(const Step& step) const {
  const auto& types = step.instruction.types;
  return std::any_of(types.begin(), types.end(),
                     [](Type type) { return ptx::kind_of(type) == TypeKind::Float; });
}

// ---- instructions

// False: no rule here.
bool Machine::arithmetic(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  if (i.operands.empty() || step.defined.empty()) return false;
  switch (i.opcode) {
    case Opcode::mov:
      move(step);
      return true;
    case Opcode::setp:
      compare(step);
      return true;
    case Opcode::cvt:
      convert(step);
      return true;
    case Opcode::cvta:
      convert_address(step);
      return true;
    default:
      break;
  }
  if (is_float(step) && i.opcode != Opcode::selp) return false;
  if (i.type() == Type::Pred) {
    logic_on_predicates(step);
    return true;
  }
  if (i.has(Mod::cc) || i.has(Mod::sat) || i.has(Mod::relu) ||
      i.operands[0].kind != Operand::Kind::Register || i.operands[0].pair != ptx::kNone)
    return false;
  const unsigned w = step.width();
  if (w == 0 || w > 64 || i.type() == Type::U16x2 || i.type() == Type::S16x2) return false;
  const bool sign = step.is_signed();
  const auto in = [&](size_t n) { return value(step, i.operands[n], w); };
  // Shift amounts are 32-bit numbers of their own, and those of the width or more shift everything out.
  const auto shift = [&](Op op) {
    const Term by = value(step, i.operands[2], 32);
    return terms_.bitwise(op, in(1), w >= 32 ? terms_.zext(by, w) : by);
  };
  const auto choose = [&](Op op, bool smaller) {
    const Term a = in(1), b = in(2), less = terms_.compare(op, a, b);
    return smaller ? terms_.ite(less, a, b) : terms_.ite(less, b, a);
  };
  Term result = kNoTerm;
  switch (i.opcode) {
    case Opcode::add:
      result = terms_.add(in(1), in(2));
      break;
    case Opcode::sub:
      result = terms_.sub(in(1), in(2));
      break;
    case Opcode::neg:
      result = terms_.neg(in(1));
      break;
    case Opcode::not_:
      result = terms_.complement(in(1));
      break;
    case Opcode::mul:
    case Opcode::mad:
      result = multiply(step);
      break;
    case Opcode::and_:
      result = terms_.bitwise(Op::And, in(1), in(2));
      break;
    case Opcode::or_:
      result = terms_.bitwise(Op::Or, in(1), in(2));
      break;
    case Opcode::xor_:
      result = terms_.bitwise(Op::Xor, in(1), in(2));
      break;
    case Opcode::shl:
      if (w >= 32) result = shift(Op::Shl);
      break;
    case Opcode::shr:
      if (w >= 32) result = shift(sign ? Op::AShr : Op::LShr);
      break;
    case Opcode::div:
      result = terms_.bitwise(sign ? Op::SDiv : Op::UDiv, in(1), in(2));
      break;
    case Opcode::rem:
      result = terms_.bitwise(sign ? Op::SRem : Op::URem, in(1), in(2));
      break;
    case Opcode::min:
      result = choose(sign ? Op::Slt : Op::Ult, true);
      break;
    case Opcode::max:
      result = choose(sign ? Op::Slt : Op::Ult, false);
      break;
    case Opcode::abs: {
      const Term a = in(1);
      result = terms_.ite(terms_.compare(Op::Slt, a, terms_.constant(0, w)), terms_.neg(a), a);
      break;
    }
    case Opcode::selp:
      result = terms_.ite(value(step, i.operands[3], 0), in(1), in(2));
      break;
    case Opcode::bfe: {
      const auto from = terms_.value(value(step, i.operands[2], 32)),
                 size = terms_.value(value(step, i.operands[3], 32));
      if (sign || !from || !size || *from >= w || *size == 0 || *size >= w) break;
      const Term shifted = terms_.bitwise(Op::LShr, in(1), terms_.constant(*from, w));
      result = terms_.bitwise(Op::And, shifted, terms_.constant(mask_of(static_cast<unsigned>(*size)), w));
      break;
    }
    default:
      break;
  }
  if (result == kNoTerm) return false;
  put(step, i.operands[0], result);
  return true;
}

Term Machine::multiply(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  const unsigned w = step.width();
  const bool wide = i.has(Mod::wide), high = i.has(Mod::hi), adds = i.opcode == Opcode::mad;
  if (!wide && !high) {
    const Term product = terms_.mul(value(step, i.operands[1], w), value(step, i.operands[2], w));
    return adds ? terms_.add(product, value(step, i.operands[3], w)) : product;
  }
  const auto widened = [&](size_t n) {
    const Term narrow = value(step, i.operands[n], w);
    return step.is_signed() ? terms_.sext(narrow, 2 * w) : terms_.zext(narrow, 2 * w);
  };
  Term product = terms_.mul(widened(1), widened(2));
  if (high)
    product = terms_.trunc(
        terms_.bitwise(step.is_signed() ? Op::AShr : Op::LShr, product, terms_.constant(w, 2 * w)), w);
  return adds ? terms_.add(product, value(step, i.operands[3], high ? w : 2 * w)) : product;
}

void Machine::compare(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  const unsigned w = step.width();
  Term result = kNoTerm;
  if (!is_float(step) && w != 0 && w <= 64) {
    const Term a = value(step, i.operands[1], w), b = value(step, i.operands[2], w);
    const bool sign = step.is_signed();
    const Op less = sign ? Op::Slt : Op::Ult, at_most = sign ? Op::Sle : Op::Ule;
    if (i.has(Mod::eq))
      result = terms_.compare(Op::Eq, a, b);
    else if (i.has(Mod::ne))
      result = terms_.negation(terms_.compare(Op::Eq, a, b));
    else if (i.has(Mod::lt))
      result = terms_.compare(less, a, b);
    else if (i.has(Mod::le))
      result = terms_.compare(at_most, a, b);
    else if (i.has(Mod::gt))
      result = terms_.compare(less, b, a);
    else if (i.has(Mod::ge))
      result = terms_.compare(at_most, b, a);
    else if (i.has(Mod::ls))
      result = terms_.compare(Op::Ule, a, b);
    else if (i.has(Mod::hs))
      result = terms_.compare(Op::Ule, b, a);
    else if (i.has(Mod::lo))
      result = terms_.compare(Op::Ult, a, b);
    else if (i.has(Mod::hi))
      result = terms_.compare(Op::Ult, b, a);
  }
  if (result == kNoTerm) result = terms_.unknown(0, "compared");
  Term opposite = terms_.negation(result);
  if (i.operands.size() > 3) {
    const Term other = value(step, i.operands[3], 0);
    const auto with = [&](Term term) {
      if (i.has(Mod::and_)) return terms_.both(term, other);
      if (i.has(Mod::or_)) return terms_.either(term, other);
      return i.has(Mod::xor_) ? terms_.negation(terms_.compare(Op::Eq, term, other))
                              : terms_.unknown(0, "compared");
    };
    result = with(result);
    opposite = with(opposite);
  }
  // Of a NaN neither the comparison nor its opposite need hold.
  if (is_float(step)) opposite = terms_.unknown(0, "compared");
  put(step, i.operands[0], result);
  if (i.operands[0].pair != ptx::kNone) put(step, i.operands[0].pair, opposite);
}

void Machine::logic_on_predicates(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  const auto in = [&](size_t n) { return value(step, i.operands[n], 0); };
  switch (i.opcode) {
    case Opcode::and_:
      return put(step, i.operands[0], terms_.both(in(1), in(2)));
    case Opcode::or_:
      return put(step, i.operands[0], terms_.either(in(1), in(2)));
    case Opcode::xor_:
      return put(step, i.operands[0], terms_.negation(terms_.compare(Op::Eq, in(1), in(2))));
    case Opcode::not_:
      return put(step, i.operands[0], terms_.negation(in(1)));
    default:
      forget(step);
  }
}

// Also packs {a, b} into a wider register, and takes one apart.
void Machine::move(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  const Operand &to = i.operands[0], &from = i.operands[1];
  if (to.kind == Operand::Kind::Register && from.kind == Operand::Kind::Vector) {
    const unsigned w = width_of(to.index), part = w / static_cast<unsigned>(from.elements.size());
    Term packed = terms_.constant(0, w);
    for (size_t n = 0; n < from.elements.size(); ++n)
      packed = terms_.add(packed, terms_.mul(terms_.zext(value(step, from.elements[n], part), w),
                                             terms_.constant(Bits{1} << (part * n), w)));
    return put(step, to, packed);
  }
  if (to.kind == Operand::Kind::Vector) {
    const unsigned w = step.width(), part = w / static_cast<unsigned>(to.elements.size());
    if (w == 0 || w > 128) return forget(step);
    const Term whole = value(step, from, w);
    for (size_t n = 0; n < to.elements.size(); ++n)
      put(step, to.elements[n],
          terms_.trunc(terms_.bitwise(Op::LShr, whole, terms_.constant(part * n, w)), part));
    return;
  }
  if (to.kind != Operand::Kind::Register) return forget(step);
  put(step, to, value(step, from, width_of(to.index)));
}

void Machine::convert(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  if (is_float(step) || i.types.size() != 2 || i.has(Mod::sat) ||
      i.operands[0].kind != Operand::Kind::Register)
    return forget(step);
  const unsigned to = ptx::bits_of(i.types[0]), from = ptx::bits_of(i.types[1]);
  if (to == 0 || from == 0 || to > 64 || from > 64) return forget(step);
  const Term source = terms_.trunc(value(step, i.operands[1], from), from);
  Term result =
      ptx::kind_of(i.types[1]) == TypeKind::Signed ? terms_.sext(source, to) : terms_.zext(source, to);
  // A result narrower than its register is extended by the sign of its type.
  if (ptx::kind_of(i.types[0]) == TypeKind::Signed)
    result = terms_.sext(result, width_of(i.operands[0].index));
  put(step, i.operands[0], result);
}

}  // namespace assay::prove
