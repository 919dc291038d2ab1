#include "vgpu/handlers/lanes.h"

namespace assay::vgpu::ASSAY_BUILD {

void poison_whole(Warp& warp, PlaneOffset dst, uint32_t lane_bytes, uint32_t lanes, uint32_t undefined) {
  if constexpr (kWatched) {
    std::byte* shadow = warp.shadow + dst;
    for (uint32_t l = 0; l < kWarpSize && lane_bytes != 0; ++l) {
      if (undefined >> l & 1) std::memset(shadow + l * lane_bytes, 0xff, lane_bytes);
    }
    uint32_t& p = warp.poisoned(dst);
    p = (p & ~lanes) | undefined;
  } else {
    (void)warp, (void)dst, (void)lane_bytes, (void)lanes, (void)undefined;
  }
}

}  // namespace assay::vgpu::ASSAY_BUILD
