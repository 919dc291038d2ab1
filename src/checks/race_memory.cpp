#include "checks/race_memory.h"

#include <algorithm>
#include <bit>

#include "checks/race_judge.h"
#include "checks/race_report.h"

namespace assay::checks {

namespace {

using vgpu::Access;
using vgpu::AccessKind;
using vgpu::Address;
using vgpu::RangeInfo;

constexpr size_t kLocks = 1024;  // a power of two

uint32_t stamp(const Actor& actor) {
  return actor.shared ? actor.state.phase : actor.who.block();
}

// Whether everything that could still conflict with it comes after it.
bool is_past(const Actor& actor, Who who) {
  if (actor.shared)
    return who.block() == actor.state.clock.id && who.tick() < actor.state.floors[who.warp()] &&
           who.order() != kInFlight;
  return who.block() < actor.state.ordered_below;
}
bool is_past(const Actor& actor, const Cells& cells) {
  return cells.newest < (actor.shared ? actor.state.phase : actor.state.ordered_below);
}

// Whether it can be seen at once that two marks of a row do not conflict.
bool is_harmless(const Actor& actor, const RowMark& before, const RowMark& now) {
  const Who who = before.who;
  if (who.block() < actor.state.ordered_below) return true;
  if (who.order() == kInFlight) return false;
  const bool same_block = who.block() == now.who.block();
  if (same_block) {
    const WarpClock& clock = actor.state.clock.warps[now.who.warp()];
    if (who.warp() != now.who.warp()) {
      if (who.tick() < clock.known[who.warp()]) return true;
    } else {
      if (who.tick() < clock.all_lanes) return true;
      if (!before.several && !now.several && before.base == now.base && before.shift == now.shift)
        return true;
    }
  }
  const uint32_t a = who.order(), b = now.who.order();
  return is_strong(a) && is_strong(b) && (same_block || (a == kStrong && b == kStrong));
}

uint32_t lanes_of(const Piece& piece) {
  return (piece.lanes == 32 ? vgpu::kAllLanes : (1u << piece.lanes) - 1) << piece.lane;
}

bool is_fold(const Piece* pieces) {
  return !pieces[0].uniform && !pieces[1].uniform && pieces[0].address == pieces[1].address &&
         pieces[0].lanes == pieces[1].lanes;
}

template <class GivesWay>
bool remember_read(Row& row, const RowMark& now, GivesWay gives_way) {
  if (row.read.same_author(now)) {
    row.read.words |= now.words;
  } else if (gives_way(row.read)) {
    row.read = now;
  } else if (row.other.same_author(now)) {
    row.other.words |= now.words;
  } else if (gives_way(row.other) || (row.other.words & ~(now.words | row.read.words)) == 0) {
    row.other = now;
  } else {
    return false;
  }
  return true;
}

void remember_read(const Actor& actor, Cells& cells, uint32_t word, const Touch& now) {
  for (uint16_t* place : {&cells.read[word], &cells.other[word]}) {
    const Touch there = cells.get(*place);
    if (there && there.who == now.who && there.bytes == now.bytes) {
      if (there.lane != now.lane || now.several) *place |= 1u << 14;
      return;
    }
    if (!there || is_past(actor, there.who) || place == &cells.other[word]) {
      const uint16_t cell = cells.put(now);  // may collect: write through afterwards
      *place = cell;
      return;
    }
  }
}

}  // namespace

RaceMemory::RaceMemory(RaceContext& context)
    : context_(context), global_(context.memory.range_base(), context.memory.range_bytes()), locks_(kLocks) {}

void RaceMemory::access(const Actor& actor) {
  const Access& access = *actor.access;
  RowLock lock(locks_);
  Piece pieces[kMostPieces];
  const uint32_t count = split(access, pieces);
  if (count == 0) return by_lane(actor, lock, access.lanes);
  if (count == 2 && access.kind != AccessKind::Store && is_fold(pieces)) {
    pieces[0].uniform = true;  // every word by two lanes
    return by_rows(actor, lock, pieces[0], true);
  }
  for (uint32_t p = 0; p < count; ++p) by_piece(actor, lock, pieces[p]);
}

// ---- Rows ----

Row* RaceMemory::row_at(const Actor& actor, RowLock& lock, Address address) {
  if (!actor.shared) {
    lock.hold(address);
    return &global_.at(address);
  }
  const uint64_t index = address / kRowBytes;
  return index < actor.state.shared.size() ? &actor.state.shared[index] : nullptr;
}

Cells* RaceMemory::take_apart(const Actor& actor, Row& row) {
  return actor.shared ? checks::take_apart(row, actor.state.shared_cells) : global_.take_apart(row);
}

void RaceMemory::join(const Actor& actor, Row& row) {
  if (!actor.shared) return global_.join(row);
  if (Cells* cells = row.cells()) actor.state.shared_cells.give_back(cells);
  row = {};
}

bool RaceMemory::try_row(const Actor& actor, Row& row, const RowMark& now) {
  if (const Cells* cells = row.cells()) {
    if (!is_past(actor, *cells)) return false;
    join(actor, row);
  }
  const auto clashes = [&](const RowMark& mark) {
    return (mark.words & now.words) != 0 && !is_harmless(actor, mark, now);
  };
  const auto gives_way = [&](const RowMark& mark) { return mark.words == 0 || is_past(actor, mark.who); };
  if (clashes(row.write)) return false;
  if (!writes(actor.kind)) return remember_read(row, now, gives_way);
  if (clashes(row.read) || clashes(row.other)) return false;
  if (row.write.same_author(now))
    row.write.words |= now.words;
  else if (gives_way(row.write) || (row.write.words & ~now.words) == 0)
    row.write = now;
  else
    return false;
  row.read.words &= ~now.words;
  row.other.words &= ~now.words;
  return true;
}

void RaceMemory::by_row(const Actor& actor, RowLock& lock, Address start, const RowMark& now) {
  Row* row = row_at(actor, lock, start);
  if (!row || try_row(actor, *row, now)) return;
  Cells& cells = *take_apart(actor, *row);
  for (uint32_t rest = now.words; rest; rest &= rest - 1) {
    const auto word = static_cast<uint32_t>(std::countr_zero(rest));
    const Address address = start + word * 4;
    if (now.several || now.shift >= 2) {
      visit(actor, cells, word, address, now.at(word));
      continue;
    }
    const uint32_t step = 1u << now.shift;
    for (uint32_t b = 0; b < 4; b += step) {
      const auto lane = static_cast<uint8_t>(now.base + static_cast<int32_t>((word * 4 + b) >> now.shift));
      visit(actor, cells, word, address,
            {now.who, lane, static_cast<uint8_t>(((1u << step) - 1) << b), false});
    }
  }
  if (now.words == kAllWords && writes(actor.kind) && now.shift >= 2) {
    join(actor, *row);  // nothing older is left in it
    row->write = now;
  }
}

void RaceMemory::by_range(const Actor& actor, RowLock& lock, Address low, Address high, uint32_t lane,
                          uint32_t shift, bool several) {
  for (Address start = low / kRowBytes * kRowBytes; start < high; start += kRowBytes) {
    const auto first = static_cast<uint32_t>((std::max(low, start) - start) / 4);
    const auto end = static_cast<uint32_t>((std::min(high, start + kRowBytes) - start) / 4);
    const uint32_t words = ((1u << end) - 1) & ~((1u << first) - 1);
    const int64_t ahead = static_cast<int64_t>(start - low) >> shift;
    const int64_t base = several || shift == 7 ? lane : lane + ahead;
    by_row(actor, lock, start,
           {actor.who, words, static_cast<int16_t>(base), static_cast<uint8_t>(shift), several});
  }
}

void RaceMemory::by_rows(const Actor& actor, RowLock& lock, const Piece& piece, bool fold) {
  const uint64_t bytes = actor.access->bytes;
  const bool alone = piece.lanes == 1 && !fold;
  const bool several = fold || (piece.uniform && !alone);
  const Address high = piece.address + (piece.uniform && !fold ? bytes : bytes * piece.lanes);
  if (((piece.address | high) & 3) != 0 || (!alone && !several && !std::has_single_bit(bytes)))
    return by_lane(actor, lock, lanes_of(piece));
  const uint32_t shift = alone || several ? 7 : static_cast<uint32_t>(std::countr_zero(bytes));
  by_range(actor, lock, piece.address, high, piece.lane, shift, several);
}

void RaceMemory::by_piece(const Actor& actor, RowLock& lock, const Piece& piece) {
  const bool gathers = piece.uniform && piece.lanes > 1;
  // Lanes that store to one place: their values decide.
  if (gathers && actor.kind == AccessKind::Store) return by_lane(actor, lock, lanes_of(piece));
  if (gathers && (actor.access->bytes < 4 || (piece.address & 3) != 0))
    return by_word(actor, lock, piece.lane, piece.address, actor.access->bytes, true);
  by_rows(actor, lock, piece, false);
}

void RaceMemory::by_lane(const Actor& actor, RowLock& lock, uint32_t lanes) {
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    by_word(actor, lock, lane, actor.access->addresses[lane], actor.access->bytes, false);
  }
}

