#include "trial/giant.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trial/shapes.h"

namespace assay::trial {

using contract::Contract;
using contract::Dim;
using contract::Shape;
using contract::TensorSpec;

namespace {

// What dims are that are not at their largest: a row or two, and a row of a usual length. Chosen.
constexpr int64_t kFew = 1, kSome = 3, kRow = 1024, kLongRow = 32768;
// Where signed and unsigned 32-bit indices end.
constexpr double kEnds[] = {0x1p31, 0x1p32};
constexpr double kShortEnds[] = {0x1p15, 0x1p16};
// Beyond an end: more than one block, so that blocks of which all elements lie beyond it are among those that are run.
constexpr double kBeyondAnEnd = 0x1p20;
constexpr std::size_t kMostGiants = 12, kFewOfAKind = 2;
// Rows beyond an end are this much shorter than a power of two, of which they would be a whole number at 2^32: an offset that wraps there
// would be that of another row, whose results are right. A multiple of what kernels usually load at once.
constexpr int64_t kShorter = 8, kShortestUneven = 64;

double count_of(const TensorSpec& spec, const Shape& shape) {
  double count = 1;
  for (const contract::IntExpr& extent : spec.shape) {
    const auto n = extent.eval(shape);
    count *= n && *n > 0 ? static_cast<double>(*n) : 0;
  }
  return count;
}

const TensorSpec* tensor_of_most(const Contract& contract, const Shape& shape) {
  const TensorSpec* largest = nullptr;
  for (const TensorSpec& spec : contract.tensors)
    if (!largest || count_of(spec, shape) > count_of(*largest, shape)) largest = &spec;
  return largest;
}

// `dim` as large as `fits` allows, which is asked of shapes; the lowest where it allows none.
template <class Fits>
Shape largest(const Dim& dim, Shape shape, Fits fits_at) {
  int64_t low = dim.lowest(), high = dim.highest();
  const auto fits = [&](int64_t value) {
    shape[dim.name] = value;
    return fits_at(shape);
  };
  while (low < high) {  // the largest that fits
    const int64_t steps = (high - low) / dim.multiple_of;
    const int64_t middle = low + (steps + 1) / 2 * dim.multiple_of;
    if (fits(middle))
      low = middle;
    else
      high = middle - dim.multiple_of;
  }
  shape[dim.name] = low;
  return shape;
}

class Giants {
 public:
  Giants(const Contract& contract, double whole, double max_bytes)
      : contract_(contract), whole_(whole), max_bytes_(max_bytes) {}

  std::vector<Shape> run() {
    for (const Dim& dim : contract_.dims)
      if (!dim.is_constant()) add_longest(dim, kFew);
    for (const double end : {kEnds[1], kEnds[0]}) add_about(end + kBeyondAnEnd, kFewOfAKind, true);
    // Exactly there: a number of threads that is a multiple of 2^32 is 0.
    for (const double end : {kEnds[1], kEnds[0]}) add_about(end, 1);
    add_all();
    for (const double end : {kEnds[1], kEnds[0]}) add_about(end - 1, 1);
    for (const Dim& dim : contract_.dims)
      if (!dim.is_constant() && contract_.dims.size() > 1) add_longest(dim, kSome);
    for (const double end : {kEnds[1], kEnds[0]}) add_about(end + kBeyondAnEnd, kMostGiants);
    if (found_.size() > kMostGiants) found_.resize(kMostGiants);
    return std::move(found_);
  }

 private:
  void add(Shape shape) {
    const auto size = size_of(contract_, shape);
    if (!size || size->bytes > max_bytes_ || size->elements <= whole_ || !contract_.check_shape(shape))
      return;
    if (std::find(found_.begin(), found_.end(), shape) == found_.end()) found_.push_back(std::move(shape));
  }

  // This dim as large as memory allows, the others small.
  void add_longest(const Dim& dim, int64_t others) {
    add(largest(dim, uniform_shape(contract_, others), [&](const Shape& shape) {
      const auto size = size_of(contract_, shape);
      return size && size->bytes <= max_bytes_;
    }));
  }

  void add_all() {
    Shape shape;
    for (const Dim& dim : contract_.dims) shape[dim.name] = dim.highest();
    Fitted fitted = fit(contract_, std::move(shape), HUGE_VAL, max_bytes_);
    if (fitted.fits) add(std::move(fitted.shape));
  }

  void make_uneven(Shape& shape) const {
    for (const Dim& dim : contract_.dims) {
      int64_t& size = shape[dim.name];
      const int64_t step = std::lcm(dim.multiple_of, kShorter);
      if (size >= kShortestUneven && (size & (size - 1)) == 0 && size - step >= dim.lowest()) size -= step;
    }
  }

  // The largest tensor with about so many elements: one of its dims, each in turn, makes up for what the others lack. They
  // have usual lengths first, then long ones, and are small then. So many shapes at most.
  void add_about(double elements, std::size_t most, bool uneven = false) {
    const std::size_t enough = found_.size() + most;
    for (const int64_t others : {kRow, kLongRow, kFew}) {
      for (const Dim& dim : contract_.dims) {
        if (dim.is_constant() || found_.size() >= enough) continue;
        Shape shape = uniform_shape(contract_, others);
        if (uneven) make_uneven(shape);
        shape[dim.name] = dim.highest();
        const TensorSpec* spec = tensor_of_most(contract_, shape);
        if (!spec || count_of(*spec, shape) < elements) continue;
        shape =
            largest(dim, std::move(shape), [&](const Shape& s) { return count_of(*spec, s) <= elements; });
        if (count_of(*spec, shape) > elements / 2) add(std::move(shape));
      }
    }
  }

  const Contract& contract_;
  const double whole_, max_bytes_;
  std::vector<Shape> found_;
};

}  // namespace

std::vector<Shape> giant_shapes(const Contract& contract, double whole, double max_bytes) {
  return Giants(contract, whole, max_bytes).run();
}

std::vector<double> telling_shares(const Contract& contract, const Shape& shape) {
  std::vector<double> shares;
  const auto add = [&](double index, double count) {
    if (index < count && std::find(shares.begin(), shares.end(), index / count) == shares.end())
      shares.push_back(index / count);
  };
  const auto each = [&](const auto& ends, bool in_bytes) {
    for (const bool outputs : {true, false})
      for (const TensorSpec& spec : contract.tensors) {
        if (spec.is_output() != outputs) continue;
        const double count = count_of(spec, shape);
        for (const double end : ends) add(in_bytes ? end / contract::info(spec.dtype).bytes : end, count);
      }
  };
  each(kEnds, false);
  each(kEnds, true);
  each(kShortEnds, false);
  return shares;
}

}  // namespace assay::trial
