// The words of shared memory, eight or sixteen at a time (race_shared_vectors.h), as the host has them.
#include <immintrin.h>

#include <bit>

#include "checks/race_shared.h"
#include "checks/race_state.h"
#include "vgpu/lowering.h"
#include "vgpu/warp.h"

namespace assay::checks {

namespace {

const bool kHasSixteen = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");

// AVX2, which every host has that this is built for. A mask is a vector of -1 and 0.
struct Eight {
  using Vector = uint32_t __attribute__((vector_size(32)));
  using Mask = int32_t __attribute__((vector_size(32)));
  static constexpr uint32_t kWidth = 8;

  static __m256i raw(Vector v) { return reinterpret_cast<__m256i>(v); }
  static Vector all(uint32_t x) { return Vector{} + x; }
  static Vector count() { return Vector{0, 1, 2, 3, 4, 5, 6, 7}; }
  static Mask none() { return Mask{}; }
  static Mask first(uint32_t n) { return count() < n; }
  static Mask these(uint32_t lanes) { return (lanes >> count() & 1) != 0; }
  static uint32_t bits(Mask m) {
    return static_cast<uint32_t>(_mm256_movemask_ps(reinterpret_cast<__m256>(m)));
  }
  static Mask either(Mask a, Mask b) { return a | b; }
  static Mask without(Mask a, Mask b) { return a & ~b; }
  static Mask test(Mask m, Vector v, uint32_t bits) { return m & ((v & bits) != 0); }
  static Mask testn(Mask m, Vector v, uint32_t bits) { return m & ((v & bits) == 0); }
  static Mask equal(Mask m, Vector a, Vector b) { return m & (a == b); }
  static Mask differ(Mask m, Vector a, Vector b) { return m & (a != b); }
  static Mask at_least(Mask m, Vector a, Vector b) { return m & (a >= b); }
  static Vector load(const uint32_t* from) {
    Vector v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(uint32_t* to, Mask m, Vector v) {
    _mm256_maskstore_epi32(reinterpret_cast<int*>(to), reinterpret_cast<__m256i>(m), raw(v));
  }
  static Vector gather(const uint32_t* from, Mask m, Vector index) {
    return reinterpret_cast<Vector>(_mm256_mask_i32gather_epi32(
        raw(Vector{}), reinterpret_cast<const int*>(from), raw(index), reinterpret_cast<__m256i>(m), 4));
  }
  static void scatter(uint32_t* to, Mask m, Vector index, Vector v) {
    alignas(32) uint32_t at[kWidth], value[kWidth];
    __builtin_memcpy(at, &index, sizeof at);
    __builtin_memcpy(value, &v, sizeof value);
    for (uint32_t rest = bits(m); rest; rest &= rest - 1) {
      const auto k = static_cast<uint32_t>(std::countr_zero(rest));
      to[at[k]] = value[k];
    }
  }
  static Vector look_up(const uint32_t* table, Vector index) {
    return reinterpret_cast<Vector>(
        _mm256_i32gather_epi32(reinterpret_cast<const int*>(table), raw(index & 31), 4));
  }
};

}  // namespace

}  // namespace assay::checks

#define ASSAY_WIDE WideEight
#define ASSAY_VECTORS Eight
#include "checks/race_shared_vectors.h"
#undef ASSAY_WIDE
#undef ASSAY_VECTORS

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl")

namespace assay::checks {

namespace {

struct Sixteen {
  using Vector = uint32_t __attribute__((vector_size(64)));
  using Mask = __mmask16;
  static constexpr uint32_t kWidth = 16;

  static __m512i raw(Vector v) { return reinterpret_cast<__m512i>(v); }
  static Vector all(uint32_t x) { return Vector{} + x; }
  static Vector count() { return Vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}; }
  static Mask none() { return 0; }
  static Mask first(uint32_t n) { return static_cast<Mask>(n >= kWidth ? 0xffff : (1u << n) - 1); }
  static Mask these(uint32_t lanes) { return static_cast<Mask>(lanes); }
  static uint32_t bits(Mask m) { return m; }
  static Mask either(Mask a, Mask b) { return static_cast<Mask>(a | b); }
  static Mask without(Mask a, Mask b) { return static_cast<Mask>(a & ~b); }
  static Mask test(Mask m, Vector v, uint32_t bits) {
    return _mm512_mask_test_epi32_mask(m, raw(v), raw(all(bits)));
  }
  static Mask testn(Mask m, Vector v, uint32_t bits) {
    return _mm512_mask_testn_epi32_mask(m, raw(v), raw(all(bits)));
  }
  static Mask equal(Mask m, Vector a, Vector b) { return _mm512_mask_cmpeq_epi32_mask(m, raw(a), raw(b)); }
  static Mask differ(Mask m, Vector a, Vector b) { return _mm512_mask_cmpneq_epi32_mask(m, raw(a), raw(b)); }
  static Mask at_least(Mask m, Vector a, Vector b) { return _mm512_mask_cmpge_epu32_mask(m, raw(a), raw(b)); }
  static Vector load(const uint32_t* from) {
    Vector v;
    __builtin_memcpy(&v, from, sizeof v);
    return v;
  }
  static void store(uint32_t* to, Mask m, Vector v) { _mm512_mask_storeu_epi32(to, m, raw(v)); }
  static Vector gather(const uint32_t* from, Mask m, Vector index) {
    return reinterpret_cast<Vector>(_mm512_mask_i32gather_epi32(raw(Vector{}), m, raw(index), from, 4));
  }
  static void scatter(uint32_t* to, Mask m, Vector index, Vector v) {
    _mm512_mask_i32scatter_epi32(to, m, raw(index), raw(v), 4);
  }
  static Vector look_up(const uint32_t* table, Vector index) {
    return reinterpret_cast<Vector>(
        _mm512_permutex2var_epi32(_mm512_load_si512(table), raw(index), _mm512_load_si512(table + 16)));
  }
};

}  // namespace

}  // namespace assay::checks

#define ASSAY_WIDE WideSixteen
#define ASSAY_VECTORS Sixteen
#include "checks/race_shared_vectors.h"

namespace assay::checks {

void SharedShadow::run_sixteen(const Visit& visit, const Run& run) {
  WideSixteen(*this, visit).run(run);
}

void SharedShadow::lanes_sixteen(const Visit& visit, uint32_t lanes) {
  WideSixteen(*this, visit).lanes(lanes);
}

}  // namespace assay::checks

#pragma GCC pop_options

namespace assay::checks {

SharedShadow::Vectors SharedShadow::widest() {
  return kHasSixteen && vgpu::uses_avx512() ? Vectors::Sixteen : Vectors::Eight;
}

void SharedShadow::run_wide(const Visit& visit, const Run& run) {
  vectors_ == Vectors::Sixteen ? run_sixteen(visit, run) : WideEight(*this, visit).run(run);
}

void SharedShadow::lanes_wide(const Visit& visit, uint32_t lanes) {
  vectors_ == Vectors::Sixteen ? lanes_sixteen(visit, lanes) : WideEight(*this, visit).lanes(lanes);
}

}  // namespace assay::checks