void RaceMemory::by_word(const Actor& actor, RowLock& lock, uint32_t lane, Address address, uint64_t size,
                         bool several) {
  for (uint64_t done = 0; done < size;) {
    const auto first = static_cast<uint32_t>((address + done) & 3);
    const auto count = static_cast<uint32_t>(std::min<uint64_t>(4 - first, size - done));
    const auto bytes = static_cast<uint8_t>(((1u << count) - 1) << first);
    const Address at = address + done - first;
    done += count;
    Row* row = row_at(actor, lock, at);
    if (!row) return;
    if (const Cells* cells = row->cells(); cells && is_past(actor, *cells)) join(actor, *row);
    visit(actor, *take_apart(actor, *row), at % kRowBytes / 4, at,
          {actor.who, static_cast<uint8_t>(lane), bytes, several});
  }
}

// ---- Words ----

void RaceMemory::visit(const Actor& actor, Cells& cells, uint32_t word, Address address, const Touch& now) {
  cells.newest = stamp(actor);
  judge(actor, cells.get(cells.write[word]), now, address);
  if (!writes(actor.kind)) return remember_read(actor, cells, word, now);
  judge(actor, cells.get(cells.read[word]), now, address);
  judge(actor, cells.get(cells.other[word]), now, address);
  for (uint16_t* read : {&cells.read[word], &cells.other[word]})
    if ((cells.get(*read).bytes & ~now.bytes) == 0) *read = 0;
  cells.write[word] = cells.put(now);
}

