// Handlers made from scalar functions: a 32-lane loop under a mask, and what happens to poison.
//
// An operation is a struct with a static `apply`. `map2` turns it into a Handler:
//     struct Add { template <class T> static T apply(T a, T b) { return a + b; } };
//     l.emit(map2<Add, uint32_t, uint32_t, uint32_t>)
// The loops have a fixed length and no dependencies between lanes, so the compiler makes them SIMD.
// Planes of different lane widths never overlap, and equal planes are read and written lane by lane.
//
// Poison (watched builds only): a lane of a plane may hold undefined bits. The common rule is that any
// undefined bit of a source makes the whole result undefined. An operation that knows better also has
// `undefined(Bits<A> a, Bits<B> b)`, which gives the undefined bits of the result; it is asked only
// when a source is poisoned. A lane whose guard is undefined may or may not have been written, so its
// destination becomes undefined as a whole.
#pragma once

#include <immintrin.h>

#include "vgpu/handlers/build.h"

namespace assay::vgpu::ASSAY_BUILD {

// ---- Lane masks ----

// Writes `src` to `dst` in the named lanes.
template <class T>
inline void blend(T* dst, const T* src, uint32_t lanes) {
#ifdef __AVX512BW__
  if constexpr (sizeof(T) == 2) {
    _mm512_mask_storeu_epi16(dst, lanes, _mm512_loadu_si512(src));
  } else if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_epi32(dst, static_cast<__mmask16>(lanes), _mm512_loadu_si512(src));
    _mm512_mask_storeu_epi32(dst + 16, static_cast<__mmask16>(lanes >> 16), _mm512_loadu_si512(src + 16));
  } else if constexpr (sizeof(T) == 8) {
    for (uint32_t k = 0; k < 4; ++k) {
      _mm512_mask_storeu_epi64(dst + 8 * k, static_cast<__mmask8>(lanes >> 8 * k),
                               _mm512_loadu_si512(src + 8 * k));
    }
  } else
#endif
  {
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) dst[l] = (lanes >> l & 1) ? src[l] : dst[l];
  }
}

// d = yes in the lanes of `mask`, no elsewhere.
template <class T>
inline void choose(T* d, const T* yes, const T* no, uint32_t mask) {
#ifdef __AVX512BW__
  const auto load = [](const T* p) { return _mm512_loadu_si512(p); };
  if constexpr (sizeof(T) == 2) {
    _mm512_storeu_si512(d, _mm512_mask_blend_epi16(mask, load(no), load(yes)));
  } else if constexpr (sizeof(T) == 4) {
    for (uint32_t k = 0; k < 32; k += 16) {
      const auto m = static_cast<__mmask16>(mask >> k);
      _mm512_storeu_si512(d + k, _mm512_mask_blend_epi32(m, load(no + k), load(yes + k)));
    }
  } else {
    for (uint32_t k = 0; k < 32; k += 8) {
      const auto m = static_cast<__mmask8>(mask >> k);
      _mm512_storeu_si512(d + k, _mm512_mask_blend_epi64(m, load(no + k), load(yes + k)));
    }
  }
#else
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) d[l] = (mask >> l & 1) ? yes[l] : no[l];
#endif
}

// 32 truth values (0 or all ones; 2, 4 or 8 bytes each) to a lane mask.
template <class T>
inline uint32_t to_mask(const T* truth) {
#ifdef __AVX512BW__
  const auto load = [&](uint32_t k) { return _mm512_load_si512(truth + k); };
  if constexpr (sizeof(T) == 2) {
    return _mm512_movepi16_mask(load(0));
  } else if constexpr (sizeof(T) == 4) {
    return _mm512_test_epi32_mask(load(0), load(0)) | uint32_t{_mm512_test_epi32_mask(load(16), load(16))}
                                                          << 16;
  } else {
    uint32_t mask = 0;
    for (uint32_t k = 0; k < 32; k += 8) mask |= uint32_t{_mm512_test_epi64_mask(load(k), load(k))} << k;
    return mask;
  }
#elif defined __AVX2__
  const auto load = [&](uint32_t k) {
    return _mm256_load_si256(reinterpret_cast<const __m256i*>(truth + k));
  };
  uint32_t mask = 0;
  if constexpr (sizeof(T) == 2) {
    for (uint32_t k = 0; k < 32; k += 16) {
      const __m128i low = _mm256_castsi256_si128(load(k)), high = _mm256_extracti128_si256(load(k), 1);
      mask |= static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(low, high))) << k;
    }
  } else if constexpr (sizeof(T) == 4) {
    for (uint32_t k = 0; k < 32; k += 8) {
      mask |= static_cast<uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(load(k)))) << k;
    }
  } else {
    for (uint32_t k = 0; k < 32; k += 4) {
      mask |= static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(load(k)))) << k;
    }
  }
  return mask;
