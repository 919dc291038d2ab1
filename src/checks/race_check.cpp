// Data races: two accesses to the same bytes, at least one of them a write and at least one of them weak
// (neither volatile nor atomic), that are not ordered.
//
// Order means happens-before, not the order of this run: the check finds every race of the given inputs under
// any schedule. The parts:
//
//   race_clock.h           vector clocks: order within a launch, from barriers, fences and strong accesses
//   race_published.h       what fences and strong accesses carry from thread to thread
//   race_barrier.h         barriers of a block
//   race_cluster.h         order within clusters: cluster barriers, mbarriers, asynchronous copies
//   race_order.h           order between kernels, copies and fills, from streams, events and host-side waits
//   race_host_knowledge.h  what the host knows to be done
//   race_shadow.h          for each word of memory, the last write and two reads to compare a new access with; an
//                          older access may be forgotten, which can hide a race but never invents one
//   race_shared.h          the same for shared memory, in a form that is fast to reset at a barrier
//   race_judge.h           whether two accesses are a race
//   race_report.h          evidence for a finding
//
// Two kinds of conflict are not races: stores of the value that is already there, and loads that the compiler
// hoisted out of a condition (only a `selp` uses their value).
//
// This file receives the events of the engine, updates the clocks, and passes accesses on.
#include <bit>

#include "checks/host_access.h"
#include "checks/race_barrier.h"
#include "checks/race_handover.h"
#include "checks/race_host_knowledge.h"
#include "checks/race_memory.h"
#include "checks/race_proxy.h"
#include "checks/race_published.h"
#include "checks/race_report.h"
#include "checks/race_window.h"
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

constexpr size_t kTogether = 64;  // loads, bits of a word

uint32_t strength(const Access& access) {
  if (access.kind == AccessKind::Load || access.kind == AccessKind::Store) {
    if (access.order == Order::Weak) return kWeak;
    if (access.order == Order::Volatile) return kStrong;
  }
  return access.scope == vgpu::Scope::Block || access.scope == vgpu::Scope::Thread ? kStrongInBlock : kStrong;
}

class RaceCheck final : public vgpu::Listener, public HostJudge {
 public:
  RaceCheck(FindingLog& log, const vgpu::Memory& memory, RaceScope scope)
      : context_{vgpu::BlockStates<BlockState>(*this), log, memory, scope, {}, {}, {}, {}, {}},
        memory_(context_),
        published_(context_) {}

  // ---- Operations ----

  void on_operation(const OperationInfo& info) override {
    std::lock_guard lock(context_.mutex);
    context_.order.begin(info);
    last_ = info.id;
    if (info.kind == OperationInfo::Kind::Grid) starting_ = info.id;
    // A host call may let the rest of the host know that all work before it is done.
    if (info.kind == OperationInfo::Kind::HostCall) learn(info.id);
  }

  // The streams announce a wait as an operation of its own, just before.
  void on_host_wait(std::span<const uint64_t>) override {
    std::lock_guard lock(context_.mutex);
    learn(last_);
  }

  void on_copy(const OperationInfo& info, const RangeInfo& to, const RangeInfo& from) override {
    BlockState state = state_of(info);
    memory_.touch(state, from, AccessKind::Load);
    touch_by_write(state, to);
  }

  void on_fill(const OperationInfo& info, const RangeInfo& to) override {
    BlockState state = state_of(info);
    touch_by_write(state, to);
  }

