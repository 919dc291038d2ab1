// Errors of values in memory, in every space, by the host address of an element's last byte.
//
// Each account stores the bits it belongs to. If the memory holds other bits when it is read, they were
// written unobserved, and the account is dropped. Pages of accounts exist only where there are errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "shadow/errors.h"

namespace assay::shadow {

class Cells {
 public:
  static constexpr unsigned kPageShift = 14;
  static constexpr uintptr_t kPageBytes = uintptr_t{1} << kPageShift;

  // Does any byte of [first, last] have an account? Cheap.
  bool any(uintptr_t first, uintptr_t last);
  // The account of the element that ends with the byte at `last`; null: there is none, or its bits are gone.
  const Error* find(uintptr_t last);
  // `size`: of the element, for its bits; `number`: what it is (Number), for those who read it. The bits are
  // those that memory holds now.
  void put(uintptr_t last, uint32_t size, uint8_t number, const Error& error);
  // Forgets the accounts of [first, first + bytes).
  void clear(uintptr_t first, uint64_t bytes);
  // Copies the accounts of a range to another, bits included: for copies that take effect later.
  void copy(uintptr_t to, uintptr_t from, uint64_t bytes);
  // Every valid account of a range, in order.
  void each(uintptr_t first, uint64_t bytes,
            const std::function<void(uintptr_t last, uint32_t size, uint8_t number, const Error&)>& visit);

  bool none() const { return total_ == 0; }
  uint64_t dropped() const { return dropped_; }  // for lack of room

 private:
  struct Tag {
    uint32_t bits;
    uint8_t size, number;
  };
  struct Page {
    unsigned shift = 0;  // accounts lie 2^shift bytes apart
    uint32_t count = 0;
    uint64_t present[kPageBytes / 64] = {};  // by last byte
    std::unique_ptr<Tag[]> tags;
    std::unique_ptr<Error[], void (*)(Error*)> errors{nullptr, nullptr};
    bool has(uintptr_t at) const { return (present[at / 64] >> (at % 64) & 1) != 0; }
  };
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  uintptr_t known_number_ = ~uintptr_t{0};  // the page looked up last
  Page* known_ = nullptr;
  uint64_t bytes_ = 0, dropped_ = 0, total_ = 0;  // total_: accounts

  Page* page(uintptr_t number) {
    if (number == known_number_) return known_;
    return look_up(number);
  }
  Page* look_up(uintptr_t number);
  Page* make(uintptr_t number, uint32_t size);
  bool reshape(Page& page, unsigned shift);
  static uint32_t bits_at(uintptr_t last, uint32_t size);
};

}  // namespace assay::shadow
