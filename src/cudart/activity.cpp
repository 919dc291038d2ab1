#include "cudart/activity.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "cudart/code_place.h"
#include "cudart/event_writer.h"
#include "cudart/python_frames.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"
#include "vgpu/warp.h"

namespace assay::cudart {

namespace {

// Bytes of an allocation above which they are not counted: a bitmap of a larger one takes long to read.
constexpr uint64_t kMostCounted = uint64_t{4} << 30;
constexpr uint64_t kWordBits = 64;

std::array<uint32_t, 3> array_of(const vgpu::Dim3& dim) {
  return {dim.x, dim.y, dim.z};
}

// Sets bits [first, first + count) of a bitmap that several threads write.
void set_bits(uint64_t* words, uint64_t first, uint64_t count) {
  for (const uint64_t end = first + count; first < end;) {
    const uint64_t bit = first % kWordBits, here = std::min(end - first, kWordBits - bit);
    const uint64_t mask = (here == kWordBits ? ~uint64_t{0} : (uint64_t{1} << here) - 1) << bit;
    uint64_t& word = words[first / kWordBits];
    if (here == kWordBits)
      __atomic_store_n(&word, mask,
                       __ATOMIC_RELAXED);  // nobody clears a bit: no need to keep the others' ones
    else if ((__atomic_load_n(&word, __ATOMIC_RELAXED) & mask) != mask)
      __atomic_fetch_or(&word, mask, __ATOMIC_RELAXED);
    first += here;
  }
}

uint64_t bits_set(const uint8_t* bitmap, uint64_t bits) {
  uint64_t set = 0, at = 0;
  for (; at + kWordBits <= bits; at += kWordBits) {
    uint64_t word = 0;
    std::memcpy(&word, bitmap + at / 8, sizeof word);
    set += static_cast<uint64_t>(std::popcount(word));
  }
  for (; at < bits; ++at) set += (bitmap[at / 8] >> (at % 8)) & 1u;
  return set;
}

std::atomic<uint64_t> next_serial{1};

}  // namespace

struct Activity::Use {
  vgpu::Allocation allocation;
  uint64_t* was_read = nullptr;  // one bit a byte; null: not counted
  std::atomic<const Writer*> last_writer{nullptr};
  std::atomic<bool> is_touched{false};  // by a grid that runs
  double last_use = 0;
  std::string writer;
  Where written_at;
  ~Use() { std::free(was_read); }
};

struct Activity::Writer {
  uint64_t launch = 0;
  std::string kernel;
  Where where;
};

// Most instructions stay in one allocation: each thread remembers which.
struct Activity::Site {
  uint64_t serial = 0, launch = 0, generation = 0;
  const vgpu::Inst* inst = nullptr;
  vgpu::Address low = 1, high = 0;
  Use* use = nullptr;
  const Writer* writer = nullptr;
};

Activity::Activity(EventWriter& writer, const vgpu::Memory& memory, bool counts)
    : writer_(writer),
      memory_(memory),
      counts_(counts),
      serial_(next_serial++),
      began_(std::chrono::steady_clock::now()) {}

Activity::~Activity() = default;

double Activity::now() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
}

// ---- Allocations ----

uint64_t Activity::new_stack(protocol::StackEvent event) {
  event.id = ++stacks_;
  writer_.stack(event);
  return event.id;
}

uint64_t Activity::stack(const void* caller) {
  if (const uint64_t python = python_stack(); python != 0) {
    const std::lock_guard lock(mutex_);
    uint64_t& id = python_stacks_[python];
    if (id == 0) id = new_stack({0, {}, python_frames(python)});
    return id;
  }
  std::vector<uint64_t> calls = calls_above(caller);
  const std::lock_guard lock(mutex_);
  uint64_t& id = native_stacks_[calls];
  if (id != 0) return id;
  protocol::StackEvent event;
  for (const uint64_t call : calls) event.calls.push_back(place_in_code(call - 1));  // just before the return
  return id = new_stack(std::move(event));
}

