// The approximate functions (.approx, .full). Special cases are the hardware's;
// docs/numerics.md says which functions give its bits and how far the others
// are: always within the error that NVIDIA documents.
#pragma once

#include "numerics/half.h"

namespace assay::numerics {

float ex2_approx(float x, bool ftz);
float lg2_approx(float x, bool ftz);
float sin_approx(float x, bool ftz);
float cos_approx(float x, bool ftz);
float rcp_approx(float x, bool ftz);
float rsqrt_approx(float x, bool ftz);
float sqrt_approx(float x, bool ftz);
float tanh_approx(float x);
float div_approx(float a, float b, bool ftz);
float div_full(float a, float b, bool ftz);

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64: of the high word alone, into the high word.
double rcp_approx_f64(double x);
double rsqrt_approx_f64(double x);

// ex2.approx.f16 (and .ftz.bf16), tanh.approx for both.
uint16_t ex2_approx_f16(uint16_t x, bool ftz);
uint16_t ex2_approx_bf16(uint16_t x);
uint16_t tanh_approx_f16(uint16_t x);
uint16_t tanh_approx_bf16(uint16_t x);

}  // namespace assay::numerics
