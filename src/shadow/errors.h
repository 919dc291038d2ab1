// The account of one value's error, and the counters of an instruction.
#pragma once

#include <cstdint>
#include <string>

#include "vgpu/code.h"

namespace assay::shadow {

// An error is value − shadow. Slot 0 is the whole of it; slots 1 to kLineSlots say how much entered at the
// line that has the slot; what the lines do not explain entered at lines without one. A value that was
// just rounded to a narrow type has that rounding in kFresh: if nothing computes with it, it is the
// rounding of a result to its own type, which no kernel can avoid. An operation that uses it charges it to
// its line, kFreshLine.
// A value that is not finite though its shadow is, or that was computed from one, has an infinite
// whole, 1 in the slot of the line where that happened, and its shadow in the place of a fresh rounding.
inline constexpr uint32_t kSlots = 16, kLineSlots = 13, kWhole = 0, kFresh = 14, kFreshLine = 15;

struct alignas(64) Error {
  float slot[kSlots];
};

// Errors of a register's element, for all lanes: in the frame.
struct RegisterErrors {
  uint32_t lanes;  // that have one; the others' `error` means nothing
  uint32_t unused[15];
  Error error[vgpu::kLanesPerPlane];
};
static_assert(sizeof(RegisterErrors) == 64 + 64 * 32);

// Smaller errors are none: floats below would be subnormal, and slow.
inline constexpr double kSmallest = 0x1p-120;

// A line gets its slot when the function it is in first runs: there are few, and much code never does.
inline constexpr uint32_t kNoSlotYet = 0xff;
struct Group;  // of sites that get their slots together

// What one instruction did, lane by lane where that lets loops be vectors.
struct alignas(64) Site {
  double introduced2[32] = {}, introduced_max[32] = {};  // relative
  double cancelled[32] = {}, cancelled_max[32] = {};     // bits
  double cancelled_from[32] = {};                        // largest operand where several cancelled
  double stagnated[32] = {}, flushed[32] = {};           // counts
  uint64_t executions = 0;
  double inherited_max = 0, amplification_max = 0;
  uint64_t overflowed = 0, decided = 0, forgotten = 0;
  // What it is
  std::string file, operation;
  int line = 0;
  uint32_t slot = kNoSlotYet;
  Group* group = nullptr;
  bool rounds = false;             // to a narrow type, to nearest
  const char* decision = nullptr;  // what it decides
};

void give_slots(Group& group);
inline uint32_t slot_of(Site& site) {
  if (site.slot == kNoSlotYet) [[unlikely]]
    give_slots(*site.group);
  return site.slot;
}

}  // namespace assay::shadow
