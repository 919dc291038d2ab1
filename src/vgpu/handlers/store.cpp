// st to global, generic and shared memory.
#include "vgpu/handlers/memory.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

// The values of a store for listeners, lane by lane.
template <class M, class R, uint32_t N>
inline const std::byte* lane_values(Warp& w, const Inst& i, M* buffer) {
  if constexpr (N == 1 && sizeof(M) == sizeof(R)) {
    (void)buffer;
    return reinterpret_cast<const std::byte*>(w.plane<R>(i.b));
  } else {
    store_run<M, R, N>(w, i, buffer);
    return reinterpret_cast<const std::byte*>(buffer);
  }
}

template <class Base, class M, class R, uint32_t N>
[[gnu::noinline]] const Inst* store_scattered(Warp& w, const Inst& i, uint32_t lanes) {
  const MemoryForm& form = form_of(i);
  alignas(64) Address addresses[kWarpSize];
  Reach r;
  if (!clean(w, i) || !values_clean<N>(w, form, lanes) || !reach_lanes<Base>(w, i, form, lanes, addresses, r))
    return store_by_lane(w, i, lanes);
  if constexpr (kWatched) {
    alignas(64) M values[kWarpSize * N];
    if (is_watched(w, r)) {
      const Shape shape = lanes == kAllLanes ? shape_of<sizeof(M) * N>(addresses) : Shape::Other;
      announce_reached(w, i, form, r, shape, lanes, addresses, lane_values<M, R, N>(w, i, values));
    }
    mark_lanes<sizeof(M) * N>(r, addresses, lanes);
  }
  const R* from[N];
  for (uint32_t e = 0; e < N; ++e) from[e] = w.plane<R>(form.planes[e]);
#ifdef __AVX512F__
  if constexpr (kHasGather<M, R, N>) {
    scatter(from[0], r.start, addresses, lanes);
    return &i + 1;
  }
#endif
  const auto copy = [&](uint32_t l) {
    M* to = reinterpret_cast<M*>(r.start + addresses[l]);
#pragma GCC unroll 4
    for (uint32_t e = 0; e < N; ++e) to[e] = static_cast<M>(from[e][l]);
  };
  if (lanes == kAllLanes)
    for (uint32_t l = 0; l < kWarpSize; ++l) copy(l);
  else
    each_lane(lanes, copy);
  return &i + 1;
}

template <class M, class R>
inline void store_half(Warp& w, const Inst& i, uint32_t lane, std::byte* at) {
  const R* from = w.plane<R>(i.b) + lane;
  M* to = reinterpret_cast<M*>(at);
#pragma GCC ivdep
  for (uint32_t l = 0; l < kHalf; ++l) to[l] = static_cast<M>(from[l]);
}

template <Space S, class Base, class M, class R, uint32_t N>
const Inst* store(Warp& w, const Inst& i) {
  constexpr uint32_t kBytes = sizeof(M) * N;
  const uint32_t lanes = w.lanes_of(i);
  if (lanes != kAllLanes) [[unlikely]]
    return lanes != 0 || kWatched ? store_scattered<Base, M, R, N>(w, i, lanes) : &i + 1;
  const MemoryForm& form = form_of(i);
  const Base* a = w.plane<Base>(i.a);
  const Address first = static_cast<Base>(a[0] + static_cast<Base>(i.imm));
  Reach r;
  const Shape shape = shape_of<kBytes>(a);
  if constexpr (N == 1) {
    if (shape == Shape::HalfUnit) {
      const Address second = static_cast<Base>(a[kHalf] + static_cast<Base>(i.imm));
      Reach other;
      if ((first | second) % kBytes == 0 && clean(w, i) && values_clean<N>(w, form, lanes) &&
          reach_run<S>(w, i, first, kBytes * kHalf, r) && reach_run<S>(w, i, second, kBytes * kHalf, other)) {
        if constexpr (kWatched) {
          alignas(64) M values[kWarpSize];
          if (is_watched(w, r)) report_access<Base>(w, i, r.space, shape, lane_values<M, R, N>(w, i, values));
          mark<kBytes * kHalf>(r, first);
          mark<kBytes * kHalf>(r, second);
        }
        store_half<M, R>(w, i, 0, r.start + first);
        store_half<M, R>(w, i, kHalf, other.start + second);
        return &i + 1;
      }
    }
  }
#ifdef __AVX512F__
  if constexpr (kHasSharedWords<S, Base, M, R, N>) {
    __m512i offsets[2];
    if (shape != Shape::Unit && shared_words(w, i, offsets)) {
      for (uint32_t k = 0; k < 2; ++k)
        _mm512_i32scatter_epi32(w.block->shared, offsets[k], _mm512_load_si512(w.plane<R>(i.b) + 16 * k), 1);
      return &i + 1;
    }
  }
#endif
  if (shape != Shape::Unit || first % kBytes != 0 || !clean(w, i) || !values_clean<N>(w, form, lanes) ||
      !reach_run<S>(w, i, first, kBytes * kWarpSize, r)) [[unlikely]]
    return store_scattered<Base, M, R, N>(w, i, lanes);
  if constexpr (kWatched) {
    alignas(64) M values[kWarpSize * N];
    if (is_watched(w, r)) report_access<Base>(w, i, r.space, shape, lane_values<M, R, N>(w, i, values));
    mark<kBytes * kWarpSize>(r, first);
  }
  store_run<M, R, N>(w, i, reinterpret_cast<M*>(r.start + first));
  return &i + 1;
}

struct Stores {
  static constexpr bool kExtends = false;
  template <class M, class R, uint32_t N>
  static Handler of(const Choice& c) {
    if (c.space == Space::Shared)
      return c.wide_base ? store<Space::Shared, uint64_t, M, R, N> : store<Space::Shared, uint32_t, M, R, N>;
    return c.wide_base ? store<Space::Global, uint64_t, M, R, N> : nullptr;
  }
};

}  // namespace

Handler store_handler(const Choice& c) {
  return choose<Stores>(c);
}

}  // namespace assay::vgpu::ASSAY_BUILD
