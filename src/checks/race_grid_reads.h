// Reads of memory that a grid cannot write.
//
// Most kernels read some tensors and write others, and the code shows which: the address of every store comes from one
// pointer among the parameters (vgpu/provenance.h). A read of memory that its own grid cannot write conflicts with no
// access of that grid, only with operations that nothing orders with the grid. So one number for each row of 64 bytes
// is enough, where other accesses need three marks under a lock (race_shadow.h):
//
//   bits  0-15   words of the row that a grid has read
//        16-27   site   }
//        28-32   warp   }  of one of the reads
//        33-61   block  }
//
// A grid that begins says which allocations it may write and which it only reads (`begin_grid`). If it is not ordered
// after a writer of an allocation, its reads of it are treated like any others. A writer that begins later, and is not
// ordered after all readers, compares its writes with these numbers; grids that are still under way then stop using them
// (`is_disturbed`), since what they read from now on has to be compared with what was written.
//
// Reads take no lock: of two that read parts of a row at once, one may be forgotten.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "checks/address_pattern.h"
#include "checks/race_order.h"
#include "checks/race_shadow.h"
#include "vgpu/device.h"

namespace assay::checks {

// The loads of a launch whose reads are remembered here.
struct OnlyRead {
  std::vector<uint32_t> loads;            // Inst::source, sorted
  std::atomic<bool> is_disturbed{false};  // no longer: something may write what they read
};

class GridReads {
 public:
  explicit GridReads(const vgpu::Memory& memory);
  ~GridReads();
  GridReads(const GridReads&) = delete;
  GridReads& operator=(const GridReads&) = delete;

  // What a grid does, as far as its code tells.
  struct Uses {
    std::shared_ptr<OnlyRead> only_read;  // null: none
    bool meets_reads = false;             // its writes have to be compared with reads of other operations
  };
  // `ordered_below`: numbers below come before the operation (race_order.h).
  Uses begin_grid(const vgpu::LaunchInfo& launch, const Operation& operation, uint32_t ordered_below);
  void end_grid(const Operation& operation) { under_way_.erase(operation.last); }
  // The same for a copy, a fill or an access of the host, which writes from `address` on. Whether it meets reads.
  bool begin_write(vgpu::Address address, const Operation& operation, uint32_t ordered_below);

  // A read of whole words. False: the numbers cannot tell, because words are read in part or memory is not the device's.
  bool note(const Operation& grid, Who who, const AddressPattern& pattern);
  bool note(const Operation& grid, Who who, const vgpu::Access& access);

  // The read that is remembered of these words of the row at `start`; no words: none.
  struct Read {
    uint16_t words = 0;
    Who who;
  };
  Read read(vgpu::Address start, uint16_t words) const {
    const uint64_t index = (start - base_) / kRowBytes;
    const uint64_t row = index < count_ ? load(index) : 0;
    return {static_cast<uint16_t>(row & words), who_of(row)};
  }
  void clear();

 private:
  // Who used an allocation last: the last number of the operation (race_shadow.h).
  struct Use {
    vgpu::Address high = 0;
    uint32_t writer = 0, reader = 0;
  };

  const vgpu::Memory& memory_;
  vgpu::Address base_;
  uint64_t count_;  // of rows
  uint64_t* rows_ = nullptr;
  std::map<vgpu::Address, Use> uses_;  // by first address; apart
  uint32_t writer_ = 0, reader_ = 0;   // the last that may have written anywhere; the last that read anything

  std::map<uint32_t, std::shared_ptr<OnlyRead>> under_way_;  // by the last number of their grids

  uint64_t load(uint64_t index) const { return __atomic_load_n(rows_ + index, __ATOMIC_RELAXED); }
  static Who who_of(uint64_t row) {
    return Who::make(static_cast<uint32_t>(row >> 33), row >> 28 & 31, 0, kWeak, row >> 16 & kMostSites);
  }
  static uint64_t author_bits(Who who) {
    return uint64_t{who.block()} << 33 | uint64_t{who.warp()} << 28 | uint64_t{who.site()} << 16;
  }
  // Memory is about to be written: whether there was a read of it that is not ordered before.
  bool disturb(uint32_t reader, uint32_t ordered_below);
  Use& use_of(vgpu::Address low, vgpu::Address high);
  bool is_only_device(vgpu::Address low, vgpu::Address high) const;
  inline void note_words(const Operation& grid, uint64_t author, uint64_t index, uint64_t words);
  inline bool note_range(const Operation& grid, uint64_t author, vgpu::Address low, uint64_t bytes);
};

}  // namespace assay::checks
