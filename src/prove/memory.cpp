// The instructions that touch memory, and what a loaded value may be.
#include <fmt/format.h>

#include <algorithm>

#include "prove/machine.h"
#include "prove/tensor_memory.h"

namespace assay::prove {

using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Space;

namespace {

constexpr Int kSharedWindow = Int{1} << 24;  // shared addresses of a block lie below
constexpr Int kAddresses = Int{1} << 60;     // all others far enough below 2^64 for no sum to wrap
constexpr Int kSharedStart = 128;            // the shared memory of a block begins at a multiple of this
constexpr uint32_t kMatrixRow = 16;          // bytes of a row of ldmatrix

unsigned components(const ptx::Instruction& instruction) {
  return instruction.has(Mod::v8) ? 8 : instruction.has(Mod::v4) ? 4 : instruction.has(Mod::v2) ? 2 : 1;
}

struct FragmentShape {
  Mod mod;
  unsigned m, n, k;
};
constexpr FragmentShape kFragmentShapes[] = {{Mod::m16n16k16, 16, 16, 16},
                                             {Mod::m32n8k16, 32, 8, 16},
                                             {Mod::m8n32k16, 8, 32, 16},
                                             {Mod::m16n16k8, 16, 16, 8},
                                             {Mod::m8n8k4, 8, 8, 4}};

}  // namespace

// ---- where arrays begin

Term Machine::base(const std::string& name, Space space, Term bytes, Int align,
                   const contract::TensorSpec* tensor, const std::string& view, const std::string& pointer) {
  const std::string key = name + pointer + view;
  if (const auto found = bases_.find(key); found != bases_.end()) return terms_.of(found->second);
  Variable variable{"@" + key, VarKind::Base};
  variable.width = 64;
  const bool small =
      view.empty() && (space == Space::Shared || space == Space::Local || space == Space::Const);
  variable.high = small ? kSharedWindow - align : kAddresses - align;
  variable.multiple_of = align;
  const Term term = terms_.variable(std::move(variable));
  const Var var = terms_.mentions(term).front();
  bases_[key] = var;
  summary_.arrays[var] = {name, space, bytes, tensor, var, !view.empty()};
  return term;
}

// A tensor that an output may share the memory of is where that output is; the worst case for bounds is the
// same. What has elements is not at address 0: kernels ask that of optional tensors.
//
// Allocations of the host code's own have no names but that of the function that made them. Two pointers into such memory may
// point into one allocation or into two: each begins in an array of its own, of which nothing is known but its size, and the
// arrays have one name, so that no two of them count as apart.
Term Machine::array_base(const Pointer& pointer, uint32_t parameter) {
  const std::string& name = pointer.array;
  const contract::Contract& contract = dims_.contract();
  const contract::TensorSpec* tensor = contract.tensor(name);
  if (!tensor) {
    std::optional<Term> bytes;
    const bool is_own = is_own_allocation(contract, name);
    if (is_own && pointer.bytes) bytes = dims_.term(*pointer.bytes);
    if (!is_own)
      if (auto parsed = parse_expr(contract.kernel.workspace_bytes.text())) bytes = dims_.term(**parsed);
    return base(name, Space::Global, bytes.value_or(kNoTerm), 256, nullptr, "",
                is_own ? fmt::format(" of parameter {}", parameter) : "");
  }
  const auto memory = std::make_shared<const TensorMemory>(memory_of(terms_, dims_, *tensor));
  const Term start = base(name, Space::Global, memory->bytes, tensor->align, tensor);
  const Var var = terms_.mentions(start).front();
  summary_.arrays.at(var).elements = memory;
  if (memory->never_empty) terms_.var(var).low = tensor->align;
  return start;
}

Term Machine::symbol_address(const ptx::SymbolRef& symbol) {
  const ptx::Variable* variable = nullptr;
  if (symbol.kind == ptx::SymbolRef::Kind::ModuleVariable) variable = &module_.variables[symbol.index];
  if (symbol.kind == ptx::SymbolRef::Kind::FunctionVariable) variable = &kernel_.variables[symbol.index];
  if (!variable) return kNoTerm;
  Term bytes = terms_.constant(variable->size, 64);
  std::string name = variable->name;
  if (dims_.contract().tensor(name) || name == "workspace") name += " of the module";
  if (variable->space == Space::Shared && variable->is_unsized) {
    // All unsized arrays begin where the dynamic shared memory begins.
    const auto dynamic = launch_.dynamic_shared ? dims_.term(*launch_.dynamic_shared) : std::nullopt;
    bytes = dynamic.value_or(kNoTerm);
    name = "dynamic shared memory";
  }
  Int align = std::max(1u, variable->align);
  if (variable->space == Space::Shared && is_only_shared_variable()) align = std::max(align, kSharedStart);
  return base(name, variable->space, bytes, align, nullptr);
}

// Of the module: then it begins where the shared memory of a block begins, whatever its declaration asks for.
bool Machine::is_only_shared_variable() const {
  const auto shared = [](const ptx::Variable& variable) { return variable.space == Space::Shared; };
  return std::count_if(module_.variables.begin(), module_.variables.end(), shared) +
             std::count_if(kernel_.variables.begin(), kernel_.variables.end(), shared) ==
         1;
}

// The generic address of an array elsewhere than in global memory is another number than its own address: a
// base of its own, aligned as well (the windows begin at multiples of 2^24).
Term Machine::generic_view(Var var) {
  const Array array = summary_.arrays.at(var);
  return base(array.name, array.space, array.bytes, terms_.var(var).multiple_of, array.tensor, " (generic)");
}

void Machine::convert_address(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  const unsigned w = width_of(i.operands[0].index);
  const Term from = value(step, i.operands[1], w);
  if (i.has(Mod::global)) return put(step, i.operands[0], from);
  const auto var = base_of(terms_, from);
  if (!var) return forget(step);
  const std::string generic = terms_.var(*var).name;
  const bool is_generic = generic.ends_with(" (generic)");
  if (!i.has(Mod::to) && !is_generic) {
    // cvta adds the window's beginning.
    const Term difference = terms_.sub(generic_view(*var), terms_.of(*var));
    return put(step, i.operands[0], terms_.add(from, terms_.trunc(difference, w)));
  }
  if (i.has(Mod::to) && is_generic) {
    const auto own = bases_.find(generic.substr(1, generic.size() - 1 - std::string(" (generic)").size()));
    if (own != bases_.end()) {
      const Term difference = terms_.sub(terms_.of(own->second), terms_.of(*var));
      return put(step, i.operands[0], terms_.add(from, terms_.trunc(difference, w)));
    }
  }
  forget(step);
}

// ---- accesses

Space Machine::space_of(const ptx::Instruction& i) const {
  if (i.has(Mod::global)) return Space::Global;
  if (i.has(Mod::shared) || i.has(Mod::shared_cta)) return Space::Shared;
  if (i.has(Mod::local)) return Space::Local;
  if (i.has(Mod::const_)) return Space::Const;
  if (i.has(Mod::param) || i.has(Mod::param_entry) || i.has(Mod::param_func)) return Space::Param;
  return Space::Generic;
}

// The address that an instruction of this space uses. One that is built on an array is none if the instruction looks for it in
// another space, or takes a generic address for one of its space: it may be any.
Term Machine::address(const Step& step, const Operand& operand, Space space) {
  Term at = kNoTerm;
  if (operand.base == Operand::Base::Symbol) at = symbol_address(operand.symbol);
  if (operand.base == Operand::Base::Immediate) at = terms_.constant(operand.bits, 64);
  if (operand.base == Operand::Base::Register) {
    Term& held = step.state.registers[operand.index];
    if (held == kNoTerm) held = terms_.unknown(width_of(operand.index), "unset");
    at = held;
  }
  if (at != kNoTerm)
    if (const auto base = base_of(terms_, at); base && !summary_.arrays.at(*base).is_reached_from(space))
      at = terms_.unknown(terms_.width(at), "address");
  if (at == kNoTerm) at = terms_.unknown(64, "address");
  return terms_.add(at, terms_.constant(static_cast<Bits>(Int{operand.offset}), terms_.width(at)));
}

void Machine::note(const Step& step, Effect effect, Space space, Term address, uint32_t bytes,
                   uint32_t alignment, bool exact, Term condition) {
  if (!recording_ || terms_.value(step.guard) == Bits{0}) return;
  Path path = step.state.path;
  if (!terms_.is_constant(step.guard)) path.push_back(step.guard);
  if (condition != kNoTerm && !terms_.is_constant(condition)) path.push_back(condition);
  Path control = step.state.control;
  if (!terms_.is_constant(step.guard)) control.push_back(step.guard);
  summary_.accesses.push_back({&step.instruction, effect, space, address, bytes, alignment, exact,
                               std::move(path), std::move(control), loops_});
}

bool Machine::memory(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  switch (i.opcode) {
    case Opcode::ld:
    case Opcode::ldu:
    case Opcode::st:
    case Opcode::atom:
    case Opcode::red:
      if (i.has(Mod::shared_cluster)) {
        gap(step, "shared memory of a cluster");
        forget(step);
      } else if (space_of(i) == Space::Param) {
        load_parameter(step);
      } else {
        load_store(step);
      }
      return true;
    case Opcode::cp_async:
      copy_async(step);
      return true;
    case Opcode::ldmatrix:
      matrix_rows(step);
      return true;
    case Opcode::wmma_load_a:
    case Opcode::wmma_load_b:
    case Opcode::wmma_load_c:
    case Opcode::wmma_store_d:
      fragment(step);
      return true;
    default:
      return false;
  }
}

// A number that the launch relation does not tell, such as a scalar's value: whatever it is, it is the same for all threads of
// the launch and wherever it is read, as a dim is.
Term Machine::unknown_parameter(uint32_t offset, unsigned width) {
  const auto [known, is_new] = unknown_parameters_.try_emplace({offset, width}, kNoTerm);
  if (is_new) {
    Variable variable{fmt::format("parameter{}", offset), VarKind::Dim};
    variable.width = static_cast<uint8_t>(width);
    variable.high = static_cast<Int>(mask_of(width));
    known->second = terms_.variable(std::move(variable));
  }
  return known->second;
}

void Machine::load_parameter(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  const Operand& from = i.operands.back();
  const bool known = i.opcode == Opcode::ld && from.kind == Operand::Kind::Address &&
                     from.base == Operand::Base::Symbol &&
                     from.symbol.kind == ptx::SymbolRef::Kind::Parameter;
  if (!known) {
    // Of a call: its name belongs to no memory, and the value is unknown.
    const Operand& place = i.operands[i.opcode == Opcode::ld ? 1 : 0];
    const bool by_name = place.kind == Operand::Kind::Address && place.base == Operand::Base::Symbol;
    if (i.opcode != Opcode::ld && (i.opcode != Opcode::st || !by_name)) gap(step, "parameters of a call");
    return forget(step);
  }
  const unsigned w = step.width();
  const uint32_t at = parameter_offsets_[from.symbol.index] + static_cast<uint32_t>(from.offset);
  const auto word = [&](uint32_t offset) -> Term {
    if (const auto pointer = launch_.pointers.find(offset); pointer != launch_.pointers.end() && w == 64) {
      const Term start = array_base(pointer->second, offset);
      const auto distance = pointer->second.offset ? dims_.term(*pointer->second.offset) : std::nullopt;
      return terms_.add(start, distance ? *distance : terms_.unknown(64, "offset"));
    }
    const auto& words = w == 64 ? launch_.pairs : launch_.words;
    if (const auto found = words.find(offset); found != words.end() && found->second && (w == 32 || w == 64))
      if (const auto term = dims_.term(*found->second)) return terms_.trunc(*term, w);
    return unknown_parameter(offset, w);
  };
  const Operand& to = i.operands[0];
  if (to.kind == Operand::Kind::Register) return put(step, to, word(at));
  for (size_t n = 0; n < to.elements.size(); ++n)
    put(step, to.elements[n], word(at + static_cast<uint32_t>(n) * w / 8));
}

void Machine::load_store(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  const bool loads = i.opcode == Opcode::ld || i.opcode == Opcode::ldu || i.opcode == Opcode::atom;
  const Operand& place = i.operands[loads ? 1 : 0];
  const unsigned w = step.width();
  if (place.kind != Operand::Kind::Address || w == 0) {
    gap(step, "an unusual form");
    return forget(step);
  }
  const Effect effect = i.opcode == Opcode::atom || i.opcode == Opcode::red ? Effect::Atomic
                        : loads                                             ? Effect::Read
                                                                            : Effect::Write;
  const Term at = address(step, place, space_of(i));
  const uint32_t bytes = components(i) * w / 8;
  const size_t noted = summary_.accesses.size();
  note(step, effect, space_of(i), at, bytes, bytes);
  if (summary_.accesses.size() > noted) {
    if (i.opcode == Opcode::st && i.operands[1].kind != Operand::Kind::Vector)
      summary_.accesses.back().stored = value(step, i.operands[1], w);
    if (const auto put = exchanged(step)) summary_.accesses.back().exchanged = *put;
    summary_.accesses.back().keeps = keeps_what_is_there(step);
  }
  if (!loads) return;
  const Operand& to = i.operands[0];
  if (i.opcode == Opcode::atom && draw_ticket(step, at)) return;
  if (i.opcode == Opcode::atom && keeps_what_is_there(step) && to.kind == Operand::Kind::Register) {
    const Term found = terms_.unknown(w, "found");
    note_flag(step, found, at);
    return put(step, to, found);
  }
  if (i.opcode == Opcode::atom || (to.kind != Operand::Kind::Register && to.kind != Operand::Kind::Vector))
    return forget(step);
  const auto element = [&](const Operand& operand, unsigned n) {
    if (operand.kind != Operand::Kind::Register) return;
    const Term got = loaded(at, w, n * w / 8);
    if (to.kind == Operand::Kind::Register) note_flag(step, got, at);
    const unsigned own = width_of(operand.index);
    put(step, operand, own > w && step.is_signed() ? terms_.sext(got, own) : got);
  };
  if (to.kind == Operand::Kind::Register) return element(to, 0);
  for (size_t n = 0; n < to.elements.size(); ++n) element(to.elements[n], static_cast<unsigned>(n));
}

// What an atomic exchange stores; of a compare-and-swap, what it stores if it does.
std::optional<Term> Machine::exchanged(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  if (i.opcode != Opcode::atom || i.operands.size() < 3) return std::nullopt;
  if (i.has(Mod::exch)) return value(step, i.operands[2], step.width());
  if (i.has(Mod::cas) && i.operands.size() > 3) return value(step, i.operands[3], step.width());
  return std::nullopt;
}

// atomicAdd(p, 0), atomicOr(p, 0), atomicCAS(p, c, c): loads that are atomic.
bool Machine::keeps_what_is_there(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  if (i.opcode != Opcode::atom || is_float(step) || i.operands.size() < 3) return false;
  const unsigned w = step.width();
  const auto by = terms_.value(value(step, i.operands[2], w));
  if (i.has(Mod::add) || i.has(Mod::or_) || i.has(Mod::xor_)) return by == Bits{0};
  return i.has(Mod::cas) && i.operands.size() > 3 && by && terms_.value(value(step, i.operands[3], w)) == by;
}

void Machine::note_flag(const Step& step, Term found, Term at) {
  const ptx::Instruction& i = step.instruction;
  const bool strong =
      i.opcode == Opcode::atom || i.has(Mod::volatile_) || i.has(Mod::relaxed) || i.has(Mod::acquire);
  const Space space = space_of(i);
  if (!recording_ || !strong || (space != Space::Global && space != Space::Generic) || i.has(Mod::cta) ||
      i.has(Mod::cluster) || terms_[found].op != Op::Var)
    return;
  summary_.flag_reads.push_back({&i, terms_.mentions(found).front(), at, loops_});
}

// False: it is none.
bool Machine::draw_ticket(const Step& step, Term at) {
  const ptx::Instruction& i = step.instruction;
  const unsigned w = step.width();
  const bool adds = i.has(Mod::add), increments = i.has(Mod::inc);
  if ((!adds && !increments) || is_float(step) || (w != 32 && w != 64) || i.operands.size() < 3 ||
      i.operands[0].kind != Operand::Kind::Register)
    return false;
  const Term operand = value(step, i.operands[2], w);
  const auto by = adds ? terms_.value(operand) : Bits{1};
  if (!by || signed_of(*by, w) <= 0) return false;
  const Term drawn = terms_.unknown(w, "ticket");
  put(step, i.operands[0], drawn);
  if (recording_)
    summary_.tickets.push_back(
        {&i, terms_.mentions(drawn).front(), at, signed_of(*by, w), loops_, adds ? kNoTerm : operand});
  return true;
}

// cp.async dst, src, size {, source-size}: with a source size of 0 nothing is read.
void Machine::copy_async(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  const auto size = static_cast<uint32_t>(i.operands[2].bits);
  note(step, Effect::Write, Space::Shared, address(step, i.operands[0], Space::Shared), size, size);
  Term reads = terms_.truth(true);
  bool exact = true;
  if (i.operands.size() > 3 && i.operands[3].kind == Operand::Kind::Register &&
      kernel_.registers[i.operands[3].index].type == ptx::Type::Pred) {
    reads = terms_.negation(value(step, i.operands[3], 0));  // ignore-src
  } else if (i.operands.size() > 3 && !i.has(Mod::L2_cache_hint)) {
    const Term given = value(step, i.operands[3], 32);
    reads = terms_.negation(terms_.compare(Op::Eq, given, terms_.constant(0, 32)));
    exact = false;
  }
  note(step, Effect::Read, Space::Global, address(step, i.operands[1], Space::Global), size, size, exact,
       reads);
}

// Each lane names a row. With fewer than four matrices the lanes beyond need not.
void Machine::matrix_rows(const Step& step) {
  note(step, Effect::Read, Space::Shared, address(step, step.instruction.operands[1], Space::Shared),
       kMatrixRow, kMatrixRow, step.instruction.has(Mod::x4));
  forget(step);
}

// wmma: the warp touches rows of a matrix whose rows lie `stride` elements apart; which lane touches what is
// left open by the manual, so each lane is taken to touch any row.
void Machine::fragment(const Step& step) {
  const ptx::Instruction& i = step.instruction;
  const bool stores = i.opcode == Opcode::wmma_store_d;
  const auto* shape = std::find_if(std::begin(kFragmentShapes), std::end(kFragmentShapes),
                                   [&](const FragmentShape& s) { return i.has(s.mod); });
  const unsigned element = step.width();
  if (shape == std::end(kFragmentShapes) || i.operands.size() < 3 || element < 8) {
    gap(step, "this shape");
    return forget(step);
  }
  unsigned rows = shape->m, columns = shape->n;
  if (i.opcode == Opcode::wmma_load_a) columns = shape->k;
  if (i.opcode == Opcode::wmma_load_b) rows = shape->k;
  if (i.has(Mod::col)) std::swap(rows, columns);
  Variable variable{fmt::format("row{}", terms_.variables()), VarKind::Unknown};
  variable.width = 64;
  variable.high = rows - 1;
  const Term row = terms_.variable(std::move(variable));
  const Term stride = terms_.sext(value(step, i.operands[2], 32), 64);
  const Term offset = terms_.mul(terms_.mul(row, stride), terms_.constant(element / 8, 64));
  const Term start = address(step, i.operands[stores ? 0 : 1], space_of(i));
  const uint32_t bytes = columns * element / 8;
  // PTX wants the address to be a multiple of the bytes that a lane holds; lanes hold each 16-bit element of a factor
  // twice. It wants the same of every row, but CUDA C++ (load_matrix_sync) allows strides of 16 bytes, and so do GPUs.
  const bool twice = element == 16 && (i.opcode == Opcode::wmma_load_a || i.opcode == Opcode::wmma_load_b);
  const uint32_t fragment_bytes = rows * bytes / 32 * (twice ? 2 : 1);
  const size_t noted = summary_.accesses.size();
  note(step, stores ? Effect::Write : Effect::Read, space_of(i),
       terms_.add(start, terms_.trunc(offset, terms_.width(start))), bytes, std::min(16u, fragment_bytes));
  if (summary_.accesses.size() > noted) {
    summary_.accesses.back().start = start;
    summary_.accesses.back().start_alignment = fragment_bytes;
  }
  forget(step);
}

// ---- loaded values

Term Machine::loaded(Term at, unsigned width, unsigned offset) {
  if (const auto var = base_of(terms_, at)) {
    const Array& array = summary_.arrays.at(*var);
    if (array.tensor)
      if (const auto value = from_tensor(array, at, width, offset)) return *value;
  }
  const Term value = terms_.unknown(width, "loaded");
  terms_.var(terms_.mentions(value).front()).loaded_from =
      terms_.add(at, terms_.constant(offset, terms_.width(at)));
  return value;
}

// Whether an address is the same in every iteration of every loop: no count and no other loaded value bears on it, but those
// that are the same themselves.
bool Machine::is_fixed(Term address) {
  const std::vector<Var>& vars = terms_.mentions(address);
  return std::all_of(vars.begin(), vars.end(), [&](Var v) {
    const Variable& variable = terms_.var(v);
    return variable.kind == VarKind::Unknown ? variable.is_fixed : variable.kind != VarKind::Count;
  });
}

// An element of an input whose values the contract bounds. That takes an input that nothing writes, and an
// address that is a whole number of elements past the beginning of a tensor without gaps: then, the access being within the
// tensor (which is proved of every access), what it reads is an element.
std::optional<Term> Machine::from_tensor(const Array& array, Term at, unsigned width, unsigned offset) {
  const contract::TensorSpec& tensor = *array.tensor;
  if (tensor.role != contract::Role::In || written_.contains(tensor.name)) return std::nullopt;
  // Between elements lies anything, and in a byte of two elements neither is the whole byte.
  if (!array.elements || array.elements->gaps || contract::info(tensor.dtype).bits < 8) return std::nullopt;
  const auto item = static_cast<unsigned>(contract::info(tensor.dtype).bytes);
  using contract::ValuesKind;
  const ValuesKind kind = tensor.values.kind;
  const bool bounded = kind == ValuesKind::Index || kind == ValuesKind::Tokens || kind == ValuesKind::Mask ||
                       kind == ValuesKind::Offsets || kind == ValuesKind::Integers ||
                       kind == ValuesKind::Distinct || kind == ValuesKind::Slots;
  // A mask of floating-point numbers has 1.0, whose bits are another number. What begins where an element begins and is no
  // wider holds its lowest bits.
  if (!bounded || contract::is_float(tensor.dtype) || width > 8 * item || offset % item != 0)
    return std::nullopt;
  bool from_start = false;
  for (const auto& [leaves, by] : terms_.ring(at)) {
    const bool is_base = leaves.size() == 1 && leaves.front() == terms_.of(array.base);
    if (is_base ? by != 1 : by % item != 0) return std::nullopt;
    from_start |= is_base;
  }
  if (!from_start) return std::nullopt;
  const Term from = terms_.canonical(terms_.add(at, terms_.constant(offset, terms_.width(at))));
  if (const auto known = fixed_elements_.find(from); known != fixed_elements_.end())
    return terms_.trunc(known->second, width);
  const auto bound = [&](const contract::IntExpr& expr) -> std::optional<std::pair<Term, Interval>> {
    const auto parsed = parse_expr(expr.text());
    if (!parsed) return std::nullopt;
    const auto term = dims_.term(**parsed);
    const auto range = interval(**parsed, dims_.contract());
    return term && range ? std::optional(std::pair{*term, *range}) : std::nullopt;
  };
  Variable variable{fmt::format("{}[{}]", tensor.name, terms_.variables()), VarKind::Unknown};
  variable.width = static_cast<uint8_t>(8 * item);
  variable.is_signed = contract::info(tensor.dtype).min_integer < 0;
  std::vector<Term> limits;
  const auto fits = [&](Int low, Int high) {
    const Int most = static_cast<Int>(mask_of(8 * item)) >> (variable.is_signed ? 1 : 0);
    return low >= (variable.is_signed ? -most - 1 : 0) && high <= most;
  };
  std::optional<std::pair<Term, Interval>> low, high;
  if (kind == ValuesKind::Mask) {
    variable.high = 1;
  } else if (kind == ValuesKind::Integers) {
    low = bound(tensor.values.a);
    high = bound(tensor.values.b);
    if (!low || !high || !fits(low->second.low, high->second.high)) return std::nullopt;
    variable.low = low->second.low;
    variable.high = high->second.high;
  } else {
    high = bound(tensor.values.a);
    variable.low = kind == ValuesKind::Slots ? -1 : 0;
    if (!high || !fits(variable.low, high->second.high)) return std::nullopt;
    variable.high = kind == ValuesKind::Offsets ? high->second.high : high->second.high - 1;
  }
  if (variable.high < variable.low) return std::nullopt;
  variable.is_one_of_distinct = kind == ValuesKind::Distinct || kind == ValuesKind::Slots;
  variable.is_fixed = is_fixed(from);
  const bool is_signed = variable.is_signed, fixed = variable.is_fixed;
  variable.loaded_from = terms_.add(at, terms_.constant(offset, terms_.width(at)));
  const Term element = terms_.variable(std::move(variable));
  if (fixed) fixed_elements_[from] = element;
  const Term wide = is_signed ? terms_.sext(element, 64) : terms_.zext(element, 64);
  std::vector<Term>& facts = terms_.var(terms_.mentions(element).front()).facts;
  const bool inclusive = kind == ValuesKind::Offsets || kind == ValuesKind::Integers;
  // Where the contract allows no value at all (an index into a dim of 0), the tensor has no elements, and nothing
  // is loaded; but the variable may still be spoken of, as the side of a choice that is not taken. Then its facts
  // say nothing: a false one would prove everything of that shape.
  const Term least = low ? low->first : terms_.constant(0, 64);
  const Term none =
      high ? terms_.compare(inclusive ? Op::Slt : Op::Sle, high->first, least) : terms_.truth(false);
  const auto certain = [&] {
    const Int lowest = low ? low->second.high : 0;
    return !high || (inclusive ? high->second.low >= lowest : high->second.low > lowest);
  };
  const auto state = [&](Term fact) { facts.push_back(certain() ? fact : terms_.either(none, fact)); };
  if (high) state(terms_.compare(inclusive ? Op::Sle : Op::Slt, wide, high->first));
  if (low) state(terms_.compare(Op::Sle, low->first, wide));
  return terms_.trunc(element, width);
}

}  // namespace assay::prove
