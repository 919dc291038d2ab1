// An optimizer step, rotary positions, quantisation, prefix sums, a convolution.
#include <algorithm>
#include <cmath>

#include "implementations.h"

namespace assay::judge::testing {

namespace {

struct AdamParts {
  bool fused = false, eps_inside = false, narrow_moment = false, swapped = false;
};

Implementation adam(AdamParts parts) {
  return [=](const Call& call) {
    const Floats p = call.in("p"), m = call.in("m"), v = call.in("v"), g = call.in("g");
    Tensor new_p = call.out("p"), new_m = call.out("m"), new_v = call.out("v");
    const float b1 = call.scalar(parts.swapped ? "b2" : "b1"), b2 = call.scalar("b2");
    const float lr = call.scalar("lr"), eps = call.scalar("eps"), decay = call.scalar("wd");
    for (std::size_t i = 0; i < p.size(); ++i) {
      float first = parts.fused ? std::fma(b1, m[i], (1 - b1) * g[i]) : b1 * m[i] + (1 - b1) * g[i];
      const float second =
          parts.fused ? std::fma(b2, v[i], (1 - b2) * g[i] * g[i]) : b2 * v[i] + (1 - b2) * (g[i] * g[i]);
      if (parts.narrow_moment) first = bf16(first);
      const float root = parts.eps_inside ? std::sqrt(second + eps) : std::sqrt(second) + eps;
      const float step = first / root + decay * p[i];
      new_p.store(static_cast<int64_t>(i), parts.fused ? std::fma(-lr, step, p[i]) : p[i] - lr * step);
      new_m.store(static_cast<int64_t>(i), first);
      new_v.store(static_cast<int64_t>(i), second);
    }
    Outputs outputs = one("p", std::move(new_p));
    outputs["m"] = std::make_shared<const Tensor>(std::move(new_m));
    outputs["v"] = std::make_shared<const Tensor>(std::move(new_v));
    return outputs;
  };
}

struct RopeParts {
  bool fused = false, narrow_tables = false, other_way = false;
};

Implementation rope(RopeParts parts) {
  return [=](const Call& call) {
    const Floats a = call.in("a"), b = call.in("b"), cosine = call.in("c"), sine = call.in("s");
    Tensor u = call.out("u"), w = call.out("w");
    for (std::size_t i = 0; i < a.size(); ++i) {
      const float c = parts.narrow_tables ? bf16(cosine[i]) : cosine[i];
      const float s = (parts.other_way ? -1.0f : 1.0f) * (parts.narrow_tables ? bf16(sine[i]) : sine[i]);
      u.store(static_cast<int64_t>(i), parts.fused ? std::fma(a[i], c, -(b[i] * s)) : a[i] * c - b[i] * s);
      w.store(static_cast<int64_t>(i), parts.fused ? std::fma(a[i], s, b[i] * c) : a[i] * s + b[i] * c);
    }
    Outputs outputs = one("u", std::move(u));
    outputs["w"] = std::make_shared<const Tensor>(std::move(w));
    return outputs;
  };
}

struct QuantiseParts {
  bool by_reciprocal = false, truncate = false, half_range = false;
};

Implementation quantise(QuantiseParts parts) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor q = call.out("q"), scale = call.out("s");
    const int64_t m = call.dim("M"), n = call.dim("N");
    for (int64_t i = 0; i < m; ++i) {
      float most = 0;
      for (int64_t k = 0; k < n; ++k) {
        const float size = std::abs(x[static_cast<std::size_t>(i * n + k)]);
        most = std::isnan(size) || std::isnan(most) ? NAN : std::max(most, size);
      }
      const float s = std::max(1e-12f, most) / (parts.half_range ? 224.0f : 448.0f);
      scale.store(i, std::isnan(most) ? NAN : s);
      for (int64_t k = 0; k < n; ++k) {
        const float v = x[static_cast<std::size_t>(i * n + k)];
        const float scaled = std::isnan(most) ? NAN : parts.by_reciprocal ? v * (1.0f / s) : v / s;
        if (parts.truncate) {
          const uint64_t code =
              numerics::from_double(contract::info(DType::e4m3).format, scaled,
                                    numerics::Rounding::TowardZero, numerics::Saturation::Finite);
          q.store(i * n + k, numerics::to_double(contract::info(DType::e4m3).format, code));
        } else {
          q.store(i * n + k, scaled);
        }
      }
    }
    Outputs outputs = one("q", std::move(q));
    outputs["s"] = std::make_shared<const Tensor>(std::move(scale));
    return outputs;
  };
}

