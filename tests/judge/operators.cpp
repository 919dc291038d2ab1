#include "operators.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "numerics/tensor_core.h"

namespace assay::judge::testing {

namespace {

using Floats = std::vector<float>;

float bf16(float x) {
  return static_cast<float>(contract::rounded(DType::bf16, x));
}
float f16(float x) {
  return static_cast<float>(contract::rounded(DType::f16, x));
}
float truncated_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  bits &= 0xffff0000u;
  std::memcpy(&x, &bits, 4);
  return x;
}

Outputs one(const char* name, Tensor tensor) {
  Outputs outputs;
  outputs[name] = std::make_shared<const Tensor>(std::move(tensor));
  return outputs;
}

// ---- ways to add ----
using Sum = std::function<float(const Floats&)>;

float sequential(const Floats& x) {
  float sum = 0;
  for (const float v : x) sum += v;
  return sum;
}
float pairwise(const Floats& x) {
  Floats level = x;
  while (level.size() > 1) {
    Floats next;
    for (std::size_t i = 0; i < level.size(); i += 2)
      next.push_back(i + 1 < level.size() ? level[i] + level[i + 1] : level[i]);
    level = std::move(next);
  }
  return level.empty() ? 0 : level[0];
}
// 32 lanes with a stride, then a tree: as a warp sums a row.
float warp(const Floats& x) {
  Floats lanes(32, 0.0f);
  for (std::size_t i = 0; i < x.size(); ++i) lanes[i % 32] += x[i];
  return pairwise(lanes);
}
float blocked(const Floats& x) {
  Floats partial;
  for (std::size_t i = 0; i < x.size(); i += 64) {
    partial.push_back(
        sequential(Floats(x.begin() + static_cast<std::ptrdiff_t>(i),
                          x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), i + 64)))));
  }
  return sequential(partial);
}
// Four blocks of the grid, each with a part, added as they come.
float split(const Floats& x) {
  float sum = 0;
  const std::size_t part = std::max<std::size_t>(1, (x.size() + 3) / 4);
  for (std::size_t i = 0; i < x.size(); i += part) {
    sum += warp(Floats(x.begin() + static_cast<std::ptrdiff_t>(i),
                       x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), i + part))));
  }
  return sum;
}
float backwards(const Floats& x) {
  return sequential(Floats(x.rbegin(), x.rend()));
}
float kahan(const Floats& x) {
  float sum = 0, carry = 0;
  for (const float v : x) {
    const float y = v - carry, t = sum + y;
    carry = (t - sum) - y;
    sum = t;
  }
  return sum;
}
float in_bf16(const Floats& x) {
  float sum = 0;
  for (const float v : x) sum = bf16(sum + v);
  return sum;
}
float in_f16(const Floats& x) {
  float sum = 0;
  for (const float v : x) sum = f16(sum + v);
  return sum;
}
float bf16_partials(const Floats& x) {
  float sum = 0;
  const std::size_t part = std::max<std::size_t>(1, (x.size() + 7) / 8);
  for (std::size_t i = 0; i < x.size(); i += part) {
    sum += bf16(sequential(Floats(x.begin() + static_cast<std::ptrdiff_t>(i),
                                  x.begin() + static_cast<std::ptrdiff_t>(std::min(x.size(), i + part)))));
  }
  return sum;
}
Sum without_tail(std::size_t n) {
  return [n](const Floats& x) {
    return warp(Floats(x.begin(), x.end() - static_cast<std::ptrdiff_t>(std::min(n, x.size()))));
  };
}

const std::vector<std::pair<std::string, Sum>> kSoundSums = {
    {"sequential", sequential}, {"pairwise", pairwise}, {"warp", warp},  {"blocked", blocked},
    {"backwards", backwards},   {"kahan", kahan},       {"split", split}};

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

