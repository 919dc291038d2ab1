// The atoms of a lowering, what is known of them, and what loops add to that.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "prove/lower.h"

namespace assay::prove {

Atom Lowering::atom(std::string name, Int low, Int high, const std::string& key, std::vector<Var> depends) {
  atoms_.push_back({std::move(name), low, high, std::nullopt, false, terms_.intern(key), std::move(depends)});
  return static_cast<Atom>(atoms_.size() - 1);
}

Atom Lowering::add_atom(AtomInfo info) {
  atoms_.push_back(std::move(info));
  return static_cast<Atom>(atoms_.size() - 1);
}

void Lowering::bound(Atom atom, Int low, Int high) {
  atoms_[atom].low = std::max(atoms_[atom].low, low);
  atoms_[atom].high = std::min(atoms_[atom].high, high);
}

void Lowering::depend_on(Atom atom, const std::vector<Var>& vars) {
  std::set<Var> all(vars.begin(), vars.end());
  all.insert(atoms_[atom].depends.begin(), atoms_[atom].depends.end());
  atoms_[atom].depends.assign(all.begin(), all.end());
}

// A polynomial by the keys of its atoms.
std::string Lowering::key_text(const Poly& poly) const {
  std::map<std::vector<uint32_t>, Int> by_key;
  for (const auto& [monomial, by] : poly) {
    std::vector<uint32_t> keys;
    for (const Atom atom : monomial) keys.push_back(atoms_[atom].key);
    std::sort(keys.begin(), keys.end());
    by_key[keys] += by;
  }
  std::string text;
  for (const auto& [keys, by] : by_key) text += fmt::format("{}*{}+", decimal(by), fmt::join(keys, "*"));
  return text;
}

std::vector<Var> Lowering::depends(const Poly& poly) const {
  std::set<Var> vars;
  for (const auto& [monomial, by] : poly)
    for (const Atom atom : monomial) vars.insert(atoms_[atom].depends.begin(), atoms_[atom].depends.end());
  return {vars.begin(), vars.end()};
}

// An atom that is a function of polynomials: which, its name and key say.
Atom Lowering::derived(std::string name, Int low, Int high, const std::vector<Poly>& from,
                       const std::string& key) {
  std::string text = name + key;
  std::set<Var> vars;
  for (const Poly& poly : from) {
    text += "|" + key_text(poly);
    for (const Var var : depends(poly)) vars.insert(var);
  }
  return atom(std::move(name), low, high, text, {vars.begin(), vars.end()});
}

Atom Lowering::atom_of(Var var) {
  if (const auto found = atom_by_var_.find(var); found != atom_by_var_.end()) return found->second;
  const Variable variable = terms_.var(var);
  const Int by = variable.multiple_of;  // the atom counts multiples
  const Atom made =
      atom(variable.name, variable.low / by, variable.high / by, fmt::format("var{}", var), {var});
  atoms_[made].var = var;
  atoms_[made].is_dim = variable.kind == VarKind::Dim;
  atom_by_var_[var] = made;
  for (const Term fact : variable.facts) assume(fact);
  if (variable.kind == VarKind::Count && !bare_.contains(var)) introduce_loop(var);
  return made;
}

std::optional<Atom> Lowering::base_atom(Var base) const {
  const auto found = atom_by_var_.find(base);
  return found == atom_by_var_.end() ? std::nullopt : std::optional(found->second);
}

void Lowering::take_exact(Term term, bool is_signed, Poly value) {
  (is_signed ? exact_signed_ : exact_unsigned_)[terms_.canonical(term)] = std::move(value);
}

// What is known at the head of iteration k: its counters are exact as far as claimed, at k and at k - 1; and
// if k >= 1, iteration k - 1 ended by going back to the head.
void Lowering::introduce_loop(Var count) {
  const auto found = summary_.loops.find(count);
  if (found == summary_.loops.end() || !claims_ || trusting_) return;
  const Loop& loop = found->second;
  const Poly k = this->count(count);
  const Term previous = earlier(count, 1);
  const std::map<Var, Term> before = {{count, previous}},
                            here = {{count, terms_.add(previous, terms_.constant(1, 64))}};
  for (const Claim& claim : claims_->of(count)) {
    const Poly start =
        claim.is_signed ? signed_value(claim.induction.start) : unsigned_value(claim.induction.start);
    const Poly step = signed_value(claim.induction.step);
    const Poly value = add(start, multiply(k, step));
    take_exact(claim.induction.value, claim.is_signed, value);
    take_exact(terms_.substitute(claim.induction.value, before), claim.is_signed, add(value, step, -1));
    take_exact(terms_.substitute(claim.induction.value, here), claim.is_signed, value);
    const Interval range = range_of(terms_.width(claim.induction.value), claim.is_signed);
    assume(at_least_zero(plus(value, -range.low)));
    assume(at_least_zero(plus(scale(value, -1), range.high)));
  }
  const Formula first = at_least_zero(scale(k, -1));  // k <= 0
  for (const Term condition : loop.repeats) {
    assume(any_of({first, formula(terms_.substitute(condition, before))}));
    if (const auto bound = ends_on_equality(*this, terms_, count, condition)) assume(*bound);
  }
}

Term Lowering::earlier(Var count, Int back) {
  Variable variable{fmt::format("{} - {}", terms_.var(count).name, decimal(back)), VarKind::Unknown};
  variable.width = 64;
  variable.high = terms_.var(count).high;
  const Term term = terms_.variable(std::move(variable));
  polys_[term] = plus(this->count(count), -back);
  return term;
}

Interval Lowering::interval(const Poly& poly) const {
  Interval sum;
  for (const auto& [monomial, by] : poly) {
    Int low = 1, high = 1;
    for (const Atom atom : monomial) {
      const Int a = atoms_[atom].low, b = atoms_[atom].high;
      const Int corners[] = {saturated_mul(low, a), saturated_mul(low, b), saturated_mul(high, a),
                             saturated_mul(high, b)};
      low = *std::min_element(corners, corners + 4);
      high = *std::max_element(corners, corners + 4);
    }
    low = saturated_mul(low, by);
    high = saturated_mul(high, by);
    if (by < 0) std::swap(low, high);
    sum.low = saturated_add(sum.low, low);
    sum.high = saturated_add(sum.high, high);
  }
  return sum;
}

void Lowering::assume(const Formula& formula) {
  if (formula.kind == Formula::Kind::All) {
    for (const Formula& part : formula.parts) assume(part);
    return;
  }
  // A bound on one atom is kept with the atom.
  if (formula.kind == Formula::Kind::AtLeastZero) {
    Poly rest = formula.poly;
    const auto constant = rest.find({});
    const Int c = constant == rest.end() ? 0 : constant->second;
    rest.erase(Monomial{});
    if (rest.size() == 1 && rest.begin()->first.size() == 1) {
      AtomInfo& info = atoms_[rest.begin()->first.front()];
      const Int by = rest.begin()->second;
      if (by > 0)
        info.low = std::max(info.low, -floor_div(c, by));
      else
        info.high = std::min(info.high, floor_div(c, -by));
    }
  }
  facts_.push_back(formula);
  for (const auto& [operands, results] : divisions_)
    if (auto more = with_quotients(formula, {operands.first, operands.second, results.first, results.second}))
      facts_.push_back(std::move(*more));
  if (Formula more = strengthened(formula); more.kind == Formula::Kind::All)
    for (Formula& part : more.parts) facts_.push_back(std::move(part));
}

// A cut: where a dim n = c q + r (0 <= r < c) stands in p >= 0, replace it; the part of p that c divides is
// then at least the floor of what the rest can be at most. Sound: g c + rest >= 0 and rest <= high give g >=
// -high / c. Solvers find this by search, and these by the hundred make the search long.
Formula Lowering::strengthened(const Formula& formula) const {
  std::vector<Formula> found;
  if (formula.kind != Formula::Kind::AtLeastZero) return formula;
  for (const Elimination& elimination : eliminations_) {
    const auto at = formula.poly.find({elimination.dim});
    if (at == formula.poly.end() || (at->second != 1 && at->second != -1)) continue;
    const Int by = at->second;
    const Poly replaced =
        add(add(formula.poly, atom_poly(elimination.dim), -by), elimination.replacement, by);
    Poly whole, rest;
    for (const auto& [monomial, coefficient] : replaced) {
      if (!monomial.empty() && coefficient % elimination.divisor == 0)
        whole[monomial] = coefficient / elimination.divisor;
      else
        rest[monomial] = coefficient;
    }
    if (whole.empty()) continue;
    const Interval range = interval(rest);
    if (range.high - range.low < 2 * elimination.divisor)
      found.push_back(at_least_zero(plus(whole, floor_div(range.high, elimination.divisor))));
  }
  return found.empty() ? formula : all_of(std::move(found));
}

}  // namespace assay::prove
