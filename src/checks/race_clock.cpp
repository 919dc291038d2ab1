#include "checks/race_clock.h"

#include <algorithm>
#include <unordered_set>

namespace assay::checks {

namespace {

void raise(Ticks& to, const Ticks& from) {
  if (to.size() < from.size()) to.resize(from.size(), 0);
  for (size_t w = 0; w < from.size(); ++w) to[w] = std::max(to[w], from[w]);
}

void add(std::vector<std::shared_ptr<SharedClock>>& to, const std::shared_ptr<SharedClock>& clock) {
  if (!clock) return;
  for (auto& there : to) {
    if (there == clock) return;
    if (clock->family == 0 || there->family != clock->family) continue;
    if (there->version < clock->version) there = clock;
    return;
  }
  to.push_back(clock);
}

// What fences have published is also published by every thread ordered after them: a fence of every thread, a
// barrier, and one thread that sets the flag for all.
void share_fences(std::vector<WarpClock*>& warps, std::shared_ptr<SharedClock> WarpClock::*fenced) {
  const auto is_first = [&](const WarpClock* warp) { return warp->*fenced == warps.front()->*fenced; };
  if (std::all_of(warps.begin(), warps.end(), is_first)) return;
  auto together = std::make_shared<SharedClock>();
  for (const WarpClock* warp : warps) {
    if (!(warp->*fenced)) continue;
    for (const auto& [block, ticks] : (warp->*fenced)->blocks) together->merge(block, ticks);
    for (const auto& source : (warp->*fenced)->sources) together->follow(source);
  }
  for (WarpClock* warp : warps) warp->*fenced = together;
}

}  // namespace

void share_fences(std::vector<WarpClock*> warps) {
  if (warps.empty()) return;
  share_fences(warps, &WarpClock::fenced);
  share_fences(warps, &WarpClock::fenced_in_block);
}

void SharedClock::merge(BlockId block, const Ticks& ticks) {
  raise(blocks[block], ticks);
}

void SharedClock::follow(const std::shared_ptr<SharedClock>& source) {
  if (source.get() != this) add(sources, source);
}

void SharedClock::absorb(const SharedClock& other) {
  for (const auto& [block, ticks] : other.blocks) merge(block, ticks);
  for (const auto& source : other.sources) source->family != 0 ? absorb(*source) : follow(source);
}

bool SharedClock::knows(BlockId block, uint32_t warp, uint32_t tick) const {
  std::unordered_set<const SharedClock*> seen{this};
  std::vector<const SharedClock*> open{this};
  while (!open.empty()) {
    const SharedClock* clock = open.back();
    open.pop_back();
    const auto it = clock->blocks.find(block);
    if (it != clock->blocks.end() && warp < it->second.size() && tick < it->second[warp]) return true;
    for (const auto& source : clock->sources)
      if (seen.insert(source.get()).second) open.push_back(source.get());
  }
  return false;
}

void WarpClock::miss(uint64_t place) {
  constexpr size_t kMost = 128;
  if (missed.empty()) missed.resize(kMost);
  missed[place / 4 % kMost] = place;
}

void WarpClock::expect(const std::shared_ptr<SharedClock>& clock) {
  add(pending, clock);
}

void WarpClock::accept_pending(bool wide) {
  for (const auto& clock : pending_in_block) add(others, clock);
  pending_in_block.clear();
  if (!wide) return;
  for (const auto& clock : pending) add(others, clock);
  pending.clear();
}

void WarpClock::begin(size_t warp_count) {
  tick = 1;
  all_lanes = 0;
  known.assign(warp_count, 0);
  lanes.reset();
  others.clear();
  pending.clear();
  missed.clear();
  fenced.reset();
  pending_in_block.clear();
  fenced_in_block.reset();
  remembered.fill({});
}

BlockClock::BlockClock(BlockId block, size_t warp_count) {
  begin(block, warp_count);
}

void BlockClock::begin(BlockId block, size_t warp_count) {
  id = block;
  warps.resize(warp_count);
  for (WarpClock& warp : warps) warp.begin(warp_count);
}

void BlockClock::sync_warp(uint32_t index, uint32_t lanes, uint32_t live) {
  WarpClock& warp = warps[index];
  const uint32_t now = ++warp.tick;
  if ((live & ~lanes) == 0) {
    warp.all_lanes = now;
    warp.lanes.reset();
    return;
  }
  if (!warp.lanes) {
    warp.lanes = std::make_unique<std::array<std::array<uint32_t, 32>, 32>>();
    for (auto& row : *warp.lanes) row.fill(warp.all_lanes);
  }
  std::array<uint32_t, 32> together{};
  for (uint32_t a = 0; a < 32; ++a) {
    if (!(lanes >> a & 1)) continue;
    for (uint32_t b = 0; b < 32; ++b)
      together[b] = std::max(together[b], (lanes >> b & 1) ? now : (*warp.lanes)[a][b]);
  }
  for (uint32_t a = 0; a < 32; ++a)
    if (lanes >> a & 1) (*warp.lanes)[a] = together;
}

void BlockClock::sync_block(const std::vector<uint32_t>& arrived, const vgpu::Block& block) {
  sync_block(arrived, Ticks(warps.size(), 0), block);
}

void BlockClock::sync_block(const std::vector<uint32_t>& arrived, const Ticks& early,
                            const vgpu::Block& block) {
  Ticks together(warps.size(), 0);
  std::vector<std::shared_ptr<SharedClock>> others;
  for (uint32_t w = 0; w < warps.size(); ++w) {
    if (arrived[w] == 0) continue;
    warps[w].accept_pending(true);
    raise(together, warps[w].known);
    together[w] = std::max(together[w], early[w] ? early[w] : warps[w].tick + 1);
    for (const auto& clock : warps[w].others) add(others, clock);
  }
  std::vector<WarpClock*> all;
  all.reserve(warps.size());
  for (uint32_t w = 0; w < warps.size(); ++w) {
    if (arrived[w] == 0 || early[w] != 0) continue;
    raise(warps[w].known, together);
    warps[w].others = others;
    sync_warp(w, arrived[w], block.warps[w].live);
    all.push_back(&warps[w]);
  }
  share_fences(std::move(all));
}

// No warp knows more of another than that one's tick, so a meeting of all of them leaves nothing to compare.
bool BlockClock::sync_whole_block() {
  if (!std::all_of(warps.begin(), warps.end(), [](const WarpClock& warp) { return warp.is_plain(); }))
    return false;
  Ticks& first = warps.front().known;
  for (size_t w = 0; w < warps.size(); ++w) first[w] = ++warps[w].tick;
  for (size_t w = 0; w < warps.size(); ++w) {
    if (w != 0) std::copy(first.begin(), first.end(), warps[w].known.begin());
    warps[w].all_lanes = warps[w].tick;
    warps[w].lanes.reset();
  }
  return true;
}

bool BlockClock::follows_others() const {
  return std::any_of(warps.begin(), warps.end(), [](const WarpClock& warp) {
    return !warp.others.empty() || !warp.pending.empty() || !warp.pending_in_block.empty() ||
           !warp.missed.empty();
  });
}

void BlockClock::fence(uint32_t index, bool wide) {
  WarpClock& warp = warps[index];
  warp.accept_pending(wide);
  ++warp.tick;
  auto clock = std::make_shared<SharedClock>();
  Ticks ticks = warp.known;
  ticks[index] = warp.tick;
  clock->merge(id, ticks);
  for (const auto& other : warp.others) clock->follow(other);
  if (wide) warp.fenced = clock;
  warp.fenced_in_block = std::move(clock);
}

void BlockClock::learn(uint32_t index, const std::shared_ptr<SharedClock>& clock) {
  if (clock->blocks.empty() && clock->sources.empty()) return;
  WarpClock& warp = warps[index];
  add(warp.others, clock);
  const auto own = clock->blocks.find(id);
  if (own == clock->blocks.end()) return;
  raise(warp.known, own->second);
  warp.all_lanes = std::max(warp.all_lanes, own->second[index]);
}

bool BlockClock::is_before(uint32_t warp, uint32_t lane, uint32_t tick, uint32_t reader_warp,
                           uint32_t reader_lane) {
  const WarpClock& reader = warps[reader_warp];
  if (warp != reader_warp) {
    if (tick < reader.known[warp]) return true;
    return is_before(id, warp, tick, reader_warp);
  }
  if (lane == reader_lane || tick < reader.all_lanes) return true;
  return reader.lanes && tick < (*reader.lanes)[reader_lane][lane];
}

namespace {

size_t slot_of(BlockId block, uint32_t warp) {
  return (block * 5 + warp) % std::tuple_size_v<decltype(WarpClock::remembered)>;
}

}  // namespace

bool BlockClock::is_before(BlockId block, uint32_t warp, uint32_t tick, uint32_t reader_warp) {
  WarpClock& reader = warps[reader_warp];
  for (const auto& clock : reader.others) {
    if (!clock->knows(block, warp, tick)) continue;
    reader.remembered[slot_of(block, warp)] = {block, warp, tick + 1};
    return true;
  }
  return false;
}

bool BlockClock::remembers(BlockId block, uint32_t warp, uint32_t tick, uint32_t reader_warp) const {
  const auto& there = warps[reader_warp].remembered[slot_of(block, warp)];
  return there.block == block && there.warp == warp && tick < there.below;
}

}  // namespace assay::checks
