// ld and st. The pattern of the 32 addresses decides the common cases: one run of bytes is one copy, one
// address for all lanes is one value; addresses scattered over one allocation go lane by lane, checked once
// by the lowest and the highest. Everything else is in access.cpp.
#include "vgpu/handlers/access.h"

namespace assay::vgpu::ASSAY_BUILD {

namespace {

// ---- Between memory and planes ----

template <class M, class R, uint32_t N>
[[gnu::always_inline]] inline void load_run(Warp& w, const Inst& i, const M* from) {
  if constexpr (N == 1) {
    R* to = w.plane<R>(i.dst);
    if constexpr (sizeof(M) == sizeof(R)) {
      __builtin_memcpy(to, from, sizeof(R) * kWarpSize);
    } else {
#pragma GCC ivdep
      for (uint32_t l = 0; l < kWarpSize; ++l) to[l] = static_cast<R>(from[l]);
    }
  } else {
    R* to[N];
    for (uint32_t e = 0; e < N; ++e) to[e] = w.plane<R>(form_of(i).planes[e]);
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l)
#pragma GCC unroll 4
      for (uint32_t e = 0; e < N; ++e) to[e][l] = static_cast<R>(from[l * N + e]);
  }
}

template <class M, class R, uint32_t N>
[[gnu::always_inline]] inline void load_one(Warp& w, const Inst& i, const M* from) {
  for (uint32_t e = 0; e < N; ++e) {
    R* to = w.plane<R>(N == 1 ? i.dst : form_of(i).planes[e]);
    const R value = static_cast<R>(from[e]);
    for (uint32_t l = 0; l < kWarpSize; ++l) to[l] = value;
  }
}

template <class M, class R, uint32_t N>
[[gnu::always_inline]] inline void store_run(Warp& w, const Inst& i, M* to) {
  if constexpr (N == 1) {
    const R* from = w.plane<R>(i.b);
    if constexpr (sizeof(M) == sizeof(R)) {
      __builtin_memcpy(to, from, sizeof(R) * kWarpSize);
    } else {
#pragma GCC ivdep
      for (uint32_t l = 0; l < kWarpSize; ++l) to[l] = static_cast<M>(from[l]);
    }
  } else {
    const R* from[N];
    for (uint32_t e = 0; e < N; ++e) from[e] = w.plane<R>(form_of(i).planes[e]);
#pragma GCC ivdep
    for (uint32_t l = 0; l < kWarpSize; ++l)
#pragma GCC unroll 4
      for (uint32_t e = 0; e < N; ++e) to[l * N + e] = static_cast<M>(from[e][l]);
  }
}

// ---- Watching (empty in a plain build) ----

// Nothing about the address or the guard is undefined.
inline bool clean(Warp& w, const Inst& i) {
  if constexpr (kWatched) return ((w.poisoned(i.a) | w.poisoned(i.guard)) & w.active) == 0;
  return true;
}

template <uint32_t N>
inline bool values_clean(Warp& w, const MemoryForm& form, uint32_t lanes) {
  if constexpr (kWatched) {
    uint32_t poison = 0;
    for (uint32_t e = 0; e < N; ++e) poison |= w.poisoned(form.planes[e]);
    return (poison & lanes) == 0;
  }
  return true;
}

template <uint32_t N>
inline void loaded_clean(Warp& w, const MemoryForm& form, uint32_t lanes) {
  if constexpr (kWatched)
    for (uint32_t e = 0; e < N; ++e) w.poisoned(form.planes[e]) &= ~lanes;
}

// Of all lanes, to whoever listens.
template <class Base>
[[gnu::noinline]] void report_access(Warp& w, const Inst& i, Space space, Shape shape,
                                     const std::byte* values) {
  alignas(64) Address addresses[kWarpSize];
  widen_addresses<Base>(w, i, addresses);
  announce(w, i, form_of(i), space, shape, kAllLanes, addresses, values);
}

// Reports a load of all lanes with a regular shape, later if it may wait.
template <Space S, class Base>
inline void report_load(Warp& w, const Inst& i, Space space, Shape shape, uint32_t bytes, Address first,
                        Address second) {
  if (!form_of(i).may_wait) [[unlikely]]
    return report_access<Base>(w, i, space, shape, nullptr);
  PendingLoads& pending = S == Space::Shared ? w.worker->pending_shared : w.worker->pending_global;
  pending.loads[pending.count] = {&i, first, second, bytes, shape};
  if (++pending.count == PendingLoads::kMost) [[unlikely]]
    deliver_pending_loads(w);
}

inline bool is_watched(const Warp& w, const Reach& r) {
  return !w.grid->listeners_of(r.space).empty();
}

// ---- Scattered words: gathers and scatters, where the host has them ----

#ifdef __AVX512F__
template <class M, class R, uint32_t N>
inline constexpr bool kHasGather = N == 1 && sizeof(M) == sizeof(R) && (sizeof(M) == 4 || sizeof(M) == 8);

// plane[l] = *(start + addresses[l]) for `lanes`.
template <class M>
inline void gather(M* plane, const std::byte* start, const Address* addresses, uint32_t lanes) {
#pragma GCC unroll 4
  for (uint32_t k = 0; k < kWarpSize; k += 8) {
    const __m512i at = _mm512_load_si512(addresses + k);
    const auto some = static_cast<__mmask8>(lanes >> k);
    if constexpr (sizeof(M) == 4) {
      auto* to = reinterpret_cast<__m256i*>(plane + k);
      _mm256_store_si256(to, _mm512_mask_i64gather_epi32(_mm256_load_si256(to), some, at, start, 1));
    } else {
      _mm512_store_si512(plane + k,
                         _mm512_mask_i64gather_epi64(_mm512_load_si512(plane + k), some, at, start, 1));
    }
  }
}
template <class M>
inline void scatter(const M* plane, std::byte* start, const Address* addresses, uint32_t lanes) {
#pragma GCC unroll 4
  for (uint32_t k = 0; k < kWarpSize; k += 8) {
    const __m512i at = _mm512_load_si512(addresses + k);
    const auto some = static_cast<__mmask8>(lanes >> k);
    if constexpr (sizeof(M) == 4)
      _mm512_mask_i64scatter_epi32(start, some, at,
                                   _mm256_load_si256(reinterpret_cast<const __m256i*>(plane + k)), 1);
    else
      _mm512_mask_i64scatter_epi64(start, some, at, _mm512_load_si512(plane + k), 1);
  }
}

// Words of shared memory by 32-bit offsets; false where any is outside or crooked.
[[gnu::always_inline]] inline bool shared_words(Warp& w, const Inst& i, __m512i* offsets) {
  const Block& block = *w.block;
  if (block.shared_bytes < 4) return false;
  const __m512i last = _mm512_set1_epi32(static_cast<int32_t>(block.shared_bytes - 4)),
                three = _mm512_set1_epi32(3), offset = _mm512_set1_epi32(static_cast<int32_t>(i.imm));
  uint32_t bad = 0;
  for (uint32_t k = 0; k < 2; ++k) {
    offsets[k] = _mm512_add_epi32(_mm512_load_si512(w.plane<uint32_t>(i.a) + 16 * k), offset);
    bad |= uint32_t{_mm512_cmpgt_epu32_mask(offsets[k], last)} | _mm512_test_epi32_mask(offsets[k], three);
  }
  return bad == 0;
}
#else
template <class M, class R, uint32_t N>
inline constexpr bool kHasGather = false;
#endif
template <Space S, class Base, class M, class R, uint32_t N>
inline constexpr bool kHasSharedWords =
    !kWatched && S == Space::Shared && sizeof(Base) == 4 && sizeof(M) == 4 && kHasGather<M, R, N>;

// ---- ld ----

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

// The hot check: is [first, first + bytes) what the site saw last, or in the block's shared memory?
template <Space S>
[[gnu::always_inline]] inline bool reach_run(Warp& w, const Inst& i, Address first, uint32_t bytes,
                                             Reach& r) {
  if constexpr (S == Space::Shared) {
    const Block& block = *w.block;
    if (first > block.shared_bytes || block.shared_bytes - first < bytes) [[unlikely]]
      return false;
    r = {block.shared, 0, 0, block.shared_initialised, Space::Shared};
    return true;
  } else {
    const SiteRange& range = w.sites[i.c];
    if (first < range.low || first >= range.high || range.high - first < bytes) [[unlikely]]
      return false;
    r = {reinterpret_cast<std::byte*>(range.delta), 0, range.low, range.initialised,
         kWatched && form_of(i).space == Space::Const ? Space::Const : Space::Global};
    return true;
  }
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

// Follows a load that may be part of a wait.
const Inst* poll(Warp& w, const Inst& i) {
  if (w.lanes_of(i) != 0 && ++w.polls > kPollsBeforeYield) return yield(w, &i + 1);
  return &i + 1;
}

// Any load, lane by lane.
const Inst* load_any(Warp& w, const Inst& i) {
  return load_by_lane(w, i, w.lanes_of(i));
}

// ---- st ----

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

const Inst* store_any(Warp& w, const Inst& i) {
  return store_by_lane(w, i, w.lanes_of(i));
}

// ---- Local memory: the same offset lies `local_stride` apart from lane to lane ----

template <class M, class R, bool Store>
const Inst* local(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const MemoryForm& form = form_of(i);
  const auto by_lane = Store ? store_by_lane : load_by_lane;
  if constexpr (kWatched)
    if (!clean(w, i) || (Store && !values_clean<1>(w, form, lanes))) return by_lane(w, i, lanes);
  const uint64_t* a = w.plane<uint64_t>(i.a);
  const uint64_t offset = static_cast<uint64_t>(i.imm) + (form.frame_relative ? w.frame->local_base : 0);
  alignas(64) Address addresses[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) addresses[l] = a[l] + offset;
  if ((lanes & ~lanes_within(addresses, 0, w.local_stride, sizeof(M))) != 0) [[unlikely]]
    return by_lane(w, i, lanes);
  R* plane = w.plane<R>(form.planes[0]);
  if constexpr (kWatched) {
    alignas(64) M values[kWarpSize];
    if constexpr (Store)
      for (uint32_t l = 0; l < kWarpSize; ++l) values[l] = static_cast<M>(plane[l]);
    uint8_t all = 1;
    each_lane(lanes, [&](uint32_t l) {
      uint8_t* p = w.local_initialised + uint64_t{l} * w.local_stride + addresses[l];
      if constexpr (Store)
        std::memset(p, 1, sizeof(M));
      else
        for (uint32_t b = 0; b < sizeof(M); ++b) all &= p[b];
    });
    if (all == 0) return by_lane(w, i, lanes);
    if constexpr (!Store) loaded_clean<1>(w, form, lanes);
    if (!w.grid->listeners_of(Space::Local).empty())
      announce(w, i, form, Space::Local, lanes, addresses,
               Store ? reinterpret_cast<const std::byte*>(values) : nullptr);
  }
  const auto copy = [&](uint32_t l) {
    M* memory = reinterpret_cast<M*>(w.local + uint64_t{l} * w.local_stride + addresses[l]);
    if constexpr (Store)
      *memory = static_cast<M>(plane[l]);
    else
      plane[l] = static_cast<R>(*memory);
  };
  if (lanes == kAllLanes) {
#pragma GCC unroll 8
    for (uint32_t l = 0; l < kWarpSize; ++l) copy(l);
  } else {
    each_lane(lanes, copy);
  }
  return &i + 1;
}

// ---- Parameters at a known place: of the kernel one value for all, of a call one a lane ----

template <class M, class R>
const Inst* load_parameter(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const MemoryForm& form = form_of(i);
  const auto offset = static_cast<uint64_t>(i.imm);
  if (!clean(w, i) || offset % form.bytes != 0 || offset > w.grid->parameter_bytes ||
      w.grid->parameter_bytes - offset < form.bytes) [[unlikely]]
    return load_by_lane(w, i, lanes);
  for (uint32_t e = 0; e < form.count; ++e) {
    M value;
    std::memcpy(&value, w.grid->parameters + offset + e * sizeof(M), sizeof(M));
    R* to = w.plane<R>(form.planes[e]);
    for (uint32_t l = 0; l < kWarpSize; ++l) to[l] = (lanes >> l & 1) != 0 ? static_cast<R>(value) : to[l];
    if constexpr (kWatched) w.poisoned(form.planes[e]) &= ~lanes;
  }
  return &i + 1;
}

template <class M, class R, bool Store>
const Inst* call_parameter(Warp& w, const Inst& i) {
  const uint32_t lanes = w.lanes_of(i);
  const MemoryForm& form = form_of(i);
  const auto offset = static_cast<uint64_t>(i.imm);
  const uint32_t stride = w.frame->function->param_bytes;
  if (kWatched || offset % form.bytes != 0 || offset > stride || stride - offset < form.bytes) [[unlikely]]
    return Store ? store_by_lane(w, i, lanes) : load_by_lane(w, i, lanes);
  for (uint32_t e = 0; e < form.count; ++e) {
    R* plane = w.plane<R>(form.planes[e]);
    each_lane(lanes, [&](uint32_t l) {
      std::byte* at = w.frame->params + uint64_t{l} * stride + offset + e * sizeof(M);
      M value;
      if constexpr (Store) {
        value = static_cast<M>(plane[l]);
        std::memcpy(at, &value, sizeof(M));
      } else {
        std::memcpy(&value, at, sizeof(M));
        plane[l] = static_cast<R>(value);
      }
    });
  }
  return &i + 1;
}

// ---- Which handler: by memory type, register width, vector length, space ----

struct Choice {
  Space space;
  bool wide_base;  // 64-bit addresses
  bool store;
  bool known_place;  // parameters without a base register
  bool kernel_parameter;
};

template <class M, class R, uint32_t N>
Handler by_space(const Choice& c) {
  switch (c.space) {
    case Space::Global:
    case Space::Const:
    case Space::Generic:
      if (!c.wide_base) return nullptr;
      return c.store ? store<Space::Global, uint64_t, M, R, N> : load<Space::Global, uint64_t, M, R, N>;
    case Space::Shared:
      if (c.wide_base)
        return c.store ? store<Space::Shared, uint64_t, M, R, N> : load<Space::Shared, uint64_t, M, R, N>;
      return c.store ? store<Space::Shared, uint32_t, M, R, N> : load<Space::Shared, uint32_t, M, R, N>;
    case Space::Local:
      if constexpr (N == 1)
        if (c.wide_base) return c.store ? local<M, R, true> : local<M, R, false>;
      return nullptr;
    case Space::Param:
      if constexpr (N == 1) {
        if (!c.known_place) return nullptr;
        if (c.kernel_parameter) return c.store ? nullptr : load_parameter<M, R>;
        return c.store ? call_parameter<M, R, true> : call_parameter<M, R, false>;
      }
      return nullptr;
    case Space::None:
      break;
  }
  return nullptr;
}

template <class M, class R>
Handler by_length(uint32_t count, const Choice& c) {
  // Parameters loop over the elements themselves.
  if (count == 1 || c.space == Space::Param) return by_space<M, R, 1>(c);
  if constexpr (sizeof(M) == sizeof(R) && sizeof(M) >= 2) {
    if (count == 2) return by_space<M, R, 2>(c);
    if constexpr (sizeof(M) <= 4)
      if (count == 4) return by_space<M, R, 4>(c);
  }
  return nullptr;
}

// Null: no fast path for it.
Handler choose(uint32_t memory_bytes, uint32_t register_bytes, bool sign, uint32_t count, const Choice& c) {
  const bool extend = sign && !c.store;
  switch (memory_bytes * 100 + register_bytes) {
    case 102:
      return extend ? by_length<int8_t, uint16_t>(count, c) : by_length<uint8_t, uint16_t>(count, c);
    case 104:
      return extend ? by_length<int8_t, uint32_t>(count, c) : by_length<uint8_t, uint32_t>(count, c);
    case 108:
      return extend ? by_length<int8_t, uint64_t>(count, c) : by_length<uint8_t, uint64_t>(count, c);
    case 202:
      return by_length<uint16_t, uint16_t>(count, c);
    case 204:
      return extend ? by_length<int16_t, uint32_t>(count, c) : by_length<uint16_t, uint32_t>(count, c);
    case 208:
      return extend ? by_length<int16_t, uint64_t>(count, c) : by_length<uint16_t, uint64_t>(count, c);
    case 404:
      return by_length<uint32_t, uint32_t>(count, c);
    case 408:
      return extend ? by_length<int32_t, uint64_t>(count, c) : by_length<uint32_t, uint64_t>(count, c);
    case 808:
      return by_length<uint64_t, uint64_t>(count, c);
    case 1616:
      return by_length<Quad, Quad>(count, c);
    default:
      return nullptr;
  }
}

// ---- Lowering ----

// Whether a selp is the first to use what the instruction loads, before anything leads elsewhere.
bool selp_comes_first(const Lowering& l) {
  const Operand& loaded = l.inst->operands.at(0);
  if (loaded.kind != Operand::Kind::Register) return false;
  const auto& body = l.function.body;
  bool redefined = false;
  for (const ptx::Instruction* next = l.inst + 1; next < body.data() + body.size(); ++next) {
    if (next->opcode == Opcode::bra || next->opcode == Opcode::brx_idx || next->opcode == Opcode::ret)
      return false;
    for (size_t o = 0; o < next->operands.size(); ++o) {
      const Operand& operand = next->operands[o];
      if (o > 0 && names(operand, loaded.index)) return next->opcode == Opcode::selp;
      if (o == 0 && operand.kind == Operand::Kind::Register && operand.index == loaded.index)
        redefined = true;
    }
    if (redefined) return false;
  }
  return false;
}

void lower_access(Lowering& l, bool is_store) {
  const ptx::Instruction& inst = *l.inst;
  const Operand& value = inst.operands.at(is_store ? 1 : 0);
  const Operand& place = inst.operands.at(is_store ? 0 : 1);
  const Type type = inst.type();
  MemoryForm& form = *l.extra<MemoryForm>();
  form.kind = is_store ? AccessKind::Store : AccessKind::Load;
  form.order = order_of(inst, Order::Weak);
  form.scope = scope_of(inst, form.order == Order::Weak ? Scope::Thread : Scope::System);
  form.element_bytes = static_cast<uint8_t>(ptx::size_of(type));
  form.sign_extend = ptx::kind_of(type) == TypeKind::Signed;
  form.poll = !is_store && form.order != Order::Weak;
  const bool vector = value.kind == Operand::Kind::Vector;
  form.count = static_cast<uint8_t>(vector ? value.elements.size() : 1);
  form.bytes = uint32_t{form.element_bytes} * form.count;
  if (form.element_bytes == 0 || form.count > kMaxVector || form.bytes > 32 ||
      (form.bytes & (form.bytes - 1)) != 0)
    return l.unsupported("this vector");
  const AddressPlane at = lower_address(l, place, space_of(inst).space, form);
  if constexpr (kWatched)
    form.may_wait =
        !is_store && form.order == Order::Weak && form.space != Space::Const && !selp_comes_first(l);
  bool same_width = true;
  for (uint32_t e = 0; e < form.count; ++e) {
    const Operand& one = vector ? value.elements[e] : value;
    form.planes[e] = is_store ? l.source(one, type) : l.dest(one, type);
    form.register_bytes[e] = static_cast<uint8_t>(l.lane_bytes(one, type));
    same_width &= form.register_bytes[e] == form.register_bytes[0];
  }
  const Choice choice{.space = form.space,
                      .wide_base = form.base_bytes == 8,
                      .store = is_store,
                      .known_place = place.base != Operand::Base::Register,
                      .kernel_parameter = form.kernel_parameter};
  Handler handler = nullptr;
  if (same_width && !(form.count > 1 && form.space == Space::Param && form.element_bytes > 8))
    handler = choose(form.element_bytes, form.register_bytes[0], form.sign_extend, form.count, choice);
  // A fast handler leaves the waiting to an instruction of its own; the slow one does both.
  const bool polls = handler != nullptr && form.poll;
  if (polls) form.poll = false;
  if (handler == nullptr) handler = is_store ? store_any : load_any;
  Inst& out = l.emit(handler);
  out.a = at.base;
  out.imm = at.offset;
  out.dst = is_store ? 0 : form.planes[0];
  out.b = is_store ? form.planes[0] : 0;
  out.c = form.site;
  out.extra = &form;
  if (polls) l.emit(poll);
}

void lower_ld(Lowering& l) {
  lower_access(l, false);
}

void lower_st(Lowering& l) {
  lower_access(l, true);
}

constexpr LowerRow kRows[] = {
    {Opcode::ld, lower_ld},
    {Opcode::ldu, lower_ld},
    {Opcode::st, lower_st},
};

}  // namespace

AddressPlane lower_address(Lowering& l, const Operand& operand, Space space, MemoryForm& form) {
  if (operand.base == Operand::Base::Symbol) {
    Space found = Space::None;
    l.symbol_value(operand.symbol, &found);
    if (space == Space::Generic && found == Space::Local) space = Space::Local;
    form.frame_relative = space == Space::Local && found == Space::Local;
  }
  // A register that holds a parameter's address can only be about the function's own parameters.
  const bool own =
      operand.base != Operand::Base::Symbol || operand.symbol.kind == ptx::SymbolRef::Kind::Parameter;
  form.kernel_parameter = space == Space::Param && l.function.is_entry && own;
  form.space = space;
  form.site = l.next_site();
  const Lowering::AddressParts parts = l.address(operand, space);
  form.base_bytes = static_cast<uint8_t>(parts.base_bytes);
  if (parts.base_bytes != 4 && parts.base_bytes != 8) l.unsupported("an address of this width");
  return {parts.base, parts.offset};
}

std::span<const LowerRow> memory_rows() {
  return kRows;
}

}  // namespace assay::vgpu::ASSAY_BUILD
