#include "cudart/activity.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <utility>

#include "base/parallel.h"
#include "cudart/code_place.h"
#include "cudart/event_writer.h"
#include "cudart/python_frames.h"
#include "cudart/read_marks.h"
#include "vgpu/grid.h"
#include "vgpu/program.h"
#include "vgpu/warp.h"

namespace assay::cudart {

namespace {

// Bytes of an allocation above which they are not counted: the marks of a larger one take long to count.
constexpr uint64_t kMostCounted = uint64_t{4} << 30;
constexpr uint64_t kWordBits = 64;

// Operations that may wait on all streams: what was submitted before these is of no more use.
constexpr std::size_t kMostPending = 8192;

void set_extents(uint32_t (&to)[3], const vgpu::Dim3& dim) {
  to[0] = dim.x, to[1] = dim.y, to[2] = dim.z;
}

// After 4, 8, 16, … launches: the counts take no longer together than the marks of all launches.
bool is_time_to_count(uint64_t launches) {
  return launches >= 4 && std::has_single_bit(launches);
}

uint64_t bits_set(const uint8_t* bitmap, uint64_t bits) {
  if (is_filled(bitmap, bits / 8, 0xff) && bits % 8 == 0) return bits;
  uint64_t set = 0, at = 0;
  for (; at + kWordBits <= bits; at += kWordBits) {
    uint64_t word = 0;
    std::memcpy(&word, bitmap + at / 8, sizeof word);
    set += static_cast<uint64_t>(std::popcount(word));
  }
  for (; at < bits; ++at) set += (bitmap[at / 8] >> (at % 8)) & 1u;
  return set;
}

// The offsets of all lanes of a warp in an allocation.
struct Offsets {
  bool are_inside, are_aligned;
  Offsets(const vgpu::Address* addresses, vgpu::Address low, uint64_t size) {
    uint64_t outside = 0, all = 0;  // of `outside` the sign: this loop becomes a few vector instructions
    for (uint32_t lane = 0; lane < vgpu::kWarpSize; ++lane) {
      const uint64_t first = addresses[lane] - low;
      outside |= first | ~(first - size);
      all |= first;
    }
    are_inside = static_cast<int64_t>(outside) >= 0;
    are_aligned = all % ReadMarks::kGranule == 0;
  }
};

void mark_words(ReadMarks& marks, const vgpu::Address* addresses, vgpu::Address low) {
  uint8_t* const granules = marks.granules();
  if (!granules) return;
#pragma GCC unroll 8
  for (uint32_t lane = 0; lane < vgpu::kWarpSize; ++lane)
    ReadMarks::mark_word(granules, addresses[lane] - low);
}

}  // namespace

struct Activity::Use {
  vgpu::Allocation allocation;
  std::optional<ReadMarks> was_read;     // none: not counted
  std::atomic<bool> is_all_read{false};  // found out now and then: what is known need not be marked
  uint64_t launches = 0;                 // that used it
  ReadMarks* marks() { return was_read && !is_all_read ? &*was_read : nullptr; }
  uint64_t never_read() const { return is_all_read ? 0 : allocation.size - was_read->count(); }
  std::atomic<const Writer*> last_writer{nullptr};  // in the grid that runs
  std::atomic<bool> is_touched{false};              // by a grid that runs
  double last_use = 0;
  std::optional<double> release_called;
  protocol::TextId writer = 0, file = 0;
  int32_t line = 0;
};

struct Activity::Writer {
  std::string_view kernel;
  const vgpu::Program* program;
  const vgpu::Function* function;
  const vgpu::Inst* inst;
};

// Most instructions stay in one allocation: each thread remembers which.
struct Activity::Site {
  const vgpu::Inst* inst = nullptr;
  uint64_t stamp = 0;  // Cursor::stamp when this was found out
  vgpu::Address low = 0;
  uint64_t size = 0;           // of the allocation at `low`
  Use* use = nullptr;          // null: it is none of the program's own
  ReadMarks* marks = nullptr;  // of what was read; null: not counted, or known to be all
  uint64_t launch = 0;         // of `writer`
  const Writer* writer = nullptr;
};

// What an instruction reads, from `first` on.
struct Activity::Read {
  const vgpu::Inst* inst = nullptr;
  vgpu::Address first = 0, end = 0;
};

// Warps that follow each other mostly read what follows: what an instruction has read stays one Read for as long as it does
// (`growing`, by instruction). The others wait until there are many: what marking one takes is in the cache then for all.
struct Activity::Thread {
  static constexpr std::size_t kSites = 256, kMostReads = 128, kMostGrowing = 64;
  std::size_t waiting = 0;
  uint64_t is_growing = 0;  // a bit for each of `growing`
  std::array<Read, kMostGrowing> growing{};
  std::vector<Read> reads{kMostReads};
  std::vector<Site> sites{kSites};
};

Activity::Activity(EventWriter& writer, vgpu::Device& device, bool counts)
    : writer_(writer),
      memory_(device.memory()),
      counts_(counts),
      began_(std::chrono::steady_clock::now()),
      threads_(counts ? static_cast<std::size_t>(useful_threads(static_cast<int>(device.options().threads)))
                      : 0),
      single_(kMostPending) {}

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

uint64_t Activity::stack(const std::vector<uint64_t>& calls, uint64_t python) {
  const std::lock_guard lock(mutex_);
  if (python != 0) {
    uint64_t& id = python_stacks_[python];
    if (id == 0) id = new_stack({0, {}, python_frames(python)});
    return id;
  }
  uint64_t& id = native_stacks_[calls];
  if (id != 0) return id;
  protocol::StackEvent event;
  for (const uint64_t call : calls) event.calls.push_back(place_in_code(call - 1));  // just before the return
  return id = new_stack(std::move(event));
}

void Activity::allocated(const vgpu::Allocation& made, uint64_t stack) {
  auto use = std::make_unique<Use>();
  use->allocation = made;
  const bool is_device = made.kind == vgpu::MemoryKind::Device;
  if (counts_ && is_device && made.initialised && made.size <= kMostCounted) {
    use->was_read.emplace(made.size);
    if (!use->was_read->is_known()) use->was_read.reset();
  }
  writer_.write_record(protocol::AllocationRecord{.id = made.id,
                                                  .address = made.base,
                                                  .bytes = made.size,
                                                  .stack = stack,
                                                  .seconds = now(),
                                                  .label = writer_.text(made.label),
                                                  .is_host = made.kind == vgpu::MemoryKind::Pinned});
  const std::unique_lock lock(uses_mutex_);
  uses_[made.base] = std::move(use);
}

void Activity::out_of_memory(uint64_t bytes, uint64_t stack) {
  writer_.write(protocol::OutOfMemoryEvent{
      bytes, memory_.capacity() - std::min(memory_.capacity(), memory_.used()), stack, now()});
}

void Activity::release_called(vgpu::Address base) {
  const std::unique_lock lock(uses_mutex_);
  if (const auto found = uses_.find(base); found != uses_.end()) found->second->release_called = now();
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
    for (Operation& operation : under_way_) {
      if (operation.from == use.get()) operation.from = nullptr;
      if (operation.to == use.get()) operation.to = nullptr;
    }
  }
  report_release(*use, false);
}

