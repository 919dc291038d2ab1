// Which bytes of an allocation were read: a mark for each row of 64 bytes that was read as a whole, and one for each granule of
// four bytes of the other rows.
//
// Nearly all reads of a warp are of whole rows: one or two stores, in marks that are small enough to stay in the cache. The
// marks of granules take memory, and time to clear, only if something was read in another way. Both are plain stores,
// whatever other threads mark at the same time: every thread that marks a row or granule as a whole stores the same value.
// With one bit per byte of the allocation, each lane of a strided read would need a locked instruction.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace assay::cudart {

// Whether each of `count` bytes has this value. memcmp() of the C library is faster than counting bits.
inline bool is_filled(const uint8_t* bytes, uint64_t count, uint8_t value) {
  return count == 0 || (bytes[0] == value && std::memcmp(bytes, bytes + 1, count - 1) == 0);
}

class ReadMarks {
 public:
  static constexpr uint64_t kRow = 64, kGranule = 4;

  // For an allocation of so many bytes, none of them read.
  explicit ReadMarks(uint64_t bytes) : bytes_(bytes), rows_(cleared(bytes / kRow + 1)) {}
  ~ReadMarks() { std::free(granules_.load()); }
  ReadMarks(const ReadMarks&) = delete;
  ReadMarks& operator=(const ReadMarks&) = delete;

  // False: there was no memory for marks, so the bytes are not known.
  bool is_known() const { return rows_ && !has_failed_; }

  // Marks bytes [first, first + bytes) of the allocation.
  [[gnu::always_inline]] void mark(uint64_t first, uint64_t bytes) {
    if ((first | bytes) % kRow != 0) return mark_parts(first, bytes);
    uint8_t* const from = rows_.get() + first / kRow;
    if (bytes == 2 * kRow)  // a word per lane of a warp
      std::memset(from, kWholeRow, 2);
    else if (bytes == kRow)
      *from = kWholeRow;
    else
      std::memset(from, kWholeRow, bytes / kRow);
  }

  // One byte for each granule, for reads of single words; null: there is no memory.
  uint8_t* granules() {
    uint8_t* const made = granules_.load(std::memory_order_acquire);
    return made ? made : make_granules();
  }
  static void mark_word(uint8_t* granules, uint64_t first) { granules[first / kGranule] = kWholeGranule; }

  uint64_t count() const {
    const uint64_t whole = bytes_ / kRow;  // the last row may be cut short
    const uint8_t* const granules = granules_.load();
    uint64_t read = 0;
    if (is_filled(rows_.get(), whole, kWholeRow))
      read = whole * kRow;
    else
      for (uint64_t row = 0; row < whole; ++row)
        read += rows_.get()[row] ? kRow : granules ? bits_of(granules + row * kGranulesOfARow) : 0;
    return granules ? read + bits_of(granules + whole * kGranulesOfARow) : read;
  }

 private:
  static constexpr uint64_t kGranulesOfARow = kRow / kGranule;
  static constexpr uint8_t kWholeRow = 1, kWholeGranule = (1 << kGranule) - 1;

  static uint8_t* cleared(uint64_t bytes) { return static_cast<uint8_t*>(std::calloc(bytes, 1)); }

  // Of the granules of one row.
  static uint64_t bits_of(const uint8_t* granules) {
    uint64_t words[kGranulesOfARow / sizeof(uint64_t)];
    std::memcpy(words, granules, sizeof words);
    uint64_t bits = 0;
    for (const uint64_t word : words) bits += static_cast<uint64_t>(std::popcount(word));
    return bits;
  }

  [[gnu::noinline]] uint8_t* make_granules() {
    uint8_t* made = cleared((bytes_ / kRow + 1) * kGranulesOfARow);
    uint8_t* first = nullptr;
    if (!made) has_failed_ = true;
    if (!made || granules_.compare_exchange_strong(first, made)) return made;
    std::free(made);  // another thread was faster
    return first;
  }

  [[gnu::noinline]] void mark_parts(uint64_t first, uint64_t bytes) {
    uint8_t* const marks = granules();
    if (!marks) return;
    if ((first | bytes) % kGranule == 0) {
      std::memset(marks + first / kGranule, kWholeGranule, bytes / kGranule);
      return;
    }
    for (const uint64_t end = first + bytes; first < end;) {
      uint8_t& granule = marks[first / kGranule];
      if (first % kGranule == 0 && end - first >= kGranule) {
        granule = kWholeGranule;
        first += kGranule;
        continue;
      }
      uint8_t bits = 0;
      do bits = static_cast<uint8_t>(bits | (1 << first % kGranule));
      while (++first < end && first % kGranule != 0);
      if ((__atomic_load_n(&granule, __ATOMIC_RELAXED) & bits) != bits)
        __atomic_fetch_or(&granule, bits, __ATOMIC_RELAXED);
    }
  }

  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  const uint64_t bytes_;
  const std::unique_ptr<uint8_t, Free> rows_;
  std::atomic<uint8_t*> granules_{nullptr};
  std::atomic<bool> has_failed_{false};
};

}  // namespace assay::cudart
