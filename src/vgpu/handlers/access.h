// What the families that touch memory share: how 32 addresses lie to each other, and how the
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

enum class Shape : uint8_t {
  Unit,     // each lane's bytes follow the last lane's
  Uniform,  // all the same
  Other,
};

template <class Base, uint32_t Bytes>
struct alignas(64) Ramp {
  Base value[kWarpSize];
  constexpr Ramp() : value() {
    for (uint32_t l = 0; l < kWarpSize; ++l) value[l] = l * Bytes;
  }
};
template <class Base, uint32_t Bytes>
inline constexpr Ramp<Base, Bytes> kRamp{};

// The shape of all 32 addresses; one pass answers both questions.
template <uint32_t Bytes, class Base>
[[gnu::always_inline]] inline Shape shape_of(const Base* a) {
#ifdef __AVX512F__
  constexpr uint32_t kVectors = kWarpSize * sizeof(Base) / 64;
  const __m512i first = sizeof(Base) == 8 ? _mm512_set1_epi64(static_cast<int64_t>(a[0]))
                                          : _mm512_set1_epi32(static_cast<int32_t>(a[0]));
  const auto* p = reinterpret_cast<const __m512i*>(a);
  const auto* r = reinterpret_cast<const __m512i*>(kRamp<Base, Bytes>.value);
  __m512i other = _mm512_setzero_si512(), crooked = other;
#pragma GCC unroll 4
  for (uint32_t k = 0; k < kVectors; ++k) {
    const __m512i v = _mm512_load_si512(p + k);
    const __m512i d = sizeof(Base) == 8 ? _mm512_sub_epi64(v, first) : _mm512_sub_epi32(v, first);
    other = _mm512_or_si512(other, d);
    crooked = _mm512_ternarylogic_epi64(crooked, d, _mm512_load_si512(r + k), 0xf6);  // crooked | (d ^ r)
  }
  if (_mm512_test_epi64_mask(crooked, crooked) == 0) return Shape::Unit;
  if (_mm512_test_epi64_mask(other, other) == 0) return Shape::Uniform;
  return Shape::Other;
#else
  constexpr uint32_t kVectors = kWarpSize * sizeof(Base) / 32;
  const __m256i first = sizeof(Base) == 8 ? _mm256_set1_epi64x(static_cast<int64_t>(a[0]))
                                          : _mm256_set1_epi32(static_cast<int32_t>(a[0]));
  const auto* p = reinterpret_cast<const __m256i*>(a);
  const auto* r = reinterpret_cast<const __m256i*>(kRamp<Base, Bytes>.value);
  __m256i other = _mm256_setzero_si256(), crooked = other;
#pragma GCC unroll 8
  for (uint32_t k = 0; k < kVectors; ++k) {
    const __m256i v = _mm256_load_si256(p + k);
    const __m256i d = sizeof(Base) == 8 ? _mm256_sub_epi64(v, first) : _mm256_sub_epi32(v, first);
    other = _mm256_or_si256(other, d);
    crooked = _mm256_or_si256(crooked, _mm256_xor_si256(d, _mm256_load_si256(r + k)));
  }
  if (_mm256_testz_si256(crooked, crooked)) return Shape::Unit;
  if (_mm256_testz_si256(other, other)) return Shape::Uniform;
  return Shape::Other;
#endif
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

// The range that holds [low, high + bytes): of the site, or the block's own shared memory.
inline bool reach(Warp& w, const MemoryForm& form, Address low, Address high, uint64_t bytes, Reach& out) {
  const Address window = form.space == Space::Generic ? kSharedWindow : 0;
  if (form.space == Space::Shared ||
      (form.space == Space::Generic && low - kSharedWindow < (1u << kSharedRankShift))) {
    const Block& block = *w.block;
    if (high - window >= block.shared_bytes || block.shared_bytes - (high - window) < bytes) return false;
    out = {block.shared - window, window, window, block.shared_initialised, Space::Shared};
    return true;
  }
  const SiteRange& r = w.sites[form.site];
  if (low < r.low || low >= r.high) [[unlikely]] {
    if (!refill(w, form.site, low)) return false;
  }
  if (high < r.low || high >= r.high || r.high - high < bytes) [[unlikely]]
    return false;
  out = {reinterpret_cast<std::byte*>(r.delta), 0, r.low, r.initialised,
         form.space == Space::Const ? Space::Const : Space::Global};
  return true;
}

// The same for the addresses of `lanes`, which must be aligned. Leaves them in `addresses`.
template <class Base>
inline bool reach_lanes(Warp& w, const Inst& i, const MemoryForm& form, uint32_t lanes, Address* addresses,
                        Reach& out) {
  const Base* a = w.plane<Base>(i.a);
  const Base offset = static_cast<Base>(i.imm);
  Base low = static_cast<Base>(~Base{0}), high = 0, bits = 0;
  for (uint32_t l = 0; l < kWarpSize; ++l) {
    const Base at = a[l] + offset;
    const bool on = (lanes >> l & 1) != 0;
    low = on && at < low ? at : low;
    high = on && at > high ? at : high;
    bits |= on ? at : Base{0};
    addresses[l] = at;
  }
  if (lanes == 0 || (bits & (form.bytes - 1u)) != 0) return false;
  return reach(w, form, low, high, form.bytes, out);
}

// Are `count` bytes from `address` on initialised?
inline bool initialised(const Reach& r, Address address, uint64_t count) {
  if (r.initialised == nullptr) return true;
  if (r.space != Space::Shared) return all_initialised(r.initialised, address - r.low, count);
  const uint8_t* p = r.initialised + (address - r.low);
  uint8_t all = 1;
  for (uint64_t k = 0; k < count; ++k) all &= p[k];
  return all != 0;
}

inline void mark(const Reach& r, Address address, uint64_t count) {
  if (r.initialised == nullptr) return;
  if (r.space == Space::Shared)
    std::memset(r.initialised + (address - r.low), 1, count);
  else if (!all_initialised(r.initialised, address - r.low, count))
    set_initialised(r.initialised, address - r.low, count, true);
}

}  // namespace assay::vgpu::ASSAY_BUILD
