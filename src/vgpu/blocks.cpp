// Runs the blocks of a cluster: warps take turns until each has ended or is waiting.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/random.h"
#include "base/schedule.h"
#include "base/symbol.h"
#include "vgpu/layout.h"
#include "vgpu/program.h"
#include "vgpu/run.h"

namespace assay::vgpu {

namespace {

constexpr int64_t kSlice = 1 << 16;     // warp instructions of a turn
constexpr uint64_t kPollsOfATurn = 64;  // after which a cluster lets others run
constexpr uint32_t kRandomTurns = 256;  // that polls may end, before a cluster runs as without a seed
constexpr int64_t kStarvedSlice = 64;   // of the warp that a schedule starves,
constexpr uint64_t kStarvedRounds = 8;  // and how many of the others' turns it sits out for one of its own
// Local memory of a thread, call stack included; not a power of two, so that equal offsets of the 32 lanes
// do not compete for one set of the host's cache.
constexpr uint32_t kLocalStride = (256 << 10) + 64;
constexpr uint64_t kMostWarps = 64;  // of a block, and more
constexpr uint64_t kClocksOfABlock =
    1000;  // from the start of a block to that of the next on its multiprocessor

// Address space for the local memory of a warp; pages appear when they are touched.
std::shared_ptr<void> reserve_local() {
  constexpr size_t kBytes = size_t{kLocalStride} * kWarpSize;
  void* place =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return nullptr;
  return {place, [](void* p) { munmap(p, kBytes); }};
}

bool uses_local(const Program& program) {
  for (const Function& f : program.functions)
    if (f.local_bytes > 0) return true;
  return false;
}

void start_warp(Warp& w, Block& block, uint32_t index, Worker& worker) {
  GridContext& grid = *block.grid;
  const uint32_t threads = block.threads - index * kWarpSize;
  w.block = &block;
  w.grid = &grid;
  w.worker = &worker;
  w.sites = worker.sites.data();
  w.index = index;
  w.born = w.live = threads >= kWarpSize ? kAllLanes : (1u << threads) - 1;
  w.patience = w.polls = w.fruitless = 0;
  w.executed = w.turn_began = 0;
  w.excused = false;
  w.left_at = nullptr;
  w.waits_at = 0;
  const uint64_t seed = grid.options->seed;
  w.drift = lanes_drift(seed) ? mix(seed, block.linear * kMostWarps + index) | 1 : 0;
  w.others.clear();
  w.visits.clear();
  w.copies.reset();
  for (auto& frame : w.frames) frame->lanes = 0;
  if (!w.local && uses_local(*grid.program)) {
    w.local_pages = reserve_local();
    w.local = static_cast<std::byte*>(w.local_pages.get());
    if (grid.watched) w.local_initialised_pages = reserve_local();
    w.local_initialised = static_cast<uint8_t*>(w.local_initialised_pages.get());
  }
  if (w.local_initialised) {
    const uint32_t bytes = grid.entry->local_bytes;
    for (uint32_t l = 0; l < kWarpSize; ++l)
      std::memset(w.local_initialised + size_t{l} * w.local_stride, 0, bytes);
  }
  w.local_stride = kLocalStride;
  Frame& frame = enter(w, *grid.entry);
  frame.caller = nullptr;
  frame.lanes = w.live;
  frame.depth = 0;
  frame.local_base = 0;
  fill_planes(w, frame);
  w.others.push_back({.pc = grid.entry->code.data(), .lanes = w.live, .frame = &frame});
  next_ready(w);
}

void run_warp(Warp& w, int64_t slice) {
  w.slice = slice;
  w.worker->running = &w;
  const Inst* pc = w.pc;
  while (pc) pc = pc->run(w, *pc);
  deliver_pending_loads(w);
}

// The same under a schedule that changes places within a turn.
void run_unsteadily(Warp& w, int64_t slice, bool interleaved, bool everywhere) {
  w.slice = slice;
  w.worker->running = &w;
  const Inst* pc = w.pc;
  for (bool first = true; pc; first = false) {
    if (pc->may_part && w.drift != 0) pc = drift(w, pc);
    if (interleaved && !first && (pc->may_interleave || (everywhere && pc->may_part))) {
      w.pc = pc;
      break;
    }
    pc = pc->run(w, *pc);
  }
  deliver_pending_loads(w);
}

bool has_ended(const Warp& w) {
  return w.live == 0;
}

// Turns of random length end anywhere in a loop: a thread that only polls would never be noticed.
uint64_t seed_of(const Cluster& cluster) {
  return cluster.polled_turns > kRandomTurns ? 0 : cluster.blocks.front().grid->options->seed;
}

// The warps of a block take turns in this order, each for so many instructions.
class Turns {
 public:
  Turns(uint64_t seed, uint64_t round, const Block& block)
      : kind_(schedule_kind(seed)), count_(block.warps.size()) {
    if (seed == 0) return;
    random_ = scramble(seed + kGoldenStep * (round + 1) + block.linear);
    first_ = random_ % count_;
    backwards_ = random_ >> 32 & 1;
    starved_ = mix(seed, block.linear) % count_;
    sits_out_ = round % kStarvedRounds != 0;
    if (kind_ == ScheduleKind::LastFirst) first_ = count_ - 1, backwards_ = true;
    if (kind_ == ScheduleKind::Starved) first_ = (starved_ + 1) % count_, backwards_ = false;
  }
  size_t warp(size_t turn) const {
    const size_t at = backwards_ ? first_ + count_ - turn : first_ + turn;
    return at < count_ ? at : at - count_;
  }
  int64_t slice(size_t turn) const {
    switch (kind_) {
      case ScheduleKind::Text:
      case ScheduleKind::LastFirst:
        return kSlice;
      case ScheduleKind::Starved:
        return warp(turn) == starved_ ? kStarvedSlice : kSlice;
      default:
        return int64_t{64} << (mix(random_ + turn) % 11);
    }
  }
  // `ran`: another warp of the block has had a turn in this round.
  bool sits_out(size_t turn, bool ran) const {
    return kind_ == ScheduleKind::Starved && warp(turn) == starved_ && sits_out_ && ran;
  }

