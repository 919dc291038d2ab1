// Arrays of the trusted code, how they are rounded, and how work is shared among threads.
//
// Trusted code computes in one type, float or double, whatever a tensor's dtype is: an array of dtype bf16 holds floats
// that are exactly bf16 numbers. Work is cut into pieces whose sizes do not depend on the number of threads, so neither
// do results.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/thread_pool.h"
#include "contract/tensor.h"

namespace assay::train {

using contract::DType;

template <class Real>
struct Array {
  DType dtype = DType::f32;
  std::vector<int64_t> dims;
  std::vector<Real> values;
  std::vector<int64_t> integers;  // in place of `values`, of tokens and positions

  int64_t count() const { return static_cast<int64_t>(values.size()); }
  Real* data() { return values.data(); }
  const Real* data() const { return values.data(); }
  // Makes it an array of this type and extents; what it holds is not defined.
  void shape(DType type, std::vector<int64_t> extents) {
    dtype = type;
    dims = std::move(extents);
    int64_t size = 1;
    for (const int64_t extent : dims) size *= extent;
    values.resize(static_cast<std::size_t>(size));
  }
};

// Threads that stay.
class Team {
 public:
  explicit Team(int threads) : pool_(static_cast<unsigned>(threads)) {}

  // work(first, n) for pieces of 0..count.
  template <class Work>
  void pieces(int64_t count, int64_t piece, const Work& work) {
    std::atomic<int64_t> next{0};
    const auto useful = static_cast<unsigned>(
        std::clamp<int64_t>((count + piece - 1) / piece, 1, static_cast<int64_t>(pool_.size())));
    pool_.run(useful, [&](unsigned) {
      for (int64_t first = next.fetch_add(piece); first < count; first = next.fetch_add(piece))
        work(first, std::min(piece, count - first));
    });
  }

 private:
  ThreadPool pool_;
};

// How a run computes.
struct Arithmetic {
  // To the dtypes of tensors; otherwise everything keeps the precision of the type that computes.
  bool rounds = true;
  // All sums in another order.
  bool reordered = false;
  // Of the results of one operator: up or down by chance, in proportion to the distance; 0: to nearest even. The errors
  // are then those of the dtype, and independent of those of another run.
  uint64_t rounding_seed = 0;
};

// Rounds to a dtype in place: to nearest even, or by chance where there is a seed. double: only if `dtype` is narrower.
// `units`: of f32 by chance, by how many units in the last place.
void round_to(Team& team, DType dtype, std::span<float> values, uint64_t seed = 0, uint32_t units = 1);
void round_to(Team& team, DType dtype, std::span<double> values, uint64_t seed = 0, uint32_t units = 1);

// Rows that one piece of work has.
inline constexpr int64_t kRowsOfPiece = 128;
// Elements that one piece has.
inline constexpr int64_t kElementsOfPiece = 1 << 16;

}  // namespace assay::train
