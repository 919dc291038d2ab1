#include "train/products.h"

#include <Eigen/Core>

namespace assay::train {

namespace {

template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <class Real>
using View = Eigen::Map<const Matrix<Real>, Eigen::Unaligned, Eigen::OuterStride<>>;
template <class Real>
using Target = Eigen::Map<Matrix<Real>, Eigen::Unaligned, Eigen::OuterStride<>>;

// Terms that are summed in a row before the sum is added to the result. Fixed, so that a result does not depend on how
// Eigen would cut the sum for the caches of a machine.
constexpr int64_t kTermsOfBlock = 256;

// A part of a product: rows [row, row + rows) and columns [column, column + columns) of c.
template <class Real>
struct Part {
  const Real *a, *b;
  Real* c;
  int64_t m, n, k;
  Transposed transposed;
  int64_t row, rows, column, columns;
};

template <class Real>
void add_block(const Part<Real>& p, int64_t first, int64_t terms, Real scale, bool is_first) {
  Target<Real> c(p.c + p.row * p.n + p.column, p.rows, p.columns, Eigen::OuterStride<>(p.n));
  const auto sum = [&](const auto& product) {
    if (is_first)
      c.noalias() = scale * product;
    else
      c.noalias() += scale * product;
  };
  switch (p.transposed) {
    case Transposed::None: {
      const View<Real> a(p.a + p.row * p.k + first, p.rows, terms, Eigen::OuterStride<>(p.k));
      const View<Real> b(p.b + first * p.n + p.column, terms, p.columns, Eigen::OuterStride<>(p.n));
      return sum(a * b);
    }
    case Transposed::First: {
      const View<Real> a(p.a + first * p.m + p.row, terms, p.rows, Eigen::OuterStride<>(p.m));
      const View<Real> b(p.b + first * p.n + p.column, terms, p.columns, Eigen::OuterStride<>(p.n));
      return sum(a.transpose() * b);
    }
    case Transposed::Second: {
      const View<Real> a(p.a + p.row * p.k + first, p.rows, terms, Eigen::OuterStride<>(p.k));
      const View<Real> b(p.b + p.column * p.k + first, p.columns, terms, Eigen::OuterStride<>(p.k));
      return sum(a * b.transpose());
    }
  }
}

template <class Real>
void add_blocks(const Part<Real>& p, bool reordered, Real scale) {
  const int64_t length = reordered ? std::clamp<int64_t>((p.k + 2) / 3, 1, 192) : kTermsOfBlock;
  const int64_t blocks = (p.k + length - 1) / length;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t block = reordered ? blocks - 1 - i : i;
    add_block(p, block * length, std::min(length, p.k - block * length), scale, i == 0);
  }
}

// Rows and columns of one piece: enough for the product to be worth packing.
constexpr int64_t kPieceRows = 512, kPieceColumns = 512, kFewestColumns = 64;

}  // namespace

template <class Real>
void multiply(Team& team, const Real* a, const Real* b, Real* c, int64_t m, int64_t n, int64_t k,
              Transposed transposed, bool reordered) {
  // A product with few rows is cut into narrower columns: there is work for all.
  const int64_t width =
      m > kPieceRows ? kPieceColumns : std::clamp<int64_t>(n / 4, kFewestColumns, kPieceColumns);
  const int64_t rows = (m + kPieceRows - 1) / kPieceRows, columns = (n + width - 1) / width;
  team.pieces(rows * columns, 1, [&](int64_t piece, int64_t) {
    const int64_t row = piece / columns * kPieceRows, column = piece % columns * width;
    add_blocks(Part<Real>{a, b, c, m, n, k, transposed, row, std::min(kPieceRows, m - row), column,
                          std::min(width, n - column)},
               reordered, Real{1});
  });
}

template <class Real>
void multiply_here(const Real* a, const Real* b, Real* c, int64_t m, int64_t n, int64_t k,
                   Transposed transposed, bool reordered, Real scale) {
  add_blocks(Part<Real>{a, b, c, m, n, k, transposed, 0, m, 0, n}, reordered, scale);
}

namespace {

// Eigen's vectors of exponentials clamp their arguments where results leave the normal numbers: exp(-inf) is 1e-38, not 0, and times infinity it is
// infinity, not NaN. Up to here they are exponentials.
template <class Real>
constexpr Real kVectorExponents = sizeof(Real) == sizeof(float) ? 80 : 700;

// Eigen takes what lies before an aligned address, or after the last whole vector, to another function with other last bits. So that results do
// not depend on where an array lies, everything is computed in aligned pieces of this many elements.
constexpr int64_t kPiece = 32;

// y[i] = vector(exponent(i)), a piece at a time; single() where an exponent is beyond the vectors. Loops over a whole piece have a fixed length and
// no way out, so that they become vectors, too.
template <class Real, class Exponent, class Vector, class Single>
void by_pieces(Real* y, int64_t n, const Exponent& exponent, const Vector& vector, const Single& single) {
  for (int64_t first = 0; first < n; first += kPiece) {
    const int64_t count = std::min(kPiece, n - first);
    Eigen::Array<Real, kPiece, 1> piece;
    if (count == kPiece) {
      for (int64_t i = 0; i < kPiece; ++i) piece[i] = exponent(first + i);
    } else {
      piece.setZero();
      for (int64_t i = 0; i < count; ++i) piece[i] = exponent(first + i);
    }
    unsigned beyond = 0;
    for (int64_t i = 0; i < kPiece; ++i)
      beyond |= static_cast<unsigned>(!(std::abs(piece[i]) < kVectorExponents<Real>));  // or NaN
    if (beyond == 0)
      piece = vector(piece).eval();
    else
      for (int64_t i = 0; i < count; ++i) piece[i] = single(piece[i]);
    if (count == kPiece)
      std::copy_n(piece.data(), kPiece, y + first);
    else
      std::copy_n(piece.data(), count, y + first);
  }
}

}  // namespace

template <class Real>
void exponentials(const Real* x, Real* y, int64_t n, Real shift) {
  by_pieces(
      y, n, [&](int64_t i) { return x[i] - shift; }, [](const auto& piece) { return piece.exp(); },
      [](Real exponent) { return std::exp(exponent); });
}

template <class Real>
void sigmoids(const Real* x, Real* y, int64_t n, Real scale) {
  by_pieces(
      y, n, [&](int64_t i) { return -scale * x[i]; },
      [](const auto& piece) { return (Real{1} + piece.exp()).inverse(); },
      [](Real exponent) { return 1 / (1 + std::exp(exponent)); });
}

// NOLINTBEGIN(bugprone-macro-parentheses): it is a type
#define ASSAY_TRAIN_PRODUCTS(Real)                                                                          \
  template void multiply(Team&, const Real*, const Real*, Real*, int64_t, int64_t, int64_t, Transposed,     \
                         bool);                                                                             \
  template void multiply_here(const Real*, const Real*, Real*, int64_t, int64_t, int64_t, Transposed, bool, \
                              Real);                                                                        \
  template void exponentials(const Real*, Real*, int64_t, Real);                                            \
  template void sigmoids(const Real*, Real*, int64_t, Real)
ASSAY_TRAIN_PRODUCTS(float);
ASSAY_TRAIN_PRODUCTS(double);
#undef ASSAY_TRAIN_PRODUCTS
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace assay::train
