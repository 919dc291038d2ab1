#include "prove/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lint/flow.h"
#include "prove/loop_registers.h"
#include "prove/machine.h"

namespace assay::prove {

namespace {

// Where control goes, under what conditions, with what in the registers.
struct Edge {
  uint32_t to = 0;
  State state;
};

class Executor {
 public:
  Executor(Machine& machine, const ptx::Function& kernel, const Graph& graph)
      : machine_(machine),
        terms_(machine.terms()),
        kernel_(kernel),
        graph_(graph),
        flow_(kernel),
        registers_(machine.terms()) {}

  void run() {
    if (graph_.order.empty()) return;
    State start;
    start.registers.assign(kernel_.registers.size(), kNoTerm);
    start.path = machine_.entry_path();
    region(graph_.order.front(), graph_.order, std::move(start));
  }

 private:
  struct Exits {
    std::vector<Edge> out;    // to blocks outside
    std::vector<State> back;  // to the head
  };

  // Runs the blocks of a region once. Inner loops are run by `loop`, as a whole.
  Exits region(uint32_t head, const std::vector<uint32_t>& members, State start) {
    const std::set<uint32_t> inside(members.begin(), members.end());
    std::map<uint32_t, std::vector<State>> incoming;
    incoming[head].push_back(std::move(start));
    Exits exits;
    std::map<uint32_t, Path> controls;  // of the blocks so far
    bool first = true;
    for (const uint32_t block : graph_.order) {
      const auto found = incoming.find(block);
      if (found == incoming.end()) continue;
      const bool ways_meet = found->second.size() > 1;
      State state = merge(std::move(found->second));
      incoming.erase(found);
      if (ways_meet)
        if (const auto fork = certain_from(block, head, inside, controls)) state.control = controls.at(*fork);
      controls[block] = state.control;
      const bool whole = graph_.is_head(block) && !(first && block == head && loop_head_ == head);
      std::vector<Edge> edges = whole ? loop(block, std::move(state)) : run_block(block, std::move(state));
      first = false;
      for (Edge& edge : edges) {
        if (edge.to == head && loop_head_ == head)
          exits.back.push_back(std::move(edge.state));
        else if (inside.contains(edge.to))
          incoming[edge.to].push_back(std::move(edge.state));
        else
          exits.out.push_back(std::move(edge));
      }
    }
    return exits;
  }

  // The block where the ways that meet in `block` have parted, if all ways from there lead to it: then nothing decides in between,
  // apart from whether inner loops end. A way that leaves the region, ends the thread or begins the next iteration does not lead
  // there. `controls` has the blocks of the region that stand before it, inner loops by their heads.
  std::optional<uint32_t> certain_from(uint32_t block, uint32_t head, const std::set<uint32_t>& inside,
                                       const std::map<uint32_t, Path>& controls) const {
    std::optional<uint32_t> fork;
    for (const uint32_t one : graph_.dominators[block])
      if (one != block && controls.contains(one) && (!fork || graph_.dominates(*fork, one))) fork = one;
    if (!fork) return std::nullopt;
    std::set<uint32_t> seen = {*fork};
    std::vector<uint32_t> open = {*fork};
    while (!open.empty()) {
      const uint32_t one = open.back();
      open.pop_back();
      if (may_end_in(one)) return std::nullopt;
      for (const uint32_t next : graph_.blocks[one].next) {
        if (next == block) continue;
        if (next == head || !inside.contains(next)) return std::nullopt;
        if (seen.insert(next).second) open.push_back(next);
      }
    }
    return fork;
  }

  bool may_end_in(uint32_t block) const {
    const ptx::Opcode last = kernel_.body[graph_.blocks[block].end - 1].opcode;
    return graph_.blocks[block].next.empty() || last == ptx::Opcode::ret || last == ptx::Opcode::exit ||
           last == ptx::Opcode::trap;
  }

  std::vector<Edge> run_block(uint32_t number, State state) {
    const Block& block = graph_.blocks[number];
    for (uint32_t i = block.first; i < block.end; ++i)
      machine_.step(kernel_.body[i], flow_.defined(i), state);
    if (block.next.empty()) return {};
    const ptx::Instruction& last = kernel_.body[block.end - 1];
    const bool jumps = last.opcode == ptx::Opcode::bra;
    const bool leaves = last.opcode == ptx::Opcode::ret || last.opcode == ptx::Opcode::exit ||
                        last.opcode == ptx::Opcode::trap;
    if (last.guard == ptx::kNone || (!jumps && !leaves)) return {{block.next.front(), std::move(state)}};
    const Term taken = machine_.guard(last, state);
    std::vector<Edge> edges;
    const auto go = [&](uint32_t to, Term condition) {
      if (terms_.value(condition) == Bits{0}) return;
      State next = state;
      if (!terms_.is_constant(condition)) {
        next.path.push_back(condition);
        next.control.push_back(condition);
      }
      edges.push_back({to, std::move(next)});
    };
    if (jumps) go(block.next.front(), taken);
    if (block.next.size() > (jumps ? 1u : 0u)) go(block.next.back(), terms_.negation(taken));
    return edges;
  }

