// The functions of the formula language: value, slope, and how accurate an
// implementation may be taken to be.
//
// The errors are those that the CUDA C++ programming guide documents: of the
// ordinary single-precision functions for `standard`, of the intrinsics that
// --use_fast_math selects for `fast`. One ulp is at most 2 u relative to the
// value. Where rewriting is usual and sound (exp(x) as exp2(x * log2e), sqrt(x) as
// x * rsqrt(x)), the larger of the errors is allowed.
#include <cmath>
#include <numbers>

#include "reference/arithmetic.h"

namespace assay::reference {
namespace {

constexpr double kLn2 = std::numbers::ln2;
constexpr double kTwoOverSqrtPi = 2 * std::numbers::inv_sqrtpi;

double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}
double softplus(double x) {
  return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x));
}
double rsqrt(double x) {
  return 1 / std::sqrt(x);
}

// A function as good as `ulps` everywhere, in both kinds of math.
template <int ulps>
void plain(double, double, const Precision&, double& relative, double&) {
  relative = 2 * ulps;
}

double size_of(double x) {
  return std::isfinite(x) ? std::min(std::abs(x), 1e4) : 0;
}

// exp(x) through exp2(x * log2e): the rounded product and the rounded constant
// are both amplified by |x|. __expf documents 2 + floor(1.173 |x|) ulp.
void exp_error(double x, double, const Precision& precision, double& relative, double&) {
  relative = precision.math == Math::Fast ? 2 * (2 + std::floor(1.173 * size_of(x))) + 2 * size_of(x)
                                          : 4 + 2 * size_of(x);
}
void exp2_error(double x, double, const Precision&, double& relative, double&) {
  relative = 4 + 2 * kLn2 * size_of(x);
}
// __logf: 2^-21.41 absolute on [0.5, 2], else 3 ulp; __log2f: 2^-22 and 2 ulp.
void log_error(double x, double, const Precision& precision, double& relative, double& absolute) {
  relative = precision.math == Math::Fast ? 8 : 4;
  if (precision.math == Math::Fast && x >= 0.5 && x <= 2) absolute = std::exp2(24 - 21.41);
}
// __sinf and __cosf: 2^-21.41 and 2^-21.19 absolute on [-pi, pi].
void sin_error(double, double, const Precision& precision, double& relative, double& absolute) {
  relative = 4;
  if (precision.math == Math::Fast) absolute = std::exp2(24 - 21.19);
}
void sqrt_error(double, double, const Precision& precision, double& relative, double&) {
  relative = precision.math == Math::Fast ? 6 : 3;
}
// The approximation of tanh in hardware: 2^-10.987 relative.
void tanh_error(double, double, const Precision& precision, double& relative, double&) {
  relative = precision.math == Math::Fast ? std::exp2(24 - 10.98) : 4;
}
// __fdividef gives 0 for divisors beyond this share of the largest number, 2^126.
constexpr double kLargestFastDivisor = 0.25;

// 1 / (1 + exp(-x)): where exp overflows, or its error may make it overflow, the result is 0 instead of a tiny number.
void sigmoid_error(double x, double value, const Precision& precision, double& relative, double& absolute) {
  const bool fast = precision.math == Math::Fast;
  double of_exp = 0;
  exp_error(x, value, precision, of_exp, absolute);
  relative = of_exp * (1 - value) + (fast ? 6 : 4);
  const double largest = fast ? kLargestFastDivisor * precision.max : precision.max;
  if (-x > std::log(largest) - of_exp * precision.u) absolute = value / precision.u;
}
void softplus_error(double x, double value, const Precision& precision, double& relative, double& absolute) {
  double of_exp = 0;
  exp_error(x, value, precision, of_exp, absolute);
  // Of an error of the exp, in units of its logarithm, as much as the slope lets through.
  relative = 4 + (value > 0 ? of_exp * sigmoid(x) / value : of_exp);
  absolute = 0;
}

constexpr FunctionInfo kTable[] = {
    {[](double x) { return std::exp(x); }, [](double, double v) { return v; }, exp_error},
    {[](double x) { return std::exp2(x); }, [](double, double v) { return v * kLn2; }, exp2_error},
    {[](double x) { return std::expm1(x); }, [](double, double v) { return v + 1; }, exp_error},
    {[](double x) { return std::log(x); }, [](double x, double) { return 1 / x; }, log_error},
    {[](double x) { return std::log2(x); }, [](double x, double) { return 1 / (x * kLn2); }, log_error},
    {[](double x) { return std::log1p(x); }, [](double x, double) { return 1 / (1 + x); }, plain<2>},
    {[](double x) { return std::sqrt(x); }, [](double, double v) { return 0.5 / v; }, sqrt_error},
    {rsqrt, [](double x, double v) { return -0.5 * v / x; }, plain<2>},
    {[](double x) { return std::tanh(x); }, [](double, double v) { return 1 - v * v; }, tanh_error},
    {[](double x) { return std::erf(x); }, [](double x, double) { return kTwoOverSqrtPi * std::exp(-x * x); },
     plain<2>},
    {[](double x) { return std::erfc(x); },
     [](double x, double) { return -kTwoOverSqrtPi * std::exp(-x * x); }, plain<4>},
    {sigmoid, [](double, double v) { return v * (1 - v); }, sigmoid_error},
    {softplus, [](double x, double) { return sigmoid(x); }, softplus_error},
    {[](double x) { return std::sin(x); }, [](double x, double) { return std::cos(x); }, sin_error},
    {[](double x) { return std::cos(x); }, [](double x, double) { return -std::sin(x); }, sin_error},
};

}  // namespace

const FunctionInfo& function_info(Op op) {
  return kTable[static_cast<std::size_t>(op) - static_cast<std::size_t>(Op::Exp)];
}

}  // namespace assay::reference
