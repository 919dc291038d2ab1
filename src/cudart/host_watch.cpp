#include "cudart/host_watch.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include "cudart/pages.h"
#include "vgpu/host_range.h"

namespace assay::cudart {
namespace {

using vgpu::Address;

// In all: two or three seconds of a program's time at most.
constexpr uint32_t kStepsInAll = 1 << 16;
constexpr double kThreadsKnown = 1e-3;  // seconds

// Allocations whose mapping for the host can be closed.
bool is_shared(const vgpu::Allocation& a) {
  return (a.kind == vgpu::MemoryKind::Managed || a.kind == vgpu::MemoryKind::Pinned) && !a.adopted &&
         vgpu::is_in_host_range(a.base);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// A thread that has blocked these would die of them.
bool takes_our_signals(const std::string& status_file) {
  constexpr uint64_t kOurs = uint64_t{1} << (SIGSEGV - 1) | uint64_t{1} << (SIGTRAP - 1);
  constexpr std::string_view kBlocked = "SigBlk:";
  std::ifstream file(status_file);
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(kBlocked))
      return (std::strtoull(line.c_str() + kBlocked.size(), nullptr, 16) & kOurs) == 0;
  return true;  // it has ended
}

// Threads that do not.
std::vector<pid_t> unguarded_threads() {
  std::vector<pid_t> unguarded;
  std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/task"), &closedir);
  if (!folder) return {0};
  while (const dirent* entry = readdir(folder.get())) {
    const pid_t thread = std::atoi(entry->d_name);
    if (thread == 0 || thread == system_call_thread()) continue;
    if (!takes_our_signals(fmt::format("/proc/self/task/{}/status", thread))) unguarded.push_back(thread);
  }
  return unguarded;
}

}  // namespace

HostWatch::HostWatch(checks::HostJudge& judge, const vgpu::Memory& memory, vgpu::Streams& streams,
                     Handlers handlers)
    : judge_(judge),
      memory_(memory),
      streams_(streams),
      handlers_(handlers),
      libc_(code_of_libc()),
      slots_(std::make_unique<Slot[]>(kSlots)),
      notes_(static_cast<Note*>(std::calloc(kNotes, sizeof(Note))), &std::free),
      steps_(std::make_unique<Step[]>(kThreads)),
      held_(std::make_unique<Held[]>(kHeld)),
      steps_left_(kStepsInAll) {}

HostWatch::~HostWatch() {
  if (watches_calls_) watch_system_calls(nullptr);
  give_up();
}

// ---- What work may use ----

void HostWatch::add_pointer(Address address, std::vector<Area>& areas) {
  if (!vgpu::is_in_host_range(address)) return;
  const std::optional<vgpu::Allocation> found = memory_.find(address);
  if (found && is_shared(*found)) areas.push_back({page_of(address), next_page(found->end())});
}

void HostWatch::add_range(const vgpu::Place& place, uint64_t width, uint64_t height, uint64_t depth,
                          std::vector<Area>& areas) {
  if (place.host || width == 0 || !vgpu::is_in_host_range(place.address)) return;
  const std::optional<vgpu::Allocation> found = memory_.find(place.address);
  if (!found || !is_shared(*found)) return;
  const bool dense =
      (height == 1 || place.row_pitch == width) && (depth == 1 || place.slice_pitch == width * height);
  if (!dense) return;
  const Address low = place.address, high = low + width * height * depth;
  const Area whole{low == found->base ? page_of(low) : next_page(low),
                   high == found->end() ? next_page(high) : page_of(high)};
  if (whole.low < whole.high) areas.push_back(whole);
}

void HostWatch::add_areas(const vgpu::Work& work, std::vector<Area>& areas) {
  if (const auto* copy = std::get_if<vgpu::CopyWork>(&work)) {
    add_range(copy->to, copy->width, copy->height, copy->depth, areas);
    add_range(copy->from, copy->width, copy->height, copy->depth, areas);
  } else if (const auto* fill = std::get_if<vgpu::FillWork>(&work)) {
    add_range(fill->to, fill->width, fill->height, fill->depth, areas);
  } else if (const auto* grid = std::get_if<vgpu::GridWork>(&work)) {
    for (size_t at = 0; at + sizeof(Address) <= grid->parameters.size(); at += sizeof(Address)) {
      Address word;
      std::memcpy(&word, grid->parameters.data() + at, sizeof word);
      add_pointer(word, areas);
    }
    for (Address variable : variables_) add_pointer(variable, areas);
  }
}

// ---- Closing and opening ----

bool HostWatch::are_handlers_there() const {
  auto is_there = [](int signal, Handler handler) {
    struct sigaction now {};
    return sigaction(signal, nullptr, &now) == 0 && now.sa_sigaction == handler;
  };
  return is_there(SIGSEGV, handlers_.fault) && is_there(SIGTRAP, handlers_.step);
}

// Whether the program will live through it.
bool HostWatch::can_close() {
  if (!watches_calls_ || !are_handlers_there()) return false;
  if (const double time = now(); time - threads_seen_ > kThreadsKnown) {
    look_for_unguarded_threads();
    threads_seen_ = time;
  }
  return unguarded_.empty();
}

// A thread takes no signals either while it is being made: who is new is given some time.
void HostWatch::look_for_unguarded_threads() {
  constexpr int kLooks = 20;
  constexpr auto kPause = std::chrono::microseconds(500);
  const std::vector<pid_t> known = std::exchange(unguarded_, unguarded_threads());
  auto is_known = [&](pid_t thread) { return std::find(known.begin(), known.end(), thread) != known.end(); };
  for (int i = 0;
       i < kLooks && !unguarded_.empty() && !std::all_of(unguarded_.begin(), unguarded_.end(), is_known);
       ++i) {
    std::this_thread::sleep_for(kPause);
    unguarded_ = unguarded_threads();
  }
}

HostWatch::Slot* HostWatch::slot_for(const Area& area) {
  const std::optional<vgpu::Allocation> found = memory_.find(area.high - kPage);
  if (!found) return nullptr;
  const Address low = page_of(found->base), high = next_page(found->end());
  const size_t used = slots_used_;
  size_t empty = used;
  for (size_t i = 0; i < used; ++i) {
    if (slots_[i].low == low && slots_[i].high == high) return &slots_[i];
    if (slots_[i].high == 0) empty = i;
  }
  if (empty == kSlots) return nullptr;
  slots_[empty].low = low;
  slots_[empty].high = high;
  if (empty == used) slots_used_ = used + 1;
  return &slots_[empty];
}

void HostWatch::close_areas(vgpu::OperationId last, std::vector<Area> areas) {
  submitted_ = last;
  if (areas.empty() || !can_close()) return;
  std::erase_if(areas, [&](const Area& area) {
    Slot* slot = slot_for(area);
    if (slot) slot->opened = slot->steps = slot->page_steps = 0;
    return !slot;
  });
  drop_ended_calls();
  for (const Area& area : areas) close(area);
  if (!areas.empty()) under_way_[last] = std::move(areas);
}

void HostWatch::open(const Area& area) {
  PageTurn turn(pages_);
  protect(area.low, area.high, kOpen);
}

// All of it but what system calls use.
void HostWatch::close(const Area& area) {
  std::vector<Area> used;
  for (size_t i = 0; i < kHeld; ++i)  // it changes under the mutex only
    if (const Area& held = held_[i].area; held.low < area.high && held.high > area.low) used.push_back(held);
  std::sort(used.begin(), used.end(), [](const Area& a, const Area& b) { return a.low < b.low; });
  PageTurn turn(pages_);
  Address at = area.low;
  for (const Area& held : used) {
    if (at < held.low) protect(at, held.low, PROT_NONE);
    at = std::max(at, held.high);
  }
  if (at < area.high) protect(at, area.high, PROT_NONE);
}

void HostWatch::prepare() {
  std::lock_guard lock(mutex_);
  if (!std::exchange(asked_for_calls_, true)) watches_calls_ = watch_system_calls(this);
}

void HostWatch::submitted(vgpu::OperationId last, std::span<const vgpu::OrderedWork> works) {
  std::lock_guard lock(mutex_);
  std::vector<Area> areas;
  for (const vgpu::OrderedWork& item : works) add_areas(item.work, areas);
  close_areas(last, std::move(areas));
}

void HostWatch::waited() {
  {
    std::lock_guard lock(mutex_);
    bool opened = false;
    for (auto it = under_way_.begin(); it != under_way_.end();) {
      if (!judge_.is_known_done(it->first)) {
        ++it;
        continue;
      }
      for (const Area& area : it->second) open(area);
      opened = true;
      it = under_way_.erase(it);
    }
    // What others still use.
    if (opened && !under_way_.empty() && can_close()) {
      drop_ended_calls();
      for (const auto& [operation, areas] : under_way_)
        for (const Area& area : areas) close(area);
    }
  }
  judge();
}

void HostWatch::forget(Address base) {
  std::lock_guard lock(mutex_);
  const Address low = page_of(base);
  for (size_t i = 0; i < slots_used_; ++i) {
    if (slots_[i].low != low || slots_[i].high == 0) continue;
    const Address high = slots_[i].high.exchange(0);
    for (auto& [operation, areas] : under_way_)
      std::erase_if(areas, [&](const Area& area) { return area.low >= low && area.low < high; });
  }
}

void HostWatch::add_variable(Address base) {
  prepare();
  std::lock_guard lock(mutex_);
  variables_.push_back(base);
}

void HostWatch::open_all() {
  for (size_t i = 0; i < slots_used_; ++i)
    if (const Address high = slots_[i].high) protect(slots_[i].low, high, kOpen);
}

// Nothing is closed any more.
void HostWatch::give_up() {
  for (const auto& [operation, areas] : under_way_)
    for (const Area& area : areas) open(area);
  under_way_.clear();
  watches_calls_ = false;
}

// ---- System calls ----

bool HostWatch::is_held(const Area& area) const {
  for (size_t i = 0; i < kHeld; ++i)
    if (held_[i].area.low < area.high && held_[i].area.high > area.low) return true;
  return false;
}

bool HostWatch::hold(const SystemCall& call, const Area& area) {
  for (size_t i = 0; i < kHeld; ++i) {
    if (held_[i].area.high != 0) continue;
    held_[i].call = call;
    PageTurn turn(pages_);
    held_[i].area = area;
    protect(area.low, area.high, kOpen);
    return true;
  }
  return false;
}

void HostWatch::drop_ended_calls() {
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  for (size_t i = 0; i < kHeld; ++i) {
    Held& held = held_[i];
    if (held.area.high == 0 || (held.call.thread != self && !is_over(held.call))) continue;
    PageTurn turn(pages_);
    held.area = {};
  }
}

// Of what a call touches: the part that work under way may use.
void HostWatch::note_range(const SystemCall& call, const CallRange& range) {
  const Address end = range.address + range.touches;
  for (const auto& [operation, areas] : under_way_)
    for (const Area& area : areas) {
      const Address low = std::max(range.address, area.low), high = std::min(end, area.high);
      if (low < high) note(low, high - low, range.writes, 0, call.number);
    }
}

void HostWatch::on_call(const SystemCall& call) {
  std::lock_guard lock(mutex_);
  if (!watches_calls_) return;
  for (size_t i = 0; i < kHeld; ++i) {  // a thread is in one call at a time
    if (held_[i].area.high == 0 || held_[i].call.thread != call.thread) continue;
    PageTurn turn(pages_);
    held_[i].area = {};
  }
  for (const CallRange& range : call.ranges) {
    const std::optional<vgpu::Allocation> found = memory_.find(range.address);
    if (!found || !is_shared(*found)) continue;
    const uint64_t bytes = std::min(range.bytes, found->end() - range.address);
    const Area area{page_of(range.address), next_page(range.address + bytes)};
    note_range(call, {range.address, bytes, std::min(range.touches, bytes), range.writes});
    if (!hold(call, area)) return give_up();
  }
}

}  // namespace assay::cudart
