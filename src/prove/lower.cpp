#include "prove/lower.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace assay::prove {

namespace {

constexpr double kWrapSeconds = 0.6;  // for showing that a value does not wrap

bool is_constant(const Poly& poly) {
  return poly.empty() || (poly.size() == 1 && poly.begin()->first.empty());
}
Int constant_of(const Poly& poly) {
  return poly.empty() ? 0 : poly.begin()->second;
}

// The largest power of two that divides every value of the polynomial.
Int power_of_two_in(const Poly& poly) {
  Int power = Int{1} << 62;
  for (const auto& [monomial, by] : poly) power = std::min(power, by & -by);
  return power;
}

Poly divided_by(const Poly& poly, const Monomial& factor, Int times) {
  Poly result;
  for (const auto& [monomial, by] : poly) result[without(monomial, factor)] = by / times;
  return result;
}

Int below_power_of_two(Int value) {  // the least 2^n - 1 that is at least `value`
  Int power = 1;
  while (power <= value) power *= 2;
  return power - 1;
}

}  // namespace

Interval range_of(unsigned width, bool is_signed) {
  if (is_signed) return {-(Int{1} << (width - 1)), (Int{1} << (width - 1)) - 1};
  return {0, (Int{1} << width) - 1};
}

Lowering::Lowering(Terms& terms, const Summary& summary, Claims* claims, Solver& solver)
    : terms_(terms), summary_(summary), claims_(claims), solver_(solver) {}

void Lowering::set_deadline(double seconds) {
  deadline_ = work_seconds() + seconds;
}
bool Lowering::out_of_time() const {
  return work_seconds() > deadline_;
}

// ---- terms

Poly Lowering::poly(Term term) {
  if (const auto found = polys_.find(term); found != polys_.end()) return found->second;
  if (out_of_time()) throw TooHard{"time ran out"};
  Poly result = lowered(term);
  return polys_[term] = std::move(result);
}

Poly Lowering::lowered(Term term) {
  const Node node = terms_[term];
  switch (node.op) {
    case Op::Const:
      return constant_poly(signed_of(node.value, node.width));
    case Op::Var: {
      const auto var = static_cast<Var>(node.value);
      const Atom atom = atom_of(var);
      return atom_poly(atom, terms_.var(var).multiple_of);
    }
    case Op::Add:
      return add(poly(node.a), poly(node.b));
    case Op::Mul:
      return multiply(poly(node.a), poly(node.b));
    case Op::Trunc:
      return poly(node.a);
    case Op::ZExt:
      return unsigned_value(node.a);
    case Op::SExt:
      return signed_value(node.a);
    case Op::UDiv:
    case Op::URem:
    case Op::SDiv:
    case Op::SRem:
    case Op::LShr:
    case Op::AShr:
      return lowered_division(term, node);
    case Op::And:
      return lowered_mask(term, node);
    case Op::Or:
    case Op::Xor:
      return lowered_disjunction(term, node);
    case Op::Ite:
      return lowered_choice(node);
    default:
      return unknown_poly(term, kInfinity);
  }
}

// Any value of the term's width up to `high`: weaker than the truth, so that a proof stands and a model may
// not.
Poly Lowering::unknown_poly(Term term, Int high) {
  imprecise_ = true;
  const Int most = static_cast<Int>(mask_of(std::min(terms_.width(term), 120u)));
  if (high < 0) high = most;  // of a counter before its first iteration, where nothing depends on it
  return atom_poly(atom(fmt::format("unknown{}", atoms_.size()), 0, std::min(high, most),
                        fmt::format("bits of {}", term), terms_.mentions(term)));
}