  void on_launch(const vgpu::LaunchInfo& info) override {
    std::lock_guard lock(context_.mutex);
    const uint64_t starting = std::exchange(starting_, 0);
    Operation* found = starting ? context_.order.find(starting) : nullptr;
    Operation& operation = found ? *found : context_.order.begin_alone();
    operation.kernel = info.kernel.name();
    operation.origin = info.config.origin;
    operation.grid = info.config.grid;
    operation.block = info.config.block;
    const bool copies = has_counted_copies(info.kernel);
    number(operation, info.config.grid.count() * (copies ? 2 : 1));
    if (launches_.empty()) {
      hand_overs_.clear();
      published_.clear();
      context_.sites.forget_instructions();
    }
    const uint32_t ordered_below = context_.order.ordered_below(operation);
    const uint32_t author = memory_.number_grid(launches_.empty());
    const uint32_t numbers = operation.last - operation.first + 1;
    GridReads::Uses uses = memory_.begin_grid(info, operation, ordered_below);
    launches_[info.id] = {&operation,
                          ordered_below,
                          ordered_below == operation.first ? author : SingleWords::kNoGrid,
                          copies ? numbers / 2 : numbers,
                          copies,
                          reaches_other_blocks(info.kernel),
                          may_settle(info.kernel),
                          has_bulk_copies(info.kernel),
                          context_.scope.within_launches && hand_overs_.polls(info.kernel),
                          uses.meets_reads,
                          std::move(uses.only_read)};
  }

  void on_launch_end(const vgpu::LaunchInfo& info) override {
    std::lock_guard lock(context_.mutex);
    if (const Operation* operation = launches_[info.id].operation) {
      end_with_host(context_, *operation);
      memory_.end_grid(*operation);
    }
    launches_.erase(info.id);
  }

  // ---- The host ----

  uint64_t knowledge() const override { return host_.version(); }

  bool is_known_done(uint64_t id) override {
    std::lock_guard lock(context_.mutex);
    const Operation* operation = context_.order.find(id);
    return operation && host_.is_known_done(*operation);
  }

  void judge(std::span<const HostAccess> accesses) override {
    for (size_t i = 0; i < accesses.size();) {
      const HostAccess& first = accesses[i];
      BlockState state = state_of(first);
      for (; i < accesses.size() && accesses[i].is_like(first); ++i) {
        const RangeInfo range{accesses[i].address, nullptr, accesses[i].bytes, 1, 1, 0, 0};
        first.writes ? touch_by_write(state, range) : memory_.touch(state, range, AccessKind::Load);
      }
    }
  }

  // ---- Blocks ----

  void on_block(const vgpu::Block& block) override {
    std::lock_guard lock(context_.mutex);
    const Launch launch = launches_[block.grid->info.id];
    const auto place = static_cast<uint32_t>(block.linear % launch.blocks);
    std::unique_ptr<BlockState> state = idle_state();
    state->clock.begin(launch.operation->first + place, block.warps.size());
    state->exhausted = false;
    state->arrivals.clear();
    state->barriers.clear();
    state->meeting = {};
    state->met = false;
    state->copies = {};
    if (launch.copies) state->copies.id = launch.operation->first + launch.blocks + place;
    state->neighbours = launch.reach ? static_cast<uint32_t>(block.cluster->blocks.size()) - 1 : 0;
    state->operation = launch.operation;
    state->ordered_below = launch.ordered_below;
    state->first_author = launch.first_author;
    state->waited = launch.operation->known_early.empty() ? ~0u : 0;
    state->unfenced.begin(launch.bulk ? block.shared_bytes : 0);
    state->settles = launch.settles;
    state->hands_over = launch.polls;
    state->meets_reads = launch.meets_reads;
    state->sites.begin(launch.only_read);
    state->lanes.clear();
    state->shared.begin(block.shared_bytes, block.warps.size(), context_.scope.vectors,
                        state->neighbours == 0);
    context_.states.put(block, std::move(state));
  }

  void on_block_end(const vgpu::Block& block) override {
    find_outlived(context_, block);
    std::lock_guard lock(context_.mutex);
    idle_.push_back(context_.states.take(block));
  }

  void on_block_barrier(const vgpu::Block& block, uint32_t barrier) override {
    BlockState& state = state_of(block);
    std::unique_lock lock(context_.mutex, std::defer_lock);
    if (state.clock.follows_others()) lock.lock();
    meet_at_barrier(published_, state, block, barrier);
  }