Operator row_sum(const char* dtype) {
  Operator op{std::string("row sum ") + dtype, row_sum_contract(dtype), {}};
  for (const auto& [name, sum] : kSoundSums) op.variants.push_back({name, row_sums(sum), {}, {}, {}});
  const std::map<std::string, int64_t> large = {{"M", 64}, {"N", 1024}};
  const std::map<std::string, std::string> same = {{"x", "same-sign"}};
  op.variants.push_back({"bf16 accumulator", row_sums(in_bf16), {"low-precision-accumulation"}, same, large});
  op.variants.push_back(
      {"bf16 accumulator, zero mean", row_sums(in_bf16), {"low-precision-accumulation"}, {}, large});
  op.variants.push_back(
      {"bf16 partials", row_sums(bf16_partials), {"low-precision-accumulation"}, {}, large});
  op.variants.push_back({"lost tail of 8", row_sums(without_tail(8)), {"wrong-result"}, {}, large});
  op.variants.push_back({"lost last", row_sums(without_tail(1)), {"wrong-result"}, {}, large});
  if (std::string(dtype) == "bf16") {
    op.variants.push_back(
        {"truncating store", row_sums(warp, truncated_bf16), {"biased-rounding"}, {}, large});
    op.variants.push_back({"f16 accumulator", row_sums(in_f16), {"low-precision-accumulation"}, same, large});
  }
  return op;
}

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
  for (const auto& [name, sum] : kSoundSums) op.variants.push_back({name, product(sum, false), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 24}, {"N", 24}, {"K", 512}};
  op.variants.push_back(
      {"bf16 accumulator", product(in_bf16, false), {"low-precision-accumulation"}, {}, shape});
  op.variants.push_back(
      {"bf16 partials", product(bf16_partials, false), {"low-precision-accumulation"}, {}, shape});
  op.variants.push_back({"lost last", product(without_tail(1), false), {"wrong-result"}, {}, shape});
  return op;
}

// ---- norms ----
struct NormParts {
  Sum sum = warp;
  bool one_pass = false, welford = false, round_scale = false, round_before_gain = false;
  bool merged = false, shifted = false;
};

struct Moments {
  float mean = 0, squares = 0, count = 0;
  void add(float x) {
    count += 1;
    const float delta = x - mean;
    mean += delta / count;
    squares += delta * (x - mean);
  }
};
Moments merged(const Moments& a, const Moments& b) {
  if (b.count == 0) return a;
  const float count = a.count + b.count, delta = b.mean - a.mean, share = b.count / count;
  return {a.mean + delta * share, a.squares + b.squares + delta * delta * a.count * share, count};
}
// 32 lanes, then a tree.
Moments moments(const Floats& row) {
  std::vector<Moments> lanes(32);
  for (std::size_t i = 0; i < row.size(); ++i) lanes[i % 32].add(row[i]);
  for (std::size_t step = 16; step > 0; step /= 2) {
    for (std::size_t i = 0; i < step; ++i) lanes[i] = merged(lanes[i], lanes[i + step]);
  }
  return lanes[0];
}

Implementation rms_norm(NormParts parts) {
  return [=](const Call& call) {
    const Floats x = call.in("x"), w = call.in("w");
    Tensor y = call.out("y");
    const int64_t m = call.dim("M"), n = call.dim("N");
    for (int64_t i = 0; i < m; ++i) {
      Floats squares;
      for (int64_t k = 0; k < n; ++k)
        squares.push_back(x[static_cast<std::size_t>(i * n + k)] * x[static_cast<std::size_t>(i * n + k)]);
      float scale = 1.0f / std::sqrt(parts.sum(squares) / static_cast<float>(n) + call.scalar("eps"));
      if (parts.round_scale) scale = bf16(scale);
      for (int64_t k = 0; k < n; ++k) {
        float v = x[static_cast<std::size_t>(i * n + k)] * scale;
        if (parts.round_before_gain) v = bf16(v);
        y.store(i * n + k, v * w[static_cast<std::size_t>(k)]);
      }
    }
    return one("y", std::move(y));
  };
}

std::string norm_contract(const char* formula, const char* dtype = "bf16") {
  return std::string(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "w", "y", "M", "N", "eps"]
[dims]
M = { min = 1, max = 64 }
N = { min = 1, max = 2048 }
[tensors.x]
dtype = ")") +
         dtype + R"("