void Activity::report_release(const Use& use, bool is_held) {
  const bool is_counted = use.was_read && use.was_read->is_known();
  const double seconds = now();
  protocol::ReleaseRecord event{.id = use.allocation.id,
                                .seconds = seconds,
                                .called = use.release_called.value_or(seconds),
                                .never_written = 0,
                                .never_read = 0,
                                .last_use = use.last_use,
                                .writer = use.writer,
                                .file = use.file,
                                .line = use.line,
                                .is_held = is_held,
                                .is_counted = is_counted,
                                .unused = {}};
  if (is_counted) {
    const uint64_t bytes = use.allocation.size;
    event.never_read = use.never_read();
    event.never_written = bytes - bits_set(use.allocation.initialised, bytes);
  }
  writer_.write_record(event);
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

// What all accesses of an event have in common.
struct Activity::Cursor {
  Cursor(const Activity& activity, Thread& thread)
      : stamp(activity.memory_.generation() + activity.launches_ended_.load(std::memory_order_relaxed)),
        sites(thread.sites.data()) {}
  const uint64_t stamp;  // grows with each allocation and each end of a launch
  Site* const sites;
};

[[gnu::always_inline]] inline Activity::Site& Activity::site(const Cursor& at, const vgpu::Inst& inst,
                                                             vgpu::Address address) {
  Site& site = at.sites[reinterpret_cast<uintptr_t>(&inst) / sizeof(vgpu::Inst) % Thread::kSites];
  if (site.inst != &inst || site.stamp != at.stamp || address - site.low >= site.size)
    look_up(site, at, inst, address);
  return site;
}

void Activity::look_up(Site& site, const Cursor& at, const vgpu::Inst& inst, vgpu::Address address) {
  if (site.inst != &inst) site = {.inst = &inst};
  site.stamp = at.stamp;
  site.use = use_of(address);
  site.marks = site.use ? site.use->marks() : nullptr;
  const auto allocation = site.use ? std::optional(site.use->allocation) : memory_.find(address);
  site.low = allocation ? allocation->base : 0;
  site.size = allocation ? allocation->size : 0;
  if (site.use) used(*site.use);
}

void Activity::used(Use& use) {
  if (use.is_touched.exchange(true)) return;
  const std::lock_guard lock(mutex_);
  touched_.push_back(&use);
}

[[gnu::always_inline]] inline void Activity::wrote(const vgpu::Warp& warp, const vgpu::Inst& inst,
                                                   Site& site) {
  if (const uint64_t launch = warp.grid->info.id; !site.writer || site.launch != launch) {
    site.launch = launch;
    site.writer = new_writer(warp, inst);
  }
  // Read when no worker runs. A stronger order would be a locked instruction, and hold up the loads that follow.
  if (site.use->last_writer.load(std::memory_order_relaxed) != site.writer)
    site.use->last_writer.store(site.writer, std::memory_order_relaxed);
}

const Activity::Writer* Activity::new_writer(const vgpu::Warp& warp, const vgpu::Inst& inst) {
  const std::lock_guard lock(mutex_);
  std::deque<Writer>& known = writers_[warp.grid->info.id];
  // One for all threads of the engine: what they store in Use::last_writer is then the same.
  for (const Writer& one : known)
    if (one.inst == &inst) return &one;
  return &known.emplace_back(
      Writer{warp.grid->info.kernel.name(), warp.grid->program, warp.frame->function, &inst});
}

// `bytes` from `address` on. They may reach into allocations that follow.
[[gnu::always_inline]] inline void Activity::was_read(const Cursor& at, const vgpu::Inst& inst,
                                                      vgpu::Address address, uint64_t bytes) {
  while (true) {
    const Site& here = site(at, inst, address);
    const uint64_t first = address - here.low;
    const uint64_t own = std::min(bytes, here.size - first);
    if (here.marks) here.marks->mark(first, own);
    if (own == bytes || here.size == 0) return;  // of no allocation
    address += own;
    bytes -= own;
  }
}

// The first of `lanes`, and those after it in the same allocation. Returns the others.
uint32_t Activity::accessed(const Cursor& at, const vgpu::Warp& warp, const vgpu::Inst& inst,
                            const vgpu::Access& access, uint32_t lanes) {
  Site& here = site(at, inst, access.addresses[std::countr_zero(lanes)]);
  if (here.use && access.kind != vgpu::AccessKind::Load) wrote(warp, inst, here);
  // Copies: a mark that is stored might change anything, as far as the compiler knows.
  const vgpu::Address* const addresses = access.addresses;
  const vgpu::Address low = here.low;
  const uint64_t size = here.size, bytes = access.bytes;
  ReadMarks* const marks = access.kind != vgpu::AccessKind::Store ? here.marks : nullptr;
  const bool are_words = bytes == ReadMarks::kGranule;
  if (lanes == ~0u && (!marks || are_words))
    if (const Offsets all(addresses, low, size); all.are_inside && (!marks || all.are_aligned)) {
      if (marks) mark_words(*marks, addresses, low);
      return 0;
    }
  uint8_t* const granules = marks && are_words ? marks->granules() : nullptr;
  do {
    const uint64_t first = addresses[std::countr_zero(lanes)] - low;
    if (first >= size) return lanes;
    if (granules && first % ReadMarks::kGranule == 0)
      ReadMarks::mark_word(granules, first);
    else if (marks)
      marks->mark(first, std::min(bytes, size - first));
    lanes &= lanes - 1;
  } while (lanes != 0);
  return 0;
}

void Activity::on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access) {
  if (access.space != ptx::Space::Global) return;
  const Cursor at(*this, threads_[warp.worker->index]);
  if (access.shape == vgpu::Shape::Unit && access.lanes == ~0u) {
    Site& here = site(at, inst, access.addresses[0]);
    if (here.use && access.kind != vgpu::AccessKind::Load) wrote(warp, inst, here);
    if (access.kind != vgpu::AccessKind::Store)
      was_read(at, inst, access.addresses[0], uint64_t{32} * access.bytes);
    return;
  }
  for (uint32_t lanes = access.lanes; lanes != 0;) {
    const uint32_t rest = accessed(at, warp, inst, access, lanes);
    lanes = rest == lanes ? rest & (rest - 1) : rest;  // one that is in no allocation is left out
  }
}

