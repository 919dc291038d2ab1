#include "checks/race_shared.h"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "checks/race_judge.h"
#include "checks/race_report.h"
#include "checks/race_state.h"

namespace assay::checks {

namespace {

constexpr uint32_t kPadding = 16;  // words after the last, for whole vectors

}  // namespace

// ---- Authors ----

void SharedShadow::begin(uint32_t bytes, size_t warps, bool vectors, bool alone) {
  vectors_ = vectors ? widest() : Vectors::None;
  const uint32_t words = (bytes + 3) / 4;
  if (words != words_ || next_flying_ != 0) {
    words_ = words;
    cells_.assign(3 * size_t{words} + kPadding, 0);
    next_flying_ = 0;
    flying_.clear();
    std::fill(recent_.begin(), recent_.end(), Known{});
    copies_read_ = false;
  }
  outside_ = false;
  kept_ = 0;
  if (recent_.size() < warps * kCached) recent_.resize(warps * kCached);
  if (words_ != 0) {
    reads_.resize(kMostReads);
    places_.resize(kMostPlaces);
    loads_.resize(kMostLoads);
  }
  room_ = alone && words_ != 0 ? kMostReads : 0;  // others do not look at notes
  knowledge_.resize(warps);
  ticks_.assign(warps, 0);
  ordered_.assign(warps, 0);
  began_.resize(warps);
  next_ > kMostAuthors / 2 ? forget_all() : begin_phase();
}

// Everything so far comes before everything to come.
void SharedShadow::begin_phase() {
  first_author_ = next_;
  authors_.clear();
  noted_ = placed_ = loaded_ = 0;
  batches_.clear();
  past_ = next_ << kAuthorShift;
  wrote_ = false;
  read_ = copies_read_;
  std::fill(std::begin(beginning_.below), std::end(beginning_.below), past_);
  for (Knowledge& known : knowledge_) known = beginning_;
  std::fill(began_.begin(), began_.end(), next_);
}

void SharedShadow::forget_all() {
  for (uint32_t& cell : cells_)
    if ((cell & kFlying) == 0) cell = 0;
  std::fill(recent_.begin(), recent_.end(), Known{});
  next_ = 1;
  begin_phase();
}

void SharedShadow::advance(const BlockClock& clock, uint32_t warp) {
  const WarpClock& now = clock.warps[warp];
  if (std::exchange(ticks_[warp], now.tick) == now.tick) return;
  began_[warp] = next_;
  if (now.all_lanes == now.tick) knowledge_[warp].below[warp] = next_ << kAuthorShift;
}

void SharedShadow::advance(const BlockClock& clock, bool whole) {
  const auto count = static_cast<uint32_t>(knowledge_.size());
  for (uint32_t w = 0; w < count; ++w) advance(clock, w);
  if (whole) return next_ > kMostAuthors / 2 ? forget_all() : begin_phase();
  for (uint32_t w = 0; w < count; ++w)
    for (uint32_t v = 0; v < count; ++v)
      if (v != w && clock.warps[w].known[v] == clock.warps[v].tick)
        knowledge_[w].below[v] = began_[v] << kAuthorShift;
}

// Cells of those that fly name them by number: none may be left when numbers begin again.
void SharedShadow::forget_flying() {
  for (uint32_t& cell : cells_)
    if ((cell & kFlying) != 0) cell = 0;
  std::fill(recent_.begin(), recent_.end(), Known{});
  flying_.clear();
  next_flying_ = kept_ = 0;
  outside_ = false;
  std::fill(ordered_.begin(), ordered_.end(), 0);
}

uint32_t SharedShadow::next_author(Who who, bool flies) {
  if (flies) {
    if (next_flying_ == kMostAuthors) forget_flying();
    flying_.push_back(who);
    return kMostAuthors | next_flying_++;
  }
  if (next_ == kMostAuthors) forget_all();
  authors_.push_back(who);
  return next_++;
}

uint32_t SharedShadow::cell_of(Who who, bool flies) {
  const size_t row = flies ? who.warp() % knowledge_.size() : who.warp();  // a copy has no warp
  Known& known = recent_[row * kCached + who.site() % kCached];
  const bool current = (known.cell >> kAuthorShift) >= first_author_;
  if (known.who != who || !current) {
    const uint32_t author = next_author(who, flies);  // may forget
    known = {who, author << kAuthorShift | who.warp() << 11 | (is_strong(who.order()) ? kStrongBit : 0)};
  }
  return known.cell;
}

Who SharedShadow::who_of(uint32_t cell) const {
  const uint32_t author = cell >> kAuthorShift;
  return cell & kFlying ? flying_[author - kMostAuthors] : authors_[author - first_author_];
}

// ---- Accesses ----

void SharedShadow::access(RaceContext& context, const Actor& actor) {
  const bool is_read = !writes(actor.kind);
  const bool is_full = noted_ == room_ || placed_ == places_.size();
  if ((noted_ | loaded_) != 0 && (!is_read || is_full)) catch_up(context, actor.state, *actor.warp);
  const bool flies = actor.who.order() == kInFlight;
  const Visit visit{context, actor, cell_of(actor.who, flies), !is_read, knowledge_[actor.who.warp()].below};
  if (is_read && note(actor.who, *actor.access)) return;
  (is_read ? read_ : wrote_) = true;
  copies_read_ |= is_read && actor.who.order() == kInFlight;
  compare(visit);
}

void SharedShadow::access_from_outside(RaceContext& context, const Actor& actor, Who author) {
  if ((noted_ | loaded_) != 0) catch_up(context, actor.state, *actor.warp);
  const bool is_read = !writes(actor.kind), own = actor.owner == nullptr;
  outside_ |= !own;
  const uint32_t* below = (own ? knowledge_[actor.who.warp()] : beginning_).below;
  const Visit visit{context, actor, cell_of(author, true), !is_read, below};
  (is_read ? read_ : wrote_) = true;
  by_lane(visit, actor.access->lanes);
}

void SharedShadow::forget_outside(BlockId copies) {
  if (!std::exchange(outside_, false)) return;
  for (uint32_t& cell : cells_) {
    if ((cell & kFlying) == 0) continue;
    const Who who = who_of(cell);
    if (who.order() != kInFlight && who.block() != copies) cell = 0;
  }
}

std::vector<SharedShadow::Outside> SharedShadow::weak_from_outside(BlockId copies) const {
  std::vector<Outside> found;
  if (!outside_) return found;
  for (size_t i = 0; i < 3 * size_t{words_}; ++i) {
    if ((cells_[i] & kFlying) == 0 || (cells_[i] & ~kFlying) >> kAuthorShift < kept_) continue;
    const Who who = who_of(cells_[i]);
    if (who.order() == kWeak && who.block() != copies)
      found.push_back({who, cells_[i] >> 6 & 31, static_cast<uint32_t>(i % words_)});
  }
  return found;
}

bool SharedShadow::note_places(uint32_t cell, const vgpu::Access& access) {
  if (placed_ == places_.size()) return false;
  reads_[noted_++] = {cell, access.lanes, access.bytes, access.shape, placed_, 0, 0};
  Places& places = places_[placed_++];
  for (uint32_t l = 0; l < 32; ++l) places[l] = narrow(access.addresses[l]);
  return true;
}

bool SharedShadow::note(RaceContext& context, BlockState& state, const vgpu::Warp& warp, Who who,
                        std::span<const vgpu::ShapedLoad> loads) {
  if (may_meet_writes() || room_ == 0) return false;
  if (loads_.size() - loaded_ < loads.size()) catch_up(context, state, warp);
  std::copy(loads.begin(), loads.end(), loads_.begin() + loaded_);
  loaded_ += static_cast<uint32_t>(loads.size());
  batches_.push_back({who, static_cast<uint32_t>(loads.size())});
  return true;
}

void SharedShadow::remember(RaceContext& context, BlockState& state, uint32_t cell,
                            const vgpu::Access& access) {
  const Actor reader{state, access.kind, {}, true, nullptr, nullptr, &access};
  compare({context, reader, cell, false, knowledge_[(cell & kWarp) >> 11].below});
}

// `warp`: any of the block's.
void SharedShadow::catch_up(RaceContext& context, BlockState& state, const vgpu::Warp& warp) {
  vgpu::Address addresses[32];
  for (const Read& read : std::span(reads_).first(noted_)) {
    const vgpu::ShapedLoad load{nullptr, read.first, read.second, read.bytes, read.shape};
    vgpu::Access access = load.access(ptx::Space::Shared, addresses);
    if (read.shape == vgpu::Shape::Other)
      std::copy(places_[read.places].begin(), places_[read.places].end(), addresses);
    access.lanes = read.lanes;
    remember(context, state, read.cell, access);
  }
  auto batches = std::move(batches_);  // numbers may run out, and all be forgotten
  const vgpu::ShapedLoad* load = loads_.data();
  for (const Batch& batch : batches) {
    for (const vgpu::ShapedLoad* end = load + batch.count; load != end; ++load) {
      const auto& site = context.sites.find(state.sites, warp, *load->inst, vgpu::AccessKind::Load, false);
      const Who who{batch.who.bits | site.number};
      remember(context, state, cell_of(who, false), load->access(ptx::Space::Shared, addresses));
    }
  }
  read_ = true;
  noted_ = placed_ = loaded_ = 0;
  batches.clear();
  batches_ = std::move(batches);
}

void SharedShadow::compare(const Visit& visit) {
  const Actor& actor = visit.actor;
  const vgpu::Access& access = *actor.access;
  const vgpu::Address* at = access.addresses;
  // Lanes that store to one place go one after another: their values decide.
  const bool may_share = actor.kind != vgpu::AccessKind::Store;
  if (std::has_single_bit(access.lanes)) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(access.lanes));
    return at_one_place(visit, at[lane], lane, 1);
  }
  switch (access.shape) {
    case vgpu::Shape::Unit:
      if (in_run(visit, at[0], 0, 32, kOne)) return;
      break;
    case vgpu::Shape::Uniform:
      if (may_share) return at_one_place(visit, at[0], 0, 32);
      break;
    case vgpu::Shape::HalfUnit:
      if (at[0] == at[16]) {
        if (may_share && in_run(visit, at[0], 0, 16, kSeveral)) return;
      } else if (in_run(visit, at[0], 0, 16, kOne)) {
        if (!in_run(visit, at[16], 16, 16, kOne)) by_lane(visit, 0xffff0000);
        return;
      }
      break;
    case vgpu::Shape::HalfUniform:
      if (!may_share) break;
      at_one_place(visit, at[0], 0, 16);
      return at_one_place(visit, at[16], 16, 16);
    case vgpu::Shape::Other:
      break;
  }
  const bool whole_words = access.bytes % 4 == 0 || access.bytes < 4;
  if (vectors_ != Vectors::None && whole_words)
    lanes_wide(visit, access.lanes);
  else
    by_lane(visit, access.lanes);
}

