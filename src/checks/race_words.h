// What the race check remembers of single words of device memory that lanes far apart access: those that work on one
// channel of an NHWC tensor, or write a matrix by columns.
//
// Marks of a row (race_shadow.h) cannot say who accessed which of its words when each belongs to another block, and
// cells have room for few authors. So weak loads and stores of this kind get three numbers for each word:
//
//   write    the last store
//   first    the first read since then
//   other    the latest read by another thread
//
//   bits  0-3    bytes    of the word; 0: nothing
//         4-8    lane
//         9-31   author   block, warp, tick and site: an index into a table, in the order of arrival
//
// Only open words (race_settled.h) have numbers here: marks and cells hold no write of the grid to them.
//
// Most words are read once in a grid. So that this costs a look at one number, all words of a row are marked when the grid
// opens it: `first` is the grid's own number, with no bytes. Who finds that there knows that the word is open and that
// it was not stored to. A write takes the mark away first.
//
// Reads take no lock. A thread that reads remembers that, and then looks whether the word is still open and who has
// written it; or, where it found the mark, whether any mark was taken away meanwhile (`closings`). A thread that writes
// closes the word or remembers its store, takes marks away, counts that, and then looks who has read it. So one of the
// two sees the other. Of two threads that read a word for the first time at once, one may be forgotten. When the table is
// full, accesses are remembered by marks and cells until a launch finds no other under way, and all is forgotten.
#pragma once

#include <array>
#include <atomic>

#include "checks/race_shadow.h"
#include "vgpu/watch.h"

namespace assay::checks {

// Authors that a block has used lately.
struct WordAuthors {
  struct Entry {
    Who who;
    uint32_t author = 0, version = 0;
  };
  std::array<Entry, 64> entries{};
};

class SingleWords {
 public:
  static constexpr uint32_t kNoGrid =
      1;  // the number of grids that have no marks: work before them may not be done

  SingleWords(vgpu::Address base, uint64_t bytes);
  ~SingleWords();
  SingleWords(const SingleWords&) = delete;
  SingleWords& operator=(const SingleWords&) = delete;

  // 0: there is no room.
  uint32_t author_of(WordAuthors& known, Who who);
  // The number of a grid, for its marks: authors from now on have a higher one.
  uint32_t number_grid();

  // The read of an open word.
  struct Read {
    uint32_t author, lane, bytes;
    Who who;                 // the author
    uint32_t first_author;   // the grid's own number: those below no longer matter, nor those
    uint32_t ordered_below;  // of blocks below this
  };
  // True: two blocks are remembered, of which this is one, that have each read the whole word; `other`: the other one.
  bool remember(vgpu::Address word, const Read& read, uint32_t& other) {
    const uint64_t index = index_of(word);
    const uint32_t now = read.author << kAuthorShift | read.lane << kLaneShift | read.bytes;
    const uint32_t first = __atomic_load_n(first_ + index, __ATOMIC_RELAXED);
    if (first == now) return false;
    if (first <= read.first_author << kAuthorShift) {  // or a mark, or nothing
      __atomic_store_n(first_ + index, now, __ATOMIC_RELAXED);
      return false;
    }
    return remember_again(index, first, now, read, other);
  }
  // The same for lanes that read one word each. Those for which it is done; the others, of which a thread has read
  // the word before, are left.
  uint32_t remember_lanes(const vgpu::Access& access, uint32_t lanes, const Read& read);
  static const bool kRemembersLanes;  // this processor can: else it does nothing
  // The same for lanes of which nothing is known: those for which it is done have found the grid's mark.
  uint32_t remember_marked(const vgpu::Access& access, uint32_t lanes, const Read& read);
  // A row is about to be opened: marks these of its words, unless something is remembered of them.
  void mark(vgpu::Address row, uint16_t words, uint32_t grid);
  // Words of the row at `address` are written: takes their marks away.
  void unmark(vgpu::Address address, uint16_t words);
  // How often marks were taken away.
  uint32_t closings() const { return closings_.load(std::memory_order_acquire); }
  void prefetch(vgpu::Address address) const {
    if (index_of(address) < count_) __builtin_prefetch(first_ + index_of(address), 1);
  }

  // The last store to a word; no bytes: none is remembered.
  Touch written(vgpu::Address word) const {
    const uint64_t index = index_of(word);
    return index < count_ ? touch_of(__atomic_load_n(write_ + index, __ATOMIC_RELAXED)) : Touch{};
  }
  // Remembers a store.
  void write(vgpu::Address word, uint32_t author, uint32_t lane, uint32_t bytes) {
    __atomic_store_n(write_ + index_of(word), author << kAuthorShift | lane << kLaneShift | bytes,
                     __ATOMIC_RELAXED);
  }
  // What is remembered of the reads of a word, to be compared with a write of some of its bytes, and then forgotten.
  template <class Judge>
  void take_reads(vgpu::Address word, uint32_t bytes, Judge judge) {
    const uint64_t index = index_of(word);
    if (index >= count_) return;
    for (uint32_t* place : {first_ + index, other_ + index}) take(place, bytes, judge);
  }
  // The same of its last store.
  template <class Judge>
  void take_write(vgpu::Address word, uint32_t bytes, Judge judge) {
    if (const uint64_t index = index_of(word); index < count_) take(write_ + index, bytes, judge);
  }
  // Nobody accesses memory now: if the table is half full, all is forgotten.
  void make_room();
  void clear();

 private:
  static constexpr uint32_t kLaneShift = 4, kAuthorShift = 9, kMostAuthors = 1u << (32 - kAuthorShift);
  static constexpr uint32_t kBytes = 0xf;
  vgpu::Address base_;
  uint64_t count_;  // of words
  uint32_t* first_ = nullptr;
  uint32_t* other_ = nullptr;
  uint32_t* write_ = nullptr;
  Who* authors_ = nullptr;  // kMostAuthors
  std::atomic<uint32_t> next_{kNoGrid + 1};
  std::atomic<uint32_t> version_{1};  // of the numbers of authors
  std::atomic<uint32_t> closings_{0};

  uint64_t index_of(vgpu::Address address) const { return (address - base_) / 4; }
  Touch touch_of(uint32_t number) const {
    if (number == 0) return {};
    return {authors_[number >> kAuthorShift], static_cast<uint8_t>(number >> kLaneShift & 31),
            static_cast<uint8_t>(number & kBytes), false};
  }
  template <class Judge>
  void take(uint32_t* place, uint32_t bytes, Judge judge) {
    const uint32_t there = __atomic_load_n(place, __ATOMIC_RELAXED);
    if ((there & kBytes) == 0) return;
    judge(touch_of(there));
    if ((there & kBytes & ~bytes) == 0) __atomic_store_n(place, 0, __ATOMIC_RELAXED);
  }
  uint32_t remember_wide(const vgpu::Access& access, uint32_t lanes, const Read& read);
  bool remember_again(uint64_t index, uint32_t first, uint32_t now, const Read& read, uint32_t& other);
};

}  // namespace assay::checks