Poly Lowering::lowered_division(Term term, const Node& node) {
  if (node.op == Op::LShr || node.op == Op::AShr) {
    const bool is_signed = node.op == Op::AShr;
    const Poly value = is_signed ? signed_value(node.a) : unsigned_value(node.a);
    const auto by = terms_.value(node.b);
    if (by) {
      const unsigned amount =
          static_cast<unsigned>(std::min<Bits>(*by, is_signed ? node.width - 1 : node.width));
      if (amount >= 100) throw TooHard{"a shift by very much"};
      // The value lies within its type, too: a number that is not negative has no sign bit to shift down.
      const Interval seen = interval(value), type = range_of(node.width, is_signed);
      const Int divisor = Int{1} << amount;
      const Int low = floor_div(std::max(seen.low, type.low), divisor),
                high = floor_div(std::min(seen.high, type.high), divisor);
      if (low == high) return constant_poly(low);
      return divided(value, constant_poly(divisor)).first;
    }
    // x >> n is between 0 and x.
    if (is_signed) return unknown_poly(term, kInfinity);
    Poly result = unknown_poly(term, interval(value).high);
    assume(any_of({at_least_zero(plus(scale(value, -1), -1)), at_least_zero(add(value, result, -1))}));
    return result;
  }
  const bool is_signed = node.op == Op::SDiv || node.op == Op::SRem;
  const bool quotient = node.op == Op::UDiv || node.op == Op::SDiv;
  const Poly x = is_signed ? signed_value(node.a) : unsigned_value(node.a);
  const Poly d = is_signed ? signed_value(node.b) : unsigned_value(node.b);
  if (!proves(at_least_zero(plus(d, -1)), kWrapSeconds)) return unknown_poly(term, kInfinity);
  if (!is_signed || proves(at_least_zero(x), kWrapSeconds)) {
    const auto [q, r] = divided(x, d);
    return quotient ? q : r;
  }
  // Towards zero: x = d q + r, |r| < d, and r has the sign of x.
  const Interval range = interval(x);
  const Int most = std::max(range.high, -range.low), widest = interval(d).high;
  const Atom q = derived("quotient", -most, most, {x, d}),
             r = derived("remainder", -std::min(most, widest), std::min(most, widest), {x, d});
  assume(equal_to_zero(add(add(x, multiply(d, atom_poly(q)), -1), atom_poly(r), -1)));
  const Formula positive = all_of(
      {at_least_zero(x), at_least_zero(atom_poly(r)), at_least_zero(plus(add(d, atom_poly(r), -1), -1))});
  const Formula negative = all_of({at_least_zero(plus(scale(x, -1), -1)), at_least_zero(atom_poly(r, -1)),
                                   at_least_zero(plus(add(d, atom_poly(r)), -1))});
  assume(any_of({positive, negative}));
  return atom_poly(quotient ? q : r);
}

// x & 0…01…1 0…0: a remainder, less the remainder of what the zeros below leave out. None for other masks.
std::optional<Poly> Lowering::masked(Term term, Bits mask) {
  const unsigned width = terms_.width(term);
  if (mask == 0) return Poly{};
  const Bits lowest = mask & -mask, ones = mask / lowest;
  if ((ones & (ones + 1)) != 0) return std::nullopt;
  const Bits above = lowest * (ones + 1);  // 2^(number of the first bit above the mask)
  const bool to_the_top = width < 128 && above == Bits{1} << width;
  Poly value =
      to_the_top ? unsigned_value(term) : divided(poly(term), constant_poly(static_cast<Int>(above))).second;
  if (lowest > 1) value = add(value, divided(value, constant_poly(static_cast<Int>(lowest))).second, -1);
  return value;
}

Poly Lowering::lowered_mask(Term term, const Node& node) {
  const auto mask = terms_.value(node.b);
  if (!mask) {
    const Int a = interval(unsigned_value(node.a)).high, b = interval(unsigned_value(node.b)).high;
    return unknown_poly(term, std::min(a, b));
  }
  if (const auto value = masked(node.a, *mask)) return *value;
  return unknown_poly(term, static_cast<Int>(*mask));
}

// Numbers without common bits are joined by adding. With a constant c: x | c = x + c - (x & c), and x ^ c = x + c -
// 2 (x & c), bit by bit.
Poly Lowering::lowered_disjunction(Term term, const Node& node) {
  const Poly a = poly(node.a), b = poly(node.b);
  const auto below = [&](const Poly& x, const Poly& y) {
    const Interval range = interval(x);
    return range.low >= 0 && range.high < power_of_two_in(y);
  };
  if (below(a, b) || below(b, a)) return add(a, b);
  if (const auto bits = terms_.value(node.b))
    if (const auto common = masked(node.a, *bits))
      return add(add(a, b), *common, node.op == Op::Xor ? -2 : -1);
  const Int x = interval(unsigned_value(node.a)).high, y = interval(unsigned_value(node.b)).high;
  return unknown_poly(term, below_power_of_two(std::max(x, y)));
}

