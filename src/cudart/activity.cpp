#include "cudart/activity.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>

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

std::array<uint32_t, 3> array_of(const vgpu::Dim3& dim) {
  return {dim.x, dim.y, dim.z};
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

void mark_words(uint8_t* marks, const vgpu::Address* addresses, vgpu::Address low) {
#pragma GCC unroll 8
  for (uint32_t lane = 0; lane < vgpu::kWarpSize; ++lane) ReadMarks::mark_word(marks, addresses[lane] - low);
}

std::atomic<uint64_t> next_serial{1};

}  // namespace

struct Activity::Use {
  vgpu::Allocation allocation;
  std::optional<ReadMarks> was_read;     // none: not counted
  std::atomic<bool> is_all_read{false};  // found out now and then: what is known need not be marked
  uint64_t launches = 0;                 // that used it
  uint8_t* marks() { return was_read && !is_all_read ? was_read->data() : nullptr; }
  uint64_t never_read() const { return is_all_read ? 0 : allocation.size - was_read->count(); }
  std::atomic<const Writer*> last_writer{nullptr};
  std::atomic<bool> is_touched{false};  // by a grid that runs
  double last_use = 0;
  std::string writer;
  Where written_at;
};

struct Activity::Writer {
  uint64_t launch = 0;
  std::string kernel;
  Where where;
};

