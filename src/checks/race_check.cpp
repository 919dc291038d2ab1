// Data races: two accesses to the same bytes, at least one a write, not both strong, that nothing orders.
//
// Order is happens-before (race_clock.h), so what a schedule happened to do does not matter: one run finds
// the races of its inputs. Accesses are compared with the last write and the last read of the same bytes
// (race_shadow.h); an older one may be forgotten, which can hide a race but never invents one. Two kinds of
// conflict are no race: threads that store the value that is already there, and loads whose value only a
// `selp` sees, which the compiler hoisted out of a condition.
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <unordered_set>

#include "checks/checks.h"
#include "checks/race_clock.h"
#include "checks/race_shadow.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"

namespace assay::checks {

namespace {

using vgpu::Access;
using vgpu::AccessKind;
using vgpu::Address;
using vgpu::Order;

constexpr size_t kLocks = 1024;

struct SpinLock {
  std::atomic_flag flag = ATOMIC_FLAG_INIT;
  void lock() {
    while (flag.test_and_set(std::memory_order_acquire)) {
    }
  }
  void unlock() { flag.clear(std::memory_order_release); }
};

// Memory that costs nothing until it is touched.
class Pages {
 public:
  explicit Pages(size_t bytes) : bytes_(bytes) {
    void* place = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = place == MAP_FAILED ? nullptr : static_cast<std::byte*>(place);
  }
  ~Pages() {
    if (data_) munmap(data_, bytes_);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::byte* data() const { return data_; }
  void clear() {
    if (data_) madvise(data_, bytes_, MADV_DONTNEED);
  }

 private:
  size_t bytes_;
  std::byte* data_ = nullptr;
};

struct Site {
  const vgpu::Program* program = nullptr;
  const vgpu::Function* function = nullptr;
  const vgpu::Inst* inst = nullptr;
  AccessKind kind{};
};

// What one block needs: its clock, the cells of its shared memory, where it is.
struct BlockState {
  uint32_t first_block = 0, last_block = 0;  // numbers of its launch's blocks
  BlockClock clock;
  std::vector<Cell> shared;
  vgpu::Dim3 id;
  bool exhausted = false;  // ticks have run out: say nothing more
  BlockState(BlockId number, size_t warps) : clock(number, warps) {}
};

uint32_t strength(const Access& access) {
  if (access.kind == AccessKind::Load || access.kind == AccessKind::Store) {
    if (access.order == Order::Weak) return 0;
    if (access.order == Order::Volatile) return 2;
  }
  return access.scope == vgpu::Scope::Block || access.scope == vgpu::Scope::Thread ? 1 : 2;
}

bool is_release(Order order) {
  return order == Order::Release || order == Order::AcquireRelease || order == Order::SequentiallyConsistent;
}
bool is_acquire(Order order) {
  return order == Order::Acquire || order == Order::AcquireRelease || order == Order::SequentiallyConsistent;
}
bool writes(AccessKind kind) { return kind != AccessKind::Load; }
bool reads(AccessKind kind) { return kind == AccessKind::Load || kind == AccessKind::Atomic; }

std::string_view noun(AccessKind kind) {
  constexpr std::string_view kNouns[] = {"read", "write", "atomic", "atomic"};
  return kNouns[static_cast<size_t>(kind)];
}

void add_registers(const ptx::Operand& operand, std::unordered_set<uint32_t>& to) {
  if (operand.index != ptx::kNone && (operand.kind == ptx::Operand::Kind::Register || operand.kind == ptx::Operand::Kind::Address))
    to.insert(operand.index);
  for (const ptx::Operand& element : operand.elements) add_registers(element, to);
}

// Whether the value of a load goes through arithmetic into selp and nowhere else: a load that the
// compiler moved out of a condition, whose value most threads discard.
bool is_hoisted(const Site& site) {
  const auto& body = site.function->ptx->body;
  if (site.kind != AccessKind::Load || site.inst->source >= body.size()) return false;
  std::unordered_set<uint32_t> carriers;
  add_registers(body[site.inst->source].operands.at(0), carriers);
  bool selected = false;
  for (size_t i = site.inst->source + 1; i < body.size(); ++i) {
    const ptx::Instruction& inst = body[i];
    std::unordered_set<uint32_t> used;
    for (size_t o = 1; o < inst.operands.size(); ++o) add_registers(inst.operands[o], used);
    const bool uses = std::any_of(used.begin(), used.end(), [&](uint32_t r) { return carriers.count(r) > 0; });
    if (inst.guard != ptx::kNone && carriers.count(inst.guard)) return false;
    if (inst.operands.empty()) continue;
    const bool has_result = inst.operands[0].kind == ptx::Operand::Kind::Register || inst.operands[0].kind == ptx::Operand::Kind::Vector;
    if (!uses) {
      if (has_result && inst.guard == ptx::kNone && inst.operands[0].kind == ptx::Operand::Kind::Register)
        carriers.erase(inst.operands[0].index);
      continue;
    }
    using ptx::Opcode;
    if (inst.opcode == Opcode::selp) {
      selected = true;
      continue;
    }
    if (!has_result || inst.opcode == Opcode::setp || inst.opcode == Opcode::ld || inst.opcode == Opcode::atom ||
        inst.opcode == Opcode::shfl_sync || inst.opcode == Opcode::call || inst.opcode == Opcode::bar_sync)
      return false;
    add_registers(inst.operands[0], carriers);
  }
  return selected;
}

class RaceCheck final : public vgpu::Listener {
 public:
  RaceCheck(FindingLog& log, const vgpu::Memory& memory)
      : log_(log), memory_(memory), global_(memory.range_bytes() * (sizeof(Cell) / 4)), locks_(kLocks) {}

