// Complex numbers, tf32, 4-bit types with block scales, group norms, running products, random draws.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/random.h"
#include "implementations.h"
#include "numerics/tensor_core.h"

namespace assay::judge::testing {

namespace {

std::size_t at(int64_t i) {
  return static_cast<std::size_t>(i);
}

struct Parts {
  float re = 0, im = 0;
};
Parts number(const Floats& from, int64_t i) {
  return {from[at(2 * i)], from[at(2 * i + 1)]};
}
void put(Tensor& to, int64_t i, Parts z) {
  to.store(2 * i, z.re);
  to.store(2 * i + 1, z.im);
}

struct ComplexProduct {
  Sum sum = sequential;
  bool fused = false, conjugated = true, narrow_imaginary = false;
};
Implementation complex_product(ComplexProduct how) {
  return [=](const Call& call) {
    const Floats a = call.in("a"), b = call.in("b");
    Tensor y = call.out("y");
    const int64_t m = call.dim("M"), k = call.dim("K");
    const float sign = how.conjugated ? -1.0f : 1.0f;
    for (int64_t i = 0; i < m; ++i) {
      Floats re, im;
      Parts fused;
      for (int64_t l = 0; l < k; ++l) {
        const Parts z = number(a, i * k + l), w = number(b, l);
        const float y_part = sign * z.im;
        re.push_back(z.re * w.re - y_part * w.im);
        im.push_back(z.re * w.im + y_part * w.re);
        fused.re = std::fma(z.re, w.re, std::fma(-y_part, w.im, fused.re));
        fused.im = std::fma(z.re, w.im, std::fma(y_part, w.re, fused.im));
      }
      Parts sum = how.fused ? fused : Parts{how.sum(re), how.sum(im)};
      if (how.narrow_imaginary) sum.im = in_bf16(im);
      put(y, i, sum);
    }
    return one("y", std::move(y));
  };
}

// As a formula writes it, and as cuCdivf does, which scales both so that no square overflows.
Implementation complex_quotient(bool scaled, bool other_sign) {
  return [=](const Call& call) {
    const Floats a = call.in("a"), b = call.in("b");
    Tensor y = call.out("y");
    for (int64_t i = 0; i < call.dim("N"); ++i) {
      Parts z = number(a, i), w = number(b, i);
      if (scaled) {
        const float size = std::abs(w.re) + std::abs(w.im), over = 1.0f / size;
        z = {z.re * over, z.im * over};
        w = {w.re * over, w.im * over};
      }
      const float over = 1.0f / (w.re * w.re + w.im * w.im);
      const float re = z.re * w.re + z.im * w.im, im = z.im * w.re - z.re * w.im;
      put(y, i, {re * over, (other_sign ? -im : im) * over});
    }
    return one("y", std::move(y));
  };
}

// a b + c, in the precision of the parts: the product first, c between its terms as cuCfma does, or fused.
enum class Order { ProductFirst, Between, Fused, Conjugated };
template <class T>
Implementation multiply_add(Order order) {
  return [=](const Call& call) {
    const auto part = [&](const char* name, int64_t i) {
      return static_cast<T>(call.bindings.inputs.find(name)->second->load(i));
    };
    Tensor y = call.out("y");
    for (int64_t i = 0; i < 2 * call.dim("N"); i += 2) {
      const T ar = part("a", i), ai = part("a", i + 1), br = part("b", i), bi = part("b", i + 1);
      const T cr = part("c", i), ci = part("c", i + 1);
      T re = ar * br - ai * bi + cr, im = ar * bi + ai * br + ci;
      if (order == Order::Between) re = (ar * br + cr) - ai * bi, im = (ar * bi + ci) + ai * br;
      if (order == Order::Fused)
        re = std::fma(-ai, bi, std::fma(ar, br, cr)), im = std::fma(ai, br, std::fma(ar, bi, ci));
      if (order == Order::Conjugated) re = ar * br + ai * bi + cr;
      y.store(i, re);
      y.store(i + 1, im);
    }
    return one("y", std::move(y));
  };
}

template <class T>
Operator multiply_adds(const char* name, const std::string& dtype, const std::string& accumulate) {
  std::string text = contract_of("a, b, c, y, N", "N = { min = 1, max = 4096 }",
                                 {{"a", dtype, "N", "values = \"activations\""},
                                  {"b", dtype, "N", ""},
                                  {"c", dtype, "N", ""},
                                  {"y", dtype, "N", "role = \"out\""}},
                                 "y[i] = a[i] * b[i] + c[i]");
  const std::string_view section = "[reference]\n";
  text.insert(text.find(section) + section.size(), "accumulate = \"" + accumulate + "\"\n");
  Operator op{name, text, {}};
  op.variants.push_back({"product first", multiply_add<T>(Order::ProductFirst), {}, {}, {}});
  op.variants.push_back({"between", multiply_add<T>(Order::Between), {}, {}, {}});
  op.variants.push_back({"fused", multiply_add<T>(Order::Fused), {}, {}, {}});
  op.variants.push_back(
      {"conjugated", multiply_add<T>(Order::Conjugated), {Kind::WrongResult}, {}, {{"N", 2000}}});
  return op;
}

float as_tf32(float x, bool away) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  const uint32_t up = away ? 0x1000u : 0xfffu + ((bits >> 13) & 1);
  return std::bit_cast<float>((bits + up) & 0xffffe000u);
}

Implementation rounding_to_tf32(int how) {  // 0 to even, 1 away, 2 cut off
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor y = call.out("y");
    for (int64_t i = 0; i < call.dim("N"); ++i) {
      const float value = 0.7f * x[at(i)];
      const uint32_t bits = std::bit_cast<uint32_t>(how == 2 ? value : as_tf32(value, how == 1));
      std::copy_n(reinterpret_cast<const std::byte*>(&bits), 4, y.at(i));
    }
    return one("y", std::move(y));
  };
}

