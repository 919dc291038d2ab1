#include "checks/race_settled.h"

#include <immintrin.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>

#include "vgpu/program.h"

namespace assay::checks {

namespace {

using vgpu::Access;
using vgpu::Address;
using vgpu::Shape;

constexpr uint32_t kRowBytes = 64, kAllWords = 0xffff, kWidest = 32;

const bool kWide = __builtin_cpu_supports("avx512f");

// The bits of the words that `bytes` bytes touch, of which the first comes first.
uint64_t words_of(uint64_t bytes) {
  return (uint64_t{1} << (bytes + 3) / 4) - 1;
}

bool orders_blocks(const ptx::Instruction& inst) {
  using ptx::Mod;
  using ptx::Opcode;
  constexpr Opcode kOrders[] = {Opcode::fence, Opcode::membar, Opcode::mbarrier_init,
                                Opcode::barrier_cluster_arrive, Opcode::barrier_cluster_wait};
  return std::find(std::begin(kOrders), std::end(kOrders), inst.opcode) != std::end(kOrders) ||
         inst.has(Mod::release) || inst.has(Mod::acq_rel) || inst.has(Mod::sc);
}

bool any_of(const ptx::Function& function, bool (*what)(const ptx::Instruction&)) {
  return std::any_of(function.body.begin(), function.body.end(), what);
}

}  // namespace

bool may_settle(const vgpu::Kernel& kernel) {
  const ptx::Function& entry = *kernel.function->ptx;
  if (any_of(entry, orders_blocks)) return false;
  if (!any_of(entry, [](const ptx::Instruction& inst) { return inst.opcode == ptx::Opcode::call; }))
    return true;
  const auto& functions = kernel.program->module.functions;
  return std::none_of(functions.begin(), functions.end(),
                      [](const ptx::Function& f) { return any_of(f, orders_blocks); });
}

SettledRows::SettledRows(Address base, uint64_t bytes)
    : base_(base / kRowBytes * kRowBytes), count_((bytes + base - base_ + kRowBytes - 1) / kRowBytes) {
  void* place = mmap(nullptr, count_ * sizeof *rows_, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED)
    count_ = 0;  // nothing settles
  else
    rows_ = static_cast<uint64_t*>(place);
}

SettledRows::~SettledRows() {
  if (rows_) munmap(rows_, count_ * sizeof *rows_);
}

void SettledRows::clear() {
  if (rows_) madvise(rows_, count_ * sizeof *rows_, MADV_DONTNEED);
}

void SettledRows::open(uint32_t grid, Address address, uint16_t words) {
  const uint64_t index = index_of(address);
  if (index >= count_) return;
  const uint64_t before = load(index),
                 same = (before & kGridBits) == grid_bits(grid) ? before & kAllWords : 0;
  replace(
      index, before,
      kHasReads | kAsked | (before & kHasStores) | grid_bits(grid) | uint64_t{words} << kOpenShift | same);
}

void SettledRows::add(uint32_t grid, Address address, uint16_t words) {
  const uint64_t index = index_of(address);
  uint64_t before = load(index);
  const uint64_t wanted = grid_bits(grid) | uint64_t{words} << kOpenShift;
  if (((before ^ wanted) & (wanted | kGridBits)) != 0) return;
  __atomic_compare_exchange_n(rows_ + index, &before, before | words, false, __ATOMIC_SEQ_CST,
                              __ATOMIC_RELAXED);
}

void SettledRows::store(Address address) {
  const uint64_t index = index_of(address), before = load(index);
  replace(index, before, (before & ~uint64_t{kAllWords}) | kHasStores);
}

void SettledRows::forget_stores(Address address) {
  const uint64_t index = index_of(address);
  if (index < count_) __atomic_fetch_and(rows_ + index, ~kHasStores, __ATOMIC_RELAXED);
}

bool SettledRows::covers(uint32_t number, const AddressPattern& pattern) const {
  const uint64_t grid = grid_bits(number), bytes = pattern.bytes;
  const Address first = pattern.first, second = pattern.second;
  switch (pattern.shape) {
    case Shape::Unit:
      return covers_range(grid, first, 32 * bytes);
    case Shape::Uniform:
      return covers_range(grid, first, bytes);
    case Shape::HalfUnit:
      return covers_range(grid, first, 16 * bytes) &&
             (first == second || covers_range(grid, second, 16 * bytes));
    case Shape::HalfUniform:
      return covers_range(grid, first, bytes) && covers_range(grid, second, bytes);
    case Shape::Other:
      break;
  }
  return false;
}

bool SettledRows::covers(uint32_t number, const Access& access) const {
  if (access.shape != Shape::Other) return covers(number, AddressPattern(access));
  const uint64_t grid = grid_bits(number);
  if (access.bytes > kWidest || !std::has_single_bit(access.bytes)) return false;
  // As a rule all lanes are alike, and one look tells.
  if (!covers_range(grid, access.addresses[std::countr_zero(access.lanes)], access.bytes)) return false;
  return kWide ? covers_lanes_wide(grid, access) : covers_lanes(grid, access);
}

inline bool SettledRows::covers_range(uint64_t grid, Address low, uint64_t bytes) const {
  const Address high = low + bytes;
  if ((low | bytes) % kRowBytes == 0) {  // whole rows
    const uint64_t index = index_of(low), count = bytes / kRowBytes;
    if (index >= count_ || count > count_ - index) return false;
    bool all = true;
    for (uint64_t k = index; k < index + count; ++k)
      all &= (load(k) & (kGridBits | kAllWords)) == (grid | kAllWords);
    return all;
  }
  for (Address at = low; at < high;) {
    const uint64_t index = index_of(at), start = at % kRowBytes;
    if (index >= count_) return false;
    const Address end = std::min(high, at - start + kRowBytes);
    const uint64_t wanted = words_of(start % 4 + end - at) << start / 4 | grid;
    const uint64_t row = load(index);
    if (((row ^ wanted) & (wanted | kGridBits)) != 0) return false;
    at = end;
  }
  return true;
}

namespace {

// AVX2: four lanes at a time, and a mask of -1 and 0. The numbers of rows are far from the sign bit.
using Four = uint64_t __attribute__((vector_size(32)));
using FourMask = int64_t __attribute__((vector_size(32)));

Four load_four(const Address* at) {
  Four v;
  __builtin_memcpy(&v, at, sizeof v);
  return v;
}
FourMask these_four(uint32_t lanes) {
  return (Four{lanes, lanes >> 1, lanes >> 2, lanes >> 3} & 1) != 0;
}
uint32_t bits_of(FourMask mask) {
  return static_cast<uint32_t>(_mm256_movemask_pd(reinterpret_cast<__m256d>(mask)));
}
Four gather_four(const uint64_t* from, FourMask mask, Four index) {
  return reinterpret_cast<Four>(
      _mm256_mask_i64gather_epi64(_mm256_setzero_si256(), reinterpret_cast<const long long*>(from),
                                  reinterpret_cast<__m256i>(index), reinterpret_cast<__m256i>(mask), 8));
}
FourMask below(Four index, uint64_t count) {
  return reinterpret_cast<FourMask>(index) < static_cast<int64_t>(count);
}

}  // namespace

bool SettledRows::covers_lanes(uint64_t grid, const Access& access) const {
  const uint64_t words = words_of(access.bytes);
  for (uint32_t k = 0; k < 32; k += 4) {
    const FourMask lanes = these_four(access.lanes >> k);
    const Four at = load_four(access.addresses + k), index = (at - base_) >> 6;
    if (bits_of(lanes & ~below(index, count_)) != 0) return false;
    const Four wanted = (words << (at >> 2 & 15)) | grid;
    const Four wrong = (gather_four(rows_, lanes, index) ^ wanted) & (wanted | kGridBits);
    // What reaches into the next row is not known there.
    if (bits_of(lanes & ((wrong != 0) | ((at & (access.bytes - 1)) != 0))) != 0) return false;
  }
  return true;
}

uint32_t SettledRows::open_lanes(uint32_t number, const Access& access, uint32_t wanted_lanes,
                                 uint32_t& stored) const {
  const uint64_t grid = grid_bits(number), words = words_of(access.bytes);
  if (kWide) return open_lanes_wide(grid, access, wanted_lanes, stored);
  uint32_t open = 0;
  for (uint32_t k = 0; k < 32; k += 4) {
    if ((wanted_lanes >> k & 0xf) == 0) continue;
    const Four at = load_four(access.addresses + k), index = (at - base_) >> 6;
    const FourMask lanes = these_four(wanted_lanes >> k) & below(index, count_);
    const Four rows = gather_four(rows_, lanes, index);
    const Four wanted = (words << ((at >> 2 & 15) + kOpenShift)) | grid;
    stored |= bits_of(lanes & ((rows & kHasStores) != 0)) << k;
    open |= bits_of(lanes & (((rows ^ wanted) & (wanted | kGridBits)) == 0)) << k;
  }
  return open;
}

#pragma GCC push_options
#pragma GCC target("avx512f")

namespace {

using Vector = uint64_t __attribute__((vector_size(64)));

inline __m512i raw(Vector v) {
  return reinterpret_cast<__m512i>(v);
}

}  // namespace

// The same, eight lanes at a time. What would reach into the next row finds no bit there.
bool SettledRows::covers_lanes_wide(uint64_t grid, const Access& access) const {
  for (uint32_t k = 0; k < 32; k += 8) {
    const auto lanes = static_cast<__mmask8>(access.lanes >> k);
    Vector at;
    __builtin_memcpy(&at, access.addresses + k, sizeof at);
    const Vector index = (at - base_) >> 6;
    if (_mm512_mask_cmpge_epu64_mask(lanes, raw(index), raw(Vector{} + count_)) != 0) return false;
    const auto rows =
        reinterpret_cast<Vector>(_mm512_mask_i64gather_epi64(raw(Vector{}), lanes, raw(index), rows_, 8));
    const Vector wanted = (words_of(access.bytes) << (at >> 2 & 15)) | grid;
    if (_mm512_mask_test_epi64_mask(lanes, raw(rows ^ wanted), raw(wanted | kGridBits)) != 0) return false;
    // What reaches into the next row is not known there.
    if (_mm512_mask_test_epi64_mask(lanes, raw(at), raw(Vector{} + (access.bytes - 1))) != 0) return false;
  }
  return true;
}

uint32_t SettledRows::open_lanes_wide(uint64_t grid, const Access& access, uint32_t wanted_lanes,
                                      uint32_t& stored) const {
  uint32_t open = 0;
  for (uint32_t k = 0; k < 32; k += 8) {
    if ((wanted_lanes >> k & 0xff) == 0) continue;
    Vector at;
    __builtin_memcpy(&at, access.addresses + k, sizeof at);
    const Vector index = (at - base_) >> 6;
    const __mmask8 lanes = _mm512_mask_cmplt_epu64_mask(static_cast<__mmask8>(wanted_lanes >> k), raw(index),
                                                        raw(Vector{} + count_));
    const auto rows =
        reinterpret_cast<Vector>(_mm512_mask_i64gather_epi64(raw(Vector{}), lanes, raw(index), rows_, 8));
    const Vector wanted = (words_of(access.bytes) << ((at >> 2 & 15) + kOpenShift)) | grid;
    stored |= uint32_t{_mm512_mask_test_epi64_mask(lanes, raw(rows), raw(Vector{} + kHasStores))} << k;
    open |= uint32_t{_mm512_mask_testn_epi64_mask(lanes, raw(rows ^ wanted), raw(wanted | kGridBits))} << k;
  }
  return open;
}

#pragma GCC pop_options

}  // namespace assay::checks