shape = ["M", "N"]
values = "activations"
[tensors.w]
dtype = "bf16"
shape = ["N"]
values = "weights"
[tensors.y]
dtype = "bf16"
shape = ["M", "N"]
role = "out"
[scalars.eps]
dtype = "f32"
value = 1e-6
[reference]
formula = """
)" + formula +
         "\n\"\"\"\n";
}

Operator rms_norms() {
  Operator op{"rms norm",
              norm_contract("r[i] = rsqrt(mean[k](x[i, k]^2) + eps)\ny[i, k] = x[i, k] * r[i] * w[k]"),
              {}};
  for (const auto& [name, sum] : kSoundSums)
    op.variants.push_back({name, rms_norm({.sum = sum}), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 32}, {"N", 1024}};
  const std::vector<std::string> loss = {"precision-loss", "low-precision-accumulation"};
  op.variants.push_back({"scale rounded to bf16", rms_norm({.round_scale = true}), loss, {}, shape});
  op.variants.push_back(
      {"rounded before the gain", rms_norm({.round_before_gain = true}), {"precision-loss"}, {}, shape});
  op.variants.push_back(
      {"bf16 squares", rms_norm({.sum = in_bf16}), {"low-precision-accumulation"}, {}, shape});
  op.variants.push_back(
      {"lost tail of 8", rms_norm({.sum = without_tail(8)}), {"wrong-result", "precision-loss"}, {}, shape});
  return op;
}

Implementation layer_norm(NormParts parts, bool statistics = false) {
  return [=](const Call& call) {
    const Floats x = call.in("x"), w = call.in("w");
    Tensor y = call.out("y"), r = statistics ? call.out("r") : Tensor();
    const int64_t m = call.dim("M"), n = call.dim("N");
    const auto count = static_cast<float>(n);
    for (int64_t i = 0; i < m; ++i) {
      const Floats row(x.begin() + i * n, x.begin() + (i + 1) * n);
      float mean = parts.sum(row) / count, variance = 0;
      Floats squares;
      if (parts.one_pass) {
        for (const float v : row) squares.push_back(v * v);
        variance = parts.sum(squares) / count - mean * mean;
      } else if (parts.welford) {
        mean = 0;
        float m2 = 0;
        for (std::size_t k = 0; k < row.size(); ++k) {
          const float delta = row[k] - mean;
          mean += delta / static_cast<float>(k + 1);
          m2 += delta * (row[k] - mean);
        }
        variance = m2 / count;
      } else if (parts.merged) {
        const Moments all = moments(row);
        mean = all.mean;
        variance = all.squares / count;
      } else if (parts.shifted) {  // by the first element
        Floats shifted;
        for (const float v : row) shifted.push_back(v - row[0]);
        for (const float v : shifted) squares.push_back(v * v);
        const float sum = parts.sum(shifted);
        mean = row[0] + sum / count;
        variance = (parts.sum(squares) - sum * (sum / count)) / count;
        if (variance < 0) variance = 0;  // NaN stays
      } else {
        for (const float v : row) squares.push_back((v - mean) * (v - mean));
        variance = parts.sum(squares) / count;
      }
      const float scale = 1.0f / std::sqrt(variance + call.scalar("eps"));
      for (int64_t k = 0; k < n; ++k)
        y.store(i * n + k,
                (row[static_cast<std::size_t>(k)] - mean) * scale * w[static_cast<std::size_t>(k)]);
      if (statistics) r.store(i, scale);
    }
    Outputs outputs = one("y", std::move(y));
    if (statistics) outputs["r"] = std::make_shared<const Tensor>(std::move(r));
    return outputs;
  };
}

// `statistics`: bf16 inputs, and the reciprocal deviation in f32 is an output too.
Operator layer_norms(bool statistics) {
  Operator op{
      statistics ? "layer norm with statistics" : "layer norm",
      norm_contract(statistics ? "m[i] = mean[k](x[i, k])\nr[i] = rsqrt(mean[k]((x[i, k] - m[i])^2) + eps)\n"
                                 "y[i, k] = (x[i, k] - m[i]) * r[i] * w[k]"
                               : "m[i] = mean[k](x[i, k])\nv[i] = mean[k]((x[i, k] - m[i])^2)\n"
                                 "y[i, k] = (x[i, k] - m[i]) * rsqrt(v[i] + eps) * w[k]",
                    statistics ? "bf16" : "f32"),
      {}};
  if (statistics) {
    const std::string head = "args = [\"x\", \"w\", \"y\"";
    op.contract.replace(op.contract.find(head), head.size(), head + ", \"r\"");
    const std::string scalars = "[scalars.eps]";
    op.contract.insert(op.contract.find(scalars),
                       "[tensors.r]\ndtype = \"f32\"\nshape = [\"M\"]\nrole = \"out\"\n");
  }
  for (const auto& [name, sum] : kSoundSums)
    op.variants.push_back({"two-pass, " + name, layer_norm({.sum = sum}, statistics), {}, {}, {}});
  op.variants.push_back({"welford", layer_norm({.welford = true}, statistics), {}, {}, {}});
  op.variants.push_back({"welford, merged", layer_norm({.merged = true}, statistics), {}, {}, {}});
  op.variants.push_back({"shifted", layer_norm({.shifted = true}, statistics), {}, {}, {}});
  for (const auto& [name, sum] : kSoundSums) {
    // Sums as good as exact: by Kahan, and short ones of bf16 squares, which f32 holds exactly.
    const bool one_chain = name == "sequential" || name == "backwards";
    if (name == "kahan" || (statistics && !one_chain)) continue;
    op.variants.push_back({"one-pass variance, " + name,
                           layer_norm({.sum = sum, .one_pass = true}, statistics),
                           {"precision-loss", "nonfinite"},
                           {{"x", "large-mean"}},
                           {{"M", 32}, {"N", 1024}}});
  }
  return op;
}

// ---- softmax ----
struct SoftmaxParts {
  bool online = false, blocks = false, no_max = false, bf16_sum = false, round_numerator = false,
       fmax_drops_nan = false;
};

Implementation softmax(SoftmaxParts parts) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor y = call.out("y");
    const int64_t m = call.dim("M"), n = call.dim("N");
    for (int64_t i = 0; i < m; ++i) {
      const Floats row(x.begin() + i * n, x.begin() + (i + 1) * n);
      float top = -INFINITY, sum = 0;
      if (parts.blocks) {
        for (std::size_t first = 0; first < row.size(); first += 64) {
          const std::size_t last = std::min(row.size(), first + 64);
          float next = top, part = 0;
          for (std::size_t k = first; k < last; ++k)
            next = std::isnan(row[k]) || std::isnan(next) ? NAN : std::max(next, row[k]);
          if (next == -INFINITY) continue;
          for (std::size_t k = first; k < last; ++k) part += std::exp2((row[k] - next) * 1.44269504f);
          sum = sum * (top == next ? 1.0f : std::exp2((top - next) * 1.44269504f)) + part;
          top = next;
        }
      } else if (parts.online) {
        for (const float v : row) {
          const float next = std::isnan(v) || std::isnan(top) ? NAN : std::max(top, v);
          if (next == -INFINITY) continue;  // nothing to add yet
          sum = sum * std::exp(top - next) + std::exp(v - next);
          top = next;
        }
      } else {
        for (const float v : row)
          top = parts.fmax_drops_nan ? std::fmax(top, v)
                                     : (std::isnan(v) || std::isnan(top) ? NAN : std::max(top, v));
        if (parts.no_max) top = 0;
        for (const float v : row) {
          const float e = std::exp(v - top);
          sum = parts.bf16_sum ? bf16(sum + e) : parts.fmax_drops_nan && std::isnan(e) ? sum : sum + e;
        }
      }
      for (int64_t k = 0; k < n; ++k) {
        float e = std::exp(row[static_cast<std::size_t>(k)] - top);
        if (parts.round_numerator) e = bf16(e);
        if (parts.fmax_drops_nan && std::isnan(e)) e = 0;
        y.store(i * n + k, e / sum);
      }
    }
    return one("y", std::move(y));
  };
}

Operator softmaxes(const char* dtype) {
  Operator op{std::string("softmax ") + dtype,
              std::string(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "M", "N"]
[dims]
M = { min = 1, max = 64 }
N = { min = 1, max = 2048 }
[tensors.x]
dtype = ")") + dtype +
                  R"("
shape = ["M", "N"]
values = "activations"
[tensors.y]
dtype = ")" + dtype +
                  R"("
shape = ["M", "N"]
role = "out"
[reference]
formula = """
m[i] = max[k](x[i, k])
e[i, k] = exp(x[i, k] - m[i])
y[i, k] = e[i, k] / sum[j](e[i, j])
"""
)",
              {}};
  op.variants.push_back({"two-pass", softmax({}), {}, {}, {}});
  op.variants.push_back({"online", softmax({.online = true}), {}, {}, {}});
  op.variants.push_back({"online, blocks", softmax({.blocks = true}), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 32}, {"N", 1024}};
  op.variants.push_back(
      {"bf16 denominator", softmax({.bf16_sum = true}), {"low-precision-accumulation"}, {}, shape});
  op.variants.push_back(
      {"numerator rounded", softmax({.round_numerator = true}), {"precision-loss"}, {}, shape});
  op.variants.push_back(
      {"no maximum", softmax({.no_max = true}), {"nonfinite"}, {{"x", "large-mean"}}, shape});
  op.variants.push_back(
      {"NaN dropped", softmax({.fmax_drops_nan = true}), {"nonfinite"}, {{"x", "nan-element"}}, shape});
  return op;
}

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
  op.variants.push_back({"bf16, in order", embedding(true, 0), {"low-precision-accumulation"}, {}, shape});
  op.variants.push_back({"bf16, backwards", embedding(true, 1), {"low-precision-accumulation"}, {}, shape});
  op.variants.push_back({"bf16, some order", embedding(true, 2), {"low-precision-accumulation"}, {}, shape});
  return op;
}

// ---- elementwise ----
Implementation map_elements(std::function<float(float)> f, std::function<float(float)> store = {}) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor y = call.out("y");
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float v = f(x[i]);
      y.store(static_cast<int64_t>(i), store ? store(v) : v);
    }
    return one("y", std::move(y));
  };
}

Operator elementwise(const char* name, const char* dtype, const char* formula,
                     std::function<float(float)> right, std::function<float(float)> otherwise,
                     std::function<float(float)> wrong) {
  Operator op{std::string(name) + " " + dtype,
              std::string(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["x", "y", "N"]
[dims]
N = { min = 1, max = 20000 }
[tensors.x]
dtype = ")") + dtype +
                  R"("
shape = ["N"]
values = "activations"
[tensors.y]
dtype = ")" + dtype +
                  R"("
shape = ["N"]
role = "out"
[reference]
formula = "y[i] = )" +
                  formula + "\"\n",
              {}};
  op.variants.push_back({"in float", map_elements(right), {}, {}, {}});
  op.variants.push_back({"rewritten", map_elements(otherwise), {}, {}, {}});
  op.variants.push_back(
      {"coarse", map_elements(wrong), {"precision-loss", "wrong-result"}, {}, {{"N", 5000}}});
  if (std::string(dtype) == "bf16") {
    op.variants.push_back(
        {"truncating", map_elements(right, truncated_bf16), {"biased-rounding"}, {}, {{"N", 5000}}});
  }
  return op;
}

float silu(float x) {
  return x / (1 + std::exp(-x));
}
float silu_by_reciprocal(float x) {
  return x * (1.0f / (1.0f + std::exp2(-1.44269504f * x)));
}
float gelu(float x) {
  return 0.5f * x * (1 + std::erf(x * 0.70710678f));
}
float gelu_by_erfc(float x) {
  return x * (0.5f * std::erfc(-0.70710678f * x));
}
float gelu_tanh(float x) {
  return 0.5f * x * (1 + std::tanh(0.7978845608f * (x + 0.044715f * x * x * x)));
}

}  // namespace

std::vector<float> Call::in(const char* name) const {
  const Tensor& tensor = *bindings.inputs.find(name)->second;
  std::vector<float> values(static_cast<std::size_t>(tensor.count()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(tensor.load(static_cast<int64_t>(i)));
  return values;
}
std::vector<int64_t> Call::ints(const char* name) const {
  const Tensor& tensor = *bindings.inputs.find(name)->second;
  std::vector<int64_t> values(static_cast<std::size_t>(tensor.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = tensor.load_int(static_cast<int64_t>(i));
  return values;
}
Tensor Call::out(const char* name) const {
  const contract::TensorSpec* spec = contract.tensor(name);
  return Tensor::zeros(spec->dtype, *spec->extents(bindings.shape));
}

const std::vector<Operator>& operators() {
  static const std::vector<Operator> table = {
      row_sum("bf16"),
      row_sum("f32"),
      row_sum("f16"),
      matrix_product("bf16", "bf16"),
      matrix_product("bf16", "f32"),
      matrix_product("f32", "f32"),
      rms_norms(),
      layer_norms(false),
      layer_norms(true),
      softmaxes("bf16"),
      softmaxes("f32"),
      embeddings(),
      elementwise("silu", "bf16", "x[i] * sigmoid(x[i])", silu, silu_by_reciprocal,
                  [](float x) { return silu(bf16(x * 1.01f)); }),
      elementwise("silu", "f32", "x[i] * sigmoid(x[i])", silu, silu_by_reciprocal,
                  [](float x) { return bf16(silu(x)); }),
      elementwise("gelu", "bf16", "0.5 * x[i] * (1 + erf(x[i] / sqrt(2)))", gelu, gelu_by_erfc, gelu_tanh),
  };
  return table;
}

}  // namespace assay::judge::testing
