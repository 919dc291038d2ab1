#include "checks/address_pattern.h"

#include <immintrin.h>

#include <bit>

namespace assay::checks {

namespace {

using vgpu::Address;

const bool kWide = __builtin_cpu_supports("avx512f");

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
