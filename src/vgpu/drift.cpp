// Lanes that leave their warp: since Volta each thread has its own position, and nothing but the `.sync` operations
// brings the lanes of a warp together again.
//
// A schedule under which lanes drift (base/schedule.h) parts the running lanes at random, before memory accesses,
// branches and calls, into at most kMostApart fragments. One of them runs on; the others stay where they are until
// it must wait, ends or polls, or, where lanes take turns, until chance has it. They meet again where a warp-wide
// operation or a block barrier waits for all of them. What the lanes do is unchanged: only who comes first differs.
#include <algorithm>
#include <bit>

#include "base/random.h"
#include "base/schedule.h"
#include "vgpu/run.h"

namespace assay::vgpu {

namespace {

constexpr uint64_t kPartEvery = 3;  // places where lanes may part, on average, before they do
constexpr uint64_t kTurnEvery = 2;  // places, on average, before others take over, where lanes take turns

size_t ready_fragments(const Warp& w) {
  return static_cast<size_t>(std::count_if(w.others.begin(), w.others.end(),
                                           [](const Fragment& f) { return f.wait == Wait::None; }));
}

// Some of `lanes`, not all: one lane, all but one, those below some lane, every other one, or any.
uint32_t part_of(uint32_t lanes, uint64_t random) {
  uint32_t some = 0;
  const auto lane = static_cast<uint32_t>(random >> 8 & 31);
  switch (random % 5) {
    case 0:
      some = 1u << lane;
      break;
    case 1:
      some = ~(1u << lane);
      break;
    case 2:
      some = (1u << lane) - 1;
      break;
    case 3:
      some = random >> 13 & 1 ? 0x55555555u : 0xaaaaaaaau;
      break;
    default:
      some = static_cast<uint32_t>(random >> 32);
  }
  some &= lanes;
  if (some == 0 || some == lanes) some = lanes & ~(lanes - 1);  // the first
  return some;
}

}  // namespace

uint64_t draw(Warp& w) {
  w.drift += kGoldenStep;
  return scramble(w.drift);
}

bool stays_apart(const Warp& w) {
  return ready_fragments(w) < kMostApart;
}

const Inst* drift(Warp& w, const Inst* pc) {
  const uint64_t random = draw(w);
  const size_t ready = ready_fragments(w);
  if (ready + 1 < kMostApart && std::popcount(w.active) > 1 && random % kPartEvery == 0) {
    set_aside(w, pc, part_of(w.active, random / kPartEvery));
    return pc;
  }
  const bool in_turn = schedule_kind(w.grid->options->seed) == ScheduleKind::LanesInTurn;
  if (!in_turn || ready == 0 || random % kTurnEvery != 0) return pc;
  set_aside(w, pc, w.active);
  return next_ready(w);
}

}  // namespace assay::vgpu
