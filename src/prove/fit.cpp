// Expressions for numbers: the smallest of a small grammar that agrees with every point.
//
// Host code computes a launch from its arguments by few operations: products of dims, ceiling division by a
// tile, rounding up, a cap. The grammar is a constant; a·u + b; min(u, c) and max(u, c); u·v, where u and v
// are products of up to three dims, perhaps divided (either way) by a constant. In the place of such a product may
// stand the sum or the larger of two dims, or a number that the kernel is also given: host code that passes `pairs = T * ceil_div(H, 2)` launches
// ceil_div(pairs, 128) blocks. Simple forms are tried first, so that of two expressions that agree everywhere the one
// a person would write is found.
#include <algorithm>

#include "prove/relation.h"

namespace assay::prove {

namespace {

using EOp = Expr::Op;

constexpr int64_t kDivisors[] = {2,   3,   4,   5,   6,   7,   8,   10,   12,   16,   20,  24,
                                 28,  32,  40,  48,  56,  64,  80,  96,   112,  128,  160, 192,
                                 224, 256, 320, 384, 512, 640, 768, 1024, 2048, 4096, 8192};

constexpr Int kLargestRest = Int{1} << 50;  // of a tensor in parts, where a part begins; far below 2^62

struct Unit {
  ExprPtr expr;
  std::vector<int64_t> values;  // at each point
};

class Fitter {
 public:
  Fitter(const contract::Contract& contract, const std::vector<Point>& points,
         const std::vector<ExprPtr>& known)
      : points_(points), known_(known) {
    for (const contract::Dim& dim : contract.dims)
      if (dim.lowest() != dim.highest()) dims_.push_back(dim.name);
    for (const Point& point : points) wanted_.push_back(point.value);
  }

  ExprPtr run() {
    if (wanted_.empty()) return nullptr;
    const auto [low, high] = std::minmax_element(wanted_.begin(), wanted_.end());
    if (*low == *high) return Expr::literal(*low);
    make_units(monomials_of_dims());
    if (ExprPtr found = from_one_unit(*low, *high)) return found;
    if (ExprPtr found = product()) return found;
    units_.clear();
    make_units(pairs_of_dims());
    return from_one_unit(*low, *high);
  }

 private:
  ExprPtr from_one_unit(int64_t low, int64_t high) const {
    for (const Unit& unit : units_)
      if (unit.values == wanted_) return unit.expr;
    for (const Unit& unit : units_)
      if (ExprPtr found = linear(unit)) return found;
    for (const Unit& unit : units_)
      if (ExprPtr found = capped(unit, low, high)) return found;
    return nullptr;
  }

  // What one launch does for two tensors is sized by both: n + k, max(n, k).
  std::vector<ExprPtr> pairs_of_dims() const {
    std::vector<ExprPtr> pairs;
    for (const EOp op : {EOp::Add, EOp::Max, EOp::Min, EOp::Sub})
      for (size_t i = 0; i < dims_.size(); ++i)
        for (size_t j = 0; j < dims_.size(); ++j)
          if (op == EOp::Sub ? i != j : i < j)
            pairs.push_back(Expr::make(op, Expr::dim(dims_[i]), Expr::dim(dims_[j])));
    return pairs;
  }

  std::vector<ExprPtr> monomials_of_dims() const {
    std::vector<ExprPtr> monomials;
    for (size_t i = 0; i < dims_.size(); ++i) monomials.push_back(Expr::dim(dims_[i]));
    for (size_t i = 0; i < dims_.size(); ++i)
      for (size_t j = i + 1; j < dims_.size(); ++j)
        monomials.push_back(Expr::make(EOp::Mul, Expr::dim(dims_[i]), Expr::dim(dims_[j])));
    for (size_t i = 0; i < dims_.size(); ++i)
      for (size_t j = i + 1; j < dims_.size(); ++j)
        for (size_t k = j + 1; k < dims_.size(); ++k)
          monomials.push_back(Expr::make(
              EOp::Mul, Expr::make(EOp::Mul, Expr::dim(dims_[i]), Expr::dim(dims_[j])), Expr::dim(dims_[k])));
    monomials.insert(monomials.end(), known_.begin(), known_.end());
    return monomials;
  }

  // The monomials, and what they are when divided.
  void make_units(const std::vector<ExprPtr>& monomials) {
    for (const ExprPtr& monomial : monomials) add(monomial);
    for (const EOp op : {EOp::CeilDiv, EOp::Div, EOp::Mod})
      for (const ExprPtr& monomial : monomials)
        for (const int64_t by : kDivisors) add(Expr::make(op, monomial, Expr::literal(by)));
    // Vectors first, then tiles of them.
    for (const EOp op : {EOp::Div, EOp::CeilDiv})
      for (const ExprPtr& monomial : monomials)
        for (const int64_t width : {2, 4, 8, 16})
          for (const int64_t by : {32, 64, 128, 256, 512, 1024})
            add(Expr::make(EOp::CeilDiv, Expr::make(op, monomial, Expr::literal(width)), Expr::literal(by)));
  }

