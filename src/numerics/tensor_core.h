// The matrix-multiply-accumulate of Hopper's tensor cores, D = A * B + C.
//
// Floating point, as measured (docs/numerics.md): one instruction takes its k
// products and c together. Products are exact. Every term is aligned to the
// largest exponent among them (the sum of the operands' exponents, before
// normalisation) and truncated to 25 bits after its binary point; the sum of
// what is left is exact, and is rounded once: toward zero into f32, to nearest
// even into f16. Subnormals count fully. Nothing is kept between instructions
// but the rounded accumulator.
//
// fp8 through mma.sync is not native on Hopper: the operands become f16, two
// products of half the k start from zero (elements 0 and 1 of every four, then
// elements 2 and 3), and c is added last with an ordinary addition.
//
// Matrices are flat: a is m rows of k, b is n columns of k (that is, B
// transposed), c and d are m rows of n. d may be c.
#pragma once

#include <cstdint>

#include "numerics/formats.h"

namespace assay::numerics {

struct MmaShape {
  int m = 16;
  int n = 8;
  int k = 16;
};

inline constexpr int kMmaMaxK = 32;  // of the floating-point functions

// f16 and bf16 codes; tf32 as f32 bits, of which the low 13 are ignored.
void mma_f16_f32(MmaShape shape, const uint16_t* a, const uint16_t* b, const float* c, float* d);
void mma_bf16_f32(MmaShape shape, const uint16_t* a, const uint16_t* b, const float* c, float* d);
void mma_tf32_f32(MmaShape shape, const uint32_t* a, const uint32_t* b, const float* c, float* d);
// f16 accumulators.
void mma_f16_f16(MmaShape shape, const uint16_t* a, const uint16_t* b, const uint16_t* c, uint16_t* d);

// fp8 operands: `a_format` and `b_format` are E4M3 or E5M2.
void mma_fp8_f32(MmaShape shape, Format a_format, Format b_format, const uint8_t* a, const uint8_t* b,
                 const float* c, float* d);
void mma_fp8_f16(MmaShape shape, Format a_format, Format b_format, const uint8_t* a, const uint8_t* b,
                 const uint16_t* c, uint16_t* d);

// f64: one fused multiply-add after another in the order of k, rounded as told.
void mma_f64(MmaShape shape, Rounding rounding, const double* a, const double* b, const double* c, double* d);

// Integers: exact; the sum wraps, or with `saturate` is clamped once at the end.
// Elements of u8, s8, u4 and s4 come already widened to 16 bits.
void mma_s32(MmaShape shape, bool saturate, const int16_t* a, const int16_t* b, const int32_t* c, int32_t* d);

// Single bits, 32 to a word along k: the population count of a xor b, or of a and b, is added.
enum class BitOperation : uint8_t { Xor, And };
void mma_b1(MmaShape shape, BitOperation operation, const uint32_t* a, const uint32_t* b, const int32_t* c,
            int32_t* d);

// The definition of one floating-point element, in integers: slow and plain.
// Codes of `format` in, accumulator F32 or F16. The fast functions are held to it.
uint64_t dot(Format format, int k, const uint64_t* a, const uint64_t* b, Format accumulator, uint64_t c);

}  // namespace assay::numerics
