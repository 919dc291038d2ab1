// The approximate functions (.approx, .full), with the hardware's bits.
//
// The special-function unit interpolates: the leading bits of the argument
// choose a segment of a table, the rest is x in c0 + c1 * x + c2 * x^2. Its
// squarer drops the partial products of weight below 2^19 (for 17 bits of x),
// and the result is cut off, not rounded. The tables were recovered from
// exhaustive runs on an H200; docs/numerics.md has the details.
//
// The unit itself (namespace sfu) reads subnormals as zero and never writes
// them; the instructions without .ftz scale around it, as the assembler does.
#pragma once

#include "numerics/half.h"

namespace assay::numerics {
namespace sfu {

struct Segment {
  int64_t c0;
  int32_t c1;
  int32_t c2;
};

extern const Segment kReciprocal[128];
extern const Segment kReciprocalRoot[128];
extern const Segment kRoot[128];
extern const Segment kPower[64];
extern const Segment kLogarithm[64];
extern const Segment kSine[64];
extern const Segment kTanh[51];

// The square of a 17-bit x as the unit makes it, over 2^19.
inline uint32_t square(uint32_t x) {
  uint32_t sum = 0;
  for (uint32_t j = 10; j < 17; ++j) {
    const uint32_t row = ((x & ((1u << j) - 1)) >> (18 - j)) + (1u << (2 * j - 19));
    sum += pick<uint32_t>(((x >> j) & 1) != 0, row, 0);
  }
  return sum;
}

// A segment's value at x of 17 bits.
inline int64_t interpolate(const Segment& s, uint32_t x) {
  return s.c0 + static_cast<int64_t>(s.c1) * x + static_cast<int64_t>(s.c2) * square(x);
}

// A 23-bit argument: six bits choose the segment, 17 are x.
inline int64_t lookup(const Segment* table, uint32_t argument) {
  return interpolate(table[argument >> 17], argument & 0x1ffffu);
}

float rcp(float x);
float rsq(float x);
float sqrt(float x);
float lg2(float x);
float ex2(float x);
float sin(float revolutions);
float cos(float revolutions);
float tanh(float x);

}  // namespace sfu

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
// rsqrt.approx.f64: the above and one step of Newton's method.
double rsqrt_approx_f64_full(double x);

// ex2.approx.f16 and .ftz.bf16, tanh.approx for both: the f32 result, cut off.
uint16_t ex2_approx_f16(uint16_t x, bool ftz);
uint16_t ex2_approx_bf16(uint16_t x);
uint16_t tanh_approx_f16(uint16_t x);
uint16_t tanh_approx_bf16(uint16_t x);

}  // namespace assay::numerics