// Lane after lane; false: not in whole words, or beyond the block's memory.
bool SharedShadow::in_run(const Visit& visit, vgpu::Address address, uint32_t lane, uint32_t lanes,
                          Share share) {
  const uint64_t bytes = visit.actor.access->bytes, total = bytes * lanes;
  if (vectors_ == Vectors::None || ((address | total) & 3) != 0 || !std::has_single_bit(bytes)) return false;
  if (bytes < 4) {
    if (share == kSeveral) return false;
    share = bytes == 2 ? kHalves : kQuarters;
  }
  if (address + total > uint64_t{words_} * 4) return false;
  const uint32_t mine = visit.cell | share | kBytes;
  const auto shift = static_cast<uint32_t>(std::countr_zero(bytes));
  run_wide(visit, {static_cast<uint32_t>(address / 4), static_cast<uint32_t>(total / 4), mine, lane, shift});
  return true;
}

void SharedShadow::at_one_place(const Visit& visit, vgpu::Address address, uint32_t lane, uint32_t lanes) {
  const uint64_t bytes = visit.actor.access->bytes;
  const uint32_t mine = visit.cell | lane << 6 | (lanes > 1 ? kSeveral : kOne);
  for (uint64_t done = 0; done < bytes;) {
    const auto first = static_cast<uint32_t>((address + done) & 3);
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(4 - first, bytes - done));
    const uint64_t place = (address + done) / 4;
    done += count;
    if (place >= words_) return;
    word(visit, static_cast<uint32_t>(place), mine | ((1u << count) - 1) << first);
  }
}