Poly Lowering::lowered_choice(const Node& node) {
  const Formula test = formula(node.a);
  Poly x = poly(node.b), y = poly(node.c);
  if (x == y) return x;
  // A 64-bit division is one of 32 bits where that will do, and the remainder is x - (x / d) d on one side and x % d on the other.
  if (Poly same = without_quotients(x); same == without_quotients(y)) return same;
  // Narrow values are taken as such, so that the result has a value of its own; a common base is kept
  // outside.
  if (node.width <= 32) x = signed_value(node.b), y = signed_value(node.c);
  Poly common;
  for (const auto& [monomial, by] : x) {
    const auto other = y.find(monomial);
    if (other != y.end() && other->second == by && monomial.size() == 1) common[monomial] = by;
  }
  x = add(x, common, -1);
  y = add(y, common, -1);
  // 0 or c z s, for a stride s that all threads agree on, is c (0 or z) s: a multiple of c s, as it was.
  const Monomial factor = y.empty() ? agreed_factor(x) : x.empty() ? agreed_factor(y) : Monomial{};
  Int times = factor.empty() ? 1 : 0;
  if (!factor.empty()) {
    for (const Poly* side : {&x, &y})
      for (const auto& [monomial, by] : *side) times = common_divisor(times, by);
    x = divided_by(x, factor, times);
    y = divided_by(y, factor, times);
  }
  const Interval a = interval(x), b = interval(y);
  const Atom choice = derived("chosen", std::min(a.low, b.low), std::max(a.high, b.high), {x, y},
                              fmt::format(" by {}", node.a));
  depend_on(choice, terms_.mentions(node.a));
  const Poly chosen = atom_poly(choice);
  assume(any_of({negated(test), equal_to_zero(add(chosen, x, -1))}));
  assume(any_of({test, equal_to_zero(add(chosen, y, -1))}));
  return add(multiply(chosen, Poly{{factor, times}}), common);
}

Monomial Lowering::agreed_factor(const Poly& poly) const {
  if (poly.empty()) return {};
  Monomial factor = poly.begin()->first;
  for (const auto& [monomial, by] : poly) {
    Monomial both;
    std::set_intersection(factor.begin(), factor.end(), monomial.begin(), monomial.end(),
                          std::back_inserter(both));
    factor = std::move(both);
  }
  std::erase_if(factor, [&](Atom atom) {
    const std::vector<Var>& vars = atoms_[atom].depends;
    return std::any_of(vars.begin(), vars.end(), [&](Var v) { return terms_.var(v).kind != VarKind::Dim; });
  });
  return factor;
}

