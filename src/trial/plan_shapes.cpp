// The stages of a plan that are about shapes: edges, corners, the sizes that the kernel's code names, those of real models, wide
// and giant ones.
#include <fmt/format.h>

#include <algorithm>

#include "contract/legal_shape.h"
#include "trial/giant.h"
#include "trial/plan.h"
#include "trial/plan_inputs.h"
#include "trial/plan_limits.h"
#include "trial/shapes.h"
#include "trial/sparse.h"

namespace assay::trial {

using contract::Dim;
using contract::Shape;

void Plan::add_edges() {
  stages_.emplace_back();
  std::vector<std::vector<int64_t>> values, tiles;
  std::size_t most = 0;
  for (const Dim& dim : contract_.dims) {
    values.push_back(dim.is_constant() ? std::vector<int64_t>{} : interesting(dim, kMostEdge));
    tiles.push_back(tile_edges(dim));
    most = std::max(most, values.back().size());
  }
  for (std::size_t i = 0; i < most; ++i) {
    for (std::size_t d = 0; d < contract_.dims.size(); ++d) {
      if (i >= values[d].size()) continue;
      const Dim& dim = contract_.dims[d];
      const int64_t value = values[d][i];
      Shape shape = uniform_shape(contract_, kBesideEdge[(i + d) % std::size(kBesideEdge)]);
      shape[dim.name] = value;
      Fitted fitted{shape, false, false};
      if (std::find(tiles[d].begin(), tiles[d].end(), value) != tiles[d].end()) {
        // What a pass requires has to be cheap.
        const Limits cheap{kEdgeElements, options_.max_bytes, kEdgeSteps};
        fitted = fit(contract_, work_, shape, cheap, dim.name);
        fitted.fits &= fitted.shape.at(dim.name) == value;
        if (fitted.fits) require_dim(RequirementGroup::Edges, dim, "=", value);
      }
      const Limits limits{options_.quick_elements * kUnhurried, options_.max_bytes,
                          options_.quick_steps * kUnhurried};
      if (!fitted.fits) fitted = fit(contract_, work_, std::move(shape), limits, dim.name);
      if (fitted.fits) add("edges", std::move(fitted.shape), random_families(), rotating_condition());
    }
  }
}

// "rows = 33", or "rows >= 8192".
void Plan::require_dim(RequirementGroup group, const Dim& dim, std::string_view relation, int64_t value) {
  requirements_.add(group, fmt::format("{} {} {}", dim.name, relation, value),
                    [name = dim.name, value, exact = relation == "="](const Trial& trial) {
                      const int64_t tried = trial.shape.at(name);
                      return trial.sparse.empty() && (exact ? tried == value : tried >= value);
                    });
}

bool Plan::within_corners(const Shape& shape) const {
  return within(shape, kCornerElements, kCornerSteps, kCornerRows);
}

bool Plan::within(const Shape& shape, double elements, double steps, int64_t rows) const {
  const auto size = work_.of(shape);
  return size && size->elements <= elements && size->steps <= steps &&
         leading_extent(contract_, shape) <= rows;
}

// The largest value of a dim within the limits of corners, all others at their smallest.
Shape Plan::farthest(const Dim& dim) const {
  const Shape smallest = uniform_shape(contract_, 1);
  const auto with = [&](int64_t value) {
    Shape shape = smallest;
    shape[dim.name] = value;
    return contract::legal_shape(contract_, std::move(shape), dim.name);
  };
  const auto within = [&](int64_t value) {
    const std::optional<Shape> shape = with(value);
    return shape && within_corners(*shape);
  };
  int64_t low = 0, high = (dim.highest() - dim.lowest()) / dim.multiple_of;
  while (low < high) {
    const int64_t middle = high - (high - low) / 2;
    if (within(dim.lowest() + middle * dim.multiple_of)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return with(dim.lowest() + low * dim.multiple_of).value_or(smallest);
}

void Plan::add_corners() {
  stages_.emplace_back();
  const Shape smallest = uniform_shape(contract_, 1);
  requirements_.add(RequirementGroup::Corners, "the smallest shape",
                    [smallest](const Trial& trial) { return trial.shape == smallest; });
  Shape joint = smallest;
  for (const Dim& dim : contract_.dims) {
    if (dim.is_constant()) continue;
    Shape shape = farthest(dim);
    joint[dim.name] = shape[dim.name];
    require_dim(RequirementGroup::Corners, dim, ">=", shape[dim.name]);
    add("corners", std::move(shape), hard_sums(contract_, Family::Natural, Family::Extremes),
        rotating_condition());
  }
  const Limits limits{kCornerElements, options_.max_bytes, kCornerSteps};
  joint = fit(contract_, work_, std::move(joint), limits).shape;
  const auto size = work_.of(joint);
  if (!size) return;
  requirements_.add(RequirementGroup::Corners, fmt::format("{:.0f} elements at once", size->elements),
                    [&contract = contract_, elements = size->elements](const Trial& trial) {
                      const auto tried = size_of(contract, trial.shape);
                      return trial.sparse.empty() && tried && tried->elements >= elements;
                    });
  add("corners", std::move(joint), hard_sums(contract_, Family::Natural, Family::Uniform),
      rotating_condition());
}

// Around the constants of the kernel's code: one dim at a time with the others small; then two dims together,
// by themselves or as a product, the cheapest first.
void Plan::add_thresholds() {
  stages_.emplace_back();
  std::vector<std::vector<int64_t>> values;
  std::vector<std::size_t> required;  // the first of the values of each dim
  for (const Dim& dim : contract_.dims) {
    values.push_back(dim.is_constant() ? std::vector<int64_t>{} : thresholds_.values(dim));
    required.push_back(dim.is_constant() ? 0 : thresholds_.required(dim).size());
  }
  const Limits alone{kThresholdElements, options_.max_bytes, options_.quick_steps * kUnhurried};
  for (std::size_t i = 0; i < kMostThresholds; ++i) {
    for (std::size_t d = 0; d < values.size(); ++d) {
      if (i >= values[d].size()) continue;
      const Dim& dim = contract_.dims[d];
      Shape shape = uniform_shape(contract_, kBesideThreshold[(i + d) % std::size(kBesideThreshold)]);
      shape[dim.name] = values[d][i];
      Fitted fitted = fit(contract_, work_, std::move(shape), alone, dim.name);
      if (!fitted.fits || fitted.shape.at(dim.name) != values[d][i]) continue;
      if (leading_extent(contract_, fitted.shape) > kThresholdRows) continue;
      if (i < required[d] && within(fitted.shape, kNamedElements, kNamedSteps, kNamedRows))
        require_dim(RequirementGroup::Thresholds, dim, "=", values[d][i]);
      add("thresholds", std::move(fitted.shape), turns(contract_, trials_), rotating_condition());
    }
  }
  add_joint(thresholds_.pairs());
  // Apart, so that many constants of single dims do not crowd out what only a product can reach.
  add_joint(thresholds_.products(Thresholds::Reach::ByProductsOnly));
  add_joint(thresholds_.products(Thresholds::Reach::ByADim));
}

// Shapes in which several dims matter together, the cheapest first.
void Plan::add_joint(std::vector<Shape> shapes) {
  stages_.emplace_back();
  for (Shape& shape : shapes) shape = near_legal(contract_, shape);
  std::erase_if(shapes, [&](const Shape& shape) {
    const auto size = work_.of(shape);
    return !size || size->elements > kMostJointElements || size->bytes > options_.max_bytes;
  });
  std::stable_sort(shapes.begin(), shapes.end(),
                   [&](const Shape& a, const Shape& b) { return shape_cost(a) < shape_cost(b); });
  shapes.erase(std::unique(shapes.begin(), shapes.end()), shapes.end());
  int large = 0;
  for (std::size_t i = 0; i < std::min(shapes.size(), kMostThresholds); ++i) {
    const bool brief = work_.of(shapes[i])->elements > options_.max_elements;
    if (brief && ++large > kMostLargeJoint) break;
    add("thresholds", shapes[i], turns(contract_, trials_), rotating_condition());
    stages_.back().back().brief = brief;
    if (i < kMostRequiredJoint && within(shapes[i], kNamedElements, kNamedSteps, kNamedRows))
      requirements_.add(
          RequirementGroup::Thresholds, contract::to_string(shapes[i]),
          [shape = shapes[i]](const Trial& trial) { return trial.sparse.empty() && trial.shape == shape; });
  }
}

void Plan::add_model_sizes() {
  stages_.emplace_back();
  std::vector<std::vector<int64_t>> values;
  std::size_t most = 0;
  for (const Dim& dim : contract_.dims) {
    values.push_back(dim.is_constant() ? std::vector<int64_t>{} : model_sizes(dim));
    most = std::max(most, values.back().size());
  }
  const Limits limits{kThresholdElements, options_.max_bytes, options_.quick_steps};
  for (std::size_t i = 0; i < most; ++i) {
    for (std::size_t d = 0; d < values.size(); ++d) {
      if (i >= values[d].size()) continue;
      const Dim& dim = contract_.dims[d];
      Shape shape = uniform_shape(contract_, kBesideModelSize[(i + d) % std::size(kBesideModelSize)]);
      shape[dim.name] = values[d][i];
      Fitted fitted = fit(contract_, work_, std::move(shape), limits, dim.name);
      if (!fitted.fits || fitted.shape.at(dim.name) != values[d][i]) continue;
      if (leading_extent(contract_, fitted.shape) > kThresholdRows) continue;
      add("model sizes", std::move(fitted.shape), turns(contract_, trials_), rotating_condition());
    }
  }
}

// Where 16 bits end, and the promise. Indices take their extremes, so that the far end is reached.
void Plan::add_wide() {
  stages_.emplace_back();
  const Limits limits{options_.max_elements, options_.max_bytes};
  const auto fitted = [&](const Dim& dim, int64_t value, int64_t others) {
    Shape shape = uniform_shape(contract_, others);
    shape[dim.name] = value;
    return fit(contract_, work_, std::move(shape), limits, dim.name);
  };
  std::vector<Shape> wide;
  for (const Dim& dim : contract_.dims) {
    if (dim.is_constant()) continue;
    Fitted widest = fitted(dim, dim.highest(), 1);
    int64_t reached = widest.fits ? widest.shape.at(dim.name) : dim.lowest();
    // Halving stops short of the limit, at a power of two as a rule.
    for (const double more : kLengthened) {
      const int64_t value = snap(dim, static_cast<int64_t>(static_cast<double>(reached) * more));
      if (value <= reached || reached >= dim.highest()) continue;
      if (Fitted grown = fitted(dim, value, 1); grown.fits && grown.shape.at(dim.name) == value) {
        widest = std::move(grown);
        reached = value;
        break;
      }
    }
    std::vector<int64_t> values;
    for (const int64_t end : kEndsOf16Bits) {
      if (reached > end) values.push_back(snap(dim, std::min(end + kBeyond, reached)));
    }
    // What the trials that open the plan are too short for, where a formula takes many steps for an element.
    const int64_t stretched = snap(dim, kStretched);
    if (stretched < reached && stretch(dim).at(dim.name) < stretched) values.push_back(stretched);
    if (values.empty() || reached > *std::max_element(values.begin(), values.end()))
      values.push_back(reached);
    for (const int64_t value : values) {
      if (Fitted f = fitted(dim, value, kBesideWide); f.fits && f.shape.at(dim.name) == value) {
        wide.push_back(std::move(f.shape));
      }
    }
    if (widest.fits) wide.push_back(widest.shape);
  }
  // All dims together.
  Shape whole;
  for (const Dim& dim : contract_.dims) whole[dim.name] = dim.highest();
  if (Fitted f = fit(contract_, work_, std::move(whole), limits); f.fits) wide.push_back(std::move(f.shape));
  // The cheapest first: each of them shows that much is affordable.
  std::stable_sort(wide.begin(), wide.end(),
                   [&](const Shape& a, const Shape& b) { return shape_cost(a) < shape_cost(b); });
  for (const double elements : kEndsOf32Bits) {
    for (SparseShape& sparse : sparse_shapes(contract_, elements, options_.max_sparse_bytes)) {
      add("more than 2^31 elements", std::move(sparse.shape), {}, {.ordered = false});
      stages_.back().back().trial.sparse = sparse.dim;
      stages_.back().back().brief = true;
    }
  }
  for (Shape& shape : wide) {
    add(kWide, std::move(shape), hard_sums(contract_, Family::Natural, Family::Extremes),
        rotating_condition());
    stages_.back().back().brief = true;
  }
}

// The corners of the promise, however large, by a sample of the blocks.
void Plan::add_giant() {
  stages_.emplace_back();
  if (contract_.generator) return;
  std::vector<Shape> giants = giant_shapes(contract_, kWholeElements, options_.max_sampled_bytes);
  leaves_out_giants_ = !options_.samples && !giants.empty();
  if (leaves_out_giants_) return;
  for (Shape& shape : giants) {
    add("giant shapes", std::move(shape), {}, {.ordered = false});
    stages_.back().back().trial.sampled = true;
    stages_.back().back().brief = true;
    const Shape& planned = stages_.back().back().trial.shape;
    requirements_.add(RequirementGroup::Giants,
                      fmt::format("{} by a sample of the blocks", contract::to_string(planned)),
                      [planned](const Trial& trial) { return trial.shape == planned; });
  }
}

}  // namespace assay::trial
