#include "cudart/context.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "checks/schedule_finding.h"
#include "cudart/code_place.h"
#include "cudart/event_writer.h"
#include "cudart/properties.h"
#include "cudart/python_frames.h"
#include "vgpu/compiled.h"

namespace assay::cudart {
namespace {

// Numbers threads; never reused, unlike the system's thread ids.
uint64_t thread_number() {
  static std::atomic<uint64_t> threads{0};
  thread_local uint64_t number = ++threads;
  return number;
}

template <class Map>
std::vector<typename Map::key_type> keys(const Map& map) {
  std::vector<typename Map::key_type> all;
  for (const auto& item : map) all.push_back(item.first);
  return all;
}

}  // namespace

Context::Context(const protocol::Settings& settings, EventWriter& writer) : writer_(writer) {
  vgpu::Options options;
  options.threads = settings.threads;
  options.seed = settings.seed;
  options.compiling = settings.engine == protocol::EngineChoice::Compile     ? vgpu::Compiling::Always
                      : settings.engine == protocol::EngineChoice::Interpret ? vgpu::Compiling::Never
                                                                             : vgpu::Compiling::WhenHot;
  options.code_cache = settings.code_cache;
  options.capacity = settings.gpu->bytes;
  options.multiprocessors = settings.gpu->multiprocessors;
  options.instruction_limit = settings.max_instructions;
  if (settings.checks.has(protocol::Check::Precision)) {
    shadow_ = std::make_unique<shadow::Shadow>();
    shadow_->separate_lines(settings.precision_lines);
    options.instrumenter = shadow_.get();
    options.threads = 1;
  }
  const protocol::CheckSet checks = settings.checks.without(protocol::Check::Precision);
  options.watch = !checks.empty();
  // Later on, whoever observes the host's own accesses would wait for the device, which waits for the loader; and the
  // worker's sandbox is closed.
  if (options.watch && options.compiling != vgpu::Compiling::Never && !vgpu::load_compiler())
    options.compiling = vgpu::Compiling::Never;
  options.fault_after_violation = settings.faults;
  options.print = [this](std::string_view text) {
    std::lock_guard lock(print_mutex_);
    printed_ += text;
  };
  options.still_running = [this](const vgpu::LaunchInfo& launch, double seconds,
                                 std::span<const vgpu::Standing> lines) {
    writer_.still_running(launch, seconds, lines);
  };
  findings_.report_early([this](Finding finding) {
    add_origins(finding);
    writer_.finding(finding, true);
  });
  device_ = std::make_unique<vgpu::Device>(std::move(options));
  vgpu::StreamOptions stream_options;
  stream_options.seed = settings.seed;
  if (settings.stall_milliseconds != 0)
    stream_options.stall_seconds = static_cast<double>(settings.stall_milliseconds) / 1000;
  stream_options.grid_ended = [this](const vgpu::GridRun& run) {
    writer_.launch(run);
    if (activity_) activity_->grid_ended(run, fault_name(run.outcome().fault.kind));
    report_findings();
    report_other_races();
  };
  if (settings.schedules != 0)
    stream_options.grid_alone = [this, count = settings.schedules](const vgpu::GridWork& work) {
      compare_schedules(work, count);
    };
  stream_options.grid_starts = [this](vgpu::LaunchConfig& config) {
    if (sample_) sample_->starts(config);
  };
  stream_options.leaves_out = [this](const vgpu::Work& work) { return sample_ && sample_->leaves_out(work); };
  streams_ = std::make_unique<vgpu::Streams>(*device_, std::move(stream_options));
  listen(checks);
  if (settings.report_activity) {
    activity_ = std::make_unique<Activity>(writer_, *device_, settings.count_bytes && !checks.empty());
    device_->listen(activity_.get());
    streams_->listen(activity_.get());
  }
  if (shadow_) {
    shadow_->watch(device_->memory());
    streams_->listen(shadow_.get());
  }
  limits_ = {{Limit::StackSize, 1024},
             {Limit::PrintfFifo, 8650752},
             {Limit::MallocHeap, 8 << 20},
             {Limit::PendingLaunches, 2048},
             {Limit::L2Fetch, 64},
             {Limit::PersistingL2, 11796480},
             {Limit::SharedPerBlock, kSharedOptin}};
}

Context::~Context() {
  streams_.reset();  // it reports to the host check until its end
  host_check_.reset();
}

void Context::listen(protocol::CheckSet checks) {
  if (checks.empty()) return;
  races_under_schedules_ = checks.has(protocol::Check::Races);
  sample_ = std::make_unique<checks::BlockSample>(findings_, device_->memory());
  device_->listen(sample_.get());  // before all others
  streams_->listen(sample_.get());
  checks_ = checks::make_checks(checks, findings_, device_->memory());
  checks::HostJudge* judge = nullptr;
  for (auto& check : checks_) {
    device_->listen(check.get());
    streams_->listen(check.get());
    if (!judge && checks.has(protocol::Check::Streams)) judge = dynamic_cast<checks::HostJudge*>(check.get());
  }
  host_check_ = std::make_unique<HostCheck>(
      checks, findings_, [this](Finding finding) { report(std::move(finding)); }, *device_, *streams_, judge);
}

// Races that depend on who takes a lock or when a flag is polled show under some orders only, so each of them is looked
// at by a race check of its own. What it finds waits until the launch itself has run: that may show the same.
void Context::compare_schedules(const vgpu::GridWork& work, uint64_t count) {
  checks::FindingLog log;
  std::vector<std::unique_ptr<vgpu::Listener>> races;
  vgpu::ScheduleWatch watch;
  if (races_under_schedules_)
    watch.begin = [&] {
      races = checks::make_checks(protocol::CheckSet{protocol::Check::Races}, log, device_->memory());
      std::vector<vgpu::Listener*> listeners;
      for (const auto& race : races) listeners.push_back(race.get());
      return listeners;
    };
  watch.end = [&](uint64_t schedule) {
    for (Finding& finding : log.take()) {
      auto* race = std::get_if<evidence::Race>(&finding.evidence);
      if (!race) continue;
      race->schedule = schedule;
      other_races_.push_back(std::move(finding));
    }
  };
  for (const vgpu::ScheduleDifference& difference :
       vgpu::compare_schedules(*device_, work.kernel, work.config, work.parameters, count, watch))
    report(checks::finding_of(difference, work.kernel));
}

void Context::host_waited() {
  if (host_check_ && host_check_->watch()) host_check_->watch()->waited();
}

void Context::report_findings() {
  std::vector<Finding> findings = findings_.take();
  const bool any = !findings.empty();
  for (Finding& finding : findings) {
    if (finding.kind == Kind::DataRace) raced_.emplace(finding.where.file, finding.where.line);
    report(std::move(finding));
  }
  if (any) writer_.write(protocol::FindingsReportedEvent{});
}

void Context::report_other_races() {
  for (Finding& finding : std::exchange(other_races_, {}))
    if (raced_.emplace(finding.where.file, finding.where.line).second) report(std::move(finding));
}

void Context::report(Finding finding) {
  add_origins(finding);
  writer_.finding(finding, false);
}

// Its bytes still count as never written.
void Context::fill_new(vgpu::Address base, uint64_t bytes) {
  constexpr uint64_t kMost = 64 << 20;  // larger memory costs nothing until it is touched, and stays as it is
  const auto allocation = new_content_ && bytes <= kMost ? memory().find(base) : std::nullopt;
  if (!allocation || !allocation->backing) return;
  for (uint64_t at = 0; at < bytes; at += sizeof *new_content_)
    std::memcpy(allocation->backing + at, &*new_content_,
                std::min<uint64_t>(sizeof *new_content_, bytes - at));
}

Context::Maker Context::maker_at(const void* caller) {
  Maker maker{{}, python_stack()};
  if (maker.python_stack == 0) maker.calls = calls_above(caller);
  return maker;
}

void Context::note_out_of_memory(uint64_t bytes, const void* caller) {
  if (!activity_) return;
  const Maker maker = maker_at(caller);
  activity_->out_of_memory(bytes, activity_->stack(maker.calls, maker.python_stack));
}

void Context::note_allocation(vgpu::Address base, const void* caller) {
  if (!activity_ && !host_check_) return;
  const auto made = memory().find(base);
  if (!made) return;
  Maker maker = maker_at(caller);
  if (activity_) activity_->allocated(*made, activity_->stack(maker.calls, maker.python_stack));
  if (!host_check_) return;
  std::lock_guard lock(mutex_);
  allocated_by_[made->id] = std::move(maker);
}

void Context::add_origins(Finding& finding) {
  const auto add_launch = [](evidence::CodePlace& code) {
    code.launched_at.stack = python_frames(code.origin);
  };
  if (evidence::CodePlace* code = code_of(finding)) add_launch(*code);
  if (auto* race = std::get_if<evidence::Race>(&finding.evidence)) add_launch(race->other.code);
  if (evidence::Allocation* allocation = allocation_of(finding))
    allocation->made_at = maker_of(allocation->id);
}

evidence::HostPlace Context::maker_of(uint64_t allocation) {
  std::lock_guard lock(mutex_);
  evidence::HostPlace place;
  const auto found = allocated_by_.find(allocation);
  if (found == allocated_by_.end()) return place;
  place.stack = python_frames(found->second.python_stack);
  for (uint64_t call : found->second.calls)
    place.calls.push_back(place_in_code(call - 1));  // just before the return
  return place;
}

std::size_t Context::stream_count() {
  std::lock_guard lock(mutex_);
  return stream_handles_.size();
}

std::size_t Context::event_count() {
  std::lock_guard lock(mutex_);
  return events_.size();
}

void Context::report_precision() {
  if (!shadow_) return;
  const Profile profile = streams_->with_device([&](vgpu::Device&) {
    Profile taken = shadow_->profile();
    shadow_->forget();
    return taken;
  });
  if (!profile.lines.empty()) writer_.write(protocol::ProfileEvent{profile});
}

StreamHandle* Context::stream(StreamHandle* handle) {
  if (!handle || handle == kLegacyStream) return &legacy_;
  std::lock_guard lock(mutex_);
  if (handle == kPerThreadStream) {
    auto& own = per_thread_[thread_number()];
    if (!own) {
      own = std::make_unique<StreamHandle>();
      own->id = streams_->create(true);
    }
    return own.get();
  }
  auto found = stream_handles_.find(handle);
  return found == stream_handles_.end() ? nullptr : found->second.get();
}

StreamHandle* Context::create_stream(unsigned flags, int priority) {
  auto handle = std::make_unique<StreamHandle>();
  handle->flags = flags;
  handle->priority = priority;
  handle->id = streams_->create(!(flags & 1), priority);
  std::lock_guard lock(mutex_);
  StreamHandle* key = handle.get();
  stream_handles_[key] = std::move(handle);
  return key;
}

bool Context::destroy_stream(StreamHandle* handle) {
  std::lock_guard lock(mutex_);
  auto found = stream_handles_.find(handle);
  if (found == stream_handles_.end()) return false;
  streams_->destroy(found->second->id);
  stream_handles_.erase(found);
  return true;
}

std::vector<StreamHandle*> Context::capturing_streams() {
  std::lock_guard lock(mutex_);
  std::vector<StreamHandle*> all;
  for (StreamHandle* handle : keys(stream_handles_))
    if (handle->capture) all.push_back(handle);
  for (auto& [thread, handle] : per_thread_)
    if (handle->capture) all.push_back(handle.get());
  return all;
}

EventHandle* Context::create_event(unsigned flags) {
  auto handle = std::make_unique<EventHandle>();
  handle->event = std::make_shared<vgpu::StreamEvent>();
  handle->flags = flags;
  std::lock_guard lock(mutex_);
  EventHandle* key = handle.get();
  events_[key] = std::move(handle);
  return key;
}

bool Context::has(EventHandle* handle) {
  std::lock_guard lock(mutex_);
  return events_.contains(handle);
}

bool Context::destroy_event(EventHandle* handle) {
  std::lock_guard lock(mutex_);
  return events_.erase(handle) == 1;
}

PoolHandle* Context::create_pool(const PoolProperties& properties) {
  auto handle = std::make_unique<PoolHandle>();
  handle->properties = properties;
  std::lock_guard lock(mutex_);
  PoolHandle* key = handle.get();
  pools_[key] = std::move(handle);
  return key;
}

bool Context::has(PoolHandle* handle) {
  std::lock_guard lock(mutex_);
  return handle == &default_pool_ || pools_.contains(handle);
}

bool Context::destroy_pool(PoolHandle* handle) {
  std::lock_guard lock(mutex_);
  if (current_pool_ == handle) current_pool_ = &default_pool_;
  std::erase_if(pooled_, [&](const auto& item) { return item.second.first == handle; });
  return pools_.erase(handle) == 1;
}

void Context::pool_allocated(PoolHandle* pool, vgpu::Address address, uint64_t size) {
  std::lock_guard lock(mutex_);
  pooled_[address] = {pool, size};
  pool->used += size;
  pool->used_high = std::max(pool->used_high, pool->used);
  pool->reserved_high = std::max(pool->reserved_high, pool->used_high);
}

void Context::pool_released(vgpu::Address address) {
  std::lock_guard lock(mutex_);
  auto found = pooled_.find(address);
  if (found == pooled_.end()) return;
  found->second.first->used -= found->second.second;
  pooled_.erase(found);
}

PoolHandle* Context::pool_of(vgpu::Address address) {
  std::lock_guard lock(mutex_);
  const auto found = pooled_.find(address);
  return found == pooled_.end() ? nullptr : found->second.first;
}

void Context::add_graph_memory(vgpu::Address address, uint64_t size) {
  std::lock_guard lock(mutex_);
  graph_memory_[address] = size;
}

bool Context::is_graph_memory(vgpu::Address address) {
  std::lock_guard lock(mutex_);
  return graph_memory_.contains(address);
}

uint64_t Context::graph_bytes() {
  std::lock_guard lock(mutex_);
  uint64_t bytes = 0;
  for (const auto& [address, size] : graph_memory_) bytes += size;
  return bytes;
}

void Context::add_pinned(void* host, PinnedRange range) {
  std::lock_guard lock(mutex_);
  pinned_[static_cast<std::byte*>(host)] = range;
}

std::optional<std::pair<void*, PinnedRange>> Context::pinned(const void* host) {
  auto* bytes = const_cast<std::byte*>(static_cast<const std::byte*>(host));
  std::lock_guard lock(mutex_);
  auto next = pinned_.upper_bound(bytes);
  if (next == pinned_.begin()) return std::nullopt;
  --next;
  if (bytes >= next->first + next->second.size) return std::nullopt;
  return std::pair<void*, PinnedRange>(next->first, next->second);
}

bool Context::remove_pinned(void* host) {
  std::lock_guard lock(mutex_);
  return pinned_.erase(static_cast<std::byte*>(host)) == 1;
}

uint64_t Context::limit(Limit which) {
  std::lock_guard lock(mutex_);
  return limits_[which];
}

void Context::set_limit(Limit which, uint64_t value) {
  std::lock_guard lock(mutex_);
  limits_[which] = value;
}

void Context::flush_print() {
  std::string text;
  {
    std::lock_guard lock(print_mutex_);
    text.swap(printed_);
  }
  if (text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void Context::report_fault() {
  if (streams_->faulted() && !fault_reported_.exchange(true)) writer_.fault(streams_->fault());
}

}  // namespace assay::cudart