Implementation tf32_product(const Sum& sum, bool on_tensor_cores) {
  return [=](const Call& call) {
    const Floats a = call.in("a"), b = call.in("b");
    Tensor y = call.out("y");
    const int64_t m = call.dim("M"), n = call.dim("N"), k = call.dim("K");
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        Floats terms;
        for (int64_t l = 0; l < k; ++l) terms.push_back(a[at(i * k + l)] * b[at(l * n + j)]);
        float total = on_tensor_cores ? 0 : sum(terms);
        for (int64_t first = 0; on_tensor_cores && first < k; first += 8) {
          uint32_t left[8] = {}, right[8 * 8] = {};
          for (int64_t l = first; l < std::min(k, first + 8); ++l) {
            left[l - first] = std::bit_cast<uint32_t>(a[at(i * k + l)]);
            right[l - first] = std::bit_cast<uint32_t>(b[at(l * n + j)]);
          }
          float sums[8] = {total};
          numerics::mma_tf32_f32({1, 8, 8}, left, right, sums, sums);
          total = sums[0];
        }
        y.store(i * n + j, total);
      }
    return one("y", std::move(y));
  };
}

// Of 4-bit weights with a scale for every 16: scaled one by one, or by blocks.
Implementation block_scaled(const Sum& sum, bool by_blocks, bool next_scale) {
  return [=](const Call& call) {
    const Floats q = call.in("q"), s = call.in("s"), x = call.in("x");
    Tensor y = call.out("y");
    const int64_t n = call.dim("N"), blocks = call.dim("B"), k = 16 * blocks;
    for (int64_t i = 0; i < n; ++i) {
      Floats terms;
      for (int64_t b = 0; b < blocks; ++b) {
        const float scale = s[at(i * blocks + (next_scale ? (b + 1) % blocks : b))];
        Floats block;
        for (int64_t l = 16 * b; l < 16 * b + 16; ++l)
          (by_blocks ? block : terms)
              .push_back(by_blocks ? q[at(i * k + l)] * x[at(l)] : q[at(i * k + l)] * scale * x[at(l)]);
        if (by_blocks) terms.push_back(scale * sequential(block));
      }
      y.store(i, sum(terms));
    }
    return one("y", std::move(y));
  };
}

