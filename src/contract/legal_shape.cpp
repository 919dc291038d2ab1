// Moves one dim at a time until every condition holds. A condition that does not hold names the dims that could be
// moved; for each of them the nearest value is searched for which it holds, and the one that breaks the fewest other
// conditions and moves by the smallest factor is taken.
#include "contract/legal_shape.h"

#include <algorithm>
#include <cmath>

namespace assay::contract {
namespace {

// Values of a dim tried next to each other, in both directions, before the distance is doubled: enough for a multiple
// of any divisor up to twice that.
constexpr int64_t kNeighbours = 1024;
constexpr int kMostMoves = 16;  // of dims, before a shape is given up

class Search {
 public:
  Search(const Contract& contract, Shape shape, std::string_view keep)
      : contract_(contract), shape_(std::move(shape)), keep_(keep) {}

  std::optional<Shape> run() {
    for (int moves = 0; moves <= kMostMoves; ++moves) {
      const std::optional<std::vector<std::string>> broken = first_broken();
      if (!broken) return std::move(shape_);
      if (!move_one(*broken)) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  static bool fits(const DerivedDim& dim, const Shape& shape) {
    const Result<int64_t> value = dim.value.eval(shape);
    return value && *value >= info(dim.type).min_integer && *value <= info(dim.type).max_integer;
  }

  int broken_at(const Shape& shape) const {
    const auto unmet = std::ranges::count_if(
        contract_.relations, [&](const DimRelation& relation) { return !relation.holds(shape); });
    const auto large =
        std::ranges::count_if(contract_.derived, [&](const DerivedDim& dim) { return !fits(dim, shape); });
    return static_cast<int>(unmet + large);
  }

  // The dims of the first condition that does not hold.
  std::optional<std::vector<std::string>> first_broken() const {
    for (const DimRelation& relation : contract_.relations)
      if (!relation.holds(shape_)) return relation.dims();
    for (const DerivedDim& dim : contract_.derived)
      if (!fits(dim, shape_)) return dim.value.dims();
    return std::nullopt;
  }

  // Smaller shapes cost less: a dim is made larger only where none can be made smaller.
  bool move_one(const std::vector<std::string>& names) { return move_one(names, -1) || move_one(names, 1); }

  bool move_one(const std::vector<std::string>& names, int sign) {
    std::optional<Shape> best;
    int least = broken_at(shape_);
    double smallest = INFINITY;
    for (const std::string& name : names) {
      const Dim& dim = *contract_.dim(name);
      if (dim.is_constant() || name == keep_) continue;
      const std::optional<int64_t> value = nearest_value(dim, sign);
      if (!value) continue;
      Shape moved = shape_;
      moved[name] = *value;
      const int broken = broken_at(moved);
      const double now = static_cast<double>(shape_[name]) + 1, then = static_cast<double>(*value) + 1;
      const double factor = std::abs(std::log(then / now));
      if (broken > least || (broken == least && factor >= smallest)) continue;
      least = broken;
      smallest = factor;
      best = std::move(moved);
    }
    if (best) shape_ = std::move(*best);
    return best.has_value();
  }

  // Fewer conditions are broken there than now.
  std::optional<int64_t> nearest_value(const Dim& dim, int sign) {
    const int64_t now = shape_[dim.name], step = sign * dim.multiple_of;
    const int64_t widest = ((sign < 0 ? dim.lowest() : dim.highest()) - now) / step;
    const int broken = broken_at(shape_);
    Shape tried = shape_;
    const auto is_better = [&](int64_t distance) {
      tried[dim.name] = now + distance * step;
      return broken_at(tried) < broken;
    };
    for (int64_t distance = 1; distance <= std::min(widest, kNeighbours); ++distance)
      if (is_better(distance)) return now + distance * step;
    for (int64_t distance = kNeighbours; distance < widest; distance *= 2) {
      const int64_t far = std::min(2 * distance, widest);
      if (is_better(far)) return now + step * nearest_between(distance, far, is_better);
    }
    return std::nullopt;
  }

  // The least distance that is good, where `from` is not and `to` is, if the good ones have no gap.
  template <class Good>
  static int64_t nearest_between(int64_t from, int64_t to, Good good) {
    while (to - from > 1) {
      const int64_t middle = from + (to - from) / 2;
      (good(middle) ? to : from) = middle;
    }
    return to;
  }

  const Contract& contract_;
  Shape shape_;
  std::string_view keep_;
};

}  // namespace

std::optional<Shape> legal_shape(const Contract& contract, Shape shape, std::string_view keep) {
  if (contract.relations.empty() && contract.derived.empty()) return shape;
  return Search(contract, std::move(shape), keep).run();
}

}  // namespace assay::contract
