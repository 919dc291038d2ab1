// Sums kept in a narrow type: around a loop, in a long unrolled chain, by atomics, in the tensor core.
//
// A loop-carried sum is a cycle in the graph of values: an edge leads from each definition to the
// instructions that it reaches. Memory closes cycles too: what a loop stores and loads again at one address,
// an address that does not change in the loop or that comes out of memory itself (the row of a token), is a
// running value. Registers that only steer (guards, addresses, predicates) are no part of a value.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "lint/rules.h"

namespace assay::lint {

using ptx::Instruction;
using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Type;

namespace {

constexpr int kLongChain = 8;  // roundings of an unrolled sum that are worth a note

bool is_matrix_product(Opcode opcode) {
  const std::string_view name = ptx::name(opcode);
  return name == "mma" || name.starts_with("mma.") || name == "wmma.mma" ||
         name.starts_with("wgmma.mma_async");
}

// fma with a constant zero added is a product.
bool adds(const Flow& flow, Index i) {
  const Instruction& instruction = flow.at(i);
  if (ptx::kind_of(instruction.type()) != ptx::TypeKind::Float) return false;
  if (is_matrix_product(instruction.opcode)) return true;
  if (instruction.opcode == Opcode::add || instruction.opcode == Opcode::sub) return true;
  if (instruction.opcode != Opcode::fma && instruction.opcode != Opcode::mad) return false;
  const auto added = flow.constant(i, instruction.operands[3]);
  return !added || (*added & 0x7fff7fff7fff7fffull) != 0;
}

bool adds_narrowly(const Flow& flow, Index i) {
  return is_narrow(flow.at(i).type()) && !is_matrix_product(flow.at(i).opcode) && adds(flow, i);
}

// A value of f32 or wider becomes narrow.
bool narrows(const Flow& flow, Index i) {
  const Instruction& instruction = flow.at(i);
  if (instruction.opcode == Opcode::cvt) {
    return is_narrow(instruction.type(0)) &&
           (instruction.type(1) == Type::F32 || instruction.type(1) == Type::F64);
  }
  return truncates(flow, i);
}

Type narrow_result(const Flow& flow, Index i) {
  return is_narrow(flow.at(i).type()) ? flow.at(i).type() : Type::BF16;
}

const Operand* address_of(const Instruction& instruction) {
  for (const Operand& operand : instruction.operands) {
    if (operand.kind == Operand::Kind::Address) return &operand;
  }
  return nullptr;
}

class ValueGraph {
 public:
  explicit ValueGraph(const Flow& flow) : flow_(flow), next_(flow.size()) {
    for (Index i = 0; i < flow.size(); ++i) {
      if (!flow.is_reachable(i)) continue;
      for (const Use& use : flow.uses(i)) {
        if (use.role != Role::Value || flow.function().registers[use.reg].type == Type::Pred) continue;
        for (const Index definition : flow.reaching(i, use.reg)) next_[definition].push_back(i);
      }
    }
    connect_memory();
  }

  const std::vector<Index>& next(Index i) const { return next_[i]; }

  // Cycles: sets of instructions that reach each other (Tarjan, without recursion).
  std::vector<std::vector<Index>> cycles() const {
    std::vector<std::vector<Index>> found;
    std::vector<int> number(next_.size(), -1), low(next_.size(), 0);
    std::vector<bool> open(next_.size(), false);
    std::vector<Index> path;
    std::vector<std::pair<Index, std::size_t>> stack;
    int counter = 0;
    for (Index root = 0; root < next_.size(); ++root) {
      if (number[root] >= 0) continue;
      stack.push_back({root, 0});
      while (!stack.empty()) {
        auto& [node, edge] = stack.back();
        if (edge == 0 && number[node] < 0) {
          number[node] = low[node] = counter++;
          path.push_back(node);
          open[node] = true;
        }
        if (edge < next_[node].size()) {
          const Index to = next_[node][edge++];
          if (number[to] < 0) {
            stack.push_back({to, 0});
          } else if (open[to]) {
            low[node] = std::min(low[node], number[to]);
          }
          continue;
        }
        const Index done = node;
        if (low[done] == number[done]) close(done, path, open, found);
        stack.pop_back();
        if (!stack.empty()) {
          low[stack.back().first] = std::min(low[stack.back().first], low[done]);
        }
      }
    }
    return found;
  }

