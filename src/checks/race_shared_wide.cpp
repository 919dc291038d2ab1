// The words of shared memory, 16 at a time. What is not settled here goes to the functions for one word.
#include <immintrin.h>

#include <bit>

#include "checks/race_shared.h"
#include "checks/race_state.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl")

namespace assay::checks {

namespace {

using Vector = uint32_t __attribute__((vector_size(64)));

inline __m512i raw(Vector v) {
  return reinterpret_cast<__m512i>(v);
}
inline Vector all(uint32_t x) {
  return Vector{} + x;
}

// 16 cells in a row, or wherever an index says.
struct Adjacent {
  uint32_t first;
  Vector load(const uint32_t* from, __mmask16) const {
    Vector v;
    __builtin_memcpy(&v, from + first, sizeof v);
    return v;
  }
  void store(uint32_t* to, __mmask16 mask, Vector v) const {
    _mm512_mask_storeu_epi32(to + first, mask, raw(v));
  }
  uint32_t at(uint32_t k) const { return first + k; }
  static constexpr bool kDistinct = true;
};
struct Scattered {
  Vector index;
  Vector load(const uint32_t* from, __mmask16 mask) const {
    return reinterpret_cast<Vector>(_mm512_mask_i32gather_epi32(raw(Vector{}), mask, raw(index), from, 4));
  }
  void store(uint32_t* to, __mmask16 mask, Vector v) const {
    _mm512_mask_i32scatter_epi32(to, mask, raw(index), raw(v), 4);
  }
  uint32_t at(uint32_t k) const { return index[k]; }
  static constexpr bool kDistinct = false;
};

template <class F>
inline void each(__mmask16 mask, F&& f) {
  for (uint32_t rest = mask; rest; rest &= rest - 1) f(static_cast<uint32_t>(std::countr_zero(rest)));
}

constexpr Vector kCount = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

}  // namespace

struct SharedShadow::Wide {
  SharedShadow& shadow;
  const Visit& visit;
  bool updates;  // an atomic: lanes at one place are no conflict
  __m512i below[2];

  Wide(SharedShadow& s, const Visit& v)
      : shadow(s),
        visit(v),
        updates(v.writes && v.actor.kind != vgpu::AccessKind::Store),
        below{_mm512_load_si512(v.below), _mm512_load_si512(v.below + 16)} {}

  // The cells that may conflict.
  __mmask16 suspects(Vector before, Vector mine, __mmask16 mask) const {
    const __mmask16 overlap = _mm512_mask_test_epi32_mask(mask, raw(before & mine), raw(all(kBytes)));
    const __m512i known = _mm512_permutex2var_epi32(below[0], raw(before >> 11), below[1]);
    const __mmask16 open = _mm512_mask_cmpge_epu32_mask(overlap, raw(before), known);
    if (open == 0) return 0;
    const Vector differs = before ^ mine;
    const __mmask16 several = _mm512_mask_cmpeq_epi32_mask(open, raw(mine & kShare), raw(all(kSeveral)));
    const __mmask16 same = _mm512_mask_testn_epi32_mask(static_cast<__mmask16>(open & ~several), raw(differs),
                                                        raw(all(kWarp | kLane | kShare)));
    const __mmask16 strong = _mm512_mask_test_epi32_mask(open, raw(before & mine), raw(all(kStrongBit)));
    const __mmask16 flying = _mm512_mask_test_epi32_mask(open, raw(before), raw(all(kFlying)));
    return static_cast<__mmask16>(open & ~((same | strong) & ~flying));
  }

  template <class Place>
  void judge(const Place& place, Vector before, Vector mine, __mmask16 mask) const {
    const __mmask16 found = suspects(before, mine, mask);
    if (found == 0) [[likely]]
      return;
    each(found, [&](uint32_t k) { shadow.judge(visit, before[k], mine[k], place.at(k)); });
  }

  // Cells that hold something else than they were given: another lane of the same instruction came after.
  template <class Place>
  static __mmask16 lost(const Place& place, const uint32_t* cells, __mmask16 mask, Vector mine) {
    if constexpr (Place::kDistinct) return 0;
    return _mm512_mask_cmpneq_epi32_mask(mask, raw(place.load(cells, mask)), raw(mine));
  }