// Chunks of `length`, each scanned by itself on top of what came before.
Implementation prefix_sum(int64_t length, bool exclusive, bool narrow) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor y = call.out("y");
    const int64_t m = call.dim("M"), n = call.dim("N");
    for (int64_t i = 0; i < m; ++i) {
      float before = 0;
      for (int64_t first = 0; first < n; first += length) {
        float sum = 0;
        for (int64_t k = first; k < std::min(n, first + length); ++k) {
          const float v = x[static_cast<std::size_t>(i * n + k)];
          if (exclusive) y.store(i * n + k, before + sum);
          sum += v;
          if (!exclusive) y.store(i * n + k, before + sum);
        }
        before += sum;
        if (narrow) before = bf16(before);
      }
    }
    return one("y", std::move(y));
  };
}

Implementation convolution(Sum sum, int64_t taps) {
  return [=](const Call& call) {
    const Floats x = call.in("x"), w = call.in("w");
    Tensor y = call.out("y");
    const int64_t c = call.dim("C"), t = call.dim("T");
    for (int64_t i = 0; i < c; ++i) {
      for (int64_t j = 0; j < t; ++j) {
        Floats terms;
        for (int64_t k = 0; k < taps; ++k)
          terms.push_back(w[static_cast<std::size_t>(i * 7 + k)] *
                          x[static_cast<std::size_t>(i * (t + 6) + j + k)]);
        y.store(i * t + j, sum(terms));
      }
    }
    return one("y", std::move(y));
  };
}

}  // namespace

Operator adams() {
  const std::string kinds = "values = \"gradients\"\nrole = \"inout\"";
  Operator op{"adam",
              contract_of("p, m, v, g, N, lr, b1, b2, eps, wd", "N = { min = 1, max = 20000 }",
                          {{"p", "f32", "N", "values = \"weights\"\nrole = \"inout\""},
                           {"m", "f32", "N", kinds},
                           {"v", "f32", "N", "values = \"real(1e-12, 1)\"\nrole = \"inout\""},
                           {"g", "f32", "N", "values = \"gradients\""}},
                          "m[i] = b1 * m[i] + (1 - b1) * g[i]\nv[i] = b2 * v[i] + (1 - b2) * g[i]^2\n"
                          "p[i] = p[i] - lr * (m[i] / (sqrt(v[i]) + eps) + wd * p[i])",
                          "[scalars]\nlr = { dtype = \"f32\", value = 0.001 }\n"
                          "b1 = { dtype = \"f32\", value = 0.9 }\nb2 = { dtype = \"f32\", value = 0.95 }\n"
                          "eps = { dtype = \"f32\", value = 1e-5 }\nwd = { dtype = \"f32\", value = 0.1 }\n"),
              {}};
  op.variants.push_back({"in float", adam({}), {}, {}, {}});
  op.variants.push_back({"fused", adam({.fused = true}), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"N", 4000}};
  op.variants.push_back({"eps under the root",
                         adam({.eps_inside = true}),
                         {Kind::WrongResult, Kind::PrecisionLoss},
                         {},
                         shape});
  op.variants.push_back({"moment in bf16", adam({.narrow_moment = true}), {Kind::PrecisionLoss}, {}, shape});
  op.variants.push_back({"one beta for both", adam({.swapped = true}), {Kind::WrongResult}, {}, shape});
  return op;
}

