#include <algorithm>
#include <cmath>
#include <numeric>

#include "implementations.h"
#include "numerics/tensor_core.h"

namespace assay::judge::testing {

namespace {

// ---- row sums ----
Implementation row_sums(Sum sum, std::function<float(float)> store = {}) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor y = call.out("y");
    const int64_t m = call.dim("M"), n = call.dim("N");
    for (int64_t i = 0; i < m; ++i) {
      float s = sum(Floats(x.begin() + i * n, x.begin() + (i + 1) * n));
      if (store) s = store(s);
      y.store(i, s);
    }
    return one("y", std::move(y));
  };
}

std::string row_sum_contract(const char* dtype) {
  return std::string(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "M", "N"]
[dims]
M = { min = 1, max = 256 }
N = { min = 1, max = 4096 }
[tensors.x]
dtype = ")") +
         dtype + R"("
shape = ["M", "N"]
[tensors.y]
dtype = ")" +
         dtype + R"("
shape = ["M"]
role = "out"
[reference]
formula = "y[i] += x[i, k]"
)";
}

}  // namespace

Operator row_sum(const char* dtype) {
  Operator op{std::string("row sum ") + dtype, row_sum_contract(dtype), {}};
  for (const auto& [name, sum] : sound_sums()) op.variants.push_back({name, row_sums(sum), {}, {}, {}});
  const std::map<std::string, int64_t> large = {{"M", 64}, {"N", 1024}};
  const std::map<std::string, std::string> same = {{"x", "same-sign"}};
  op.variants.push_back(
      {"bf16 accumulator", row_sums(in_bf16), {Kind::LowPrecisionAccumulation}, same, large});
  op.variants.push_back(
      {"bf16 accumulator, zero mean", row_sums(in_bf16), {Kind::LowPrecisionAccumulation}, {}, large});
  // 64 sums of terms of both signs are few: of 60 seeds each, about three quarters are named as what they are, most others as
  // a loss of precision.
  op.variants.push_back({"bf16 partials",
                         row_sums(bf16_partials),
                         {Kind::LowPrecisionAccumulation, Kind::PrecisionLoss},
                         {},
                         large});
  op.variants.push_back({"lost tail of 8", row_sums(without_tail(8)), {Kind::WrongResult}, {}, large});
  op.variants.push_back({"lost last", row_sums(without_tail(1)), {Kind::WrongResult}, {}, large});
  if (std::string(dtype) == "bf16") {
    op.variants.push_back(
        {"truncating store", row_sums(warp, truncated_bf16), {Kind::BiasedRounding}, {}, large});
    op.variants.push_back(
        {"f16 accumulator", row_sums(in_f16), {Kind::LowPrecisionAccumulation}, same, large});
  }
  return op;
}

namespace {

// ---- matrix product ----
Implementation product(Sum sum, bool fused) {
  return [=](const Call& call) {
    const Floats a = call.in("a"), b = call.in("b");
    Tensor c = call.out("c");
    const int64_t m = call.dim("M"), n = call.dim("N"), k = call.dim("K");
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        if (fused) {
          float s = 0;
          for (int64_t l = 0; l < k; ++l)
            s = std::fma(a[static_cast<std::size_t>(i * k + l)], b[static_cast<std::size_t>(l * n + j)], s);
          c.store(i * n + j, s);
        } else {
          Floats terms;
          for (int64_t l = 0; l < k; ++l)
            terms.push_back(a[static_cast<std::size_t>(i * k + l)] * b[static_cast<std::size_t>(l * n + j)]);
          c.store(i * n + j, sum(terms));
        }
      }
    }
    return one("c", std::move(c));
  };
}

// As Hopper's tensor cores do it, sixteen products at a time, in `splits` parts of k.
Implementation tensor_core_product(int splits) {
  return [=](const Call& call) {
    const Floats a = call.in("a"), b = call.in("b");
    Tensor c = call.out("c");
    const int64_t m = call.dim("M"), n = call.dim("N"), k = call.dim("K");
    const auto code = [](float x) { return numerics::f32_to_bf16_rn(x); };
    const int64_t part = (k + splits - 1) / splits;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        float total = 0;
        for (int64_t begin = 0; begin < k; begin += part) {
          float sum = 0;
          for (int64_t first = begin; first < std::min(k, begin + part); first += 16) {
            uint16_t left[16] = {},
                     right[8 * 16] = {};  // eight columns: the least there is; the first counts
            for (int64_t l = first; l < std::min({k, begin + part, first + 16}); ++l) {
              left[l - first] = code(a[static_cast<std::size_t>(i * k + l)]);
              right[l - first] = code(b[static_cast<std::size_t>(l * n + j)]);
            }
            float sums[8] = {sum};
            numerics::mma_bf16_f32({1, 8, 16}, left, right, sums, sums);
            sum = sums[0];
          }
          total += sum;
        }
        c.store(i * n + j, total);
      }
    }
    return one("c", std::move(c));
  };
}

}  // namespace