void Activity::on_loads(const vgpu::Warp& warp, ptx::Space space, std::span<const vgpu::ShapedLoad> loads) {
  if (space != ptx::Space::Global) return;
  Thread& thread = threads_[warp.worker->index];
  for (const vgpu::ShapedLoad& load : loads) {
    const uint64_t bytes = load.bytes;
    if (load.shape == vgpu::Shape::Unit) {
      grow(thread, {load.inst, load.first, load.first + vgpu::kWarpSize * bytes});
      continue;
    }
    const uint64_t each = load.shape == vgpu::Shape::HalfUnit ? vgpu::kWarpSize / 2 * bytes : bytes;
    wait(thread, {load.inst, load.first, load.first + each});
    if (load.shape == vgpu::Shape::HalfUnit || load.shape == vgpu::Shape::HalfUniform)
      wait(thread, {load.inst, load.second, load.second + each});
  }
}

[[gnu::always_inline]] inline void Activity::grow(Thread& thread, const Read& read) {
  const std::size_t place =
      reinterpret_cast<uintptr_t>(read.inst) / sizeof(vgpu::Inst) % Thread::kMostGrowing;
  Read& before = thread.growing[place];
  const uint64_t bit = uint64_t{1} << place;
  if (thread.is_growing & bit) {
    if (before.inst == read.inst && before.end == read.first) {
      before.end = read.end;
      return;
    }
    wait(thread, before);
  }
  before = read;
  thread.is_growing |= bit;
}