Operator ropes() {
  Operator op{"rope",
              contract_of("a, b, c, s, u, w, P, H", "P = { min = 1, max = 300 }\nH = { min = 1, max = 64 }",
                          {{"a", "bf16", "P, H", "values = \"activations\""},
                           {"b", "bf16", "P, H", "values = \"activations\""},
                           {"c", "f32", "P, H", "values = \"real(-1, 1)\""},
                           {"s", "f32", "P, H", "values = \"real(-1, 1)\""},
                           {"u", "bf16", "P, H", "role = \"out\""},
                           {"w", "bf16", "P, H", "role = \"out\""}},
                          "u[p, h] = a[p, h] * c[p, h] - b[p, h] * s[p, h]\n"
                          "w[p, h] = a[p, h] * s[p, h] + b[p, h] * c[p, h]"),
              {}};
  op.variants.push_back({"in float", rope({}), {}, {}, {}});
  op.variants.push_back({"fused", rope({.fused = true}), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"P", 100}, {"H", 64}};
  op.variants.push_back({"tables in bf16", rope({.narrow_tables = true}), {Kind::PrecisionLoss}, {}, shape});
  op.variants.push_back({"turned the other way", rope({.other_way = true}), {Kind::WrongResult}, {}, shape});
  return op;
}

Operator quantisations() {
  Operator op{"quantise",
              contract_of("x, q, s, M, N", "M = { min = 1, max = 64 }\nN = { min = 1, max = 2048 }",
                          {{"x", "bf16", "M, N", "values = \"activations\""},
                           {"q", "e4m3", "M, N", "role = \"out\""},
                           {"s", "f32", "M", "role = \"out\""}},
                          "s[i] = max(max[k](abs(x[i, k])), 1e-12) / 448\nq[i, k] = e4m3(x[i, k] / s[i])"),
              {}};
  op.variants.push_back({"divided", quantise({}), {}, {}, {}});
  op.variants.push_back({"by the reciprocal", quantise({.by_reciprocal = true}), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 32}, {"N", 512}};
  op.variants.push_back(
      {"cut off", quantise({.truncate = true}), {Kind::BiasedRounding, Kind::WrongResult}, {}, shape});
  op.variants.push_back({"half the range", quantise({.half_range = true}), {Kind::WrongResult}, {}, shape});
  return op;
}

Operator prefix_sums() {
  Operator op{"prefix sum",
              contract_of("x, y, M, N", "M = { min = 1, max = 32 }\nN = { min = 1, max = 600 }",
                          {{"x", "f32", "M, N", ""}, {"y", "f32", "M, N", "role = \"out\""}},
                          "y[i, j] = sum[k in 0..j + 1](x[i, k])"),
              {}};
  op.variants.push_back({"in order", prefix_sum(1 << 20, false, false), {}, {}, {}});
  op.variants.push_back({"in chunks", prefix_sum(32, false, false), {}, {}, {}});
  op.variants.push_back({"in short chunks", prefix_sum(5, false, false), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 16}, {"N", 600}};
  op.variants.push_back({"exclusive", prefix_sum(32, true, false), {Kind::WrongResult}, {}, shape});
  op.variants.push_back({"bf16 between chunks",
                         prefix_sum(32, false, true),
                         {Kind::LowPrecisionAccumulation, Kind::PrecisionLoss, Kind::WrongResult},
                         {},
                         shape});
  return op;
}

Operator convolutions() {
  Operator op{"convolution",
              contract_of("x, w, y, C, T", "C = { min = 1, max = 16 }\nT = { min = 1, max = 2000 }",
                          {{"x", "bf16", "C, T + 6", "values = \"activations\""},
                           {"w", "bf16", "C, 7", "values = \"weights\""},
                           {"y", "bf16", "C, T", "role = \"out\""}},
                          "y[c, t] = sum[k](w[c, k] * x[c, t + k])"),
              {}};
  for (const auto& [name, sum] : sound_sums()) op.variants.push_back({name, convolution(sum, 7), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"C", 8}, {"T", 500}};
  op.variants.push_back({"last tap lost", convolution(sequential, 6), {Kind::WrongResult}, {}, shape});
  op.variants.push_back(
      {"bf16 accumulator", convolution(in_bf16, 7), {Kind::LowPrecisionAccumulation}, {}, shape});
  return op;
}

}  // namespace assay::judge::testing
