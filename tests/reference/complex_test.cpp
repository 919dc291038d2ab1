// Complex numbers: a formula over them means what std::complex makes of it, part by part, with a budget for each part.
#include <complex>

#include "support.h"

namespace assay::reference {
namespace {

using namespace testing;
using Complex = std::complex<double>;

std::string spectra_text(const std::string& formula, const std::string& type = "c64",
                         const std::string& real = "f32") {
  return contract_text("[dims]\nN = { max = 64 }\nK = { min = 7, max = 64 }\n[tensors.a]\ndtype = \"" + type +
                           "\"\nshape = [\"N\", \"K\"]\n[tensors.b]\ndtype = \"" + type +
                           "\"\nshape = [\"K\"]\n[tensors.y]\ndtype = \"" + type +
                           "\"\nshape = [\"N\"]\nrole = \"out\"\n[tensors.p]\ndtype = \"" + real +
                           "\"\nshape = [\"N\"]\nrole = \"out\"\n[scalars.g]\ndtype = \"c64\"\nvalue = [0.5, "
                           "-2.0]\n[reference]\nformula = \"\"\"\n" +
                           formula + "\n\"\"\"\n",
                       "\"g\", \"a\", \"b\", \"y\", \"p\"");
}

struct Spectra {
  explicit Spectra(const std::string& formula) : contract(parsed(spectra_text(formula))) {
    bindings.shape = {{"N", 5}, {"K", 7}};
    bindings.inputs["a"] = normal(DType::f32, {5, 7, 2}, 1);
    bindings.inputs["b"] = normal(DType::f32, {7, 2}, 2);
    bindings.scalars["g.re"] = contract::Scalar::of(DType::f32, 0.5);
    bindings.scalars["g.im"] = contract::Scalar::of(DType::f32, -2.0);
  }
  Complex a(int64_t n, int64_t k) const { return at("a", n * 7 + k); }
  Complex b(int64_t k) const { return at("b", k); }
  Complex at(const char* name, int64_t element) const {
    const Tensor& tensor = *bindings.inputs.find(name)->second;
    return {tensor.load(2 * element), tensor.load(2 * element + 1)};
  }
  // The values of y, checked against `plain`, and whether every part has a budget that is small beside it.
  void expect(const std::function<Complex(int64_t)>& plain) const {
    const Expectation y = expected(contract, bindings, "y");
    ASSERT_EQ(y.value.size(), 10u);
    for (int64_t n = 0; n < 5; ++n) {
      const Complex want = plain(n);
      const auto i = static_cast<std::size_t>(2 * n);
      EXPECT_NEAR(y.value[i], want.real(), 1e-12 * (1 + std::abs(want))) << n;
      EXPECT_NEAR(y.value[i + 1], want.imag(), 1e-12 * (1 + std::abs(want))) << n;
    }
  }
  Contract contract;
  Bindings bindings;
};

TEST(ComplexNumbers, MultiplyAndConjugate) {
  const Complex g(0.5, -2);
  const Spectra s("y[n] = g * sum[k](conj(a[n, k]) * b[k])\np[n] = abs(y[n])");
  s.expect([&](int64_t n) {
    Complex sum;
    for (int64_t k = 0; k < 7; ++k) sum += std::conj(s.a(n, k)) * s.b(k);
    return g * sum;
  });
}

TEST(ComplexNumbers, DivideRaiseAndExponentiate) {
  const Spectra s(
      "q[n in 0..N] = a[n, 0] / b[1] + exp(a[n, 2]) - a[n, 3]^3\ny[n] = -q[n] * 2\np[n] = re(q[n])");
  s.expect([&](int64_t n) {
    return -2.0 * (s.a(n, 0) / s.b(1) + std::exp(s.a(n, 2)) - s.a(n, 3) * s.a(n, 3) * s.a(n, 3));
  });
}

TEST(ComplexNumbers, ChooseAndMixWithRealOnes) {
  const Spectra s(
      "y[n] = (if im(a[n, 0]) > 0 then complex(n, 1) * a[n, 1] else 3) + mean[k | k < 4](a[n, k])\np[n] = 1");
  s.expect([&](int64_t n) {
    Complex mean;
    for (int64_t k = 0; k < 4; ++k) mean += s.a(n, k) / 4.0;
    return (s.a(n, 0).imag() > 0 ? Complex(static_cast<double>(n), 1) * s.a(n, 1) : Complex(3)) + mean;
  });
}

TEST(ComplexNumbers, AddUpWhereverTheyAreScatteredTo) {
  const Spectra s("y[n] += a[n, k] * b[k]\np[n] = im(y[n])");
  s.expect([&](int64_t n) {
    Complex sum;
    for (int64_t k = 0; k < 7; ++k) sum += s.a(n, k) * s.b(k);
    return sum;
  });
}

// A kernel of four products is within the budget of each part. One of three is not where a part cancels.
TEST(ComplexNumbers, HaveABudgetForEachPart) {
  Spectra s("y[n] = a[n, 0] * b[0]\np[n] = 0");
  Tensor a = Tensor::zeros(DType::f32, {5, 7, 2}), b = Tensor::zeros(DType::f32, {7, 2});
  a.store(0, 1e4);
  a.store(1, 1);
  b.store(0, 1e4);
  b.store(1, 1);
  s.bindings.inputs["a"] = share(a);
  s.bindings.inputs["b"] = share(b);
  const Expectation y = expected(s.contract, s.bindings, "y");
  EXPECT_LT(y.bound[1], 1e-2);  // of 2e4
  EXPECT_GT(y.bound[0], 1);     // of 1e8
  EXPECT_LT(y.bound[0], 100);
}

// Kernels add the products of the parts, and what is added to them, in any order: here 1 + 1e4, rounded, - 1e4.
TEST(ComplexNumbers, AddTheirProductsInAnyOrder) {
  for (const char* formula :
       {"y[n] = a[n, 0] * b[0] + a[n, 1]\np[n] = 0", "y[n] += a[n, k] * b[k]\np[n] = 0"}) {
    Spectra s(formula);
    Tensor a = Tensor::zeros(DType::f32, {5, 7, 2}), b = Tensor::zeros(DType::f32, {7, 2});
    a.store(0, 16384);
    a.store(1, 16384);
    b.store(0, 1);
    b.store(1, 1);
    a.store(2, 1.1);
    b.store(2, 1);
    s.bindings.inputs["a"] = share(a);
    s.bindings.inputs["b"] = share(b);
    const Expectation y = expected(s.contract, s.bindings, "y");
    EXPECT_FLOAT_EQ(static_cast<float>(y.value[0]), 1.1F);  // 16384 - 16384 + 1.1
    const float added = (16384.0F + 1.1F) - 16384.0F;
    EXPECT_GT(std::abs(added - y.value[0]), 1e-4);
    EXPECT_GE(added, y.low[0]) << formula;
    EXPECT_LE(added, y.high[0]) << formula;
    EXPECT_LT(y.bound[0], 5e-2) << formula;
  }
}

// A value in FP64 does not tell whether a kernel rounded it: 1e-3 is what is left of two products of about 1.
TEST(ComplexNumbers, OfDoublesHaveBudgetsForTheirProducts) {
  const Contract contract =
      parsed(spectra_text("y[n] = a[n, 0] * b[0]\np[n] = 0", "c128", "f64") + "accumulate = \"f64\"\n");
  Bindings bindings;
  bindings.shape = {{"N", 5}, {"K", 7}};
  Tensor a = Tensor::zeros(DType::f64, {5, 7, 2}), b = Tensor::zeros(DType::f64, {7, 2});
  const double x = 1.001 / 3, u = 1.0 / 3;
  a.store(0, x);
  a.store(1, u);
  b.store(0, 3);
  b.store(1, 3);
  bindings.inputs["a"] = share(a);
  bindings.inputs["b"] = share(b);
  bindings.scalars["g.re"] = bindings.scalars["g.im"] = contract::Scalar::of(DType::f32, 0.5);
  const Expectation y = expected(contract, bindings, "y");
  for (const double fused : {std::fma(x, 3.0, -(u * 3)), -std::fma(u, 3.0, -(x * 3))}) {
    EXPECT_GE(fused, y.low[0]);
    EXPECT_LE(fused, y.high[0]);
  }
  EXPECT_GT(y.bound[0], 0x1p-53);
  EXPECT_LT(y.bound[0], 0x1p-49);
  // And what is tiny has one, too, in the bound and in the statistics.
  a.store(0, 0x1p-1040);
  a.store(1, 0x3p-1060);
  b.store(0, 1.7);
  bindings.inputs["a"] = share(a);
  bindings.inputs["b"] = share(b);
  const Expectation tiny = expected(contract, bindings, "y");
  EXPECT_GE(tiny.bound[0], 0x1p-1074);
  EXPECT_GE(tiny.sigma[0], 0x1p-1074);
}

TEST(ComplexNumbers, OfDoublesAreTheSame) {
  const Contract contract = parsed(spectra_text("y[n] = a[n, 0] * b[0]\np[n] = re(y[n])", "c128", "f64"));
  EXPECT_EQ(contract.tensor("a")->dtype, DType::f64);
  EXPECT_EQ(contract.tensor("a")->shape.size(), 3u);
}

TEST(ComplexNumbers, LeaveOtherFormulasAsTheyAre) {
  const Contract contract =
      parsed(contract_text("[dims]\nN = { max = 8 }\n[tensors.re]\ndtype = \"f32\"\nshape = "
                           "[\"N\"]\n[tensors.y]\ndtype = \"f32\"\nshape = "
                           "[\"N\"]\nrole = \"out\"\n[reference]\nformula = \"y[i] = re[i] * 2\"\n",
                           "\"re\", \"y\""));
  EXPECT_EQ(reference_of(contract).is_formula(), true);
}

}  // namespace
}  // namespace assay::reference
