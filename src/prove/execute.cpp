#include "prove/execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lint/flow.h"
#include "prove/machine.h"

namespace assay::prove {

namespace {

constexpr size_t kMostSelected = 64;  // of values that a loop selects from

// Where control goes, under what conditions, with what in the registers.
struct Edge {
  uint32_t to = 0;
  State state;
};

class Executor {
 public:
  Executor(Machine& machine, const ptx::Function& kernel, const Graph& graph)
      : machine_(machine), terms_(machine.terms()), kernel_(kernel), graph_(graph), flow_(kernel) {}

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
    bool first = true;
    for (const uint32_t block : graph_.order) {
      const auto found = incoming.find(block);
      if (found == incoming.end()) continue;
      State state = merge(std::move(found->second));
      incoming.erase(found);
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

  // How a register that the body changes looks at the head of iteration k.
  struct Guess {
    enum class Kind : uint8_t {
      Same,
      Grows,
      Follows,
      Shifted,
      Alternates,
      Selected,
      Unknown
    } kind = Kind::Unknown;
    Term head = kNoTerm;  // its value there; Follows: some function of k
    Term step = kNoTerm;  // Grows
    Term next = kNoTerm;  // Shifted, Alternates: what the back edge must bring
    // Selected: it takes its values from these registers, itself among them, and from these offers of iteration k.
    std::set<uint32_t> among{};
    std::set<Term> offers{};
    std::vector<Var> own{};  // variables that its head brings in
  };
  using Guesses = std::map<uint32_t, Guess>;  // by register

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
    return std::any_of(members.begin(), members.end(), [&](uint32_t block) {
      const ptx::Opcode last = kernel_.body[graph_.blocks[block].end - 1].opcode;
      return last == ptx::Opcode::ret || last == ptx::Opcode::exit || last == ptx::Opcode::trap;
    });
  }

