// What the handlers share. Files in this folder are compiled once for each instruction set of the host
// (ASSAY_BUILD names it), like those of vgpu/handlers: no containers, no library code with state.
#pragma once

#ifndef ASSAY_BUILD
#define ASSAY_BUILD shadow_avx2
#define ASSAY_WATCHED 0
#endif

#include <immintrin.h>

#include <cmath>
#include <cstring>

#include "numerics/lanes.h"
#include "shadow/forms.h"
#include "vgpu/grid.h"

namespace assay::shadow::ASSAY_BUILD {

using vgpu::Inst;
using vgpu::kAllLanes;
using vgpu::kWarpSize;
using vgpu::Warp;

template <class F>
inline void each_lane(uint32_t lanes, F&& f) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) f(static_cast<uint32_t>(__builtin_ctz(rest)));
}

template <class T>
inline const T& form_of(const Inst& i) {
  return *static_cast<const T*>(i.extra);
}

inline RegisterErrors& errors_at(Warp& w, PlaneOffset offset) {
  return *reinterpret_cast<RegisterErrors*>(w.planes + offset);
}
// Lanes of `offset` that have errors; none where it is not followed.
inline uint32_t lanes_with_errors(Warp& w, PlaneOffset offset) {
  return offset == 0 ? 0 : errors_at(w, offset).lanes;
}
inline void clear(Warp& w, PlaneOffset offset, uint32_t lanes) {
  if (offset != 0) errors_at(w, offset).lanes &= ~lanes;
}

// Runs the instruction that ours accounts for.
inline const Inst* run_main(Warp& w, const Inst& i, uint32_t insts) {
  const Inst* next = &i + 1;
  for (uint32_t k = 1; k <= insts; ++k) next = (&i)[k].run(w, (&i)[k]);
  return next;
}

// ---- Values as doubles ----

template <class T, class Convert>
inline void read_as(const std::byte* plane, const Element& e, double* out, Convert convert) {
  const std::byte* at = plane + e.offset;
  if (e.lane_bytes == sizeof(T)) {
    const T* p = reinterpret_cast<const T*>(at);
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) out[l] = convert(p[l]);
  } else {
    alignas(64) T value[kWarpSize];
    for (uint32_t l = 0; l < kWarpSize; ++l) std::memcpy(value + l, at + l * e.lane_bytes, sizeof(T));
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) out[l] = convert(value[l]);
  }
}

inline void read(Warp& w, const Element& e, double* out) {
  const std::byte* plane = w.planes + e.plane;
  const auto number = [](auto x) { return static_cast<double>(x); };
  switch (e.number) {
    case Number::F64:
      return read_as<double>(plane, e, out, number);
    case Number::F32:
      return read_as<float>(plane, e, out, number);
    case Number::TF32:
      return read_as<uint32_t>(plane, e, out,
                               [](uint32_t x) { return static_cast<double>(numerics::tf32_to_f32(x)); });
    case Number::F16:
      return read_as<uint16_t>(plane, e, out,
                               [](uint16_t x) { return static_cast<double>(numerics::f16_to_f32(x)); });
    case Number::BF16:
      return read_as<uint16_t>(plane, e, out,
                               [](uint16_t x) { return static_cast<double>(numerics::bf16_to_f32(x)); });
    case Number::E4M3:
      return read_as<uint8_t>(plane, e, out,
                              [](uint8_t x) { return static_cast<double>(numerics::e4m3_to_f32(x)); });
    case Number::E5M2:
      return read_as<uint8_t>(plane, e, out,
                              [](uint8_t x) { return static_cast<double>(numerics::e5m2_to_f32(x)); });
    case Number::S8:
      return read_as<int8_t>(plane, e, out, number);
    case Number::U8:
      return read_as<uint8_t>(plane, e, out, number);
    case Number::S16:
      return read_as<int16_t>(plane, e, out, number);
    case Number::U16:
      return read_as<uint16_t>(plane, e, out, number);
    case Number::S32:
      return read_as<int32_t>(plane, e, out, number);
    case Number::U32:
      return read_as<uint32_t>(plane, e, out, number);
    case Number::S64:
      return read_as<int64_t>(plane, e, out, number);
    case Number::U64:
      return read_as<uint64_t>(plane, e, out, number);
  }
}

