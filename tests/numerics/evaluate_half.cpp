#include "evaluate.h"
#include "numerics/gpu_math.h"

namespace assay::numerics {
namespace {

uint16_t h(uint64_t bits) {
  return static_cast<uint16_t>(bits);
}
uint32_t p(uint64_t bits) {
  return static_cast<uint32_t>(bits);
}

// A scalar function, applied to one code or to both of a pair.
template <auto Function>
Evaluate unary(bool pair) {
  if (pair) return [](auto a, auto, auto) { return uint64_t{each<Function>(p(a))}; };
  return [](auto a, auto, auto) { return uint64_t{Function(h(a))}; };
}
template <auto Function>
Evaluate binary(bool pair) {
  if (pair) return [](auto a, auto b, auto) { return uint64_t{each<Function>(p(a), p(b))}; };
  return [](auto a, auto b, auto) { return uint64_t{Function(h(a), h(b))}; };
}
template <auto Function>
Evaluate ternary(bool pair) {
  if (pair) return [](auto a, auto b, auto c) { return uint64_t{each<Function>(p(a), p(b), p(c))}; };
  return [](auto a, auto b, auto c) { return uint64_t{Function(h(a), h(b), h(c))}; };
}

template <class H, HalfMode M>
Evaluate arithmetic(const FormName& form, bool pair) {
  if (form.op == "add") return binary<add_half<H, M>>(pair);
  if (form.op == "sub") return binary<sub_half<H, M>>(pair);
  if (form.op == "mul") return binary<mul_half<H, M>>(pair);
  if (form.op == "fma" && form.has("oob")) return ternary<fma_oob_half<H, M>>(pair);
  if (form.op == "fma") return ternary<fma_half<H, M>>(pair);
  return {};
}

template <class H, bool Ftz>
Evaluate arithmetic_mode(const FormName& form, bool pair) {
  if (form.has("sat")) return arithmetic<H, HalfMode{Ftz, true, false}>(form, pair);
  if (form.has("relu")) return arithmetic<H, HalfMode{Ftz, false, true}>(form, pair);
  return arithmetic<H, HalfMode{Ftz, false, false}>(form, pair);
}

template <class H, bool Max, bool Ftz>
Evaluate minmax(const FormName& form, bool pair) {
  const bool nan = form.has("NaN");
  if (form.has("xorsign")) {
    return nan ? binary<minmax_half<H, Max, Ftz, true, true>>(pair)
               : binary<minmax_half<H, Max, Ftz, false, true>>(pair);
  }
  return nan ? binary<minmax_half<H, Max, Ftz, true>>(pair) : binary<minmax_half<H, Max, Ftz, false>>(pair);
}

template <class H, bool Ftz>
Evaluate any(const FormName& form, bool pair) {
  if (form.op == "neg") return unary<neg_half<H, Ftz>>(pair);
  if (form.op == "abs") return unary<abs_half<H, Ftz>>(pair);
  if (form.op == "min") return minmax<H, false, Ftz>(form, pair);
  if (form.op == "max") return minmax<H, true, Ftz>(form, pair);
  return arithmetic_mode<H, Ftz>(form, pair);
}

uint16_t ex2_f16(uint16_t x) {
  return ex2_approx_f16(x, false);
}

}  // namespace

Evaluate evaluate_half(const FormName& form) {
  const std::string& type = form.type();
  const bool pair = type == "f16x2" || type == "bf16x2";
  const bool brain = type == "bf16" || type == "bf16x2";
  if (form.op == "setp" || form.op == "set") return {};
  if (form.op == "tanh") return brain ? unary<tanh_approx_bf16>(pair) : unary<tanh_approx_f16>(pair);
  if (form.op == "ex2") return brain ? unary<ex2_approx_bf16>(pair) : unary<ex2_f16>(pair);
  if (brain) return any<BF16, false>(form, pair);
  return form.has("ftz") ? any<F16, true>(form, pair) : any<F16, false>(form, pair);
}

}  // namespace assay::numerics