  void on_launch(const vgpu::LaunchInfo& info) override {
    std::lock_guard lock(mutex_);
    const uint64_t blocks = info.config.grid.count();
    if (next_block_ + blocks > kMostBlocks) {  // the numbers begin again: nothing old may be mistaken for new
      global_.clear();
      next_block_ = 1;
    }
    const uint32_t first = next_block_;
    next_block_ += static_cast<uint32_t>(std::min<uint64_t>(blocks, kMostBlocks - 1));
    launches_[info.id] = {first, next_block_ - 1};
    if (launches_.size() > 1) return;  // another grid is under way: what it has left is still needed
    locations_.clear();
    sites_.clear();
    hoisted_.clear();
    site_of_.clear();
    sites_.push_back({});
    ++sites_version_;
  }

  void on_launch_end(const vgpu::LaunchInfo& info) override {
    std::lock_guard lock(mutex_);
    launches_.erase(info.id);
  }

  void on_block(const vgpu::Block& block) override {
    std::lock_guard lock(mutex_);
    const Numbers numbers = launches_[block.grid->info.id];
    const BlockId number = numbers.first + static_cast<uint32_t>(block.linear % (numbers.last - numbers.first + 1));
    auto* state = new BlockState(number, block.warps.size());
    state->first_block = numbers.first;
    state->last_block = numbers.last;
    state->shared.resize((block.shared_bytes + 3) / 4);
    state->id = {block.id[0], block.id[1], block.id[2]};
    block.race_state = state;
  }

  void on_block_end(const vgpu::Block& block) override {
    delete static_cast<BlockState*>(block.race_state);
    block.race_state = nullptr;
  }

  void on_block_barrier(const vgpu::Block& block, uint32_t barrier) override {
    BlockState& state = state_of(block);
    std::lock_guard lock(mutex_);
    state.clock.sync_block(block.barriers[barrier].arrived, block);
    note_exhaustion(state);
  }