void SharedShadow::by_lane(const Visit& visit, uint32_t lanes) {
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    at_one_place(visit, visit.actor.access->addresses[lane], lane, 1);
  }
}

void SharedShadow::land(vgpu::Address low, uint64_t bytes) {
  const uint64_t end = std::min<uint64_t>((low + bytes + 3) / 4, words_);
  for (uint64_t w = low / 4; w < end; ++w)
    for (uint32_t* cell : {&read()[w], &other()[w]})
      if ((*cell & kFlying) != 0) *cell = 0;
}

// ---- One word ----

void SharedShadow::word(const Visit& visit, uint32_t at, uint32_t mine) {
  if (may_meet_writes()) judge(visit, write()[at], mine, at);
  if (!visit.writes) return remember_read(at, mine);
  for (uint32_t* cell : {&read()[at], &other()[at]}) {
    judge(visit, *cell, mine, at);
    if ((*cell & ~mine & kBytes) == 0) *cell = 0;
  }
  write()[at] = mine;
}

void SharedShadow::remember_read(uint32_t at, uint32_t mine) {
  for (uint32_t* cell : {&read()[at], &other()[at]}) {
    const uint32_t differs = *cell ^ mine;
    if ((differs & ~(kLane | kShare)) == 0) {  // the same author and bytes
      if (differs != 0) *cell = (*cell & ~kShare) | kSeveral;
      return;
    }
    if (*cell < past_ || cell == &other()[at]) {
      *cell = mine;
      return;
    }
  }
}