 private:
  ScheduleKind kind_;
  size_t count_;
  uint64_t random_ = 0;
  size_t first_ = 0, starved_ = 0;
  bool backwards_ = false, sits_out_ = false;
};

void take_turn(Warp& w, uint64_t seed, int64_t slice) {
  const bool interleaved = schedule_kind(seed) == ScheduleKind::Interleaved;
  if (seed == 0) w.drift = 0;
  w.unsteady = interleaved || w.drift != 0 || !w.grid->loops.empty();
  if (interleaved || w.drift != 0)
    run_unsteadily(w, slice, interleaved, interleaves_everywhere(seed));
  else if (w.unsteady)
    run_leaving_out(w, slice);
  else
    run_warp(w, slice);
}

// One turn for every warp that can run. False: none can.
bool run_round(Cluster& cluster, uint64_t round) {
  GridContext& grid = *cluster.blocks.front().grid;
  const uint64_t seed = seed_of(cluster);
  bool ran = false;
  for (Block& block : cluster.blocks) {
    const Turns turns(seed, round, block);
    bool block_ran = false;
    for (size_t i = 0; i < block.warps.size(); ++i) {
      Warp& w = block.warps[turns.warp(i)];
      if (has_ended(w) || turns.sits_out(i, block_ran)) continue;
      if (!w.pc && (w.waits_at != 0 || !next_ready(w))) continue;
      ran = block_ran = true;
      w.turn_began = w.executed;
      take_turn(w, seed, turns.slice(i));
      block.clock = clock_of(w) + kClocksOfAnInstruction;
      w.turn_began = w.executed;
      if (grid.stopped.load(std::memory_order_relaxed)) return true;
    }
  }
  return ran;
}

// Rounds after which a thread of the host looks at the clock again: a round between two barriers may take less than a
// microsecond, and looking takes 30 ns.
constexpr uint32_t kRoundsOfALook = 8;
constexpr double kLook = 1;  // second of a launch after which, and then again, it reports where its warps are

// Lines by the number of warps that stand there, those that could run before those that wait for them.
std::vector<Standing> standing(const Cluster& cluster) {
  std::vector<Standing> lines;
  const auto add = [&](const Warp& w, const Fragment& f) {
    const SourcePlace place =
        place_of(*w.grid->program, *f.frame->function, f.wait == Wait::Barrier ? f.pc[-1] : *f.pc);
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const Standing& s) {
      return s.line == place.line && s.file == place.file;
    });
    if (same != lines.end()) {
      ++same->warps;
    } else if (place.line > 0) {
      lines.push_back({place.file, place.line, 1});
    }
  };
  for (const bool running : {true, false}) {
    for (const Block& block : cluster.blocks) {
      for (const Warp& w : block.warps) {
        for_each_fragment(w, [&](const Fragment& f) {
          if ((f.wait == Wait::None) == running) add(w, f);
        });
      }
    }
    if (!lines.empty()) break;
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Standing& a, const Standing& b) { return a.warps > b.warps; });
  return lines;
}

