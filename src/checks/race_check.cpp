// Data races: two accesses to the same bytes, at least one a write, not both strong, that nothing orders.
//
// Order is happens-before, so what a schedule happened to do does not matter: one run finds the races of its
// inputs. Within a launch it comes from barriers, fences and strong accesses (race_clock.h); between kernels,
// copies and fills from streams, events and what the host waited for (race_order.h). Accesses are compared
// with the last write and two reads of the same bytes (race_shadow.h); an older one may be forgotten, which
// can hide a race but never invents one. Two kinds of conflict are no race: threads that store the value that
// is already there, and loads whose value only a `selp` sees, which the compiler hoisted out of a condition.
//
// An access goes three ways, each for what the one before cannot judge: a regular piece of it against a row's
// marks; the piece word by word; lane by lane.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "checks/checks.h"
#include "checks/race_clock.h"
#include "checks/race_order.h"
#include "checks/race_pieces.h"
#include "checks/race_shadow.h"
#include "checks/race_sites.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"

namespace assay::checks {

namespace {

using vgpu::Access;
using vgpu::AccessKind;
using vgpu::Address;
using vgpu::OperationInfo;
using vgpu::Order;
using vgpu::RangeInfo;

constexpr size_t kLocks = 1024;
constexpr Address kInBlock = Address{1} << 62;  // of a location's key: what counts within one block

struct SpinLock {
  std::atomic_flag flag = ATOMIC_FLAG_INIT;
  void lock() {
    while (flag.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() { flag.clear(std::memory_order_release); }
};

// Holds the lock of one row at a time.
class RowLock {
 public:
  explicit RowLock(std::vector<SpinLock>& locks) : locks_(locks) {}
  ~RowLock() {
    if (held_) held_->unlock();
  }
  RowLock(const RowLock&) = delete;
  RowLock& operator=(const RowLock&) = delete;
  void hold(Address address) {
    SpinLock* lock = &locks_[address >> 12 & (kLocks - 1)];
    if (lock == held_) return;
    if (held_) held_->unlock();
    (held_ = lock)->lock();
  }

 private:
  std::vector<SpinLock>& locks_;
  SpinLock* held_ = nullptr;
};

// What one block, or one copy, needs: its clock, the rows of its shared memory, its operation.
struct BlockState {
  const Operation* operation = nullptr;
  uint32_t ordered_below = 0;  // numbers below come before the operation
  BlockClock clock;
  std::vector<Row> shared;
  CellPool shared_cells;
  uint32_t phase = 1;            // barriers of the whole block so far
  std::vector<uint32_t> floors;  // by warp: its tick at the last of them
  bool exhausted = false;        // ticks have run out: say nothing more
  BlockState(BlockId number, size_t warps) : clock(number, warps), floors(warps, 0) {}
};

uint32_t strength(const Access& access) {
  if (access.kind == AccessKind::Load || access.kind == AccessKind::Store) {
    if (access.order == Order::Weak) return kWeak;
    if (access.order == Order::Volatile) return kStrong;
  }
  return access.scope == vgpu::Scope::Block || access.scope == vgpu::Scope::Thread ? kStrongInBlock : kStrong;
}

bool is_release(Order order) {
  return order == Order::Release || order == Order::AcquireRelease || order == Order::SequentiallyConsistent;
}
bool is_acquire(Order order) {
  return order == Order::Acquire || order == Order::AcquireRelease || order == Order::SequentiallyConsistent;
}
bool is_wide(vgpu::Scope scope) {
  return scope != vgpu::Scope::Thread && scope != vgpu::Scope::Block;
}
bool writes(AccessKind kind) {
  return kind != AccessKind::Load;
}
bool reads(AccessKind kind) {
  return kind == AccessKind::Load || kind == AccessKind::Atomic;
}
bool is_strong(uint32_t order) {
  return order == kStrongInBlock || order == kStrong;
}

std::string_view noun(AccessKind kind) {
  constexpr std::string_view kNouns[] = {"read", "write", "atomic", "atomic"};
  return kNouns[static_cast<size_t>(kind)];
}

std::string_view name_of(OperationInfo::Kind kind) {
  constexpr std::string_view kNames[] = {"marker", "kernel", "copy", "fill", "host call", "event", "free"};
  return kNames[static_cast<size_t>(kind)];
}

std::string triple(const vgpu::Dim3& d) {
  return fmt::format("({},{},{})", d.x, d.y, d.z);
}

vgpu::Dim3 place_in(const vgpu::Dim3& extent, uint64_t linear) {
  if (extent.count() == 0) return {0, 0, 0};
  return {static_cast<uint32_t>(linear % extent.x), static_cast<uint32_t>(linear / extent.x % extent.y),
          static_cast<uint32_t>(linear / extent.x / extent.y)};
}

// Who does something now: a warp's instruction, or a copy or fill (then `warp` is null).
struct Actor {
  BlockState& state;
  AccessKind kind;
  Who who;
  bool shared = false;
  const vgpu::Warp* warp = nullptr;
  const vgpu::Inst* inst = nullptr;
  const Access* access = nullptr;
};

class RaceCheck final : public vgpu::Listener {
 public:
  RaceCheck(FindingLog& log, const vgpu::Memory& memory, RaceScope scope)
      : log_(log),
        memory_(memory),
        scope_(scope),
        global_(memory.range_base(), memory.range_bytes()),
        locks_(kLocks) {}

  // ---- Operations ----

  void on_operation(const OperationInfo& info) override {
    std::lock_guard lock(mutex_);
    order_.begin(info);
    if (info.kind == OperationInfo::Kind::Grid) starting_ = info.id;
  }

  void on_copy(const OperationInfo& info, const RangeInfo& to, const RangeInfo& from) override {
    BlockState state = state_of(info);
    touch(state, from, AccessKind::Load);
    touch(state, to, AccessKind::Store);
  }

  void on_fill(const OperationInfo& info, const RangeInfo& to) override {
    BlockState state = state_of(info);
    touch(state, to, AccessKind::Store);
  }

  void on_launch(const vgpu::LaunchInfo& info) override {
    std::lock_guard lock(mutex_);
    const uint64_t starting = std::exchange(starting_, 0);
    Operation* found = starting ? order_.find(starting) : nullptr;
    Operation& operation = found ? *found : order_.begin_alone();
    operation.kernel = info.kernel.name();
    operation.grid = info.config.grid;
    operation.block = info.config.block;
    number(operation, info.config.grid.count());
    if (launches_.empty()) {
      locations_.clear();
      has_fences_.store(false, std::memory_order_relaxed);
      sites_.forget_instructions();
    }
    launches_[info.id] = {&operation, order_.ordered_below(operation)};
  }

  void on_launch_end(const vgpu::LaunchInfo& info) override {
    std::lock_guard lock(mutex_);
    launches_.erase(info.id);
  }

  // ---- Blocks ----

  void on_block(const vgpu::Block& block) override {
    std::lock_guard lock(mutex_);
    const Launch launch = launches_[block.grid->info.id];
    const uint32_t count = launch.operation->last - launch.operation->first + 1;
    auto* state = new BlockState(launch.operation->first + static_cast<uint32_t>(block.linear % count),
                                 block.warps.size());
    state->operation = launch.operation;
    state->ordered_below = launch.ordered_below;
    state->shared.resize((block.shared_bytes + kRowBytes - 1) / kRowBytes);
    block.race_state = state;
  }

  void on_block_end(const vgpu::Block& block) override {
    delete static_cast<BlockState*>(block.race_state);
    block.race_state = nullptr;
  }

  void on_block_barrier(const vgpu::Block& block, uint32_t barrier) override {
    BlockState& state = state_of(block);
    std::lock_guard lock(mutex_);
    auto arrived = block.barriers[barrier].arrived;
    bool whole = true;
    for (const vgpu::Warp& warp : block.warps) whole &= (warp.live & ~arrived[warp.index]) == 0;
    for (const vgpu::Warp& warp : block.warps)  // who has exited counts as arrived
      if (whole && warp.live == 0) arrived[warp.index] = vgpu::kAllLanes;
    state.clock.sync_block(arrived, block);
    if (whole) begin_phase(state);
    note_exhaustion(state);
  }

  void on_cluster_barrier(const vgpu::Cluster& cluster) override {
    std::lock_guard lock(mutex_);
    auto meeting = std::make_shared<SharedClock>();
    for (const vgpu::Block& block : cluster.blocks) {
      BlockState& state = state_of(block);
      std::vector<uint32_t> everybody(block.warps.size(), vgpu::kAllLanes);
      state.clock.sync_block(everybody, block);
      begin_phase(state);
      meeting->merge(state.clock.id, state.clock.warps.front().known);
      for (const auto& other : state.clock.warps.front().others) meeting->follow(other);
    }
    for (const vgpu::Block& block : cluster.blocks)
      for (WarpClock& warp : state_of(block).clock.warps) warp.others.push_back(meeting);
  }

  void on_warp_sync(const vgpu::Warp& warp, const vgpu::Inst&, uint32_t lanes, bool orders_memory) override {
    if (!orders_memory) return;
    BlockState& state = state_of(*warp.block);
    state.clock.sync_warp(warp.index, lanes, warp.live);
    note_exhaustion(state);
  }

  void on_fence(const vgpu::Warp& warp, const vgpu::Inst&, vgpu::Scope scope, uint32_t) override {
    BlockState& state = state_of(*warp.block);
    std::lock_guard lock(mutex_);
    state.clock.fence(warp.index, is_wide(scope));
    has_fences_.store(true, std::memory_order_relaxed);
    note_exhaustion(state);
  }

  // ---- Accesses ----

  void on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const Access& access) override {
    const bool shared = access.space == ptx::Space::Shared;
    if (!shared && access.space != ptx::Space::Global) return;
    BlockState& state = state_of(*warp.block);
    if (state.exhausted) return;
    const bool in_flight = access.asynchronous && shared && writes(access.kind);
    if (in_flight && access.order == Order::Acquire) return forget(state, access);
    uint32_t order = strength(access);
    if (order) synchronise(state, warp, access);
    if (in_flight) order = kInFlight;
    const Who who = Who::make(state.clock.id, warp.index, state.clock.warps[warp.index].tick, order,
                              sites_.number(warp, inst, access));
    const Actor actor{state, access.kind, who, shared, &warp, &inst, &access};
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

 private:
  struct Launch {
    const Operation* operation = nullptr;
    uint32_t ordered_below = 0;
  };

  FindingLog& log_;
  const vgpu::Memory& memory_;
  const RaceScope scope_;
  RowShadow global_;
  std::vector<SpinLock> locks_;
  RaceSites sites_;
  std::atomic<bool> has_fences_{false};
  std::mutex mutex_;  // of what follows, and of every SharedClock
  OperationOrder order_;
  uint64_t starting_ = 0;                          // the grid that is about to start
  std::unordered_map<uint64_t, Launch> launches_;  // under way, by id
  std::unordered_map<Address, std::shared_ptr<SharedClock>> locations_;

  static BlockState& state_of(const vgpu::Block& block) {
    return *static_cast<BlockState*>(block.race_state);
  }

  BlockState state_of(const OperationInfo& info) {
    std::lock_guard lock(mutex_);
    Operation* found = order_.find(info.id);
    Operation& operation = found ? *found : order_.begin(info);
    if (operation.first == 0) number(operation, 1);
    BlockState state(operation.first, 1);
    state.operation = &operation;
    state.ordered_below = order_.ordered_below(operation);
    return state;
  }

  void number(Operation& operation, uint64_t count) {
    if (!order_.number(operation, count)) global_.clear();
  }

  static void begin_phase(BlockState& state) {
    ++state.phase;
    for (size_t w = 0; w < state.floors.size(); ++w) state.floors[w] = state.clock.warps[w].tick;
  }

  static void note_exhaustion(BlockState& state) {
    for (const WarpClock& warp : state.clock.warps) state.exhausted |= warp.tick >= kMostTicks;
  }

  static bool is_fold(const Piece* pieces) {
    return !pieces[0].uniform && !pieces[1].uniform && pieces[0].address == pieces[1].address &&
           pieces[0].lanes == pieces[1].lanes;
  }

  // Strong accesses carry knowledge from thread to thread.
  void synchronise(BlockState& state, const vgpu::Warp& warp, const Access& access) {
    const bool releases = is_release(access.order) && writes(access.kind);
    if (releases) has_fences_.store(true, std::memory_order_relaxed);
    if (!has_fences_.load(std::memory_order_relaxed)) return;  // nothing has been published yet
    std::lock_guard lock(mutex_);
    WarpClock& clock = state.clock.warps[warp.index];
    const bool wide = access.order == Order::Volatile || is_wide(access.scope);
    if (releases) state.clock.fence(warp.index, wide);
    for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
      // Shared memory is told apart by its block.
      Address key = access.addresses[std::countr_zero(rest)];
      const Address block = Address{state.clock.id} << 32 | Address{1} << 63;
      if (access.space == ptx::Space::Shared) key |= block;
      if (reads(access.kind)) {
        const bool acquires = is_acquire(access.order);
        if (wide) take(key, acquires ? clock.others : clock.pending);
        take(key ^ block ^ kInBlock, acquires ? clock.others : clock.pending_in_block);
      }
      if (writes(access.kind)) {
        if (wide) publish(key, clock.fenced);
        publish(key ^ block ^ kInBlock, clock.fenced_in_block);
      }
    }
  }

  // What was published through a location is known from now on, or after the next fence.
  void take(Address key, std::vector<std::shared_ptr<SharedClock>>& to) {
    const auto found = locations_.find(key);
    if (found != locations_.end() && std::find(to.begin(), to.end(), found->second) == to.end())
      to.push_back(found->second);
  }

  void publish(Address key, const std::shared_ptr<SharedClock>& clock) {
    if (!clock) return;
    auto& location = locations_[key];
    if (!location) location = std::make_shared<SharedClock>();
    for (const auto& [id, ticks] : clock->blocks) location->merge(id, ticks);
    for (const auto& source : clock->sources) location->follow(source);
  }

  // ---- Rows ----

  Row* row_at(const Actor& actor, RowLock& lock, Address address) {
    if (!actor.shared) {
      lock.hold(address);
      return &global_.at(address);
    }
    const uint64_t index = address / kRowBytes;
    return index < actor.state.shared.size() ? &actor.state.shared[index] : nullptr;
  }

  Cells* take_apart(const Actor& actor, Row& row) {
    return actor.shared ? checks::take_apart(row, actor.state.shared_cells) : global_.take_apart(row);
  }

  void join(const Actor& actor, Row& row) {
    if (!actor.shared) return global_.join(row);
    if (Cells* cells = row.cells()) actor.state.shared_cells.give_back(cells);
    row = {};
  }

  static uint32_t stamp(const Actor& actor) { return actor.shared ? actor.state.phase : actor.who.block(); }

  // Whether everything that could still conflict with it comes after it.
  static bool is_past(const Actor& actor, Who who) {
    if (actor.shared)
      return who.block() == actor.state.clock.id && who.tick() < actor.state.floors[who.warp()] &&
             who.order() != kInFlight;
    return who.block() < actor.state.ordered_below;
  }
  static bool is_past(const Actor& actor, const Cells& cells) {
    return cells.newest < (actor.shared ? actor.state.phase : actor.state.ordered_below);
  }

  // Whether it can be seen at once that two marks of a row do not conflict.
  static bool is_harmless(const Actor& actor, const RowMark& before, const RowMark& now) {
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

  // Compares and remembers; false: the marks of a row cannot tell.
  bool try_row(const Actor& actor, Row& row, const RowMark& now) {
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

  template <class GivesWay>
  static bool remember_read(Row& row, const RowMark& now, GivesWay gives_way) {
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

  void by_row(const Actor& actor, RowLock& lock, Address start, const RowMark& now) {
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

  // Bytes [low, high), whole words, of consecutive lanes from `lane` on; with `several`, all by several
  // lanes.
  void by_range(const Actor& actor, RowLock& lock, Address low, Address high, uint32_t lane, uint32_t shift,
                bool several) {
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

  void by_rows(const Actor& actor, RowLock& lock, const Piece& piece, bool fold) {
    const uint64_t bytes = actor.access->bytes;
    const bool alone = piece.lanes == 1 && !fold;
    const bool several = fold || (piece.uniform && !alone);
    const Address high = piece.address + (piece.uniform && !fold ? bytes : bytes * piece.lanes);
    if (((piece.address | high) & 3) != 0 || (!alone && !several && !std::has_single_bit(bytes)))
      return by_lane(actor, lock, lanes_of(piece));
    const uint32_t shift = alone || several ? 7 : static_cast<uint32_t>(std::countr_zero(bytes));
    by_range(actor, lock, piece.address, high, piece.lane, shift, several);
  }

  void by_piece(const Actor& actor, RowLock& lock, const Piece& piece) {
    const bool gathers = piece.uniform && piece.lanes > 1;
    // Lanes that store to one place: their values decide.
    if (gathers && actor.kind == AccessKind::Store) return by_lane(actor, lock, lanes_of(piece));
    if (gathers && (actor.access->bytes < 4 || (piece.address & 3) != 0))
      return by_word(actor, lock, piece.lane, piece.address, actor.access->bytes, true);
    by_rows(actor, lock, piece, false);
  }

  static uint32_t lanes_of(const Piece& piece) {
    return (piece.lanes == 32 ? vgpu::kAllLanes : (1u << piece.lanes) - 1) << piece.lane;
  }

  void by_lane(const Actor& actor, RowLock& lock, uint32_t lanes) {
    for (uint32_t rest = lanes; rest; rest &= rest - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
      by_word(actor, lock, lane, actor.access->addresses[lane], actor.access->bytes, false);
    }
  }

  void by_word(const Actor& actor, RowLock& lock, uint32_t lane, Address address, uint64_t size,
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

  void visit(const Actor& actor, Cells& cells, uint32_t word, Address address, const Touch& now) {
    cells.newest = stamp(actor);
    judge(actor, cells.get(cells.write[word]), now, address);
    if (!writes(actor.kind)) return remember_read(actor, cells, word, now);
    judge(actor, cells.get(cells.read[word]), now, address);
    judge(actor, cells.get(cells.other[word]), now, address);
    for (uint16_t* read : {&cells.read[word], &cells.other[word]})
      if ((cells.get(*read).bytes & ~now.bytes) == 0) *read = 0;
    cells.write[word] = cells.put(now);
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

  void judge(const Actor& actor, const Touch& before, const Touch& now, Address address) {
    if (!before || !conflicts(actor, before, now)) return;
    if (actor.access && actor.access->values && stores_the_same(actor, before, now, address)) return;
    report(actor, before, now, address);
  }

  bool conflicts(const Actor& actor, const Touch& before, const Touch& now) {
    const BlockState& state = actor.state;
    const Who a = before.who, b = now.who;
    if ((before.bytes & now.bytes) == 0 || a.block() < state.ordered_below) return false;
    const bool same_block = a.block() == b.block();
    const bool both_strong = is_strong(a.order()) && is_strong(b.order());
    if (both_strong && (same_block || (a.order() == kStrong && b.order() == kStrong))) return false;
    if (a.block() < state.operation->first || a.block() > state.operation->last) {
      if (!scope_.between_operations) return false;
      std::lock_guard lock(mutex_);
      return !order_.is_before(a.block(), *state.operation);
    }
    if (!scope_.within_launches || !actor.warp) return false;
    const bool same_thread =
        same_block && a.warp() == b.warp() && before.lane == now.lane && !before.several && !now.several;
    if (a.order() == kInFlight) return !same_thread || actor.kind == AccessKind::Load;
    if (same_thread) return false;
    if (same_block && a.warp() == b.warp()) return !lanes_are_ordered(state.clock, before, now);
    if (same_block && a.tick() < state.clock.warps[b.warp()].known[a.warp()]) return false;
    std::lock_guard lock(mutex_);
    return !state.clock.is_before(a.block(), a.warp(), a.tick(), b.warp());
  }

  // Within a warp. Where several lanes are meant and some of them are ordered, all are taken to be.
  static bool lanes_are_ordered(const BlockClock& clock, const Touch& before, const Touch& now) {
    const Who a = before.who, b = now.who;
    const WarpClock& warp = clock.warps[b.warp()];
    if (a.tick() < warp.all_lanes) return true;
    if (!before.several && !now.several)
      return clock.is_before(a.warp(), before.lane, a.tick(), b.warp(), now.lane);
    if (!warp.lanes) return false;
    for (uint32_t x = 0; x < 32; ++x) {
      if (!before.several && x != before.lane) continue;
      for (uint32_t y = 0; y < 32; ++y) {
        if ((!now.several && y != now.lane) || x == y) continue;
        if (clock.is_before(a.warp(), x, a.tick(), b.warp(), y)) return true;
      }
    }
    return false;
  }

  // A store that leaves the bytes as they are, or as another lane of the same instruction sets them.
  bool stores_the_same(const Actor& actor, const Touch& before, const Touch& now, Address address) {
    const Access& access = *actor.access;
    const auto first = static_cast<uint32_t>(std::countr_zero(uint32_t{now.bytes}));
    const auto count = static_cast<uint32_t>(std::popcount(uint32_t{now.bytes}));
    address += first;
    const std::byte* value =
        access.values + size_t{now.lane} * access.bytes + (address - access.addresses[now.lane]);
    const bool same_instruction = before.who == now.who && (access.lanes >> before.lane & 1) != 0;
    if (same_instruction) {
      const uint64_t theirs = address - access.addresses[before.lane];
      return theirs + count <= access.bytes &&
             std::memcmp(value, access.values + size_t{before.lane} * access.bytes + theirs, count) == 0;
    }
    const std::byte* there =
        actor.shared ? actor.warp->block->shared + address : memory_.host(address, count);
    return there && std::memcmp(value, there, count) == 0;
  }

  // ---- Copies and fills ----

  void touch(BlockState& state, const RangeInfo& range, AccessKind kind) {
    if (range.host || !scope_.between_operations) return;
    const Actor actor{state, kind, Who::make(state.clock.id, 0, 0, kWeak, 0)};
    RowLock lock(locks_);
    const bool dense = (range.height == 1 || range.row_pitch == range.width) &&
                       (range.depth == 1 || range.slice_pitch == range.width * range.height);
    const uint64_t width = dense ? range.width * range.height * range.depth : range.width;
    for (uint64_t z = 0; z < (dense ? 1 : range.depth); ++z)
      for (uint64_t y = 0; y < (dense ? 1 : range.height); ++y)
        touch_bytes(actor, lock, range.address + z * range.slice_pitch + y * range.row_pitch, width);
  }

  void touch_bytes(const Actor& actor, RowLock& lock, Address low, uint64_t bytes) {
    const Address high = low + bytes;
    const Address whole = std::min(high, (low + 3) / 4 * 4), end = std::max(whole, high / 4 * 4);
    if (low < whole) by_word(actor, lock, 0, low, whole - low, false);
    if (whole < end) by_range(actor, lock, whole, end, 0, 7, false);
    if (end < high) by_word(actor, lock, 0, end, high - end, false);
  }

  // A bulk copy has arrived, and whoever waited for it knows: what it wrote is nobody's.
  void forget(BlockState& state, const Access& access) {
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

  // ---- Reports ----

  struct Side {
    std::string text;  // "write at k.cu:14 by thread (1,0,0) of block (0,0,0)"
    std::string key;
  };

  Side other_side(const Touch& before, const Operation* operation, bool same_launch, bool same_block,
                  Json& evidence) {
    Json& json = evidence["other"] = Json::object();
    if (!operation) return {"an earlier access", "?"};
    if (operation->kind != OperationInfo::Kind::Grid) {
      json = {{"operation", name_of(operation->kind)}, {"stream", operation->stream}};
      return {fmt::format("{} on stream {}", name_of(operation->kind), operation->stream),
              std::string(name_of(operation->kind))};
    }
    const RaceSite* site = sites_.at(before.who.site());
    const std::string_view what = !site                ? "access"
                                  : site->asynchronous ? "asynchronous copy"
                                                       : noun(site->kind);
    const std::string where = site ? site->where : "an earlier instruction";
    const vgpu::Dim3 thread =
        place_in(operation->block, uint64_t{before.who.warp()} * vgpu::kWarpSize + before.lane);
    const vgpu::Dim3 block = place_in(operation->grid, before.who.block() - operation->first);
    if (site) json = {{"file", site->file}, {"line", site->line}};
    json["access"] = what;
    json["kernel"] = operation->kernel;
    json["block"] = {block.x, block.y, block.z};
    json["thread"] = {thread.x, thread.y, thread.z};
    std::string text = fmt::format("{} at {} by thread {} of {}", what, where, triple(thread),
                                   same_block ? "the same block" : "block " + triple(block));
    if (!same_launch) {
      json["stream"] = operation->stream;
      text += fmt::format(" of kernel {} on stream {}", operation->kernel, operation->stream);
    }
    return {std::move(text), where};
  }

  bool is_hoisted(const Touch& touch, const Operation* operation) const {
    if (!operation || operation->kind != OperationInfo::Kind::Grid) return false;
    const RaceSite* site = sites_.at(touch.who.site());
    return site && site->hoisted;
  }

  void report(const Actor& actor, const Touch& before, const Touch& now, Address address) {
    const Operation* mine = actor.state.operation;
    const Operation* theirs;
    {
      std::lock_guard lock(mutex_);
      theirs = order_.of_block(before.who.block());
    }
    const Occurrence occurrence{
        "data-race", actor.inst ? static_cast<const void*>(actor.inst) : mine,
        theirs == mine ? static_cast<const void*>(sites_.at(before.who.site())) : theirs};
    if (log_.counted(occurrence) || is_hoisted(now, mine) || is_hoisted(before, theirs)) return;
    Finding finding;
    if (actor.warp) finding = finding_at("data-race", *actor.warp, *actor.inst, now.lane);
    finding.kind = "data-race";
    Json& evidence = finding.evidence;
    const bool same_launch = mine == theirs, same_block = before.who.block() == now.who.block();
    const std::string what = actor.shared ? fmt::format("shared memory, offset {}", address)
                                          : describe_address(memory_, address, evidence);
    const Side other = other_side(before, theirs, same_launch, same_block, evidence);
    std::string self(noun(actor.kind));
    if (!actor.warp) {
      self = fmt::format("the {} on stream {}: its {}", name_of(mine->kind), mine->stream, noun(actor.kind));
      evidence["operation"] = name_of(mine->kind);
      if (const auto& at = evidence["other"]; at.contains("file")) finding.where = {at["file"], at["line"]};
      if (theirs && !theirs->kernel.empty()) evidence["kernel"] = theirs->kernel;
    }
    if (!same_launch) evidence["stream"] = mine->stream;
    evidence["access"] = noun(actor.kind);
    evidence["relation"] = !same_launch                          ? "operations"
                           : !same_block                         ? "blocks"
                           : before.who.warp() != now.who.warp() ? "block"
                                                                 : "warp";
    finding.message = fmt::format("{} of {} is not ordered with the {}", self, what, other.text);
    std::string keys[2] = {actor.warp ? key_of("", *actor.warp, *actor.inst) : self, other.key};
    std::sort(keys, keys + 2);
    log_.add("data-race|" + keys[0] + "|" + keys[1], std::move(finding), occurrence);
  }
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_race_check(FindingLog& log, const vgpu::Memory& memory,
                                                RaceScope scope) {
  return std::make_unique<RaceCheck>(log, memory, scope);
}

}  // namespace assay::checks