// x = d q + r with 0 <= r < d, for d >= 1. Terms of x that d divides are split off first, d being a constant or a product:
// (w d + x) / d = w + x / d, and the remainder is that of x.
std::pair<Poly, Poly> Lowering::divided(const Poly& value, const Poly& divisor) {
  Poly whole, x = value;
  const bool by_constant = is_constant(divisor);
  const Int c = by_constant ? std::max<Int>(constant_of(divisor), 1) : 0;
  if (by_constant) {
    if (c == 1) return {value, {}};
    Poly rest;
    for (const auto& [monomial, by] : value) {
      if (by % c == 0)
        whole[monomial] = by / c;
      else
        rest[monomial] = by;
    }
    const Interval range = interval(rest);
    if (range.low >= 0 && range.high < c) return {whole, rest};
    // g x / (g c) is x / c, and the remainder is g times as large: of bytes as of elements.
    Int common = c;
    for (const auto& [monomial, by] : rest) common = common_divisor(common, by);
    if (common > 1) {
      const auto [q, r] = divided(divided_by(rest, {}, common), constant_poly(c / common));
      return {add(whole, q), scale(r, common)};
    }
    x = std::move(rest);
  } else if (divisor.size() == 1) {
    const Monomial& factors = divisor.begin()->first;
    const Int times = divisor.begin()->second;
    Poly rest;
    for (const auto& [monomial, by] : value) {
      if (by % times == 0 && std::includes(monomial.begin(), monomial.end(), factors.begin(), factors.end()))
        whole[without(monomial, factors)] += by / times;
      else
        rest[monomial] = by;
    }
    if (rest.empty()) return {whole, {}};
    // m x / (m c) is x / c, and the remainder is m times as large: m c >= 1, so m >= 1 for a c >= 1.
    const bool common =
        times > 1 && std::all_of(rest.begin(), rest.end(), [&](const auto& item) {
          return std::includes(item.first.begin(), item.first.end(), factors.begin(), factors.end());
        });
    if (common) {
      const auto [q, r] = divided(divided_by(rest, factors, 1), constant_poly(times));
      return {add(whole, q), multiply(r, Poly{{factors, 1}})};
    }
    x = std::move(rest);
  }
  const auto key = std::pair{x, divisor};
  auto found = divisions_.find(key);
  if (found == divisions_.end()) {
    const Interval range = interval(x), d = interval(divisor);
    const Int least = std::max<Int>(d.low, 1);
    const Int low = range.low >= 0 ? 0 : range.low <= -kInfinity ? -kInfinity : floor_div(range.low, least);
    const Int high = range.high >= kInfinity ? kInfinity : range.high >= 0 ? range.high / least : -1;
    const Atom q = derived("q", low, high, {x, divisor});
    const Int widest = d.high >= kInfinity ? kInfinity : d.high - 1;
    const Atom r = derived("r", 0, range.low >= 0 ? std::min(widest, range.high) : widest, {x, divisor});
    found = divisions_.emplace(key, std::pair{q, r}).first;
    if (by_constant)
      for (const auto& [monomial, by] : x)
        if (monomial.size() == 1 && atoms_[monomial.front()].is_dim && (by == 1 || by == -1)) {
          // dim = by * (c q + r - the rest of x)
          const Poly rest = add(x, atom_poly(monomial.front()), -by);
          const Poly other = add(add(atom_poly(q, c), atom_poly(r)), rest, -1);
          eliminations_.push_back({monomial.front(), scale(other, by), c});
          const std::vector<Formula> earlier = facts_;
          for (const Formula& fact : earlier)
            if (Formula more = strengthened(fact); more.kind == Formula::Kind::All)
              for (Formula& part : more.parts) facts_.push_back(std::move(part));
          break;
        }
    assume(equal_to_zero(add(add(x, multiply(divisor, atom_poly(q)), -1), atom_poly(r), -1)));
    if (!by_constant) {
      assume(at_least_zero(plus(add(divisor, atom_poly(r), -1), -1)));
      const std::vector<Formula> earlier = facts_;
      for (const Formula& fact : earlier)
        if (auto more = with_quotients(fact, {x, divisor, q, r})) facts_.push_back(std::move(*more));
    }
  }
  const auto [q, r] = found->second;
  return {add(whole, atom_poly(q)), atom_poly(r)};
}

std::optional<Division> Lowering::division(Atom atom) const {
  for (const auto& [operands, results] : divisions_)
    if (results.first == atom || results.second == atom)
      return Division{operands.first, operands.second, results.first, results.second};
  return std::nullopt;
}

// ---- exact values

Poly Lowering::signed_value(Term term) {
  if (const auto found = signed_.find(term); found != signed_.end()) return found->second;
  Poly value = exact(term, true);
  return signed_[term] = std::move(value);
}
Poly Lowering::unsigned_value(Term term) {
  if (const auto found = unsigned_.find(term); found != unsigned_.end()) return found->second;
  Poly value = exact(term, false);
  return unsigned_[term] = std::move(value);
}