void report_if_still_running(Cluster& cluster) {
  GridContext& grid = *cluster.blocks.front().grid;
  if (!grid.options->still_running) return;
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - grid.began).count();
  uint32_t looks = grid.looks.load(std::memory_order_relaxed);
  if (seconds < kLook * (looks + 1) ||
      !grid.looks.compare_exchange_strong(looks, static_cast<uint32_t>(seconds / kLook)))
    return;
  grid.options->still_running(grid.info, seconds, standing(cluster));
}

bool all_ended(const Cluster& cluster) {
  for (const Block& block : cluster.blocks)
    for (const Warp& w : block.warps)
      if (!has_ended(w)) return false;
  return true;
}

const char* wait_name(Wait wait) {
  switch (wait) {
    case Wait::None:
      return "runs";
    case Wait::Barrier:
      return "waits at a barrier";
    case Wait::Collective:
      return "waits for other lanes of its warp";
    case Wait::Cluster:
      return "waits at the cluster barrier";
  }
  return "";
}

std::vector<Fragment> fragments_of(const Warp& w) {
  std::vector<Fragment> fragments;
  for_each_fragment(w, [&](const Fragment& f) { fragments.push_back(f); });
  return fragments;
}

std::string where_everybody_stands(const Cluster& cluster) {
  std::string text;
  int shown = 0;
  for (const Block& block : cluster.blocks) {
    for (const Warp& w : block.warps) {
      for (const Fragment& f : fragments_of(w)) {
        if (++shown > 8) return text + "\n  …";
        text += fmt::format(
            "\n  block ({},{},{}), warp {}, lanes {:08x}: {} at {}", block.id[0], block.id[1], block.id[2],
            w.index, f.lanes, wait_name(f.wait),
            where(*w.grid->program, *f.frame->function, f.wait == Wait::Barrier ? f.pc[-1] : *f.pc));
      }
    }
  }
  return text;
}

void stop_with(Cluster& cluster, FaultInfo::Kind kind, std::string what) {
  GridContext& grid = *cluster.blocks.front().grid;
  std::lock_guard lock(grid.fault_mutex);
  if (grid.fault.kind == FaultInfo::Kind::None)
    grid.fault = {
        kind, fmt::format("kernel `{}`: {}{}", grid.entry->ptx->name, what, where_everybody_stands(cluster))};
  grid.stopped = true;
}

// Every fragment of a cluster goes nowhere, and why; first those that run and get nowhere.
void report_deadlock(Cluster& cluster, const char* running) {
  for (Block& block : cluster.blocks) {
    for (Warp& w : block.warps) {
      std::vector<Fragment> fragments = fragments_of(w);
      std::stable_partition(fragments.begin(), fragments.end(),
                            [](const Fragment& f) { return f.wait == Wait::None; });
      for (const Fragment& f : fragments)
        for (Listener* listener : block.grid->listeners)
          listener->on_violation(w, f.wait == Wait::Barrier ? f.pc[-1] : *f.pc,
                                 {.what = Violation::Deadlock,
                                  .lanes = f.lanes,
                                  .first_lane = static_cast<uint32_t>(std::countr_zero(f.lanes)),
                                  .detail = f.wait == Wait::None ? running : wait_name(f.wait)});
    }
  }
}

