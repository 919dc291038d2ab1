// Which relations hold for a contract, and the calls that show them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

#include "base/random.h"
#include "judge/relations.h"

namespace assay::judge {

using contract::Bindings;
using contract::Contract;
using contract::Dim;
using contract::IntExpr;
using contract::Tensor;
using contract::TensorSpec;
using contract::ValuesKind;
using reference::Expectation;
using reference::Reference;

namespace {

// A factor of inputs, a power of two: exact in every format. Its root is a power of two as well. Pinned by
// Relations.FollowFromTheReference (tests/judge/relations_test.cpp).
constexpr double kScale = 4;
constexpr int kMostPower = 3;        // of it that an output may go with; chosen
constexpr std::size_t kLook = 64;    // elements on which a relation is tried; chosen
constexpr int64_t kMorePadding = 3;  // legal steps of a dim by which a padded call is longer; chosen

std::vector<int64_t> some_elements(int64_t count, uint64_t seed) {
  Random random(seed);
  std::vector<int64_t> elements = {0, count - 1};
  while (elements.size() < std::min<std::size_t>(kLook, static_cast<std::size_t>(count)))
    elements.push_back(random.between(0, count - 1));
  std::sort(elements.begin(), elements.end());
  elements.erase(std::unique(elements.begin(), elements.end()), elements.end());
  return elements;
}

std::optional<int64_t> count_of(const TensorSpec& spec, const contract::Shape& shape) {
  const auto extents = spec.extents(shape);
  if (!extents) return std::nullopt;
  return std::accumulate(extents->begin(), extents->end(), int64_t{1}, std::multiplies<>());
}

// The power of the scale by which `after` exceeds `before`, everywhere and to the bit: powers of two pass
// through FP64 as they do through any other precision.
std::optional<int> power_between(const Expectation& before, const Expectation& after) {
  std::optional<int> power;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (!std::isfinite(before.value[i]) || !std::isfinite(after.value[i])) return std::nullopt;
    if (before.flags[i] != after.flags[i]) return std::nullopt;
    if (before.value[i] == 0 && after.value[i] == 0) continue;
    const double ratio = after.value[i] / before.value[i];
    const int here = static_cast<int>(std::lround(std::log2(std::abs(ratio)) / std::log2(kScale)));
    if (std::abs(here) > kMostPower || after.value[i] != before.value[i] * std::pow(kScale, here))
      return std::nullopt;
    if (power.value_or(here) != here) return std::nullopt;
    power = here;
  }
  return power;
}

// The sign that negation gives: 1, -1, or neither.
std::optional<double> sign_between(const Expectation& before, const Expectation& after) {
  for (const double sign : {-1.0, 1.0}) {
    bool holds = true;
    for (std::size_t i = 0; i < before.size(); ++i) holds &= after.value[i] == sign * before.value[i];
    if (holds) return sign;
  }
  return std::nullopt;
}

std::vector<int64_t> identity(int64_t count) {
  std::vector<int64_t> from(static_cast<std::size_t>(count));
  std::iota(from.begin(), from.end(), int64_t{0});
  return from;
}

bool uses(const IntExpr& expression, const std::string& dim) {
  const std::vector<std::string> dims = expression.dims();
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

// The axis of a tensor that is exactly this dim; -1: the tensor does not know it. None: it is there in
// another way as well.
std::optional<int> axis_of(const TensorSpec& spec, const std::string& dim) {
  int axis = -1;
  for (std::size_t i = 0; i < spec.shape.size(); ++i) {
    if (!uses(spec.shape[i], dim)) continue;
    if (axis >= 0 || spec.shape[i].text() != dim) return std::nullopt;
    axis = static_cast<int>(i);
  }
  return axis;
}

// Elements as (outer, along the axis, inner).
struct Axis {
  int64_t extent, inner;
  Axis(const std::vector<int64_t>& extents, int axis) : extent(extents[static_cast<std::size_t>(axis)]) {
    inner = std::accumulate(extents.begin() + axis + 1, extents.end(), int64_t{1}, std::multiplies<>());
  }
  int64_t along(int64_t element) const { return element / inner % extent; }
  // The same place among `others` along the axis, which is `other_extent` long there.
  int64_t moved(int64_t element, int64_t other, int64_t other_extent) const {
    return (element / (inner * extent) * other_extent + other) * inner + element % inner;
  }
};

// For every element of a tensor whose slices along an axis are slices `rows` of another: that other's
// element.
std::vector<int64_t> taken_from(const std::vector<int64_t>& extents, int axis,
                                const std::vector<int64_t>& rows, int64_t other_extent) {
  const Axis along(extents, axis);
  const int64_t count = std::accumulate(extents.begin(), extents.end(), int64_t{1}, std::multiplies<>());
  std::vector<int64_t> from(static_cast<std::size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    from[static_cast<std::size_t>(i)] =
        along.moved(i, rows[static_cast<std::size_t>(along.along(i))], other_extent);
  return from;
}

// Whether no two elements may be equal.
bool are_distinct(const TensorSpec& spec) {
  return spec.values.kind == ValuesKind::Distinct || spec.values.kind == ValuesKind::Slots;
}

// Whether a factor keeps the values legal.
bool stays_legal(const TensorSpec& spec, const Tensor& tensor, double factor) {
  switch (spec.values.kind) {
    case ValuesKind::Probabilities:
      return false;
    case ValuesKind::Positive:
      return factor > 0;
    case ValuesKind::RealRange:
      for (int64_t i = 0; i < tensor.count(); ++i) {
        const double value = factor * tensor.load(i);
        if (!(value >= spec.values.low && value <= spec.values.high)) return false;
      }
      return true;
    default:
      return true;
  }
}

using Names = std::set<std::string>;

class Finder {
 public:
  Finder(const Contract& contract, const Reference& reference, const Bindings& bindings, uint64_t seed)
      : contract_(contract), reference_(reference), bindings_(bindings), seed_(seed) {
    for (const TensorSpec* spec : contract.outputs()) {
      const auto count = count_of(*spec, bindings.shape);
      if (!count || *count == 0) continue;
      elements_[spec->name] = some_elements(*count, seed);
      auto expected = reference.expect(bindings, spec->name, elements_[spec->name]);
      if (expected) before_.emplace(spec->name, std::move(*expected));
    }
  }

  std::vector<Companion> run() {
    for (const TensorSpec* spec : contract_.inputs())
      if (contract::is_float(spec->dtype)) add_scaled(*spec);
    for (const Dim& dim : contract_.dims) {
      if (bindings_.shape.at(dim.name) < 2 || !has_plain_axes(dim.name)) continue;
      const Names independent = add_others(dim.name);
      if (reference_.is_formula()) add_taken(dim, independent);
    }
    return std::move(found_);
  }

 private:
  std::shared_ptr<Tensor> scaled(const TensorSpec& spec, double factor) const {
    auto tensor = std::make_shared<Tensor>(*bindings_.inputs.at(spec.name));
    if (!stays_legal(spec, *tensor, factor)) return nullptr;
    const numerics::Format format = contract::info(spec.dtype).format;
    for (int64_t i = 0; i < tensor->count(); ++i) {
      const double value = tensor->load(i), product = factor * value;
      // Exact between the ends of the range.
      if (value != 0 && !(std::abs(value) >= numerics::min_normal(format) &&
                          std::abs(product) < numerics::max_finite(format)))
        return nullptr;
      tensor->store(i, product);
    }
    return tensor;
  }

  // A companion with another input, where `follows` gives the factor of an output.
  template <class Follows>
  Companion with_input(Relation relation, std::string text, const TensorSpec& spec,
                       std::shared_ptr<const Tensor> tensor, Follows follows) const {
    Companion companion{relation, std::move(text), "", bindings_, {}};
    companion.bindings.inputs[spec.name] = std::move(tensor);
    for (const TensorSpec* output : contract_.outputs()) {
      const auto before = before_.find(output->name);
      if (!contract::is_float(output->dtype) || before == before_.end()) continue;
      const auto after =
          reference_.expect(companion.bindings, output->name, elements_.find(output->name)->second);
      if (!after) continue;
      if (const auto factor = follows(output->name, before->second, *after))
        companion.outputs[output->name] = {identity(*count_of(*output, bindings_.shape)), *factor};
    }
    return companion;
  }

  void add_scaled(const TensorSpec& spec) {
    std::shared_ptr<Tensor> tensor = scaled(spec, kScale);
    if (!tensor) return;
    Companion larger = with_input(
        Relation::Scaled, fmt::format("{} times {}", spec.name, kScale), spec, std::move(tensor),
        [](const std::string&, const Expectation& before, const Expectation& after) -> std::optional<double> {
          const auto power = power_between(before, after);
          return power ? std::optional(std::pow(kScale, *power)) : std::nullopt;
        });
    if (larger.outputs.empty()) return;
    // What scales is made of sums, products and roots: nothing in it treats the signs differently. Odd
    // functions that do not scale may be computed in ways that are not odd to the bit.
    tensor = reference_.is_formula() ? scaled(spec, -1) : nullptr;
    if (tensor) {
      Companion negated =
          with_input(Relation::Negated, fmt::format("{} negated", spec.name), spec, std::move(tensor),
                     [&](const std::string& output, const Expectation& before,
                         const Expectation& after) -> std::optional<double> {
                       return larger.outputs.count(output) ? sign_between(before, after) : std::nullopt;
                     });
      if (!negated.outputs.empty()) found_.push_back(std::move(negated));
    }
    found_.push_back(std::move(larger));
  }

  bool has_plain_axes(const std::string& dim) const {
    return std::all_of(contract_.tensors.begin(), contract_.tensors.end(),
                       [&](const TensorSpec& spec) { return axis_of(spec, dim).has_value(); });
  }

  // The outputs whose slices along the dim have nothing to do with each other.
  Names add_others(const std::string& dim) {
    Companion companion{Relation::Others,
                        fmt::format("the second half along {} with other contents", dim),
                        dim,
                        bindings_,
                        {}};
    bool changed = false;
    for (const TensorSpec* spec : contract_.inputs()) {
      const int axis = *axis_of(*spec, dim);
      if (axis < 0 || !contract::is_float(spec->dtype)) continue;
      if (spec->values.kind == contract::ValuesKind::Probabilities)
        continue;  // their sums are part of the promise
      auto tensor = std::make_shared<Tensor>(*bindings_.inputs.at(spec->name));
      const Axis along(tensor->extents, axis);
      // Every element gets another of the half: as legal as before. Of three, one twice and one not at all: a
      // sum over the half would notice a mere change of order by nothing but its rounding.
      std::vector<int64_t> places;
      for (int64_t i = 0; i < tensor->count(); ++i)
        if (along.along(i) >= along.extent / 2) places.push_back(i);
      const Tensor& before = *bindings_.inputs.at(spec->name);
      for (std::size_t i = 0; i < places.size(); ++i) {
        constexpr std::size_t kFrom[] = {1, 2, 1};
        std::size_t from = i - i % std::size(kFrom) + kFrom[i % std::size(kFrom)];
        if (from >= places.size()) from = 0;
        const double other = before.load(places[from]);
        changed |= other != before.load(places[i]);
        tensor->store(places[i], other);
      }
      companion.bindings.inputs[spec->name] = std::move(tensor);
    }
    if (!changed) return {};
    for (const TensorSpec* output : contract_.outputs()) {
      const int axis = *axis_of(*output, dim);
      if (axis < 0 || !count_of(*output, bindings_.shape)) continue;
      const std::vector<int64_t> extents = *output->extents(bindings_.shape);
      const Axis along(extents, axis);
      Correspondence kept{identity(*count_of(*output, bindings_.shape)), 1};
      for (int64_t& from : kept.from)
        if (along.along(from) >= along.extent / 2) from = -1;
      if (holds(companion, *output, kept)) companion.outputs[output->name] = std::move(kept);
    }
    Names independent;
    for (const auto& [name, kept] : companion.outputs) independent.insert(name);
    if (!independent.empty()) found_.push_back(std::move(companion));
    return independent;
  }

  // Whether the reference has the same values at some of the elements that correspond.
  bool holds(const Companion& companion, const TensorSpec& output, const Correspondence& kept) const {
    std::vector<int64_t> here, there;
    for (const int64_t element : some_elements(static_cast<int64_t>(kept.from.size()), seed_)) {
      if (kept.from[static_cast<std::size_t>(element)] < 0) continue;
      here.push_back(element);
      there.push_back(kept.from[static_cast<std::size_t>(element)]);
    }
    if (here.empty()) return false;
    const auto after = reference_.expect(companion.bindings, output.name, here);
    const auto before = reference_.expect(bindings_, output.name, there);
    if (!after || !before) return false;
    return std::equal(after->value.begin(), after->value.end(), before->value.begin());
  }

  // Inputs that tell the extents of others, or places along this dim, do not go with its slices.
  bool can_take(const Dim& dim) const {
    return std::all_of(contract_.tensors.begin(), contract_.tensors.end(), [&](const TensorSpec& spec) {
      if (!spec.is_input()) return true;
      if ((spec.values.kind == ValuesKind::Offsets || are_distinct(spec)) && *axis_of(spec, dim.name) >= 0)
        return false;
      return !uses(spec.values.a, dim.name) && !uses(spec.values.b, dim.name);
    });
  }

  void add_taken(const Dim& dim, const Names& independent) {
    if (!can_take(dim)) return;
    const int64_t n = bindings_.shape.at(dim.name);
    std::vector<int64_t> rows = identity(n);
    Random random(mix(seed_, hash(dim.name)));
    for (int64_t i = n - 1; i > 0; --i)
      std::swap(rows[static_cast<std::size_t>(i)], rows[static_cast<std::size_t>(random.between(0, i))]);
    add_rows(Relation::Permuted, dim, rows, independent, "the slices along {} in another order");
    if (independent.empty()) return;
    const int64_t left = std::max(dim.lowest(), n / 2 / dim.multiple_of * dim.multiple_of);
    if (left < n && dim.contains(left)) {
      rows.resize(static_cast<std::size_t>(left));
      std::iota(rows.begin(), rows.end(), n - left);
      add_rows(Relation::Split, dim, rows, independent, "only the last slices along {}");
    }
    const int64_t more = n + kMorePadding * dim.multiple_of;
    if (dim.contains(more)) {
      rows = identity(n);
      while (static_cast<int64_t>(rows.size()) < more) rows.push_back(random.between(0, n - 1));
      add_rows(Relation::Padded, dim, rows, independent, "more slices along {}");
    }
  }

  // A call whose slices along the dim are these slices of the first. Where slices are summed up, say, the
  // call is there to be judged, and nothing follows for its bits.
  void add_rows(Relation relation, const Dim& dim, const std::vector<int64_t>& rows, const Names& independent,
                const char* text) {
    Companion companion{relation, fmt::format(fmt::runtime(text), dim.name), dim.name, bindings_, {}};
    const int64_t n = bindings_.shape.at(dim.name);
    companion.bindings.shape[dim.name] = static_cast<int64_t>(rows.size());
    for (const TensorSpec* spec : contract_.inputs()) {
      const int axis = *axis_of(*spec, dim.name);
      if (axis < 0) continue;
      const Tensor& whole = *bindings_.inputs.at(spec->name);
      auto tensor =
          std::make_shared<Tensor>(Tensor::zeros(spec->dtype, *spec->extents(companion.bindings.shape)));
      const std::vector<int64_t> from = taken_from(tensor->extents, axis, rows, n);
      for (std::size_t i = 0; i < from.size(); ++i)
        std::copy_n(whole.at(from[i]), whole.item_bytes(), tensor->at(static_cast<int64_t>(i)));
      companion.bindings.inputs[spec->name] = std::move(tensor);
    }
    for (const TensorSpec* output : contract_.outputs()) {
      const int axis = *axis_of(*output, dim.name);
      const auto extents = output->extents(companion.bindings.shape);
      if (axis < 0 || !extents || independent.count(output->name) == 0) continue;
      Correspondence kept{taken_from(*extents, axis, rows, n), 1};
      if (!kept.from.empty() && holds(companion, *output, kept))
        companion.outputs[output->name] = std::move(kept);
    }
    found_.push_back(std::move(companion));
  }

  const Contract& contract_;
  const Reference& reference_;
  const Bindings& bindings_;
  uint64_t seed_;
  std::map<std::string, std::vector<int64_t>> elements_;
  std::map<std::string, Expectation> before_;
  std::vector<Companion> found_;
};

// Other legal values of a seed. Of a range, those that differ in one bit, wherever a kernel may cut or fold a seed: at
// its ends, between bytes, words and halves, where the significand of a float ends. Neighbours differ in other ways, too.
std::vector<int64_t> other_values(const contract::ScalarSpec& spec, int64_t value) {
  constexpr std::size_t kMostSeeds = 3;
  constexpr int kBits[] = {0, 7, 8, 15, 16, 23, 24, 30, 31, 32, 33, 47, 48, 52, 61};
  std::vector<int64_t> others;
  for (const double other : spec.values)
    if (static_cast<int64_t>(other) != value && others.size() < kMostSeeds)
      others.push_back(static_cast<int64_t>(other));
  if (!spec.is_range()) return others;
  const auto add = [&](int64_t other) {
    const auto number = static_cast<double>(other);
    if (number >= spec.low && number <= spec.high && other != value &&
        std::ranges::find(others, other) == others.end())
      others.push_back(other);
  };
  add(value + 1);
  add(value - 1);
  for (const int bit : kBits) add(value ^ int64_t{1} << bit);
  return others;
}

std::vector<Companion> with_other_seeds(const Contract& contract, const Reference& reference,
                                        const Bindings& bindings) {
  std::vector<Companion> found;
  std::set<std::string> seeds;
  for (const reference::Choice& choice : reference.choices(bindings)) {
    for (const std::string& seed : choice.seeds) {
      const contract::ScalarSpec* spec = contract.scalar(seed);
      if (!spec || !seeds.insert(seed).second) continue;
      for (const int64_t other : other_values(*spec, bindings.scalars.at(seed).as_int())) {
        Companion companion{Relation::Reseeded, fmt::format("{} = {}", seed, other), "", bindings, {}};
        companion.bindings.scalars[seed] = contract::Scalar::of_int(spec->dtype, other);
        found.push_back(std::move(companion));
      }
    }
  }
  return found;
}

}  // namespace

std::vector<Companion> companions(const Contract& contract, const Reference& reference,
                                  const Bindings& bindings, uint64_t seed) {
  // Two calls choose as they like; with other seeds, otherwise.
  if (!reference.choices(bindings).empty()) return with_other_seeds(contract, reference, bindings);
  return Finder(contract, reference, bindings, seed).run();
}

}  // namespace assay::judge
