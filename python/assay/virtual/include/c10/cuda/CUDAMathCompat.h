// c10::cuda::compat: math functions that take the float or the double function by the type of their argument.
#pragma once
#include <cmath>

#include "assay/light/macros.h"

#define ASSAY_COMPAT(NAME, FLOAT_FUNCTION, DOUBLE_FUNCTION) \
  inline C10_HOST_DEVICE float NAME(float value) {          \
    return ::FLOAT_FUNCTION(value);                         \
  }                                                         \
  inline C10_HOST_DEVICE double NAME(double value) {        \
    return ::DOUBLE_FUNCTION(value);                        \
  }
#define ASSAY_COMPAT_OF_TWO(NAME, FLOAT_FUNCTION, DOUBLE_FUNCTION) \
  inline C10_HOST_DEVICE float NAME(float a, float b) {            \
    return ::FLOAT_FUNCTION(a, b);                                 \
  }                                                                \
  inline C10_HOST_DEVICE double NAME(double a, double b) {         \
    return ::DOUBLE_FUNCTION(a, b);                                \
  }
namespace c10::cuda::compat {
ASSAY_COMPAT(abs, fabsf, fabs)
ASSAY_COMPAT(exp, expf, exp)
ASSAY_COMPAT(ceil, ceilf, ceil)
ASSAY_COMPAT(floor, floorf, floor)
ASSAY_COMPAT(log, logf, log)
ASSAY_COMPAT(sqrt, sqrtf, sqrt)
ASSAY_COMPAT(sin, sinf, sin)
ASSAY_COMPAT(cos, cosf, cos)
ASSAY_COMPAT(tan, tanf, tan)
ASSAY_COMPAT(tanh, tanhf, tanh)
ASSAY_COMPAT(log1p, log1pf, log1p)
#if defined(__CUDACC__)
ASSAY_COMPAT(rsqrt, rsqrtf, rsqrt)
ASSAY_COMPAT(normcdf, normcdff, normcdf)
#endif
ASSAY_COMPAT_OF_TWO(pow, powf, pow)
ASSAY_COMPAT_OF_TWO(copysign, copysignf, copysign)
ASSAY_COMPAT_OF_TWO(max, fmaxf, fmax)
ASSAY_COMPAT_OF_TWO(min, fminf, fmin)
}  // namespace c10::cuda::compat
#undef ASSAY_COMPAT
#undef ASSAY_COMPAT_OF_TWO
