#include <algorithm>
#include <cmath>

#include "implementations.h"

namespace assay::judge::testing {

namespace {

// ---- norms ----
struct NormParts {
  Sum sum = warp;
  bool one_pass = false, welford = false, round_scale = false, round_before_gain = false;
  bool merged = false, shifted = false;
  bool eps_outside = false;  // of the root
  int divisor = 0;           // n and this many
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
      const float mean = parts.sum(squares) / static_cast<float>(n + parts.divisor), eps = call.scalar("eps");
      float scale = parts.eps_outside ? 1.0f / (std::sqrt(mean) + eps) : 1.0f / std::sqrt(mean + eps);
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

}  // namespace

Operator rms_norms() {
  Operator op{"rms norm",
              norm_contract("r[i] = rsqrt(mean[k](x[i, k]^2) + eps)\ny[i, k] = x[i, k] * r[i] * w[k]"),
              {}};
  for (const auto& [name, sum] : sound_sums())
    op.variants.push_back({name, rms_norm({.sum = sum}), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 32}, {"N", 1024}};
  const std::vector<Kind> loss = {Kind::PrecisionLoss, Kind::LowPrecisionAccumulation};
  op.variants.push_back({"scale rounded to bf16", rms_norm({.round_scale = true}), loss, {}, shape});
  op.variants.push_back(
      {"rounded before the gain", rms_norm({.round_before_gain = true}), {Kind::PrecisionLoss}, {}, shape});
  op.variants.push_back(
      {"bf16 squares", rms_norm({.sum = in_bf16}), {Kind::LowPrecisionAccumulation}, {}, shape});
  op.variants.push_back({"lost tail of 8",
                         rms_norm({.sum = without_tail(8)}),
                         {Kind::WrongResult, Kind::PrecisionLoss},
                         {},
                         shape});
  op.variants.push_back({"bf16 tree of squares",
                         rms_norm({.sum = tree_in_bf16}),
                         {Kind::LowPrecisionAccumulation, Kind::PrecisionLoss},
                         {},
                         shape});
  op.variants.push_back({"eps outside the root",
                         rms_norm({.eps_outside = true}),
                         {Kind::WrongResult},
                         {{"x", "small-scale"}},
                         {{"M", 32}, {"N", 64}}});
  op.variants.push_back(
      {"divided by n - 1", rms_norm({.divisor = -1}), {Kind::WrongResult}, {}, {{"M", 32}, {"N", 64}}});
  return op;
}

namespace {

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
      } else if (parts.shifted) {  // by the mean of the first few: near the mean of all, beside the spread
        const std::size_t few = std::min<std::size_t>(row.size(), 32);
        const float shift =
            parts.sum(Floats(row.begin(), row.begin() + static_cast<int64_t>(few))) / static_cast<float>(few);
        Floats shifted;
        for (const float v : row) shifted.push_back(v - shift);
        for (const float v : shifted) squares.push_back(v * v);
        const float sum = parts.sum(shifted);
        mean = shift + sum / count;
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

}  // namespace

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
  for (const auto& [name, sum] : sound_sums())
    op.variants.push_back({"two-pass, " + name, layer_norm({.sum = sum}, statistics), {}, {}, {}});
  op.variants.push_back({"welford", layer_norm({.welford = true}, statistics), {}, {}, {}});
  op.variants.push_back({"welford, merged", layer_norm({.merged = true}, statistics), {}, {}, {}});
  op.variants.push_back({"shifted", layer_norm({.shifted = true}, statistics), {}, {}, {}});
  for (const auto& [name, sum] : sound_sums()) {
    // Sums as good as exact: by Kahan, and short ones of bf16 squares, which f32 holds exactly.
    const bool one_chain = name == "sequential" || name == "backwards";
    if (name == "kahan" || (statistics && !one_chain)) continue;
    op.variants.push_back({"one-pass variance, " + name,
                           layer_norm({.sum = sum, .one_pass = true}, statistics),
                           {Kind::PrecisionLoss, Kind::Nonfinite},
                           {{"x", "large-mean"}},
                           {{"M", 32}, {"N", 1024}}});
  }
  return op;
}

}  // namespace assay::judge::testing