  void add(const ExprPtr& expr) {
    Unit unit{expr, {}};
    for (const Point& point : points_) {
      const auto value = evaluate(*expr, *point.shape);
      if (!value) return;
      unit.values.push_back(*value);
    }
    units_.push_back(std::move(unit));
  }

  // a·u + b, from two points at which u differs.
  ExprPtr linear(const Unit& unit) const {
    const auto [low, high] = std::minmax_element(unit.values.begin(), unit.values.end());
    const Int run = Int{*high} - *low;
    if (run == 0) return nullptr;
    const auto at = [&](auto where) { return wanted_[static_cast<size_t>(where - unit.values.begin())]; };
    const Int rise = Int{at(high)} - at(low);
    if (rise == 0 || rise % run != 0) return nullptr;
    const Int slope = rise / run, rest = at(low) - slope * *low;
    if (slope > INT32_MAX || slope < -INT32_MAX || rest > kLargestRest || rest < -kLargestRest)
      return nullptr;
    for (size_t i = 0; i < wanted_.size(); ++i)
      if (slope * unit.values[i] + rest != wanted_[i]) return nullptr;
    ExprPtr expr =
        slope == 1 ? unit.expr : Expr::make(EOp::Mul, Expr::literal(static_cast<int64_t>(slope)), unit.expr);
    if (rest > 0) expr = Expr::make(EOp::Add, expr, Expr::literal(static_cast<int64_t>(rest)));
    if (rest < 0) expr = Expr::make(EOp::Sub, expr, Expr::literal(static_cast<int64_t>(-rest)));
    return expr;
  }

  bool matches(const Unit& unit, auto change) const {
    for (size_t i = 0; i < wanted_.size(); ++i)
      if (change(unit.values[i]) != wanted_[i]) return false;
    return true;
  }

  // min(a·u, c) and max(a·u, c), where c is the largest or smallest value seen.
  ExprPtr capped(const Unit& unit, int64_t low, int64_t high) const {
    for (const int64_t by : {1, 2, 4, 8, 16, 32, 64, 128, 256}) {
      const ExprPtr scaled = by == 1 ? unit.expr : Expr::make(EOp::Mul, Expr::literal(by), unit.expr);
      if (matches(unit, [&](int64_t u) { return std::min(by * u, high); }))
        return Expr::make(EOp::Min, scaled, Expr::literal(high));
      if (matches(unit, [&](int64_t u) { return std::max(by * u, low); }))
        return Expr::make(EOp::Max, scaled, Expr::literal(low));
      if (matches(unit, [&](int64_t u) { return std::max(std::min(by * u, high), low); }))
        return Expr::make(EOp::Max, Expr::make(EOp::Min, scaled, Expr::literal(high)), Expr::literal(low));
    }
    return nullptr;
  }

  ExprPtr product() const {
    for (size_t i = 0; i < units_.size(); ++i) {
      const Unit& a = units_[i];
      const bool divides = std::equal(wanted_.begin(), wanted_.end(), a.values.begin(),
                                      [](int64_t w, int64_t u) { return u != 0 ? w % u == 0 : w == 0; });
      if (!divides) continue;
      for (const Unit& b : units_) {
        bool all = true;
        for (size_t p = 0; all && p < wanted_.size(); ++p) all = Int{a.values[p]} * b.values[p] == wanted_[p];
        if (all) return Expr::make(EOp::Mul, a.expr, b.expr);
      }
      if (ExprPtr found = scaled_product(a)) return found;
    }
    return nullptr;
  }

  // c·u·v
  ExprPtr scaled_product(const Unit& a) const {
    for (const Unit& b : units_) {
      const Int first = Int{a.values[0]} * b.values[0];
      if (first == 0 || wanted_[0] % first != 0) continue;
      const Int factor = wanted_[0] / first;
      if (factor > INT32_MAX || factor < 1) continue;
      bool all = true;
      for (size_t p = 0; all && p < wanted_.size(); ++p)
        all = factor * a.values[p] * b.values[p] == wanted_[p];
      if (all)
        return Expr::make(EOp::Mul, Expr::make(EOp::Mul, Expr::literal(static_cast<int64_t>(factor)), a.expr),
                          b.expr);
    }
    return nullptr;
  }

  const std::vector<Point>& points_;
  const std::vector<ExprPtr>& known_;
  std::vector<std::string> dims_;
  std::vector<int64_t> wanted_;
  std::vector<Unit> units_;
};

}  // namespace

ExprPtr fit(const contract::Contract& contract, const std::vector<Point>& points,
            const std::vector<ExprPtr>& known) {
  return Fitter(contract, points, known).run();
}

}  // namespace assay::prove
