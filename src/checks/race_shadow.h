// What the race check remembers of device memory: who wrote and who read it last.
//
// Memory is divided into rows of 64 bytes. Most accesses of a warp are regular: lane after lane, or all lanes
// at one place. A row then needs one mark for all its 16 words:
//
//   write   the last write
//   read    the first read since it
//   other   the latest read by another thread
//
// A mark says who (block, warp, tick, order, site), which words, and which lane had which byte. That is 48
// bytes for 64. What a mark cannot say makes the row *apart*: it gets a cell of 16 bits for every word and
// kind, which names one of up to 11 authors, a lane and the bytes (144 bytes more for up to 5 authors, 192
// for more). Older accesses are forgotten when the authors run out, which can hide a race but never invents
// one. Rows appear when they are touched.
//
// Much memory is written once by a launch, row by row, and not touched again until a later one. Such rows are not
// touched at all: 64 bits for each (WholeWrite) say which warp wrote all of it. They are spread into the row when a thread
// asks for it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "vgpu/memory.h"

namespace assay::checks {

//   bits  0-11  site    the instruction (race_sites.h)
//        12-13  order   Strength
//        14-29  tick    of the warp, when it happened
//        30-34  warp
//        35-63  block   numbered through all operations; 0: nothing yet
struct Who {
  uint64_t bits = 0;

  static Who make(uint32_t block, uint32_t warp, uint32_t tick, uint32_t order, uint32_t site) {
    return {uint64_t{block} << 35 | uint64_t{warp} << 30 | uint64_t{tick} << 14 | uint64_t{order} << 12 |
            site};
  }
  uint32_t block() const { return static_cast<uint32_t>(bits >> 35); }
  uint32_t warp() const { return bits >> 30 & 31; }
  uint32_t tick() const { return bits >> 14 & 0xffff; }
  uint32_t order() const { return bits >> 12 & 3; }
  uint32_t site() const { return bits & 0xfff; }
  bool operator==(const Who&) const = default;
};

// How an access is ordered: not at all, strongly within the block or on the device, or in flight (cp.async).
enum Strength : uint32_t { kWeak = 0, kStrongInBlock = 1, kStrong = 2, kInFlight = 3 };

// A copy or a fill has no ticks; this in their place says that it wrote.
inline constexpr uint32_t kCopyWrites = 1;

inline constexpr uint32_t kMostTicks = 0xffff;
inline constexpr uint32_t kMostSites = 0xfff;
inline constexpr uint32_t kMostBlocks = (1u << 29) - 1;
inline constexpr uint32_t kRowBytes = 64, kRowWords = 16, kAllWords = 0xffff;

inline constexpr uint8_t kAnyLane = 0xff;  // which lane of the warp it was is not known

// One side of a comparison: who, by which lane, which bytes of a word.
struct Touch {
  Who who;
  uint8_t lane = 0;
  uint8_t bytes = 0;     // of the word's four
  bool several = false;  // other lanes of the warp did the same at the same time
  uint8_t shift = 2;     // byte b belongs to lane + (b >> shift) * stride
  uint8_t stride = 0;
  explicit operator bool() const { return bytes != 0; }
  bool is_split() const { return shift < 2; }  // among lanes; then it has all bytes
  uint8_t lane_of(uint32_t byte) const { return static_cast<uint8_t>(lane + (byte >> shift) * stride); }
  // What one lane had of the `common` bytes: the lane of the first.
  Touch part(uint32_t common) const;
};

struct RowMark {
  static constexpr uint8_t kOneLane = 7;  // a shift by which all bytes of a row are one lane's
  Who who;
  uint16_t words = 0;  // of the row; 0: nothing
  int16_t base = 0;    // byte b belongs to lane base + (b >> shift) * stride
  uint8_t shift = 0;
  uint8_t stride = 1;
  bool several = false;  // every word by several lanes; `base` is then one of them

  bool same_lanes(const RowMark& m) const {
    return base == m.base && shift == m.shift && stride == m.stride && several == m.several;
  }
  bool same_author(const RowMark& m) const { return who == m.who && same_lanes(m); }
  uint8_t lane_of(uint32_t byte) const {
    return static_cast<uint8_t>(base + static_cast<int32_t>(byte >> shift) * stride);
  }
  Touch at(uint32_t word) const;
  // Whether `at` says all.
  bool fits_cells() const { return shift >= 2 || stride <= 15; }
};

// A weak write of all words of a row: its mark in 64 bits, those of a Who. In place of the order, which is weak, and of
// the two highest bits of the block, which are zero, they hold a code of the lanes:
//
//   0      two bytes each, from lane 0 on
//   1      all of them lane 0: copies and fills
//   2-15   1 << shift bytes each, for shifts of 2 to 4: 1 << (shift - 1), plus which row of the warp's run it is
struct WholeWrite {
  static constexpr uint64_t kOther = 1;  // no Who, as its block is 0: the row has more to say
  uint64_t bits = 0;                     // 0: nothing was ever written or read

