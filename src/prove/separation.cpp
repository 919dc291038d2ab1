#include "prove/separation.h"

#include <algorithm>
#include <array>
#include <optional>

namespace assay::prove {

using contract::Contract;
using contract::Shape;

namespace {

class Separation {
 public:
  using Belongs = std::function<bool(const Shape&)>;
  Separation(const Contract& contract, std::vector<const Shape*> own, std::vector<const Shape*> others,
             Belongs belongs)
      : contract_(contract), own_(std::move(own)), others_(std::move(others)), belongs_(std::move(belongs)) {}

  std::vector<Condition> run() {
    if (others_.empty()) return {};
    if (auto found = any_range(nullptr)) return {*found};
    std::vector<Condition> divisibility;
    for (const contract::Dim& dim : contract_.dims)
      for (const int64_t by : kDivisors)
        for (const auto kind : {Condition::Kind::Multiple, Condition::Kind::NoMultiple}) {
          const Condition condition{kind, dim.name, by};
          if (separates(condition)) return {condition};
          divisibility.push_back(condition);
        }
    // Of the shapes that a condition leaves, a range: the weakest condition first, so that what only happens to be
    // true of the shapes that were seen is not taken.
    const std::vector<const Shape*> all = others_;
    for (const Condition& condition : divisibility) {
      if (!holds_for_own(condition)) continue;
      others_ = all;
      std::erase_if(others_, [&](const Shape* s) { return !condition.holds(*s); });
      if (others_.size() == all.size()) continue;
      if (auto found = any_range(&condition)) return {condition, *found};
    }
    others_ = all;
    return necessary();
  }

 private:
  std::optional<Condition> any_range(const Condition* within) {
    for (const contract::Dim& dim : contract_.dims)
      for (const bool at_least : {true, false})
        if (auto found = range(dim, at_least, within)) return found;
    return std::nullopt;
  }

  bool holds_for_own(const Condition& condition) const {
    return std::all_of(own_.begin(), own_.end(), [&](const Shape* s) { return condition.holds(*s); });
  }

  // Conditions that hold for the shapes of the case, though for some others as well: for each dim the multiples that it
  // is restricted to, and the ends of its range among these.
  std::vector<Condition> necessary() {
    std::vector<Condition> multiples, ends;
    for (const contract::Dim& dim : contract_.dims) {
      const auto multiple = multiple_of(dim);
      for (const bool at_least : {true, false})
        if (auto end = end_of(dim, at_least, multiple ? &*multiple : nullptr)) ends.push_back(*end);
      if (multiple) multiples.push_back(*multiple);
    }
    std::vector<Condition> found;
    for (const Condition& end : ends)
      if (nothing_beyond(end, ends, multiples)) found.push_back(end);
    for (const Condition& multiple : multiples) {
      const bool one_value = std::any_of(found.begin(), found.end(), [&](const Condition& end) {
        return end.kind == Condition::Kind::AtLeast &&
               std::count(found.begin(), found.end(),
                          Condition{Condition::Kind::AtMost, end.dim, end.value}) > 0 &&
               end.dim == multiple.dim;
      });
      if (!one_value) found.insert(found.begin(), multiple);
    }
    return found;
  }

  // The largest power of two that the dim must be a multiple of: half of it away from a shape of the case is none.
  std::optional<Condition> multiple_of(const contract::Dim& dim) const {
    for (auto by = kDivisors.rbegin(); by != kDivisors.rend(); ++by) {
      const Condition condition{Condition::Kind::Multiple, dim.name, *by};
      if (dim.multiple_of % *by == 0 || !holds_for_own(condition)) continue;
      const std::vector<Shape> shapes = some_own();
      if (std::none_of(shapes.begin(), shapes.end(), [&](const Shape& shape) {
            return belongs_with(shape, dim, shape.at(dim.name) + *by / 2) ||
                   belongs_with(shape, dim, shape.at(dim.name) - *by / 2);
          }))
        return condition;
    }
    return std::nullopt;
  }

  // The end of the values of a dim that the case is for, on the line through its extreme shape.
  std::optional<Condition> end_of(const contract::Dim& dim, bool at_least, const Condition* within) const {
    const Shape& inside = *extreme(own_, dim.name, at_least);
    int64_t in = inside.at(dim.name), out = at_least ? dim.lowest() : dim.highest();
    if (in == out || belongs_with(inside, dim, out)) return std::nullopt;
    while (const auto middle = between(inside, dim, in, out, within))
      (belongs_(*middle) ? in : out) = middle->at(dim.name);
    return Condition{at_least ? Condition::Kind::AtLeast : Condition::Kind::AtMost, dim.name, in};
  }

