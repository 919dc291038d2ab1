// Formulas that are equal in mathematics mean the same, however large their exps: the same values, budgets
// that admit the same kernels.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "support.h"

namespace assay::reference {
namespace {

using namespace testing;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr int64_t kRows = 6, kColumns = 40;

// Inputs x[M, N] and v[N, N] of a dtype, t[M] an index; y is f32, of rows or of elements.
struct Group {
  const char* name;
  bool of_rows;  // y[M], else y[M, N]
  bool same_budget;
  // Absolute error of the forms in FP64, times 2^-53 and the size of the inputs: log(1 + exp(x)) near 0.
  bool cancels;
  std::vector<const char*> formulas;
};

const Group kGroups[] = {
    {"softmax",
     false,
     true,
     false,
     {"m[i] = max[k](x[i, k])\ns[i] = sum[k](exp(x[i, k] - m[i]))\ny[i, j] = exp(x[i, j] - m[i]) / s[i]",
      "y[i, j] = exp(x[i, j]) / sum[k](exp(x[i, k]))",
      "e[i, j] = exp(x[i, j])\ns[i] = sum[j](e[i, j])\ny[i, j] = e[i, j] / s[i]",
      "s[i] += exp(x[i, k])\ny[i, j] = exp(x[i, j]) / s[i]",
      "e[i, j] = exp(x[i, j])\ns[i] += e[i, j]\nr[i] = 1 / s[i]\ny[i, j] = e[i, j] * r[i]",
      "y[i, j] = 3 * exp(x[i, j]) / (sum[k](exp(x[i, k])) * 3)",
      "y[i, j] = exp(x[i, j] + 5) / sum[k](exp(x[i, k] + 5))"}},
    {"softmax in powers of two",
     false,
     true,
     false,
     {"m[i] = max[k](x[i, k])\ns[i] = sum[k](exp2(x[i, k] - m[i]))\ny[i, j] = exp2(x[i, j] - m[i]) / s[i]",
      "y[i, j] = exp2(x[i, j]) / sum[k](exp2(x[i, k]))"}},
    {"causal softmax",
     false,
     true,
     false,
     {"m[i] = max[k in 0..i+1](x[i, k])\ns[i] = sum[k in 0..i+1](exp(x[i, k] - m[i]))\n"
      "y[i, j] = if j <= i then exp(x[i, j] - m[i]) / s[i] else 0",
      "y[i, j] = if j <= i then exp(x[i, j]) / sum[k in 0..i+1](exp(x[i, k])) else 0",
      "y[i, j] = if j <= i then exp(x[i, j]) / sum[k | k <= i](exp(x[i, k])) else 0"}},
    {"causal softmax over all",  // whose zeros are terms like others
     false,
     true,
     false,
     {"s[i, k] = if k <= i then x[i, k] else -inf\nm[i] = max[k](s[i, k])\n"
      "y[i, j] = exp(s[i, j] - m[i]) / sum[k](exp(s[i, k] - m[i]))",
      "p[i, j] = if j <= i then exp(x[i, j]) else 0\ny[i, j] = p[i, j] / sum[k](p[i, k])",
      "y[i, j] = exp(if j <= i then x[i, j] else -inf) / sum[k](exp(if k <= i then x[i, k] else -inf))"}},
    {"logarithm of a softmax",
     false,
     true,
     true,
     {"m[i] = max[k](x[i, k])\ny[i, j] = x[i, j] - (m[i] + log(sum[k](exp(x[i, k] - m[i]))))",
      "y[i, j] = log(exp(x[i, j]) / sum[k](exp(x[i, k])))",
      "p[i, j] = exp(x[i, j]) / sum[k](exp(x[i, k]))\ny[i, j] = log(p[i, j])",
      "y[i, j] = x[i, j] - log(sum[k](exp(x[i, k])))"}},
    {"log-sum-exp",
     true,
     true,
     true,
     {"m[i] = max[k](x[i, k])\ny[i] = m[i] + log(sum[k](exp(x[i, k] - m[i])))",
      "y[i] = log(sum[k](exp(x[i, k])))", "e[i, j] = exp(x[i, j])\ns[i] += e[i, j]\ny[i] = log(s[i])",
      "y[i] = -log(1 / sum[k](exp(x[i, k])))"}},
    {"attention",
     false,
     true,
     false,
     {"m[i] = max[k](x[i, k])\np[i, k] = exp(x[i, k] - m[i])\n"
      "y[i, d] = sum[k](p[i, k] * v[k, d]) / sum[k](p[i, k])",
      "y[i, d] = sum[k](exp(x[i, k]) * v[k, d]) / sum[k](exp(x[i, k]))",
      "p[i, k] = exp(x[i, k])\nl[i] = sum[k](p[i, k])\ny[i, d] = sum[k](p[i, k] * v[k, d]) / l[i]",
      "y[i, d] = sum[k](exp(x[i, k]) / sum[j](exp(x[i, j])) * v[k, d])"}},
    {"attention with bf16 probabilities",
     false,
     true,
     false,
     {"m[i] = max[k](x[i, k])\np[i, k] = exp(x[i, k] - m[i])\n"
      "y[i, d] = sum[k](bf16(p[i, k]) * v[k, d]) / sum[k](p[i, k])",
      "y[i, d] = sum[k](bf16(exp(x[i, k])) * v[k, d]) / sum[k](exp(x[i, k]))"}},
    {"cross entropy",
     true,
     true,
     true,
     {"m[i] = max[k](x[i, k])\ny[i] = m[i] + log(sum[k](exp(x[i, k] - m[i]))) - x[i, t[i]]",
      "y[i] = log(sum[k](exp(x[i, k]))) - x[i, t[i]]", "y[i] = -log(exp(x[i, t[i]]) / sum[k](exp(x[i, k])))",
      "p[i, j] = exp(x[i, j]) / sum[k](exp(x[i, k]))\ny[i] = -log(p[i, t[i]])"}},
    {"sigmoid",
     false,
     true,
     false,
     {"y[i, j] = sigmoid(x[i, j])", "y[i, j] = 1 / (1 + exp(-x[i, j]))",
      "y[i, j] = exp(x[i, j]) / (1 + exp(x[i, j]))", "y[i, j] = exp(x[i, j]) / (exp(x[i, j]) + 1)",
      "e[i, j] = exp(x[i, j])\ny[i, j] = e[i, j] / (1 + e[i, j])"}},
    {"silu",
     false,
     true,
     false,
     {"y[i, j] = silu(x[i, j])", "y[i, j] = x[i, j] / (1 + exp(-x[i, j]))",
      "y[i, j] = x[i, j] * exp(x[i, j]) / (1 + exp(x[i, j]))"}},
    {"tanh",
     false,
     false,
     true,
     {"y[i, j] = tanh(x[i, j])", "y[i, j] = (exp(x[i, j]) - exp(-x[i, j])) / (exp(x[i, j]) + exp(-x[i, j]))",
      "y[i, j] = (exp(2 * x[i, j]) - 1) / (exp(2 * x[i, j]) + 1)", "y[i, j] = 1 - 2 / (exp(2 * x[i, j]) + 1)",
      "y[i, j] = (1 - exp(-2 * x[i, j])) / (1 + exp(-2 * x[i, j]))"}},
    {"softplus",
     false,
     false,
     true,
     {"y[i, j] = softplus(x[i, j])", "y[i, j] = log1p(exp(x[i, j]))",
      "y[i, j] = max(x[i, j], 0) + log1p(exp(-abs(x[i, j])))", "y[i, j] = log(1 + exp(x[i, j]))",
      "y[i, j] = log(exp(x[i, j]) + 1)", "y[i, j] = log1p(exp(x[i, j]) * 1.0)"}},
    {"product of exps",
     false,
     true,
     false,
     {"y[i, j] = exp(x[i, j] - v[j, j])", "y[i, j] = exp(x[i, j]) * exp(-v[j, j])",
      "y[i, j] = exp(x[i, j]) / exp(v[j, j])", "y[i, j] = sqrt(exp(2 * x[i, j])) / exp(v[j, j])",
      "y[i, j] = exp(x[i, j]) * rsqrt(exp(v[j, j]) * exp(v[j, j]))"}},
    {"powers of exps",
     false,
     false,
     false,
     {"y[i, j] = exp(x[i, j] - v[j, j])", "y[i, j] = exp(x[i, j])^3 / (exp(v[j, j]) * exp(2 * x[i, j]))",
      "y[i, j] = pow(exp(x[i, j] / 2.5), 2.5) / exp(v[j, j])"}},
    {"norm of exps",
     false,
     false,
     false,
     {"m[i] = max[k](x[i, k])\nn[i] = sqrt(sum[k](exp(2 * (x[i, k] - m[i]))))\ny[i, j] = exp(x[i, j] - m[i]) "
      "/ n[i]",
      "y[i, j] = exp(x[i, j]) / sqrt(sum[k](exp(x[i, k])^2))",
      "y[i, j] = exp(x[i, j]) * rsqrt(sum[k](exp(2 * x[i, k])))"}},
    {"two of a kind",
     false,
     false,
     false,
     {"y[i, j] = 1 / (1 + exp(v[j, j] - x[i, j]))",
      "y[i, j] = exp(x[i, j]) / (exp(x[i, j]) + exp(v[j, j]))"}},
};

std::string text_of(const Group& group, const char* formula, DType dtype, const char* accumulate) {
  return contract_text(
      fmt::format(R"toml([dims]
M = {{ min = 1, max = 64 }}
N = {{ min = 1, max = 64 }}
[tensors.x]
dtype = "{0}"
shape = ["M", "N"]
[tensors.v]
dtype = "{0}"
shape = ["N", "N"]
[tensors.t]
dtype = "i32"
shape = ["M"]
values = "index(N)"
[tensors.y]
dtype = "f32"
shape = [{1}]
role = "out"
[reference]
accumulate = "{2}"
formula = """
{3}
"""
)toml",
                  info(dtype).name, group.of_rows ? "\"M\"" : "\"M\", \"N\"", accumulate, formula),
      "\"x\", \"v\", \"t\", \"y\"");
}

// What x may be like; called with the element's row, column and a standard normal number.
struct Family {
  const char* name;
  std::function<double(int64_t i, int64_t j, double z, DType dtype)> x;
};

double largest(DType dtype) {
  return numerics::max_finite(info(dtype).format);
}

const Family kFamilies[] = {
    {"normal", [](int64_t, int64_t, double z, DType) { return z; }},
    {"of size 100", [](int64_t, int64_t, double z, DType) { return 100 * z; }},
    {"of size 10000", [](int64_t, int64_t, double z, DType) { return 10000 * z; }},
    {"about 1000", [](int64_t, int64_t, double z, DType) { return 1000 + z; }},
    {"about -1000", [](int64_t, int64_t, double z, DType) { return -1000 + z; }},
    {"equal", [](int64_t i, int64_t, double, DType) { return 400.0 * static_cast<double>(i - 2); }},
    {"one dominant", [](int64_t, int64_t j, double z, DType) { return j == 7 ? 3000.0 : z; }},
    {"near the largest", [](int64_t, int64_t, double z, DType d) { return std::tanh(z) * largest(d); }},
    {"all the largest", [](int64_t, int64_t, double, DType d) { return largest(d); }},
    {"all the lowest", [](int64_t, int64_t, double, DType d) { return -largest(d); }},
    {"tiny", [](int64_t, int64_t, double z, DType) { return 1e-30 * z; }},
    {"masked", [](int64_t, int64_t j, double z, DType) { return j % 3 == 2 ? -kInf : 500 + z; }},
    {"a NaN", [](int64_t i, int64_t j, double z, DType) { return i == 3 && j == 4 ? std::nan("") : z; }},
};

Bindings draw(const Family& family, DType dtype) {
  Bindings bindings;
  bindings.shape = {{"M", kRows}, {"N", kColumns}};
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal_number;
  Tensor x = Tensor::zeros(dtype, {kRows, kColumns}), v = Tensor::zeros(dtype, {kColumns, kColumns});
  for (int64_t i = 0; i < x.count(); ++i)
    x.store(i, family.x(i / kColumns, i % kColumns, normal_number(random), dtype));
  for (int64_t i = 0; i < v.count(); ++i) v.store(i, normal_number(random));
  bindings.inputs["x"] = share(std::move(x));
  bindings.inputs["v"] = share(std::move(v));
  bindings.inputs["t"] = uniform_integers(DType::i32, {kRows}, 0, kColumns - 1, 4);
  return bindings;
}

bool same_class(double a, double b) {
  return std::isnan(a) == std::isnan(b) && std::isinf(a) == std::isinf(b) && (!std::isinf(a) || a == b);
}

// How far FP64 itself may be off.
double tolerance(const Group& group, double value, double size) {
  const double relative = std::abs(value) * (1e-12 + 1e-15 * size);
  return relative + (group.cancels ? 1e-14 * (1 + std::min(size, 1e3)) : 0) + 1e-300;
}

void compare(const Group& group, const Family& family, DType dtype, const char* accumulate) {
  const Bindings bindings = draw(family, dtype);
  double size = 0;
  for (const double value : bindings.inputs.at("x")->to_doubles())
    if (std::isfinite(value)) size = std::max(size, std::abs(value));
  std::optional<Expectation> first;
  for (const char* formula : group.formulas) {
    SCOPED_TRACE(fmt::format("{}, {}, {}, accumulate {}: {}", group.name, family.name, info(dtype).name,
                             accumulate, formula));
    const Contract contract = parsed(text_of(group, formula, dtype, accumulate));
    Expectation e = expected(contract, bindings, "y");
    if (!first) first = e;
    int shown = 0;
    for (std::size_t i = 0; i < e.size() && shown < 3; ++i) {
      const double a = first->value[i], b = e.value[i];
      const bool loose = !(first->bound[i] < kInf) || !(e.bound[i] < kInf);
      if (loose && std::isfinite(a) && std::isfinite(b)) continue;  // the inputs are beyond all precision
      if (((first->flags[i] | e.flags[i]) & kUnspecified) != 0) continue;
      const bool near =
          same_class(a, b) && (!std::isfinite(a) || std::abs(a - b) <= tolerance(group, a, size));
      if (!near) {
        ADD_FAILURE() << "at " << i << " " << a << " is " << b << ", x " << bindings.inputs.at("x")->load(i);
        ++shown;
      }
      // The same budgets, but for what is tiny.
      if (!group.same_budget || std::abs(a) < 1e-30 || !std::isfinite(a) || first->bound[i] == 0) continue;
      const double bound = e.bound[i] / first->bound[i], sigma = e.sigma_rest[i] / first->sigma_rest[i];
      if (bound > 3 || bound < 1 / 3.0 || sigma > 3 || sigma < 1 / 3.0) {
        ADD_FAILURE() << "at " << i << ", value " << a << ": the bound is " << e.bound[i] << ", not "
                      << first->bound[i] << "; the deviation " << e.sigma_rest[i] << ", not "
                      << first->sigma_rest[i];
        ++shown;
      }
    }
  }
}

TEST(Equivalent, FormulasHaveTheSameValuesAndBudgets) {
  for (const Group& group : kGroups)
    for (const Family& family : kFamilies) {
      // 0 / 0 or inf / inf as written, where x is -inf.
      const bool undefined = group.name == std::string("powers of exps") || group.name == std::string("tanh");
      if (undefined && family.name == std::string("masked")) continue;
      for (const DType dtype : {DType::f16, DType::bf16, DType::f32})
        for (const char* accumulate : {"f32", "f64"}) compare(group, family, dtype, accumulate);
    }
}

const Group& group_named(const std::string& name) {
  for (const Group& group : kGroups)
    if (name == group.name) return group;
  ADD_FAILURE() << name;
  return kGroups[0];
}

// Kernels in float, for one row of x.
struct Kernel {
  const char* group;
  const char* name;
  bool right;
  std::function<float(const std::vector<float>& row, std::size_t j)> at;
};

float top_of(const std::vector<float>& row) {
  return *std::max_element(row.begin(), row.end());
}
float shifted_sum(const std::vector<float>& row, float m) {
  float sum = 0;
  for (const float v : row) sum += std::exp(v - m);
  return sum;
}
float sum_in_powers_of_two(const std::vector<float>& row, float m) {
  float sum = 0;
  for (const float v : row) sum += std::exp2(std::fma(v, 1.44269504f, -m * 1.44269504f));
  return sum;
}

const Kernel kKernels[] = {
    {"softmax", "two passes", true,
     [](const auto& row, std::size_t j) {
       const float m = top_of(row);
       return std::exp(row[j] - m) / shifted_sum(row, m);
     }},
    {"softmax", "powers of two", true,
     [](const auto& row, std::size_t j) {
       const float m = top_of(row);
       return std::exp2(std::fma(row[j], 1.44269504f, -m * 1.44269504f)) / sum_in_powers_of_two(row, m);
     }},
    {"softmax", "no maximum", false,
     [](const auto& row, std::size_t j) { return std::exp(row[j]) / shifted_sum(row, 0); }},
    {"softmax", "maximum from zero", false,
     [](const auto& row, std::size_t j) {
       const float m = std::max(0.0f, top_of(row));
       return std::exp(row[j] - m) / shifted_sum(row, m);
     }},
    {"log-sum-exp", "two passes", true,
     [](const auto& row, std::size_t) {
       const float m = top_of(row);
       return m + std::log(shifted_sum(row, m));
     }},
    {"log-sum-exp", "no maximum", false,
     [](const auto& row, std::size_t) { return std::log(shifted_sum(row, 0)); }},
    {"sigmoid", "of minus x", true,
     [](const auto& row, std::size_t j) { return 1.0f / (1.0f + std::exp(-row[j])); }},
    {"sigmoid", "exps above and below", false,
     [](const auto& row, std::size_t j) { return std::exp(row[j]) / (1.0f + std::exp(row[j])); }},
    {"silu", "of minus x", true,
     [](const auto& row, std::size_t j) { return row[j] / (1.0f + std::exp(-row[j])); }},
};

// Over these inputs a wrong kernel has to show.
constexpr const char* kTelling[] = {"of size 100", "about 1000", "about -1000"};

int outside(const Kernel& kernel, const Group& group, const char* formula, const Family& family,
            DType dtype) {
  const Bindings bindings = draw(family, dtype);
  const Expectation e = expected(parsed(text_of(group, formula, dtype, "f32")), bindings, "y");
  const std::vector<double> x = bindings.inputs.at("x")->to_doubles();
  int count = 0;
  for (int64_t i = 0; i < kRows; ++i) {
    std::vector<float> row;
    for (int64_t j = 0; j < kColumns; ++j)
      row.push_back(static_cast<float>(x[static_cast<std::size_t>(i * kColumns + j)]));
    for (int64_t j = 0; j < (group.of_rows ? 1 : kColumns); ++j) {
      const auto at = static_cast<std::size_t>(group.of_rows ? i : i * kColumns + j);
      count += !e.admits(at, static_cast<double>(kernel.at(row, static_cast<std::size_t>(j))));
    }
  }
  return count;
}

TEST(Equivalent, FormulasAdmitTheSameKernels) {
  for (const Kernel& kernel : kKernels) {
    const Group& group = group_named(kernel.group);
    for (const char* formula : group.formulas)
      for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
        int telling = 0;
        for (const Family& family : kFamilies) {
          if (family.name == std::string("a NaN")) continue;
          const int found = outside(kernel, group, formula, family, dtype);
          if (kernel.right) {
            EXPECT_EQ(found, 0) << kernel.group << ", " << kernel.name << ", " << family.name << ", "
                                << info(dtype).name << ": " << formula;
          }
          if (std::ranges::find(kTelling, std::string_view(family.name)) != std::end(kTelling))
            telling += found;
        }
        if (!kernel.right) {
          EXPECT_GT(telling, 0) << kernel.group << ", " << kernel.name << ", " << info(dtype).name << ": "
                                << formula;
        }
      }
  }
}

