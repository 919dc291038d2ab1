// Words of device memory that a grid only reads.
//
// Where two blocks have read a word, and nobody has written it since before the grid began, one more read of
// it teaches nothing: nothing orders the blocks of the grid (`may_settle`), so whoever writes the word from
// now on meets one of the two reads that are remembered, whatever else was read. Such words are settled, and
// reading them costs a look at one number, without a lock:
//
//   bits  0-15   words of a row of 64 bytes
//        32-63   the first block of the grid
//
// Only the thread that holds a row's lock changes its number.
#pragma once

#include <cstdint>

#include "checks/address_pattern.h"
#include "vgpu/device.h"

namespace assay::checks {

class SettledRows {
 public:
  SettledRows(vgpu::Address base, uint64_t bytes);
  ~SettledRows();
  SettledRows(const SettledRows&) = delete;
  SettledRows& operator=(const SettledRows&) = delete;

  // Whether all that an access touches is settled for a grid.
  bool covers(uint32_t grid, const vgpu::Access& access) const;
  bool covers(uint32_t grid, const AddressPattern& pattern) const;  // of a shape

  // The words of the row at `address` that are settled for a grid.
  uint16_t words(uint32_t grid, vgpu::Address address) const;
  void set(uint32_t grid, vgpu::Address address, uint16_t words);
  void clear(vgpu::Address address) { set(0, address, 0); }
  void clear();

 private:
  vgpu::Address base_;
  uint64_t count_;  // of rows
  uint64_t* rows_ = nullptr;

  // Past the last row where there is none.
  uint64_t index_of(vgpu::Address address) const { return (address - base_) / 64; }
  bool covers_range(uint64_t grid, vgpu::Address low, uint64_t bytes) const;
  bool covers_lanes(uint64_t grid, const vgpu::Access& access) const;
  bool covers_lanes_wide(uint64_t grid, const vgpu::Access& access) const;
};

// Whether nothing in a kernel could order two of its blocks.
bool may_settle(const vgpu::Kernel& kernel);

}  // namespace assay::checks