#else
  uint32_t mask = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l) mask |= uint32_t{truth[l] != 0} << l;
  return mask;
#endif
}

// An unsigned integer as wide as T.
template <size_t Bytes>
struct UnsignedOf;
template <>
struct UnsignedOf<1> {
  using type = uint8_t;
};
template <>
struct UnsignedOf<2> {
  using type = uint16_t;
};
template <>
struct UnsignedOf<4> {
  using type = uint32_t;
};
template <>
struct UnsignedOf<8> {
  using type = uint64_t;
};
template <class T>
using Unsigned = typename UnsignedOf<sizeof(T)>::type;

// ---- Poison: every helper is empty in a plain build. ----

// A value of one lane, with its undefined bits.
template <class T>
struct Bits {
  T value;
  T undefined;
};

// Sets a destination's poison for `lanes`: wholly undefined in `undefined`, defined elsewhere.
void poison_whole(Warp& warp, PlaneOffset dst, uint32_t lane_bytes, uint32_t lanes, uint32_t undefined);

template <class... Sources>
inline uint32_t poison_of(Warp& warp, Sources... sources) {
  if constexpr (kWatched) return (warp.poisoned(sources) | ... | 0u);
  return 0;
}

// Lanes that an undefined guard may have kept out or let in.
inline uint32_t guard_poison(Warp& warp, const Inst& inst) {
  if constexpr (kWatched) return warp.poisoned(inst.guard) & warp.active;
  return 0;
}

// The undefined bits of each lane of a source plane.
template <class T>
inline T undefined_bits(Warp& warp, PlaneOffset plane, uint32_t lane) {
  if ((warp.poisoned(plane) >> lane & 1) == 0) return 0;
  return reinterpret_cast<const T*>(warp.shadow + plane)[lane];
}
template <class T>
inline Bits<T> bits_at(Warp& warp, PlaneOffset plane, uint32_t lane) {
  return {warp.plane<T>(plane)[lane], undefined_bits<T>(warp, plane, lane)};
}

// Sets a destination's undefined bits, one T a lane.
template <class T>
inline void set_undefined(Warp& warp, PlaneOffset dst, uint32_t lanes, const T* undefined) {
  T* shadow = reinterpret_cast<T*>(warp.shadow + dst);
  uint32_t poisoned = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    if ((lanes >> l & 1) == 0 || undefined[l] == 0) continue;
    shadow[l] = undefined[l];
    poisoned |= 1u << l;
  }
  uint32_t& p = warp.poisoned(dst);
  p = (p & ~lanes) | poisoned;
}

// The common rule: any undefined bit of a source makes the whole result undefined.
template <class D, class... Sources>
inline void spread_poison(Warp& warp, PlaneOffset dst, uint32_t lanes, Sources... sources) {
  if constexpr (kWatched) {
    const uint32_t undefined = poison_of(warp, sources...) & lanes;
    if (undefined == 0) [[likely]] {
      warp.poisoned(dst) &= ~lanes;
      return;
    }
    poison_whole(warp, dst, sizeof(D), lanes, undefined);
  } else {
    (void)warp, (void)dst, (void)lanes, ((void)sources, ...);
  }
}

// The same with the guard's.
template <class D, class... Sources>
inline void spread_poison(Warp& warp, const Inst& inst, uint32_t lanes, Sources... sources) {
  if constexpr (kWatched) {
    const uint32_t guard = guard_poison(warp, inst);
    const uint32_t undefined = (poison_of(warp, sources...) & lanes) | guard;
    if (undefined == 0) [[likely]] {
      warp.poisoned(inst.dst) &= ~lanes;
      return;
    }
    poison_whole(warp, inst.dst, sizeof(D), lanes | guard, undefined);
  } else {
    (void)warp, (void)inst, (void)lanes, ((void)sources, ...);
  }
}

