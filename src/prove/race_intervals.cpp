#include "prove/race_intervals.h"

#include <algorithm>

namespace assay::prove {

namespace {

constexpr int kFarthest = 6;      // iterations from a barrier that are distinguished
constexpr unsigned kGroups = 16;  // groups of copies that are distinguished

using ptx::Opcode;

// Every pair of iterations that `strong` allows is allowed by `weak`, too.
bool implies(const Meeting& strong, const Meeting& weak) {
  const auto has = [](const std::set<uint32_t>& all, const std::set<uint32_t>& some) {
    return std::includes(all.begin(), all.end(), some.begin(), some.end());
  };
  return has(strong.first[0], weak.first[0]) && has(strong.first[1], weak.first[1]) &&
         std::all_of(weak.ahead.begin(), weak.ahead.end(), [&](const auto& item) {
           const auto found = strong.ahead.find(item.first);
           return found != strong.ahead.end() && found->second == item.second;
         });
}

}  // namespace

bool orders_block(const ptx::Instruction& i) {
  const bool syncs = i.opcode == Opcode::bar_sync || i.opcode == Opcode::barrier_sync;
  const bool reduces = i.opcode == Opcode::bar_red || i.opcode == Opcode::barrier_red;
  if (!syncs && !reduces) return false;
  const size_t number = reduces ? 1 : 0, most = reduces ? 3 : 1;  // with one more, some threads only
  return i.operands.size() == most && i.operands[number].kind == ptx::Operand::Kind::Immediate;
}

void keep_weakest(std::set<Meeting>& set) {
  const std::set<Meeting> all = set;
  std::erase_if(set, [&](const Meeting& one) {
    return std::any_of(all.begin(), all.end(),
                       [&](const Meeting& other) { return other != one && implies(one, other); });
  });
}

Intervals::Intervals(const Graph& graph, const ptx::Function& kernel, const std::set<uint32_t>& barriers,
                     const std::set<uint32_t>& accesses)
    : graph_(graph), kernel_(kernel), barriers_(barriers), accesses_(accesses) {
  block_of_.assign(kernel.body.size(), 0);
  for (uint32_t block = 0; block < graph.blocks.size(); ++block)
    for (uint32_t i = graph.blocks[block].first; i < graph.blocks[block].end; ++i) block_of_[i] = block;
  for (uint32_t head = 0; head < graph.loops.size(); ++head) {
    const auto& members = graph.loops[head];
    if (!members.empty()) all_heads_.push_back(head);
    const bool waits = std::any_of(barriers.begin(), barriers.end(), [&](uint32_t barrier) {
      return std::binary_search(members.begin(), members.end(), block_of_[barrier]);
    });
    if (waits) heads_.push_back(head);
  }
  follow(ptx::kNone);
  for (const uint32_t barrier : barriers)
    if (std::find(graph.order.begin(), graph.order.end(), block_of_[barrier]) != graph.order.end())
      follow(barrier);
  for (const uint32_t access : accesses)
    if (kernel.body[access].opcode == Opcode::cp_async) follow_copy(access);
}

bool Intervals::in_loop(uint32_t head, uint32_t block) const {
  return std::binary_search(graph_.loops[head].begin(), graph_.loops[head].end(), block);
}

// A loop that is entered begins with its first iteration. Its head reached from inside is the next iteration;
// beyond a few turns, and after the first iteration of a loop entered since, they are not told apart.
Intervals::Place Intervals::after(const Place& place, uint32_t from, uint32_t to,
                                  const std::vector<uint32_t>& heads) const {
  Place next;
  for (const uint32_t head : heads) {
    if (!in_loop(head, to)) continue;
    if (!in_loop(head, from)) {
      next[head] = {true, 0};
      continue;
    }
    const auto found = place.find(head);
    if (found == place.end()) continue;
    Turn turn = found->second;
    if (to == head) {
      if (turn.first || turn.from >= kFarthest) continue;
      ++turn.from;
    }
    next[head] = turn;
  }
  return next;
}

void Intervals::follow(uint32_t barrier) {
  auto& interval = intervals_[barrier];
  struct State {
    uint32_t block, at;
    Place place;
  };
  std::set<std::pair<uint32_t, Place>> seen;  // blocks entered
  std::vector<State> open;
  if (graph_.order.empty()) return;
  const bool begins = barrier == ptx::kNone;
  const uint32_t start = begins ? graph_.order.front() : block_of_[barrier];
  Place place;
  for (const uint32_t head : heads_)
    if (in_loop(head, start)) place[head] = {begins, 0};
  open.push_back({start, begins ? graph_.blocks[start].first : barrier + 1, std::move(place)});
  while (!open.empty()) {
    const State state = std::move(open.back());
    open.pop_back();
    bool stopped = false;
    for (uint32_t i = state.at; i < graph_.blocks[state.block].end && !stopped; ++i) {
      if (accesses_.contains(i)) interval[i].insert(state.place);
      // A barrier under a guard may not be passed: the interval goes on behind it.
      stopped = barriers_.contains(i) && kernel_.body[i].guard == ptx::kNone;
    }
    if (stopped) continue;
    for (const uint32_t to : graph_.blocks[state.block].next) {
      Place next = after(state.place, state.block, to, heads_);
      if (seen.emplace(to, next).second) open.push_back({to, graph_.blocks[to].first, std::move(next)});
    }
  }
}

// What a thread does from its copy on until it has waited for it. A copy belongs to the group of the next
// commit; wait_group N leaves at most the N youngest groups under way.
void Intervals::follow_copy(uint32_t async) {
  struct State {
    uint32_t block, at;
    unsigned groups;                                 // committed since, the copy's own included
    Place place;                                     // relative to the copy's iteration
    auto operator<=>(const State&) const = default;  // NOLINT(modernize-use-nullptr): the 0 is the compiler's
  };
  std::set<State> seen;
  Place start;
  for (const uint32_t head : all_heads_)
    if (in_loop(head, block_of_[async])) start[head] = {false, 0};
  std::vector<State> open = {{block_of_[async], async + 1, 0, std::move(start)}};
  while (!open.empty()) {
    State state = std::move(open.back());
    open.pop_back();
    const uint32_t block = state.block;
    bool arrived = false;
    for (uint32_t i = state.at; i < graph_.blocks[block].end && !arrived; ++i) {
      const ptx::Instruction& instruction = kernel_.body[i];
      if (accesses_.contains(i)) {
        Meeting meeting;
        for (const auto& [head, turn] : state.place) {
          if (turn.first)
            meeting.first[1].insert(head);
          else
            meeting.ahead[head] = turn.from;
        }
        during_[async][i].insert(std::move(meeting));
      }
      if (instruction.guard == ptx::kNone) {  // one that may not happen waits for nothing
        if (instruction.opcode == Opcode::cp_async_commit_group && state.groups < kGroups) ++state.groups;
        if (instruction.opcode == Opcode::cp_async_wait_all) arrived = true;
        if (instruction.opcode == Opcode::cp_async_wait_group)
          arrived = state.groups > instruction.operands.front().bits;
      }
      if (!arrived && barriers_.contains(i)) {
        Place place;  // relative to this barrier: the copy was issued so many iterations before
        for (const auto& [head, turn] : state.place)
          if (!turn.first && in_loop(head, block_of_[i])) place[head] = {false, -turn.from};
        intervals_[i][async].insert(std::move(place));
      }
    }
    if (arrived) continue;
    for (const uint32_t to : graph_.blocks[block].next) {
      State next{to, graph_.blocks[to].first, state.groups, after(state.place, block, to, all_heads_)};
      if (seen.insert(next).second) open.push_back(std::move(next));
    }
  }
}

std::set<Meeting> Intervals::meetings(uint32_t first, uint32_t second) const {
  std::set<Meeting> result;
  for (const auto& [barrier, interval] : intervals_) {
    const auto a = interval.find(first), b = interval.find(second);
    if (a == interval.end() || b == interval.end()) continue;
    for (const Place& one : a->second) {
      for (const Place& other : b->second) {
        Meeting meeting;
        for (const auto& [head, turn] : one) {
          // Both in the first iteration are in the same one.
          const auto found = other.find(head);
          if (found != other.end() && found->second.first == turn.first)
            meeting.ahead[head] = found->second.from - turn.from;
          else if (turn.first)
            meeting.first[0].insert(head);
        }
        for (const auto& [head, turn] : other)
          if (turn.first && !meeting.ahead.contains(head)) meeting.first[1].insert(head);
        result.insert(std::move(meeting));
      }
    }
  }
  keep_weakest(result);
  return result;
}

std::set<uint32_t> Intervals::begun_by(uint32_t access) const {
  std::set<uint32_t> barriers;
  for (const auto& [barrier, interval] : intervals_)
    if (interval.contains(access)) barriers.insert(barrier);
  return barriers;
}

const std::map<uint32_t, std::set<Meeting>>& Intervals::during(uint32_t async) const {
  static const std::map<uint32_t, std::set<Meeting>> kNone;
  const auto found = during_.find(async);
  return found == during_.end() ? kNone : found->second;
}

}  // namespace assay::prove