[[gnu::always_inline]] inline void Activity::wait(Thread& thread, const Read& read) {
  thread.reads[thread.waiting++] = read;
  if (thread.waiting == Thread::kMostReads) mark_waiting(thread);
}

void Activity::mark_waiting(Thread& thread) {
  const Cursor at(*this, thread);
  for (const Read& read : std::span(thread.reads).first(std::exchange(thread.waiting, 0)))
    was_read(at, *read.inst, read.first, read.end - read.first);
}

// A program frees memory after the launches that use it have ended, so no read waits for longer than its allocation lives.
void Activity::mark_all(Thread& thread) {
  mark_waiting(thread);
  const Cursor at(*this, thread);
  for (uint64_t rest = std::exchange(thread.is_growing, 0); rest != 0; rest &= rest - 1) {
    const Read& read = thread.growing[static_cast<std::size_t>(std::countr_zero(rest))];
    was_read(at, *read.inst, read.first, read.end - read.first);
  }
}

// No worker runs now.
void Activity::on_launch_end(const vgpu::LaunchInfo& info) {
  for (Thread& thread : threads_) mark_all(thread);
  const std::lock_guard lock(mutex_);
  const double time = now();
  for (Use* use : touched_) {
    use->last_use = time;
    use->is_touched = false;
    if (is_time_to_count(++use->launches) && use->marks() && use->never_read() == 0) use->is_all_read = true;
    if (const Writer* last = use->last_writer.exchange(nullptr)) {
      const vgpu::SourcePlace place = vgpu::place_of(*last->program, *last->function, *last->inst);
      use->writer = writer_.text(last->kernel);
      use->file = writer_.text(place.file);
      use->line = static_cast<int32_t>(place.line);
    }
  }
  touched_.clear();
  launches_ended_.fetch_add(1, std::memory_order_relaxed);  // whatever is used from now on is noted again
  writers_.erase(info.id);
}

// ---- Operations ----

bool Activity::is_host(const vgpu::RangeInfo& range) const {
  if (range.host) return true;
  const auto allocation = memory_.find(range.address);
  return !allocation || allocation->kind == vgpu::MemoryKind::Pinned;
}

void Activity::was_read(Use& use, const vgpu::RangeInfo& range) {
  ReadMarks* const marks = use.marks();
  if (!marks) return;
  for (uint64_t slice = 0; slice < range.depth; ++slice)
    for (uint64_t row = 0; row < range.height; ++row) {
      const uint64_t first =
          range.address - use.allocation.base + slice * range.slice_pitch + row * range.row_pitch;
      if (first + range.width <= use.allocation.size) marks->mark(first, range.width);
    }
}

void Activity::submitted(vgpu::OperationId last, std::size_t count, double called) {
  const Submission submission{last, count, called, now()};
  const std::lock_guard lock(mutex_);
  if (count == 1) {
    single_[last % kMostPending] = submission;
    return;
  }
  graphs_.push_back(submission);
  if (graphs_.size() > kMostPending) graphs_.pop_front();
}

