// ld from global, constant, generic and shared memory.
#include "vgpu/handlers/memory.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

// Half of a warp: a run, or one value.
template <class M, class R, uint32_t N>
inline void load_half(R* const* to, uint32_t lane, const std::byte* at, Shape shape) {
  const M* from = reinterpret_cast<const M*>(at);
  for (uint32_t e = 0; e < N; ++e) {
    R* d = to[e] + lane;
    if (shape == Shape::HalfUnit || shape == Shape::Unit) {
#pragma GCC ivdep
      for (uint32_t l = 0; l < kHalf; ++l) d[l] = static_cast<R>(from[l * N + e]);
    } else {
      const R value = static_cast<R>(from[e]);
      for (uint32_t l = 0; l < kHalf; ++l) d[l] = value;
    }
  }
}

template <class Base, class M, class R, uint32_t N>
[[gnu::noinline]] const Inst* load_scattered(Warp& w, const Inst& i, uint32_t lanes) {
  constexpr uint32_t kBytes = sizeof(M) * N;
  const MemoryForm& form = form_of(i);
  alignas(64) Address addresses[kWarpSize];
  Reach r;
  if (!clean(w, i) || !reach_lanes<Base>(w, i, form, lanes, addresses, r)) return load_by_lane(w, i, lanes);
  const Shape shape = lanes == kAllLanes ? shape_of<kBytes>(addresses) : Shape::Other;
  if constexpr (kWatched) {
    const bool runs = shape == Shape::Unit || shape == Shape::HalfUnit;
    const bool defined = runs ? initialised<kBytes * kHalf>(r, addresses[0]) &&
                                    initialised<kBytes * kHalf>(r, addresses[kHalf])
                              : lanes_initialised<kBytes>(r, addresses, lanes);
    if (!defined) return load_by_lane(w, i, lanes);
    announce_reached(w, i, form, r, shape, lanes, addresses, nullptr);
    loaded_clean<N>(w, form, lanes);
  }
  R* to[N];
  for (uint32_t e = 0; e < N; ++e) to[e] = w.plane<R>(form.planes[e]);
  if (shape != Shape::Other) {
    load_half<M, R, N>(to, 0, r.start + addresses[0], shape);
    load_half<M, R, N>(to, kHalf, r.start + addresses[kHalf], shape);
    return &i + 1;
  }
#ifdef __AVX512F__
  if constexpr (kHasGather<M, R, N>) {
    gather(to[0], r.start, addresses, lanes);
    return &i + 1;
  }
#endif
  const auto copy = [&](uint32_t l) {
    const M* from = reinterpret_cast<const M*>(r.start + addresses[l]);
#pragma GCC unroll 4
    for (uint32_t e = 0; e < N; ++e) to[e][l] = static_cast<R>(from[e]);
  };
  if (lanes == kAllLanes) {
#pragma GCC unroll 8
    for (uint32_t l = 0; l < kWarpSize; ++l) copy(l);
  } else {
    each_lane(lanes, copy);
  }
  return &i + 1;
}

template <Space S, class Base, class M, class R, uint32_t N>
const Inst* load(Warp& w, const Inst& i) {
  constexpr uint32_t kBytes = sizeof(M) * N;
  const uint32_t lanes = w.lanes_of(i);
  if (lanes != kAllLanes) [[unlikely]]
    return lanes != 0 || kWatched ? load_scattered<Base, M, R, N>(w, i, lanes) : &i + 1;
  const MemoryForm& form = form_of(i);
  const Base* a = w.plane<Base>(i.a);
  const Shape shape = shape_of<kBytes>(a);
  const Address first = static_cast<Base>(a[0] + static_cast<Base>(i.imm));
  const uint32_t bytes = shape == Shape::Unit ? kBytes * kWarpSize : kBytes;
  Reach r;
  if (is_half(shape)) {
    const Address second = static_cast<Base>(a[kHalf] + static_cast<Base>(i.imm));
    const uint32_t half_bytes = shape == Shape::HalfUnit ? kBytes * kHalf : kBytes;
    Reach other;
    if ((first | second) % kBytes == 0 && clean(w, i) && reach_run<S>(w, i, first, half_bytes, r) &&
        reach_run<S>(w, i, second, half_bytes, other)) {
      if constexpr (kWatched) {
        const bool defined =
            shape == Shape::HalfUnit
                ? initialised<kBytes * kHalf>(r, first) && initialised<kBytes * kHalf>(r, second)
                : initialised<kBytes>(r, first) && initialised<kBytes>(r, second);
        if (!defined) [[unlikely]]
          return load_by_lane(w, i, lanes);
        if (is_watched(w, r)) report_load<S, Base>(w, i, r.space, shape, kBytes, first, second);
        loaded_clean<N>(w, form, lanes);
      }
      R* to[N];
      for (uint32_t e = 0; e < N; ++e) to[e] = w.plane<R>(N == 1 ? i.dst : form.planes[e]);
      load_half<M, R, N>(to, 0, r.start + first, shape);
      load_half<M, R, N>(to, kHalf, other.start + second, shape);
      return &i + 1;
    }
  }
#ifdef __AVX512F__
  if constexpr (kHasSharedWords<S, Base, M, R, N>) {
    __m512i offsets[2];
    if (shape == Shape::Other && shared_words(w, i, offsets)) {
      for (uint32_t k = 0; k < 2; ++k)
        _mm512_store_si512(
            w.plane<R>(i.dst) + 16 * k,
            _mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xffff, offsets[k], w.block->shared, 1));
      return &i + 1;
    }
  }
#endif
  if (shape > Shape::Uniform || first % kBytes != 0 || !clean(w, i) || !reach_run<S>(w, i, first, bytes, r))
      [[unlikely]]
    return load_scattered<Base, M, R, N>(w, i, lanes);
  if constexpr (kWatched) {
    const bool defined =
        shape == Shape::Unit ? initialised<kBytes * kWarpSize>(r, first) : initialised<kBytes>(r, first);
    if (!defined) [[unlikely]]
      return load_by_lane(w, i, lanes);
    if (is_watched(w, r))
      report_load<S, Base>(w, i, r.space, shape, kBytes, first,
                           shape == Shape::Unit ? first + kBytes * kHalf : first);
    loaded_clean<N>(w, form, lanes);
  }
  const M* from = reinterpret_cast<const M*>(r.start + first);
  if (shape == Shape::Unit)
    load_run<M, R, N>(w, i, from);
  else
    load_one<M, R, N>(w, i, from);
  return &i + 1;
}

struct Loads {
  static constexpr bool kExtends = true;
  template <class M, class R, uint32_t N>
  static Handler of(const Choice& c) {
    if (c.space == Space::Shared)
      return c.wide_base ? load<Space::Shared, uint64_t, M, R, N> : load<Space::Shared, uint32_t, M, R, N>;
    return c.wide_base ? load<Space::Global, uint64_t, M, R, N> : nullptr;
  }
};

}  // namespace

Handler load_handler(const Choice& c) {
  return choose<Loads>(c);
}

}  // namespace assay::vgpu::ASSAY_BUILD