Operator block_scaled_products(const char* dtype, const char* scale, const char* values) {
  Operator op{std::string("block-scaled product ") + dtype,
              contract_of("q, s, x, y, N, B", "N = { min = 1, max = 64 }\nB = { min = 1, max = 64 }",
                          {{"q", dtype, "N, 16 * B", ""},
                           {"s", scale, "N, B", values},
                           {"x", "bf16", "16 * B", "values = \"activations\""},
                           {"y", "f32", "N", "role = \"out\""}},
                          "y[n] = sum[k](q[n, k] * s[n, k / 16] * x[k])"),
              {}};
  for (const auto& [name, sum] : sound_sums()) {
    op.variants.push_back({name, block_scaled(sum, false, false), {}, {}, {}});
    op.variants.push_back({name + " by blocks", block_scaled(sum, true, false), {}, {}, {}});
  }
  const std::map<std::string, int64_t> shape = {{"N", 48}, {"B", 40}};
  op.variants.push_back(
      {"scale of the next block", block_scaled(warp, true, true), {Kind::WrongResult}, {}, shape});
  op.variants.push_back({"bf16 accumulator",
                         block_scaled(in_bf16, false, false),
                         {Kind::LowPrecisionAccumulation, Kind::PrecisionLoss, Kind::WrongResult},
                         {},
                         shape});
  return op;
}

struct GroupNorm {
  Sum sum = sequential;
  bool channels_first = false;
};
// The groups of a channels-last tensor; with `channels_first`, the elements that another layout has there.
Implementation group_norm(const GroupNorm& how) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor y = call.out("y");
    const int64_t n = call.dim("N"), pixels = call.dim("P"), groups = call.dim("G"), per = call.dim("C"),
                  channels = groups * per;
    for (int64_t image = 0; image < n; ++image)
      for (int64_t g = 0; g < groups; ++g) {
        std::vector<std::size_t> places;
        for (int64_t p = 0; p < pixels; ++p)
          for (int64_t c = 0; c < per; ++c)
            places.push_back(at(how.channels_first ? (image * channels + g * per + c) * pixels + p
                                                   : (image * pixels + p) * channels + g * per + c));
        Floats values, squares;
        for (const std::size_t place : places) values.push_back(x[place]);
        const auto count = static_cast<float>(values.size());
        const float mean = how.sum(values) / count;
        for (const float v : values) squares.push_back((v - mean) * (v - mean));
        const float scale = 1 / std::sqrt(how.sum(squares) / count + 1e-5f);
        for (const std::size_t place : places)
          y.store(static_cast<int64_t>(place), (x[place] - mean) * scale);
      }
    return one("y", std::move(y));
  };
}

Implementation running_product(int64_t chunk, bool exclusive) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor y = call.out("y");
    const int64_t m = call.dim("M"), n = call.dim("N");
    for (int64_t i = 0; i < m; ++i) {
      float before = 1;
      for (int64_t first = 0; first < n; first += chunk) {
        float own = 1;
        for (int64_t j = first; j < std::min(n, first + chunk); ++j) {
          const float previous = own;
          own *= x[at(i * n + j)];
          y.store(i * n + j, before * (exclusive ? previous : own));
        }
        before *= own;
      }
    }
    return one("y", std::move(y));
  };
}

uint64_t seed_of(const Call& call) {
  return static_cast<uint64_t>(call.bindings.scalars.find("seed")->second.as_int()) +
         call.bindings.inputs.begin()->second->bytes.size();
}

Implementation stochastic(bool nearest) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor y = call.out("y");
    Random random(mix(seed_of(call), std::bit_cast<uint32_t>(x[0])));
    for (int64_t i = 0; i < call.dim("N"); ++i) {
      const uint32_t bits = std::bit_cast<uint32_t>(x[at(i)]);
      const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
      const uint32_t added = nearest ? 0x8000u : static_cast<uint32_t>(random.bits() >> 48);
      y.store(i, finite ? std::bit_cast<float>((bits + added) & 0xffff0000u) : x[at(i)]);
    }
    return one("y", std::move(y));
  };
}