void Activity::allocated(vgpu::Address base, uint64_t stack) {
  const auto made = memory_.find(base);
  if (!made) return;
  auto use = std::make_unique<Use>();
  use->allocation = *made;
  const bool is_device = made->kind == vgpu::MemoryKind::Device;
  if (counts_ && is_device && made->initialised && made->size <= kMostCounted)
    use->was_read = static_cast<uint64_t*>(std::calloc(made->size / kWordBits + 1, sizeof(uint64_t)));
  writer_.write(protocol::AllocationEvent{made->id, made->base, made->size, made->label,
                                          made->kind == vgpu::MemoryKind::Pinned, stack, now()});
  const std::unique_lock lock(uses_mutex_);
  uses_[base] = std::move(use);
}

void Activity::out_of_memory(uint64_t bytes, uint64_t stack) {
  writer_.write(protocol::OutOfMemoryEvent{
      bytes, memory_.capacity() - std::min(memory_.capacity(), memory_.used()), stack, now()});
}

void Activity::releasing(vgpu::Address base) {
  std::unique_ptr<Use> use;
  {
    const std::unique_lock lock(uses_mutex_);
    const auto found = uses_.find(base);
    if (found == uses_.end()) return;
    use = std::move(found->second);
    uses_.erase(found);
  }
  {
    const std::lock_guard lock(mutex_);
    std::erase(touched_, use.get());
  }
  report_release(*use, false);
}

void Activity::report_release(const Use& use, bool is_held) {
  protocol::ReleaseEvent event{.id = use.allocation.id,
                               .seconds = now(),
                               .is_held = is_held,
                               .is_counted = use.was_read != nullptr,
                               .last_use = use.last_use,
                               .writer = use.writer,
                               .written_at = use.written_at};
  if (use.was_read) {
    const uint64_t bytes = use.allocation.size;
    event.never_read = bytes - bits_set(reinterpret_cast<const uint8_t*>(use.was_read), bytes);
    event.never_written = bytes - bits_set(use.allocation.initialised, bytes);
  }
  writer_.write(event);
}

void Activity::end() {
  const std::shared_lock lock(uses_mutex_);
  for (const auto& [base, use] : uses_) report_release(*use, true);
}

// ---- Accesses ----

Activity::Use* Activity::use_of(vgpu::Address address) const {
  const std::shared_lock lock(uses_mutex_);
  auto next = uses_.upper_bound(address);
  if (next == uses_.begin()) return nullptr;
  Use* use = (--next)->second.get();
  return address < use->allocation.end() ? use : nullptr;
}

// What all accesses of an event have in common. The array of a thread is a call away in a shared library.
struct Activity::Cursor {
  static constexpr std::size_t kSites = 256;
  Cursor(const Activity& activity, const vgpu::Warp& at)
      : warp(at), launch(at.grid->info.id), generation(activity.memory_.generation()) {
    thread_local std::array<Site, kSites> own;
    sites = own.data();
  }
  const vgpu::Warp& warp;
  const uint64_t launch, generation;
  Site* sites;
};

[[gnu::always_inline]] inline Activity::Site& Activity::site(const Cursor& at, const vgpu::Inst& inst,
                                                             vgpu::Address address) {
  Site& site = at.sites[reinterpret_cast<uintptr_t>(&inst) / sizeof(vgpu::Inst) % Cursor::kSites];
  if (site.serial != serial_ || site.launch != at.launch || site.inst != &inst)
    site = {serial_, at.launch, 0, &inst};
  if (site.generation != at.generation || address < site.low || address >= site.high) {
    site.generation = at.generation;
    site.use = use_of(address);
    site.low = site.use ? site.use->allocation.base : 1;
    site.high = site.use ? site.use->allocation.end() : 0;
  }
  return site;
}

[[gnu::always_inline]] inline void Activity::used(Use& use) {
  if (use.is_touched.load(std::memory_order_relaxed) || use.is_touched.exchange(true)) return;
  const std::lock_guard lock(mutex_);
  touched_.push_back(&use);
}

[[gnu::always_inline]] inline void Activity::read(const Cursor& at, const vgpu::Inst& inst,
                                                  vgpu::Address address, uint64_t bytes) {
  Use* use = site(at, inst, address).use;
  if (!use) return;
  used(*use);
  const uint64_t first = address - use->allocation.base;
  if (use->was_read) set_bits(use->was_read, first, std::min(bytes, use->allocation.size - first));
}

