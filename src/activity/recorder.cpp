#include <algorithm>

#include "activity/activity.h"
#include "activity/changes.h"
#include "base/symbol.h"
#include "protocol/event_log.h"

namespace assay::activity {

void Recorder::passed(double seconds) {
  activity_.end = std::max(activity_.end, seconds);
}

// 0 stands for no stack, and so does one that was never sent.
std::size_t Recorder::stack_at(uint64_t id) const {
  const auto found = stack_places_.find(id);
  return found == stack_places_.end() ? 0 : found->second;
}

bool Recorder::is_pooled(const protocol::AllocationEvent& event) const {
  if (event.is_host) return false;
  const std::size_t stack = stack_at(event.stack);
  return event.label == "cudaMallocAsync" || event.label == "cuMemAllocAsync" ||
         (stack != 0 && !stacks_[stack - 1].stack.empty());
}

std::string_view Recorder::shared(const std::string& text, std::string_view& last) {
  if (text.empty()) return {};
  if (last != text) last = *activity_.texts.insert(text).first;
  return last;
}

// A program has few kernels and launches them often.
std::string_view Recorder::name_of(const std::string& kernel) {
  if (kernel.empty()) return {};
  if (last_name_ && last_name_->first == kernel) return last_name_->second;
  const auto [place, is_new] = names_.try_emplace(kernel);
  if (is_new) place->second = *activity_.texts.insert(plain_name(kernel)).first;
  last_name_ = &*place;
  return place->second;
}

void Recorder::expect(uint64_t log_bytes) {
  using protocol::record_bytes;
  constexpr uint64_t kMost = 64 << 20;  // the file may be of any size and hold nothing
  const uint64_t bytes = std::min(log_bytes, kMost);
  activity_.operations.reserve(bytes / record_bytes(sizeof(protocol::OperationRecord)));
  activity_.allocations.reserve(bytes / record_bytes(sizeof(protocol::AllocationRecord)));
}

void Recorder::add(const protocol::Event& event) {
  std::visit([&](const auto& one) { add_event(one); }, event);
}

void Recorder::add_event(const protocol::StackEvent& event) {
  stacks_.push_back(event);
  stack_places_[event.id] = stacks_.size();  // the first place is for none
}

void Recorder::add_event(const protocol::AllocationEvent& event) {
  passed(event.seconds);
  allocation_places_[event.id] = activity_.allocations.size();
  activity_.allocations.push_back({.id = event.id,
                                   .address = event.address,
                                   .bytes = event.bytes,
                                   .label = shared(event.label, last_label_),
                                   .is_host = event.is_host,
                                   .stack = stack_at(event.stack),
                                   .is_pooled = is_pooled(event),
                                   .begin = event.seconds});
}

void Recorder::add_event(const protocol::ReleaseEvent& event) {
  passed(event.seconds);
  const auto found = allocation_places_.find(event.id);
  if (found == allocation_places_.end()) return;
  Allocation& allocation = activity_.allocations[found->second];
  allocation_places_.erase(found);  // an allocation is released once
  allocation.is_released = !event.is_held || event.called < event.seconds;
  if (allocation.is_released) allocation.end = event.called;
  allocation.is_counted = event.is_counted;
  allocation.never_written = std::min(event.never_written, allocation.bytes);
  allocation.never_read = std::min(event.never_read, allocation.bytes);
  allocation.last_use = event.last_use;
  allocation.writer = name_of(event.writer);
  allocation.file = shared(event.written_at.file, last_file_);
  allocation.line = event.written_at.line;
}

void Recorder::add_event(const protocol::OutOfMemoryEvent& event) {
  passed(event.seconds);
  activity_.out_of_memory.push_back({event.seconds, event.bytes, event.free, stack_at(event.stack)});
}

void Recorder::add_event(const protocol::OperationEvent& event) {
  passed(event.end);
  activity_.operations.push_back({.id = event.id,
                                  .stream = event.stream,
                                  .kind = event.kind,
                                  .is_graph = event.is_graph,
                                  .from_host = event.from_host,
                                  .to_host = event.to_host,
                                  .called = event.called,
                                  .returned = event.returned,
                                  .begin = event.begin,
                                  .end = event.end,
                                  .bytes = event.bytes,
                                  .kernel = name_of(event.kernel),
                                  .grid = event.grid,
                                  .block = event.block,
                                  .shared_bytes = event.shared_bytes,
                                  .warp_instructions = event.warp_instructions,
                                  .fault = shared(event.fault, last_fault_)});
}

void Recorder::add_event(const protocol::FindingEvent& event) {
  activity_.findings.push_back({activity_.end, event.finding});
}

std::vector<std::string> Recorder::calls() const {
  std::vector<std::string> all;
  for (const protocol::StackEvent& stack : stacks_)
    if (stack.stack.empty()) all.insert(all.end(), stack.calls.begin(), stack.calls.end());
  return all;
}

Activity Recorder::take(const Frames& frames) {
  activity_.stacks = {{}};
  for (protocol::StackEvent& stack : stacks_)
    activity_.stacks.push_back(!stack.stack.empty() ? std::move(stack.stack)
                               : frames             ? frames(stack.calls)
                                                    : std::vector<Frame>());
  activity_.changes = changes_of(activity_.allocations);
  return std::move(activity_);
}

Peak peak_of(const Activity& activity) {
  Peak peak;
  uint64_t held = 0;
  for (const Change& change : activity.changes) {
    const uint64_t bytes = activity.allocations[change.allocation].bytes;
    if (change.is_end) {
      held -= bytes;
      continue;
    }
    held += bytes;
    if (held <= peak.bytes) continue;
    peak.bytes = held;
    peak.seconds = change.seconds;
  }
  for (std::size_t i = 0; i < activity.allocations.size(); ++i) {
    const Allocation& allocation = activity.allocations[i];
    if (!allocation.is_host && allocation.begin <= peak.seconds && allocation.end > peak.seconds &&
        peak.bytes > 0)
      peak.held.push_back(i);
  }
  std::stable_sort(peak.held.begin(), peak.held.end(), [&](std::size_t a, std::size_t b) {
    return activity.allocations[a].bytes > activity.allocations[b].bytes;
  });
  return peak;
}

}  // namespace assay::activity