  void on_grid_wait(const vgpu::Warp& warp, uint32_t) override {
    BlockState& state = state_of(*warp.block);
    state.waited |= 1u << warp.index;
    __atomic_store_n(&state.operation->waits, true, __ATOMIC_RELAXED);
  }

  void on_proxy_fence(const vgpu::Warp& warp, uint32_t) override {
    BlockState& state = state_of(*warp.block);
    state.unfenced.fence(state.clock, warp.index);
  }

  void on_cluster_arrive(const vgpu::Warp& warp, const vgpu::Inst& inst, uint32_t, bool releases) override {
    BlockState& state = state_of(*warp.block);
    std::lock_guard lock(context_.mutex);
    arrive_at_cluster(context_, state, warp, inst, releases);
    note_exhaustion(state);
  }

  void on_cluster_barrier(const vgpu::Cluster& cluster) override {
    std::lock_guard lock(context_.mutex);
    end_cluster_phase(context_, cluster);
    for (const vgpu::Block& block : cluster.blocks) {
      note_exhaustion(state_of(block));
      share_wait(state_of(block));
    }
  }

  void on_cluster_wait(const vgpu::Warp& warp, uint32_t) override {
    std::lock_guard lock(context_.mutex);
    wait_at_cluster(context_, state_of(*warp.block), warp);
  }

  void on_warp_sync(const vgpu::Warp& warp, const vgpu::Inst&, uint32_t lanes, bool orders_memory) override {
    BlockState& state = state_of(*warp.block);
    if (!orders_memory) return state.lanes.hear(warp.index, lanes);
    state.clock.sync_warp(warp.index, lanes, warp.live);
    state.shared.advance(state.clock, warp.index);
    note_exhaustion(state);
  }

  void on_fence(const vgpu::Warp& warp, const vgpu::Inst&, vgpu::Scope scope, uint32_t lanes) override {
    BlockState& state = state_of(*warp.block);
    std::lock_guard lock(context_.mutex);
    if (scope == vgpu::Scope::Thread) return note_arrival(state, warp, lanes);
    published_.fence(state, warp, scope);
    if (scope == vgpu::Scope::System) note_host_sync(context_, *state.operation);
    note_exhaustion(state);
  }

  // ---- Accesses ----

