// What holds of a loop's counters in every iteration, by induction.
//
// i = start + k * step is a fact modulo 2^32. That it holds of the numbers themselves, so that i < n bounds
// k, must be shown: the claim "start + j * step lies within the range of the type" for every iteration j that
// is reached. It is trivial for j = 0, where it is the value of `start`. For k >= 1 assume it for all j < k.
// Then
//   - the condition for going from iteration k - 1 to k held, with exact counters at k - 1;
//   - for k >= 2 so did the one for going from k - 2 to k - 1, with exact counters at k - 2 and k - 1. A loop
//     that tests the new value at its end is bounded by this one: i(k - 1) < n, so i(k) < n + step, which is
//     small enough or not;
// and if from these the claim follows at k, it holds everywhere. All counters are claimed together, signed
// and unsigned; those that fail are dropped, and the rest is tried again without them, until nothing more
// fails.
//
// Compilers also keep a plain count and compute the index from it, i = tid + 128 k, in the iteration that uses it. The index
// is then no register that the loop carries, but what the loop tests is linear in k, and so it is claimed in the same way.
#include <algorithm>

#include "prove/lower.h"

namespace assay::prove {

namespace {

constexpr double kClaimSeconds = 0.8;  // for a claim

Formula within(const Poly& value, unsigned width, bool is_signed) {
  const Int low = is_signed ? -(Int{1} << (width - 1)) : 0;
  const Int high = is_signed ? (Int{1} << (width - 1)) - 1 : (Int{1} << width) - 1;
  return all_of({at_least_zero(plus(value, -low)), at_least_zero(plus(scale(value, -1), high))});
}

// start + k * step, where `term` is linear in the count; none otherwise.
std::optional<Induction> linear_in(Terms& terms, Term term, Var count) {
  const unsigned width = terms.width(term);
  if (width != 32 && width != 64) return std::nullopt;
  const Term k = terms.trunc(terms.of(count), width);
  Ring step, start;
  for (const auto& [leaves, by] : Ring(terms.ring(term))) {
    std::vector<Term> others = leaves;
    const auto own = std::find(others.begin(), others.end(), k);
    const bool counts = own != others.end();
    if (counts) others.erase(own);
    for (const Term leaf : others)
      if (const auto& vars = terms.mentions(leaf); std::find(vars.begin(), vars.end(), count) != vars.end())
        return std::nullopt;
    (counts ? step : start)[others] = by;
  }
  if (step.empty()) return std::nullopt;
  return Induction{terms.canonical(term), terms.from_ring(start, width), terms.from_ring(step, width)};
}

// What the loop's tests compare, at the head: as it is tested there, or as it was tested at the end of the iteration before.
std::vector<Induction> tested_in(Terms& terms, const Loop& loop) {
  std::vector<Induction> found;
  const auto is_known = [&](Term value) {
    const auto same = [&](const Induction& other) { return terms.canonical(other.value) == value; };
    return std::any_of(loop.inductions.begin(), loop.inductions.end(), same) ||
           std::any_of(found.begin(), found.end(), same);
  };
  for (Term condition : loop.repeats) {
    if (terms[condition].op == Op::Not) condition = terms[condition].a;
    const Node test = terms[condition];
    if (test.op != Op::Slt && test.op != Op::Sle && test.op != Op::Ult && test.op != Op::Ule) continue;
    for (const Term side : {test.a, test.b}) {
      const auto here = linear_in(terms, side, loop.count);
      if (!here) continue;
      const Term before = terms.canonical(terms.sub(here->value, here->step));
      if (is_known(here->value) || is_known(before)) continue;
      found.push_back(*here);
      found.push_back({before, terms.canonical(terms.sub(here->start, here->step)), here->step});
    }
  }
  return found;
}

}  // namespace

const std::vector<Claim>& Claims::of(Var count) {
  if (const auto found = known_.find(count); found != known_.end()) return found->second;
  known_[count] = {};  // while they are looked for: a loop does not speak of itself
  try {
    known_[count] = proved(summary_.loops.at(count));
  } catch (const TooHard&) {
  }
  return known_[count];
}

std::vector<Claim> Claims::proved(const Loop& loop) {
  std::vector<Claim> claims;
  std::vector<Induction> inductions = loop.inductions;
  for (Induction& tested : tested_in(terms_, loop)) inductions.push_back(tested);
  for (const Induction& induction : inductions) {
    const unsigned width = terms_.width(induction.value);
    if (width != 32 && width != 64) continue;
    claims.push_back({induction, true});
    claims.push_back({induction, false});
  }
  if (loop.repeats.empty()) return {};
  while (!claims.empty()) {
    Lowering lowering(terms_, summary_, this, solver_);
    lowering.leave_bare(loop.count);
    const Poly k = lowering.count(loop.count);
    lowering.assume(at_least_zero(plus(k, -1)));
    for (const Term fact : loop.entry) {
      const std::vector<Var>& vars = terms_.mentions(fact);
      // Facts about other loops and loaded values rarely help, and each brings its own questions.
      const bool plain = std::all_of(vars.begin(), vars.end(), [&](Var v) {
        const VarKind kind = terms_.var(v).kind;
        return kind != VarKind::Unknown;
      });
      if (plain) lowering.assume(fact);
    }
    const Term earlier[] = {lowering.earlier(loop.count, 1), lowering.earlier(loop.count, 2)};
    std::vector<Poly> values;
    for (const Claim& claim : claims) {
      const Poly start = claim.is_signed ? lowering.signed_value(claim.induction.start)
                                         : lowering.unsigned_value(claim.induction.start);
      const Poly step = lowering.signed_value(claim.induction.step);
      values.push_back(add(start, multiply(k, step)));
      const auto take_exact = [&](Term iteration, Int back) {
        lowering.take_exact(terms_.substitute(claim.induction.value, {{loop.count, iteration}}),
                            claim.is_signed, add(values.back(), step, -back));
      };
      for (const Int back : {1, 2}) take_exact(earlier[back - 1], back);
      take_exact(terms_.add(earlier[1], terms_.constant(1, 64)), 1);  // (k - 2) + 1
      lowering.assume(
          within(add(values.back(), step, -1), terms_.width(claim.induction.value), claim.is_signed));
    }
    for (const Term condition : loop.repeats) {
      for (const Int back : {1, 2}) {
        const Formula held =
            lowering.formula(terms_.substitute(condition, {{loop.count, earlier[back - 1]}}));
        lowering.assume(any_of({at_least_zero(plus(scale(k, -1), back - 1)), held}));  // k < back, or it held
      }
      if (const auto bound = ends_on_equality(lowering, terms_, loop.count, condition))
        lowering.assume(*bound);
    }
    std::vector<Claim> kept;
    for (size_t i = 0; i < claims.size(); ++i)
      if (lowering.proves(within(values[i], terms_.width(claims[i].induction.value), claims[i].is_signed),
                          kClaimSeconds))
        kept.push_back(claims[i]);
    if (kept.size() == claims.size()) return kept;
    claims = std::move(kept);
  }
  return {};
}

// A condition x != y for going on, where x - y = s k + c modulo 2^w with c the same in every iteration. It
// held in iterations 0 to k - 1. Let D be any integer that is -c modulo 2^w (for s < 0: c), at least 0 and a
// multiple of |s|: in iteration D / |s| the condition fails. So that iteration is k or later: |s| k <= D.
std::optional<Formula> ends_on_equality(Lowering& lowering, Terms& terms, Var count, Term condition) {
  const Node outer = terms[condition];
  if (outer.op != Op::Not || terms[outer.a].op != Op::Eq || terms.width(terms[outer.a].a) == 0)
    return std::nullopt;
  const Node equal = terms[outer.a];
  const unsigned width = terms.width(equal.a);
  const Term k = terms.trunc(terms.of(count), width);
  Ring rest = terms.ring(terms.sub(equal.a, equal.b));
  const auto at = rest.find({k});
  if (at == rest.end()) return std::nullopt;
  const Int step = signed_of(at->second, width);
  rest.erase(at);
  for (const auto& [leaves, by] : rest)
    for (const Term leaf : leaves)
      if (const auto& vars = terms.mentions(leaf); std::find(vars.begin(), vars.end(), count) != vars.end())
        return std::nullopt;
  const Term constant = terms.from_ring(rest, width);
  // Of the integers that c may be modulo 2^w, the one that its polynomial gives and the one that its bits
  // give.
  const Int size = step < 0 ? -step : step;
  std::vector<Formula> bounds;
  for (const Poly& value : {lowering.poly(constant), lowering.signed_value(constant)}) {
    const Poly distance = step < 0 ? value : scale(value, -1);
    std::vector<Formula> cases = {at_least_zero(plus(scale(distance, -1), -1)),
                                  at_least_zero(add(distance, scale(lowering.count(count), size), -1))};
    const bool divides = std::all_of(distance.begin(), distance.end(),
                                     [&](const auto& item) { return item.second % size == 0; });
    if (!divides) {
      const auto remainder = lowering.remainder(distance, size);
      cases.push_back(at_least_zero(plus(remainder, -1)));
    }
    bounds.push_back(any_of(std::move(cases)));
  }
  return all_of(std::move(bounds));
}

}  // namespace assay::prove