// Whether it is known already that one who flies came before an access of the block's own: a tile that was
// copied is read word by word.
bool SharedShadow::came_before(const Visit& visit, uint32_t flying, uint32_t mine) {
  const uint32_t author = flying >> kAuthorShift, warp = mine >> 11 & 31;
  if (ordered_[warp] == author) return true;
  const Who who = who_of(flying);
  const BlockClock& clock = visit.actor.state.clock;
  if (who.order() == kInFlight || !clock.remembers(who.block(), who.warp(), who.tick(), warp)) return false;
  ordered_[warp] = author;
  return true;
}

void SharedShadow::judge(const Visit& visit, uint32_t before, uint32_t mine, uint32_t at) {
  uint32_t common = before & mine & kBytes;
  if (common == 0 || before < visit.below[before >> 11 & 31]) return;
  if (((before | mine) & kFlying) == 0) {
    const uint32_t differs = before ^ mine;
    if ((differs & (kWarp | kLane | kShare)) == 0 && (mine & kShare) != kSeveral) return;
    if ((before & mine & kStrongBit) != 0) return;
  } else if ((mine & kFlying) == 0 && came_before(visit, before, mine)) {
    return;
  }
  // The lane that had a byte.
  const auto lane_of = [](uint32_t cell, uint32_t byte) {
    const uint32_t share = cell & kShare, step = share == kHalves ? byte / 2 : share == kQuarters ? byte : 0;
    return static_cast<uint8_t>((cell >> 6 & 31) + step);
  };
  while (common != 0) {
    const auto byte = static_cast<uint32_t>(std::countr_zero(common));
    const uint8_t theirs = lane_of(before, byte), ours = lane_of(mine, byte);
    uint32_t together = 0;  // bytes that the same two lanes share
    for (uint32_t b = byte; b < 4; ++b)
      if ((common >> b & 1) && lane_of(before, b) == theirs && lane_of(mine, b) == ours) together |= 1u << b;
    common &= ~together;
    const auto bytes = static_cast<uint8_t>(together);
    const Touch a{who_of(before), theirs, bytes, (before & kShare) == kSeveral};
    const Touch b{visit.actor.who, ours, bytes, (mine & kShare) == kSeveral};
    const vgpu::Address address = vgpu::Address{at} * 4;
    if (is_race(visit.context, visit.actor, a, b, address))
      report_race(visit.context, visit.actor, a, b, address);
  }
}

}  // namespace assay::checks