[[gnu::always_inline]] inline void Activity::wrote(const Cursor& at, const vgpu::Inst& inst,
                                                   vgpu::Address address) {
  Site& here = site(at, inst, address);
  if (!here.use) return;
  used(*here.use);
  if (!here.writer) here.writer = new_writer(at.warp, inst, here.launch);
  if (here.use->last_writer.load(std::memory_order_relaxed) != here.writer)
    here.use->last_writer = here.writer;
}

const Activity::Writer* Activity::new_writer(const vgpu::Warp& warp, const vgpu::Inst& inst,
                                             uint64_t launch) {
  const vgpu::SourcePlace place = vgpu::place_of(*warp.grid->program, *warp.frame->function, inst);
  auto made = std::make_unique<Writer>(
      Writer{launch, std::string(warp.grid->info.kernel.name()), {place.file, static_cast<int>(place.line)}});
  const Writer* const writer = made.get();
  const std::lock_guard lock(mutex_);
  writers_[launch].push_back(std::move(made));
  return writer;
}

void Activity::on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access) {
  if (access.space != ptx::Space::Global) return;
  const Cursor at(*this, warp);
  const bool reads = access.kind != vgpu::AccessKind::Store, writes = access.kind != vgpu::AccessKind::Load;
  if (access.shape == vgpu::Shape::Unit && access.lanes == ~0u) {
    if (reads) read(at, inst, access.addresses[0], uint64_t{32} * access.bytes);
    if (writes) wrote(at, inst, access.addresses[0]);
    return;
  }
  for (uint32_t lanes = access.lanes; lanes != 0; lanes &= lanes - 1) {
    const vgpu::Address address = access.addresses[std::countr_zero(lanes)];
    if (reads) read(at, inst, address, access.bytes);
    if (writes) wrote(at, inst, address);
  }
}

void Activity::on_loads(const vgpu::Warp& warp, ptx::Space space, std::span<const vgpu::ShapedLoad> loads) {
  if (space != ptx::Space::Global) return;
  const Cursor at(*this, warp);
  for (const vgpu::ShapedLoad& load : loads) {
    const bool is_half = load.shape == vgpu::Shape::HalfUnit || load.shape == vgpu::Shape::HalfUniform;
    const bool is_unit = load.shape == vgpu::Shape::Unit || load.shape == vgpu::Shape::HalfUnit;
    const uint64_t bytes = uint64_t{load.bytes} * (!is_unit ? 1 : is_half ? 16 : 32);
    read(at, *load.inst, load.first, bytes);
    if (is_half) read(at, *load.inst, load.second, bytes);
  }
}

void Activity::on_launch_end(const vgpu::LaunchInfo& info) {
  const std::lock_guard lock(mutex_);
  const double time = now();
  for (Use* use : touched_) {
    use->last_use = time;
    use->is_touched = false;
    if (const Writer* last = use->last_writer.exchange(nullptr)) {
      use->writer = last->kernel;
      use->written_at = last->where;
    }
  }
  touched_.clear();
  writers_.erase(info.id);
}

// ---- Operations ----

bool Activity::is_host(const vgpu::RangeInfo& range) const {
  if (range.host) return true;
  const auto allocation = memory_.find(range.address);
  return !allocation || allocation->kind == vgpu::MemoryKind::Pinned;
}

void Activity::range_used(const vgpu::RangeInfo& range, bool is_read) {
  if (range.host) return;
  Use* use = use_of(range.address);
  if (!use) return;
  {
    const std::lock_guard lock(mutex_);
    use->last_use = now();
  }
  if (!is_read || !use->was_read) return;
  for (uint64_t slice = 0; slice < range.depth; ++slice)
    for (uint64_t row = 0; row < range.height; ++row) {
      const uint64_t first =
          range.address - use->allocation.base + slice * range.slice_pitch + row * range.row_pitch;
      if (first + range.width <= use->allocation.size) set_bits(use->was_read, first, range.width);
    }
}

void Activity::submitted(vgpu::OperationId last, std::size_t count, double called) {
  const std::lock_guard lock(mutex_);
  submissions_.push_back({last, count, called, now()});
}

