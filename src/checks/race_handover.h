// A message between threads without a fence: one thread writes a datum and then a flag, another polls the flag and then
// reads the datum, all by volatile or relaxed accesses.
//
//     data[i] = x;                  while (flag[i] == 0) {}
//     flag[i] = 1;                  use(data[i]);
//
// Such accesses are strong, so no two of them race. But nothing orders the two writes: another thread may see the flag
// first, on every GPU. The pair is reported if the thread that polled has seen a write to the flag that came after the
// write of the datum in the thread that made both, with nothing between the two that orders memory (not even a
// barrier), and if nothing else orders the datum's write before the read. Polls themselves are never reported.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>

#include "checks/race_shadow.h"
#include "vgpu/device.h"

namespace assay::checks {

struct Actor;
struct RaceContext;

class HandOvers {
 public:
  // Whether a kernel polls device memory by volatile loads: only then anything is remembered.
  bool polls(const vgpu::Kernel& kernel);
  void clear();  // a new launch, with no other under way
  // A strong access to device memory, before it takes effect. Under the context's mutex. The write that it should have
  // been ordered after, and where; none: nothing is wrong.
  struct Unordered {
    Touch write, read;
    vgpu::Address address = 0;
  };
  bool access(const RaceContext& context, const Actor& actor, bool awaited, Unordered& found);

 private:
  struct Write {
    Touch touch;
    uint64_t number = 0;  // of all writes, in the order in which they happened
  };
  // A thread, or where it does not matter which lane, a warp.
  static uint64_t key_of(const Who& who, uint32_t lane) {
    return uint64_t{who.block()} << 10 | uint64_t{who.warp()} << 5 | lane;
  }
  void heard(const Actor& actor, const Write& flag);
  bool is_unordered(const Actor& actor, const Write& datum) const;

  uint64_t number_ = 0;
  std::unordered_map<vgpu::Address, Write> writes_;  // by word: the last
  // By warp that polled, by thread whose write it saw: the latest such write.
  std::unordered_map<uint64_t, std::unordered_map<uint64_t, Write>> heard_;
  std::map<const vgpu::Function*, bool> polls_;
};

}  // namespace assay::checks
