// The fields of an mbarrier's 64-bit word (async.h shows the layout).
#pragma once

#include <cstddef>
#include <cstdint>

namespace assay::vgpu {

struct BarrierWord {
  uint32_t expected, pending;  // arrivals
  int32_t transactions;        // bytes still to come
  bool phase;
  bool valid;

  static constexpr uint32_t kMost = (1u << 20) - 1;
  static constexpr uint64_t kTag = uint64_t{2} << 62;

  static BarrierWord unpack(uint64_t word) {
    return {static_cast<uint32_t>(word & kMost), static_cast<uint32_t>(word >> 20 & kMost),
            static_cast<int32_t>(word >> 40 & 0x1fffff) - (1 << 20), (word >> 61 & 1) != 0, word >> 62 == 2};
  }
  uint64_t pack() const {
    const auto bytes = static_cast<uint64_t>(transactions + (1 << 20)) & 0x1fffff;
    return kTag | uint64_t{phase} << 61 | bytes << 40 | uint64_t{pending} << 20 | expected;
  }
  // The phase ends when nobody and nothing is awaited any more.
  void settle() {
    if (pending != 0 || transactions != 0) return;
    phase = !phase;
    pending = expected;
  }
};

// Bytes have arrived for the barrier at `word`.
void complete_transaction(std::byte* word, uint32_t bytes);
// One arrival; false when nobody was awaited.
bool arrive_once(std::byte* word);

}  // namespace assay::vgpu