// FP64 is the range of everything but exps.
TEST(Equivalent, WhatLeavesFp64IsNotJudgedOnceAFunctionBringsItBack) {
  const auto contract_of = [](const char* formula) {
    return parsed(contract_text(fmt::format(R"toml([tensors.x]
dtype = "f64"
shape = [3]
[tensors.y]
dtype = "f64"
shape = [3]
role = "out"
[reference]
accumulate = "f64"
formula = "{}"
)toml",
                                            formula),
                                "\"x\", \"y\""));
  };
  Bindings bindings;
  const double x[] = {1e200, 3, -kInf};
  bindings.inputs["x"] = share(Tensor::of(DType::f64, {3}, x));
  const Expectation square = expected(contract_of("y[i] = x[i] * x[i]"), bindings, "y");
  EXPECT_EQ(square.value[0], kInf);
  EXPECT_EQ(square.flags[0] & kUnspecified, 0);
  EXPECT_FALSE(square.admits(0, 1e200));
  const Expectation root = expected(contract_of("y[i] = sqrt(x[i] * x[i] + 1)"), bindings, "y");
  EXPECT_TRUE(root.admits(0, 1e200));
  EXPECT_FALSE(root.admits(1, 4));
  EXPECT_EQ(root.value[2], kInf);  // of an input, not of FP64
  EXPECT_FALSE(root.admits(2, 4));
}

}  // namespace
}  // namespace assay::reference
