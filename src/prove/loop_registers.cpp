#include "prove/loop_registers.h"

#include <fmt/format.h>

#include <algorithm>

namespace assay::prove {

namespace {

constexpr size_t kMostSelected = 64;  // of values that a loop selects from

// Whether a register's value at the head is a function of k and of what was there before the loop.
bool is_described(const RegisterGuess& guess) {
  return guess.kind == RegisterGuess::Kind::Grows || guess.kind == RegisterGuess::Kind::Follows ||
         guess.kind == RegisterGuess::Kind::Same;
}

}  // namespace

RegisterGuess LoopRegisters::guess_of(Term start, Term head, Term next, Var before, Term k) {
  const unsigned width = terms_.width(start);
  if (next == head || next == start) return {RegisterGuess::Kind::Same, start, kNoTerm, kNoTerm};
  if (width == 0) return {};
  const Term step = terms_.canonical(terms_.sub(next, head));
  const std::vector<Var>& vars = terms_.mentions(step);
  // Variables of this loop's body have numbers from `before` on.
  if (std::all_of(vars.begin(), vars.end(), [&](Var v) { return v < before; })) {
    const Term value = terms_.add(start, terms_.mul(terms_.trunc(k, width), step));
    return {RegisterGuess::Kind::Grows, terms_.canonical(value), step, kNoTerm};
  }
  if (RegisterGuess turns = alternating(start, head, next, before, k);
      turns.kind != RegisterGuess::Kind::Unknown)
    return turns;
  if (RegisterGuess narrow = narrow_counter(start, head, next, before, k);
      narrow.kind != RegisterGuess::Kind::Unknown)
    return narrow;
  const Node& node = terms_[next];
  if (node.op == Op::LShr && node.a == head && terms_.is_constant(node.b) && terms_.is_constant(start))
    return shifted(start, *terms_.value(node.b));
  return {};
}

// A counter of fewer bits than its register (`unsigned short r`): it grows modulo 2^bits, and is extended each time.
RegisterGuess LoopRegisters::narrow_counter(Term start, Term head, Term next, Var before, Term k) {
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
  return {RegisterGuess::Kind::Follows, extend(terms_.canonical(value)), kNoTerm, kNoTerm};
}

// Two values by turns: `turn ^= 1`, `turn = 1 - turn`. What goes back is f(head), with f(f(v)) = v: so the head holds the
// start in even iterations and f(start) in odd ones.
RegisterGuess LoopRegisters::alternating(Term start, Term head, Term next, Var before, Term k) {
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
  return {RegisterGuess::Kind::Alternates, terms_.zext(value, width), by, other(value)};
}

// start, start >> by, start >> 2 by, …: finitely many values, the last of which is 0.
RegisterGuess LoopRegisters::shifted(Term start, Bits by) {
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
  return {RegisterGuess::Kind::Shifted, head, kNoTerm,
          terms_.bitwise(Op::LShr, head, terms_.constant(by, width))};
}

// One form for terms that are equal by ring laws, inside extensions as well. A mask of 8 or 16 bits is a conversion: it is
// how compilers write a narrow type in a wide register.
Term LoopRegisters::settled(Term term) {
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
void LoopRegisters::find_followers(RegisterGuesses& guesses, const RegisterGuesses& blank, const State& entry,
                                   const State& back, Var before, Var count) {
  for (bool changed = true; changed;) {
    changed = false;
    std::map<Var, Term> described;
    for (const auto& [reg, seen] : blank)
      if (seen.head != kNoTerm && is_described(guesses[reg]))
        described[terms_.mentions(seen.head).front()] = guesses[reg].head;
    for (const auto& [reg, seen] : blank) {
      const Term start = entry.registers[reg], next = back.registers[reg];
      if (seen.head == kNoTerm || guesses[reg].kind != RegisterGuess::Kind::Unknown || next == kNoTerm ||
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
      guesses[reg] = {grows ? RegisterGuess::Kind::Grows : RegisterGuess::Kind::Follows, head, step, kNoTerm};
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
std::vector<Term> LoopRegisters::choices(Term term, const std::map<Term, uint32_t>& down_to) const {
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

void LoopRegisters::find_selections(RegisterGuesses& guesses, const RegisterGuesses& blank,
                                    const State& entry, const State& back, Var before, Var count) {
  std::map<Var, Term> described;     // what is at the head, as far as it is guessed already
  std::map<Term, uint32_t> carried;  // the others, by their blank heads
  for (const auto& [reg, seen] : blank) {
    if (seen.head == kNoTerm) continue;
    const RegisterGuess& guess = guesses[reg];
    if (is_described(guess))
      described[terms_.mentions(seen.head).front()] = guess.head;
    else if (guess.kind == RegisterGuess::Kind::Unknown && terms_.width(seen.head) >= 32)
      carried[seen.head] = reg;
  }
  std::map<uint32_t, RegisterGuess> found;
  for (const auto& [head, reg] : carried) {
    if (back.registers[reg] == kNoTerm || terms_.width(back.registers[reg]) != terms_.width(head)) continue;
    RegisterGuess guess;
    guess.kind = RegisterGuess::Kind::Selected;
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
      RegisterGuess& guess = at->second;
      const std::set<uint32_t> among = guess.among;
      if (!std::all_of(among.begin(), among.end(), [&](uint32_t r) { return found.contains(r); })) {
        at = found.erase(at);
        changed = true;
        continue;
      }
      const size_t size = guess.among.size() + guess.offers.size();
      for (const uint32_t other : among) {
        const RegisterGuess source = found.at(other);
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
Term LoopRegisters::selected(RegisterGuess& guess, const std::set<Term>& starts, Var count) {
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

bool LoopRegisters::is_selection(const RegisterGuess& guess, Term back, const RegisterGuesses& guesses) {
  std::map<Term, uint32_t> heads;
  for (const auto& [reg, other] : guesses)
    if (other.kind == RegisterGuess::Kind::Selected) heads[other.head] = reg;
  const std::vector<Term> between = choices(back, heads);
  return !between.empty() && std::all_of(between.begin(), between.end(), [&](Term choice) {
    const auto source = heads.find(choice);
    return source != heads.end() ? guess.among.contains(source->second)
                                 : guess.offers.contains(terms_.canonical(choice));
  });
}

bool LoopRegisters::verified(const RegisterGuess& guess, Term back, Var count,
                             const RegisterGuesses& guesses) {
  if (guess.kind == RegisterGuess::Kind::Unknown) return true;
  if (back == kNoTerm) return false;
  if (guess.kind == RegisterGuess::Kind::Selected) return is_selection(guess, back, guesses);
  // These are as guessed by construction, whatever the other registers hold; what each began with was asked when it was guessed.
  if (guess.kind == RegisterGuess::Kind::Same) return back == guess.head;
  if (guess.kind == RegisterGuess::Kind::Shifted) return back == guess.next;
  if (guess.kind == RegisterGuess::Kind::Alternates)
    return terms_.canonical(back) == terms_.canonical(guess.next);
  const Term next = terms_.add(terms_.of(count), terms_.constant(1, 64));
  const Term expected = terms_.substitute(guess.head, {{count, next}});
  return settled(expected) == settled(back);
}

}  // namespace assay::prove
