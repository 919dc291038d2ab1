// Writes to shared memory that bulk copies may not see yet.
//
// Threads access memory through the generic proxy, bulk copies (cp.async.bulk, cp.reduce.async.bulk) through the async
// proxy. A barrier orders the two, but a copy sees what threads wrote only if a fence.proxy.async stands between: by
// the thread that wrote, after its write, or by a thread that the write is ordered before. Remembered are the words of
// a block's shared memory that were written without such a fence since.
#pragma once

#include <cstdint>
#include <vector>

#include "checks/race_clock.h"
#include "checks/race_shadow.h"
#include "vgpu/device.h"
#include "vgpu/watch.h"

namespace assay::checks {

class UnfencedWrites {
 public:
  struct Write {
    Who who;
    uint32_t word = 0;
    uint8_t lane = 0;
  };
  // A block begins, with so many bytes of shared memory; 0: its kernel has no such copies.
  void begin(uint32_t bytes);
  bool wanted() const { return !places_.empty(); }
  void write(Who who, const vgpu::Access& access);
  // By some lanes of a warp; all its lanes are taken to have come.
  void fence(const BlockClock& clock, uint32_t warp);
  // The first that a copy of these bytes would miss.
  const Write* find(vgpu::Address low, uint64_t bytes) const;

 private:
  std::vector<Write> writes_;
  std::vector<uint32_t> places_;  // by word: in writes_, from 1; 0: none
};

// Whether a kernel may have copies that read shared memory through the async proxy.
bool has_bulk_copies(const vgpu::Kernel& kernel);

}  // namespace assay::checks