  template <class Place>
  void read(const Place& place, Vector mine, __mmask16 mask) const {
    if (shadow.may_meet_writes()) judge(place, place.load(shadow.write(), mask), mine, mask);
    uint32_t* const first = shadow.read();
    const Vector before = place.load(first, mask);
    const __mmask16 changed = _mm512_mask_cmpneq_epi32_mask(mask, raw(before), raw(mine));
    if (changed == 0) return;
    const __mmask16 free = _mm512_mask_cmplt_epu32_mask(changed, raw(before), raw(all(shadow.past_)));
    place.store(first, free, mine);
    __mmask16 again = lost(place, first, free, mine);
    if (const auto rest = static_cast<__mmask16>(changed & ~free))
      again |= read_other(place, before, mine, rest);
    each(again, [&](uint32_t k) { shadow.remember_read(place.at(k), mine[k]); });
  }

  // Somebody has read it already. Gives the words that need a closer look.
  template <class Place>
  __mmask16 read_other(const Place& place, Vector before, Vector mine, __mmask16 mask) const {
    uint32_t* const cells = shadow.other();
    const Vector there = place.load(cells, mask);
    const Vector author = all(~(kLane | kShare | kBytes));
    const __mmask16 known = _mm512_mask_testn_epi32_mask(mask, raw(before ^ mine), raw(author)) |
                            _mm512_mask_testn_epi32_mask(mask, raw(there ^ mine), raw(author));
    const auto fresh = static_cast<__mmask16>(mask & ~known);
    place.store(cells, fresh, mine);
    const __mmask16 equal = _mm512_mask_cmpeq_epi32_mask(known, raw(there), raw(mine));
    return static_cast<__mmask16>((known & ~equal) | lost(place, cells, fresh, mine));
  }

  template <class Place>
  void write(const Place& place, Vector mine, __mmask16 mask) const {
    uint32_t* const cells = shadow.write();
    judge(place, place.load(cells, mask), mine, mask);
    for (uint32_t* const reads : {shadow.read(), shadow.other()}) {
      if (!shadow.read_) break;
      const Vector before = place.load(reads, mask);
      const __mmask16 recent = _mm512_mask_cmpge_epu32_mask(mask, raw(before), raw(all(shadow.past_)));
      if (recent == 0) continue;
      judge(place, before, mine, recent);
      place.store(reads, _mm512_mask_testn_epi32_mask(recent, raw(before & ~mine), raw(all(kBytes))),
                  Vector{});
    }
    place.store(cells, mask, mine);
    each(lost(place, cells, mask, mine), [&](uint32_t k) {
      uint32_t& cell = cells[place.at(k)];
      if (!updates)
        shadow.word(visit, place.at(k), mine[k]);
      else if (((cell ^ mine[k]) & kBytes) == 0)
        cell = (cell & ~kShare) | kSeveral;
    });
  }

  template <class Place>
  void go(const Place& place, Vector mine, __mmask16 mask) const {
    visit.writes ? write(place, mine, mask) : read(place, mine, mask);
  }
};

void SharedShadow::run_wide(const Visit& visit, uint32_t first, uint32_t count, uint32_t mine, uint32_t lane,
                            uint32_t shift) {
  const Wide wide(*this, visit);
  for (uint32_t k = 0; k < count; k += 16) {
    const Vector lanes = ((kCount + k) << 2 >> shift) + lane;
    const auto mask = static_cast<__mmask16>(count - k >= 16 ? 0xffff : (1u << (count - k)) - 1);
    wide.go(Adjacent{first + k}, mine | lanes << 6, mask);
  }
}

void SharedShadow::lanes_wide(const Visit& visit, uint32_t lanes) {
  using Addresses = uint64_t __attribute__((vector_size(128)));
  const Wide wide(*this, visit);
  const vgpu::Access& access = *visit.actor.access;
  const uint32_t bytes = access.bytes, limit = words_ * 4;
  if (bytes > limit) return;
  const uint32_t whole = bytes >= 4 ? kBytes : (1u << bytes) - 1;
  for (uint32_t k = 0; k < 32; k += 16) {
    Addresses wide_at;
    __builtin_memcpy(&wide_at, access.addresses + k, sizeof wide_at);
    const Addresses least = wide_at < 0xffffffff ? wide_at : Addresses{} + 0xffffffff;
    const Vector at = __builtin_convertvector(least, Vector);
    const __mmask16 mask =
        _mm512_mask_cmple_epu32_mask(static_cast<__mmask16>(lanes >> k), raw(at), raw(all(limit - bytes)));
    if (mask == 0) continue;
    const Vector own = (visit.cell | (kCount + k) << 6) | (whole << (at & 3));
    for (uint32_t e = 0; e < bytes; e += 4) wide.go(Scattered{(at + e) >> 2}, own, mask);
  }
}

}  // namespace assay::checks

#pragma GCC pop_options
