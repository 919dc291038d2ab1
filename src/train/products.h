// Products of matrices and exponentials of vectors: what Eigen computes. Eigen's headers are included by products.cpp alone.
#pragma once

#include <cstdint>

#include "train/arithmetic.h"

namespace assay::train {

enum class Transposed : uint8_t { None, First, Second };

// c[m, n] = Σ a[m, k] b[k, n], row-major. Transposed::First: a is stored as [k, m]; Second: b as [n, k].
// Sums run over blocks of k of a fixed length; `reordered`, over others and from the last to the first.
template <class Real>
void multiply(Team& team, const Real* a, const Real* b, Real* c, int64_t m, int64_t n, int64_t k,
              Transposed transposed, bool reordered);
// The same on the calling thread, times `scale`.
template <class Real>
void multiply_here(const Real* a, const Real* b, Real* c, int64_t m, int64_t n, int64_t k,
                   Transposed transposed, bool reordered, Real scale = 1);

// y[i] = exp(x[i] - shift); x and y may be the same.
template <class Real>
void exponentials(const Real* x, Real* y, int64_t n, Real shift);
// y[i] = 1 / (1 + exp(-scale * x[i]))
template <class Real>
void sigmoids(const Real* x, Real* y, int64_t n, Real scale = 1);

}  // namespace assay::train