Operator matrix_product(const char* dtype, const char* stored) {
  Operator op{std::string("matrix product ") + dtype + (std::string(dtype) == stored ? "" : " to f32"),
              std::string(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["a", "b", "c", "M", "N", "K"]
[dims]
M = { min = 1, max = 40 }
N = { min = 1, max = 40 }
K = { min = 1, max = 600 }
[tensors.a]
dtype = ")") + dtype +
                  R"("
shape = ["M", "K"]
[tensors.b]
dtype = ")" + dtype +
                  R"("
shape = ["K", "N"]
[tensors.c]
dtype = ")" + stored +
                  R"("
shape = ["M", "N"]
role = "out"
[reference]
formula = "c[i, j] += a[i, k] * b[k, j]"
)",
              {}};
  op.variants.push_back({"fused", product(sequential, true), {}, {}, {}});
  if (std::string(dtype) == "bf16") {
    for (const int splits : {1, 3})
      op.variants.push_back({"tensor cores, " + std::to_string(splits) + " parts",
                             tensor_core_product(splits),
                             {},
                             {},
                             {},
                             true});
  }
  for (const auto& [name, sum] : sound_sums()) op.variants.push_back({name, product(sum, false), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 24}, {"N", 24}, {"K", 512}};
  op.variants.push_back(
      {"bf16 accumulator", product(in_bf16, false), {Kind::LowPrecisionAccumulation}, {}, shape});
  op.variants.push_back(
      {"bf16 partials", product(bf16_partials, false), {Kind::LowPrecisionAccumulation}, {}, shape});
  op.variants.push_back({"lost last", product(without_tail(1), false), {Kind::WrongResult}, {}, shape});
  return op;
}

namespace {

// ---- embedding gradient ----
Implementation embedding(bool narrow, int order) {
  return [=](const Call& call) {
    const Floats dy = call.in("dy");
    const std::vector<int64_t> tokens = call.ints("tokens");
    Tensor dw = call.out("dw");
    const int64_t t = call.dim("T"), d = call.dim("D"), v = call.dim("V");
    Floats sums(static_cast<std::size_t>(v * d), 0.0f);
    for (int64_t i = 0; i < t; ++i) {
      const int64_t at = order == 0 ? i : order == 1 ? t - 1 - i : (i * 7919) % t;
      if (order == 2 && std::gcd<int64_t, int64_t>(7919, t) != 1) continue;
      for (int64_t k = 0; k < d; ++k) {
        float& sum = sums[static_cast<std::size_t>(tokens[static_cast<std::size_t>(at)] * d + k)];
        sum += dy[static_cast<std::size_t>(at * d + k)];
        if (narrow) sum = bf16(sum);
      }
    }
    for (int64_t i = 0; i < v * d; ++i) dw.store(i, sums[static_cast<std::size_t>(i)]);
    return one("dw", std::move(dw));
  };
}

// Tokens in blocks of 256, each with sums of its own, added to the total at its end.
Implementation embedding_in_blocks() {
  return [=](const Call& call) {
    const Floats dy = call.in("dy");
    const std::vector<int64_t> tokens = call.ints("tokens");
    Tensor dw = call.out("dw");
    const int64_t t = call.dim("T"), d = call.dim("D"), v = call.dim("V");
    Floats sums(static_cast<std::size_t>(v * d), 0.0f);
    for (int64_t first = 0; first < t; first += 256) {
      Floats part(sums.size(), 0.0f);
      for (int64_t i = first; i < std::min(t, first + 256); ++i) {
        for (int64_t k = 0; k < d; ++k)
          part[static_cast<std::size_t>(tokens[static_cast<std::size_t>(i)] * d + k)] +=
              dy[static_cast<std::size_t>(i * d + k)];
      }
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += part[i];
    }
    for (int64_t i = 0; i < v * d; ++i) dw.store(i, sums[static_cast<std::size_t>(i)]);
    return one("dw", std::move(dw));
  };
}

}  // namespace

Operator embeddings() {
  Operator op{"embedding gradient",
              R"toml(
[kernel]
source = "k.cu"
entry = "k"
args = ["dy", "tokens", "dw", "T", "D", "V"]
[dims]
T = { min = 1, max = 4000 }
D = { min = 1, max = 32 }
V = { min = 1, max = 300 }
[tensors.dy]
dtype = "bf16"
shape = ["T", "D"]
values = "gradients"
[tensors.tokens]
dtype = "i64"
shape = ["T"]
values = "tokens(V)"
[tensors.dw]
dtype = "bf16"
shape = ["V", "D"]
role = "out"
[reference]
formula = "dw[tokens[t], d] += dy[t, d]"
)toml",
              {}};
  op.variants.push_back({"in order", embedding(false, 0), {}, {}, {}});
  op.variants.push_back({"backwards", embedding(false, 1), {}, {}, {}});
  op.variants.push_back({"in blocks", embedding_in_blocks(), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"T", 3001}, {"D", 16}, {"V", 100}};
  op.variants.push_back({"bf16, in order", embedding(true, 0), {Kind::LowPrecisionAccumulation}, {}, shape});
  op.variants.push_back({"bf16, backwards", embedding(true, 1), {Kind::LowPrecisionAccumulation}, {}, shape});
  op.variants.push_back(
      {"bf16, some order", embedding(true, 2), {Kind::LowPrecisionAccumulation}, {}, shape});
  return op;
}

}  // namespace assay::judge::testing