Implementation dropout(double kept) {
  return [=](const Call& call) {
    const Floats x = call.in("x");
    Tensor y = call.out("y");
    Random random(mix(seed_of(call), std::bit_cast<uint32_t>(x[0])));
    for (int64_t i = 0; i < call.dim("N"); ++i)
      y.store(i, random.uniform() < kept ? x[at(i)] / 0.9f : x[at(i)] != x[at(i)] ? x[at(i)] : 0.0f);
    return one("y", std::move(y));
  };
}

constexpr const char* kSeed = "[scalars.seed]\ndtype = \"u64\"\nvalues = [1, 42]\n";

}  // namespace

Operator complex_products() {
  Operator op{"complex product",
              contract_of("a, b, y, M, K", "M = { min = 1, max = 64 }\nK = { min = 1, max = 1024 }",
                          {{"a", "c64", "M, K", "values = \"activations\""},
                           {"b", "c64", "K", ""},
                           {"y", "c64", "M", "role = \"out\""}},
                          "y[m] = sum[k](conj(a[m, k]) * b[k])"),
              {}};
  for (const auto& [name, sum] : sound_sums())
    op.variants.push_back({name, complex_product({.sum = sum}), {}, {}, {}});
  op.variants.push_back({"fused", complex_product({.fused = true}), {}, {}, {}});
  const std::map<std::string, int64_t> shape = {{"M", 48}, {"K", 500}};
  op.variants.push_back(
      {"not conjugated", complex_product({.conjugated = false}), {Kind::WrongResult}, {}, shape});
  op.variants.push_back({"imaginary part in bf16",
                         complex_product({.narrow_imaginary = true}),
                         {Kind::LowPrecisionAccumulation, Kind::PrecisionLoss, Kind::WrongResult},
                         {},
                         shape});
  return op;
}

Operator complex_quotients() {
  Operator op{"complex quotient",
              contract_of("a, b, y, N", "N = { min = 1, max = 4096 }",
                          {{"a", "c64", "N", "values = \"activations\""},
                           {"b", "c64", "N", "values = \"activations\""},
                           {"y", "c64", "N", "role = \"out\""}},
                          "y[i] = a[i] / b[i]"),
              {}};
  op.variants.push_back({"by the square", complex_quotient(false, false), {}, {}, {}});
  op.variants.push_back({"scaled", complex_quotient(true, false), {}, {}, {}});
  op.variants.push_back({"other sign", complex_quotient(true, true), {Kind::WrongResult}, {}, {{"N", 2000}}});
  return op;
}

Operator complex_multiply_adds() {
  return multiply_adds<float>("complex multiply-add", "c64", "f32");
}
Operator double_multiply_adds() {
  return multiply_adds<double>("complex multiply-add of doubles", "c128", "f64");
}

Operator tf32_products() {
  Operator op{"matrix product tf32",
              contract_of("a, b, y, M, N, K",
                          "M = { min = 1, max = 48 }\nN = { min = 1, max = 48 }\nK = { min = 1, max = 512 }",
                          {{"a", "tf32", "M, K", "values = \"activations\""},
                           {"b", "tf32", "K, N", "values = \"weights\""},
                           {"y", "f32", "M, N", "role = \"out\""}},
                          "y[m, n] = sum[k](a[m, k] * b[k, n])"),
              {}};
  for (const auto& [name, sum] : sound_sums())
    op.variants.push_back({name, tf32_product(sum, false), {}, {}, {}});
  op.variants.push_back({"tensor cores", tf32_product(sequential, true), {}, {}, {}, true});
  const std::map<std::string, int64_t> shape = {{"M", 32}, {"N", 32}, {"K", 400}};
  op.variants.push_back(
      {"bf16 accumulator", tf32_product(in_bf16, false), {Kind::LowPrecisionAccumulation}, {}, shape});
  op.variants.push_back(
      {"lost tail of 8", tf32_product(without_tail(8), false), {Kind::WrongResult}, {}, shape});
  return op;
}

