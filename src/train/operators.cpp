// One function for each slot, and the table of them. A function writes outputs that compute() rounds; the one rounding
// inside a formula (the stream of residual_rmsnorm) it does itself.
#include "train/operators.h"

#include <cmath>
#include <numbers>
#include <numeric>

#include "base/random.h"
#include "train/products.h"

namespace assay::train {

namespace {

template <class Real>
struct Call {
  Team& team;
  const Arithmetic& arithmetic;
  Operands<Real>& at;

  Array<Real>& operator[](std::string_view name) const { return at[name]; }
  int64_t dim(std::string_view name) const { return at.dim(name); }
  bool reordered() const { return arithmetic.reordered; }
};

// Σ term(i), in as many partial sums as vectors have lanes; reordered: one after the other, from the end.
template <class Real, class Term>
inline Real sum(int64_t n, bool reordered, const Term& term) {
  constexpr int kLanes = 16;
  if (reordered) {
    Real total = 0;
    for (int64_t i = n - 1; i >= 0; --i) total += term(i);
    return total;
  }
  Real partial[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) partial[lane] += term(i + lane);
  for (int lane = 0; i < n; ++i, ++lane) partial[lane] += term(i);
  for (int width = kLanes / 2; width > 0; width /= 2)
    for (int lane = 0; lane < width; ++lane) partial[lane] += partial[lane + width];
  return partial[0];
}

template <class Real>
Real maximum(const Real* x, int64_t n) {
  Real top = x[0];
  for (int64_t i = 1; i < n; ++i) top = x[i] > top ? x[i] : top;
  return top;
}

// total[d] += rows of `part`, in order or from the last: the partial sums of pieces of rows.
template <class Real>
void add_partial_sums(const std::vector<Real>& parts, int64_t count, int64_t width, bool reordered,
                      Real* total) {
  std::fill(total, total + width, Real{0});
  for (int64_t i = 0; i < count; ++i) {
    const Real* const part = parts.data() + (reordered ? count - 1 - i : i) * width;
    for (int64_t d = 0; d < width; ++d) total[d] += part[d];
  }
}

// ---- Embedding ----

template <class Real>
void embedding(const Call<Real>& c) {
  const int64_t D = c.dim("D");
  const Array<Real>&w = c["w"], &tokens = c["tokens"];
  Array<Real>& y = c["y"];
  c.team.pieces(c.dim("T"), kRowsOfPiece, [&](int64_t first, int64_t n) {
    for (int64_t t = first; t < first + n; ++t)
      std::copy_n(w.data() + tokens.integers[static_cast<std::size_t>(t)] * D, D, y.data() + t * D);
  });
}

// Where in the batch each token occurs: its positions are order[begin[v]] … order[begin[v + 1] - 1].
struct Occurrences {
  std::vector<int64_t> begin, order;
};
Occurrences occurrences(const std::vector<int64_t>& tokens, int64_t vocabulary) {
  Occurrences found;
  found.begin.assign(static_cast<std::size_t>(vocabulary) + 1, 0);
  found.order.resize(tokens.size());
  for (const int64_t token : tokens) ++found.begin[static_cast<std::size_t>(token) + 1];
  std::partial_sum(found.begin.begin(), found.begin.end(), found.begin.begin());
  std::vector<int64_t> next(found.begin.begin(), found.begin.end() - 1);
  for (std::size_t t = 0; t < tokens.size(); ++t)
    found.order[static_cast<std::size_t>(next[static_cast<std::size_t>(tokens[t])]++)] =
        static_cast<int64_t>(t);
  return found;
}

// Each row of dw is the sum of row(t) over the positions of its token; add(t, total) adds one of them.
template <class Real, class Add>
void scatter_rows(const Call<Real>& c, const Add& add) {
  const int64_t D = c.dim("D"), V = c.dim("V");
  Array<Real>& dw = c["dw"];
  const Occurrences found = occurrences(c["tokens"].integers, V);
  c.team.pieces(V, 16, [&](int64_t first, int64_t n) {
    for (int64_t v = first; v < first + n; ++v) {
      Real* const total = dw.data() + v * D;
      std::fill(total, total + D, Real{0});
      const int64_t begin = found.begin[static_cast<std::size_t>(v)],
                    end = found.begin[static_cast<std::size_t>(v) + 1];
      for (int64_t i = 0; i < end - begin; ++i)
        add(found.order[static_cast<std::size_t>(c.reordered() ? end - 1 - i : begin + i)], total);
    }
  });
}

template <class Real>
void embedding_grad(const Call<Real>& c) {
  const int64_t D = c.dim("D");
  const Real* const dy = c["dy"].data();
  scatter_rows(c, [&](int64_t t, Real* total) {
    for (int64_t d = 0; d < D; ++d) total[d] += dy[t * D + d];
  });
}

// ---- RMSNorm ----

template <class Real>
Real scale_of(const Real* x, int64_t D, Real eps, bool reordered) {
  return 1 /
         std::sqrt(sum<Real>(D, reordered, [&](int64_t d) { return x[d] * x[d]; }) / static_cast<Real>(D) +
                   eps);
}

template <class Real>
void normalise(const Call<Real>& c, const Real* x, const Real* w, Real* y) {
  const int64_t D = c.dim("D");
  const Real eps = c.at.scalar("eps");
  c.team.pieces(c.dim("T"), kRowsOfPiece, [&](int64_t first, int64_t n) {
    for (int64_t t = first; t < first + n; ++t) {
      const Real scale = scale_of(x + t * D, D, eps, c.reordered());
      for (int64_t d = 0; d < D; ++d) y[t * D + d] = x[t * D + d] * scale * w[d];
    }
  });
}

// The gradient of one row: scale = 1 / rms(x), and how far dy goes along x.
template <class Real>
struct NormRow {
  Real scale, along;
  NormRow(const Real* dy, const Real* x, const Real* w, int64_t D, Real eps, bool reordered)
      : scale(scale_of(x, D, eps, reordered)),
        along(sum<Real>(D, reordered, [&](int64_t d) { return dy[d] * w[d] * x[d]; }) / static_cast<Real>(D) *
              scale * scale * scale) {}
};

// dx[t] = dresidual[t] + the gradient through the norm of row_of(t); dw. dresidual may be null.
template <class Real, class RowOf>
void normalise_grad(const Call<Real>& c, const Real* dy, const RowOf& row_of, const Real* w,
                    const Real* dresidual, Real* dx, Real* dw) {
  const int64_t T = c.dim("T"), D = c.dim("D");
  const Real eps = c.at.scalar("eps");
  const int64_t pieces = (T + kRowsOfPiece - 1) / kRowsOfPiece;
  std::vector<Real> parts(static_cast<std::size_t>(pieces * D), Real{0});
  c.team.pieces(T, kRowsOfPiece, [&](int64_t first, int64_t n) {
    Real* const part = parts.data() + first / kRowsOfPiece * D;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t t = c.reordered() ? first + n - 1 - i : first + i;
      const Real *const up = dy + t * D, *const row = row_of(t);
      const NormRow<Real> norm(up, row, w, D, eps, c.reordered());
      for (int64_t d = 0; d < D; ++d) {
        const Real through = up[d] * w[d] * norm.scale - row[d] * norm.along;
        dx[t * D + d] = dresidual ? dresidual[t * D + d] + through : through;
        part[d] += up[d] * row[d] * norm.scale;
      }
    }
  });
  add_partial_sums(parts, pieces, D, c.reordered(), dw);
}

template <class Real>
void rmsnorm(const Call<Real>& c) {
  normalise(c, c["x"].data(), c["w"].data(), c["y"].data());
}
template <class Real>
void residual_rmsnorm(const Call<Real>& c) {
  Array<Real>& residual = c["residual"];
  const Real* const x = c["x"].data();
  Real* const stream = residual.data();
  c.team.pieces(residual.count(), kElementsOfPiece, [&](int64_t first, int64_t n) {
    for (int64_t i = first; i < first + n; ++i) stream[i] += x[i];
  });
  if (c.arithmetic.rounds)
    round_to(c.team, residual.dtype, std::span(residual.values), c.arithmetic.rounding_seed);
  normalise(c, residual.data(), c["w"].data(), c["y"].data());
}
template <class Real>
void rmsnorm_grad(const Call<Real>& c) {
  const Real* const x = c["x"].data();
  const auto row_of = [x, D = c.dim("D")](int64_t t) { return x + t * D; };
  normalise_grad<Real>(c, c["dy"].data(), row_of, c["w"].data(), nullptr, c["dx"].data(), c["dw"].data());
}
template <class Real>
void residual_rmsnorm_grad(const Call<Real>& c) {
  const Real* const residual = c["residual"].data();
  const auto row_of = [residual, D = c.dim("D")](int64_t t) { return residual + t * D; };
  normalise_grad<Real>(c, c["dy"].data(), row_of, c["w"].data(), c["dresidual"].data(), c["dx"].data(),
                       c["dw"].data());
}

template <class Real>
void embedding_rmsnorm_grad(const Call<Real>& c) {
  const int64_t D = c.dim("D");
  const Real* const w = c["w"].data();
  const std::vector<int64_t>& tokens = c["tokens"].integers;
  const auto row_of = [&](int64_t t) { return w + tokens[static_cast<std::size_t>(t)] * D; };
  // The gradient of each position, and of the gain; then the sum over the positions of a token.
  std::vector<Real> dx(static_cast<std::size_t>(c.dim("T") * D));
  normalise_grad<Real>(c, c["dy"].data(), row_of, c["g"].data(), nullptr, dx.data(), c["dg"].data());
  scatter_rows(c, [&](int64_t t, Real* total) {
    for (int64_t d = 0; d < D; ++d) total[d] += dx[static_cast<std::size_t>(t * D + d)];
  });
}

// ---- Products ----

template <class Real>
void linear(const Call<Real>& c) {
  multiply(c.team, c["x"].data(), c["w"].data(), c["y"].data(), c.dim("T"), c.dim("N"), c.dim("K"),
           Transposed::None, c.reordered());
}
template <class Real>
void linear_grad_input(const Call<Real>& c) {
  multiply(c.team, c["dy"].data(), c["w"].data(), c["dx"].data(), c.dim("T"), c.dim("K"), c.dim("N"),
           Transposed::Second, c.reordered());
}
template <class Real>
void linear_grad_weight(const Call<Real>& c) {
  multiply(c.team, c["x"].data(), c["dy"].data(), c["dw"].data(), c.dim("K"), c.dim("N"), c.dim("T"),
           Transposed::First, c.reordered());
}

// ---- Rotary position embedding ----

// Angles are computed in double: a float holds the angle of a late position to a few digits only.
template <class Real>
void rotate(const Call<Real>& c, const Array<Real>& x, Array<Real>& y, Real direction) {
  const int64_t T = c.dim("T"), H = c.dim("H"), P = c.dim("P");
  const std::vector<int64_t>& positions = c["positions"].integers;
  const auto base = static_cast<double>(c.at.scalar("base"));
  std::vector<double> frequencies(static_cast<std::size_t>(P));
  for (int64_t j = 0; j < P; ++j)
    frequencies[static_cast<std::size_t>(j)] =
        std::pow(base, -static_cast<double>(j) / static_cast<double>(P));
  const int64_t last = *std::ranges::max_element(positions);
  std::vector<Real> cosines(static_cast<std::size_t>((last + 1) * P)), sines(cosines.size());
  for (int64_t at = 0; at <= last; ++at) {
    for (int64_t j = 0; j < P; ++j) {
      const double angle = static_cast<double>(at) * frequencies[static_cast<std::size_t>(j)];
      cosines[static_cast<std::size_t>(at * P + j)] = static_cast<Real>(std::cos(angle));
      sines[static_cast<std::size_t>(at * P + j)] = static_cast<Real>(std::sin(angle)) * direction;
    }
  }
  c.team.pieces(T, kRowsOfPiece, [&](int64_t first, int64_t n) {
    for (int64_t t = first; t < first + n; ++t) {
      const int64_t at = positions[static_cast<std::size_t>(t)] * P;
      const Real *const cosine = cosines.data() + at, *const sine = sines.data() + at;
      for (int64_t h = 0; h < H; ++h) {
        const Real* const from = x.data() + (t * H + h) * 2 * P;
        Real* const to = y.data() + (t * H + h) * 2 * P;
        for (int64_t j = 0; j < P; ++j) {
          to[j] = from[j] * cosine[j] - from[j + P] * sine[j];
          to[j + P] = from[j] * sine[j] + from[j + P] * cosine[j];
        }
      }
    }
  });
}
template <class Real>
void rope(const Call<Real>& c) {
  rotate(c, c["x"], c["y"], Real{1});
}
template <class Real>
void rope_grad(const Call<Real>& c) {
  rotate(c, c["dy"], c["dx"], Real{-1});
}

// ---- Attention ----

// Scratch for the scores of one head.
template <class Real>
using Scores = std::vector<Real>;

template <class Real>
bool all_finite(const Real* x, int64_t n) {
  return std::all_of(x, x + n, [](Real value) { return std::isfinite(value); });
}

// The product of the lower triangle of a [S, S], or of its transpose, with b [S, D]. A product with the whole matrix, zero above its diagonal, is
// faster, and the same unless b holds infinities or NaN: what a token may not see must not change it.
template <class Real>
void multiply_triangle(const Real* a, const Real* b, Real* c, int64_t S, int64_t D, Transposed transposed,
                       bool reordered, Real scale = 1) {
  if (all_finite(b, S * D)) return multiply_here(a, b, c, S, D, S, transposed, reordered, scale);
  const bool first = transposed == Transposed::First;
  for (int64_t i = 0; i < S; ++i)
    for (int64_t d = 0; d < D; ++d) {
      const int64_t from = first ? i : 0, count = first ? S - i : i + 1;
      c[i * D + d] = scale * sum<Real>(count, reordered, [&](int64_t n) {
                       const int64_t j = from + n;
                       return (first ? a[j * S + i] : a[i * S + j]) * b[j * D + d];
                     });
    }
}

template <class Real>
void attention(const Call<Real>& c) {
  const int64_t S = c.dim("S"), D = c.dim("D");
  const Real *const q = c["q"].data(), *const k = c["k"].data(), *const v = c["v"].data();
  Real* const o = c["o"].data();
  Array<Real>* const lse = c.at.find("lse");
  const Real scale = 1 / std::sqrt(static_cast<Real>(D));
  c.team.pieces(c.dim("H"), 1, [&](int64_t h, int64_t) {
    thread_local Scores<Real> p;
    p.resize(static_cast<std::size_t>(S * S));
    const int64_t at = h * S * D;
    multiply_here(q + at, k + at, p.data(), S, S, D, Transposed::Second, c.reordered(), scale);
    for (int64_t i = 0; i < S; ++i) {
      Real* const row = p.data() + i * S;
      const Real top = maximum(row, i + 1);
      exponentials(row, row, i + 1, top);
      const Real total = sum<Real>(i + 1, c.reordered(), [&](int64_t j) { return row[j]; });
      for (int64_t j = 0; j <= i; ++j) row[j] /= total;
      std::fill(row + i + 1, row + S, Real{0});
      if (lse) lse->data()[h * S + i] = top + std::log(total);
    }
    multiply_triangle(p.data(), v + at, o + at, S, D, Transposed::None, c.reordered());
  });
}

template <class Real>
void attention_grad(const Call<Real>& c) {
  const int64_t S = c.dim("S"), D = c.dim("D");
  const Real *const q = c["q"].data(), *const k = c["k"].data(), *const v = c["v"].data(),
                    *const dout = c["dout"].data();
  const Real *const lse = c["lse"].data(), *const delta = c["delta"].data();
  Real *const dq = c["dq"].data(), *const dk = c["dk"].data(), *const dv = c["dv"].data();
  const Real scale = 1 / std::sqrt(static_cast<Real>(D));
  c.team.pieces(c.dim("H"), 1, [&](int64_t h, int64_t) {
    thread_local Scores<Real> p, ds;
    p.resize(static_cast<std::size_t>(S * S));
    ds.resize(p.size());
    const int64_t at = h * S * D;
    const bool reordered = c.reordered();
    multiply_here(q + at, k + at, p.data(), S, S, D, Transposed::Second, reordered, scale);
    multiply_here(dout + at, v + at, ds.data(), S, S, D, Transposed::Second, reordered);
    for (int64_t i = 0; i < S; ++i) {
      Real *const row = p.data() + i * S, *const slope = ds.data() + i * S;
      exponentials(row, row, i + 1, lse[h * S + i]);
      for (int64_t j = 0; j <= i; ++j) slope[j] = row[j] * (slope[j] - delta[h * S + i]);
      std::fill(row + i + 1, row + S, Real{0});
      std::fill(slope + i + 1, slope + S, Real{0});
    }
    multiply_triangle(ds.data(), k + at, dq + at, S, D, Transposed::None, reordered, scale);
    multiply_triangle(ds.data(), q + at, dk + at, S, D, Transposed::First, reordered, scale);
    multiply_triangle(p.data(), dout + at, dv + at, S, D, Transposed::First, reordered);
  });
}

// ---- Activations ----

// work(first, n) with scratch for n sigmoids.
template <class Real, class Work>
void with_sigmoids(const Call<Real>& c, int64_t count, const Work& work) {
  constexpr int64_t kPiece = 1024;  // stays in the first cache
  c.team.pieces(count, kPiece, [&](int64_t first, int64_t n) {
    Real scratch[kPiece] = {}, inner[kPiece] = {};
    work(first, n, scratch, inner);
  });
}

template <class Real>
void swiglu(const Call<Real>& c) {
  const Real *const gate = c["gate"].data(), *const value = c["value"].data();
  Real* const y = c["y"].data();
  with_sigmoids(c, c["y"].count(), [&](int64_t first, int64_t n, Real* s, Real*) {
    sigmoids(gate + first, s, n);
    for (int64_t i = 0; i < n; ++i) y[first + i] = gate[first + i] * s[i] * value[first + i];
  });
}
template <class Real>
void swiglu_grad(const Call<Real>& c) {
  const Real *const dy = c["dy"].data(), *const gate = c["gate"].data(), *const value = c["value"].data();
  Real *const dgate = c["dgate"].data(), *const dvalue = c["dvalue"].data();
  with_sigmoids(c, c["dgate"].count(), [&](int64_t first, int64_t n, Real* s, Real*) {
    sigmoids(gate + first, s, n);
    for (int64_t i = 0; i < n; ++i) {
      const Real g = gate[first + i];
      dvalue[first + i] = dy[first + i] * (g * s[i]);
      dgate[first + i] = dy[first + i] * value[first + i] * (s[i] * (1 + g * (1 - s[i])));
    }
  });
}

// GELU in its tanh form is x * sigmoid(u), u = 2 sqrt(2 / pi) * (x + 0.044715 x^3).
constexpr double kGeluSlope = 1.5957691216, kGeluCube = 0.044715;

template <class Real>
void gelu(const Call<Real>& c) {
  const Real* const x = c["x"].data();
  Real* const y = c["y"].data();
  constexpr auto slope = static_cast<Real>(kGeluSlope), cube = static_cast<Real>(kGeluCube);
  with_sigmoids(c, c["y"].count(), [&](int64_t first, int64_t n, Real* s, Real* u) {
    for (int64_t i = 0; i < n; ++i)
      u[i] = slope * (x[first + i] + cube * x[first + i] * x[first + i] * x[first + i]);
    sigmoids(u, s, n);
    for (int64_t i = 0; i < n; ++i) y[first + i] = x[first + i] * s[i];
  });
}
template <class Real>
void gelu_grad(const Call<Real>& c) {
  const Real *const x = c["x"].data(), *const dy = c["dy"].data();
  Real* const dx = c["dx"].data();
  constexpr auto slope = static_cast<Real>(kGeluSlope), cube = static_cast<Real>(kGeluCube);
  with_sigmoids(c, c["dx"].count(), [&](int64_t first, int64_t n, Real* s, Real* u) {
    for (int64_t i = 0; i < n; ++i)
      u[i] = slope * (x[first + i] + cube * x[first + i] * x[first + i] * x[first + i]);
    sigmoids(u, s, n);
    for (int64_t i = 0; i < n; ++i) {
      const Real v = x[first + i], du = slope * (1 + 3 * cube * v * v);
      dx[first + i] = dy[first + i] * s[i] * (1 + v * (1 - s[i]) * du);
    }
  });
}

// ---- Cross-entropy ----

// Rows of logits are long: few of them make a piece.
constexpr int64_t kLogitRowsOfPiece = 16;

template <class Real>
void cross_entropy(const Call<Real>& c) {
  const int64_t V = c.dim("V");
  const Real* const logits = c["logits"].data();
  const std::vector<int64_t>& targets = c["targets"].integers;
  Array<Real>& loss = c["loss"];
  Array<Real>* const lse = c.at.find("lse");
  c.team.pieces(c.dim("T"), kLogitRowsOfPiece, [&](int64_t first, int64_t n) {
    std::vector<Real> e(static_cast<std::size_t>(V));
    for (int64_t t = first; t < first + n; ++t) {
      const Real* const row = logits + t * V;
      const Real top = maximum(row, V);
      exponentials(row, e.data(), V, top);
      const Real total =
          sum<Real>(V, c.reordered(), [&](int64_t i) { return e[static_cast<std::size_t>(i)]; });
      loss.data()[t] = std::log(total) - (row[targets[static_cast<std::size_t>(t)]] - top);
      if (lse) lse->data()[t] = top + std::log(total);
    }
  });
}
template <class Real>
void cross_entropy_grad(const Call<Real>& c) {
  const int64_t V = c.dim("V");
  const Real *const logits = c["logits"].data(), *const lse = c["lse"].data(),
                    *const dloss = c["dloss"].data();
  const std::vector<int64_t>& targets = c["targets"].integers;
  Real* const dlogits = c["dlogits"].data();
  c.team.pieces(c.dim("T"), kLogitRowsOfPiece, [&](int64_t first, int64_t n) {
    for (int64_t t = first; t < first + n; ++t) {
      Real* const row = dlogits + t * V;
      exponentials(logits + t * V, row, V, lse[t]);
      row[targets[static_cast<std::size_t>(t)]] -= 1;
      for (int64_t v = 0; v < V; ++v) row[v] *= dloss[t];
    }
  });
}

// ---- Updates ----

template <class Real>
void sgd(const Call<Real>& c) {
  Array<Real>& p = c["p"];
  const Real* const g = c["g"].data();
  const Real rate = c.at.scalar("lr");
  c.team.pieces(p.count(), kElementsOfPiece, [&](int64_t first, int64_t n) {
    for (int64_t i = first; i < first + n; ++i) p.data()[i] -= rate * g[i];
  });
}
template <class Real>
void momentum(const Call<Real>& c) {
  Real *const p = c["p"].data(), *const m = c["m"].data();
  const Real* const g = c["g"].data();
  const Real rate = c.at.scalar("lr"), mu = c.at.scalar("mu");
  c.team.pieces(c["p"].count(), kElementsOfPiece, [&](int64_t first, int64_t n) {
    for (int64_t i = first; i < first + n; ++i) {
      m[i] = mu * m[i] + g[i];
      p[i] -= rate * m[i];
    }
  });
}
template <class Real>
void adamw(const Call<Real>& c) {
  Real *const p = c["p"].data(), *const m = c["m"].data(), *const v = c["v"].data();
  const Real* const g = c["g"].data();
  const Real rate = c.at.scalar("lr"), beta1 = c.at.scalar("beta1"), beta2 = c.at.scalar("beta2");
  const Real eps = c.at.scalar("eps"), kept = 1 - rate * c.at.scalar("decay");
  const auto step = static_cast<double>(c.at.scalar("step"));
  const auto first_bias = static_cast<Real>(1 - std::pow(static_cast<double>(beta1), step));
  const auto second_bias = static_cast<Real>(1 - std::pow(static_cast<double>(beta2), step));
  c.team.pieces(c["p"].count(), kElementsOfPiece, [&](int64_t first, int64_t n) {
    for (int64_t i = first; i < first + n; ++i) {
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      p[i] = p[i] * kept - rate * (m[i] / first_bias / (std::sqrt(v[i] / second_bias) + eps));
    }
  });
}

// By how many units in the last place a correct kernel's f32 result may be off: two or three approximate functions (docs/measurements/hardware.md:
// each up to 2 units), and sums. An update ends with one addition to the weight, which is off by one.
constexpr uint32_t kUnitsOfFunctions = 8;

// ---- The table ----

template <class Real>
struct Row {
  std::string_view slot;
  void (*function)(const Call<Real>&);
};

template <class Real>
constexpr Row<Real> kOperators[] = {
    {"embedding", embedding<Real>},
    {"rmsnorm", rmsnorm<Real>},
    {"residual_rmsnorm", residual_rmsnorm<Real>},
    {"linear", linear<Real>},
    {"rope", rope<Real>},
    {"attention", attention<Real>},
    {"swiglu", swiglu<Real>},
    {"gelu", gelu<Real>},
    {"cross_entropy", cross_entropy<Real>},
    {"cross_entropy_grad", cross_entropy_grad<Real>},
    {"linear_grad_input", linear_grad_input<Real>},
    {"linear_grad_weight", linear_grad_weight<Real>},
    {"swiglu_grad", swiglu_grad<Real>},
    {"gelu_grad", gelu_grad<Real>},
    {"attention_grad", attention_grad<Real>},
    {"rope_grad", rope_grad<Real>},
    {"rmsnorm_grad", rmsnorm_grad<Real>},
    {"residual_rmsnorm_grad", residual_rmsnorm_grad<Real>},
    {"embedding_grad", embedding_grad<Real>},
    {"embedding_rmsnorm_grad", embedding_rmsnorm_grad<Real>},
    {"sgd", sgd<Real>},
    {"momentum", momentum<Real>},
    {"adamw", adamw<Real>},
};

}  // namespace

template <class Real>
void compute(Team& team, const Slot& slot, const Arithmetic& arithmetic, Operands<Real>& operands) {
  const auto* const row = std::ranges::find(kOperators<Real>, slot.name, &Row<Real>::slot);
  row->function({team, arithmetic, operands});
  if (!arithmetic.rounds) return;
  uint64_t seed = arithmetic.rounding_seed;
  const uint32_t units = slot.phase == Phase::Update ? 1 : kUnitsOfFunctions;
  for (const SlotTensor& tensor : slot.tensors) {
    Array<Real>* const array = operands.find(tensor.name);
    if (tensor.role == contract::Role::In || !array) continue;
    if (seed != 0) seed = mix(seed);
    round_to(team, array->dtype, std::span(array->values), seed, units);
  }
}

template void compute(Team&, const Slot&, const Arithmetic&, Operands<float>&);
template void compute(Team&, const Slot&, const Arithmetic&, Operands<double>&);

}  // namespace assay::train