  // ---- meeting paths

  State merge(std::vector<State> states) {
    if (states.size() == 1) return std::move(states.front());
    std::vector<State> controls;
    for (const State& state : states) controls.push_back({state.control, {}, {}});
    State merged = merge_paths(std::move(states));
    merged.control = merge_paths(std::move(controls)).path;
    return merged;
  }

  State merge_paths(std::vector<State> states) {
    size_t common = 0;
    const auto agrees = [&](size_t at) {
      return std::all_of(states.begin(), states.end(), [&](const State& s) {
        return at < s.path.size() && s.path[at] == states.front().path[at];
      });
    };
    while (agrees(common)) ++common;
    Path prefix(states.front().path.begin(),
                states.front().path.begin() + static_cast<std::ptrdiff_t>(common));
    for (State& state : states)
      state.path.erase(state.path.begin(), state.path.begin() + static_cast<std::ptrdiff_t>(common));
    State merged = choose(std::move(states));
    Term condition = terms_.all(merged.path);
    merged.path = std::move(prefix);
    if (!terms_.is_constant(condition) && !terms_.always_holds(condition)) merged.path.push_back(condition);
    return merged;
  }

  // One of several states, of which a thread is in exactly one: their paths exclude each other. The paths of
  // the result have at most one element.
  State choose(std::vector<State> states) {
    if (states.size() == 1) {
      const Term condition = terms_.all(states.front().path);
      states.front().path.assign(terms_.value(condition) == Bits{1} ? 0 : 1, condition);
      return std::move(states.front());
    }
    if (const Term test = common_test(states); test != kNoTerm) return choose_by(test, std::move(states));
    State first = choose({std::move(states.front())});
    states.erase(states.begin());
    State rest = choose(std::move(states));
    const Term a = terms_.all(first.path), b = terms_.all(rest.path);
    return joined(a, terms_.either(a, b), std::move(first), std::move(rest));
  }

  // A condition with which, or with the opposite of which, every path begins.
  Term common_test(const std::vector<State>& states) {
    Term test = kNoTerm;
    for (const State& state : states) {
      if (state.path.empty()) return kNoTerm;
      if (test == kNoTerm) test = state.path.front();
      if (state.path.front() != test && state.path.front() != terms_.negation(test)) return kNoTerm;
    }
    return test;
  }

  State choose_by(Term test, std::vector<State> states) {
    std::vector<State> yes, no;
    for (State& state : states) {
      const bool holds = state.path.front() == test;
      state.path.erase(state.path.begin());
      (holds ? yes : no).push_back(std::move(state));
    }
    if (no.empty() || yes.empty()) {
      State one = choose(std::move(no.empty() ? yes : no));
      one.path = {terms_.both(no.empty() ? test : terms_.negation(test), terms_.all(one.path))};
      return one;
    }
    State a = choose(std::move(yes)), b = choose(std::move(no));
    const Term holds = terms_.ite(test, terms_.all(a.path), terms_.all(b.path));
    return joined(test, holds, std::move(a), std::move(b));
  }

  State joined(Term test, Term holds, State a, State b) {
    a.path.assign(terms_.value(holds) == Bits{1} ? 0 : 1, holds);
    for (size_t r = 0; r < a.registers.size(); ++r) {
      Term& x = a.registers[r];
      const Term y = b.registers[r];
      if (x == y) continue;
      x = x == kNoTerm || y == kNoTerm || terms_.width(x) != terms_.width(y) ? kNoTerm
                                                                             : terms_.ite(test, x, y);
    }
    return a;
  }

  // ---- loops

  std::set<uint32_t> written_in(const std::vector<uint32_t>& members) const {
    std::set<uint32_t> written;
    for (const uint32_t block : members)
      for (uint32_t i = graph_.blocks[block].first; i < graph_.blocks[block].end; ++i)
        for (const uint32_t reg : flow_.defined(i)) written.insert(reg);
    return written;
  }

  template <class Run>
  Exits quiet(Run run) {
    const bool outer = machine_.set_recording(false);
    Exits result = run();
    machine_.set_recording(outer);
    return result;
  }