// The bits that a Number's lane reads as; for memory.
inline double value_at(Number number, const std::byte* at) {
  Element one;
  switch (number) {
    case Number::F64: {
      double x;
      std::memcpy(&x, at, 8);
      return x;
    }
    case Number::F32: {
      float x;
      std::memcpy(&x, at, 4);
      return static_cast<double>(x);
    }
    case Number::F16: {
      uint16_t x;
      std::memcpy(&x, at, 2);
      return static_cast<double>(numerics::f16_to_f32(x));
    }
    case Number::BF16: {
      uint16_t x;
      std::memcpy(&x, at, 2);
      return static_cast<double>(numerics::bf16_to_f32(x));
    }
    default:
      (void)one;
      return 0;
  }
}

// ---- Errors ----

using Vector = float __attribute__((vector_size(64), may_alias));

inline bool is_broken(const Error& e) {
  return !(std::fabs(e.slot[kWhole]) <= 3.4e38f);
}

// Charges a fresh rounding to its line.
inline void settle(Error& e) {
  if (e.slot[kFresh] == 0 || is_broken(e)) return;
  const auto line = static_cast<uint32_t>(e.slot[kFreshLine]);
  if (line > 0 && line <= kLineSlots) e.slot[line] += e.slot[kFresh];
  e.slot[kFresh] = 0;
  e.slot[kFreshLine] = 0;
}

// What a broken value should be: its mantissa and exponent take the place of a fresh rounding.
inline void set_truth(Error& e, double truth) {
  int exponent = 0;
  e.slot[kFresh] = static_cast<float>(std::isfinite(truth) ? std::frexp(truth, &exponent) : truth);
  e.slot[kFreshLine] = static_cast<float>(exponent);
}
inline double truth_of(const Error& e, double value) {
  if (!is_broken(e)) return value - static_cast<double>(e.slot[kWhole]);
  return std::ldexp(static_cast<double>(e.slot[kFresh]), static_cast<int>(e.slot[kFreshLine]));
}
inline void write_broken(Error& e, uint32_t slot, double truth) {
  std::memset(&e, 0, sizeof e);
  e.slot[slot] = 1;
  e.slot[kWhole] = INFINITY;
  set_truth(e, truth);
}

inline void write_new(Error& e, float whole, float introduced, uint32_t slot, bool fresh) {
  std::memset(&e, 0, sizeof e);
  if (fresh) {
    e.slot[kFresh] = introduced;
    e.slot[kFreshLine] = static_cast<float>(slot);
  } else {
    e.slot[slot] = introduced;
  }
  e.slot[kWhole] = whole;
}

// 32 comparisons as a lane mask.
#ifdef __AVX512F__
inline uint32_t above(const double* x, double limit) {  // |x| > limit; not for NaN
  uint32_t mask = 0;
  const __m512d most = _mm512_set1_pd(limit);
  for (uint32_t k = 0; k < kWarpSize; k += 8)
    mask |= uint32_t{_mm512_cmp_pd_mask(_mm512_abs_pd(_mm512_loadu_pd(x + k)), most, _CMP_GT_OQ)} << k;
  return mask;
}
inline uint32_t not_below(const double* x, double limit) {  // !(|x| < limit): NaN too
  uint32_t mask = 0;
  const __m512d most = _mm512_set1_pd(limit);
  for (uint32_t k = 0; k < kWarpSize; k += 8)
    mask |= uint32_t{_mm512_cmp_pd_mask(_mm512_abs_pd(_mm512_loadu_pd(x + k)), most, _CMP_NLT_UQ)} << k;
  return mask;
}
#else
inline uint32_t above(const double* x, double limit) {
  uint32_t mask = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l) mask |= uint32_t{std::fabs(x[l]) > limit} << l;
  return mask;
}
inline uint32_t not_below(const double* x, double limit) {
  uint32_t mask = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l) mask |= uint32_t{!(std::fabs(x[l]) < limit)} << l;
  return mask;
}
#endif

inline constexpr double kHuge = 3e38;  // a whole beyond is as good as infinite

// Tables of the files.
void fill_arithmetic(Handlers& h);
void fill_moves(Handlers& h);
void fill_memory(Handlers& h);
void fill_matrix(Handlers& h);

}  // namespace assay::shadow::ASSAY_BUILD
