// Where the bytes that a memory instruction touches are on the host.
#pragma once

#include "shadow/lanes/lanes.h"
#include "vgpu/access.h"

namespace assay::shadow::ASSAY_BUILD {

using ptx::Space;
using vgpu::MemoryForm;

// Where the lanes' bytes are on the host.
struct Hosts {
  uintptr_t at[kWarpSize];
  uint32_t lanes = 0;             // that are anywhere
  uintptr_t first = 0, last = 0;  // of all bytes
};

inline uintptr_t global_place(Warp& w, const AccessForm& f, uint64_t address, uint32_t bytes) {
  const uint64_t generation = w.grid->memory->generation();
  if (address < f.low || address >= f.high || f.generation != generation) {
    const vgpu::LiveRange range = w.grid->memory->locate(address);
    if (range.high <= range.low) return 0;
    f.low = range.low, f.high = range.high, f.generation = generation;
    f.delta = reinterpret_cast<std::byte*>(range.backing) - reinterpret_cast<std::byte*>(range.low);
  }
  if (f.high - address < bytes) return 0;
  return static_cast<uintptr_t>(static_cast<ptrdiff_t>(address) + f.delta);
}

inline uintptr_t shared_place(Warp& w, uint64_t address, uint32_t bytes) {
  const uint64_t tag = address >> vgpu::kSharedRankShift,
                 offset = address & ((1u << vgpu::kSharedRankShift) - 1);
  const vgpu::Block* block = w.block;
  if (tag != 0) {
    if (tag - 1 >= w.block->cluster->blocks.size()) return 0;
    block = &w.block->cluster->blocks[tag - 1];
  }
  if (bytes > block->shared_bytes || offset > block->shared_bytes - bytes) return 0;
  return reinterpret_cast<uintptr_t>(block->shared) + offset;
}

inline uintptr_t local_place(Warp& w, uint64_t offset, uint32_t bytes, uint32_t lane) {
  if (offset > w.local_stride || w.local_stride - offset < bytes) return 0;
  return reinterpret_cast<uintptr_t>(w.local) + uint64_t{lane} * w.local_stride + offset;
}

inline uintptr_t place(Warp& w, const AccessForm& f, const MemoryForm& m, uint64_t address, uint32_t bytes,
                       uint32_t lane) {
  switch (m.space) {
    case Space::Shared:
      return shared_place(w, address, bytes);
    case Space::Local:
      return local_place(w, address + (m.frame_relative ? w.frame->local_base : 0), bytes, lane);
    case Space::Param: {
      const uint32_t stride = w.frame->function->param_bytes;
      if (m.kernel_parameter || address > stride || stride - address < bytes) return 0;
      return reinterpret_cast<uintptr_t>(w.frame->params) + uint64_t{lane} * stride + address;
    }
    case Space::Generic:
      if (address - vgpu::kSharedWindow < vgpu::kSharedWindowEnd - vgpu::kSharedWindow)
        return shared_place(w, address - vgpu::kSharedWindow, bytes);
      if (address - vgpu::kLocalWindow < vgpu::kLocalWindowEnd - vgpu::kLocalWindow)
        return local_place(w, address - vgpu::kLocalWindow, bytes, lane);
      if (address - vgpu::kParamWindow < vgpu::kParamWindowEnd - vgpu::kParamWindow) return 0;
      [[fallthrough]];
    default:
      return global_place(w, f, address, bytes);
  }
}

inline void lane_addresses(Warp& w, PlaneOffset base, uint32_t base_bytes, int64_t offset, uint64_t* out) {
  if (base_bytes == 8) {
    const uint64_t* a = w.plane<uint64_t>(base);
    for (uint32_t l = 0; l < kWarpSize; ++l) out[l] = a[l] + static_cast<uint64_t>(offset);
  } else {
    const uint32_t* a = w.plane<uint32_t>(base);
    for (uint32_t l = 0; l < kWarpSize; ++l)
      out[l] = static_cast<uint32_t>(a[l] + static_cast<uint32_t>(offset));
  }
}

// Lowest and highest address of the lanes.
inline void bounds(const uint64_t* a, uint32_t lanes, uint64_t& low, uint64_t& high) {
#ifdef __AVX512F__
  __m512i least = _mm512_set1_epi64(-1), most = _mm512_setzero_si512();
  for (uint32_t k = 0; k < kWarpSize; k += 8) {
    const __m512i v = _mm512_loadu_si512(a + k);
    const auto m = static_cast<__mmask8>(lanes >> k);
    least = _mm512_mask_min_epu64(least, m, least, v);
    most = _mm512_mask_max_epu64(most, m, most, v);
  }
  alignas(64) uint64_t lows[8], highs[8];
  _mm512_store_si512(lows, least);
  _mm512_store_si512(highs, most);
  low = lows[0], high = highs[0];
  for (uint32_t k = 1; k < 8; ++k) {
    low = lows[k] < low ? lows[k] : low;
    high = highs[k] > high ? highs[k] : high;
  }
#else
  low = ~uint64_t{0}, high = 0;
  each_lane(lanes, [&](uint32_t l) {
    low = a[l] < low ? a[l] : low;
    high = a[l] > high ? a[l] : high;
  });
#endif
}

inline constexpr uintptr_t kNear = 8 * Cells::kPageBytes;  // ranges wider than this are asked lane by lane

// One look-up for all lanes where they lie in one piece of memory; else lane by lane. `only_near`: where no
// byte near them has an account, nothing more is found out, and no lane is anywhere.
template <bool OnlyNear = false>
inline void find_hosts(Warp& w, const AccessForm& f, const MemoryForm& m, PlaneOffset base, int64_t offset,
                       uint32_t bytes, uint32_t lanes, Hosts& out) {
  alignas(64) uint64_t address[kWarpSize];
  lane_addresses(w, base, m.base_bytes, offset, address);
  uint64_t low, high;
  bounds(address, lanes, low, high);
  const bool by_lane =
      m.space == Space::Local || m.space == Space::Param ||
      (m.space == Space::Generic && high >= vgpu::kLocalWindow && low < vgpu::kLocalWindowEnd);
  if (!by_lane && high - low < (uint64_t{1} << 40)) {
    const uintptr_t first = place(w, f, m, low, bytes, 0), last = place(w, f, m, high, bytes, 0);
    if (first != 0 && last != 0 && last - first == high - low) {
      if (OnlyNear && last - first < kNear && !f.cells->any(first, last + bytes - 1)) {
        out.lanes = 0;
        return;
      }
      for (uint32_t l = 0; l < kWarpSize; ++l) out.at[l] = first + (address[l] - low);
      out.lanes = lanes, out.first = first, out.last = last + bytes - 1;
      return;
    }
  }
  out.lanes = 0, out.first = ~uintptr_t{0}, out.last = 0;
  each_lane(lanes, [&](uint32_t l) {
    out.at[l] = place(w, f, m, address[l], bytes, l);
    if (out.at[l] == 0) return;
    out.lanes |= 1u << l;
    out.first = out.at[l] < out.first ? out.at[l] : out.first;
    out.last = out.at[l] + bytes - 1 > out.last ? out.at[l] + bytes - 1 : out.last;
  });
}

inline bool any_cells(Cells& cells, const Hosts& h, uint32_t bytes) {
  if (h.lanes == 0) return false;
  if (h.last - h.first < kNear) return cells.any(h.first, h.last);
  bool found = false;
  each_lane(h.lanes, [&](uint32_t l) { found = found || cells.any(h.at[l], h.at[l] + bytes - 1); });
  return found;
}

}  // namespace assay::shadow::ASSAY_BUILD