 private:
  void close(Index root, std::vector<Index>& path, std::vector<bool>& open,
             std::vector<std::vector<Index>>& found) const {
    std::vector<Index> members;
    for (Index node = ptx::kNone; node != root;) {
      node = path.back();
      path.pop_back();
      open[node] = false;
      members.push_back(node);
    }
    const auto& out = next_[root];
    const bool own = std::find(out.begin(), out.end(), root) != out.end();
    if (members.size() > 1 || own) found.push_back(std::move(members));
  }

  // Where an access goes, as written: equal keys are one address if the same definitions reach the base.
  using Key = std::tuple<Operand::Base, uint32_t, uint32_t, int64_t>;
  static std::optional<Key> key_of(const Instruction& instruction) {
    const Operand* address = address_of(instruction);
    if (!address || address->base == Operand::Base::Immediate) return std::nullopt;
    if (address->base == Operand::Base::Register)
      return Key{address->base, address->index, 0, address->offset};
    const auto kind = static_cast<uint32_t>(address->symbol.kind);
    return Key{address->base, address->symbol.index, kind, address->offset};
  }

  bool same_base(Index a, Index b) const {
    const Operand* address = address_of(flow_.at(a));
    if (address->base != Operand::Base::Register) return true;
    std::vector<Index> from = flow_.reaching(a, address->index), to = flow_.reaching(b, address->index);
    std::sort(from.begin(), from.end());
    std::sort(to.begin(), to.end());
    return from == to;
  }

  // Whether the address an instruction uses is the same in every turn of the loop, or read from memory in it.
  bool returns_to_address(const Loop& loop, Index i) const {
    const Operand* address = address_of(flow_.at(i));
    if (address->base != Operand::Base::Register) return true;
    std::vector<Index> work = flow_.reaching(i, address->index), seen;
    bool varies = false;
    while (!work.empty()) {
      const Index definition = work.back();
      work.pop_back();
      if (!flow_.is_in(loop, definition) || std::find(seen.begin(), seen.end(), definition) != seen.end()) {
        continue;
      }
      seen.push_back(definition);
      if (flow_.at(definition).opcode == Opcode::ld) return true;
      // Defined in the loop from outside of it only is still the same in every turn.
      for (const Use& use : flow_.uses(definition)) {
        if (use.role == Role::Guard) continue;
        for (const Index before : flow_.reaching(definition, use.reg)) {
          varies |= before >= definition && flow_.is_in(loop, before);
          work.push_back(before);
        }
      }
    }
    return !varies;
  }

  void connect_memory() {
    std::map<Key, std::vector<Index>> loads;
    for (Index i = 0; i < flow_.size(); ++i) {
      if (flow_.at(i).opcode != Opcode::ld) continue;
      if (const auto key = key_of(flow_.at(i))) loads[*key].push_back(i);
    }
    for (Index store = 0; store < flow_.size(); ++store) {
      if (flow_.at(store).opcode != Opcode::st) continue;
      const auto key = key_of(flow_.at(store));
      const auto found = key ? loads.find(*key) : loads.end();
      if (found == loads.end()) continue;
      for (const Index load : found->second) {
        if (same_base(store, load)) connect(store, load);
      }
    }
  }

  // The smallest loop around both decides.
  void connect(Index store, Index load) {
    for (const Loop& loop : flow_.loops()) {
      if (!flow_.is_in(loop, store) || !flow_.is_in(loop, load)) continue;
      if (returns_to_address(loop, store)) next_[store].push_back(load);
      return;
    }
  }

