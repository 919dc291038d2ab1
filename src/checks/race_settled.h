// Words of device memory that a grid only reads.
//
// Where two blocks have read a word, and it was not written since the grid began, one more read of
// it adds nothing: nothing orders the blocks of the grid (`may_settle`), so any write to the word from
// now on meets one of the two reads that are remembered, whatever else was read. Such words are settled, and
// reading them costs a look at one number, without a lock:
//
//   bits  0-15   settled words of a row of 64 bytes
//        16-31   open words: no mark or cell of the row holds a write of the grid to them
//        32-60   the first block of the grid
//        61      stores to single words are remembered for the row (race_words.h)
//        62      the grid has asked which words are open
//        63      reads of single words are remembered for the row
//
// Only the thread that holds a row's lock changes its number, except that `add` may make open words settled.
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

  // What is known of the words of the row at `address` in a grid.
  struct Words {
    uint16_t settled = 0, open = 0;
    bool asked = false;   // the grid has asked which words are open
    bool stored = false;  // stores to single words are remembered for the row
  };
  [[gnu::always_inline]] Words words(uint32_t grid, vgpu::Address address) const {
    const uint64_t index = index_of(address), row = index < count_ ? load(index) : 0;
    const bool stored = (row & kHasStores) != 0;
    if ((row & kGridBits) != grid_bits(grid)) return {0, 0, false, stored};
    return {static_cast<uint16_t>(row), static_cast<uint16_t>(row >> kOpenShift), (row & kAsked) != 0,
            stored};
  }
  bool has_stores(vgpu::Address address) const { return has(address, kHasStores); }
  // Anything is known of the row: words that are settled or open, or accesses to single words.
  bool is_known(vgpu::Address address) const { return has(address, ~kGridBits); }
  // Accesses to single words are remembered for the row.
  bool has_words(vgpu::Address address) const { return has(address, kHasStores | kHasReads); }
  // Of these lanes of an access, of a power of two of bytes, those whose words are all open.
  // `stored`: those of whose rows stores to single words are remembered.
  uint32_t open_lanes(uint32_t grid, const vgpu::Access& access, uint32_t lanes) const {
    uint32_t stored = 0;
    return open_lanes(grid, access, lanes, stored);
  }
  uint32_t open_lanes(uint32_t grid, const vgpu::Access& access, uint32_t lanes, uint32_t& stored) const;
  void prefetch(vgpu::Address address) const {
    if (index_of(address) < count_) __builtin_prefetch(rows_ + index_of(address));
  }
  // Open words stay open.
  void set(uint32_t grid, vgpu::Address address, uint16_t words);
  void unsettle(vgpu::Address address);  // all words
  // From now on reads of its single words may be remembered.
  void open(uint32_t grid, vgpu::Address address, uint16_t words);
  // Makes words settled that are open.
  void add(uint32_t grid, vgpu::Address address, uint16_t words);
  // Words are written. Whether accesses to single words may be remembered for the row.
  bool write(uint32_t grid, vgpu::Address address, uint16_t words);
  // Open words are written, and that will be remembered as a store to single words.
  void store(vgpu::Address address);
  void forget_stores(vgpu::Address address);
  void clear();

 private:
  static constexpr uint32_t kOpenShift = 16, kGridShift = 32;
  static constexpr uint64_t kSettledBits = 0xffff, kOpenBits = kSettledBits << kOpenShift;
  static constexpr uint64_t kGridBits = uint64_t{0x1fffffff} << kGridShift;
  static constexpr uint64_t kHasStores = uint64_t{1} << 61, kAsked = uint64_t{1} << 62,
                            kHasReads = uint64_t{1} << 63;
  vgpu::Address base_;
  uint64_t count_;  // of rows
  uint64_t* rows_ = nullptr;

  // Past the last row where there is none.
  uint64_t index_of(vgpu::Address address) const { return (address - base_) / 64; }
  bool has(vgpu::Address address, uint64_t bits) const {
    const uint64_t index = index_of(address);
    return index < count_ && (load(index) & bits) != 0;
  }
  static uint64_t grid_bits(uint32_t grid) { return uint64_t{grid} << kGridShift; }
  bool covers_range(uint64_t grid, vgpu::Address low, uint64_t bytes) const;
  bool covers_lanes(uint64_t grid, const vgpu::Access& access) const;
  bool covers_lanes_wide(uint64_t grid, const vgpu::Access& access) const;
  uint32_t open_lanes_wide(uint64_t grid, const vgpu::Access& access, uint32_t lanes, uint32_t& stored) const;
  uint64_t load(uint64_t index) const { return __atomic_load_n(rows_ + index, __ATOMIC_RELAXED); }
  void replace(uint64_t index, uint64_t before, uint64_t row) {
    if (row != before) __atomic_store_n(rows_ + index, row, __ATOMIC_RELAXED);
  }
};

inline void SettledRows::set(uint32_t grid, vgpu::Address address, uint16_t words) {
  const uint64_t index = index_of(address);
  if (index >= count_) return;
  const uint64_t before = load(index);
  uint64_t row = before & (kHasReads | kHasStores);
  if (words != 0) row |= grid_bits(grid) | words;
  if ((before & kGridBits) == grid_bits(grid)) row |= before & (kOpenBits | kGridBits | kAsked);
  replace(index, before, row);
}

inline void SettledRows::unsettle(vgpu::Address address) {
  const uint64_t index = index_of(address);
  if (index >= count_) return;
  const uint64_t before = load(index);
  replace(index, before, before & ~kSettledBits);
}

inline bool SettledRows::write(uint32_t grid, vgpu::Address address, uint16_t words) {
  const uint64_t index = index_of(address);
  if (index >= count_) return false;
  const uint64_t before = load(index);
  uint64_t row = before & (kHasReads | kHasStores);
  if (row != 0 && (before & kGridBits) == grid_bits(grid))
    row |= (before & (kGridBits | kOpenBits | kAsked)) & ~(uint64_t{words} << kOpenShift);
  replace(index, before, row);
  return row != 0;
}

// Whether nothing in a kernel could order two of its blocks.
bool may_settle(const vgpu::Kernel& kernel);

}  // namespace assay::checks