// Nothing can run. Lanes that stand at different warp barriers may still meet, and lanes whose masks
// contradict each other go on after a report; else it is a deadlock.
bool break_the_tie(Cluster& cluster) {
  for (Block& block : cluster.blocks)
    for (Warp& w : block.warps)
      if (!has_ended(w) && meet_across_places(w, block.grid->program->engine->warp_barrier)) return true;
  for (Block& block : cluster.blocks)
    for (Warp& w : block.warps)
      if (!has_ended(w) && excuse_mixed_masks(w)) return true;
  report_deadlock(cluster, wait_name(Wait::None));
  stop_with(cluster, FaultInfo::Kind::Deadlock, "deadlock: no thread of the block can make progress");
  return false;
}

void finish(Cluster& cluster) {
  GridContext& grid = *cluster.blocks.front().grid;
  uint64_t executed = 0;
  for (Block& block : cluster.blocks) {
    for (Warp& w : block.warps) executed += w.executed;
    for (Listener* listener : grid.listeners) listener->on_block_end(block);
    uint64_t latest = grid.clock_end.load(std::memory_order_relaxed);
    while (latest < block.clock && !grid.clock_end.compare_exchange_weak(latest, block.clock)) {
    }
  }
  grid.executed.fetch_add(executed, std::memory_order_relaxed);
}

void place_block(Block& block, Cluster& cluster, GridContext& grid, uint32_t rank) {
  const Dim3& shape = grid.cluster;
  const Dim3 clusters{grid.info.config.grid.x / shape.x, grid.info.config.grid.y / shape.y,
                      grid.info.config.grid.z / shape.z};
  const uint32_t inner[3] = {rank % shape.x, rank / shape.x % shape.y, rank / shape.x / shape.y};
  block.id[0] = static_cast<uint32_t>(cluster.linear % clusters.x) * shape.x + inner[0];
  block.id[1] = static_cast<uint32_t>(cluster.linear / clusters.x % clusters.y) * shape.y + inner[1];
  block.id[2] = static_cast<uint32_t>(cluster.linear / clusters.x / clusters.y) * shape.z + inner[2];
  const Dim3& extent = grid.info.config.grid;
  block.linear = block.id[0] + uint64_t{extent.x} * (block.id[1] + uint64_t{extent.y} * block.id[2]);
  block.rank = rank;
  block.triggered = block.awaits_prior = false;
  block.cluster = &cluster;
  block.grid = &grid;
  block.threads = static_cast<uint32_t>(grid.info.config.block.count());
}

void clear_shared(Block& block, GridContext& grid) {
  block.shared_bytes = shared_limit(grid);
  const uint32_t all = grid.reserved_shared + grid.reserved_bytes;
  if (block.shared_storage.size() < all + 128) block.shared_storage.resize(all + 128);
  auto at = reinterpret_cast<uintptr_t>(block.shared_storage.data());
  block.shared = reinterpret_cast<std::byte*>((at + 127) / 128 * 128);
  std::memset(block.shared + grid.reserved_shared, 0, grid.reserved_bytes);
  if (!grid.watched) return;
  block.shared_initialised_storage.assign(all, 0);
  block.shared_initialised = block.shared_initialised_storage.data();
  std::memset(block.shared_initialised + grid.reserved_shared, 0xff, grid.reserved_bytes);
}

// Most blocks use one barrier: the others keep what they have.
void clear(BlockBarrier& barrier, uint32_t warps) {
  if (!barrier.used && barrier.arrived.size() == warps) return;
  barrier.arrived.assign(warps, 0);
  barrier.place.assign(warps, nullptr);
  barrier.absent.assign(warps, 0);
  barrier.apart.assign(warps, false);
  barrier.threads = 0;
  barrier.used = false;
  barrier.votes = barrier.voters = barrier.last_votes = barrier.last_voters = 0;
}

}  // namespace