  bool may_return_in(const std::vector<uint32_t>& members) const {
    return std::any_of(members.begin(), members.end(), [&](uint32_t block) { return may_end_in(block); });
  }

  Exits run_body(uint32_t head, const State& entry, const RegisterGuesses& guesses, Var count) {
    State start = entry;
    for (const auto& [reg, guess] : guesses) start.registers[reg] = guess.head;
    const uint32_t outer = std::exchange(loop_head_, head);
    machine_.enter_loop(count);
    Exits exits = region(head, graph_.loops[head], std::move(start));
    machine_.leave_loop();
    loop_head_ = outer;
    // Loops end: a loop with one way out is left by it sooner or later, whatever the condition.
    const bool one_way = !may_return_in(graph_.loops[head]) &&
                         std::all_of(exits.out.begin(), exits.out.end(),
                                     [&](const Edge& edge) { return edge.to == exits.out.front().to; });
    if (one_way)
      for (Edge& edge : exits.out) edge.state.control = entry.control;
    return exits;
  }

  // A run from a head of which nothing is known shows what the body does to each register.
  RegisterGuesses first_guesses(uint32_t head, const State& entry, const std::set<uint32_t>& written,
                                Term k) {
    const Var before = terms_.variables();
    RegisterGuesses blank;
    for (const uint32_t reg : written)
      if (entry.registers[reg] != kNoTerm)
        blank[reg].head = terms_.unknown(terms_.width(entry.registers[reg]), "head");
      else
        blank[reg].head = kNoTerm;
    const Exits exits = quiet([&] { return run_body(head, entry, blank, terms_.mentions(k).front()); });
    if (exits.back.empty()) return {};
    const State back = merge(exits.back);
    RegisterGuesses guesses;
    for (const auto& [reg, seen] : blank) {
      const Term start = entry.registers[reg], next = back.registers[reg];
      RegisterGuess guess;
      if (start != kNoTerm && next != kNoTerm && terms_.width(next) == terms_.width(start))
        guess = registers_.guess_of(start, seen.head, next, before, k);
      guesses[reg] = guess;
    }
    registers_.find_followers(guesses, blank, entry, back, before, terms_.mentions(k).front());
    registers_.find_selections(guesses, blank, entry, back, before, terms_.mentions(k).front());
    return guesses;
  }

  std::vector<Edge> loop(uint32_t head, State entry) {
    const std::set<uint32_t> written = written_in(graph_.loops[head]);
    Variable variable{fmt::format("k{}", terms_.variables()), VarKind::Count};
    variable.width = 64;
    variable.high = Int{1} << 62;  // no thread lives to see more iterations than that
    const Term k = terms_.variable(std::move(variable));
    const Var count = terms_.mentions(k).front();
    RegisterGuesses guesses = first_guesses(head, entry, written, k);
    if (guesses.empty())
      for (const uint32_t reg : written) guesses[reg] = {};
    for (bool stable = false; !stable;) {
      for (auto& [reg, guess] : guesses)
        if (guess.kind == RegisterGuess::Kind::Unknown)
          guess.head = entry.registers[reg] == kNoTerm
                           ? kNoTerm
                           : terms_.unknown(terms_.width(entry.registers[reg]), "carried");
      const Exits exits = quiet([&] { return run_body(head, entry, guesses, count); });
      if (exits.back.empty()) break;
      const State back = merge(exits.back);
      std::vector<uint32_t> wrong;
      for (const auto& [reg, guess] : guesses)
        if (!registers_.verified(guess, back.registers[reg], count, guesses)) wrong.push_back(reg);
      for (const uint32_t reg : wrong) guesses[reg] = {};
      stable = wrong.empty();
    }
    const Var before = terms_.variables();
    Exits exits = run_body(head, entry, guesses, count);
    Loop info;
    info.count = count;
    info.head = head;
    info.entry = entry.path;
    info.entered = entry.control;
    info.returns = may_return_in(graph_.loops[head]);
    for (const Edge& edge : exits.out)
      info.exits.emplace_back(edge.state.path.begin() + static_cast<std::ptrdiff_t>(entry.path.size()),
                              edge.state.path.end());
    for (const auto& [reg, guess] : guesses)
      if (guess.kind == RegisterGuess::Kind::Grows)
        info.inductions.push_back({guess.head, entry.registers[reg], guess.step});
      else if (guess.kind == RegisterGuess::Kind::Shifted)
        info.shifted.push_back(guess.head);
    if (!exits.back.empty()) {
      const State back = merge(std::move(exits.back));
      info.repeats = repeats(back, entry.path.size(), before, guesses);
      info.again.assign(back.control.begin() +
                            static_cast<std::ptrdiff_t>(std::min(entry.control.size(), back.control.size())),
                        back.control.end());
    }
    machine_.summary().loops[count] = std::move(info);
    return std::move(exits.out);
  }

