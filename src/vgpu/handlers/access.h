// What the memory families share: how 32 addresses relate to each other, and how the
// address operand, the space, the order and the scope of an instruction are lowered.
#pragma once

#include "vgpu/access.h"
#include "vgpu/handlers/lanes.h"

namespace assay::vgpu::ASSAY_BUILD {

using ptx::Mod;
using ptx::Opcode;
using ptx::Operand;
using ptx::Space;
using ptx::Type;
using ptx::TypeKind;

struct alignas(16) Quad {  // a b128 register
  uint64_t low, high;
};

// ---- How addresses lie ----

inline constexpr uint32_t kHalf = kWarpSize / 2;

inline bool is_half(Shape shape) {
  return shape == Shape::HalfUnit || shape == Shape::HalfUniform;
}

template <class Base, uint32_t Bytes>
struct alignas(64) Ramp {
  Base value[kHalf];
  constexpr Ramp() : value() {
    for (uint32_t l = 0; l < kHalf; ++l) value[l] = l * Bytes;
  }
};
template <class Base, uint32_t Bytes>
inline constexpr Ramp<Base, Bytes> kRamp{};

// The shape of all 32 addresses. One pass answers for each half; how the halves lie to each other says the rest.
template <uint32_t Bytes, class Base>
[[gnu::always_inline]] inline Shape shape_of(const Base* a) {
  const Base step = a[kHalf] - a[0];
#ifdef __AVX512F__
  constexpr uint32_t kVectors = kHalf * sizeof(Base) / 64;
  const auto broadcast = [](Base x) {
    return sizeof(Base) == 8 ? _mm512_set1_epi64(static_cast<int64_t>(x))
                             : _mm512_set1_epi32(static_cast<int32_t>(x));
  };
  const __m512i first[2] = {broadcast(a[0]), broadcast(a[kHalf])};
  const auto* p = reinterpret_cast<const __m512i*>(a);
  const auto* r = reinterpret_cast<const __m512i*>(kRamp<Base, Bytes>.value);
  __m512i other = _mm512_setzero_si512(), crooked = other;
#pragma GCC unroll 4
  for (uint32_t k = 0; k < 2 * kVectors; ++k) {
    const __m512i v = _mm512_load_si512(p + k), from = first[k / kVectors];
    const __m512i d = sizeof(Base) == 8 ? _mm512_sub_epi64(v, from) : _mm512_sub_epi32(v, from);
    other = _mm512_or_si512(other, d);
    crooked = _mm512_ternarylogic_epi64(crooked, d, _mm512_load_si512(r + k % kVectors),
                                        0xf6);  // crooked | (d ^ r)
  }
  const bool straight = _mm512_test_epi64_mask(crooked, crooked) == 0;
  const auto same = [&] { return _mm512_test_epi64_mask(other, other) == 0; };
#else
  constexpr uint32_t kVectors = kHalf * sizeof(Base) / 32;
  const auto broadcast = [](Base x) {
    return sizeof(Base) == 8 ? _mm256_set1_epi64x(static_cast<int64_t>(x))
                             : _mm256_set1_epi32(static_cast<int32_t>(x));
  };
  const __m256i first[2] = {broadcast(a[0]), broadcast(a[kHalf])};
  const auto* p = reinterpret_cast<const __m256i*>(a);
  const auto* r = reinterpret_cast<const __m256i*>(kRamp<Base, Bytes>.value);
  __m256i other = _mm256_setzero_si256(), crooked = other;
#pragma GCC unroll 8
  for (uint32_t k = 0; k < 2 * kVectors; ++k) {
    const __m256i v = _mm256_load_si256(p + k), from = first[k / kVectors];
    const __m256i d = sizeof(Base) == 8 ? _mm256_sub_epi64(v, from) : _mm256_sub_epi32(v, from);
    other = _mm256_or_si256(other, d);
    crooked = _mm256_or_si256(crooked, _mm256_xor_si256(d, _mm256_load_si256(r + k % kVectors)));
  }
  const bool straight = _mm256_testz_si256(crooked, crooked) != 0;
  const auto same = [&] { return _mm256_testz_si256(other, other) != 0; };
#endif
  if (straight) return step == kHalf * Bytes ? Shape::Unit : Shape::HalfUnit;
  if (same()) return step == 0 ? Shape::Uniform : Shape::HalfUniform;
  return Shape::Other;
}

inline Shape shape_of(const Address* addresses, uint32_t bytes, uint32_t lanes) {
  if (lanes != kAllLanes) return Shape::Other;
  return bytes == 4 ? shape_of<4>(addresses) : bytes == 8 ? shape_of<8>(addresses) : Shape::Other;
}

// ---- Lowering ----

struct SpaceOf {
  Space space;
  bool cluster;  // shared::cluster
};

inline SpaceOf space_of(const ptx::Instruction& inst) {
  for (Mod mod : inst.mods) switch (mod) {
      case Mod::global:
        return {Space::Global, false};
      case Mod::shared:
      case Mod::shared_cta:
        return {Space::Shared, false};
      case Mod::shared_cluster:
        return {Space::Shared, true};
      case Mod::local:
        return {Space::Local, false};
      case Mod::const_:
        return {Space::Const, false};
      case Mod::param:
      case Mod::param_entry:
      case Mod::param_func:
        return {Space::Param, false};
      default:
        break;
    }
  return {Space::Generic, false};
}

inline Scope scope_of(const ptx::Instruction& inst, Scope otherwise) {
  if (inst.has(Mod::cta)) return Scope::Block;
  if (inst.has(Mod::cluster)) return Scope::Cluster;
  if (inst.has(Mod::gpu) || inst.has(Mod::gl)) return Scope::Device;
  if (inst.has(Mod::sys)) return Scope::System;
  return otherwise;
}

inline Order order_of(const ptx::Instruction& inst, Order otherwise) {
  if (inst.has(Mod::volatile_)) return Order::Volatile;
  if (inst.has(Mod::relaxed) || inst.has(Mod::mmio)) return Order::Relaxed;
  if (inst.has(Mod::acquire)) return Order::Acquire;
  if (inst.has(Mod::release)) return Order::Release;
  if (inst.has(Mod::acq_rel)) return Order::AcquireRelease;
  if (inst.has(Mod::sc)) return Order::SequentiallyConsistent;
  return otherwise;
}

struct AddressPlane {
  PlaneOffset base = 0;
  int64_t offset = 0;
};

// Lowers an [address] operand and completes the form for it: space, site, base width.
AddressPlane lower_address(Lowering& l, const Operand& operand, Space space, MemoryForm& form);

// The reduction that an instruction names, on a run of elements; null when there is none (atomic.cpp).
using Reduction = void (*)(std::byte* to, const std::byte* from, uint32_t bytes, bool exclusive);
Reduction reduction_of(const ptx::Instruction& inst);

// Handlers find their form here.
inline const MemoryForm& form_of(const Inst& inst) {
  return *static_cast<const MemoryForm*>(inst.extra);
}

template <class F>
inline void each_lane(uint32_t lanes, F&& f) {
  for (uint32_t rest = lanes; rest != 0; rest &= rest - 1) f(static_cast<uint32_t>(__builtin_ctz(rest)));
}

// Where all lanes' bytes are, when one look-up answers for all of them.
struct Reach {
  std::byte* start;      // + address = host
  Address bias;          // address - bias: as listeners see it
  Address low;           // of the range, as `initialised` counts
  uint8_t* initialised;  // null: not tracked; bits for global memory, bytes for shared
  Space space;
};

// The lanes whose [address, address + bytes) lies in [low, low + size) with address a multiple of bytes.
inline uint32_t lanes_within(const Address* addresses, Address low, uint64_t size, uint32_t bytes) {
  if (size < bytes) return 0;
  const uint64_t last = size - bytes;
  uint32_t inside = 0;
#ifdef __AVX512F__
  const __m512i from = _mm512_set1_epi64(static_cast<int64_t>(low)),
                most = _mm512_set1_epi64(static_cast<int64_t>(last)),
                odd = _mm512_set1_epi64(static_cast<int64_t>(bytes) - 1);
#pragma GCC unroll 4
  for (uint32_t k = 0; k < kWarpSize; k += 8) {
    const __m512i v = _mm512_load_si512(addresses + k);
    const __mmask8 straight = _mm512_testn_epi64_mask(v, odd);
    inside |= uint32_t{_mm512_mask_cmple_epu64_mask(straight, _mm512_sub_epi64(v, from), most)} << k;
  }
#else
  const __m256i sign = _mm256_set1_epi64x(INT64_MIN);
  const __m256i from = _mm256_set1_epi64x(static_cast<int64_t>(low)),
                most = _mm256_xor_si256(_mm256_set1_epi64x(static_cast<int64_t>(last)), sign),
                odd = _mm256_set1_epi64x(static_cast<int64_t>(bytes) - 1);
#pragma GCC unroll 8
  for (uint32_t k = 0; k < kWarpSize; k += 4) {
    const __m256i v = _mm256_load_si256(reinterpret_cast<const __m256i*>(addresses + k));
    const __m256i beyond = _mm256_cmpgt_epi64(_mm256_xor_si256(_mm256_sub_epi64(v, from), sign), most);
    const __m256i straight = _mm256_cmpeq_epi64(_mm256_and_si256(v, odd), _mm256_setzero_si256());
    inside |=
        static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_andnot_si256(beyond, straight))))
        << k;
  }
