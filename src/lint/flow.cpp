#include "lint/flow.h"

#include <algorithm>

#include "ptx/table.h"

namespace assay::lint {

using ptx::Instruction;
using ptx::Opcode;
using ptx::Operand;
using ptx::OperandKind;

namespace {

bool ends_block(Opcode opcode) {
  return opcode == Opcode::bra || opcode == Opcode::brx_idx || opcode == Opcode::ret ||
         opcode == Opcode::exit || opcode == Opcode::trap;
}

// The table calls the fragments of matrix instructions vectors, whichever way they go.
bool writes_first_vector(Opcode opcode) {
  const std::string_view name = ptx::name(opcode);
  return name == "mma" || name.starts_with("mma.") || name == "wmma.mma" || name.starts_with("wmma.load") ||
         name.starts_with("ldmatrix") || name.starts_with("wgmma.mma_async");
}

bool is_destination(const Instruction& instruction, std::size_t i) {
  const auto& patterns = ptx::rows()[instruction.form].operands;
  if (i == 0 && writes_first_vector(instruction.opcode)) return true;
  if (i >= patterns.size()) return false;
  const OperandKind kind = patterns[i].kind;
  return kind == OperandKind::Destination || kind == OperandKind::DestinationOrVector ||
         kind == OperandKind::PredicateResult;
}

void collect_definitions(const Operand& operand, std::vector<uint32_t>& to) {
  if (operand.kind == Operand::Kind::Register) to.push_back(operand.index);
  if (operand.pair != ptx::kNone) to.push_back(operand.pair);
  for (const Operand& element : operand.elements) collect_definitions(element, to);
}

void collect_uses(const Operand& operand, Role role, std::vector<Use>& to) {
  const bool address = operand.kind == Operand::Kind::Address;
  if (operand.kind == Operand::Kind::Register ||
      (address && operand.base == Operand::Base::Register && operand.index != ptx::kNone)) {
    to.push_back({operand.index, address ? Role::Address : role});
  }
  for (const Operand& element : operand.elements) collect_uses(element, address ? Role::Address : role, to);
}

}  // namespace

Flow::Flow(const ptx::Function& function) : function_(function) {
  collect();
  make_blocks();
  order_blocks();
  find_loops();
  solve();
  users_.resize(size());
  for (Index i = 0; i < size(); ++i) {
    for (const Use& use : uses_[i]) {
      if (use.role == Role::Guard) continue;
      for (const Index definition : reaching(i, use.reg)) users_[definition].push_back(i);
    }
  }
}

void Flow::collect() {
  defined_.resize(size());
  uses_.resize(size());
  definitions_.resize(function_.registers.size());
  for (Index i = 0; i < size(); ++i) {
    const Instruction& instruction = at(i);
    for (std::size_t o = 0; o < instruction.operands.size(); ++o) {
      const bool destination = is_destination(instruction, o);
      if (destination) collect_definitions(instruction.operands[o], defined_[i]);
      const bool both = ptx::name(instruction.opcode).starts_with("wgmma.mma_async");
      if (!destination || (both && o == 0)) collect_uses(instruction.operands[o], Role::Value, uses_[i]);
    }
    if (instruction.guard != ptx::kNone) uses_[i].push_back({instruction.guard, Role::Guard});
    for (const uint32_t reg : defined_[i]) definitions_[reg].push_back(i);
  }
}

void Flow::make_blocks() {
  std::vector<bool> starts(size() + 1, false);
  starts[0] = true;
  const auto mark = [&](Index i) {
    if (i <= size()) starts[i] = true;
  };
  for (const auto& [name, index] : function_.labels) mark(index);
  for (Index i = 0; i < size(); ++i) {
    if (ends_block(at(i).opcode)) mark(i + 1);
  }
  block_of_.resize(size());
  for (Index i = 0; i < size(); ++i) {
    if (starts[i]) blocks_.push_back({i, i, {}, {}});
    blocks_.back().end = i + 1;
    block_of_[i] = static_cast<uint32_t>(blocks_.size() - 1);
  }
  for (uint32_t b = 0; b < blocks_.size(); ++b) {
    const auto lead = [&](Index to) {
      if (to >= size()) return;
      blocks_[b].next.push_back(block_of_[to]);
      blocks_[block_of_[to]].previous.push_back(b);
    };
    const Instruction& last = at(blocks_[b].end - 1);
    for (const Operand& operand : last.operands) {
      if (operand.kind == Operand::Kind::Label) lead(operand.index);
      if (last.opcode == Opcode::brx_idx && operand.symbol.kind == ptx::SymbolRef::Kind::TargetList) {
        for (const uint32_t to : function_.target_lists[operand.symbol.index].targets) lead(to);
      }
    }
    if (!ends_block(last.opcode) || last.guard != ptx::kNone) lead(blocks_[b].end);
  }
}

void Flow::order_blocks() {
  order_.assign(blocks_.size(), -1);
  if (blocks_.empty()) return;
  std::vector<uint32_t> post;
  std::vector<uint8_t> seen(blocks_.size(), 0);
  std::vector<std::pair<uint32_t, std::size_t>> stack = {{0, 0}};
  seen[0] = 1;
  while (!stack.empty()) {
    auto& [block, edge] = stack.back();
    if (edge < blocks_[block].next.size()) {
      const uint32_t to = blocks_[block].next[edge++];
      if (!seen[to]) {
        seen[to] = 1;
        stack.push_back({to, 0});
      }
    } else {
      post.push_back(block);
      stack.pop_back();
    }
  }
  sequence_.assign(post.rbegin(), post.rend());
  for (std::size_t i = 0; i < sequence_.size(); ++i) order_[sequence_[i]] = static_cast<int>(i);
}

// Dominators by iteration over reverse post-order; a back edge leads to a block that dominates its start, and
// its loop is everything that reaches the start without passing the head.
void Flow::find_loops() {
  constexpr uint32_t kUnknown = ptx::kNone;
  dominator_.assign(blocks_.size(), kUnknown);
  if (blocks_.empty()) return;
  dominator_[0] = 0;
  const auto common = [&](uint32_t a, uint32_t b) {
    while (a != b) {
      while (order_[a] > order_[b]) a = dominator_[a];
      while (order_[b] > order_[a]) b = dominator_[b];
    }
    return a;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const uint32_t block : sequence_) {
      if (block == 0) continue;
      uint32_t found = kUnknown;
      for (const uint32_t before : blocks_[block].previous) {
        if (order_[before] < 0 || dominator_[before] == kUnknown) continue;
        found = found == kUnknown ? before : common(before, found);
      }
      if (found != dominator_[block]) {
        dominator_[block] = found;
        changed = true;
      }
    }
  }
  const auto dominates = [&](uint32_t a, uint32_t b) {
    while (order_[b] > order_[a]) b = dominator_[b];
    return a == b;
  };
  for (const uint32_t tail : sequence_) {
    for (const uint32_t head : blocks_[tail].next) {
      if (!dominates(head, tail)) continue;
      Loop loop{blocks_[head].first, std::vector<bool>(blocks_.size(), false), {head}};
      loop.holds[head] = true;
      std::vector<uint32_t> work = {tail};
      while (!work.empty()) {
        const uint32_t block = work.back();
        work.pop_back();
        if (loop.holds[block] || order_[block] < 0) continue;
        loop.holds[block] = true;
        loop.members.push_back(block);
        for (const uint32_t before : blocks_[block].previous) work.push_back(before);
      }
      loops_.push_back(std::move(loop));
    }
  }
  std::stable_sort(loops_.begin(), loops_.end(),
                   [](const Loop& a, const Loop& b) { return a.members.size() < b.members.size(); });
}