// Most instructions stay in one allocation: each thread remembers which.
struct Activity::Site {
  const vgpu::Inst* inst = nullptr;
  uint64_t stamp = 0;  // Cursor::stamp when this was found out
  vgpu::Address low = 0;
  uint64_t size = 0;         // of the allocation at `low`
  Use* use = nullptr;        // null: it is none of the program's own
  uint8_t* marks = nullptr;  // of what was read; null: not counted, or known to be all
  uint64_t launch = 0;       // of `writer`
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
    if (ReadMarks marks(made->size); marks.data()) use->was_read = std::move(marks);
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
                               .is_counted = use.was_read.has_value(),
                               .last_use = use.last_use,
                               .writer = use.writer,
                               .written_at = use.written_at};
  if (use.was_read) {
    const uint64_t bytes = use.allocation.size;
    event.never_read = use.never_read();
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

// What a thread remembers. Not in the thread's static block (initial-exec), which is too small for a library that is loaded late.
struct Activity::Thread {
  static constexpr std::size_t kSites = 256;
  uint64_t serial = 0;  // of the Activity that it is about; 0: none yet
  std::array<Site, kSites> sites;

  static Site* sites_for(const Activity& activity) {
    static constinit thread_local Thread own{};
    if (own.serial != activity.serial_) own = {activity.serial_, {}};
    return own.sites.data();
  }
};

// What all accesses of an event have in common.
struct Activity::Cursor {
  Cursor(const Activity& activity, const vgpu::Warp& at)
      : warp(at),
        stamp(activity.memory_.generation() + activity.launches_ended_.load(std::memory_order_relaxed)),
        sites(Thread::sites_for(activity)) {}
  const vgpu::Warp& warp;
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

[[gnu::always_inline]] inline void Activity::wrote(const Cursor& at, const vgpu::Inst& inst, Site& site) {
  if (const uint64_t launch = at.warp.grid->info.id; !site.writer || site.launch != launch) {
    site.launch = launch;
    site.writer = new_writer(at.warp, inst, launch);
  }
  if (site.use->last_writer.load(std::memory_order_relaxed) != site.writer)
    site.use->last_writer = site.writer;
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

// `bytes` from `address` on, in one allocation.
[[gnu::always_inline]] inline void Activity::accessed(const Cursor& at, const vgpu::Inst& inst, bool reads,
                                                      bool writes, vgpu::Address address, uint64_t bytes) {
  Site& here = site(at, inst, address);
  if (writes && here.use) wrote(at, inst, here);
  if (!reads || !here.marks) return;
  const uint64_t first = address - here.low;
  ReadMarks::mark(here.marks, first, std::min(bytes, here.size - first));
}

// The first of `lanes`, and those after it in the same allocation. Returns the others.
uint32_t Activity::accessed(const Cursor& at, const vgpu::Inst& inst, const vgpu::Access& access,
                            uint32_t lanes) {
  Site& here = site(at, inst, access.addresses[std::countr_zero(lanes)]);
  if (here.use && access.kind != vgpu::AccessKind::Load) wrote(at, inst, here);
  // Copies: a mark that is stored might change anything, as far as the compiler knows.
  const vgpu::Address* const addresses = access.addresses;
  const vgpu::Address low = here.low;
  const uint64_t size = here.size, bytes = access.bytes;
  uint8_t* const marks = access.kind != vgpu::AccessKind::Store ? here.marks : nullptr;
  if (lanes == ~0u && (!marks || bytes == ReadMarks::kGranule))
    if (const Offsets all(addresses, low, size); all.are_inside && (!marks || all.are_aligned)) {
      if (marks) mark_words(marks, addresses, low);
      return 0;
    }
  do {
    const uint64_t first = addresses[std::countr_zero(lanes)] - low;
    if (first >= size) return lanes;
    if (marks) ReadMarks::mark(marks, first, std::min(bytes, size - first));
    lanes &= lanes - 1;
  } while (lanes != 0);
  return 0;
}

void Activity::on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access) {
  if (access.space != ptx::Space::Global) return;
  const Cursor at(*this, warp);
  if (access.shape == vgpu::Shape::Unit && access.lanes == ~0u)
    accessed(at, inst, access.kind != vgpu::AccessKind::Store, access.kind != vgpu::AccessKind::Load,
             access.addresses[0], uint64_t{32} * access.bytes);
  else
    for (uint32_t lanes = access.lanes; lanes != 0;) {
      const uint32_t rest = accessed(at, inst, access, lanes);
      lanes = rest == lanes ? rest & (rest - 1) : rest;  // one that is in no allocation is left out
    }
}

void Activity::on_loads(const vgpu::Warp& warp, ptx::Space space, std::span<const vgpu::ShapedLoad> loads) {
  if (space != ptx::Space::Global) return;
  const Cursor at(*this, warp);
  for (const vgpu::ShapedLoad& load : loads) {
    const bool is_half = load.shape == vgpu::Shape::HalfUnit || load.shape == vgpu::Shape::HalfUniform;
    const bool is_unit = load.shape == vgpu::Shape::Unit || load.shape == vgpu::Shape::HalfUnit;
    const uint64_t bytes = uint64_t{load.bytes} * (!is_unit ? 1 : is_half ? 16 : 32);
    for (int half = 0; half <= int{is_half}; ++half)
      accessed(at, *load.inst, true, false, half == 0 ? load.first : load.second, bytes);
  }
}

void Activity::on_launch_end(const vgpu::LaunchInfo& info) {
  const std::lock_guard lock(mutex_);
  const double time = now();
  for (Use* use : touched_) {
    use->last_use = time;
    use->is_touched = false;
    if (is_time_to_count(++use->launches) && use->marks() && use->never_read() == 0) use->is_all_read = true;
    if (const Writer* last = use->last_writer.exchange(nullptr)) {
      use->writer = last->kernel;
      use->written_at = last->where;
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

void Activity::range_used(const vgpu::RangeInfo& range, bool is_read) {
  if (range.host) return;
  Use* use = use_of(range.address);
  if (!use) return;
  {
    const std::lock_guard lock(mutex_);
    use->last_use = now();
  }
  uint8_t* const marks = use->marks();
  if (!is_read || !marks) return;
  for (uint64_t slice = 0; slice < range.depth; ++slice)
    for (uint64_t row = 0; row < range.height; ++row) {
      const uint64_t first =
          range.address - use->allocation.base + slice * range.slice_pitch + row * range.row_pitch;
      if (first + range.width <= use->allocation.size) ReadMarks::mark(marks, first, range.width);
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