#endif
  return inside;
}

// Base plane + offset, widened.
template <class Base>
inline void widen_addresses(Warp& w, const Inst& i, Address* addresses) {
  const Base* a = w.plane<Base>(i.a);
  const Base offset = static_cast<Base>(i.imm);
  for (uint32_t l = 0; l < kWarpSize; ++l) addresses[l] = static_cast<Base>(a[l] + offset);
}

// The range that holds the accesses of all `lanes` (which must be aligned): the site's, or the block's own
// shared memory. Leaves the addresses in `addresses`, which must be aligned to 64 bytes.
template <class Base>
inline bool reach_lanes(Warp& w, const Inst& i, const MemoryForm& form, uint32_t lanes, Address* addresses,
                        Reach& out) {
  widen_addresses<Base>(w, i, addresses);
  if (lanes == 0) return false;
  const Address first = addresses[__builtin_ctz(lanes)];
  const Address window = form.space == Space::Generic ? kSharedWindow : 0;
  if (form.space == Space::Shared ||
      (form.space == Space::Generic && first - kSharedWindow < (1u << kSharedRankShift))) {
    const Block& block = *w.block;
    if ((lanes & ~lanes_within(addresses, window, block.shared_bytes, form.bytes)) != 0) return false;
    out = {block.shared - window, window, window, block.shared_initialised, Space::Shared};
    return true;
  }
  const SiteRange& r = w.sites[form.site];
  const bool known = first >= r.low && first < r.high;
  if (!known && !refill(w, form.site, first, uint64_t{form.bytes} * kWarpSize)) [[unlikely]]
    return false;
  if ((lanes & ~lanes_within(addresses, r.low, r.high - r.low, form.bytes)) != 0) return false;
  out = {reinterpret_cast<std::byte*>(r.delta), 0, r.low, r.initialised,
         form.space == Space::Const ? Space::Const : Space::Global};
  return true;
}

