// Warp-synchronous code: volatile accesses of the lanes of one warp to shared memory.
//
// Volatile accesses are strong, so for the memory model two of them are no race. But a lane that reads what another
// lane of its warp writes, with nothing that orders the two, gets the old or the new value as the lanes happen to run:
// the code takes for granted that they run in step, which no GPU since Volta promises. Such a pair is reported if the
// write changes the value, unless the code waits for it (wait_loops.h).
//
// What orders a pair: a warp or block barrier, by the clocks of race_clock.h. Beyond the rules of race_clock.h, a
// lane that takes part in a shuffle or vote, that waits in a loop, or that gets the old value of an atomic is taken
// to have heard of everything so far: such code works on every GPU.
#pragma once

#include <array>
#include <cstdint>
#include <unordered_map>

#include "checks/race_shadow.h"
#include "vgpu/warp.h"

namespace assay::checks {

struct Actor;
struct RaceContext;

class LaneRaces {
 public:
  void clear() {
    if (words_.empty()) return;
    words_.clear();
    heard_.clear();
  }
  // A volatile load or store of the block's own shared memory, before it takes effect.
  void access(RaceContext& context, const Actor& actor, bool awaited);
  // These lanes know of all accesses so far.
  void hear(uint32_t warp, uint32_t lanes);

 private:
  struct Seen {
    Touch touch;
    uint64_t number = 0;
  };
  struct Word {
    Seen write;                 // the last that changed it
    std::array<Seen, 2> reads;  // since then: the first, and the last by another lane
  };
  void read(RaceContext& context, const Actor& actor, const Touch& touch, uint32_t word);
  void write(RaceContext& context, const Actor& actor, const Touch& touch, uint32_t word);
  bool is_ordered(const Actor& actor, const Seen& before, const Touch& now) const;

  uint64_t number_ = 0;                       // of accesses
  std::unordered_map<uint64_t, Word> words_;  // by warp and word
  std::unordered_map<uint32_t, std::array<uint64_t, vgpu::kWarpSize>>
      heard_;  // by warp and lane: up to which access
};

}  // namespace assay::checks