  // The conditions of the back edge that speak only of k and of what was there before the loop. The others
  // speak of what one iteration alone has seen, and say nothing about the next.
  std::vector<Term> repeats(const State& back, size_t entry, Var before, const RegisterGuesses& guesses) {
    std::set<Var> own;
    for (const auto& [reg, guess] : guesses) {
      own.insert(guess.own.begin(), guess.own.end());
      if (guess.head != kNoTerm &&
          (guess.kind == RegisterGuess::Kind::Shifted || guess.kind == RegisterGuess::Kind::Unknown))
        own.insert(terms_.mentions(guess.head).front());
    }
    std::vector<Term> open(back.path.begin() + static_cast<std::ptrdiff_t>(entry), back.path.end()), kept;
    while (!open.empty()) {
      const Term term = open.back();
      open.pop_back();
      if (terms_[term].op == Op::Both) {
        open.push_back(terms_[term].a);
        open.push_back(terms_[term].b);
        continue;
      }
      const std::vector<Var>& vars = terms_.mentions(term);
      if (std::all_of(vars.begin(), vars.end(), [&](Var v) { return v < before && !own.contains(v); }))
        kept.push_back(term);
    }
    return kept;
  }

  Machine& machine_;
  Terms& terms_;
  const ptx::Function& kernel_;
  const Graph& graph_;
  const lint::Flow flow_;
  LoopRegisters registers_;
  uint32_t loop_head_ = ptx::kNone;  // of the loop whose body runs
};

}  // namespace

Result<Summary> execute(Terms& terms, Dims& dims, const ptx::Module& module, const ptx::Function& kernel,
                        const Launch& launch, const std::vector<std::string>& written) {
  const auto graph = graph_of(module, kernel);
  if (!graph) return graph.error();
  Machine machine(terms, dims, module, kernel, launch, written);
  Executor(machine, kernel, *graph).run();
  machine.summary().graph = *graph;
  return std::move(machine.summary());
}

std::vector<DimLimit> limits_of(const std::vector<Condition>& when) {
  std::vector<DimLimit> limits;
  for (const Condition& condition : when)
    if (condition.kind == Condition::Kind::AtLeast || condition.kind == Condition::Kind::AtMost)
      limits.push_back({condition.dim, condition.value, condition.kind == Condition::Kind::AtMost});
  return limits;
}

Path conditions_of(Terms& terms, const Dims& dims, const std::vector<Condition>& when) {
  Path path;
  for (const Condition& condition : when) {
    // Whether an optional tensor is given is no dim: the launch's parameters say it, by a pointer or by 0.
    const Term dim = dims.term(std::string_view(condition.dim));
    if (dim == kNoTerm) continue;
    const Term value = terms.constant(static_cast<Bits>(Int{condition.value}), 64);
    if (condition.kind == Condition::Kind::AtLeast) path.push_back(terms.compare(Op::Sle, value, dim));
    if (condition.kind == Condition::Kind::AtMost) path.push_back(terms.compare(Op::Sle, dim, value));
    const Term divides = terms.compare(Op::Eq, terms.bitwise(Op::URem, dim, value), terms.constant(0, 64));
    if (condition.kind == Condition::Kind::Multiple) path.push_back(divides);
    if (condition.kind == Condition::Kind::NoMultiple) path.push_back(terms.negation(divides));
  }
  return path;
}

std::optional<Var> shifted_in(Terms& terms, const Summary& summary, Var var) {
  for (const auto& [count, loop] : summary.loops)
    if (std::find(loop.shifted.begin(), loop.shifted.end(), terms.of(var)) != loop.shifted.end())
      return count;
  return std::nullopt;
}

std::optional<Var> base_of(Terms& terms, Term address) {
  std::optional<Var> base;
  for (const auto& [leaves, by] : terms.ring(address)) {
    for (const Term leaf : leaves) {
      for (const Var var : terms.mentions(leaf)) {
        if (terms.var(var).kind != VarKind::Base) continue;
        if (base && *base != var) return std::nullopt;
        base = var;
      }
    }
  }
  return base;
}

std::vector<std::string> written_arrays(Terms& terms, const Summary& summary) {
  std::set<std::string> names;
  for (const Access& access : summary.accesses) {
    if (access.effect == Effect::Read) continue;
    for (const Var var : terms.mentions(access.address))
      if (terms.var(var).kind == VarKind::Base && summary.arrays.contains(var))
        names.insert(summary.arrays.at(var).name);
  }
  return {names.begin(), names.end()};
}

}  // namespace assay::prove