// ---- Initialised bytes of what was reached ----

// Are `Count` bytes from `address` on initialised? `Count` is a power of two, and divides the address when
// below 8.
template <uint32_t Count>
inline bool initialised(const Reach& r, Address address) {
  if (r.initialised == nullptr) return true;
  const uint64_t at = address - r.low;
  if (r.space == Space::Shared) {
    const uint8_t* p = r.initialised + at;
    if constexpr (Count <= 8) {
      uint64_t word = 0;
      __builtin_memcpy(&word, p, Count);
      constexpr uint64_t kOnes = 0x0101010101010101u >> (64 - Count * 8);
      return (word & kOnes) == kOnes;
    }
#ifdef __AVX512BW__
    if constexpr (Count % 64 == 0) {
      __m512i all = _mm512_set1_epi8(1);
      for (uint32_t k = 0; k < Count; k += 64) all = _mm512_and_si512(all, _mm512_loadu_si512(p + k));
      return _mm512_test_epi8_mask(all, all) == ~__mmask64{0};
    }
#endif
    uint64_t all = ~uint64_t{0};
    for (uint32_t k = 0; k < Count; k += 8) {
      uint64_t word;
      __builtin_memcpy(&word, p + k, 8);
      all &= word;
    }
    return (all & 0x0101010101010101u) == 0x0101010101010101u;
  }
  const uint8_t* p = r.initialised + at / 8;
  if constexpr (Count < 8) {
    constexpr uint32_t kOnes = (1u << Count) - 1;
    return (*p >> (at % 8) & kOnes) == kOnes;
  } else {
    if (at % 8 != 0) return all_initialised(r.initialised, at, Count);
    uint64_t all = ~uint64_t{0};
    for (uint32_t k = 0; k < Count; k += 64) {
      uint64_t word = ~uint64_t{0};
      __builtin_memcpy(&word, p + k / 8, Count < 64 ? Count / 8 : 8);
      all &= word;
    }
    return all == ~uint64_t{0};
  }
}

