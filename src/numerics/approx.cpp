#include "numerics/approx.h"

namespace assay::numerics {
namespace {

float in(float x, bool ftz) {
  return ftz ? flush(x) : x;
}
float out(float x, bool ftz) {
  return canonical(ftz ? flush(x) : x);
}
float rounded(double x, bool ftz) {
  return out(static_cast<float>(x), ftz);
}

}  // namespace

float ex2_approx(float x, bool ftz) {
  return rounded(std::exp2(static_cast<double>(in(x, ftz))), ftz);
}
float lg2_approx(float x, bool ftz) {
  return rounded(std::log2(static_cast<double>(in(x, ftz))), ftz);
}
float sin_approx(float x, bool ftz) {
  return rounded(std::sin(static_cast<double>(in(x, ftz))), ftz);
}
float cos_approx(float x, bool ftz) {
  return rounded(std::cos(static_cast<double>(in(x, ftz))), ftz);
}
float rcp_approx(float x, bool ftz) {
  return rounded(1.0 / static_cast<double>(in(x, ftz)), ftz);
}
float sqrt_approx(float x, bool ftz) {
  return rounded(std::sqrt(static_cast<double>(in(x, ftz))), ftz);
}
float rsqrt_approx(float x, bool ftz) {
  return rounded(1.0 / std::sqrt(static_cast<double>(in(x, ftz))), ftz);
}
float tanh_approx(float x) {
  return rounded(std::tanh(static_cast<double>(x)), false);
}

float div_approx(float a, float b, bool ftz) {
  return out(in(a, ftz) / in(b, ftz), ftz);
}
float div_full(float a, float b, bool ftz) {
  return out(in(a, ftz) / in(b, ftz), ftz);
}

double rcp_approx_f64(double x) {
  return f64_of(bits_of(1.0 / x) & 0xffffffff00000000u);
}
double rsqrt_approx_f64(double x) {
  return f64_of(bits_of(1.0 / std::sqrt(x)) & 0xffffffff00000000u);
}

uint16_t ex2_approx_f16(uint16_t x, bool ftz) {
  const uint16_t code = ftz ? flush_code<F16>(x) : x;
  const uint16_t r = f32_to_f16_rn(ex2_approx(f16_to_f32(code), false));
  return ftz ? flush_code<F16>(r) : r;
}
uint16_t ex2_approx_bf16(uint16_t x) {
  const uint16_t r = f32_to_bf16_rn(ex2_approx(bf16_to_f32(x), true));
  return flush_code<BF16>(r);
}
uint16_t tanh_approx_f16(uint16_t x) {
  return f32_to_f16_rn(tanh_approx(f16_to_f32(x)));
}
uint16_t tanh_approx_bf16(uint16_t x) {
  return f32_to_bf16_rn(tanh_approx(bf16_to_f32(x)));
}

}  // namespace assay::numerics
