#include "checks/shared_bases.h"

#include "checks/shared_place.h"

namespace assay::checks {

namespace {

using ptx::Opcode;

bool is_load(Opcode opcode) {
  return opcode == Opcode::ld || opcode == Opcode::atom;
}

// The operand that addresses shared memory; null where the form is not one that is known.
const ptx::Operand* shared_address(const ptx::Instruction& inst) {
  const ptx::Operand* found = nullptr;
  for (const ptx::Operand& operand : inst.operands) {
    if (operand.kind != ptx::Operand::Kind::Address) continue;
    if (inst.opcode == Opcode::cp_async) return &operand;  // the first is its destination
    if (found) return nullptr;
    found = &operand;
  }
  return found;
}

}  // namespace

SharedBases::SharedBases(const vgpu::Program& program, const vgpu::Function& function)
    : code_(*function.ptx) {
  add_arrays(program.module.variables, program.variables, of_module_);
  add_arrays(code_.variables, program.function_variables.at(function.index), of_function_);
  if (arrays_.size() > 1) follow();
}

void SharedBases::add_arrays(const std::vector<ptx::Variable>& variables, const std::vector<uint64_t>& places,
                             std::vector<uint32_t>& indices) {
  for (size_t v = 0; v < variables.size(); ++v) {
    const ptx::Variable& variable = variables[v];
    const bool is_array = variable.space == ptx::Space::Shared;
    indices.push_back(is_array ? static_cast<uint32_t>(arrays_.size()) : ptx::kNone);
    if (is_array) arrays_.push_back({variable_name(variable.name), places[v], places[v] + variable.size});
  }
}

SharedBases::Base SharedBases::join(const Base& a, const Base& b) {
  if (a.kind == Base::Kind::Unset) return b;
  if (b.kind == Base::Kind::Unset || a == b) return a;
  return {Base::Kind::Unknown};
}

SharedBases::Base SharedBases::sum(const Base& a, const Base& b) {
  using K = Base::Kind;
  if (a.kind == K::Unset || b.kind == K::Unset) return {};
  if (a.kind == K::Number) return b;
  return b.kind == K::Number ? a : Base{K::Unknown};
}

SharedBases::Base SharedBases::base_of(const ptx::Operand& operand) const {
  using K = Base::Kind;
  const bool by_register =
      operand.kind == ptx::Operand::Kind::Register ||
      (operand.kind == ptx::Operand::Kind::Address && operand.base == ptx::Operand::Base::Register);
  if (by_register) return operand.index < registers_.size() ? registers_[operand.index] : Base{K::Unknown};
  const auto& symbol = operand.symbol;
  const auto* indices = symbol.kind == ptx::SymbolRef::Kind::ModuleVariable     ? &of_module_
                        : symbol.kind == ptx::SymbolRef::Kind::FunctionVariable ? &of_function_
                                                                                : nullptr;
  if (indices && symbol.index < indices->size() && (*indices)[symbol.index] != ptx::kNone)
    return {K::Array, (*indices)[symbol.index]};
  if (operand.elements.empty()) return {K::Number};
  for (const ptx::Operand& element : operand.elements)
    if (base_of(element).kind != K::Number) return {K::Unknown};
  return {K::Number};
}

SharedBases::Base SharedBases::result_of(const ptx::Instruction& inst) const {
  using K = Base::Kind;
  const auto& o = inst.operands;
  if (is_load(inst.opcode)) return {K::Number};
  switch (inst.opcode) {
    case Opcode::mov:
    case Opcode::cvta:
    case Opcode::cvt:
      if (o.size() == 2) return base_of(o[1]);
      break;
    case Opcode::add:
      if (o.size() == 3 && !inst.has(ptx::Mod::cc)) return sum(base_of(o[1]), base_of(o[2]));
      break;
    case Opcode::sub:
      if (o.size() == 3 && base_of(o[2]).kind == K::Number) return base_of(o[1]);
      break;
    case Opcode::mad:
      if (o.size() == 4 && base_of(o[1]).kind == K::Number && base_of(o[2]).kind == K::Number)
        return base_of(o[3]);
      break;
    case Opcode::selp:
      if (o.size() == 4) return join(base_of(o[1]), base_of(o[2]));
      break;
    default:
      break;
  }
  bool unset = false;
  for (size_t i = 1; i < o.size(); ++i) {
    const Base base = base_of(o[i]);
    if (base.kind == K::Array || base.kind == K::Unknown) return {K::Unknown};
    unset |= base.kind == K::Unset;
  }
  return unset ? Base{} : Base{K::Number};
}

// Every definition of a register counts, wherever it stands.
void SharedBases::follow() {
  registers_.assign(code_.registers.size(), {});
  for (bool changed = true; changed;) {
    changed = false;
    const auto define = [&](uint32_t index, const Base& base) {
      if (index >= registers_.size()) return;
      const Base now = join(registers_[index], base);
      changed |= !(now == registers_[index]);
      registers_[index] = now;
    };
    for (const ptx::Instruction& inst : code_.body) {
      if (inst.operands.empty()) continue;
      const ptx::Operand& to = inst.operands[0];
      if (to.kind == ptx::Operand::Kind::Register) define(to.index, result_of(inst));
      if (to.pair != ptx::kNone) define(to.pair, {Base::Kind::Number});
      if (to.kind != ptx::Operand::Kind::Vector && to.kind != ptx::Operand::Kind::List) continue;
      const Base base = is_load(inst.opcode) ? Base{Base::Kind::Number} : result_of(inst);
      for (const ptx::Operand& element : to.elements) define(element.index, base);
    }
  }
}

const SharedArray* SharedBases::of(const vgpu::Inst& inst) const {
  if (registers_.empty() || inst.source >= code_.body.size()) return nullptr;
  const ptx::Operand* address = shared_address(code_.body[inst.source]);
  if (!address) return nullptr;
  const Base base = base_of(*address);
  if (base.kind != Base::Kind::Array) return nullptr;
  const SharedArray& array = arrays_[base.array];
  return array.low < array.high ? &array : nullptr;  // extern arrays have no size of their own
}

const SharedArray* SharedBases::at(uint64_t address) const {
  for (const SharedArray& array : arrays_)
    if (array.holds(address)) return &array;
  return nullptr;
}

}  // namespace assay::checks