const Loop* Flow::loop_around(Index i) const {
  for (const Loop& loop : loops_) {
    if (is_in(loop, i)) return &loop;
  }
  return nullptr;
}

void Flow::solve() {
  numbers_of_.resize(definitions_.size());
  number_.assign(size(), 0);
  for (Index i = 0; i < size(); ++i) {
    number_[i] = static_cast<uint32_t>(numbered_.size());
    for (const uint32_t reg : defined_[i]) {
      if (definitions_[reg].size() < 2) continue;
      numbers_of_[reg].push_back(static_cast<uint32_t>(numbered_.size()));
      numbered_.push_back({i, reg});
    }
  }
  const std::size_t words = (numbered_.size() + 63) / 64;
  reaching_in_.assign(blocks_.size(), Bits(words, 0));
  const auto through = [&](uint32_t block, Bits set) {
    for (Index i = blocks_[block].first; i < blocks_[block].end; ++i) {
      uint32_t number = number_[i];
      for (const uint32_t reg : defined_[i]) {
        if (definitions_[reg].size() < 2) continue;
        if (at(i).guard == ptx::kNone) {
          for (const uint32_t other : numbers_of_[reg]) set[other / 64] &= ~(uint64_t{1} << (other % 64));
        }
        set[number / 64] |= uint64_t{1} << (number % 64);
        ++number;
      }
    }
    return set;
  };
  for (bool changed = words > 0; changed;) {
    changed = false;
    for (const uint32_t block : sequence_) {
      const Bits out = through(block, reaching_in_[block]);
      for (const uint32_t next : blocks_[block].next) {
        Bits& in = reaching_in_[next];
        for (std::size_t w = 0; w < words; ++w) {
          changed |= (out[w] & ~in[w]) != 0;
          in[w] |= out[w];
        }
      }
    }
  }
}

std::vector<Index> Flow::reaching(Index i, uint32_t reg) const {
  const std::vector<Index>& all = definitions_[reg];
  if (all.size() < 2) return all;
  std::vector<Index> found;
  for (Index before = i; before > blocks_[block_of_[i]].first;) {
    --before;
    if (std::find(defined_[before].begin(), defined_[before].end(), reg) == defined_[before].end()) continue;
    found.push_back(before);
    if (at(before).guard == ptx::kNone) return found;
  }
  for (const uint32_t number : numbers_of_[reg]) {
    const uint64_t word = reaching_in_[block_of_[i]][number / 64];
    if (word >> (number % 64) & 1) found.push_back(numbered_[number].first);
  }
  return found;
}

std::optional<Index> Flow::source(Index i, const Operand& operand) const {
  if (operand.kind != Operand::Kind::Register) return std::nullopt;
  uint32_t reg = operand.index;
  for (int depth = 0; depth < 32; ++depth) {
    const std::vector<Index> definitions = reaching(i, reg);
    if (definitions.size() != 1) return std::nullopt;
    i = definitions.front();
    const Instruction& definition = at(i);
    const bool plain = definition.opcode == Opcode::mov && definition.operands.size() == 2 &&
                       definition.operands[0].kind == Operand::Kind::Register &&
                       definition.operands[1].kind == Operand::Kind::Register;
    if (!plain) return i;
    reg = definition.operands[1].index;
  }
  return std::nullopt;
}

std::optional<uint64_t> Flow::constant(Index i, const Operand& operand) const {
  if (operand.kind == Operand::Kind::Immediate) return operand.bits;
  const std::optional<Index> definition = source(i, operand);
  if (!definition || at(*definition).opcode != Opcode::mov) return std::nullopt;
  const Operand& moved = at(*definition).operands[1];
  if (moved.kind != Operand::Kind::Immediate) return std::nullopt;
  return moved.bits;
}

}  // namespace assay::lint
