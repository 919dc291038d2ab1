// The approximate functions over 32 lanes: the steps of numerics/approx.h one after another. The steps
// that are arithmetic become SIMD by themselves; the look-up in the table is a gather, or loads of its rows.
#pragma once

#include "numerics/approx.h"
#include "vgpu/handlers/lanes.h"

namespace assay::vgpu::ASSAY_BUILD {

struct alignas(64) Look {
  uint32_t segment[kWarpSize];
  int32_t x[kWarpSize];
  int32_t square[kWarpSize];
  double value[kWarpSize];
};

// The sums are exact in a double, so their order does not matter.
inline void interpolate(const numerics::sfu::Segment* table, Look& look) {
  static_assert(sizeof(numerics::sfu::Segment) == 3 * sizeof(double));
  const double* coefficients = &table->c0;
#ifdef __AVX512F__
  constexpr __mmask8 kEight = 0xff;  // the forms without a mask trip the compiler's warnings
#pragma GCC unroll 4
  for (uint32_t k = 0; k < kWarpSize; k += 8) {
    const __m256i s = _mm256_load_si256(reinterpret_cast<const __m256i*>(look.segment + k));
    const __m256i at = _mm256_add_epi32(s, _mm256_add_epi32(s, s));
    const __m512d x =
        _mm512_maskz_cvtepi32_pd(kEight, _mm256_load_si256(reinterpret_cast<const __m256i*>(look.x + k)));
    const __m512d q = _mm512_maskz_cvtepi32_pd(
        kEight, _mm256_load_si256(reinterpret_cast<const __m256i*>(look.square + k)));
    const __m512d c0 = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), kEight, at, coefficients, 8);
    const __m512d c1 = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), kEight, at, coefficients + 1, 8);
    const __m512d c2 = _mm512_mask_i32gather_pd(_mm512_setzero_pd(), kEight, at, coefficients + 2, 8);
    _mm512_store_pd(look.value + k, _mm512_fmadd_pd(c2, q, _mm512_fmadd_pd(c1, x, c0)));
  }
#else
  // Rows of the table are loaded and transposed: without AVX-512, that is faster than gathering them.
#pragma GCC unroll 8
  for (uint32_t k = 0; k < kWarpSize; k += 4) {
    const auto row = [&](uint32_t l) { return coefficients + 3 * size_t{look.segment[k + l]}; };
    const auto rows = [&](uint32_t l) {  // c0 and c1 of two lanes
      return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(row(l))), _mm_loadu_pd(row(l + 2)), 1);
    };
    const auto third = [&](uint32_t l) { return _mm_loadh_pd(_mm_load_sd(row(l) + 2), row(l + 1) + 2); };
    const __m256d even = rows(0), odd = rows(1);
    const __m256d x = _mm256_cvtepi32_pd(_mm_load_si128(reinterpret_cast<const __m128i*>(look.x + k)));
    const __m256d q = _mm256_cvtepi32_pd(_mm_load_si128(reinterpret_cast<const __m128i*>(look.square + k)));
    const __m256d c0 = _mm256_unpacklo_pd(even, odd), c1 = _mm256_unpackhi_pd(even, odd);
    const __m256d c2 = _mm256_insertf128_pd(_mm256_castpd128_pd256(third(0)), third(2), 1);
    _mm256_store_pd(look.value + k, _mm256_fmadd_pd(c2, q, _mm256_fmadd_pd(c1, x, c0)));
  }
#endif
}

// y → r for all lanes.
template <class Function>
[[gnu::always_inline]] inline void evaluate(const float* y, float* r) {
  Look look;
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const numerics::sfu::Place at = Function::place(y[l]);
    look.segment[l] = at.segment;
    look.x[l] = static_cast<int32_t>(at.x);
    look.square[l] = numerics::sfu::square(at.x);
  }
  interpolate(Function::kTable, look);
  for (uint32_t l = 0; l < kWarpSize; ++l) r[l] = Function::finish(y[l], look.value[l]);
}

// One source, of Instruction's kind.
template <class Instruction, bool Ftz>
[[gnu::flatten]] const Inst* approx1(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const float* x = w.plane<float>(i.a);
  alignas(64) float y[kWarpSize], r[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) y[l] = Instruction::before(x[l], Ftz);
  evaluate<typename Instruction::Function>(y, r);
  for (uint32_t l = 0; l < kWarpSize; ++l) r[l] = Instruction::after(x[l], r[l], Ftz);
  blend(w.plane<float>(i.dst), r, lanes);
  spread_poison<float>(w, i, lanes, i.a);
  return &i + 1;
}

// A quotient, by way of the reciprocal.
template <class Instruction, bool Ftz>
[[gnu::flatten]] const Inst* approx_quotient(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const float* a = w.plane<float>(i.a);
  const float* b = w.plane<float>(i.b);
  alignas(64) float y[kWarpSize], r[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) y[l] = b[l] * Instruction::scale(b[l], Ftz);
  evaluate<numerics::sfu::Rcp>(y, r);
  for (uint32_t l = 0; l < kWarpSize; ++l)
    r[l] = numerics::scaled_quotient(a[l], Instruction::scale(b[l], Ftz), r[l], Ftz);
  blend(w.plane<float>(i.dst), r, lanes);
  spread_poison<float>(w, i, lanes, i.a, i.b);
  return &i + 1;
}

}  // namespace assay::vgpu::ASSAY_BUILD
