// What is asked under the facts of a lowering: whether a formula follows from them, and for which small shape it does not.
#include <fmt/format.h>

#include <algorithm>

#include "prove/lemmas.h"
#include "prove/lower.h"

namespace assay::prove {

namespace {

// The dims of a counterexample, which is to be run: the run takes time in proportion to the product of them. One
// alone may be large, so that an index of 16 bits wraps (rows from 65536 on) in a matrix of few columns.
constexpr Int kTinyDim = 4, kSmallDim = 40, kMediumDim = 300, kLargeDim = 5000, kBeyond16Bits = 70000;

bool has_products(const Formula& formula) {
  return std::any_of(formula.poly.begin(), formula.poly.end(),
                     [](const auto& item) { return item.first.size() > 1; }) ||
         std::any_of(formula.parts.begin(), formula.parts.end(), has_products);
}

std::string number_text(Int value) {
  return value < 0 ? fmt::format("(- {})", decimal(-value)) : decimal(value);
}

}  // namespace

std::string Lowering::smt(const Formula& goal, Facts facts, const Caps& caps) {
  std::string text;
  for (size_t i = 0; i < atoms_.size(); ++i) {
    const AtomInfo& info = atoms_[i];
    text += fmt::format("(declare-const a{} Int) ; {}\n", i, info.name);
    if (info.low > -kInfinity) text += fmt::format("(assert (>= a{} {}))\n", i, number_text(info.low));
    Int high = info.high;
    if (const Int cap = caps.of(static_cast<Atom>(i)); info.is_dim && cap > 0)
      high = std::min(high, std::max(cap, info.low));
    if (high < kInfinity) text += fmt::format("(assert (<= a{} {}))\n", i, number_text(high));
  }
  Lemmas lemmas(*this, facts == Facts::Exact);
  std::string body;
  for (const Formula& fact : facts_)
    if (facts != Facts::WithoutProducts || !has_products(fact))
      body += fmt::format("(assert {})\n", lemmas.text(fact));
  Formula target = goal;
  if (Formula more = strengthened(goal);
      more.kind == Formula::Kind::All && goal.kind == Formula::Kind::AtLeastZero)
    target = all_of({goal, std::move(more)});
  body += fmt::format("; the denial of what is to be shown\n(assert {})\n", lemmas.text(target));
  const std::string more = lemmas.about_products(facts_);
  return text + lemmas.declarations() + body + more;
}

// Facts about products are many, and few questions without products need them: those are first asked without.
Answer Lowering::ask(const Formula& goal, double seconds) {
  const bool products = std::any_of(facts_.begin(), facts_.end(), has_products);
  if (products && !has_products(goal)) {
    Answer answer = ask(goal, seconds, Facts::WithoutProducts);
    if (answer.kind == Answer::Kind::Unsatisfiable) return answer;
  }
  return ask(goal, seconds, Facts::All);
}

Answer Lowering::ask(const Formula& goal, double seconds, Facts facts) {
  const double left = deadline_ - work_seconds();
  if (left <= 0) return {};
  return solver_.ask({smt(goal, facts, {}), std::min(seconds, left), false});
}

Answer Lowering::ask_nonlinear(const Formula& goal, double seconds, const Caps& caps) {
  return solver_.ask({smt(goal, Facts::Exact, caps), seconds, true});
}

Answer Lowering::small_model(const Formula& goal, double seconds, double until) {
  std::vector<Caps> ladder = {{kSmallDim}};
  const auto one_large = [&](Int others, Int most) {
    for (Atom atom = 0; atom < atoms_.size(); ++atom)
      if (atoms_[atom].is_dim && atoms_[atom].high > kSmallDim) ladder.push_back({others, atom, most});
  };
  one_large(kTinyDim, kBeyond16Bits);
  ladder.push_back({kMediumDim});
  one_large(kSmallDim, 0);
  ladder.push_back({kLargeDim});
  ladder.push_back(
      {kBeyond16Bits});  // two such dims pass 2^32 elements, and a sample of the blocks can still be run
  ladder.push_back({});
  for (const Caps& caps : ladder) {
    const double left = until - work_seconds();
    if (left <= 0) break;
    Answer answer = ask_nonlinear(goal, std::min(seconds, left), caps);
    if (answer.kind == Answer::Kind::Satisfiable) return answer;
  }
  return {};
}

bool Lowering::proves(const Formula& formula, double seconds) {
  if (trusting_) return true;
  if (formula.kind == Formula::Kind::AtLeastZero && interval(formula.poly).low >= 0) return true;
  if (formula.kind == Formula::Kind::All)
    return std::all_of(formula.parts.begin(), formula.parts.end(),
                       [&](const Formula& part) { return proves(part, seconds); });
  if (formula.kind == Formula::Kind::AtLeastZero)
    if (const auto enough = enough_by_quotient(formula.poly);
        enough && ask(negated(at_least_zero(*enough)), seconds).kind == Answer::Kind::Unsatisfiable)
      return true;
  return ask(negated(formula), seconds).kind == Answer::Kind::Unsatisfiable;
}

std::map<Var, Int> Lowering::values(const Answer& answer) const {
  std::map<Var, Int> values;
  for (size_t i = 0; i < atoms_.size(); ++i) {
    if (!atoms_[i].var) continue;
    const auto found = answer.model.find(fmt::format("a{}", i));
    values[*atoms_[i].var] = found == answer.model.end() ? std::max<Int>(atoms_[i].low, 0) : found->second;
  }
  return values;
}

}  // namespace assay::prove