  bool wants_accesses(ptx::Space space) const override {
    return space == ptx::Space::Shared || space == ptx::Space::Global;
  }
  void on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const Access& access) override {
    BlockState& state = state_of(*warp.block);
    if (state.exhausted) [[unlikely]]
      return keep_in_touch(state, warp, access);
    // The common case, before all else.
    if (access.space == ptx::Space::Shared && access.kind == AccessKind::Load &&
        access.order == Order::Weak) {
      const SiteCache::Entry& site = context_.sites.find(state.sites, warp, inst, access.kind, false);
      if (state.shared.note(who_of(state, warp, kWeak, site), access)) return;
    }
    if (access.kind == AccessKind::Store && access.space == ptx::Space::Global && access.values &&
        warp.grid->threads > 1)
      context_.in_flight.announce(warp.worker->index, state.clock.id, access);
    judge_access(state, warp, inst, access);
  }
  void on_loads(const vgpu::Warp& warp, ptx::Space space, std::span<const vgpu::ShapedLoad> loads) override {
    BlockState& state = state_of(*warp.block);
    if (state.exhausted) return;
    if (space == ptx::Space::Shared) {
      const Who who = Who::make(state.clock.id, warp.index, state.clock.warps[warp.index].tick, kWeak, 0);
      if (!state.shared.note(context_, state, warp, who, loads)) judge_loads(state, warp, space, loads);
      return;
    }
    for (; loads.size() > kTogether; loads = loads.subspan(kTogether))
      judge_open(state, warp, loads.first(kTogether));
    judge_open(state, warp, loads);
  }

 private:
  static Who who_of(const BlockState& state, const vgpu::Warp& warp, uint32_t order,
                    const SiteCache::Entry& site) {
    return Who::make(state.clock.id, warp.index, state.clock.warps[warp.index].tick, order, site.number);
  }

  // A weak load of device memory that needs no more than a note, which is made.
  template <class Loads>
  bool is_noted(BlockState& state, const vgpu::Warp& warp, const vgpu::Inst& inst, const Loads& loads) {
    const OnlyRead* only_read = state.sites.only_read.get();
    if (!only_read || only_read->is_disturbed.load(std::memory_order_relaxed)) return false;
    const SiteCache::Entry& site = context_.sites.find(state.sites, warp, inst, AccessKind::Load, false);
    return site.only_read && memory_.note_only_read(state, who_of(state, warp, kWeak, site), loads);
  }

  // Loads of device memory: those that teach something, their rows on the way to the cache.
  void judge_open(BlockState& state, const vgpu::Warp& warp, std::span<const vgpu::ShapedLoad> loads) {
    uint64_t open = 0;
    for (size_t i = 0; i < loads.size(); ++i) {
      if (is_noted(state, warp, *loads[i].inst, loads[i]) || memory_.is_settled(state, loads[i])) continue;
      memory_.prefetch(loads[i]);
      open |= uint64_t{1} << i;
    }
    Address addresses[vgpu::kWarpSize];
    for (; open; open &= open - 1) {
      const vgpu::ShapedLoad& load = loads[static_cast<size_t>(std::countr_zero(open))];
      const SiteCache::Entry& site =
          context_.sites.find(state.sites, warp, *load.inst, AccessKind::Load, false);
      const Actor actor{
          state,   AccessKind::Load, who_of(state, warp, kWeak, site), false, &warp, load.inst, nullptr,
          nullptr, site.noncoherent};
      if (!site.chooser.known && memory_.note(actor, load)) continue;
      judge_unsettled(state, warp, *load.inst, load.access(ptx::Space::Global, addresses), kWeak, false);
    }
  }

  void judge_loads(BlockState& state, const vgpu::Warp& warp, ptx::Space space,
                   std::span<const vgpu::ShapedLoad> loads) {
    Address addresses[vgpu::kWarpSize];
    for (const vgpu::ShapedLoad& load : loads)
      judge_access(state, warp, *load.inst, load.access(space, addresses));
  }

  [[gnu::noinline]] void judge_access(BlockState& state, const vgpu::Warp& warp, const vgpu::Inst& inst,
                                      const Access& access) {
    const bool shared = access.space == ptx::Space::Shared;
    if (access.barriers) return judge_copy(state, warp, inst, access);
    bool in_flight = access.asynchronous && shared;
    uint32_t order = access.mbarrier ? kStrong : strength(access);
    if (in_flight &&
        access.order == Order::Acquire) {  // a copy has read its source: by the thread that waited
      land(state, access);
      in_flight = false;
      order = kWeak;
    }
    if (!shared && order == kWeak && access.kind == AccessKind::Load &&
        (is_noted(state, warp, inst, access) || memory_.is_settled(state, access)))
      return;
    judge_unsettled(state, warp, inst, access, order, in_flight);
  }

  void judge_unsettled(BlockState& state, const vgpu::Warp& warp, const vgpu::Inst& inst,
                       const Access& access, uint32_t order, bool in_flight) {
    const bool shared = access.space == ptx::Space::Shared;
    if (in_flight) {
      order = kInFlight;
    } else if (order && !access.mbarrier) {
      if (!shared) find_host_sync(state, access);
      published_.synchronise(state, warp, access);
    }
    SiteCache::Entry& site = context_.sites.find(state.sites, warp, inst, access.kind, access.asynchronous);
    const Who who = who_of(state, warp, order, site);
    if (site.chooser.known) [[unlikely]] {
      Access used = access;
      used.lanes &= site.chooser.picked(warp);
      used.shape = vgpu::Shape::Other;
      if (used.lanes == 0) return;
      const Actor actor{state, used.kind, who, shared, &warp, &inst, &used, nullptr, site.noncoherent};
      return shared ? access_shared(context_, actor) : memory_.access(actor);
    }
    if (!shared) memory_.prefetch(access, std::exchange(site.last, access.addresses[0]));
    const Actor actor{state, access.kind, who, shared, &warp, &inst, &access, nullptr, site.noncoherent};
    if (!shared && access.kind == AccessKind::Store && order == kWeak && memory_.note(actor, access)) return;
    shared ? access_shared(context_, actor) : memory_.access(actor);
    if (shared && state.unfenced.wanted()) [[unlikely]] {
      if (!access.asynchronous && writes(access.kind))
        state.unfenced.write(who, access);
      else if (in_flight && !writes(access.kind))
        judge_proxy(actor);
    }
    if (order != kWeak) {
      note_lanes(actor, site.awaited);
      if (!shared && !in_flight && state.hands_over) [[unlikely]]
        note_hand_over(actor, site.awaited);
    }
    if (access.mbarrier) {  // an arrival brings itself, too
      std::lock_guard lock(context_.mutex);
      at_mbarrier(context_, state, warp, access);
      note_exhaustion(state);
      share_wait(state);
    }
  }

  // A bulk copy reads what threads have written without a proxy fence.
  void judge_proxy(const Actor& actor) {
    const Access& access = *actor.access;
    for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
      const auto lane = static_cast<uint32_t>(std::countr_zero(rest));
      const Address low = access.addresses[lane];
      const UnfencedWrites::Write* write = actor.state.unfenced.find(low, access.bytes);
      if (!write) continue;
      const Touch before{write->who, write->lane, 0xf, false},
          now{actor.who, static_cast<uint8_t>(lane), 0xf, false};
      return report_unfenced(context_, actor, before, now, Address{write->word} * 4);
    }
  }

  // A datum and a flag without a fence between them.
  void note_hand_over(const Actor& actor, bool awaited) {
    HandOvers::Unordered found;
    {
      std::lock_guard lock(context_.mutex);
      if (!hand_overs_.access(context_, actor, awaited, found)) return;
    }
    report_race(context_, actor, found.write, found.read, found.address);
  }

  // Lanes of a warp that rely on running in step.
  void note_lanes(const Actor& actor, bool awaited) {
    const Access& access = *actor.access;
    const bool is_volatile = access.order == Order::Volatile && access.kind != AccessKind::Atomic &&
                             access.kind != AccessKind::Reduction;
    if (is_volatile && actor.shared && context_.scope.within_launches)
      actor.state.lanes.access(context_, actor, awaited);
    else if (awaited || reads(access.kind))
      actor.state.lanes.hear(actor.warp->index, access.lanes);
  }

  void judge_copy(BlockState& state, const vgpu::Warp& warp, const vgpu::Inst& inst, const Access& access) {
    Who who;
    if (access.order != Order::Acquire) {
      const uint32_t order = access.kind == AccessKind::Store ? kWeak : kStrong;
      who = who_of(state, warp, order,
                   context_.sites.find(state.sites, warp, inst, access.kind, access.asynchronous));
    }
    copy_in_cluster(context_, {state, access.kind, who, true, &warp, &inst, &access});
  }

  // Of a block of which no more is said, others still learn what it did before.
  [[gnu::noinline]] void keep_in_touch(BlockState& state, const vgpu::Warp& warp, const Access& access) {
    if (!access.mbarrier && !access.barriers) {
      if (strength(access) != kWeak) published_.synchronise(state, warp, access);
      return;
    }
    std::lock_guard lock(context_.mutex);
    if (access.mbarrier)
      at_mbarrier(context_, state, warp, access);
    else if (access.order == Order::Acquire)
      bring_copies(context_, warp, access);
  }

  struct Launch {
    const Operation* operation = nullptr;
    uint32_t ordered_below = 0;
    uint32_t first_author = SingleWords::kNoGrid;
    uint32_t blocks = 1;  // that have a number of their own
    bool copies = false;  // into their shared memory are numbered, too
    bool reach = false;   // they may reach each other's shared memory
    bool settles = false;
    bool bulk = false;   // it has copies that read shared memory through the async proxy
    bool polls = false;  // device memory, by volatile loads
    bool meets_reads = false;
    std::shared_ptr<const OnlyRead> only_read;
  };

  RaceContext context_;
  RaceMemory memory_;
  Published published_;
  HandOvers hand_overs_;  // under the context's mutex
  HostKnowledge host_;
  // Under the context's mutex:
  uint64_t starting_ = 0;                          // the grid that is about to start
  uint64_t last_ = 0;                              // operation that began
  std::unordered_map<uint64_t, Launch> launches_;  // under way, by id
  std::vector<std::unique_ptr<BlockState>> idle_;  // of blocks that have ended

  BlockState& state_of(const vgpu::Block& block) const { return context_.states[block]; }

  // A copy, a fill, or a write of the host.
  void touch_by_write(BlockState& state, const RangeInfo& range) {
    {
      std::lock_guard lock(context_.mutex);
      state.meets_reads = memory_.begin_write(range, *state.operation, state.ordered_below);
    }
    memory_.touch(state, range, AccessKind::Store);
  }

  BlockState state_of(const OperationInfo& info) {
    std::lock_guard lock(context_.mutex);
    Operation* found = context_.order.find(info.id);
    Operation& operation = found ? *found : context_.order.begin(info);
    if (operation.first == 0) number(operation, 1);
    BlockState state(operation.first, 1);
    state.operation = &operation;
    state.ordered_below = context_.order.ordered_below(operation);
    return state;
  }

  BlockState state_of(const HostAccess& access) {
    std::lock_guard lock(context_.mutex);
    Operation& operation = context_.order.begin_by_host(host_.at(access.knowledge), access.submitted);
    operation.host_writes = access.writes;
    operation.host_place = access.place;
    operation.host_call = access.system_call;
    number(operation, 1);
    BlockState state(operation.first, 1);
    state.operation = &operation;
    state.ordered_below = context_.order.ordered_below(operation);
    return state;
  }

  void learn(uint64_t id) {
    const Operation* operation = context_.order.find(id);
    if (operation && context_.scope.between_operations) host_.learn(*operation);
  }

  // Kernels and hosts synchronise by volatile accesses to memory that both see, or by accesses of system scope.
  void find_host_sync(const BlockState& state, const Access& access) {
    if (access.order != Order::Volatile && access.scope != vgpu::Scope::System) return;
    if (context_.memory.is_device_address(access.addresses[std::countr_zero(access.lanes)])) return;
    if (__atomic_load_n(&state.operation->syncs_with_host, __ATOMIC_RELAXED)) return;
    std::lock_guard lock(context_.mutex);
    note_host_sync(context_, *state.operation);
  }

  void number(Operation& operation, uint64_t count) {
    if (!context_.order.number(operation, count)) memory_.clear();
  }

  std::unique_ptr<BlockState> idle_state() {
    if (idle_.empty()) return std::make_unique<BlockState>(0, 0);
    std::unique_ptr<BlockState> state = std::move(idle_.back());
    idle_.pop_back();
    return state;
  }

  static void land(BlockState& state, const Access& access) {
    for (uint32_t rest = access.lanes; rest; rest &= rest - 1)
      state.shared.land(access.addresses[std::countr_zero(rest)], access.bytes);
  }
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_race_check(FindingLog& log, const vgpu::Memory& memory,
                                                RaceScope scope) {
  return std::make_unique<RaceCheck>(log, memory, scope);
}

std::unique_ptr<vgpu::Listener> make_race_check(FindingLog& log, const vgpu::Memory& memory,
                                                CheckSet checks) {
  const RaceScope scope{checks.has(protocol::Check::Races), checks.has(protocol::Check::Streams),
                        checks.has(protocol::Check::SameValue), true};
  if (!scope.within_launches && !scope.between_operations) return nullptr;
  return make_race_check(log, memory, scope);
}

}  // namespace assay::checks
