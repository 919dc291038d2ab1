// Which bytes of an allocation were read: a byte of marks for each granule of four bytes.
//
// Nearly all reads are of whole granules. Those are marked by plain stores, whatever other threads mark at the same time:
// every thread that marks a granule as a whole stores the same value. With one bit per byte of the allocation, each lane of a
// strided read would need a locked instruction.
#pragma once

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
  static constexpr uint64_t kGranule = 4;

  // For an allocation of so many bytes, none of them read. No memory for it: it does not count.
  explicit ReadMarks(uint64_t bytes)
      : bytes_(bytes),
        words_(bytes / kBytesPerWord + 1),
        marks_(static_cast<uint8_t*>(std::calloc(words_, sizeof(uint64_t)))) {}

  uint8_t* data() const { return marks_.get(); }

  static void mark_word(uint8_t* marks, uint64_t first) { marks[first / kGranule] = kWhole; }
  // Marks bytes [first, first + bytes) of the allocation that `marks` belongs to.
  [[gnu::always_inline]] static void mark(uint8_t* marks, uint64_t first, uint64_t bytes) {
    if ((first | bytes) % kGranule != 0) return mark_parts(marks, first, bytes);
    uint8_t* const from = marks + first / kGranule;
    if (bytes == 128)  // a word per lane of a warp: one store
      std::memset(from, kWhole, 128 / kGranule);
    else if (bytes == 64)
      std::memset(from, kWhole, 64 / kGranule);
    else if (bytes == kGranule)
      mark_word(marks, first);
    else
      std::memset(from, kWhole, bytes / kGranule);
  }

  uint64_t count() const {
    if (bytes_ % kGranule == 0 && is_filled(marks_.get(), bytes_ / kGranule, kWhole)) return bytes_;
    uint64_t read = 0;
    for (uint64_t i = 0; i < words_; ++i) {
      uint64_t word = 0;
      std::memcpy(&word, marks_.get() + i * sizeof word, sizeof word);
      read += static_cast<uint64_t>(std::popcount(word));
    }
    return read;
  }

 private:
  static constexpr uint64_t kBytesPerWord = kGranule * sizeof(uint64_t);
  static constexpr uint8_t kWhole = (1 << kGranule) - 1;

  [[gnu::noinline]] static void mark_parts(uint8_t* marks, uint64_t first, uint64_t bytes) {
    for (const uint64_t end = first + bytes; first < end;) {
      uint8_t& granule = marks[first / kGranule];
      if (first % kGranule == 0 && end - first >= kGranule) {
        granule = kWhole;
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
  uint64_t bytes_, words_;
  std::unique_ptr<uint8_t, Free> marks_;
};

}  // namespace assay::cudart