// Of predicates, whose poison is a mask.
inline void set_predicate(Warp& warp, PlaneOffset dst, uint32_t lanes, uint32_t truth) {
  uint32_t& d = warp.mask(dst);
  d = (d & ~lanes) | (truth & lanes);
}
inline void set_predicate_poison(Warp& warp, const Inst& inst, PlaneOffset dst, uint32_t lanes,
                                 uint32_t undefined) {
  if constexpr (kWatched) {
    uint32_t& p = warp.poisoned(dst);
    p = (p & ~lanes) | (undefined & lanes) | guard_poison(warp, inst);
  } else {
    (void)warp, (void)inst, (void)dst, (void)lanes, (void)undefined;
  }
}

template <class Op, class... S>
concept KnowsUndefined = requires(Bits<S>... s) {
  Op::undefined(s...);
};

// Some lane has undefined bits in a source, in the guard, or in the destination, where they end.
template <class... Sources>
inline bool any_poison(Warp& warp, const Inst& inst, uint32_t lanes, Sources... sources) {
  return ((poison_of(warp, inst.dst, sources...) & lanes) | guard_poison(warp, inst)) != 0;
}

// What `map` does when a source of an operation that knows its undefined bits has some.
template <class Op, class D, class... S, class... Sources>
[[gnu::noinline, gnu::cold]] const Inst* map_poisoned(Warp& w, const Inst& i, Sources... sources) {
  const uint32_t lanes = w.lanes_of(i);
  alignas(64) D value[kWarpSize];
  alignas(64) D undefined[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    value[l] = Op::apply(w.plane<S>(sources)[l]...);
    undefined[l] = Op::undefined(bits_at<S>(w, sources, l)...);
  }
  blend(w.plane<D>(i.dst), value, lanes);
  set_undefined(w, i.dst, lanes, undefined);
  if (const uint32_t guard = guard_poison(w, i)) poison_whole(w, i.dst, sizeof(D), guard, guard);
  return &i + 1;
}

// ---- Handlers by number of sources ----

template <class Op, class D, class... S, class... Sources>
inline const Inst* map(Warp& w, const Inst& i, Sources... sources) {
  const uint32_t lanes = w.lanes_of(i);
  if constexpr (kWatched && KnowsUndefined<Op, S...>) {
    if (((poison_of(w, sources...) & lanes) | guard_poison(w, i)) != 0) [[unlikely]]
      return map_poisoned<Op, D, S...>(w, i, sources...);
    w.poisoned(i.dst) &= ~lanes;
  }
  alignas(64) D partial[kWarpSize];
  D* d = lanes == kAllLanes ? w.plane<D>(i.dst) : partial;
  [](D* out, const S*... in) {
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) out[l] = Op::apply(in[l]...);
  }(d, w.plane<S>(sources)...);
  if (lanes != kAllLanes) [[unlikely]]
    blend(w.plane<D>(i.dst), partial, lanes);
  if constexpr (!KnowsUndefined<Op, S...>) spread_poison<D>(w, i, lanes, sources...);
  return &i + 1;
}

template <class Op, class D, class A>
[[gnu::flatten]] const Inst* map1(Warp& w, const Inst& i) {
  return map<Op, D, A>(w, i, i.a);
}
template <class Op, class D, class A, class B>
[[gnu::flatten]] const Inst* map2(Warp& w, const Inst& i) {
  return map<Op, D, A, B>(w, i, i.a, i.b);
}
template <class Op, class D, class A, class B, class C>
[[gnu::flatten]] const Inst* map3(Warp& w, const Inst& i) {
  return map<Op, D, A, B, C>(w, i, i.a, i.b, i.c);
}
// The fourth source's plane is in `imm`.
template <class Op, class D, class A, class B, class C, class E>
[[gnu::flatten]] const Inst* map4(Warp& w, const Inst& i) {
  return map<Op, D, A, B, C, E>(w, i, i.a, i.b, i.c, static_cast<PlaneOffset>(i.imm));
}

// Comparison into a predicate plane. Op::apply gives a bool.
template <class Op, class A, class B>
[[gnu::flatten]] const Inst* compare(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const A* a = w.plane<A>(i.a);
  const B* b = w.plane<B>(i.b);
  using Truth = Unsigned<A>;
  alignas(64) Truth truth[kWarpSize];
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    truth[l] = Op::apply(a[l], b[l]) ? static_cast<Truth>(~Truth{0}) : Truth{0};
  }
  set_predicate(w, i.dst, lanes, to_mask(truth));
  set_predicate_poison(w, i, i.dst, lanes, poison_of(w, i.a, i.b));
  return &i + 1;
}

}  // namespace assay::vgpu::ASSAY_BUILD