Operator tf32_roundings() {
  Operator op{
      "rounding to tf32",
      contract_of("x, y, N", "N = { min = 1, max = 8192 }",
                  {{"x", "f32", "N", "values = \"activations\""}, {"y", "tf32", "N", "role = \"out\""}},
                  "y[i] = f32(0.7) * x[i]"),
      {}};
  op.variants.push_back({"to even", rounding_to_tf32(0), {}, {}, {}});
  op.variants.push_back({"away from zero", rounding_to_tf32(1), {}, {}, {}});
  op.variants.push_back({"cut off", rounding_to_tf32(2), {Kind::BiasedRounding}, {}, {{"N", 4000}}});
  return op;
}

Operator four_bit_products() {
  return block_scaled_products("e2m1", "e4m3", "values = \"real(0.0625, 448)\"");
}
Operator six_bit_products() {
  return block_scaled_products("e2m3", "e8m0", "values = \"real(0.001, 1000)\"");
}
Operator four_bit_integer_products() {
  return block_scaled_products("i4", "f16", "values = \"real(-2, 2)\"");
}

Operator group_norms() {
  Operator op{
      "group norm, channels last",
      contract_of(
          "x, y, N, P, G, C",
          "N = { min = 1, max = 4 }\nP = { min = 1, max = 256 }\nG = { min = 1, max = 8 }\nC = { min = 1, "
          "max "
          "= 16 }",
          {{"x", "bf16", "N, P, G * C", "values = \"activations\""},
           {"y", "bf16", "N, P, G * C", "role = \"out\""}},
          "mu[n, g in 0..G] = mean[p, c in 0..C](x[n, p, g * C + c])\nvar[n, g in 0..G] = mean[p, c in "
          "0..C]((x[n, p, g * C + c] - mu[n, g])^2)\ny[n, p, c] = (x[n, p, c] - mu[n, c / C]) * rsqrt(var[n, "
          "c "
          "/ C] + 1e-5)"),
      {}};
  for (const auto& [name, sum] : sound_sums())
    op.variants.push_back({name, group_norm({.sum = sum}), {}, {}, {}});
  return op;
}

Operator running_products() {
  Operator op{
      "running product",
      contract_of("x, y, M, N", "M = { min = 1, max = 32 }\nN = { min = 1, max = 200 }",
                  {{"x", "f32", "M, N", "values = \"real(0.5, 2)\""}, {"y", "f32", "M, N", "role = \"out\""}},
                  "y[i, j] = cumprod[j](x[i, j])"),
      {}};
  op.variants.push_back({"in order", running_product(1 << 20, false), {}, {}, {}});
  op.variants.push_back({"in chunks", running_product(32, false), {}, {}, {}});
  op.variants.push_back(
      {"exclusive", running_product(32, true), {Kind::WrongResult}, {}, {{"M", 16}, {"N", 150}}});
  return op;
}

Operator stochastic_roundings() {
  Operator op{
      "stochastic rounding",
      contract_of("x, y, N, seed", "N = { min = 1, max = 8192 }",
                  {{"x", "f32", "N", "values = \"real(-1e30, 1e30)\""}, {"y", "bf16", "N", "role = \"out\""}},
                  "y[i] = sr_bf16(x[i], seed)", kSeed),
      {}};
  op.variants.push_back({"added bits", stochastic(false), {}, {}, {}});
  op.variants.push_back({"to nearest", stochastic(true), {Kind::WrongDistribution}, {}, {{"N", 4000}}});
  return op;
}

Operator dropouts() {
  Operator op{
      "dropout",
      contract_of("x, y, N, seed", "N = { min = 1, max = 8192 }",
                  {{"x", "f32", "N", "values = \"activations\""}, {"y", "f32", "N", "role = \"out\""}},
                  "y[i] = if random(0.9, seed) then x[i] / f32(0.9) else 0", kSeed),
      {}};
  op.variants.push_back({"plain", dropout(0.9), {}, {}, {}});
  op.variants.push_back({"keeps too few", dropout(0.8), {Kind::WrongDistribution}, {}, {{"N", 6000}}});
  return op;
}

}  // namespace assay::judge::testing
