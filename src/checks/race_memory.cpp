#include "checks/race_memory.h"

#include <algorithm>
#include <bit>

#include "checks/address_pattern.h"
#include "checks/race_judge.h"
#include "checks/race_report.h"

namespace assay::checks {

namespace {

using vgpu::Access;
using vgpu::AccessKind;
using vgpu::Address;
using vgpu::RangeInfo;

constexpr size_t kLocks = 1024;  // a power of two
constexpr uint8_t kOneLane = RowMark::kOneLane;

// Whether everything that could still conflict with it comes after it.
bool is_past(const Actor& actor, Who who) {
  return who.block() < actor.state.ordered_below;
}
bool is_past(const Actor& actor, const Cells& cells) {
  return cells.newest < actor.state.ordered_below;
}

// Whether it can be seen at once that two marks of a row do not conflict.
bool is_harmless(const Actor& actor, const RowMark& before, const RowMark& now) {
  const Who who = before.who;
  if (who.block() < actor.state.ordered_below) return true;
  if (actor.noncoherent) return false;
  const bool same_block = who.block() == now.who.block();
  if (same_block) {
    const WarpClock& clock = actor.state.clock.warps[now.who.warp()];
    if (who.warp() != now.who.warp()) {
      if (who.tick() < clock.known[who.warp()]) return true;
    } else {
      if (who.tick() < clock.all_lanes) return true;
      if (!now.several && before.same_lanes(now)) return true;
    }
  }
  const uint32_t a = who.order(), b = now.who.order();
  return is_strong(a) && is_strong(b) && (same_block || (a == kStrong && b == kStrong));
}

uint16_t words_between(uint32_t start, uint32_t end) {
  return static_cast<uint16_t>((1u << end / 4) - (1u << start / 4));
}

bool are_equal(const Address* addresses, uint32_t lanes) {
  const Address first = addresses[std::countr_zero(lanes)];
  for (uint32_t rest = lanes & (lanes - 1); rest; rest &= rest - 1)
    if (addresses[std::countr_zero(rest)] != first) return false;
  return true;
}

// Whether the first two lanes of an access share no word and are no neighbours, so that a mark of a row says little.
bool are_apart(const Access& access) {
  const uint32_t rest = access.lanes & (access.lanes - 1);
  if (rest == 0) return false;
  const Address first = access.addresses[std::countr_zero(access.lanes)],
                second = access.addresses[std::countr_zero(rest)];
  return second - first > access.bytes && second / 4 != first / 4;
}

// The words of a row that so many bytes touch.
uint16_t words_at(Address address, uint32_t bytes) {
  const auto start = static_cast<uint32_t>(address % kRowBytes / 4 * 4);
  return words_between(start, start + std::max(bytes, 4u));
}

uint8_t bytes_of(Address address, uint64_t bytes) {
  return bytes >= 4 ? 0xf : static_cast<uint8_t>(((1u << bytes) - 1) << (address & 3));
}

// The mark of lanes that share a row, when one can say it: lanes and bytes rise in equal steps. Else it has
// no words.
RowMark mark_of(const Actor& actor, uint32_t lanes) {
  const Access& access = *actor.access;
  const auto first = static_cast<uint32_t>(std::countr_zero(lanes));
  const uint32_t count = static_cast<uint32_t>(std::popcount(lanes)), bytes = access.bytes;
  const Address* at = access.addresses;
  const auto start = static_cast<uint32_t>(at[first] % kRowBytes);
  const bool share = count > 1 && actor.kind != AccessKind::Store && are_equal(at, lanes);
  const uint32_t end = start + bytes * (share ? 1 : count);
  if (((start | end) & 3) != 0 || end > kRowBytes || !std::has_single_bit(bytes)) return {};
  RowMark mark{actor.who, words_between(start, end), static_cast<int16_t>(first), kOneLane};
  mark.several = share;
  if (count == 1 || share) return mark;
  const auto stride = static_cast<uint32_t>(std::countr_zero(lanes & (lanes - 1))) - first;
  for (uint32_t rest = lanes, k = 0; rest; rest &= rest - 1, ++k) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    if (lane != first + k * stride || at[lane] != at[first] + k * bytes) return {};
  }
  mark.shift = static_cast<uint8_t>(std::countr_zero(bytes));
  mark.stride = static_cast<uint8_t>(stride);
  mark.base = static_cast<int16_t>(static_cast<int32_t>(first) -
                                   static_cast<int32_t>((start >> mark.shift) * stride));
  return mark;
}

// The mark that lanes from `lane` on leave in the row at `start`: bytes [low, high), one lane after another.
RowMark mark_of_run(Who who, Address start, Address low, Address high, uint32_t lane, uint32_t shift,
                    bool several) {
  const auto first = static_cast<uint32_t>(std::max(low, start) - start);
  const auto end = static_cast<uint32_t>(std::min(high, start + kRowBytes) - start);
  const int64_t ahead = static_cast<int64_t>(start - low) >> shift;
  const auto base = static_cast<int16_t>(shift == kOneLane ? lane : lane + ahead);
  return {who, words_between(first, end), base, static_cast<uint8_t>(shift), 1, several};
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
      const bool same_lanes =
          there.lane == now.lane && there.shift == now.shift && there.stride == now.stride;
      if (same_lanes && !now.several) return;
      if (!there.is_split() && !now.is_split()) {
        *place |= 1u << 14;
        return;
      }
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
    : context_(context),
      global_(context.memory.range_base(), context.memory.range_bytes()),
      settled_(context.memory.range_base(), context.memory.range_bytes()),
      words_(context.memory.range_base(), context.memory.range_bytes()),
      reads_(context.memory),
      locks_(kLocks) {}

void RaceMemory::access(const Actor& actor) {
  const Access& access = *actor.access;
  const Address* at = access.addresses;
  if (actor.state.meets_reads && writes(actor.kind)) meet_reads(actor);
  RowLock lock(locks_);
  // Lanes that store to one place go one after another: their values decide.
  const bool may_share = actor.kind != AccessKind::Store;
  switch (access.shape) {
    case vgpu::Shape::Unit:
      if (in_run(actor, lock, 0, 32, false)) return;
      break;
    case vgpu::Shape::Uniform:
      if (may_share) return at_one_place(actor, lock, 0, 32);
      break;
    case vgpu::Shape::HalfUnit:
      if (at[0] == at[16]) {
        if (may_share && in_run(actor, lock, 0, 16, true)) return;
      } else if (in_run(actor, lock, 0, 16, false)) {
        if (!in_run(actor, lock, 16, 16, false)) by_lane(actor, lock, 0xffff0000);
        return;
      }
      break;
    case vgpu::Shape::HalfUniform:
      if (!may_share) break;
      at_one_place(actor, lock, 0, 16);
      return at_one_place(actor, lock, 16, 16);
    case vgpu::Shape::Other:
      if ((actor.kind == AccessKind::Load || actor.kind == AccessKind::Store) && are_apart(access)) {
        const uint32_t rest = actor.kind == AccessKind::Load ? load_words(actor, lock, access.lanes)
                                                             : store_words(actor, lock, access.lanes);
        return rest == 0 ? void() : by_groups(actor, lock, rest);
      }
      break;
  }
  by_groups(actor, lock, access.lanes);
}

// Lanes from `lane` on, one after another; false: not in whole words.
bool RaceMemory::in_run(const Actor& actor, RowLock& lock, uint32_t lane, uint32_t lanes, bool several) {
  const uint64_t bytes = actor.access->bytes;
  const Address low = actor.access->addresses[lane], high = low + bytes * lanes;
  if (((low | high) & 3) != 0 || !std::has_single_bit(bytes) || (several && bytes < 4)) return false;
  const uint32_t shift = several ? kOneLane : static_cast<uint32_t>(std::countr_zero(bytes));
  by_range(actor, lock, low, high, lane, shift, several);
  return true;
}

void RaceMemory::at_one_place(const Actor& actor, RowLock& lock, uint32_t lane, uint32_t lanes) {
  const uint64_t bytes = actor.access->bytes;
  const Address low = actor.access->addresses[lane];
  if (((low | bytes) & 3) != 0) return by_word(actor, lock, lane, low, bytes, lanes > 1);
  by_range(actor, lock, low, low + bytes, lane, kOneLane, lanes > 1);
}

// Lanes that share a row.
void RaceMemory::by_groups(const Actor& actor, RowLock& lock, uint32_t lanes) {
  const Access& access = *actor.access;
  for (uint32_t rest = lanes; rest;) {
    const auto first = static_cast<uint32_t>(std::countr_zero(rest));
    const Address row = access.addresses[first] / kRowBytes;
    const uint32_t group =
        access.bytes > kRowBytes / 2 ? 1u << first : lanes_in_row(access.addresses, row, rest);
    rest &= ~group;
    if (access.bytes > kRowBytes / 2)
      at_one_place(actor, lock, first, 1);
    else if (const RowMark mark = mark_of(actor, group); mark.words != 0)
      by_row(actor, lock, row * kRowBytes, mark);
    else
      by_lane(actor, lock, group);
  }
}

// ---- Rows ----

[[gnu::always_inline]] inline bool RaceMemory::try_row(const Actor& actor, Row& row, const RowMark& now) {
  if (const Cells* cells = row.cells()) {
    if (!is_past(actor, *cells)) return false;
    global_.join(row);
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
  row.read.words &= static_cast<uint16_t>(~now.words);
  row.other.words &= static_cast<uint16_t>(~now.words);
  return true;
}

inline void RaceMemory::by_row(const Actor& actor, RowLock& lock, Address start, const RowMark& now) {
  Row& row = row_at(lock, start);
  meet_words(actor, start, now);
  if (!try_row(actor, row, now)) [[unlikely]]
    by_words(actor, row, start, now);
  settle(actor, row, start, now.words);
}

void RaceMemory::by_words(const Actor& actor, Row& row, Address start, const RowMark& now) {
  if (!row.cells()) settled_.unsettle(start);  // cells may say less than the marks did
  Cells& cells = *global_.take_apart(row, actor.who);
  for (uint32_t rest = now.words; rest; rest &= rest - 1) {
    const auto word = static_cast<uint32_t>(std::countr_zero(rest));
    const Address address = start + word * 4;
    if (now.fits_cells()) {
      visit(actor, cells, word, address, now.at(word));
      continue;
    }
    const uint32_t step = 1u << now.shift;
    for (uint32_t b = 0; b < 4; b += step) {
      visit(actor, cells, word, address,
            {now.who, now.lane_of(word * 4 + b), static_cast<uint8_t>(((1u << step) - 1) << b), false});
    }
  }
  if (now.words == kAllWords && writes(actor.kind) && now.fits_cells()) {
    global_.join(row);  // nothing older is left in it
    row.write = now;
  }
}

// A weak write of a whole row. It leaves nothing else of the row to remember, so a row of which no more was known, and
// that nobody raced with, needs no look at its marks. Nothing can be settled or open in such a row, nor can reads or
// stores of its single words be remembered: all of these have asked for its marks.
[[gnu::always_inline]] inline bool RaceMemory::note_whole(const Actor& actor, RowLock& lock, Address start,
                                                          const RowMark& now) {
  if (now.words != kAllWords) return false;
  WholeWrite* whole = global_.whole(start);
  if (!whole) return false;
  lock.hold(start);
  if (whole->bits == WholeWrite::kOther) return false;
  if (whole->bits != 0 && !is_harmless(actor, whole->mark(), now)) return false;
  const WholeWrite write = WholeWrite::of(now);
  if (write.bits == WholeWrite::kOther) return false;
  *whole = write;
  return true;
}

// After a write that is all there is to remember of a row.
inline void RaceMemory::fold(Address start, Row& row, const RowMark& now) {
  if (now.words != kAllWords || row.cells() || settled_.is_known(start)) return;
  WholeWrite* whole = global_.whole(start);
  const WholeWrite write = WholeWrite::of(now);
  if (whole && write.bits != WholeWrite::kOther) *whole = write;
}

inline void RaceMemory::by_range(const Actor& actor, RowLock& lock, Address low, Address high, uint32_t lane,
                                 uint32_t shift, bool several) {
  const bool stores = actor.kind == AccessKind::Store;
  for (Address start = low / kRowBytes * kRowBytes; start < high; start += kRowBytes) {
    const RowMark now = mark_of_run(actor.who, start, low, high, lane, shift, several);
    if (!stores || !note_whole(actor, lock, start, now)) by_row(actor, lock, start, now);
  }
}

inline bool RaceMemory::note_range(const Actor& actor, RowLock& lock, Address low, Address high,
                                   uint32_t lane, uint32_t shift, bool several) {
  const bool stores = writes(actor.kind);
  for (Address start = low / kRowBytes * kRowBytes; start < high; start += kRowBytes) {
    const RowMark now = mark_of_run(actor.who, start, low, high, lane, shift, several);
    if (stores && note_whole(actor, lock, start, now)) continue;
    Row& row = row_at(lock, start);
    if (row.cells() || (stores ? settled_.has_words(start) : settled_.has_stores(start))) return false;
    if (!try_row(actor, row, now)) return false;
    if (stores) {
      settled_.unsettle(start);
      fold(start, row, now);
    } else {
      settle_marks(actor, row, start, 0);
    }
  }
  return true;
}

bool RaceMemory::note(const Actor& actor, const AddressPattern& pattern) {
  if (actor.state.meets_reads && writes(actor.kind)) return false;
  const uint32_t bytes = pattern.bytes, shift = static_cast<uint32_t>(std::countr_zero(bytes));
  constexpr uint32_t kHalf = vgpu::kWarpSize / 2;
  const Address first = pattern.first, second = pattern.second;
  if (((first | second | bytes * kHalf) & 3) != 0 || !std::has_single_bit(bytes)) return false;
  RowLock lock(locks_);
  switch (pattern.shape) {
    case vgpu::Shape::Unit:
      return note_range(actor, lock, first, first + bytes * vgpu::kWarpSize, 0, shift, false);
    case vgpu::Shape::HalfUnit:
      return first != second && note_range(actor, lock, first, first + bytes * kHalf, 0, shift, false) &&
             note_range(actor, lock, second, second + bytes * kHalf, kHalf, shift, false);
    case vgpu::Shape::Uniform:  // of stores, the values decide
      return bytes >= 4 && !writes(actor.kind) &&
             note_range(actor, lock, first, first + bytes, 0, kOneLane, true);
    default:
      return false;
  }
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
    Row& row = row_at(lock, at);
    const auto word = static_cast<uint32_t>(at % kRowBytes / 4);
    const Touch now{actor.who, static_cast<uint8_t>(lane), bytes, several};
    if (!writes(actor.kind)) {
      settled_.unsettle(at);
      if (settled_.words(0, at).stored) meet_store(actor, at, now);
    } else if (close(actor, at, static_cast<uint16_t>(1u << word))) {
      meet_word(actor, at, now);
    }
    if (const Cells* cells = row.cells(); cells && is_past(actor, *cells)) global_.join(row);
    visit(actor, *global_.take_apart(row, actor.who), word, at, now);
  }
}

// ---- Single words ----

bool RaceMemory::fit_words(const Actor& actor) const {
  const uint32_t bytes = actor.access->bytes;
  return bytes <= 16 && std::has_single_bit(bytes) && actor.who.order() == kWeak &&
         !context_.sites.is_hoisted(actor.who.site());
}

uint32_t RaceMemory::load_words(const Actor& actor, RowLock& lock, uint32_t lanes) {
  if (!fit_words(actor)) return lanes;
  const Access& access = *actor.access;
  const uint32_t bytes = access.bytes;
  BlockState& state = actor.state;
  const uint32_t author = words_.author_of(state.word_authors, actor.who);
  if (author == 0) return lanes;
  const Operation& grid = *state.operation;
  uint32_t left = 0, todo = lanes;
  uint32_t unsure = lanes;  // whose words may be written meanwhile
  if (bytes == 4) {
    const SingleWords::Read read{author, 0, 0xf, actor.who, state.first_author, state.ordered_below};
    const uint32_t closings = words_.closings();
    todo &= ~words_.remember_marked(access, lanes, read);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (words_.closings() == closings) unsure = todo;  // the others found marks, and none was taken away
    if (unsure == 0) return 0;
    if (SingleWords::kRemembersLanes)
      todo &= ~words_.remember_lanes(access, settled_.open_lanes(grid.first, access, todo), read);
  }
  for (uint32_t rest = todo; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const Address at = access.addresses[lane];
    const uint16_t words = words_at(at, bytes);
    const SettledRows::Words known = settled_.words(grid.first, at);
    if ((words & ~known.settled) == 0) continue;
    if (at % bytes != 0 ||
        ((words & ~known.open) != 0 && (known.asked || !open(actor, lock, at, words, true)))) {
      left |= 1u << lane;
      continue;
    }
    const SingleWords::Read read{
        author, lane, bytes_of(at, bytes), actor.who, state.first_author, state.ordered_below};
    bool settles = state.settles && !settled_.words(grid.first, at).stored;
    for (Address word = at / 4 * 4; word < at + bytes; word += 4) {
      uint32_t other = 0;
      settles &= words_.remember(word, read, other) && other >= grid.first && other <= grid.last;
    }
    if (settles) settled_.add(grid.first, at, words);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  uint32_t stored = 0;
  left |= unsure & ~settled_.open_lanes(grid.first, access, unsure, stored);
  for (uint32_t rest = stored & unsure & ~left; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const Address at = access.addresses[lane];
    for (Address word = at / 4 * 4; word < at + bytes; word += 4)
      meet_store(actor, word, {actor.who, static_cast<uint8_t>(lane), bytes_of(at, bytes), false});
  }
  return left;
}

uint32_t RaceMemory::store_words(const Actor& actor, RowLock& lock, uint32_t lanes) {
  if (!fit_words(actor)) return lanes;
  const Access& access = *actor.access;
  const uint32_t bytes = access.bytes;
  const uint32_t author = words_.author_of(actor.state.word_authors, actor.who);
  if (author == 0) return lanes;
  const uint32_t grid = actor.state.operation->first;
  uint32_t left = 0;
  for (uint32_t rest = lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const Address at = access.addresses[lane];
    const uint16_t words = words_at(at, bytes);
    const Row& row = row_at(lock, at);
    const SettledRows::Words known = settled_.words(grid, at);
    const auto is_read = [&](const RowMark& mark) {
      return (mark.words & words) != 0 && !is_past(actor, mark.who);
    };
    const bool is_open = (words & ~known.open) == 0 || (!known.asked && open(actor, lock, at, words, false));
    bool fits = at % bytes == 0 && is_open &&
                (row.cells() ? is_past(actor, *row.cells()) : !is_read(row.read) && !is_read(row.other));
    for (Address word = at / 4 * 4; fits && word < at + bytes; word += 4) {
      const Touch before = words_.written(word);  // of which nothing may be lost
      fits = (before.bytes & ~bytes_of(at, bytes)) == 0 || is_past(actor, before.who);
    }
    if (!fits) {
      left |= 1u << lane;
      continue;
    }
    settled_.store(at);
    words_.unmark(at, words);
    const Touch now{actor.who, static_cast<uint8_t>(lane), bytes_of(at, bytes), false};
    for (Address word = at / 4 * 4; word < at + bytes; word += 4) {
      meet_store(actor, word, now);
      words_.write(word, author, lane, bytes_of(at, bytes));
    }
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (uint32_t rest = lanes & ~left; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    const Address at = access.addresses[lane];
    const Touch now{actor.who, static_cast<uint8_t>(lane), bytes_of(at, bytes), false};
    for (Address word = at / 4 * 4; word < at + bytes; word += 4)
      words_.take_reads(word, now.bytes, [&](const Touch& before) { judge_word(actor, before, now, word); });
  }
  return left;
}

void RaceMemory::judge_word(const Actor& actor, const Touch& before, const Touch& now, Address word) {
  const bool is_same_thread = before.who.block() == now.who.block() && before.who.warp() == now.who.warp() &&
                              before.lane == now.lane && !now.several && !now.is_split();
  if (is_past(actor, before.who) || (is_same_thread && !actor.noncoherent)) return;
  judge(actor, before, now, word);
}

void RaceMemory::meet_store(const Actor& actor, Address word, const Touch& now) {
  if (const Touch before = words_.written(word)) judge_word(actor, before, now, word);
}

void RaceMemory::meet_word(const Actor& actor, Address word, const Touch& now) {
  const auto compare = [&](const Touch& before) { judge(actor, before, now, word); };
  words_.take_reads(word, now.bytes, compare);
  words_.take_write(word, now.bytes, compare);
}

uint16_t RaceMemory::stored_words(const Actor& actor, Address start) {
  if (!settled_.words(0, start).stored) return 0;
  uint16_t stored = 0;
  for (uint32_t word = 0; word < kRowWords; ++word)
    if (const Touch before = words_.written(start + word * 4); before && !is_past(actor, before.who))
      stored |= static_cast<uint16_t>(1u << word);
  if (stored == 0) settled_.forget_stores(start);
  return stored;
}

bool RaceMemory::open(const Actor& actor, RowLock& lock, Address at, uint16_t words, bool marks) {
  const Row& row = row_at(lock, at);
  auto open = static_cast<uint16_t>(kAllWords);
  if (const Cells* cells = row.cells()) {
    for (uint32_t word = 0; word < kRowWords; ++word) {
      const Touch write = cells->get(cells->write[word]);
      const bool is_open = (!write || is_past(actor, write.who)) && (cells->other[word] & Cells::kWrote) == 0;
      if (!is_open) open &= static_cast<uint16_t>(~(1u << word));
    }
  } else if (!is_past(actor, row.write.who)) {
    open &= static_cast<uint16_t>(~row.write.words);
  }
  if (marks && !settled_.words(0, at).stored)
    words_.mark(at / kRowBytes * kRowBytes, open, actor.state.first_author);
  settled_.open(actor.state.operation->first, at, open);
  return (words & ~settled_.words(actor.state.operation->first, at).open) == 0;
}

bool RaceMemory::close(const Actor& actor, Address at, uint16_t words) {
  if (!settled_.write(actor.state.operation->first, at, words)) return false;
  words_.unmark(at, words);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return true;
}

void RaceMemory::meet_words(const Actor& actor, Address start, const RowMark& now) {
  const bool stores = writes(actor.kind);
  if (!stores && !settled_.words(0, start).stored) return;
  if (stores && !close(actor, start, now.words)) return;
  for (uint32_t rest = now.words; rest; rest &= rest - 1) {
    const auto word = static_cast<uint32_t>(std::countr_zero(rest));
    const Address address = start + word * 4;
    stores ? meet_word(actor, address, now.at(word)) : meet_store(actor, address, now.at(word));
  }
}

// ---- Settled words ----

void RaceMemory::settle(const Actor& actor, Row& row, Address start, uint16_t touched) {
  if (writes(actor.kind)) return;
  if (!actor.state.settles) return settled_.unsettle(start);
  const uint16_t stored = stored_words(actor, start);
  Cells* cells = row.cells();
  if (!cells) return settle_marks(actor, row, start, stored);
  const uint32_t grid = actor.state.operation->first;
  uint16_t words = settled_of(actor, *cells, touched);
  if (!std::exchange(cells->forgot, false))
    words |= settled_.words(grid, start).settled & static_cast<uint16_t>(~touched);
  settled_.set(grid, start, words & static_cast<uint16_t>(~stored));
}

inline void RaceMemory::settle_marks(const Actor& actor, const Row& row, Address start, uint16_t stored) {
  if (!actor.state.settles) return settled_.unsettle(start);
  uint16_t words = row.read.words & row.other.words & static_cast<uint16_t>(~stored);
  if (!is_past(actor, row.write.who)) words &= static_cast<uint16_t>(~row.write.words);
  if (words != 0 && !stay(actor, row.read.who, row.other.who)) words = 0;
  settled_.set(actor.state.operation->first, start, words);
}

uint16_t RaceMemory::settled_of(const Actor& actor, const Cells& cells, uint16_t words) const {
  uint16_t settled = 0;
  for (uint32_t rest = words; rest; rest &= rest - 1) {
    const auto word = static_cast<uint32_t>(std::countr_zero(rest));
    const Touch write = cells.get(cells.write[word]), read = cells.get(cells.read[word]),
                other = cells.get(cells.other[word]);
    if (read.bytes != 0xf || other.bytes != 0xf || (cells.other[word] & Cells::kWrote)) continue;
    if ((!write || is_past(actor, write.who)) && stay(actor, read.who, other.who))
      settled |= static_cast<uint16_t>(1u << word);
  }
  return settled;
}

// Two reads of different blocks, against which every write of the grid will count.
bool RaceMemory::stay(const Actor& actor, Who a, Who b) const {
  const Operation& grid = *actor.state.operation;
  const auto stays = [&](Who who) {
    return who.block() >= grid.first && who.block() <= grid.last && who.order() == kWeak &&
           !context_.sites.is_hoisted(who.site());
  };
  return a.block() != b.block() && stays(a) && stays(b);
}

// ---- Words ----

void RaceMemory::visit(const Actor& actor, Cells& cells, uint32_t word, Address address, const Touch& now) {
  cells.newest = actor.who.block();
  judge(actor, cells.get(cells.write[word]), now, address);
  if (cells.other[word] & Cells::kWrote) [[unlikely]]
    judge(actor, cells.get(cells.other[word]), now, address);
  if (!writes(actor.kind)) return remember_read(actor, cells, word, now);
  judge(actor, cells.get(cells.read[word]), now, address);
  judge(actor, cells.get(cells.other[word]), now, address);
  for (uint16_t* read : {&cells.read[word], &cells.other[word]})
    if ((cells.get(*read).bytes & ~now.bytes) == 0) *read = 0;
  cells.put_write(word, now);
}

void RaceMemory::judge(const Actor& actor, const Touch& before, const Touch& now, Address address) {
  const auto compare = [&](const Touch& a, const Touch& b) {
    if (is_race(context_, actor, a, b, address)) report_race(context_, actor, a, b, address);
  };
  if (!before.is_split() && !now.is_split()) return compare(before, now);
  for (uint32_t common = before.bytes & now.bytes; common != 0;) {
    const Touch a = before.part(common), b = now.part(common & a.bytes);
    compare({a.who, a.lane, b.bytes, a.several}, b);
    common &= ~uint32_t{b.bytes};
  }
}

// ---- Reads that are remembered by rows ----

void RaceMemory::meet_reads(const Actor& actor) {
  const Access& access = *actor.access;
  for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
    const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
    meet_reads(actor, lane, access.addresses[lane], access.bytes);
  }
}

void RaceMemory::meet_reads(const Actor& actor, uint32_t lane, Address low, uint64_t bytes) {
  const Address high = low + bytes;
  for (Address start = low / kRowBytes * kRowBytes; start < high; start += kRowBytes) {
    const Address from = std::max(low, start) / 4 * 4, to = std::min(high, start + kRowBytes);
    const GridReads::Read read = reads_.read(start, words_between(from - start, (to - start + 3) / 4 * 4));
    if (read.words == 0 || is_past(actor, read.who)) continue;
    for (uint32_t rest = read.words; rest; rest &= rest - 1) {
      const Address word = start + static_cast<Address>(std::countr_zero(rest)) * 4;
      const Address first = std::max(word, low);
      const Touch now{actor.who, static_cast<uint8_t>(lane),
                      bytes_of(first, std::min(word + 4, high) - first), false};
      judge(actor, {read.who, kAnyLane, 0xf, true}, now, word);
    }
  }
}

// ---- Copies and fills ----

void RaceMemory::touch(BlockState& state, const RangeInfo& range, AccessKind kind) {
  if (range.host || !context_.scope.between_operations) return;
  const Actor actor{state, kind, Who::make(state.clock.id, 0, writes(kind) ? kCopyWrites : 0, kWeak, 0)};
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
  if (actor.state.meets_reads && writes(actor.kind)) meet_reads(actor, 0, low, bytes);
  const Address whole = std::min(high, (low + 3) / 4 * 4), end = std::max(whole, high / 4 * 4);
  if (low < whole) by_word(actor, lock, 0, low, whole - low, false);
  if (whole < end) by_range(actor, lock, whole, end, 0, kOneLane, false);
  if (end < high) by_word(actor, lock, 0, end, high - end, false);
}

}  // namespace assay::checks
