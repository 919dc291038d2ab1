// What ld and st share: how a warp's values pass between memory and planes, how an access is reported, and which
// handler fits an instruction.
#pragma once

#include "vgpu/handlers/access.h"

namespace assay::vgpu::ASSAY_BUILD {

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
[[gnu::noinline]] inline void report_access(Warp& w, const Inst& i, Space space, Shape shape,
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

// ---- Which handler: by memory type, register width, vector length, space ----

struct Choice {
  Space space;
  uint32_t memory_bytes;  // of an element
  uint32_t register_bytes;
  uint32_t count;  // of elements
  bool sign_extend;
  bool wide_base;    // 64-bit addresses
  bool known_place;  // parameters without a base register
  bool kernel_parameter;
};

// Null: no fast path for it.
Handler load_handler(const Choice& c);          // load.cpp
Handler store_handler(const Choice& c);         // store.cpp
Handler private_load_handler(const Choice& c);  // private_memory.cpp
Handler private_store_handler(const Choice& c);

// Handlers::of<M, R, N>(choice) for the types that the choice names: M in memory, R in a register, N of them.
template <class Handlers, class M, class R>
Handler choose_length(const Choice& c) {
  // Parameters loop over the elements themselves.
  if (c.count == 1 || c.space == Space::Param) return Handlers::template of<M, R, 1>(c);
  if constexpr (sizeof(M) == sizeof(R) && sizeof(M) >= 2) {
    if (c.count == 2) return Handlers::template of<M, R, 2>(c);
    if constexpr (sizeof(M) <= 4)
      if (c.count == 4) return Handlers::template of<M, R, 4>(c);
  }
  return nullptr;
}

template <class Handlers, class Signed, class Unsigned, class R>
Handler choose_sign(const Choice& c) {
  if constexpr (Handlers::kExtends)
    if (c.sign_extend) return choose_length<Handlers, Signed, R>(c);
  return choose_length<Handlers, Unsigned, R>(c);
}

template <class Handlers>
Handler choose(const Choice& c) {
  switch (c.memory_bytes * 100 + c.register_bytes) {
    case 102:
      return choose_sign<Handlers, int8_t, uint8_t, uint16_t>(c);
    case 104:
      return choose_sign<Handlers, int8_t, uint8_t, uint32_t>(c);
    case 108:
      return choose_sign<Handlers, int8_t, uint8_t, uint64_t>(c);
    case 202:
      return choose_length<Handlers, uint16_t, uint16_t>(c);
    case 204:
      return choose_sign<Handlers, int16_t, uint16_t, uint32_t>(c);
    case 208:
      return choose_sign<Handlers, int16_t, uint16_t, uint64_t>(c);
    case 404:
      return choose_length<Handlers, uint32_t, uint32_t>(c);
    case 408:
      return choose_sign<Handlers, int32_t, uint32_t, uint64_t>(c);
    case 808:
      return choose_length<Handlers, uint64_t, uint64_t>(c);
    case 1616:
      return choose_length<Handlers, Quad, Quad>(c);
    default:
      return nullptr;
  }
}

}  // namespace assay::vgpu::ASSAY_BUILD
