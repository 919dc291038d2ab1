#include <algorithm>
#include <cmath>

#include "implementations.h"

namespace assay::judge::testing {

namespace {

// ---- softmax ----
struct SoftmaxParts {
  bool online = false, blocks = false, no_max = false, bf16_sum = false, round_numerator = false,
       fmax_drops_nan = false, round_reciprocal = false;
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
        y.store(i * n + k, parts.round_reciprocal ? e * bf16(1.0f / sum) : e / sum);
      }
    }
    return one("y", std::move(y));
  };
}

}  // namespace

Operator softmaxes(const char* dtype, bool shifted) {
  const std::string formula =
      shifted ? "m[i] = max[k](x[i, k])\ne[i, k] = exp(x[i, k] - m[i])\ny[i, k] = e[i, k] / sum[j](e[i, j])"
              : "y[i, k] = exp(x[i, k]) / sum[j](exp(x[i, j]))";
  Operator op{std::string("softmax ") + dtype + (shifted ? "" : " as written"),
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
)" + formula + R"(
"""
)",
              {}};
  op.variants.push_back({"two-pass", softmax({}), {}, {}, {}});
  op.variants.push_back({"online", softmax({.online = true}), {}, {}, {}});
  op.variants.push_back({"online, blocks", softmax({.blocks = true}), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 32}, {"N", 1024}};
  op.variants.push_back(
      {"bf16 denominator", softmax({.bf16_sum = true}), {Kind::LowPrecisionAccumulation}, {}, shape});
  op.variants.push_back(
      {"numerator rounded", softmax({.round_numerator = true}), {Kind::PrecisionLoss}, {}, shape});
  op.variants.push_back({"reciprocal in bf16",
                         softmax({.round_reciprocal = true}),
                         {Kind::PrecisionLoss, Kind::LowPrecisionAccumulation},
                         {},
                         shape});
  op.variants.push_back(
      {"no maximum", softmax({.no_max = true}), {Kind::Nonfinite}, {{"x", "large-mean"}}, shape});
  op.variants.push_back(
      {"NaN dropped", softmax({.fmax_drops_nan = true}), {Kind::Nonfinite}, {{"x", "nan-element"}}, shape});
  return op;
}

namespace {

float largest(const Floats& x) {
  float top = -INFINITY;
  for (const float v : x) top = std::isnan(v) || std::isnan(top) ? NAN : std::max(top, v);
  return top;
}

// The gradient of the logits: probabilities, less one at the target.
Implementation cross_entropy(Sum sum, bool round_before, bool forget_target) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    const std::vector<int64_t> target = call.ints("t");
    Tensor d = call.out("d");
    const int64_t m = call.dim("M"), n = call.dim("N");
    for (int64_t i = 0; i < m; ++i) {
      Floats row(x.begin() + i * n, x.begin() + (i + 1) * n);
      const float top = largest(row);
      for (float& v : row) v = std::exp(v - top);
      const float total = sum(row);
      for (int64_t k = 0; k < n; ++k) {
        float p = row[static_cast<std::size_t>(k)] / total;
        if (round_before) p = bf16(p);
        const bool hit = target[static_cast<std::size_t>(i)] == k && !(forget_target && k == n - 1);
        d.store(i * n + k, hit ? p - 1 : p);
      }
    }
    return one("d", std::move(d));
  };
}

struct AttentionParts {
  Sum sum = sequential;
  bool round_probabilities = false, lose_last_key = false, scale_by_keys = false, no_max = false;
};

Implementation attention(AttentionParts parts) {
  return [=](const Call& call) {
    const Floats q = call.in("q"), k = call.in("k"), v = call.in("v");
    Tensor o = call.out("o");
    const int64_t m = call.dim("M"), n = call.dim("N"), d = call.dim("D");
    const auto at = [&](const Floats& x, int64_t i, int64_t j) {
      return x[static_cast<std::size_t>(i * d + j)];
    };
    const float scale = 1.0f / std::sqrt(static_cast<float>(parts.scale_by_keys ? n : d));
    const int64_t keys = parts.lose_last_key && n > 1 ? n - 1 : n;
    for (int64_t i = 0; i < m; ++i) {
      Floats p;
      for (int64_t j = 0; j < keys; ++j) {
        Floats terms;
        for (int64_t c = 0; c < d; ++c) terms.push_back(at(q, i, c) * at(k, j, c));
        p.push_back(sequential(terms) * scale);
      }
      const float top = parts.no_max ? 0 : largest(p);
      for (float& x : p) x = std::exp(x - top);
      const float total = sequential(p);
      for (int64_t c = 0; c < d; ++c) {
        Floats terms;
        for (int64_t j = 0; j < keys; ++j) {
          const float e = p[static_cast<std::size_t>(j)];
          terms.push_back((parts.round_probabilities ? bf16(e) : e) * at(v, j, c));
        }
        o.store(i * d + c, parts.sum(terms) / total);
      }
    }
    return one("o", std::move(o));
  };
}

}  // namespace

Operator cross_entropies(bool shifted) {
  Operator op{std::string("cross entropy gradient") + (shifted ? "" : " as written"),
              contract_of("x, t, d, M, N", "M = { min = 1, max = 64 }\nN = { min = 1, max = 2048 }",
                          {{"x", "bf16", "M, N", "values = \"activations\""},
                           {"t", "i64", "M", "values = \"index(N)\""},
                           {"d", "f32", "M, N", "role = \"out\""}},
                          std::string(shifted ? "m[i] = max[k](x[i, k])\ne[i, k] = exp(x[i, k] - m[i])\n"
                                              : "e[i, k] = exp(x[i, k])\n") +
                              "d[i, k] = e[i, k] / sum[j](e[i, j]) - (if k == t[i] then 1 else 0)"),
              {}};
  for (const auto& [name, sum] : sound_sums())
    op.variants.push_back({name, cross_entropy(sum, false, false), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 32}, {"N", 512}};
  op.variants.push_back({"rounded before the target is subtracted",
                         cross_entropy(warp, true, false),
                         {Kind::PrecisionLoss},
                         {},
                         shape});
  op.variants.push_back({"bf16 denominator",
                         cross_entropy(in_bf16, false, false),
                         {Kind::LowPrecisionAccumulation},
                         {},
                         shape});
  op.variants.push_back({"last class never a target",
                         cross_entropy(warp, false, true),
                         {Kind::WrongResult},
                         {{"t", "extremes"}},
                         shape});
  return op;
}

Operator attentions(bool shifted) {
  Operator op{std::string("attention") + (shifted ? "" : " as written"),
              contract_of("q, k, v, o, M, N, D",
                          "M = { min = 1, max = 32 }\nN = { min = 1, max = 96 }\nD = { min = 1, max = 64 }",
                          {{"q", "bf16", "M, D", "values = \"activations\""},
                           {"k", "bf16", "N, D", "values = \"activations\""},
                           {"v", "bf16", "N, D", "values = \"activations\""},
                           {"o", "bf16", "M, D", "role = \"out\""}},
                          std::string("s[i, j] = sum[d](q[i, d] * k[j, d]) / sqrt(D)\n") +
                              (shifted ? "m[i] = max[j](s[i, j])\ne[i, j] = exp(s[i, j] - m[i])\n"
                                       : "e[i, j] = exp(s[i, j])\n") +
                              "o[i, d] = sum[j](e[i, j] * v[j, d]) / sum[j](e[i, j])"),
              {}};
  for (const auto& [name, sum] : sound_sums())
    op.variants.push_back({name, attention({.sum = sum}), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 32}, {"N", 96}, {"D", 64}};
  op.variants.push_back(
      {"probabilities in bf16", attention({.round_probabilities = true}), {Kind::PrecisionLoss}, {}, shape});
  op.variants.push_back(
      {"last key lost", attention({.lose_last_key = true}), {Kind::WrongResult}, {}, shape});
  op.variants.push_back(
      {"scaled by the keys", attention({.scale_by_keys = true}), {Kind::WrongResult}, {}, shape});
  op.variants.push_back(
      {"bf16 accumulator", attention({.sum = in_bf16}), {Kind::LowPrecisionAccumulation}, {}, shape});
  op.variants.push_back(
      {"no maximum", attention({.no_max = true}), {Kind::Nonfinite}, {{"q", "large-scale"}}, shape});
  return op;
}

namespace {

// log(sum(exp(x))): in two passes or online, or without the maximum.
Implementation log_sum_exp(bool online, bool no_max, bool round_sum) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor y = call.out("y");
    const int64_t m = call.dim("M"), n = call.dim("N");
    for (int64_t i = 0; i < m; ++i) {
      const Floats row(x.begin() + i * n, x.begin() + (i + 1) * n);
      float top = no_max ? 0 : online ? -INFINITY : largest(row), sum = 0;
      for (const float v : row) {
        const float next = online ? largest({top, v}) : top;
        if (next == -INFINITY) continue;
        if (online) sum *= std::exp(top - next);
        sum += std::exp(v - next);
        top = next;
      }
      if (round_sum) sum = bf16(sum);
      y.store(i, top == -INFINITY ? top : top + std::log(sum));
    }
    return one("y", std::move(y));
  };
}

}  // namespace

Operator log_sum_exps() {
  Operator op{
      "log-sum-exp as written",
      contract_of("x, y, M, N", "M = { min = 1, max = 64 }\nN = { min = 1, max = 2048 }",
                  {{"x", "bf16", "M, N", "values = \"activations\""}, {"y", "f32", "M", "role = \"out\""}},
                  "y[i] = log(sum[k](exp(x[i, k])))"),
      {}};
  op.variants.push_back({"two-pass", log_sum_exp(false, false, false), {}, {}, {}});
  op.variants.push_back({"online", log_sum_exp(true, false, false), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 64}, {"N", 512}};
  op.variants.push_back(
      {"no maximum", log_sum_exp(false, true, false), {Kind::Nonfinite}, {{"x", "large-mean"}}, shape});
  op.variants.push_back({"sum rounded",
                         log_sum_exp(false, false, true),
                         {Kind::PrecisionLoss, Kind::LowPrecisionAccumulation},
                         {},
                         shape});
  return op;
}

}  // namespace assay::judge::testing