uint32_t shared_limit(const GridContext& grid) {
  const uint32_t own = grid.entry->shared_bytes;
  const uint32_t dynamic = grid.info.config.dynamic_shared;
  return dynamic ? std::max(own, grid.program->dynamic_shared_base + dynamic) : own;
}

void prepare(Cluster& cluster, GridContext& grid, uint64_t linear, Worker& worker) {
  cluster.linear = linear;
  cluster.arrived = cluster.phase = cluster.exited = 0;
  cluster.polls = cluster.polled_turns = 0;
  cluster.blocks.resize(grid.cluster.count());
  for (uint32_t rank = 0; rank < cluster.blocks.size(); ++rank) {
    Block& block = cluster.blocks[rank];
    place_block(block, cluster, grid, rank);
    clear_shared(block, grid);
    const uint32_t warps = (block.threads + kWarpSize - 1) / kWarpSize;
    block.warps.resize(warps);
    block.open_barriers = 0;
    for (BlockBarrier& barrier : block.barriers) clear(barrier, warps);
    block.clock = grid.clock_begin + block.linear / grid.options->multiprocessors * kClocksOfABlock;
    for (uint32_t w = 0; w < warps; ++w) start_warp(block.warps[w], block, w, worker);
    for (Listener* listener : grid.listeners) listener->on_block(block);
  }
}

// Half of all seeds hold blocks up between rounds, so that they see each other half done, as on a busy GPU.
static bool is_held_up(const Cluster& cluster) {
  const Block& block = cluster.blocks.front();
  const uint64_t seed = seed_of(cluster);
  const ScheduleKind kind = schedule_kind(seed);
  if (kind == ScheduleKind::LastFirst || kind == ScheduleKind::Starved) return false;
  return (seed & 1) &&
         (scramble(seed + (block.warps.front().executed + cluster.barriers) * kGoldenStep + block.linear) &
          1);
}

// Every block has said that dependents may start, or has ended; or some wait for the grid before.
static bool is_held(const Cluster& cluster) {
  const GridContext& grid = *cluster.blocks.front().grid;
  const auto& blocks = cluster.blocks;
  if (grid.prior_runs.load(std::memory_order_relaxed))
    return std::any_of(blocks.begin(), blocks.end(), [](const Block& block) { return block.awaits_prior; });
  if (!grid.holds_at_trigger.load(std::memory_order_relaxed)) return false;
  return std::all_of(blocks.begin(), blocks.end(),
                     [](const Block& block) { return block.triggered || has_ended(block); });
}

const Inst* pass_on(Warp& w, const Inst& inst) {
  const uint64_t seed = seed_of(*w.block->cluster);
  if (seed == 0) return &inst + 1;
  const uint64_t random = scramble(seed + w.executed * kGoldenStep + (uint64_t{inst.source} << 32) + w.index);
  return random % 4 == 0 ? yield(w, &inst + 1) : &inst + 1;
}