Poly Lowering::exact(Term term, bool is_signed) {
  const unsigned width = terms_.width(term);
  Poly value = poly(term);
  const Interval seen = interval(value);
  if (width > 64) {  // a product of 64-bit values, which 128 bits hold
    if (seen.low <= (is_signed ? -kInfinity : -1) || seen.high >= kInfinity)
      throw TooHard{"a 128-bit product"};
    return value;
  }
  const Interval range = range_of(width, is_signed);
  const auto lies_within = [&](const Interval& i) { return i.low >= range.low && i.high <= range.high; };
  if (trusting_ || lies_within(seen)) return value;
  if (Poly same = without_quotients(value); same != value && lies_within(interval(same))) return same;
  const auto& claimed = is_signed ? exact_signed_ : exact_unsigned_;
  const auto& other = is_signed ? exact_unsigned_ : exact_signed_;
  const Term canonical = terms_.canonical(term);
  if (const auto found = claimed.find(canonical); found != claimed.end()) return found->second;
  const auto within = [&](const Poly& p) {
    return all_of({at_least_zero(plus(p, -range.low)), at_least_zero(plus(scale(p, -1), range.high))});
  };
  if (const auto found = other.find(canonical);
      found != other.end() && proves(within(found->second), kWrapSeconds))
    return found->second;
  if (proves(within(value), kWrapSeconds)) return value;
  // Terms with one polynomial have one value. Each is noted: which of them an address is built on matters (overflow.cpp).
  if (const auto known = wrapped_.find({value, width, is_signed}); known != wrapped_.end()) {
    wraps_.push_back({term, is_signed, known->second.second});
    return atom_poly(known->second.first);
  }
  const Int modulus = Int{1} << width;
  const Atom wrapped =
      atom("wrapped", range.low, range.high,
           fmt::format("{} value of {}", is_signed ? "signed" : "unsigned", term), terms_.mentions(term));
  const Int low = seen.low <= -kInfinity ? -kInfinity : floor_div(seen.low - range.high, modulus);
  const Int high = seen.high >= kInfinity ? kInfinity : floor_div(seen.high - range.low, modulus) + 1;
  const Atom times = derived("wraps", low, high, {value, atom_poly(wrapped)});
  assume(equal_to_zero(add(add(value, atom_poly(wrapped), -1), atom_poly(times), -modulus)));
  wraps_.push_back({term, is_signed, times});
  wrapped_[{value, width, is_signed}] = {wrapped, times};
  return atom_poly(wrapped);
}

// ---- truth

Formula Lowering::formula(Term term) {
  const Node node = terms_[term];
  switch (node.op) {
    case Op::Const:
      return node.value ? all_of({}) : any_of({});
    case Op::Var: {
      const auto var = static_cast<Var>(node.value);
      return {Formula::Kind::Bool, {}, {}, var, true};
    }
    case Op::Not:
      return negated(formula(node.a));
    case Op::Both:
      return all_of({formula(node.a), formula(node.b)});
    case Op::Eq:
      return equality(node);
    default:
      return compared(node);
  }
}

Formula Lowering::compared(const Node& node) {
  const bool is_signed = node.op == Op::Slt || node.op == Op::Sle;
  const Poly a = is_signed ? signed_value(node.a) : unsigned_value(node.a);
  const Poly b = is_signed ? signed_value(node.b) : unsigned_value(node.b);
  const bool strict = node.op == Op::Slt || node.op == Op::Ult;
  return at_least_zero(plus(add(b, a, -1), strict ? -1 : 0));
}

Formula Lowering::equality(const Node& node) {
  // (x | y) & 1…10…0 == 0: both are below the lowest one. How 64-bit division asks whether 32 bits will do.
  const Node left = terms_[node.a];
  if (terms_.value(node.b) == Bits{0} && left.op == Op::And && terms_.is_constant(left.b) &&
      terms_[left.a].op == Op::Or) {
    const Bits mask = *terms_.value(left.b), lowest = mask & -mask;
    if (((mask + lowest) & mask_of(left.width)) == 0) {
      const Node either = terms_[left.a];
      const Int limit = static_cast<Int>(lowest) - 1;
      return all_of({at_least_zero(plus(scale(unsigned_value(either.a), -1), limit)),
                     at_least_zero(plus(scale(unsigned_value(either.b), -1), limit))});
    }
  }
  const bool positive = interval(poly(node.a)).low >= 0 && interval(poly(node.b)).low >= 0;
  const auto value = [&](Term term) { return positive ? unsigned_value(term) : signed_value(term); };
  return equal_to_zero(add(value(node.a), value(node.b), -1));
}

}  // namespace assay::prove
