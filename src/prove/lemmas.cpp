#include "prove/lemmas.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace assay::prove {

namespace {

// Beyond these, lemmas cost more than they give.
constexpr size_t kMostProducts = 140;
constexpr size_t kMostCompared = 60;  // products of which pairs are compared
constexpr size_t kLongestFact = 6;    // terms
constexpr size_t kMostFactors = 4;

std::string smt_number(Int value) {
  return value < 0 ? fmt::format("(- {})", decimal(-value)) : decimal(value);
}

Monomial common(const Monomial& a, const Monomial& b) {
  Monomial both;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  return both;
}

}  // namespace

bool Lemmas::nonnegative(const Monomial& monomial) const {
  return std::all_of(monomial.begin(), monomial.end(),
                     [&](Atom atom) { return lowering_.atoms_[atom].low >= 0; });
}

std::string Lemmas::product(const Monomial& monomial) {
  if (monomial.empty()) return "1";
  if (monomial.size() == 1) return fmt::format("a{}", monomial.front());
  if (const auto found = products_.find(monomial); found != products_.end()) return found->second;
  std::string name;
  for (const Atom atom : monomial) name += fmt::format("{}a{}", nonlinear_ ? " " : "_", atom);
  if (nonlinear_) return products_[monomial] = fmt::format("(*{})", name);
  name = "p" + name;
  const Interval range = lowering_.interval({{monomial, 1}});
  declarations_ += fmt::format("(declare-const {} Int)\n", name);
  if (range.low > -kInfinity)
    declarations_ += fmt::format("(assert (>= {} {}))\n", name, smt_number(range.low));
  if (range.high < kInfinity)
    declarations_ += fmt::format("(assert (<= {} {}))\n", name, smt_number(range.high));
  return products_[monomial] = name;
}

std::string Lemmas::text(const Poly& poly) {
  if (poly.empty()) return "0";
  std::string sum;
  for (const auto& [monomial, by] : poly) {
    if (monomial.empty())
      sum += " " + smt_number(by);
    else if (by == 1)
      sum += " " + product(monomial);
    else
      sum += fmt::format(" (* {} {})", smt_number(by), product(monomial));
  }
  return poly.size() == 1 ? sum.substr(1) : fmt::format("(+{})", sum);
}

std::string Lemmas::text(const Formula& formula) {
  switch (formula.kind) {
    case Formula::Kind::AtLeastZero:
      return fmt::format("(>= {} 0)", text(formula.poly));
    case Formula::Kind::Bool: {
      const std::string name = fmt::format("b{}", formula.var);
      if (declarations_.find(fmt::format("(declare-const {} Bool)", name)) == std::string::npos)
        declarations_ += fmt::format("(declare-const {} Bool)\n", name);
      return formula.positive ? name : fmt::format("(not {})", name);
    }
    default:
      break;
  }
  const bool all = formula.kind == Formula::Kind::All;
  if (formula.parts.empty()) return all ? "true" : "false";
  std::string parts;
  for (const Formula& part : formula.parts) parts += " " + text(part);
  return fmt::format("({}{})", all ? "and" : "or", parts);
}

std::string Lemmas::about_products(const std::vector<Formula>& facts) {
  if (nonlinear_ || products_.empty()) return "";
  std::string text = multiples(facts, false);
  text += multiples(facts, true);
  text += orders();
  text += comparisons();
  return text;
}

// L1. The second time only where it brings in at most one new product.
std::string Lemmas::multiples(const std::vector<Formula>& facts, bool again) {
  std::string text;
  std::vector<Monomial> monomials;
  for (const auto& [monomial, name] : products_) monomials.push_back(monomial);
  if (monomials.size() > kMostProducts) return text;
  for (const Monomial& monomial : monomials) {
    for (const Atom factor : std::set<Atom>(monomial.begin(), monomial.end())) {
      const Monomial rest = without(monomial, {factor});
      if (!nonnegative(rest)) continue;
      for (size_t i = 0; i < facts.size(); ++i) {
        const Formula& fact = facts[i];
        if (fact.kind != Formula::Kind::AtLeastZero || fact.poly.size() > kLongestFact ||
            !fact.poly.contains({factor}))
          continue;
        const bool too_long = std::any_of(fact.poly.begin(), fact.poly.end(), [&](const auto& item) {
          return item.first.size() + rest.size() > kMostFactors;
        });
        if (too_long || done_[{rest, i}]) continue;
        const Poly times = multiply(fact.poly, Poly{{rest, 1}});
        const auto fresh = std::count_if(times.begin(), times.end(), [&](const auto& item) {
          return item.first.size() > 1 && !products_.contains(item.first);
        });
        if (again && fresh > 1) continue;
        done_[{rest, i}] = true;
        text += fmt::format("(assert {})\n", this->text(at_least_zero(times)));
      }
      // The bounds of the atom itself are facts, too.
      const AtomInfo& info = lowering_.atoms_[factor];
      if (info.low > -kInfinity && info.low != 0)
        text += fmt::format("(assert (>= {} (* {} {})))\n", product(monomial), smt_number(info.low),
                            product(rest));
      if (info.high < kInfinity)
        text += fmt::format("(assert (<= {} (* {} {})))\n", product(monomial), smt_number(info.high),
                            product(rest));
    }
  }
  return text;
}

// L2
std::string Lemmas::orders() {
  std::string text;
  std::vector<Monomial> monomials;
  for (const auto& [monomial, name] : products_) monomials.push_back(monomial);
  for (const Monomial& monomial : monomials) {
    for (const Atom factor : std::set<Atom>(monomial.begin(), monomial.end())) {
      const Monomial rest = without(monomial, {factor});
      if (!nonnegative(rest)) continue;
      const std::string x = fmt::format("a{}", factor), xc = product(monomial), c = product(rest);
      text += fmt::format(
          "(assert (=> (>= {0} 1) (>= {1} {2})))\n(assert (=> (<= {0} 0) (<= {1} 0)))\n"
          "(assert (=> (= {0} 0) (= {1} 0)))\n(assert (=> (<= {0} 1) (<= {1} {2})))\n",
          x, xc, c);
      if (lowering_.atoms_[factor].low < 0)  // says nothing of others
        text += fmt::format("(assert (=> (<= {} (- 1)) (<= {} (- {}))))\n", x, xc, c);
    }
  }
  return text;
}

// L3
std::string Lemmas::comparisons() {
  std::string text;
  std::vector<Monomial> monomials;
  for (const auto& [monomial, name] : products_) monomials.push_back(monomial);
  if (monomials.size() > kMostCompared) return text;
  for (size_t i = 0; i < monomials.size(); ++i) {
    for (size_t j = i + 1; j < monomials.size(); ++j) {
      const Monomial shared = common(monomials[i], monomials[j]);
      std::set<Monomial> parts = {shared};
      if (shared.size() > 1)
        for (const Atom atom : shared) parts.insert({atom});
      for (const Monomial& part : parts) {
        if (part.empty() || !nonnegative(part)) continue;
        const std::string x = product(without(monomials[i], part)), y = product(without(monomials[j], part)),
                          c = product(part), xc = product(monomials[i]), yc = product(monomials[j]);
        text += fmt::format(
            "(assert (=> (>= {0} (+ {1} 1)) (>= {2} (+ {3} {4}))))\n"
            "(assert (=> (>= {1} (+ {0} 1)) (>= {3} (+ {2} {4}))))\n"
            "(assert (=> (= {0} {1}) (= {2} {3})))\n",
            x, y, xc, yc, c);
      }
    }
  }
  return text;
}

}  // namespace assay::prove
