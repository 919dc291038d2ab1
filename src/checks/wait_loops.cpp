#include "checks/wait_loops.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace assay::checks {

namespace {

using ptx::Opcode;
using Kind = ptx::Operand::Kind;
using Flags = std::vector<bool>;  // by register, or by position in the body

template <class F>
void each_register(const ptx::Operand& operand, F&& f) {
  if (operand.index != ptx::kNone && (operand.kind == Kind::Register || operand.kind == Kind::Address))
    f(operand.index);
  if (operand.kind == Kind::Register && operand.pair != ptx::kNone) f(operand.pair);
  for (const ptx::Operand& element : operand.elements) each_register(element, f);
}

bool is_store(const ptx::Instruction& inst) {
  return inst.opcode == Opcode::st || inst.opcode == Opcode::red;
}

bool uses(const ptx::Instruction& inst, const Flags& values, size_t first) {
  bool found = false;
  for (size_t o = first; o < inst.operands.size(); ++o)
    each_register(inst.operands[o], [&](uint32_t r) { found |= values[r]; });
  return found;
}

// The registers whose values come from what the load reads, through arithmetic and comparisons.
Flags values_of(const ptx::Function& function, uint32_t load) {
  Flags values(function.registers.size(), false);
  each_register(function.body[load].operands[0], [&](uint32_t r) { values[r] = true; });
  for (bool grown = true; grown;) {
    grown = false;
    for (const ptx::Instruction& inst : function.body) {
      if (inst.operands.empty() || is_store(inst) || !uses(inst, values, 1)) continue;
      each_register(inst.operands[0], [&](uint32_t r) {
        grown |= !values[r];
        values[r] = true;
      });
    }
  }
  return values;
}

std::vector<uint32_t> successors(const ptx::Function& function, uint32_t at) {
  const ptx::Instruction& inst = function.body[at];
  std::vector<uint32_t> next;
  for (const ptx::Operand& operand : inst.operands) {
    if (operand.kind == Kind::Label) next.push_back(operand.index);
    if (operand.symbol.kind == ptx::SymbolRef::Kind::TargetList && inst.opcode == Opcode::brx_idx)
      for (const uint32_t target : function.target_lists.at(operand.symbol.index).targets)
        next.push_back(target);
  }
  const bool leaves = inst.opcode == Opcode::bra || inst.opcode == Opcode::brx_idx ||
                      inst.opcode == Opcode::ret || inst.opcode == Opcode::exit;
  if (!leaves || inst.guard != ptx::kNone) next.push_back(at + 1);
  return next;
}

// The loop that the jump from `jump` back to `head` closes: what can get there without passing the head. Nothing
// where it can be entered elsewhere.
std::optional<Flags> loop_of(const std::vector<std::vector<uint32_t>>& before, uint32_t jump, uint32_t head) {
  Flags body(before.size(), false);
  body[head] = true;
  std::vector<uint32_t> open{jump};
  while (!open.empty()) {
    const uint32_t at = open.back();
    open.pop_back();
    if (body[at]) continue;
    if (at == 0) return std::nullopt;
    body[at] = true;
    open.insert(open.end(), before[at].begin(), before[at].end());
  }
  return body;
}

}  // namespace

bool is_awaited(const ptx::Function& function, uint32_t load) {
  const auto size = static_cast<uint32_t>(function.body.size());
  if (load >= size || function.body[load].operands.empty()) return false;
  std::vector<std::vector<uint32_t>> after(size), before(size);
  for (uint32_t i = 0; i < size; ++i) {
    after[i] = successors(function, i);
    std::erase_if(after[i], [&](uint32_t s) { return s >= size; });
    for (const uint32_t s : after[i]) before[s].push_back(i);
  }
  Flags loop;
  ptrdiff_t smallest = 0;
  for (uint32_t i = load; i < size; ++i) {
    for (const uint32_t head : after[i]) {
      if (head > i || head > load) continue;
      std::optional<Flags> found = loop_of(before, i, head);
      if (!found || !(*found)[load]) continue;
      const ptrdiff_t count = std::count(found->begin(), found->end(), true);
      if (!loop.empty() && count >= smallest) continue;
      smallest = count;
      loop = std::move(*found);
    }
  }
  if (loop.empty()) return false;
  const Flags values = values_of(function, load);
  bool decides = false;
  for (uint32_t i = 0; i < size; ++i) {
    if (!loop[i]) continue;
    const ptx::Instruction& inst = function.body[i];
    if (is_store(inst) && inst.operands.size() > 1 && uses(inst, values, 1)) return false;
    if (inst.guard == ptx::kNone || !values[inst.guard]) continue;
    decides |= std::any_of(after[i].begin(), after[i].end(), [&](uint32_t s) { return !loop[s]; }) ||
               inst.opcode == Opcode::ret || inst.opcode == Opcode::exit;
  }
  return decides;
}

}  // namespace assay::checks
