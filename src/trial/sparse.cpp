#include "trial/sparse.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trial/families.h"
#include "trial/shapes.h"

namespace assay::trial {

using contract::Contract;
using contract::Shape;
using contract::Tensor;
using contract::TensorSpec;
using contract::ValuesKind;

namespace {

// Rows that are filled at each end and about each limit of offsets. tests/trial/sparse_test.cpp
// (FilledRows.HoldTheEndsAndWhereOffsetsOutgrow32Bits) wants those on both sides of a limit, and at most 16
// rows in all four places.
constexpr int64_t kRowsTogether = 4;
// Elements where signed and unsigned 32-bit offsets end.
constexpr double kEndOfInt32 = 0x1p31, kEndOfUint32 = 0x1p32;
// What the other dims are. SparseInputs.ReachTheFarEndWithFewIndices shows that three indices name a row at
// the far end and about each limit.
constexpr int64_t kSmall = 3;
// The largest value that a dim is asked to take to make rows longer; snap() keeps it within the promise.
// Chosen.
constexpr double kMostLengthened = 1e9;

bool mentions(const contract::IntExpr& expr, std::string_view dim) {
  const std::vector<std::string> dims = expr.dims();
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}
bool mentions(const TensorSpec& spec, std::string_view dim) {
  return std::any_of(spec.shape.begin(), spec.shape.end(),
                     [&](const contract::IntExpr& extent) { return mentions(extent, dim); });
}

bool is_table(const TensorSpec& spec, std::string_view dim) {
  if (!spec.strides.empty() || contract::info(spec.dtype).bits < 8) return false;
  if (spec.role != contract::Role::In || spec.shape.size() < 2 || spec.shape.front().text() != dim)
    return false;
  return std::none_of(spec.shape.begin() + 1, spec.shape.end(),
                      [&](const contract::IntExpr& extent) { return mentions(extent, dim); });
}

bool indexes(const TensorSpec& spec, std::string_view dim) {
  const ValuesKind kind = spec.values.kind;
  return (kind == ValuesKind::Index || kind == ValuesKind::Tokens) && spec.values.a.text() == dim;
}

// Only tables are as long as the dim, and something names their rows.
bool is_reached_by_index(const Contract& contract, std::string_view dim) {
  bool table = false, index = false;
  for (const TensorSpec& spec : contract.tensors) {
    if (mentions(spec, dim) && !is_table(spec, dim)) return false;
    table |= is_table(spec, dim);
    index |= indexes(spec, dim);
  }
  return table && index;
}

double row_length(const TensorSpec& spec, const Shape& shape) {
  double length = 1;
  for (std::size_t i = 1; i < spec.shape.size(); ++i) {
    const auto n = spec.shape[i].eval(shape);
    length *= n ? static_cast<double>(*n) : 0;
  }
  return length;
}

// Rows of `table` made long enough, by the dims of its other extents in turn.
bool lengthen(const Contract& contract, const TensorSpec& table, Shape& shape, double wanted) {
  for (std::size_t i = 1; i < table.shape.size(); ++i) {
    for (const std::string& name : table.shape[i].dims()) {
      const contract::Dim& dim = *contract.dim(name);
      const double now = row_length(table, shape);
      if (now >= wanted || now <= 0) break;
      const double factor = wanted / now * static_cast<double>(shape[name]);
      shape[name] = snap(dim, static_cast<int64_t>(std::min(factor, kMostLengthened)) + dim.multiple_of);
    }
  }
  return row_length(table, shape) >= wanted;
}

}  // namespace

std::vector<Rows> filled_rows(const std::vector<int64_t>& extents) {
  const int64_t rows = extents.empty() ? 0 : extents.front();
  double length = 1;
  for (std::size_t i = 1; i < extents.size(); ++i) length *= static_cast<double>(extents[i]);
  std::vector<Rows> found;
  for (const double edge : {0.0, kEndOfInt32, kEndOfUint32, static_cast<double>(rows) * length}) {
    const double row = length > 0 ? edge / length : 0;
    if (row > static_cast<double>(rows)) continue;
    const int64_t first = std::clamp<int64_t>(static_cast<int64_t>(row) - kRowsTogether / 2, 0,
                                              std::max<int64_t>(rows - kRowsTogether, 0));
    const int64_t begin = found.empty() ? first : std::max(first, found.back().first + found.back().count);
    const int64_t end = std::min(first + kRowsTogether, rows);
    if (begin < end) found.push_back({begin, end - begin});
  }
  return found;
}

bool is_sparse(const TensorSpec& spec, const Trial& trial) {
  return !trial.sparse.empty() && is_table(spec, trial.sparse);
}
bool names_sparse_rows(const TensorSpec& spec, const Trial& trial) {
  return !trial.sparse.empty() && indexes(spec, trial.sparse);
}

std::vector<SparseShape> sparse_shapes(const Contract& contract, double elements, double max_bytes) {
  std::vector<SparseShape> found;
  for (const contract::Dim& dim : contract.dims) {
    if (dim.is_constant() || !is_reached_by_index(contract, dim.name)) continue;
    const auto table = std::find_if(contract.tensors.begin(), contract.tensors.end(),
                                    [&](const TensorSpec& spec) { return is_table(spec, dim.name); });
    Shape shape = uniform_shape(contract, kSmall);
    shape[dim.name] = dim.highest();
    if (!lengthen(contract, *table, shape, elements / static_cast<double>(dim.highest()))) continue;
    if (!contract.check_shape(shape)) continue;
    const auto size = size_of(contract, shape);
    if (size && size->bytes <= max_bytes) found.push_back({dim.name, std::move(shape)});
  }
  return found;
}

Result<Tensor> draw_sparse(const Contract& contract, const TensorSpec& spec, const Trial& trial,
                           Family family, uint64_t seed) {
  auto extents = spec.extents(trial.shape);
  if (!extents) return extents.error();
  Tensor whole = Tensor::zeros(spec.dtype, *extents);
  if (names_sparse_rows(spec, trial)) {
    const auto table = std::find_if(contract.tensors.begin(), contract.tensors.end(),
                                    [&](const TensorSpec& other) { return is_sparse(other, trial); });
    const auto rows = table->extents(trial.shape);
    if (!rows) return rows.error();
    const std::vector<Rows> filled = filled_rows(*rows);
    // In turn from the far end: even a few indices name what lies beyond each limit.
    Random random(seed);
    for (int64_t i = 0; i < whole.count() && !filled.empty(); ++i) {
      const Rows& part = filled[filled.size() - 1 - static_cast<std::size_t>(i) % filled.size()];
      whole.store_int(i, part.first + (i == 0 ? part.count - 1 : random.between(0, part.count - 1)));
    }
    return whole;
  }
  const std::vector<Rows> filled = filled_rows(*extents);
  Shape few = trial.shape;
  few[trial.sparse] = 0;
  for (const Rows& part : filled) few[trial.sparse] += part.count;
  auto values = draw(spec, few, family, seed);
  if (!values) return values.error();
  const int64_t row_bytes = (*extents)[0] > 0 ? static_cast<int64_t>(whole.bytes.size()) / (*extents)[0] : 0;
  int64_t from = 0;
  for (const Rows& part : filled) {
    std::memcpy(whole.bytes.data() + part.first * row_bytes, values->bytes.data() + from * row_bytes,
                static_cast<std::size_t>(part.count * row_bytes));
    from += part.count;
  }
  return whole;
}

}  // namespace assay::trial