// What was submitted long before an operation that has ended is of no more use: ids are in the order of submission, and
// operations of different streams pass each other by no more than what is pending.
void Activity::add_submission(protocol::OperationEvent& event) {
  constexpr std::size_t kMostPending = 8192;
  while (submissions_.size() > kMostPending) submissions_.pop_front();
  const auto found = std::lower_bound(submissions_.begin(), submissions_.end(), event.id,
                                      [](const Submission& one, uint64_t id) { return one.last < id; });
  const bool is_known = found != submissions_.end() && event.id + found->count > found->last;
  event.called = is_known ? found->called : event.begin;
  event.returned = is_known ? found->returned : event.begin;
  event.is_graph = is_known && found->count > 1;
}

void Activity::on_operation(const vgpu::OperationInfo& info) {
  using Kind = vgpu::OperationInfo::Kind;
  if (info.kind != Kind::Grid && info.kind != Kind::Copy && info.kind != Kind::Fill) return;
  protocol::OperationEvent event{.id = info.id, .stream = info.stream, .begin = now()};
  event.kind = info.kind == Kind::Grid   ? protocol::OperationKind::Kernel
               : info.kind == Kind::Copy ? protocol::OperationKind::Copy
                                         : protocol::OperationKind::Fill;
  const std::lock_guard lock(mutex_);
  under_way_[info.id] = std::move(event);
}

void Activity::on_copy(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to,
                       const vgpu::RangeInfo& from) {
  range_used(from, true);
  range_used(to, false);
  const bool to_host = is_host(to), from_host = is_host(from);
  const std::lock_guard lock(mutex_);
  const auto found = under_way_.find(info.id);
  if (found == under_way_.end()) return;
  found->second.bytes = to.width * to.height * to.depth;
  found->second.to_host = to_host;
  found->second.from_host = from_host;
}

void Activity::on_fill(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to) {
  if (info.kind == vgpu::OperationInfo::Kind::Release) return releasing(to.address);
  range_used(to, false);
  const bool to_host = is_host(to);
  const std::lock_guard lock(mutex_);
  const auto found = under_way_.find(info.id);
  if (found == under_way_.end()) return;
  found->second.bytes = to.width * to.height * to.depth;
  found->second.to_host = to_host;
}

void Activity::grid_ended(const vgpu::GridRun& run, const std::string& fault) {
  const vgpu::LaunchInfo& info = run.info();
  const std::lock_guard lock(mutex_);
  ended_.kernel = std::string(info.kernel.name());
  ended_.grid = array_of(info.config.grid);
  ended_.block = array_of(info.config.block);
  ended_.shared_bytes = info.config.dynamic_shared;
  ended_.warp_instructions = run.outcome().warp_instructions;
  if (fault.empty()) return;
  // The device has failed, and nobody says which operation this was: the oldest of its stream that runs.
  auto failed = under_way_.end();
  for (auto it = under_way_.begin(); it != under_way_.end(); ++it)
    if (it->second.stream == info.stream && it->second.kind == protocol::OperationKind::Kernel &&
        (failed == under_way_.end() || it->first < failed->first))
      failed = it;
  if (failed == under_way_.end()) return;
  protocol::OperationEvent event = ended_;
  const protocol::OperationEvent& known = failed->second;
  event.id = known.id, event.stream = known.stream, event.begin = known.begin;
  event.end = now();
  event.fault = fault;
  add_submission(event);
  under_way_.erase(failed);
  writer_.write(event);
}

// Follows grid_ended() at once, on the same thread.
void Activity::on_operation_end(const vgpu::OperationInfo& info) {
  const std::lock_guard lock(mutex_);
  const auto found = under_way_.find(info.id);
  if (found == under_way_.end()) return;
  protocol::OperationEvent event = std::move(found->second);
  under_way_.erase(found);
  event.end = now();
  add_submission(event);
  if (event.kind == protocol::OperationKind::Kernel) {
    event.kernel = ended_.kernel;
    event.grid = ended_.grid;
    event.block = ended_.block;
    event.shared_bytes = ended_.shared_bytes;
    event.warp_instructions = ended_.warp_instructions;
  }
  writer_.write(event);
}

}  // namespace assay::cudart