  // `kOther` where it is no weak write of a whole row, or not by neighbouring lanes.
  static WholeWrite of(const RowMark& mark);
  RowMark mark() const;
};

struct Cells {
  static constexpr uint16_t kAuthor = 15, kSplit = 1 << 4;
  static constexpr uint16_t kWrote = 1 << 15;  // in `other`: a write of bytes that the last write left alone
  static constexpr uint8_t kFew = 5, kMany = 11;  // authors that there is room for
  uint16_t write[kRowWords], read[kRowWords], other[kRowWords];
  uint32_t newest;  // stamp of the last change
  uint8_t count;    // of authors, which follow; number 0 stands for none
  uint8_t room;     // for so many
  bool forgot;      // something was dropped that may still matter

  static constexpr size_t bytes_of(uint8_t room) { return sizeof(Cells) + room * sizeof(Who); }
  Who* authors() { return reinterpret_cast<Who*>(this + 1); }
  const Who* authors() const { return reinterpret_cast<const Who*>(this + 1); }
  // The number of an author; 0: it is not among them.
  uint32_t find(Who who) const;

  Touch get(uint16_t cell) const;
  uint16_t put(const Touch& touch);  // 0 when there is no room
  // A write comes in; what is left of the one before it takes the place of a read.
  void put_write(uint32_t word, const Touch& touch);
  static uint16_t encode(uint32_t author, const Touch& touch);
  void collect();  // drops authors that no cell names, and what is old if need be
};
static_assert(sizeof(Cells) == 104);

struct Row {
  RowMark write, read, other;
  Cells* cells() const { return write.shift == kApart ? reinterpret_cast<Cells*>(write.who.bits) : nullptr; }
  void set_cells(Cells* at) {
    *this = {};
    write.who.bits = reinterpret_cast<uintptr_t>(at);
    write.shift = kApart;
  }

 private:
  static constexpr uint8_t kApart = 0xff;
};
static_assert(sizeof(Row) == 48);

// Cells of rows that are apart; given back, or all at once.
class CellPool {
 public:
  Cells* take(uint8_t room);  // or more
  void give_back(Cells* cells) { free_[cells->room].push_back(cells); }
  void clear();

 private:
  static constexpr size_t kChunk = 32;
  struct Chunk {
    std::unique_ptr<std::byte[]> cells;
    uint8_t room;
  };
  std::vector<Chunk> chunks_;
  std::array<std::vector<Cells*>, Cells::kMany + 1> free_;  // by room

  void set_free(const Chunk& chunk);
};

// Rows of device memory, and of host memory that the device uses.
class RowShadow {
 public:
  RowShadow(vgpu::Address base, uint64_t bytes);
  ~RowShadow();
  RowShadow(const RowShadow&) = delete;
  RowShadow& operator=(const RowShadow&) = delete;

  Row& at(vgpu::Address address) {
    const uint64_t index = (address - base_) / kRowBytes;
    if (index >= count_ || address < base_) return host_row(address);
    if (whole_[index].bits != WholeWrite::kOther) spread(index);
    return rows_[index];
  }
  // What is known of a row of which a whole write may be all there is; null: it has a Row only.
  WholeWrite* whole(vgpu::Address address) {
    const uint64_t index = (address - base_) / kRowBytes;
    return index < count_ ? whole_ + index : nullptr;
  }
  // The rows of [low, high) will be wanted soon; what lies between the first and the last does not count.
  void prefetch(vgpu::Address low, vgpu::Address high) const {
    const uint64_t first = (low - base_) / kRowBytes, last = (high - 1 - base_) / kRowBytes;
    if (first >= count_ || last >= count_) return;
    __builtin_prefetch(whole_ + first, 1);
    __builtin_prefetch(rows_ + first, 1);
    __builtin_prefetch(reinterpret_cast<const char*>(rows_ + last + 1) - 1, 1);
  }
  // Whether more than a whole write is known of a row, as far as can be seen without its lock.
  bool is_detailed(vgpu::Address address) const {
    const uint64_t index = (address - base_) / kRowBytes;
    return index >= count_ || __atomic_load_n(&whole_[index].bits, __ATOMIC_RELAXED) == WholeWrite::kOther;
  }
  // The same where whole rows are expected to be written.
  void prefetch_whole(vgpu::Address low) const {
    const uint64_t first = (low - base_) / kRowBytes;
    if (first < count_) __builtin_prefetch(whole_ + first, 1);
  }
  // Makes a row apart, with what its marks say, and room for one who touches it now.
  Cells* take_apart(Row& row, Who now);
  void join(Row& row);  // empties it, and gives its cells back
  void clear();

 private:
  Row& host_row(vgpu::Address address);
  void spread(uint64_t index);

  static constexpr uint64_t kChunkRows = 512;
  vgpu::Address base_;
  uint64_t count_, reserved_ = 0;
  Row* rows_ = nullptr;  // of one whose whole_ is not kOther, nothing counts
  WholeWrite* whole_ = nullptr;
  std::mutex mutex_;  // of what follows
  std::unordered_map<uint64_t, std::unique_ptr<Row[]>> host_rows_;
  CellPool pool_;
};

}  // namespace assay::checks
