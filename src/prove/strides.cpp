#include "prove/strides.h"

#include <algorithm>
#include <utility>

namespace assay::prove {

namespace {

// The dims of a monomial, and its other factors.
std::pair<Monomial, Monomial> split(const Lowering& lowering, const Monomial& monomial) {
  Monomial dims, rest;
  for (const Atom atom : monomial) (lowering.atoms()[atom].is_dim ? dims : rest).push_back(atom);
  return {dims, rest};
}

// poly / (c * monomial), where that is exact.
std::optional<Poly> quotient(const Poly& poly, Int c, const Monomial& monomial) {
  Poly result;
  for (const auto& [factors, by] : poly) {
    if (by % c != 0 || !std::includes(factors.begin(), factors.end(), monomial.begin(), monomial.end()))
      return std::nullopt;
    Monomial left;
    std::set_difference(factors.begin(), factors.end(), monomial.begin(), monomial.end(),
                        std::back_inserter(left));
    result[left] = by / c;
  }
  return result;
}

}  // namespace

std::optional<std::vector<Formula>> bounds_by_strides(const Lowering& lowering, const Poly& offset,
                                                      const Poly& size, Int bytes) {
  std::vector<Formula> needed;
  Poly rest = offset, within = size;
  for (;;) {
    Monomial stride;
    for (const auto& [monomial, by] : rest)
      if (Monomial dims = split(lowering, monomial).first; dims.size() > stride.size())
        stride = std::move(dims);
    if (stride.empty()) break;
    // A dim is never negative, so a product of dims is not either: s >= 0.
    if (std::any_of(stride.begin(), stride.end(), [&](Atom a) { return lowering.atoms()[a].low < 0; }))
      return std::nullopt;
    Int c = 0;
    for (const auto& [monomial, by] : rest)
      if (split(lowering, monomial).first == stride) c = common_divisor(c, by);
    for (const auto& [monomial, by] : within) c = common_divisor(c, by);
    const auto extent = quotient(within, c, stride);
    if (!extent) return std::nullopt;
    Poly row, column;
    for (const auto& [monomial, by] : rest) {
      auto [dims, others] = split(lowering, monomial);
      if (dims == stride)
        row[others] = by / c;
      else
        column[monomial] = by;
    }
    needed.push_back(at_least_zero(row));
    needed.push_back(at_least_zero(plus(add(*extent, row, -1), -1)));
    rest = std::move(column);
    within = Poly{{stride, c}};
  }
  if (needed.empty()) return std::nullopt;
  needed.push_back(at_least_zero(rest));
  needed.push_back(at_least_zero(plus(add(within, rest, -1), -bytes)));
  return needed;
}

// ---- delinearising

Poly Lowering::delinearised(const Poly& poly) {
  std::map<Monomial, Poly> by_stride;
  for (const auto& [monomial, by] : poly) {
    Monomial stride, rest;
    for (const Atom atom : monomial) (atoms_[atom].is_dim ? stride : rest).push_back(atom);
    by_stride[stride][rest] = by;
  }
  Poly result;
  for (const auto& [stride, rows] : by_stride) {
    if (stride.empty() || rows.size() == 1) {
      result = add(result, multiply(rows, Poly{{stride, 1}}));
      continue;
    }
    Int divisor = 0;
    for (const auto& [monomial, by] : rows) divisor = common_divisor(divisor, by);
    Poly row;
    for (const auto& [monomial, by] : rows) row[monomial] = by / divisor;
    auto known = groups_.find(row);
    if (known == groups_.end()) {
      const Interval range = interval(row);
      known = groups_.emplace(row, derived("row", range.low, range.high, {row})).first;
      assume(equal_to_zero(add(atom_poly(known->second), row, -1)));
    }
    result = add(result, multiply(atom_poly(known->second, divisor), Poly{{stride, 1}}));
  }
  return result;
}

// Ends: each step puts atoms that are older than q in its place, and a remainder, which is no quotient.
Poly Lowering::without_quotients(Poly poly) const {
  for (auto division = divisions_.rbegin(); division != divisions_.rend();) {
    const auto& [x, divisor] = division->first;
    const auto [q, r] = division->second;
    ++division;
    if (divisor.size() != 1 || divisor.begin()->first.empty()) continue;
    Monomial product = divisor.begin()->first;
    product.insert(std::upper_bound(product.begin(), product.end(), q), q);
    const auto found =
        std::find_if(poly.begin(), poly.end(), [&, &by = divisor.begin()->second](const auto& item) {
          return item.second % by == 0 &&
                 std::includes(item.first.begin(), item.first.end(), product.begin(), product.end());
        });
    if (found == poly.end()) continue;
    Monomial rest;
    std::set_difference(found->first.begin(), found->first.end(), product.begin(), product.end(),
                        std::back_inserter(rest));
    const Int by = found->second / divisor.begin()->second;
    poly.erase(found);
    poly = add(poly, multiply(Poly{{rest, by}}, add(x, atom_poly(r), -1)));
    division = divisions_.rbegin();
  }
  return poly;
}

// Ends: what comes in the place of a remainder is older than it, apart from its quotient, which is no remainder.
Poly Lowering::without_remainders(Poly poly) const {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [operands, results] : divisions_) {
      const auto& [x, divisor] = operands;
      const auto [q, r] = results;
      if (divisor.size() != 1) continue;
      const auto found = poly.find({r});
      if (found == poly.end()) continue;
      const Int by = found->second;
      poly.erase(found);
      poly = add(poly, scale(add(x, multiply(divisor, atom_poly(q)), -1), by));
      changed = true;
    }
  }
  return poly;
}

}  // namespace assay::prove