  // Whether no shape beyond the end is of the case, as far as some are tried: the next ones and one further on, on the
  // lines through shapes of the case, and where other dims are at the ends of their ranges. What is for products of
  // dims, or for all but some sizes, has no end that passes this.
  bool nothing_beyond(const Condition& end, const std::vector<Condition>& ends,
                      const std::vector<Condition>& multiples) const {
    const contract::Dim& dim = *contract_.dim(end.dim);
    const bool at_least = end.kind == Condition::Kind::AtLeast;
    int64_t step = dim.multiple_of;
    for (const Condition& multiple : multiples)
      if (multiple.dim == end.dim) step = std::max(step, multiple.value);
    std::vector<Shape> lines = some_own();
    for (const contract::Dim& other : contract_.dims)
      for (const bool least : {true, false})
        if (other.name != end.dim) lines.push_back(*extreme(own_, other.name, least));
    for (const Condition& other : ends) {
      if (other.dim == end.dim) continue;
      lines.push_back(*extreme(own_, end.dim, at_least));
      lines.back()[other.dim] = other.value;
    }
    const int64_t limit = at_least ? dim.lowest() : dim.highest();
    const int64_t far = end.value + (limit - end.value) / 2 / step * step;
    for (const Shape& line : lines)
      for (const int64_t steps : {1, 2, 3, 5})
        if (belongs_with(line, dim, at_least ? end.value - steps * step : end.value + steps * step) ||
            belongs_with(line, dim, far + (at_least ? -steps : steps) * step))
          return false;
    return true;
  }

  bool belongs_with(Shape shape, const contract::Dim& dim, int64_t value) const {
    shape[dim.name] = value;
    return dim.contains(value) && contract_.check_shape(shape) && belongs_(shape);
  }

  std::vector<Shape> some_own() const {
    std::vector<Shape> shapes;
    for (size_t i = 0; i < std::min(own_.size(), kMostTried); ++i)
      shapes.push_back(*own_[i * own_.size() / std::min(own_.size(), kMostTried)]);
    return shapes;
  }

  bool separates(const Condition& condition) const {
    return holds_for_own(condition) &&
           std::none_of(others_.begin(), others_.end(), [&](const Shape* s) { return condition.holds(*s); });
  }

  // The shape whose value of the dim is the least (or the greatest).
  static const Shape* extreme(const std::vector<const Shape*>& shapes, const std::string& dim, bool least) {
    return *std::min_element(shapes.begin(), shapes.end(), [&](const Shape* a, const Shape* b) {
      return least ? a->at(dim) < b->at(dim) : a->at(dim) > b->at(dim);
    });
  }

  // `within`: what the shapes that the range is about satisfy besides.
  std::optional<Condition> range(const contract::Dim& dim, bool at_least, const Condition* within) {
    const Shape& inside = *extreme(own_, dim.name, at_least);
    int64_t in = inside.at(dim.name), out = extreme(others_, dim.name, !at_least)->at(dim.name);
    if (at_least ? out >= in : out <= in) return std::nullopt;
    while (const auto middle = between(inside, dim, in, out, within))
      (belongs_(*middle) ? in : out) = middle->at(dim.name);
    return Condition{at_least ? Condition::Kind::AtLeast : Condition::Kind::AtMost, dim.name, in};
  }

  // A shape about halfway; none: there is no such shape between the two.
  std::optional<Shape> between(const Shape& inside, const contract::Dim& dim, int64_t in, int64_t out,
                               const Condition* within) const {
    Shape middle = inside;
    const int64_t half = (in + (out - in) / 2) / dim.multiple_of * dim.multiple_of;
    for (int64_t away = 0; away <= kDivisors.back(); ++away)
      for (const int64_t value : {half - away * dim.multiple_of, half + away * dim.multiple_of}) {
        middle[dim.name] = value;
        if (std::min(in, out) < value && value < std::max(in, out) && (!within || within->holds(middle)) &&
            contract_.check_shape(middle))
          return middle;
      }
    return std::nullopt;
  }

  // Shapes that a condition is tried at. Chosen: the shapes recorded later show what holds for these by chance.
  static constexpr size_t kMostTried = 6;
  static constexpr std::array<int64_t, 8> kDivisors = {2, 4, 8, 16, 32, 64, 128, 256};

  const Contract& contract_;
  std::vector<const Shape*> own_, others_;
  Belongs belongs_;
};

}  // namespace

std::vector<Condition> separating(const Contract& contract, std::vector<const Shape*> own,
                                  std::vector<const Shape*> others,
                                  std::function<bool(const Shape&)> belongs) {
  return Separation(contract, std::move(own), std::move(others), std::move(belongs)).run();
}

}  // namespace assay::prove
