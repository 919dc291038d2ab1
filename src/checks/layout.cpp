#include "checks/layout.h"

#include <immintrin.h>

#include <bit>

namespace assay::checks {

namespace {

using vgpu::Address;

const bool kWide = __builtin_cpu_supports("avx512f");

// One look answers for each half; how the halves lie to each other says the rest.
Layout layout(bool straight, bool same, uint64_t step, uint64_t bytes) {
  if (straight) return step == 16 * bytes ? Layout::Run : Layout::HalfRuns;
  if (same) return step == 0 ? Layout::One : Layout::HalfOnes;
  return Layout::Irregular;
}

Layout layout_by_lane(const Address* at, uint64_t bytes) {
  bool straight = true, same = true;
  for (uint32_t l = 0; l < 32; ++l) {
    const Address first = at[l & 16];
    straight &= at[l] == first + (l & 15) * bytes;
    same &= at[l] == first;
  }
  return layout(straight, same, at[16] - at[0], bytes);
}

uint32_t lanes_by_lane(const Address* at, uint64_t row) {
  uint32_t lanes = 0;
  for (uint32_t l = 0; l < 32; ++l) lanes |= uint32_t{at[l] / 64 == row} << l;
  return lanes;
}

uint32_t beyond_by_lane(const Address* at, Address low, uint64_t most) {
  uint32_t lanes = 0;
  for (uint32_t l = 0; l < 32; ++l) lanes |= uint32_t{at[l] - low > most} << l;
  return lanes;
}

#pragma GCC push_options
#pragma GCC target("avx512f")

using Vector = uint64_t __attribute__((vector_size(64)));

inline __m512i raw(Vector v) {
  return reinterpret_cast<__m512i>(v);
}
inline Vector load(const Address* at) {
  Vector v;
  __builtin_memcpy(&v, at, sizeof v);
  return v;
}

Layout layout_wide(const Address* at, uint64_t bytes) {
  constexpr Vector kCount = {0, 1, 2, 3, 4, 5, 6, 7};
  const Vector low = Vector{} + at[0], high = Vector{} + at[16];
  const Vector near = kCount << std::countr_zero(bytes), far = near + bytes * 8;
  const Vector d[4] = {load(at) - low, load(at + 8) - low, load(at + 16) - high, load(at + 24) - high};
  const Vector crooked = (d[0] ^ near) | (d[1] ^ far) | (d[2] ^ near) | (d[3] ^ far);
  const Vector differ = d[0] | d[1] | d[2] | d[3];
  return layout(_mm512_test_epi64_mask(raw(crooked), raw(crooked)) == 0,
                _mm512_test_epi64_mask(raw(differ), raw(differ)) == 0, at[16] - at[0], bytes);
}

uint32_t lanes_wide(const Address* at, uint64_t row) {
  uint32_t lanes = 0;
#pragma GCC unroll 4
  for (uint32_t k = 0; k < 32; k += 8)
    lanes |= uint32_t{_mm512_cmpeq_epi64_mask(raw(load(at + k) >> 6), raw(Vector{} + row))} << k;
  return lanes;
}

uint32_t beyond_wide(const Address* at, Address low, uint64_t most) {
  uint32_t lanes = 0;
#pragma GCC unroll 4
  for (uint32_t k = 0; k < 32; k += 8)
    lanes |= uint32_t{_mm512_cmpgt_epu64_mask(raw(load(at + k) - low), raw(Vector{} + most))} << k;
  return lanes;
}

#pragma GCC pop_options

}  // namespace

Layout layout_of(const vgpu::Access& access) {
  if (!kWide || !std::has_single_bit(access.bytes)) return layout_by_lane(access.addresses, access.bytes);
  return layout_wide(access.addresses, access.bytes);
}

uint32_t lanes_outside(const vgpu::Access& access, Address low, Address high) {
  if (high - low < access.bytes) return access.lanes;
  const uint64_t most = high - low - access.bytes;
  const auto beyond = kWide ? beyond_wide : beyond_by_lane;
  return access.lanes & beyond(access.addresses, low, most);
}

uint32_t lanes_in_row(const Address* addresses, uint64_t row, uint32_t lanes) {
  return lanes & (kWide ? lanes_wide(addresses, row) : lanes_by_lane(addresses, row));
}

}  // namespace assay::checks