  void on_cluster_barrier(const vgpu::Cluster& cluster) override {
    std::lock_guard lock(mutex_);
    auto meeting = std::make_shared<SharedClock>();
    for (const vgpu::Block& block : cluster.blocks) {
      BlockState& state = state_of(block);
      std::vector<uint32_t> everybody(block.warps.size(), vgpu::kAllLanes);
      state.clock.sync_block(everybody, block);
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

  void on_fence(const vgpu::Warp& warp, const vgpu::Inst&, vgpu::Scope, uint32_t) override {
    BlockState& state = state_of(*warp.block);
    std::lock_guard lock(mutex_);
    state.clock.fence(warp.index);
    note_exhaustion(state);
  }

  void on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const Access& access) override {
    const bool shared = access.space == ptx::Space::Shared;
    if (!shared && access.space != ptx::Space::Global) return;
    BlockState& state = state_of(*warp.block);
    if (state.exhausted) return;
    const uint32_t order = strength(access);
    if (order) synchronise(state, warp, access);
    const Mark mine = Mark::make(state.clock.id, warp.index, 0, state.clock.warps[warp.index].tick, order, 0,
                                 site_number(warp, inst, access.kind));
    SpinLock* held = nullptr;
    for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
      const uint32_t lane = static_cast<uint32_t>(std::countr_zero(rest));
      const Address address = access.addresses[lane];
      if (!shared) {
        if (!memory_.is_device_address(address) || !global_.data()) continue;
        SpinLock* lock = &locks_[address >> 12 & (kLocks - 1)];
        if (lock != held) {
          if (held) held->unlock();
          (held = lock)->lock();
        }
      }
      visit(state, warp, inst, access, lane, address, shared, mine);
    }
    if (held) held->unlock();
  }

 private:
  FindingLog& log_;
  const vgpu::Memory& memory_;
  Pages global_;
  std::vector<SpinLock> locks_;
  std::mutex mutex_;  // of what follows, and of every SharedClock
  struct Numbers {
    uint32_t first = 1, last = 1;
  };
  std::unordered_map<uint64_t, Numbers> launches_;  // under way, by id: the numbers of their blocks
  uint32_t next_block_ = 1;
  std::atomic<uint64_t> sites_version_{0};
  std::unordered_map<Address, std::shared_ptr<SharedClock>> locations_;
  std::vector<Site> sites_;
  std::unordered_map<const vgpu::Inst*, uint32_t> site_of_;
  std::unordered_map<const vgpu::Inst*, bool> hoisted_;

  static BlockState& state_of(const vgpu::Block& block) { return *static_cast<BlockState*>(block.race_state); }

  static void note_exhaustion(BlockState& state) {
    for (const WarpClock& warp : state.clock.warps) state.exhausted |= warp.tick >= kMostTicks;
  }

  uint32_t site_number(const vgpu::Warp& warp, const vgpu::Inst& inst, AccessKind kind) {
    thread_local const vgpu::Inst* last_inst = nullptr;
    thread_local uint32_t last_number = 0;
    thread_local const RaceCheck* last_check = nullptr;
    thread_local uint64_t last_version = 0;
    if (last_inst == &inst && last_check == this && last_version == sites_version_) return last_number;
    std::lock_guard lock(mutex_);
    const auto [it, fresh] = site_of_.try_emplace(&inst, static_cast<uint32_t>(sites_.size()));
    if (fresh) {
      if (sites_.size() > kMostSites)
        it->second = 0;
      else
        sites_.push_back({warp.grid->program, warp.frame->function, &inst, kind});
    }
    last_inst = &inst, last_check = this, last_version = sites_version_;
    return last_number = it->second;
  }

