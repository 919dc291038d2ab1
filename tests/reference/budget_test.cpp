// The budget admits sound algorithms, in any order and rewriting, and excludes
// unsound ones. The kernels here are written in C++ in the declared precision.
#include <fmt/format.h>

#include <functional>
#include <limits>

#include "base/random.h"
#include "budget_support.h"
#include "numerics/half.h"
#include "numerics/tensor_core.h"

namespace assay::reference {
namespace {

using namespace testing;

using Sum = std::function<float(const Floats&)>;

float sequential(const Floats& x) {
  float s = 0;
  for (const float v : x) s += v;
  return s;
}
float backward(const Floats& x) {
  float s = 0;
  for (std::size_t i = x.size(); i-- > 0;) s += x[i];
  return s;
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
float strided(const Floats& x) {  // 32 threads, then a tree
  Floats part(32, 0);
  for (std::size_t i = 0; i < x.size(); ++i) part[i % 32] += x[i];
  return pairwise(part);
}
const std::pair<const char*, Sum> kSums[] = {
    {"sequential", sequential}, {"backward", backward}, {"pairwise", pairwise}, {"strided", strided}};

// A contract of one operator at its own shape, with inputs of a given mean and scale.
struct Rows {
  Contract contract;
  Bindings bindings;
  int64_t n, d;
  Rows(const std::string& name, unsigned seed, double mean, double scale, int64_t rows = 8,
       int64_t columns = 512)
      : n(rows), d(columns) {
    contract = parsed(toml_of(operator_named(name)));
    bindings = draw_bindings(contract, seed);
    bindings.shape["N"] = n;
    bindings.shape["D"] = d;
    for (const TensorSpec* spec : contract.inputs()) {
      const auto extents = *spec->extents(bindings.shape);
      bindings.inputs[spec->name] = spec->name == "x" ? normal(spec->dtype, extents, seed, scale, mean)
                                                      : normal(spec->dtype, extents, seed + 99);
    }
  }
  Floats row(const Floats& x, int64_t i) const { return Floats(x.begin() + i * d, x.begin() + (i + 1) * d); }
};

struct Spread {
  double mean, scale;
};
const Spread kSpreads[] = {{0, 1}, {0, 1e-3}, {3, 1}, {100, 1}, {1000, 1}, {-50, 0.25}};

TEST(Budget, AnyOrderOfSummationIsAdmitted) {
  for (const auto& [order, sum] : kSums)
    for (const Spread& spread : kSpreads) {
      const Contract contract = parsed(contract_text(R"toml([dims]
N = { min = 1, max = 64 }
D = { min = 1, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["N", "D"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "y[n] = sum[d](x[n, d])"
)toml"));
      for (const int64_t d : {1, 2, 100, 4096}) {
        Bindings bindings;
        bindings.shape = {{"N", 16}, {"D", d}};
        bindings.inputs["x"] = normal(DType::f32, {16, d}, 5, spread.scale, spread.mean);
        const Expectation e = expected(contract, bindings, "y");
        const Floats x = floats_of(bindings, "x");
        std::vector<float> got;
        for (int64_t n = 0; n < 16; ++n)
          got.push_back(sum(Floats(x.begin() + n * d, x.begin() + (n + 1) * d)));
        const Outcome outcome = judged(e, got);
        EXPECT_EQ(outcome.outside, 0) << order << " " << d << " " << spread.mean;
        EXPECT_LE(outcome.rms, 1.6) << order << " " << d << " " << spread.mean;  // of 16 only
      }
    }
}

// As an H200 does it, seen: zero and a subnormal give zero.
TEST(Budget, SumsByAtomicsInDeviceMemoryAreAdmittedThoughTheyFlushSubnormals) {
  const auto flushed = [](float x) { return std::abs(x) < 0x1p-126f ? 0.0f : x; };
  const Contract contract = parsed(contract_text(R"toml([dims]
N = { min = 1, max = 64 }
[tensors.x]
dtype = "f32"
shape = ["N"]
[tensors.y]
dtype = "f32"
shape = []
role = "out"
[reference]
formula = "y = sum[i](x[i])"
)toml"));
  for (const double scale : {0x1p-130, 0x1p-126, 0x1p-124}) {
    Bindings bindings;
    bindings.shape = {{"N", 64}};
    bindings.inputs["x"] = normal(DType::f32, {64}, 5, scale);
    float sum = 0;
    for (int64_t i = 0; i < 64; ++i)
      sum = flushed(sum + flushed(static_cast<float>(bindings.inputs["x"]->load(i))));
    EXPECT_TRUE(expected(contract, bindings, "y").admits(0, sum)) << scale;
  }
}

TEST(Budget, OrderedDataDoesNotFoolTheDeviation) {
  const Contract contract = parsed(contract_text(R"toml([dims]
D = { min = 1, max = 100000 }
[tensors.x]
dtype = "f32"
shape = ["D"]
[tensors.y]
dtype = "f32"
shape = ["1"]
role = "out"
[reference]
formula = "y = sum[d](x[d])"
)toml"));
  // Half the terms positive, then half negative: partial sums far larger than the sum.
  const int64_t d = 8192;
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> draw(0.5, 1.5);
  double worst = 0;
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<double> values(static_cast<std::size_t>(d));
    for (int64_t i = 0; i < d; ++i)
      values[static_cast<std::size_t>(i)] = i < d / 2 ? draw(random) : -draw(random);
    Bindings bindings;
    bindings.shape = {{"D", d}};
    bindings.inputs["x"] = share(Tensor::of(DType::f32, {d}, values));
    const Expectation e = expected(contract, bindings, "y");
    const Outcome outcome = judged(e, {sequential(floats_of(bindings, "x"))});
    EXPECT_EQ(outcome.outside, 0);
    worst = std::max(worst, outcome.largest);
  }
  EXPECT_LT(worst, 4);
}

TEST(Budget, EqualTermsAreMarkedCoherent) {
  const Contract contract = parsed(toml_of(operator_named("sum_f64")));
  (void)contract;
  Contract sum = parsed(contract_text(R"toml([dims]
D = { min = 1, max = 10000000 }
[tensors.x]
dtype = "f32"
shape = ["D"]
[tensors.y]
dtype = "f32"
shape = ["1"]
role = "out"
[reference]
formula = "y = sum[d](x[d])"
)toml"));
  Bindings bindings;
  bindings.shape = {{"D", 1000000}};
  bindings.inputs["x"] = share(Tensor::of(DType::f32, {1000000}, std::vector<double>(1000000, 0.1)));
  const Expectation e = expected(sum, bindings, "y");
  const float got = sequential(floats_of(bindings, "x"));
  EXPECT_NE(e.flags[0] & kCoherent, 0);
  EXPECT_TRUE(e.admits(0, got)) << got;
  EXPECT_GT(std::abs(got - e.value[0]), 100);  // 100958 instead of 100000: coherent indeed
}

// Terms of less than half an ulp of the sum are lost one and all, and if they have one sign, that is no noise. Terms of both
// signs make up for each other.
TEST(Budget, ManyTermsTooSmallForTheSumAreMarkedCoherent) {
  Contract sum = parsed(contract_text(R"toml([dims]
D = { min = 1, max = 100000 }
N = { min = 1, max = 1000 }
[tensors.x]
dtype = "f32"
shape = ["D", "N"]
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "y[n] = sum[d](x[d, n])"
)toml"));
  constexpr int64_t kTerms = 10000;
  // Alone a sum's terms are lanes; beside many others the sums are.
  for (const int64_t n : {1, 100}) {
    const auto of = [&](auto term) {
      std::vector<double> values;
      for (int64_t d = 0; d < kTerms; ++d) values.insert(values.end(), static_cast<std::size_t>(n), term(d));
      Bindings bindings;
      bindings.shape = {{"D", kTerms}, {"N", n}};
      bindings.inputs["x"] = share(Tensor::of(DType::f32, {kTerms, n}, values));
      return expected(sum, bindings, "y");
    };
    Random random(7);
    const auto large = [&] { return 1e9 * (0.7 + random.uniform()); };
    const auto small = [&] { return 1e5 * (0.7 + random.uniform()); };
    EXPECT_NE(of([&](int64_t d) { return d % 2 ? large() : small(); }).flags[0] & kCoherent, 0) << n;
    EXPECT_EQ(of([&](int64_t d) { return d % 2 ? large() : (d % 4 - 1) * small(); }).flags[0] & kCoherent, 0)
        << n;
    EXPECT_EQ(of([&](int64_t) { return large(); }).flags[0] & kCoherent, 0) << n;
    EXPECT_EQ(of([&](int64_t) { return random.normal(); }).flags[0] & kCoherent, 0) << n;
  }
}

// The number of terms goes through a quotient, a branch that only some elements take, and an assignment to places.
TEST(Budget, ASumInABranchHasItsTerms) {
  const Contract contract = parsed(contract_text(R"toml([dims]
D = { min = 1, max = 20000 }
N = { min = 1, max = 1000 }
[tensors.x]
dtype = "f32"
shape = ["D", "N"]
[tensors.skip]
dtype = "i32"
shape = ["N"]
values = "mask"
[tensors.place]
dtype = "i32"
shape = ["N"]
values = "index(N + 1)"
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[tensors.z]
dtype = "f32"
shape = ["N + 1"]
role = "inout"
[reference]
formula = """
y[n] = if skip[n] > 0 then 0 else sum[d](x[d, n]) / D
z[place[n]] = sum[d](x[d, n])
"""
)toml",
                                                 "\"y\", \"z\""));
  constexpr int64_t kTerms = 500, kSums = 5;
  Bindings bindings;
  bindings.shape = {{"D", kTerms}, {"N", kSums}};
  bindings.inputs["x"] = normal(DType::f32, {kTerms, kSums}, 3);
  bindings.inputs["z"] = normal(DType::f32, {kSums + 1}, 4);
  bindings.inputs["skip"] = share(Tensor::of(DType::i32, {kSums}, std::vector<double>{0, 1, 0, 1, 0}));
  bindings.inputs["place"] = share(Tensor::of(DType::i32, {kSums}, std::vector<double>{3, 1, 0, 5, 4}));
  const double n = kTerms;
  EXPECT_EQ(expected(contract, bindings, "y").terms, (std::vector<double>{n, 1, n, 1, n}));
  EXPECT_EQ(expected(contract, bindings, "z").terms, (std::vector<double>{n, n, 1, n, n, n}));
}

float two_pass_variance(const Floats& x, const Sum& sum, float& mu) {
  mu = sum(x) / static_cast<float>(x.size());
  Floats squares;
  for (const float v : x) squares.push_back((v - mu) * (v - mu));
  return sum(squares) / static_cast<float>(x.size());
}
float welford_variance(const Floats& x, float& mu) {
  float m2 = 0, n = 0;
  mu = 0;
  for (const float v : x) {
    n += 1;
    const float delta = v - mu;
    mu += delta / n;
    m2 += delta * (v - mu);
  }
  return m2 / n;
}
// Chan's merge of partial results, 32 ways: what a warp does.
float merged_variance(const Floats& x, float& mu) {
  float total_n = 0, total_mu = 0, total_m2 = 0;
  for (std::size_t t = 0; t < 32; ++t) {
    Floats own;
    for (std::size_t i = t; i < x.size(); i += 32) own.push_back(x[i]);
    if (own.empty()) continue;
    float own_mu = 0;
    const float n = static_cast<float>(own.size()), m2 = welford_variance(own, own_mu) * n;
    const float delta = own_mu - total_mu, sum_n = total_n + n;
    total_mu += delta * n / sum_n;
    total_m2 += m2 + delta * delta * total_n * n / sum_n;
    total_n = sum_n;
  }
  mu = total_mu;
  return total_m2 / total_n;
}
float one_pass_variance(const Floats& x, float& mu) {
  Floats squares;
  for (const float v : x) squares.push_back(v * v);
  mu = sequential(x) / static_cast<float>(x.size());
  return std::max(0.0f, sequential(squares) / static_cast<float>(x.size()) - mu * mu);
}

std::vector<float> layernorm(const Rows& rows, const std::function<float(const Floats&, float&)>& variance) {
  const Floats x = floats_of(rows.bindings, "x"), w = floats_of(rows.bindings, "w"),
               b = floats_of(rows.bindings, "b");
  const float eps = static_cast<float>(rows.bindings.scalars.at("eps").as_double());
  std::vector<float> got;
  for (int64_t i = 0; i < rows.n; ++i) {
    float mu = 0;
    const float var = variance(rows.row(x, i), mu);
    const float r = 1.0f / std::sqrt(var + eps);
    for (int64_t d = 0; d < rows.d; ++d)
      got.push_back((x[static_cast<std::size_t>(i * rows.d + d)] - mu) * r * w[static_cast<std::size_t>(d)] +
                    b[static_cast<std::size_t>(d)]);
  }
  return got;
}

TEST(Budget, VarianceInTwoPassesOrByWelfordIsAdmittedInOnePassItIsNot) {
  for (const Spread& spread : kSpreads)
    for (unsigned seed = 1; seed <= 3; ++seed) {
      const Rows rows("layernorm", seed, spread.mean, spread.scale);
      const Expectation e = expected(rows.contract, rows.bindings, "y");
      SCOPED_TRACE(fmt::format("mean {} scale {} seed {}", spread.mean, spread.scale, seed));
      for (const auto& [order, sum] : kSums) {
        const Outcome outcome = judged(
            e, layernorm(rows, [&](const Floats& x, float& mu) { return two_pass_variance(x, sum, mu); }));
        EXPECT_EQ(outcome.outside, 0) << "two-pass " << order;
        EXPECT_LE(outcome.rms, 1.5) << "two-pass " << order;
      }
      EXPECT_EQ(judged(e, layernorm(rows, welford_variance)).outside, 0);
      EXPECT_EQ(judged(e, layernorm(rows, merged_variance)).outside, 0);
      const Outcome unsound = judged(e, layernorm(rows, one_pass_variance));
      if (spread.mean / spread.scale >= 1000) {
        EXPECT_GT(unsound.outside, 0);
      }
      if (spread.mean / spread.scale >= 100) {
        EXPECT_GT(unsound.rms, 3);
      }
    }
}

std::vector<float> softmax(const Rows& rows, int way) {
  const Floats x = floats_of(rows.bindings, "x");
  std::vector<float> got;
  const float log2e = 1.44269504f;
  for (int64_t i = 0; i < rows.n; ++i) {
    const Floats row = rows.row(x, i);
    float m = -std::numeric_limits<float>::infinity(), s = 0;
    if (way == 0 || way == 2) {  // two passes; 2: in units of log2, as fast kernels do
      for (const float v : row) m = std::max(m, v);
      Floats terms;
      for (const float v : row)
        terms.push_back(way == 0 ? std::exp(v - m) : std::exp2(v * log2e - m * log2e));
      s = strided(terms);
      for (const float term : terms) got.push_back(term / s);
    } else if (way == 1) {  // online, then times the reciprocal
      for (const float v : row) {
        const float next = std::max(m, v);
        s = s * std::exp(m - next) + std::exp(v - next);
        m = next;
      }
      const float inverse = 1.0f / s;
      for (const float v : row) got.push_back(std::exp(v - m) * inverse);
    } else {  // no shift at all
      Floats terms;
      for (const float v : row) terms.push_back(std::exp(v));
      s = sequential(terms);
      for (const float term : terms) got.push_back(term / s);
    }
  }
  return got;
}

TEST(Budget, SoftmaxOnlineOrInTwoPassesIsAdmittedWhicheverWayItIsWritten) {
  for (const char* name : {"softmax", "softmax_unshifted"})
    for (const Spread& spread : {Spread{0, 1}, Spread{0, 10}, Spread{30, 3}, Spread{-40, 1}})
      for (const int way : {0, 1, 2}) {
        const Rows rows(name, 3, spread.mean, spread.scale);
        const Outcome outcome = judged(expected(rows.contract, rows.bindings, "y"), softmax(rows, way));
        EXPECT_EQ(outcome.outside, 0)
            << name << " way " << way << " mean " << spread.mean << " scale " << spread.scale;
        EXPECT_LE(outcome.rms, 1.3) << name << " way " << way << " mean " << spread.mean;
      }
}

TEST(Budget, SoftmaxWithoutTheMaximumOverflowsAndIsNotAdmitted) {
  for (const char* name : {"softmax", "softmax_unshifted"}) {
    const Rows rows(name, 3, 95, 1);
    EXPECT_GT(judged(expected(rows.contract, rows.bindings, "y"), softmax(rows, 3)).outside, 0) << name;
  }
}

// The error model of NUMERICS.md: bf16 results of f32 arithmetic have z of rms 1
// and at most sqrt(3); one rounding too many is beyond that.
std::vector<float> rmsnorm(const Rows& rows, const std::function<float(float)>& of_scale,
                           const std::function<float(float)>& of_product, int64_t lost = 0) {
  const Floats x = floats_of(rows.bindings, "x"), w = floats_of(rows.bindings, "w");
  const float eps = static_cast<float>(rows.bindings.scalars.at("eps").as_double());
  std::vector<float> got;
  for (int64_t i = 0; i < rows.n; ++i) {
    Floats squares;
    for (int64_t d = 0; d < rows.d - lost; ++d)
      squares.push_back(x[static_cast<std::size_t>(i * rows.d + d)] *
                        x[static_cast<std::size_t>(i * rows.d + d)]);
    const float r = of_scale(1.0f / std::sqrt(strided(squares) / static_cast<float>(rows.d) + eps));
    for (int64_t d = 0; d < rows.d; ++d)
      got.push_back(of_product(x[static_cast<std::size_t>(i * rows.d + d)] * r) *
                    w[static_cast<std::size_t>(d)]);
  }
  return got;
}

TEST(Budget, DeviationOfBf16ResultsIsThatOfTheStore) {
  const auto same = [](float v) { return v; };
  const Rows rows("rmsnorm", 7, 0, 1, 32, 1024);
  const Expectation e = expected(rows.contract, rows.bindings, "y");
  const Outcome sound = judged(e, rmsnorm(rows, same, same));
  EXPECT_EQ(sound.outside, 0);
  EXPECT_NEAR(sound.rms, 1, 0.03);
  EXPECT_LT(sound.largest, 1.74);
  const Outcome scale = judged(e, rmsnorm(rows, bf16, same)), product = judged(e, rmsnorm(rows, same, bf16)),
                lost = judged(e, rmsnorm(rows, same, same, 8));
  EXPECT_GT(scale.rms, 1.2);
  EXPECT_GT(scale.outside, 0);
  EXPECT_GT(product.rms, 1.2);
  EXPECT_GT(product.outside, 0);
  EXPECT_GT(lost.rms, 1.2);
  EXPECT_GT(lost.outside, 0);
}

TEST(Budget, ADeclaredCastAdmitsTheRounding) {
  Operator op = operator_named("rmsnorm");
  op.formula = "y[i, d] = bf16(x[i, d] * rsqrt(mean[k](x[i, k]^2) + eps)) * w[d]";
  Rows rows("rmsnorm", 7, 0, 1, 32, 1024);
  rows.contract = parsed(toml_of(op));
  const auto same = [](float v) { return v; };
  const Expectation e = expected(rows.contract, rows.bindings, "y");
  const Outcome with = judged(e, rmsnorm(rows, same, bf16)), without = judged(e, rmsnorm(rows, same, same));
  EXPECT_EQ(with.outside, 0);
  EXPECT_NEAR(with.rms, 1, 0.05);
  EXPECT_EQ(without.outside, 0);
  EXPECT_LT(without.rms, 1);
}

TEST(Budget, ProductsOfBf16InF32AreAdmittedInBf16TheyAreNot) {
  const Contract contract = parsed(toml_of(operator_named("matmul")));
  Bindings bindings = draw_bindings(contract, 4);
  bindings.shape = {{"M", 8}, {"N", 8}, {"K", 1024}};
  bindings.inputs["a"] = normal(DType::bf16, {8, 1024}, 1);
  bindings.inputs["b"] = normal(DType::bf16, {1024, 8}, 2);
  const Expectation e = expected(contract, bindings, "y");
  const Floats a = floats_of(bindings, "a"), b = floats_of(bindings, "b");
  for (const auto& [order, sum] : kSums) {
    std::vector<float> f32, low;
    for (std::size_t i = 0; i < 8; ++i)
      for (std::size_t j = 0; j < 8; ++j) {
        Floats terms;
        float acc = 0;
        for (std::size_t k = 0; k < 1024; ++k) {
          terms.push_back(a[i * 1024 + k] * b[k * 8 + j]);
          acc = bf16(acc + terms.back());
        }
        f32.push_back(sum(terms));
        low.push_back(acc);
      }
    EXPECT_EQ(judged(e, f32).outside, 0) << order;
    EXPECT_LE(judged(e, f32).rms, 1.3) << order;
    EXPECT_GT(judged(e, low).outside, 32) << order;
  }
}

TEST(Budget, TensorCoresWidenItAndLean) {
  const Contract contract = parsed(toml_of(operator_named("matmul")));
  const Bindings bindings = draw_bindings(contract, 4);
  const Expectation plain = expected(contract, bindings, "y"),
                    wide = expected(contract, bindings, "y", {.tensor_cores = true});
  EXPECT_TRUE(reference_of(contract).has_products("y"));
  for (std::size_t i = 0; i < plain.size(); ++i) {
    EXPECT_GT(wide.bound[i], plain.bound[i]);
    EXPECT_GT(wide.sigma[i], plain.sigma[i]);
    EXPECT_GT(wide.bias[i], 0);
    EXPECT_EQ(plain.bias[i], 0);
  }
  EXPECT_FALSE(reference_of(parsed(toml_of(operator_named("silu")))).has_products("y"));
}

// Subnormal f16 numbers count as 2^-14 where products are aligned, so many bits of the other products are cut off.
TEST(Budget, TensorCoresAlignSubnormalsByTheirExponent) {
  constexpr int kRows = 16, kColumns = 8, kTerms = 16;
  const Contract contract = parsed(R"(
[kernel]
source = "k.cu"
entry = "k"
args = ["a", "b", "y", "stream"]
[tensors.a]
dtype = "f16"
shape = [16, 16]
[tensors.b]
dtype = "f16"
shape = [8, 16]
[tensors.y]
dtype = "f32"
shape = [16, 8]
role = "out"
[reference]
formula = "y[i, j] += a[i, k] * b[j, k]"
)");
  Random random(7);
  std::vector<uint16_t> a, b;
  for (int i = 0; i < kRows * kTerms; ++i)  // one to three units of the smallest subnormal
    a.push_back(static_cast<uint16_t>(random.between(1, 3) | (random.chance(0.5) ? 0x8000 : 0)));
  for (int i = 0; i < kColumns * kTerms; ++i)
    b.push_back(static_cast<uint16_t>(random.between(0x1000, 0x77ff)));
  Bindings bindings;
  const auto tensor_of = [](const std::vector<uint16_t>& codes, int64_t rows) {
    Tensor tensor = Tensor::zeros(DType::f16, {rows, kTerms});
    for (std::size_t i = 0; i < codes.size(); ++i)
      tensor.store(static_cast<int64_t>(i), numerics::f16_to_f32(codes[i]));
    return share(std::move(tensor));
  };
  bindings.inputs["a"] = tensor_of(a, kRows);
  bindings.inputs["b"] = tensor_of(b, kColumns);
  const std::vector<float> zero(kRows * kColumns);
  std::vector<float> y(kRows * kColumns);
  numerics::mma_f16_f32({.m = kRows, .n = kColumns, .k = kTerms}, a.data(), b.data(), zero.data(), y.data());

  const Expectation plain = expected(contract, bindings, "y"),
                    wide = expected(contract, bindings, "y", {.tensor_cores = true});
  double largest = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double error = std::abs(double{y[i]} - wide.value[i]);
    EXPECT_LE(error, wide.bound[i]) << i;
    EXPECT_NE(wide.flags[i] & kCoherent, 0) << i;
    largest = std::max(largest, error / plain.bound[i]);
  }
  EXPECT_GT(largest, 8);  // times what the sizes of the products themselves would allow
}

}  // namespace
}  // namespace assay::reference
