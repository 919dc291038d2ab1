// What the race check remembers of memory: for each four bytes, the last write and the last read.
//
//   bits  0-11  site    the instruction (index in the check's table)
//        12-15  bytes   which of the four
//        16-17  order   0 weak, 1 strong within the block, 2 strong on the device
//        18-33  tick    of the warp, when it happened
//        34-38  lane
//        39-43  warp
//        44-63  block   numbered through all launches; 0: nothing yet
//
// Sixteen bytes for four: pages of the shadow appear when they are touched.
#pragma once

#include <cstdint>

namespace assay::checks {

struct Mark {
  uint64_t bits = 0;

  static Mark make(uint32_t block, uint32_t warp, uint32_t lane, uint32_t tick, uint32_t order, uint32_t bytes,
                   uint32_t site) {
    return {uint64_t{block} << 44 | uint64_t{warp} << 39 | uint64_t{lane} << 34 | uint64_t{tick} << 18 |
            uint64_t{order} << 16 | uint64_t{bytes} << 12 | site};
  }
  uint32_t block() const { return static_cast<uint32_t>(bits >> 44); }
  uint32_t warp() const { return bits >> 39 & 31; }
  uint32_t lane() const { return bits >> 34 & 31; }
  uint32_t tick() const { return bits >> 18 & 0xffff; }
  uint32_t order() const { return bits >> 16 & 3; }
  uint32_t bytes() const { return bits >> 12 & 15; }
  uint32_t site() const { return bits & 0xfff; }
  bool same_thread(Mark other) const { return (bits ^ other.bits) >> 34 == 0; }
};

inline constexpr uint32_t kMostTicks = 0xffff;
inline constexpr uint32_t kMostSites = 0xfff;
inline constexpr uint32_t kMostBlocks = 0xfffff;

struct Cell {
  Mark write, read;
};
static_assert(sizeof(Cell) == 16);

}  // namespace assay::checks