  // Strong accesses carry knowledge from thread to thread.
  void synchronise(BlockState& state, const vgpu::Warp& warp, const Access& access) {
    std::lock_guard lock(mutex_);
    WarpClock& clock = state.clock.warps[warp.index];
    const bool releases = is_release(access.order) && writes(access.kind);
    if (releases) state.clock.fence(warp.index);
    for (uint32_t rest = access.lanes; rest; rest &= rest - 1) {
      // Shared memory is told apart by its block.
      Address key = access.addresses[std::countr_zero(rest)];
      if (access.space == ptx::Space::Shared) key |= Address{state.clock.id} << 32 | Address{1} << 63;
      auto found = locations_.find(key);
      if (reads(access.kind) && found != locations_.end()) {
        auto& taken = is_acquire(access.order) ? clock.others : clock.pending;
        if (std::find(taken.begin(), taken.end(), found->second) == taken.end()) taken.push_back(found->second);
      }
      if (writes(access.kind) && clock.fenced) {
        auto& location = found != locations_.end() ? found->second : locations_[key];
        if (!location) location = std::make_shared<SharedClock>();
        for (const auto& [block, ticks] : clock.fenced->blocks) location->merge(block, ticks);
        for (const auto& source : clock.fenced->sources) location->follow(source);
      }
    }
  }

  void visit(BlockState& state, const vgpu::Warp& warp, const vgpu::Inst& inst, const Access& access, uint32_t lane,
             Address address, bool shared, Mark mine) {
    for (uint32_t done = 0; done < access.bytes;) {
      const uint32_t first = static_cast<uint32_t>((address + done) & 3);
      const uint32_t count = std::min<uint32_t>(4 - first, access.bytes - done);
      const uint32_t bytes = ((1u << count) - 1) << first;
      const uint64_t index = (shared ? address + done : address + done - memory_.range_base()) / 4;
      Cell* cells = shared ? state.shared.data() : reinterpret_cast<Cell*>(global_.data());
      if (shared && index >= state.shared.size()) return;
      Mark now = mine;
      now.bits |= uint64_t{lane} << 34 | uint64_t{bytes} << 12;
      compare(state, warp, inst, access, lane, address + done, count, cells[index], now);
      done += count;
    }
  }

  void compare(BlockState& state, const vgpu::Warp& warp, const vgpu::Inst& inst, const Access& access, uint32_t lane,
               Address address, uint32_t count, Cell& cell, Mark now) {
    if (conflicts(state, cell.write, now) && !(access.values && stores_the_same(warp, access, cell.write, now, lane, address, count)))
      report(state, warp, inst, access, lane, address, cell.write, now);
    if (writes(access.kind)) {
      if (conflicts(state, cell.read, now) && !(access.values && stores_the_same(warp, access, cell.read, now, lane, address, count)))
        report(state, warp, inst, access, lane, address, cell.read, now);
      cell.write = now;
      if (access.kind == AccessKind::Atomic) cell.read = now;
    } else {
      cell.read = now;
    }
  }

  bool conflicts(const BlockState& state, Mark before, Mark now) {
    // What another launch left is ordered by its stream, or not this check's to judge.
    if (before.block() < state.first_block || before.block() > state.last_block) return false;
    if ((before.bytes() & now.bytes()) == 0 || before.same_thread(now)) return false;
    const bool same_block = before.block() == now.block();
    if (before.order() && now.order() && (same_block || (before.order() == 2 && now.order() == 2))) return false;
    if (same_block && before.warp() != now.warp() && before.tick() < state.clock.warps[now.warp()].known[before.warp()]) return false;
    if (same_block && before.warp() == now.warp())
      return !state.clock.is_before(before.warp(), before.lane(), before.tick(), now.warp(), now.lane());
    std::lock_guard lock(mutex_);
    return !state.clock.is_before(before.block(), before.warp(), before.tick(), now.warp());
  }

