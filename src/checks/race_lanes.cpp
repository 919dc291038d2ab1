#include "checks/race_lanes.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "checks/race_report.h"

namespace assay::checks {

namespace {

constexpr uint32_t kWordBytes = 4;

uint64_t key_of(uint32_t warp, uint32_t word) {
  return uint64_t{warp} << 32 | word;
}

// The bytes of a word that [address, address + bytes) has.
uint8_t bytes_in(uint32_t word, vgpu::Address address, uint32_t bytes) {
  uint8_t mask = 0;
  for (uint32_t b = 0; b < kWordBytes; ++b) {
    const vgpu::Address at = vgpu::Address{word} * kWordBytes + b;
    mask |= static_cast<uint8_t>((at >= address && at < address + bytes) << b);
  }
  return mask;
}

}  // namespace

void LaneRaces::hear(uint32_t warp, uint32_t lanes) {
  if (words_.empty()) return;
  auto& heard = heard_[warp];
  for (uint32_t l = 0; l < vgpu::kWarpSize; ++l)
    if (lanes >> l & 1) heard[l] = number_;
}

bool LaneRaces::is_ordered(const Actor& actor, const Seen& before, const Touch& now) const {
  if (!before.touch || before.touch.lane == now.lane || (before.touch.bytes & now.bytes) == 0) return true;
  const auto heard = heard_.find(now.who.warp());
  if (heard != heard_.end() && before.number <= heard->second[now.lane]) return true;
  return actor.state.clock.is_before(now.who.warp(), before.touch.lane, before.touch.who.tick(),
                                     now.who.warp(), now.lane);
}

void LaneRaces::read(RaceContext& context, const Actor& actor, const Touch& touch, uint32_t word) {
  Word& there = words_[key_of(touch.who.warp(), word)];
  if (!is_ordered(actor, there.write, touch))
    report_race(context, actor, there.write.touch, touch, vgpu::Address{word} * kWordBytes);
  const bool first = !there.reads[0].touch || there.reads[0].touch.lane == touch.lane;
  there.reads[first ? 0 : 1] = {touch, number_};
}

void LaneRaces::write(RaceContext& context, const Actor& actor, const Touch& touch, uint32_t word) {
  Word& there = words_[key_of(touch.who.warp(), word)];
  for (const Seen& read : there.reads) {
    if (is_ordered(actor, read, touch)) continue;
    report_race(context, actor, read.touch, touch, vgpu::Address{word} * kWordBytes);
    break;
  }
  there = {{touch, number_}, {}};
}

void LaneRaces::access(RaceContext& context, const Actor& actor, bool awaited) {
  const vgpu::Access& access = *actor.access;
  const vgpu::Block& block = *actor.warp->block;
  if (awaited) return hear(actor.warp->index, access.lanes);
  ++number_;
  for (uint32_t rest = access.lanes; rest != 0; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const vgpu::Address address = access.addresses[lane];
    if (address + access.bytes > block.shared_bytes) continue;  // another block's
    const auto first = static_cast<uint32_t>(address / kWordBytes),
               last = static_cast<uint32_t>((address + access.bytes - 1) / kWordBytes);
    if (access.values &&
        std::memcmp(access.values + size_t{lane} * access.bytes, block.shared + address, access.bytes) == 0)
      continue;
    for (uint32_t word = first; word <= last; ++word) {
      const Touch touch{.who = actor.who,
                        .lane = static_cast<uint8_t>(lane),
                        .bytes = bytes_in(word, address, access.bytes)};
      access.values ? write(context, actor, touch, word) : read(context, actor, touch, word);
    }
  }
}

}  // namespace assay::checks