#ifdef __AVX512F__
// The four bytes of the map that hold what lanes k to k + 7 touch, shifted so that it comes first.
inline __m256i gather_initialised(const Reach& r, const Address* addresses, uint32_t k, uint32_t lanes) {
  using Wide = uint64_t __attribute__((vector_size(64)));
  using Narrow = uint32_t __attribute__((vector_size(32)));
  const Wide at = *reinterpret_cast<const Wide*>(addresses + k) - r.low;
  const bool bytes = r.space == Space::Shared;
  const Wide words = (bytes ? at : at >> 3) & ~uint64_t{3};
  const Wide shift = bytes ? (at & 3) << 3 : at & 31;
  const __m256i all = _mm256_set1_epi32(-1);
  const auto some = static_cast<__mmask8>(lanes >> k);
  const __m256i found =
      _mm512_mask_i64gather_epi32(all, some, reinterpret_cast<__m512i>(words), r.initialised, 1);
  return _mm256_mask_srlv_epi32(all, some, found,
                                reinterpret_cast<__m256i>(__builtin_convertvector(shift, Narrow)));
}
#endif

// Of every lane of `lanes`, whose addresses are multiples of `Count`.
template <uint32_t Count>
inline bool lanes_initialised(const Reach& r, const Address* addresses, uint32_t lanes) {
  bool all = true;
  if (r.initialised == nullptr) return true;
#ifdef __AVX512F__
  if constexpr (Count <= 8)
    if (Count <= 4 || r.space != Space::Shared) {
      constexpr uint32_t kOnes = Count == 1 ? 1 : Count == 2 ? 0x0101 : 0x01010101;
      const __m256i wanted =
          _mm256_set1_epi32(static_cast<int32_t>(r.space == Space::Shared ? kOnes : (1u << Count) - 1));
      __m256i seen = _mm256_set1_epi32(-1);
#pragma GCC unroll 4
      for (uint32_t k = 0; k < kWarpSize; k += 8)
        seen = _mm256_and_si256(seen, gather_initialised(r, addresses, k, lanes));
      return _mm256_testc_si256(seen, wanted) != 0;
    }
#endif
  each_lane(lanes, [&](uint32_t l) { all &= initialised<Count>(r, addresses[l]); });
  return all;
}

template <uint32_t Count>
inline void mark(const Reach& r, Address address) {
  if (r.initialised == nullptr) return;
  if (r.space == Space::Shared)
    std::memset(r.initialised + (address - r.low), 1, Count);
  else if (!initialised<Count>(r, address))
    set_initialised(r.initialised, address - r.low, Count, true);
}

// Of every lane of `lanes`.
template <uint32_t Count>
inline void mark_lanes(const Reach& r, const Address* addresses, uint32_t lanes) {
  if (r.initialised == nullptr || lanes_initialised<Count>(r, addresses, lanes)) return;
  each_lane(lanes, [&](uint32_t l) { mark<Count>(r, addresses[l]); });
}

// Reports an access that one look-up answered for.
inline void announce_reached(Warp& w, const Inst& i, const MemoryForm& form, const Reach& r, Shape shape,
                             uint32_t lanes, const Address* addresses, const std::byte* values) {
  if (w.grid->listeners_of(r.space).empty()) return;
  if (r.bias == 0) return announce(w, i, form, r.space, shape, lanes, addresses, values);
  alignas(64) Address shown[kWarpSize];
  for (uint32_t l = 0; l < kWarpSize; ++l) shown[l] = addresses[l] - r.bias;
  announce(w, i, form, r.space, shape, lanes, shown, values);
}

}  // namespace assay::vgpu::ASSAY_BUILD