  // A store that leaves the bytes as they are, or as another lane of the same instruction sets them.
  bool stores_the_same(const vgpu::Warp& warp, const Access& access, Mark before, Mark now, uint32_t lane, Address address,
                       uint32_t count) {
    const uint64_t offset = address - access.addresses[lane];
    const std::byte* value = access.values + size_t{lane} * access.bytes + offset;
    if (before.block() == now.block() && before.warp() == now.warp() && before.tick() == now.tick() &&
        before.site() == now.site() && (access.lanes >> before.lane() & 1)) {
      const uint64_t theirs = address - access.addresses[before.lane()];
      return theirs + count <= access.bytes &&
             std::memcmp(value, access.values + size_t{before.lane()} * access.bytes + theirs, count) == 0;
    }
    const std::byte* there = access.space == ptx::Space::Shared ? warp.block->shared + address : memory_.host(address, count);
    return there && std::memcmp(value, there, count) == 0;
  }

  // Reading a function's whole body is dear, and a race may show millions of times.
  bool hoisted(const Site& site) {
    std::lock_guard lock(mutex_);
    const auto [it, fresh] = hoisted_.try_emplace(site.inst, false);
    if (fresh) it->second = is_hoisted(site);
    return it->second;
  }

  void report(BlockState& state, const vgpu::Warp& warp, const vgpu::Inst& inst, const Access& access, uint32_t lane,
              Address address, Mark before, Mark now) {
    Site other;
    {
      std::lock_guard lock(mutex_);
      if (before.site() < sites_.size()) other = sites_[before.site()];
    }
    const Site self{warp.grid->program, warp.frame->function, &inst, access.kind};
    const Occurrence occurrence{"data-race", &inst, other.inst};
    if (log_.counted(occurrence) || hoisted(self) || (other.inst && hoisted(other))) return;
    Finding finding = finding_at("data-race", warp, inst, lane);
    const vgpu::Dim3& extent = warp.grid->info.config.block;
    const uint32_t thread = before.warp() * vgpu::kWarpSize + before.lane();
    const vgpu::Dim3 there = block_at(warp, before.block() - state.first_block);
    Json& evidence = finding.evidence;
    const std::string what = access.space == ptx::Space::Shared ? fmt::format("shared memory, offset {}", address)
                                                                : describe_address(memory_, address, evidence);
    std::string where = "an earlier instruction";
    if (other.inst) {
      const vgpu::SourcePlace place = vgpu::place_of(*other.program, *other.function, *other.inst);
      evidence["other"] = {{"file", place.file}, {"line", place.line}};
      where = place.line ? fmt::format("{}:{}", place.file, place.line) : vgpu::where(*other.program, *other.function, *other.inst);
    }
    evidence["other"]["access"] = other.inst ? noun(other.kind) : "access";
    evidence["other"]["block"] = {there.x, there.y, there.z};
    evidence["other"]["thread"] = {thread % extent.x, thread / extent.x % extent.y, thread / extent.x / extent.y};
    evidence["access"] = noun(access.kind);
    evidence["relation"] = before.block() != now.block() ? "blocks" : before.warp() != now.warp() ? "block" : "warp";
    finding.message = fmt::format("{} of {} is not ordered with the {} at {} by thread ({},{},{}) of {}", noun(access.kind), what,
                                  other.inst ? noun(other.kind) : "access", where, thread % extent.x,
                                  thread / extent.x % extent.y, thread / extent.x / extent.y,
                                  before.block() == now.block() ? "the same block" : fmt::format("block ({},{},{})", there.x, there.y, there.z));
    std::string keys[2] = {key_of("", warp, inst), where};
    std::sort(keys, keys + 2);
    log_.add("data-race|" + keys[0] + "|" + keys[1], std::move(finding), occurrence);
  }

  static vgpu::Dim3 block_at(const vgpu::Warp& warp, uint64_t linear) {
    const vgpu::Dim3& grid = warp.grid->info.config.grid;
    return {static_cast<uint32_t>(linear % grid.x), static_cast<uint32_t>(linear / grid.x % grid.y),
            static_cast<uint32_t>(linear / grid.x / grid.y)};
  }
};

}  // namespace

std::unique_ptr<vgpu::Listener> make_race_check(FindingLog& log, const vgpu::Memory& memory) {
  return std::make_unique<RaceCheck>(log, memory);
}

}  // namespace assay::checks
