#include "prove/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "prove/calls.h"

namespace assay::prove {

using ptx::Opcode;

namespace {

bool ends_block(Opcode opcode) {
  return opcode == Opcode::bra || opcode == Opcode::ret || opcode == Opcode::exit || opcode == Opcode::trap;
}

Result<void> supported(const ptx::Module& module, const ptx::Function& function) {
  for (const ptx::Instruction& instruction : function.body) {
    if (instruction.opcode == Opcode::brx_idx) return Error{"it has an indirect branch"};
    if (instruction.opcode == Opcode::call && !calls_a_computation(module, instruction))
      return Error{"it calls a function that was not inlined"};
  }
  return {};
}

void make_blocks(const ptx::Function& function, Graph& graph) {
  const auto size = static_cast<uint32_t>(function.body.size());
  std::set<uint32_t> starts = {0};
  for (uint32_t i = 0; i < size; ++i) {
    const ptx::Instruction& instruction = function.body[i];
    if (!ends_block(instruction.opcode)) continue;
    starts.insert(i + 1);
    if (instruction.opcode == Opcode::bra) starts.insert(instruction.operands.back().index);
  }
  starts.erase(size);
  std::vector<uint32_t> block_at(size + 1, ptx::kNone);
  for (auto at = starts.begin(); at != starts.end(); ++at) {
    block_at[*at] = static_cast<uint32_t>(graph.blocks.size());
    graph.blocks.push_back({*at, std::next(at) == starts.end() ? size : *std::next(at), {}});
  }
  for (Block& block : graph.blocks) {
    if (block.end == block.first) continue;
    const ptx::Instruction& last = function.body[block.end - 1];
    const auto go = [&](uint32_t instruction) {
      if (instruction < size) block.next.push_back(block_at[instruction]);
    };
    if (last.opcode == Opcode::bra) go(last.operands.back().index);
    if (!ends_block(last.opcode) || last.guard != ptx::kNone) go(block.end);
  }
}

void order_blocks(Graph& graph) {
  std::vector<bool> seen(graph.blocks.size(), false);
  std::vector<std::pair<uint32_t, size_t>> stack = {{0, 0}};
  seen[0] = true;
  while (!stack.empty()) {
    auto& [block, at] = stack.back();
    if (at < graph.blocks[block].next.size()) {
      const uint32_t to = graph.blocks[block].next[at++];
      if (!seen[to]) {
        seen[to] = true;
        stack.emplace_back(to, 0);
      }
      continue;
    }
    graph.order.push_back(block);
    stack.pop_back();
  }
  std::reverse(graph.order.begin(), graph.order.end());
}

std::vector<std::vector<uint32_t>> predecessors(const Graph& graph) {
  std::vector<std::vector<uint32_t>> before(graph.blocks.size());
  for (const uint32_t block : graph.order)
    for (const uint32_t to : graph.blocks[block].next) before[to].push_back(block);
  return before;
}

void find_dominators(Graph& graph, const std::vector<std::vector<uint32_t>>& before) {
  std::vector<uint32_t> all = graph.order;
  std::sort(all.begin(), all.end());
  graph.dominators.assign(graph.blocks.size(), {});
  for (const uint32_t block : graph.order) graph.dominators[block] = all;
  graph.dominators[graph.order.front()] = {graph.order.front()};
  for (bool changed = true; changed;) {
    changed = false;
    for (const uint32_t block : graph.order) {
      if (block == graph.order.front()) continue;
      std::vector<uint32_t> common = all;
      for (const uint32_t from : before[block]) {
        std::vector<uint32_t> both;
        std::set_intersection(common.begin(), common.end(), graph.dominators[from].begin(),
                              graph.dominators[from].end(), std::back_inserter(both));
        common = std::move(both);
      }
      if (!std::binary_search(common.begin(), common.end(), block))
        common.insert(std::lower_bound(common.begin(), common.end(), block), block);
      changed |= common != graph.dominators[block];
      graph.dominators[block] = std::move(common);
    }
  }
}

// An edge to a dominator closes a natural loop; any other edge backwards in the order is of a cycle with two
// entries.
Result<void> find_loops(Graph& graph, const std::vector<std::vector<uint32_t>>& before) {
  std::vector<size_t> position(graph.blocks.size(), 0);
  for (size_t i = 0; i < graph.order.size(); ++i) position[graph.order[i]] = i;
  std::vector<std::set<uint32_t>> found(graph.blocks.size());
  for (const uint32_t block : graph.order) {
    for (const uint32_t head : graph.blocks[block].next) {
      if (!graph.dominates(head, block)) {
        if (position[head] <= position[block]) return Error{"it has a cycle with two entries"};
        continue;
      }
      std::set<uint32_t>& loop = found[head];
      loop.insert(head);
      std::vector<uint32_t> open = {block};
      while (!open.empty()) {
        const uint32_t at = open.back();
        open.pop_back();
        if (!loop.insert(at).second) continue;
        open.insert(open.end(), before[at].begin(), before[at].end());
      }
    }
  }
  for (const auto& loop : found) graph.loops.emplace_back(loop.begin(), loop.end());
  return {};
}

}  // namespace

bool Graph::dominates(uint32_t a, uint32_t b) const {
  return std::binary_search(dominators[b].begin(), dominators[b].end(), a);
}

uint32_t Graph::block_of(uint32_t instruction) const {
  return static_cast<uint32_t>(std::find_if(blocks.begin(), blocks.end(),
                                            [&](const Block& block) {
                                              return instruction >= block.first && instruction < block.end;
                                            }) -
                               blocks.begin());
}

bool Graph::is_in_loop(uint32_t instruction) const {
  const uint32_t block = block_of(instruction);
  return std::any_of(loops.begin(), loops.end(), [&](const std::vector<uint32_t>& loop) {
    return std::binary_search(loop.begin(), loop.end(), block);
  });
}

bool Graph::reaches(uint32_t from, uint32_t to, const std::set<uint32_t>& stops) const {
  if (order.empty()) return false;
  std::set<uint32_t> seen;  // blocks entered at their beginning
  std::vector<std::pair<uint32_t, uint32_t>> open;
  if (from == ptx::kNone)
    open.emplace_back(order.front(), blocks[order.front()].first);
  else
    open.emplace_back(block_of(from), from + 1);
  while (!open.empty()) {
    const auto [block, first] = open.back();
    open.pop_back();
    bool stopped = false;
    for (uint32_t i = first; i < blocks[block].end && !stopped; ++i) {
      if (i == to) return true;
      stopped = stops.contains(i);
    }
    if (stopped) continue;
    for (const uint32_t next : blocks[block].next)
      if (seen.insert(next).second) open.emplace_back(next, blocks[next].first);
  }
  return false;
}

Result<Graph> graph_of(const ptx::Module& module, const ptx::Function& function) {
  if (function.body.empty()) return Graph{};
  if (auto fine = supported(module, function); !fine) return fine.error();
  Graph graph;
  make_blocks(function, graph);
  order_blocks(graph);
  const auto before = predecessors(graph);
  find_dominators(graph, before);
  if (auto fine = find_loops(graph, before); !fine) return fine.error();
  return graph;
}

}  // namespace assay::prove