Turn run_cluster(Cluster& cluster, Worker& worker) {
  GridContext& grid = *cluster.blocks.front().grid;
  for (Block& block : cluster.blocks) {
    for (Warp& w : block.warps) {
      w.worker = &worker;
      w.sites = worker.sites.data();
    }
  }
  cluster.polls = 0;
  for (uint64_t round = 0;; ++round) {
    if (grid.stopped.load(std::memory_order_relaxed)) return Turn::Stopped;
    if (!run_round(cluster, round)) {
      if (all_ended(cluster)) {
        finish(cluster);
        return Turn::Ended;
      }
      if (!break_the_tie(cluster)) return Turn::Stopped;
    }
    if (++worker.rounds >= kRoundsOfALook) {
      worker.rounds = 0;
      report_if_still_running(cluster);
      if (is_late(grid, kEndOfASample)) {
        grid.cut = true;
        grid.stopped = true;
        return Turn::Stopped;
      }
    }
    if (grid.options->instruction_limit) {
      uint64_t executed = grid.executed.load(std::memory_order_relaxed);
      for (const Block& block : cluster.blocks)
        for (const Warp& w : block.warps) executed += w.executed;
      if (executed > grid.options->instruction_limit) {
        stop_with(cluster, FaultInfo::Kind::Livelock,
                  fmt::format("still running after {} warp instructions", grid.options->instruction_limit));
        return Turn::Stopped;
      }
    }
    if (is_held(cluster) && !all_ended(cluster)) return Turn::Held;
    const bool polls = cluster.polls > kPollsOfATurn;
    cluster.polled_turns += polls;
    if (polls || is_held_up(cluster))
      return all_ended(cluster) ? (finish(cluster), Turn::Ended) : Turn::Polled;
  }
}

bool has_moved(Cluster& cluster) {
  uint64_t standing = mix(cluster.barriers);
  for (const Block& block : cluster.blocks)
    for (const Warp& w : block.warps)
      for_each_fragment(w, [&](const Fragment& f) {
        standing += mix(reinterpret_cast<uintptr_t>(f.pc) ^ uint64_t{f.lanes} << 32);
      });
  const bool moved = standing != cluster.standing;
  cluster.standing = standing;
  return moved;
}

void give_up_on(Cluster& cluster) {
  report_deadlock(cluster, "polls for a value that no thread writes");
  stop_with(cluster, FaultInfo::Kind::Livelock,
            "no progress: every thread polls for a value that no thread writes");
}

const Function* function_at(const Warp& w, Address address) {
  const Program& program = *w.grid->program;
  if (address % kFunctionStride != 0) return nullptr;
  const uint64_t index = (address - kFunctionWindow) / kFunctionStride;
  return index < program.functions.size() && !program.functions[index].code.empty()
             ? &program.functions[index]
             : nullptr;
}

std::span<Listener* const> listeners(const Warp& w) {
  deliver_pending_loads(w);
  return w.grid->listeners;
}

void deliver_pending_loads(const Warp& w) {
  Worker& worker = *w.worker;
  const auto deliver = [&](ptx::Space space, PendingLoads& pending) {
    const std::span<const ShapedLoad> loads(pending.loads, std::exchange(pending.count, 0));
    for (Listener* listener : w.grid->listeners_of(space)) listener->on_loads(*worker.running, space, loads);
  };
  if (worker.pending_global.count != 0) deliver(ptx::Space::Global, worker.pending_global);
  if (worker.pending_shared.count != 0) deliver(ptx::Space::Shared, worker.pending_shared);
}

std::string describe(const Warp& w, const Inst& inst, uint32_t lane) {
  const Dim3& extent = w.grid->info.config.block;
  const uint32_t thread = w.index * kWarpSize + lane;
  return fmt::format("kernel `{}`, {}, block ({},{},{}), thread ({},{},{})",
                     short_name(w.grid->entry->ptx->name), where(*w.grid->program, *w.frame->function, inst),
                     w.block->id[0], w.block->id[1], w.block->id[2], thread % extent.x,
                     thread / extent.x % extent.y, thread / extent.x / extent.y);
}

const Inst* fault(Warp& w, const Inst& inst, FaultInfo::Kind kind, uint32_t lane, std::string what) {
  GridContext& grid = *w.grid;
  if (kind == FaultInfo::Kind::InvalidProgramCounter)
    for (Listener* listener : listeners(w))
      listener->on_violation(
          w, inst, {.what = Violation::OutOfBounds, .lanes = 1u << lane, .first_lane = lane, .detail = what});
  {
    std::lock_guard lock(grid.fault_mutex);
    if (grid.fault.kind == FaultInfo::Kind::None)
      grid.fault = {kind, fmt::format("{}: {}", describe(w, inst, lane), what)};
  }
  grid.stopped = true;
  w.pc = nullptr;
  return nullptr;
}

}  // namespace assay::vgpu