  Exits run_body(uint32_t head, const State& entry, const Guesses& guesses, Var count) {
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
  Guesses first_guesses(uint32_t head, const State& entry, const std::set<uint32_t>& written, Term k) {
    const Var before = terms_.variables();
    Guesses blank;
    for (const uint32_t reg : written)
      if (entry.registers[reg] != kNoTerm)
        blank[reg].head = terms_.unknown(terms_.width(entry.registers[reg]), "head");
      else
        blank[reg].head = kNoTerm;
    const Exits exits = quiet([&] { return run_body(head, entry, blank, terms_.mentions(k).front()); });
    if (exits.back.empty()) return {};
    const State back = merge(exits.back);
    Guesses guesses;
    for (const auto& [reg, seen] : blank) {
      const Term start = entry.registers[reg], next = back.registers[reg];
      Guess guess;
      if (start != kNoTerm && next != kNoTerm && terms_.width(next) == terms_.width(start))
        guess = guess_of(start, seen.head, next, before, k);
      guesses[reg] = guess;
    }
    find_followers(guesses, blank, entry, back, before, terms_.mentions(k).front());
    find_selections(guesses, blank, entry, back, before, terms_.mentions(k).front());
    return guesses;
  }

  // Whether a register's value at the head is a function of k and of what was there before the loop.
  static bool is_described(const Guess& guess) {
    return guess.kind == Guess::Kind::Grows || guess.kind == Guess::Kind::Follows ||
           guess.kind == Guess::Kind::Same;
  }

  // One form for terms that are equal by ring laws, inside extensions as well. A mask of 8 or 16 bits is a conversion: it is
  // how compilers write a narrow type in a wide register.
  Term settled(Term term) {
    const Ring ring = terms_.ring(term);
    const unsigned width = terms_.width(term);
    if (ring.size() == 1 && ring.begin()->first.size() == 1 && ring.begin()->second == 1) {
      const Term leaf = ring.begin()->first.front();
      const Node node = terms_[leaf];
      if (node.op == Op::ZExt) return terms_.zext(settled(node.a), width);
      if (node.op == Op::SExt) return terms_.sext(settled(node.a), width);
      for (const unsigned narrow : {8u, 16u})
        if (node.op == Op::And && narrow < width && terms_.value(node.b) == mask_of(narrow))
          return terms_.zext(terms_.canonical(terms_.trunc(settled(node.a), narrow)), width);
      return leaf;
    }
    Term sum = terms_.constant(0, width);
    for (const auto& [leaves, by] : ring) {
      Term product = terms_.constant(by, width);
      for (const Term leaf : leaves) product = terms_.mul(settled(leaf), product);
      sum = terms_.add(sum, product);
    }
    return terms_.canonical(sum);
  }

  // A register that the body computes anew from others that grow (`next = i + stride`, tested at the end) follows them: at
  // the head of iteration k it is what iteration k - 1 made of them. If that is linear in k, it grows as they do; it need not
  // be, as where the index is a counter of 32 bits, extended, that may wrap. That it began as this says for k = 0 is asked
  // here; that it goes on so is verified with the other guesses.
  void find_followers(Guesses& guesses, const Guesses& blank, const State& entry, const State& back,
                      Var before, Var count) {
    for (bool changed = true; changed;) {
      changed = false;
      std::map<Var, Term> described;
      for (const auto& [reg, seen] : blank)
        if (seen.head != kNoTerm && is_described(guesses[reg]))
          described[terms_.mentions(seen.head).front()] = guesses[reg].head;
      for (const auto& [reg, seen] : blank) {
        const Term start = entry.registers[reg], next = back.registers[reg];
        if (seen.head == kNoTerm || guesses[reg].kind != Guess::Kind::Unknown || next == kNoTerm ||
            terms_.width(seen.head) == 0 || terms_.width(next) != terms_.width(seen.head))
          continue;
        const Term sent = terms_.substitute(next, described);
        const std::vector<Var> vars = terms_.mentions(sent);
        if (!std::all_of(vars.begin(), vars.end(), [&](Var v) { return v < before || v == count; })) continue;
        const Term back_one = terms_.sub(terms_.of(count), terms_.constant(1, 64));
        const Term head = settled(terms_.substitute(sent, {{count, back_one}}));
        const Term step = terms_.canonical(terms_.sub(sent, head));
        const std::vector<Var>& of_step = terms_.mentions(step);
        if (settled(terms_.substitute(head, {{count, terms_.constant(0, 64)}})) != settled(start)) continue;
        const bool grows = std::find(of_step.begin(), of_step.end(), count) == of_step.end();
        guesses[reg] = {grows ? Guess::Kind::Grows : Guess::Kind::Follows, head, step, kNoTerm};
        changed = true;
      }
    }
  }

  // ---- selections
  //
  // A register whose new value is always a choice between values that such registers held at the head and values
  // that the iteration offers (its counter, say) is, at the head of iteration k, what one of those registers began
  // with or what an iteration j < k offered. It is so at the head of iteration 0, and what goes back to the head in
  // iteration k is either such a value or an offer of iteration k, which is less than k + 1.

  // What a term chooses between, taken apart down to these terms; empty: too much.
  std::vector<Term> choices(Term term, const std::map<Term, uint32_t>& down_to) const {
    std::vector<Term> open = {term}, found;
    std::set<Term> seen;
    while (!open.empty()) {
      const Term at = open.back();
      open.pop_back();
      if (!seen.insert(at).second) continue;
      if (seen.size() > kMostSelected) return {};
      const Node& node = terms_[at];
      if (node.op != Op::Ite || down_to.contains(at)) {
        found.push_back(at);
        continue;
      }
      open.push_back(node.b);
      open.push_back(node.c);
    }
    return found;
  }

  void find_selections(Guesses& guesses, const Guesses& blank, const State& entry, const State& back,
                       Var before, Var count) {
    std::map<Var, Term> described;     // what is at the head, as far as it is guessed already
    std::map<Term, uint32_t> carried;  // the others, by their blank heads
    for (const auto& [reg, seen] : blank) {
      if (seen.head == kNoTerm) continue;
      const Guess& guess = guesses[reg];
      if (is_described(guess))
        described[terms_.mentions(seen.head).front()] = guess.head;
      else if (guess.kind == Guess::Kind::Unknown && terms_.width(seen.head) >= 32)
        carried[seen.head] = reg;
    }
    std::map<uint32_t, Guess> found;
    for (const auto& [head, reg] : carried) {
      if (back.registers[reg] == kNoTerm || terms_.width(back.registers[reg]) != terms_.width(head)) continue;
      Guess guess;
      guess.kind = Guess::Kind::Selected;
      guess.among = {reg};
      bool all = true;
      const std::vector<Term> between = choices(back.registers[reg], carried);
      for (const Term choice : between) {
        if (const auto other = carried.find(choice); other != carried.end()) {
          guess.among.insert(other->second);
          continue;
        }
        const Term offer = terms_.canonical(terms_.substitute(choice, described));
        const std::vector<Var>& vars = terms_.mentions(offer);
        all &= std::all_of(vars.begin(), vars.end(), [&](Var v) { return v < before || v == count; });
        guess.offers.insert(offer);
      }
      if (all && !between.empty()) found[reg] = std::move(guess);
    }
    // Everything that a source takes its values from is a source, too.
    for (bool changed = true; changed;) {
      changed = false;
      for (auto at = found.begin(); at != found.end();) {
        Guess& guess = at->second;
        const std::set<uint32_t> among = guess.among;
        if (!std::all_of(among.begin(), among.end(), [&](uint32_t r) { return found.contains(r); })) {
          at = found.erase(at);
          changed = true;
          continue;
        }
        const size_t size = guess.among.size() + guess.offers.size();
        for (const uint32_t other : among) {
          const Guess source = found.at(other);
          guess.among.insert(source.among.begin(), source.among.end());
          guess.offers.insert(source.offers.begin(), source.offers.end());
        }
        changed |= guess.among.size() + guess.offers.size() != size;
        ++at;
      }
    }
    for (auto& [reg, guess] : found) {
      std::set<Term> starts;
      for (const uint32_t source : guess.among) starts.insert(entry.registers[source]);
      if (starts.size() + guess.offers.size() > kMostSelected) continue;
      guess.head = selected(guess, starts, count);
      guesses[reg] = std::move(guess);
    }
  }

  // Offers that differ by constants are one, plus a number in between: that allows more, not less.
  Term selected(Guess& guess, const std::set<Term>& starts, Var count) {
    const unsigned width = terms_.width(*starts.begin());
    const auto fresh = [&](Variable variable) {
      const Term term = terms_.variable(std::move(variable));
      guess.own.push_back(terms_.mentions(term).front());
      return term;
    };
    const auto any_of_two = [&](Term a, Term b) {
      const Term test = terms_.unknown(0, "selected");
      guess.own.push_back(terms_.mentions(test).front());
      return std::pair{terms_.ite(test, a, b), test};
    };
    Term value = kNoTerm, began = terms_.truth(guess.offers.empty());
    Var earlier = 0;
    if (!guess.offers.empty()) {
      Variable variable{fmt::format("j{}", terms_.variables()), VarKind::Unknown};
      variable.width = 64;
      variable.high = terms_.var(count).high;
      const Term j = fresh(std::move(variable));
      earlier = guess.own.back();
      const auto at = [&](Term offer) { return terms_.substitute(offer, {{count, j}}); };
      const Term first = *guess.offers.begin();
      Int low = 0, high = 0;
      bool near = true;
      for (const Term offer : guess.offers) {
        const auto distance = terms_.value(terms_.canonical(terms_.sub(offer, first)));
        near &= distance.has_value();
        if (!distance) continue;
        low = std::min(low, signed_of(*distance, width));
        high = std::max(high, signed_of(*distance, width));
      }
      value = at(first);
      if (near && low < high) {
        Variable distance{fmt::format("offer{}", terms_.variables()), VarKind::Unknown};
        distance.width = static_cast<uint8_t>(width);
        distance.is_signed = true;
        distance.low = low;
        distance.high = high;
        value = terms_.add(value, fresh(std::move(distance)));
      } else if (!near) {
        for (const Term offer : guess.offers) value = any_of_two(at(offer), value).first;
      }
    }
    for (const Term start : starts) {
      if (value == kNoTerm) {
        value = start;
        continue;
      }
      const auto [either, test] = any_of_two(start, value);
      value = either;
      began = terms_.either(began, test);
    }
    // An offer comes from an earlier iteration. In the first there is none: then it is a value from the beginning.
    if (!guess.offers.empty())
      terms_.var(earlier).facts.push_back(
          terms_.either(began, terms_.compare(Op::Ult, terms_.of(earlier), terms_.of(count))));
    return value;
  }

  bool is_selection(const Guess& guess, Term back, const Guesses& guesses) {
    std::map<Term, uint32_t> heads;
    for (const auto& [reg, other] : guesses)
      if (other.kind == Guess::Kind::Selected) heads[other.head] = reg;
    const std::vector<Term> between = choices(back, heads);
    return !between.empty() && std::all_of(between.begin(), between.end(), [&](Term choice) {
      const auto source = heads.find(choice);
      return source != heads.end() ? guess.among.contains(source->second)
                                   : guess.offers.contains(terms_.canonical(choice));
    });
  }

  Guess guess_of(Term start, Term head, Term next, Var before, Term k) {
    const unsigned width = terms_.width(start);
    if (next == head || next == start) return {Guess::Kind::Same, start, kNoTerm, kNoTerm};
    if (width == 0) return {};
    const Term step = terms_.canonical(terms_.sub(next, head));
    const std::vector<Var>& vars = terms_.mentions(step);
    // Variables of this loop's body have numbers from `before` on.
    if (std::all_of(vars.begin(), vars.end(), [&](Var v) { return v < before; })) {
      const Term value = terms_.add(start, terms_.mul(terms_.trunc(k, width), step));
      return {Guess::Kind::Grows, terms_.canonical(value), step, kNoTerm};
    }
    if (Guess turns = alternating(start, head, next, before, k); turns.kind != Guess::Kind::Unknown)
      return turns;
    if (Guess narrow = narrow_counter(start, head, next, before, k); narrow.kind != Guess::Kind::Unknown)
      return narrow;
    const Node& node = terms_[next];
    if (node.op == Op::LShr && node.a == head && terms_.is_constant(node.b) && terms_.is_constant(start))
      return shifted(start, *terms_.value(node.b));
    return {};
  }

  // A counter of fewer bits than its register (`unsigned short r`): it grows modulo 2^bits, and is extended each time.
  Guess narrow_counter(Term start, Term head, Term next, Var before, Term k) {
    const unsigned width = terms_.width(start);
    const Node extended = terms_[settled(next)];
    if (extended.op != Op::ZExt && extended.op != Op::SExt) return {};
    const unsigned narrow = terms_.width(extended.a);
    const Term step = terms_.canonical(terms_.sub(extended.a, terms_.trunc(head, narrow)));
    const std::vector<Var>& vars = terms_.mentions(step);
    if (!std::all_of(vars.begin(), vars.end(), [&](Var v) { return v < before; })) return {};
    const auto extend = [&](Term value) {
      return extended.op == Op::ZExt ? terms_.zext(value, width) : terms_.sext(value, width);
    };
    const Term first = terms_.canonical(terms_.trunc(settled(start), narrow));
    if (extend(first) != settled(start)) return {};
    const Term value = terms_.add(first, terms_.mul(terms_.trunc(k, narrow), step));
    return {Guess::Kind::Follows, extend(terms_.canonical(value)), kNoTerm, kNoTerm};
  }

  // Two values by turns: `turn ^= 1`, `turn = 1 - turn`. What goes back is f(head), with f(f(v)) = v: so the head holds the
  // start in even iterations and f(start) in odd ones.
  Guess alternating(Term start, Term head, Term next, Var before, Term k) {
    const auto is_before = [&](Term term) {
      const std::vector<Var>& vars = terms_.mentions(term);
      return std::all_of(vars.begin(), vars.end(), [&](Var v) { return v < before; });
    };
    const unsigned width = terms_.width(start);
    const Node node = terms_[next];
    const bool flips = node.op == Op::Xor && (node.a == head || node.b == head);
    const Term by = flips ? (node.a == head ? node.b : node.a) : terms_.canonical(terms_.add(next, head));
    if (!is_before(by)) return {};
    const auto other = [&](Term value) {
      return flips ? terms_.bitwise(Op::Xor, value, by) : terms_.canonical(terms_.sub(by, value));
    };
    const Term odd = terms_.bitwise(Op::And, k, terms_.constant(1, 64));
    const Term value = terms_.ite(terms_.compare(Op::Eq, odd, terms_.constant(0, 64)), start, other(start));
    return {Guess::Kind::Alternates, terms_.zext(value, width), by, other(value)};
  }

  // start, start >> by, start >> 2 by, …: finitely many values, the last of which is 0.
  Guess shifted(Term start, Bits by) {
    const unsigned width = terms_.width(start);
    Variable variable{fmt::format("shifted{}", terms_.variables()), VarKind::Unknown};
    variable.width = static_cast<uint8_t>(width);
    variable.high = static_cast<Int>(*terms_.value(start));
    const Term head = terms_.variable(std::move(variable));
    Term any = terms_.truth(false);
    for (Bits value = *terms_.value(start);; value = apply(Op::LShr, width, value, by)) {
      any = terms_.either(any, terms_.compare(Op::Eq, head, terms_.constant(value, width)));
      if (value == 0) break;
    }
    terms_.var(terms_.mentions(head).front()).facts.push_back(any);
    return {Guess::Kind::Shifted, head, kNoTerm, terms_.bitwise(Op::LShr, head, terms_.constant(by, width))};
  }

  // Whether what goes back to the head is the description at k + 1.
  bool verified(const Guess& guess, Term back, Var count, const Guesses& guesses) {
    if (guess.kind == Guess::Kind::Unknown) return true;
    if (back == kNoTerm) return false;
    if (guess.kind == Guess::Kind::Selected) return is_selection(guess, back, guesses);
    if (guess.kind == Guess::Kind::Same) return back == guess.head;
    if (guess.kind == Guess::Kind::Shifted) return back == guess.next;
    if (guess.kind == Guess::Kind::Alternates) return terms_.canonical(back) == terms_.canonical(guess.next);
    const Term next = terms_.add(terms_.of(count), terms_.constant(1, 64));
    const Term expected = terms_.substitute(guess.head, {{count, next}});
    return settled(expected) == settled(back);
  }

  std::vector<Edge> loop(uint32_t head, State entry) {
    const std::set<uint32_t> written = written_in(graph_.loops[head]);
    Variable variable{fmt::format("k{}", terms_.variables()), VarKind::Count};
    variable.width = 64;
    variable.high = Int{1} << 62;  // no thread lives to see more iterations than that
    const Term k = terms_.variable(std::move(variable));
    const Var count = terms_.mentions(k).front();
    Guesses guesses = first_guesses(head, entry, written, k);
    if (guesses.empty())
      for (const uint32_t reg : written) guesses[reg] = {};
    for (bool stable = false; !stable;) {
      for (auto& [reg, guess] : guesses)
        if (guess.kind == Guess::Kind::Unknown)
          guess.head = entry.registers[reg] == kNoTerm
                           ? kNoTerm
                           : terms_.unknown(terms_.width(entry.registers[reg]), "carried");
      const Exits exits = quiet([&] { return run_body(head, entry, guesses, count); });
      if (exits.back.empty()) break;
      const State back = merge(exits.back);
      std::vector<uint32_t> wrong;
      for (const auto& [reg, guess] : guesses)
        if (!verified(guess, back.registers[reg], count, guesses)) wrong.push_back(reg);
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
      if (guess.kind == Guess::Kind::Grows)
        info.inductions.push_back({guess.head, entry.registers[reg], guess.step});
      else if (guess.kind == Guess::Kind::Shifted)
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
  std::vector<Term> repeats(const State& back, size_t entry, Var before, const Guesses& guesses) {
    std::set<Var> own;
    for (const auto& [reg, guess] : guesses) {
      own.insert(guess.own.begin(), guess.own.end());
      if (guess.head != kNoTerm && (guess.kind == Guess::Kind::Shifted || guess.kind == Guess::Kind::Unknown))
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
