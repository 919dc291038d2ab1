// Fragmentation: how much memory a pool would reserve for the program's allocations, and how much of it lies in gaps.
//
// Where the driver's own pools (cudaMallocAsync) place an allocation is not documented, and on the virtual GPU each tensor of
// PyTorch is an allocation of its own, at an address of its own. So the placement is computed, from sizes and the order of
// calls alone, by the rules of PyTorch's caching allocator with its default settings (c10/cuda/CUDACachingAllocator.cpp),
// on one stream:
//
//   - sizes are rounded up to 512 bytes;
//   - up to 1 MiB they come from segments of 2 MiB, below 10 MiB from segments of 20 MiB, and above from a segment of
//     their own, rounded up to 2 MiB;
//   - the smallest free block that is large enough is taken, the lowest of equal ones, and split if at least 512 bytes
//     (small) or more than 1 MiB (large) remain;
//   - a block that is freed is merged with free neighbours, and segments are kept.
//
// bench/activity/pool.py compares this with the allocator itself.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "activity/activity.h"

namespace assay::activity {

struct PoolBlock {
  uint64_t bytes = 0;
  std::optional<std::size_t> allocation;  // its position; none: a gap
};

struct PoolSegment {
  uint64_t bytes = 0;
  std::vector<PoolBlock> blocks;  // from its beginning to its end
};

struct Pool {
  std::size_t allocations = 0;  // that it served
  uint64_t reserved = 0;        // all segments; they are kept, so this is also the most
  uint64_t most_in_use = 0;     // bytes that the program asked for, at any time
  // When it is fullest, from the moment on at which it had all its segments:
  double seconds = 0;
  uint64_t in_use = 0, rounding = 0,
           gaps = 0;  // bytes that the program asked for; the rest of their blocks; free blocks
  std::vector<PoolSegment> segments;
};

// Of the allocations that are made from pools: by cudaMallocAsync, or by Python code.
Pool pool_of(const Activity& activity);

}  // namespace assay::activity
