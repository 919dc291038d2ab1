// Copies in flight, by warp (async.h says when they take effect).
#pragma once

#include <vector>

#include "vgpu/async.h"

namespace assay::vgpu {

struct SmallCopy {  // cp.async of one lane: the bytes were read when it was issued
  std::byte* to;
  uint8_t* initialised;  // of `to`
  uint64_t first_bit;
  uint32_t group;
  uint8_t lane, bytes;
  const PlaceForm* target;  // for listeners: the instruction, and where `to` is
  Address address;
  uint8_t undefined[16];
  std::byte data[16];
};

struct BulkCopy {
  std::byte* to;
  const std::byte* from;
  uint8_t *to_initialised, *from_initialised;
  uint64_t to_bit, from_bit;
  uint32_t bytes;
  uint32_t group;
  uint32_t lane;
  uint16_t byte_mask;                // bytes of each 16 that are copied
  bool exclusive;                    // `to` is shared memory
  std::byte* barrier;                // its word; null: bulk groups count
  const PlaceForm* target;           // for listeners, where it has a barrier: the instruction, …
  Address address, barrier_address;  // … where `to` is and where the barrier
  const PlaceForm* source;           // where it has none, and `from` is shared memory of the block
  Address source_address;
  void (*reduce)(std::byte* to, const std::byte* from, uint32_t bytes, bool exclusive);
};

struct AsyncCopies {
  std::vector<SmallCopy> small;
  std::vector<BulkCopy> bulk;
  uint32_t groups[kWarpSize] = {};  // committed so far, by lane: also the number of the open one
  uint32_t bulk_groups[kWarpSize] = {};
};

// Bulk copies of the cluster that report to the mbarrier at `word` take effect.
void finish_bulk_for(Warp& warp, const std::byte* word);

}  // namespace assay::vgpu
