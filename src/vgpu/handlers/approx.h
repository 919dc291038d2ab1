// The approximate functions over 32 lanes: the steps of numerics/approx.h one after another. The steps
// that are arithmetic become SIMD by themselves; the look-up loads rows of the table.
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

// Segments are loaded whole and transposed. The sums are exact in a double, so their order does not matter.
inline void interpolate(const numerics::sfu::Segment* table, Look& look) {
  static_assert(sizeof(numerics::sfu::Segment) == 4 * sizeof(double));
  const auto row = [&](uint32_t lane) { return &table[look.segment[lane]].c0; };
#ifdef __AVX512F__
  // Of lanes 0 to 3 and 4 to 7, in the halves of a vector: c0 and c2 are interleaved in pairs of lanes, c1 with nothing.
  const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13);
  const __m512i third = _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15);
  constexpr __mmask8 kEight = 0xff;  // the forms without a mask trip the compiler's warnings
#pragma GCC unroll 4
  for (uint32_t k = 0; k < kWarpSize; k += 8) {
    const auto rows = [&](uint32_t l) {
      return _mm512_maskz_insertf64x4(kEight, _mm512_castpd256_pd512(_mm256_load_pd(row(k + l))),
                                      _mm256_load_pd(row(k + l + 4)), 1);
    };
    const __m512d a = rows(0), b = rows(1), c = rows(2), d = rows(3);
    const __m512d low_ab = _mm512_maskz_unpacklo_pd(kEight, a, b),
                  low_cd = _mm512_maskz_unpacklo_pd(kEight, c, d);
    const __m512d c0 = _mm512_permutex2var_pd(low_ab, first, low_cd);
    const __m512d c1 = _mm512_permutex2var_pd(_mm512_maskz_unpackhi_pd(kEight, a, b), first,
                                              _mm512_maskz_unpackhi_pd(kEight, c, d));
    const __m512d c2 = _mm512_permutex2var_pd(low_ab, third, low_cd);
    const __m512d x =
        _mm512_maskz_cvtepi32_pd(kEight, _mm256_load_si256(reinterpret_cast<const __m256i*>(look.x + k)));
    const __m512d q = _mm512_maskz_cvtepi32_pd(
        kEight, _mm256_load_si256(reinterpret_cast<const __m256i*>(look.square + k)));
    _mm512_store_pd(look.value + k, _mm512_fmadd_pd(c2, q, _mm512_fmadd_pd(c1, x, c0)));
  }
#else
#pragma GCC unroll 8
  for (uint32_t k = 0; k < kWarpSize; k += 4) {
    const __m256d a = _mm256_load_pd(row(k)), b = _mm256_load_pd(row(k + 1)), c = _mm256_load_pd(row(k + 2)),
                  d = _mm256_load_pd(row(k + 3));
    const __m256d low_ab = _mm256_unpacklo_pd(a, b), low_cd = _mm256_unpacklo_pd(c, d);
    const __m256d c0 = _mm256_permute2f128_pd(low_ab, low_cd, 0x20);
    const __m256d c1 = _mm256_permute2f128_pd(_mm256_unpackhi_pd(a, b), _mm256_unpackhi_pd(c, d), 0x20);
    const __m256d c2 = _mm256_permute2f128_pd(low_ab, low_cd, 0x31);
    const __m256d x = _mm256_cvtepi32_pd(_mm_load_si128(reinterpret_cast<const __m128i*>(look.x + k)));
    const __m256d q = _mm256_cvtepi32_pd(_mm_load_si128(reinterpret_cast<const __m128i*>(look.square + k)));
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
