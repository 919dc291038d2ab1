// Handlers made from scalar functions: a 32-lane loop under a mask, and what happens to poison.
//
// An operation is a struct with a static `apply`. `map` turns it into a Handler:
//     struct Add { template <class T> static T apply(T a, T b) { return a + b; } };
//     l.emit(map<Add, uint32_t, uint32_t, uint32_t>)
// The loops have a fixed length and no dependencies between lanes, so the compiler makes them SIMD.
// Planes of different lane widths never overlap, and equal planes are read and written lane by lane.
#pragma once

#include "vgpu/handlers/build.h"

namespace assay::vgpu::ASSAY_BUILD {

template <class T>
inline void blend(T* dst, const T* src, uint32_t lanes) {
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) dst[l] = (lanes >> l & 1) ? src[l] : dst[l];
}

// 32 truth values (0 or nonzero) to a lane mask.
inline uint32_t to_mask(const uint32_t* truth) {
  uint32_t mask = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l) mask |= uint32_t{truth[l] != 0} << l;
  return mask;
}

// ---- Poison: lanes that hold undefined bits. Every helper is empty in a plain build. ----

// Sets a destination's poison for `lanes`: wholly undefined in `undefined`, defined elsewhere.
void poison_whole(Warp& warp, PlaneOffset dst, uint32_t lane_bytes, uint32_t lanes, uint32_t undefined);

template <class... Sources>
inline uint32_t poison_of(Warp& warp, Sources... sources) {
  if constexpr (kWatched) return (warp.poisoned(sources) | ... | 0u);
  return 0;
}

// The common rule: any undefined bit of a source makes the whole result undefined.
template <class D, class... Sources>
inline void spread_poison(Warp& warp, PlaneOffset dst, uint32_t lanes, Sources... sources) {
  if constexpr (kWatched) {
    const uint32_t undefined = poison_of(warp, sources...) & lanes;
    if ((undefined | (warp.poisoned(dst) & lanes)) == 0) [[likely]] return;
    poison_whole(warp, dst, sizeof(D), lanes, undefined);
  } else {
    (void)warp, (void)dst, (void)lanes, ((void)sources, ...);
  }
}

// ---- Handlers by number of sources ----

template <class Op, class D, class A>
const Inst* map1(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  D* d = w.plane<D>(i.dst);
  const A* a = w.plane<A>(i.a);
  if (lanes == kAllLanes) [[likely]] {
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) d[l] = Op::apply(a[l]);
  } else {
    alignas(64) D t[kWarpSize];
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) t[l] = Op::apply(a[l]);
    blend(d, t, lanes);
  }
  spread_poison<D>(w, i.dst, lanes, i.a);
  return &i + 1;
}

template <class Op, class D, class A, class B>
const Inst* map2(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  D* d = w.plane<D>(i.dst);
  const A* a = w.plane<A>(i.a);
  const B* b = w.plane<B>(i.b);
  if (lanes == kAllLanes) [[likely]] {
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) d[l] = Op::apply(a[l], b[l]);
  } else {
    alignas(64) D t[kWarpSize];
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) t[l] = Op::apply(a[l], b[l]);
    blend(d, t, lanes);
  }
  spread_poison<D>(w, i.dst, lanes, i.a, i.b);
  return &i + 1;
}

template <class Op, class D, class A, class B, class C>
const Inst* map3(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  D* d = w.plane<D>(i.dst);
  const A* a = w.plane<A>(i.a);
  const B* b = w.plane<B>(i.b);
  const C* c = w.plane<C>(i.c);
  if (lanes == kAllLanes) [[likely]] {
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) d[l] = Op::apply(a[l], b[l], c[l]);
  } else {
    alignas(64) D t[kWarpSize];
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l) t[l] = Op::apply(a[l], b[l], c[l]);
    blend(d, t, lanes);
  }
  spread_poison<D>(w, i.dst, lanes, i.a, i.b, i.c);
  return &i + 1;
}

// Comparison into a predicate plane. Op::apply gives a bool.
template <class Op, class A, class B>
const Inst* compare(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const A* a = w.plane<A>(i.a);
  const B* b = w.plane<B>(i.b);
  alignas(64) uint32_t truth[kWarpSize];
#pragma GCC ivdep
  for (uint32_t l = 0; l < kWarpSize; ++l) truth[l] = Op::apply(a[l], b[l]) ? ~0u : 0u;
  uint32_t& d = w.mask(i.dst);
  d = (d & ~lanes) | (to_mask(truth) & lanes);
  if constexpr (kWatched) {
    uint32_t& p = w.poisoned(i.dst);
    p = (p & ~lanes) | (poison_of(w, i.a, i.b) & lanes);
  }
  return &i + 1;
}

}  // namespace assay::vgpu::ASSAY_BUILD