void RaceMemory::judge(const Actor& actor, const Touch& before, const Touch& now, Address address) {
  if (is_race(context_, actor, before, now, address)) report_race(context_, actor, before, now, address);
}

// ---- Copies and fills ----

void RaceMemory::touch(BlockState& state, const RangeInfo& range, AccessKind kind) {
  if (range.host || !context_.scope.between_operations) return;
  const Actor actor{state, kind, Who::make(state.clock.id, 0, 0, kWeak, 0)};
  RowLock lock(locks_);
  const bool dense = (range.height == 1 || range.row_pitch == range.width) &&
                     (range.depth == 1 || range.slice_pitch == range.width * range.height);
  const uint64_t width = dense ? range.width * range.height * range.depth : range.width;
  for (uint64_t z = 0; z < (dense ? 1 : range.depth); ++z)
    for (uint64_t y = 0; y < (dense ? 1 : range.height); ++y)
      touch_bytes(actor, lock, range.address + z * range.slice_pitch + y * range.row_pitch, width);
}

void RaceMemory::touch_bytes(const Actor& actor, RowLock& lock, Address low, uint64_t bytes) {
  const Address high = low + bytes;
  const Address whole = std::min(high, (low + 3) / 4 * 4), end = std::max(whole, high / 4 * 4);
  if (low < whole) by_word(actor, lock, 0, low, whole - low, false);
  if (whole < end) by_range(actor, lock, whole, end, 0, 7, false);
  if (end < high) by_word(actor, lock, 0, end, high - end, false);
}

void RaceMemory::forget(BlockState& state, const Access& access) {
  for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
    const Address low = access.addresses[std::countr_zero(rest)], high = low + access.bytes;
    for (Address at = low / kRowBytes * kRowBytes; at < high; at += kRowBytes) {
      if (at / kRowBytes >= state.shared.size()) return;
      Row& row = state.shared[at / kRowBytes];
      for (uint32_t w = 0; w < kRowWords; ++w) {
        if (at + w * 4 < low || at + w * 4 >= high) continue;
        if (Cells* cells = row.cells())
          cells->write[w] = 0;
        else
          row.write.words &= ~(1u << w);
      }
    }
  }
}

}  // namespace assay::checks
