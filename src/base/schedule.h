// The order in which threads run, as one number: a trial's condition holds it, a report shows it, and the same number
// gives the same run again.
//
// 0 is the order of the text: blocks by number, warps by number, the lanes of a warp together. Any other number is a
// kind of order (its remainder by 8) and, as a whole, the seed of what is left to chance in it. All of them are orders
// that a GPU may take, so a correct kernel gives the same result under each.
#pragma once

#include <cstdint>
#include <string_view>

namespace assay {

enum class ScheduleKind : uint8_t {
  Text,      // as written
  Shuffled,  // blocks and warps in random order, in turns of random length; blocks are held up for odd numbers
  LanesAhead,  // lanes leave their warp at memory accesses, branches and calls, and run on alone until they must wait
  LanesInTurn,  // they leave, and then take turns at every such place
  LastFirst,    // the last block and the last warp first, each as far as it gets
  Starved,      // one block and one warp of each block hardly get on
  Interleaved,  // warps and blocks change places at every atomic and volatile access, or at every access (below)
};

inline constexpr uint64_t kScheduleKinds = 8;  // remainders

constexpr ScheduleKind schedule_kind(uint64_t schedule) {
  if (schedule == 0) return ScheduleKind::Text;
  switch (schedule % kScheduleKinds) {
    case 3:
      return ScheduleKind::LanesAhead;
    case 4:
      return ScheduleKind::LastFirst;
    case 5:
      return ScheduleKind::LanesInTurn;
    case 6:
      return ScheduleKind::Starved;
    case 7:
      return ScheduleKind::Interleaved;
    default:
      return ScheduleKind::Shuffled;
  }
}

constexpr bool lanes_drift(uint64_t schedule) {
  const ScheduleKind kind = schedule_kind(schedule);
  return kind == ScheduleKind::LanesAhead || kind == ScheduleKind::LanesInTurn;
}

// Of the interleaved ones, every second: warps change places before plain accesses too, so that one meets what another
// has half done in a critical section.
constexpr bool interleaves_everywhere(uint64_t schedule) {
  return schedule_kind(schedule) == ScheduleKind::Interleaved && schedule / kScheduleKinds % 2 == 1;
}

// Whether it goes to an extreme that chance rarely brings about: worth naming in a report.
constexpr bool is_extreme(ScheduleKind kind) {
  return kind != ScheduleKind::Text && kind != ScheduleKind::Shuffled;
}

// The schedule of a kind with this seed; a Shuffled one holds blocks up for odd seeds. Text is 0 whatever the seed.
constexpr uint64_t schedule_of(ScheduleKind kind, uint64_t seed) {
  const uint64_t first = seed / kScheduleKinds * kScheduleKinds;
  switch (kind) {
    case ScheduleKind::Text:
      return 0;
    case ScheduleKind::Shuffled:
      return first + 1 + (seed + 1) % 2;
    case ScheduleKind::LanesAhead:
      return first + 3;
    case ScheduleKind::LastFirst:
      return first + 4;
    case ScheduleKind::LanesInTurn:
      return first + 5;
    case ScheduleKind::Starved:
      return first + 6;
    case ScheduleKind::Interleaved:
      return first + 7;
  }
  return 0;
}

// For people: "lanes out of step".
constexpr std::string_view describe(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::Text:
      return "text order";
    case ScheduleKind::Shuffled:
      return "another schedule";
    case ScheduleKind::LanesAhead:
    case ScheduleKind::LanesInTurn:
      return "lanes out of step";
    case ScheduleKind::LastFirst:
      return "last blocks and warps first";
    case ScheduleKind::Starved:
      return "a starved block and warp";
    case ScheduleKind::Interleaved:
      return "warps interleaved at every atomic";
  }
  return "";
}

}  // namespace assay