  const Flow& flow_;
  std::vector<std::vector<Index>> next_;
};

std::string sum_message(Type type, bool by_swap, bool unrolled) {
  const NarrowType narrow = narrow_type(type);
  return fmt::format(
      "a {} is rounded to {} ({} bits) at every addition: its error grows with every term, and after about "
      "{} similar terms it stops growing. Keep the sum in f32 and round once, at the end",
      by_swap    ? "sum updated by compare-and-swap"
      : unrolled ? "sum in an unrolled chain"
                 : "running sum",
      narrow.name, narrow.bits, narrow.stalls_at);
}

// A chain without a loop: how many narrow additions of one source line a result went through.
class Chains {
 public:
  Chains(const Subject& subject, const ValueGraph& graph) : flow_(subject.flow), links_(flow_.size()) {
    for (Index i = 0; i < flow_.size(); ++i) {  // the text's order is one of execution outside of loops
      if (adds_narrowly(flow_, i)) {
        const uint32_t line = outermost_line(subject.module, flow_.at(i).location);
        links_[i] = {line, links_[i].line == line ? links_[i].length + 1 : 1};
      }
      for (const Index to : graph.next(i)) {
        if (to > i && links_[to].length < links_[i].length) links_[to] = links_[i];
      }
    }
  }
  bool is_long(Index i) const { return links_[i].length >= kLongChain && adds_narrowly(flow_, i); }

 private:
  struct Link {
    uint32_t line = 0;
    int length = 0;
  };

  static uint32_t outermost_line(const ptx::Module& module, uint32_t at) {
    if (at == ptx::kNone) return 0;
    while (module.locations[at].inlined_at != ptx::kNone) at = module.locations[at].inlined_at;
    return module.locations[at].line;
  }

  const Flow& flow_;
  std::vector<Link> links_;
};

}  // namespace

bool is_narrow(Type type) {
  return type == Type::F16 || type == Type::BF16 || type == Type::F16x2 || type == Type::BF16x2;
}

NarrowType narrow_type(Type type) {
  if (type == Type::F16 || type == Type::F16x2) return {"f16", 11, 2048};
  return {"bf16", 8, 256};
}

void find_sums(const Subject& subject, Hits& hits) {
  const Flow& flow = subject.flow;
  const ValueGraph graph(flow);
  std::vector<bool> told(flow.size(), false);
  for (const std::vector<Index>& cycle : graph.cycles()) {
    const bool sums = std::any_of(cycle.begin(), cycle.end(), [&](Index i) { return adds(flow, i); });
    if (!sums) continue;
    const bool by_swap = std::any_of(cycle.begin(), cycle.end(), [&](Index i) {
      return flow.at(i).opcode == Opcode::atom && flow.at(i).has(Mod::cas);
    });
    for (const Index i : cycle) {
      told[i] = true;
      if (!adds_narrowly(flow, i) && !narrows(flow, i)) continue;
      hits.push_back({Kind::NarrowSum, i, sum_message(narrow_result(flow, i), by_swap, false)});
    }
  }
  const Chains chains(subject, graph);
  for (Index i = 0; i < flow.size(); ++i) {
    if (told[i] || !chains.is_long(i)) continue;
    hits.push_back({Kind::NarrowSum, i, sum_message(narrow_result(flow, i), false, true)});
  }
}

void find_atomics(const Subject& subject, Hits& hits) {
  for (Index i = 0; i < subject.flow.size(); ++i) {
    const Instruction& instruction = subject.flow.at(i);
    const std::string_view name = ptx::name(instruction.opcode);
    const bool reduces = instruction.opcode == Opcode::atom || instruction.opcode == Opcode::red ||
                         name.starts_with("multimem.red") || name.starts_with("cp.reduce.async");
    if (!reduces || !instruction.has(Mod::add) || !is_narrow(instruction.type())) continue;
    const NarrowType narrow = narrow_type(instruction.type());
    hits.push_back({Kind::NarrowAtomic, i,
                    fmt::format("every atomic addition rounds the sum in memory to {} ({} bits): after about "
                                "{} similar terms it stops growing. Add into an f32 buffer and convert once",
                                narrow.name, narrow.bits, narrow.stalls_at)});
  }
}

void find_matrices(const Subject& subject, Hits& hits) {
  for (Index i = 0; i < subject.flow.size(); ++i) {
    const Instruction& instruction = subject.flow.at(i);
    if (!is_matrix_product(instruction.opcode) || instruction.type() != Type::F16) continue;
    hits.push_back({Kind::NarrowMma, i,
                    "the tensor core keeps its sums in f16: 11 bits, and infinity beyond 65504. Use the form "
                    "with an f32 accumulator and convert once, at the end"});
  }
}

}  // namespace assay::lint
