#include "trial/runs.h"

#include <algorithm>
#include <limits>

#include "contract/legal_shape.h"
#include "trial/shapes.h"

namespace assay::trial {

using contract::Contract;
using contract::Dim;
using contract::IntExpr;
using contract::Shape;
using contract::Tensor;
using contract::TensorSpec;
using contract::ValuesKind;

namespace {

constexpr int kLeastBits = 32;  // of integers that may be lengths; those of 8 and 16 bits are data. Chosen

// Values of a dim that are tried where a relation excludes the one that is wanted (`Z % 16 == 0`). Chosen.
constexpr int kMostSteps = 64;

bool are_offsets(const TensorSpec& spec) {
  return spec.values.kind == ValuesKind::Offsets;
}

int64_t value_of(const IntExpr& expr, const Shape& shape) {
  const auto value = expr.eval(shape);
  return value ? *value : 0;
}

// Segments, or integers.
int64_t count_of(const TensorSpec& spec, const Shape& shape) {
  int64_t count = 1;
  for (const IntExpr& extent : spec.shape) count *= value_of(extent, shape);
  return std::max<int64_t>(count - are_offsets(spec), 0);
}

// Where the run of size i of n begins among `count` segments or integers.
int64_t first_of(std::size_t i, std::size_t n, int64_t count) {
  return static_cast<int64_t>(i) * count / static_cast<int64_t>(n);
}

int64_t total_of(const std::vector<int64_t>& sizes, int64_t count) {
  int64_t total = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    total += sizes[i] * (first_of(i + 1, sizes.size(), count) - first_of(i, sizes.size(), count));
  return total;
}

using Names = std::vector<std::string>;

bool is_in(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The least legal value of a dim at which the expression, which rises with it, is at least `wanted`; its highest if there is
// none.
int64_t least_for(const Dim& dim, const IntExpr& expr, Shape shape, int64_t wanted) {
  int64_t low = 0, high = (dim.highest() - dim.lowest()) / dim.multiple_of;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    shape[dim.name] = dim.lowest() + middle * dim.multiple_of;
    if (value_of(expr, shape) >= wanted) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return dim.lowest() + low * dim.multiple_of;
}

// Moves one dim of an expression after the other until it is at least `wanted`; those in `fixed` stay.
void set(const Contract& contract, const IntExpr& expr, int64_t wanted, const Names& fixed, Shape& shape) {
  for (const std::string& name : expr.dims()) {
    const Dim* dim = contract.dim(name);
    if (!dim || dim->is_constant() || is_in(fixed, name)) continue;
    int64_t value = least_for(*dim, expr, shape, wanted);
    for (int more = 0; more < kMostSteps && dim->contains(value); ++more, value += dim->multiple_of) {
      Shape moved = shape;
      moved[name] = value;
      const auto legal = contract::legal_shape(contract, std::move(moved), name);
      if (!legal) continue;
      shape = *legal;
      break;
    }
    if (value_of(expr, shape) >= wanted) return;
  }
}

}  // namespace

bool has_sizes(const TensorSpec& spec) {
  if (spec.role == contract::Role::Out || spec.shape.empty()) return false;
  if (are_offsets(spec)) return spec.shape.size() == 1;
  return spec.values.kind == ValuesKind::Integers && contract::info(spec.dtype).bits >= kLeastBits;
}

Result<Tensor> draw_runs(const TensorSpec& spec, const Shape& shape, const std::vector<int64_t>& sizes) {
  auto extents = spec.extents(shape);
  if (!extents) return extents.error();
  Tensor tensor = Tensor::zeros(spec.dtype, std::move(*extents));
  const auto end = spec.values.a.eval(shape);
  if (!end) return end.error();
  const int64_t count = count_of(spec, shape);
  int64_t high = *end;
  if (!are_offsets(spec)) {
    const auto b = spec.values.b.eval(shape);
    if (!b) return b.error();
    high = *b;
    if (*end > high && count > 0) return Error{"tensor " + spec.name + ": there is no legal value"};
  } else if (count == 0 && high != 0 && tensor.count() > 0) {
    return Error{"tensor " + spec.name + ": one offset cannot be both the first and the last"};
  }
  int64_t reached = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (int64_t at = first_of(i, sizes.size(), count); at < first_of(i + 1, sizes.size(), count); ++at) {
      if (are_offsets(spec)) {
        reached = at == count - 1 ? high : std::min(reached + sizes[i], high);
        tensor.store_int(at + 1, reached);
      } else {
        tensor.store_int(at, std::clamp(sizes[i], *end, high));
      }
    }
  return tensor;
}

int64_t run_of(const TensorSpec& spec, const Trial& trial, int64_t size) {
  const auto found = trial.runs.find(spec.name);
  if (found == trial.runs.end()) return 0;
  const std::vector<int64_t>& sizes = found->second;
  const int64_t count = count_of(spec, trial.shape);
  const int64_t low = value_of(spec.values.a, trial.shape), high = value_of(spec.values.b, trial.shape);
  int64_t have = 0, reached = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const int64_t of_this = first_of(i + 1, sizes.size(), count) - first_of(i, sizes.size(), count);
    if (!are_offsets(spec)) {
      have += sizes[i] == size && size >= low && size <= high ? of_this : 0;
      continue;
    }
    const int64_t room = sizes[i] > 0 ? std::max<int64_t>(low - reached, 0) / sizes[i] : of_this;
    if (sizes[i] == size) have += std::min(of_this, room);
    reached += of_this * sizes[i];
  }
  return have;
}

int64_t largest_size(const Contract& contract, const TensorSpec& spec) {
  const IntExpr& expr = are_offsets(spec) ? spec.values.a : spec.values.b;
  Shape shape = uniform_shape(contract, 1);
  set(contract, expr, std::numeric_limits<int64_t>::max(), {}, shape);
  return value_of(expr, shape);
}

std::optional<Shape> shape_for(const Contract& contract, const TensorSpec& spec,
                               const std::vector<int64_t>& sizes, int64_t of_each, int64_t others) {
  Shape shape = uniform_shape(contract, others);
  const auto wanted = of_each * static_cast<int64_t>(sizes.size());
  const int64_t count = wanted + are_offsets(spec);
  if (!spec.shape.front().is_literal()) set(contract, spec.shape.front(), count, {}, shape);
  if (are_offsets(spec)) {
    shape = with_total(contract, spec, std::move(shape), sizes);
  } else {
    const int64_t most = *std::max_element(sizes.begin(), sizes.end());
    if (value_of(spec.values.b, shape) < most)
      set(contract, spec.values.b, most, spec.shape.front().dims(), shape);
  }
  Trial trial;
  trial.shape = near_legal(contract, shape);
  trial.runs[spec.name] = sizes;
  for (const int64_t size : sizes)
    if (run_of(spec, trial, size) == 0) return std::nullopt;
  return trial.shape;
}

Shape with_total(const Contract& contract, const TensorSpec& spec, Shape shape,
                 const std::vector<int64_t>& sizes) {
  if (are_offsets(spec))
    set(contract, spec.values.a, total_of(sizes, count_of(spec, shape)), spec.shape.front().dims(), shape);
  return shape;
}

}  // namespace assay::trial