// What was submitted long before an operation that has ended is of no more use: ids are in the order of submission, and
// operations of different streams pass each other by no more than what is pending.
void Activity::add_submission(protocol::OperationRecord& event) {
  const Submission* found = &single_[event.id % kMostPending];
  if (found->last != event.id) {
    const auto graph = std::lower_bound(graphs_.begin(), graphs_.end(), event.id,
                                        [](const Submission& one, uint64_t id) { return one.last < id; });
    found = graph != graphs_.end() && event.id + graph->count > graph->last ? &*graph : nullptr;
  }
  event.called = found ? found->called : event.begin;
  event.returned = found ? found->returned : event.begin;
  event.is_graph = found && found->count > 1;
}

Activity::UnderWay::iterator Activity::under_way(vgpu::OperationId id) {
  return std::ranges::find_if(under_way_, [&](const Operation& one) { return one.record.id == id; });
}

void Activity::on_operation(const vgpu::OperationInfo& info) {
  using Kind = vgpu::OperationInfo::Kind;
  if (info.kind != Kind::Grid && info.kind != Kind::Copy && info.kind != Kind::Fill) return;
  const auto kind = info.kind == Kind::Grid   ? protocol::OperationKind::Kernel
                    : info.kind == Kind::Copy ? protocol::OperationKind::Copy
                                              : protocol::OperationKind::Fill;
  Operation operation;
  operation.record.id = info.id;
  operation.record.stream = info.stream;
  operation.record.kind = static_cast<uint8_t>(kind);
  operation.record.begin = now();
  const std::lock_guard lock(mutex_);
  under_way_.push_back(operation);
}

// A copy, or a fill where there is no `from`.
void Activity::moves(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to,
                     const vgpu::RangeInfo* from) {
  Use* const source = from && !from->host ? use_of(from->address) : nullptr;
  Use* const target = to.host ? nullptr : use_of(to.address);
  if (source) was_read(*source, *from);
  const bool to_host = is_host(to), from_host = from && is_host(*from);
  const std::lock_guard lock(mutex_);
  const auto found = under_way(info.id);
  if (found == under_way_.end()) return;
  found->record.bytes = to.width * to.height * to.depth;
  found->record.to_host = to_host;
  found->record.from_host = from_host;
  found->from = source;
  found->to = target;
}

void Activity::on_copy(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to,
                       const vgpu::RangeInfo& from) {
  moves(info, to, &from);
}

void Activity::on_fill(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to) {
  if (info.kind == vgpu::OperationInfo::Kind::Release) return releasing(to.address);
  moves(info, to, nullptr);
}

void Activity::grid_ended(const vgpu::GridRun& run, const std::string& fault) {
  const vgpu::LaunchInfo& info = run.info();
  const std::lock_guard lock(mutex_);
  ended_.kernel = writer_.text(info.kernel.name());
  set_extents(ended_.grid, info.config.grid);
  set_extents(ended_.block, info.config.block);
  ended_.bytes = info.config.dynamic_shared;
  ended_.warp_instructions = run.outcome().warp_instructions;
  if (fault.empty()) return;
  // The device has failed without saying in which operation: take the oldest running one of its stream.
  auto failed = under_way_.end();
  for (auto it = under_way_.begin(); it != under_way_.end(); ++it)
    if (it->record.stream == info.stream &&
        it->record.kind == static_cast<uint8_t>(protocol::OperationKind::Kernel) &&
        (failed == under_way_.end() || it->record.id < failed->record.id))
      failed = it;
  if (failed == under_way_.end()) return;
  end_operation(failed, writer_.text(fault));
}

// Follows grid_ended() at once, on the same thread.
void Activity::on_operation_end(const vgpu::OperationInfo& info) {
  const std::lock_guard lock(mutex_);
  if (const auto found = under_way(info.id); found != under_way_.end()) end_operation(found, 0);
}

void Activity::end_operation(UnderWay::iterator operation, protocol::TextId fault) {
  protocol::OperationRecord event = operation->record;
  event.end = now();
  for (Use* use : {operation->from, operation->to})
    if (use) use->last_use = event.end;
  under_way_.erase(operation);
  add_submission(event);
  if (event.kind == static_cast<uint8_t>(protocol::OperationKind::Kernel)) {
    event.kernel = ended_.kernel;
    std::ranges::copy(ended_.grid, event.grid);
    std::ranges::copy(ended_.block, event.block);
    event.bytes = ended_.bytes;
    event.warp_instructions = ended_.warp_instructions;
    event.fault = fault;
  }
  writer_.write_record(event);
}

}  // namespace assay::cudart
