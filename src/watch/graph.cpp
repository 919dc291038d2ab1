// Calls that CUDA graphs make. No library sees them: the graph is captured twice, the second time with the copies of a
// sample in it, and a launch that is to be sampled takes the second executable. A launch that is not costs a look-up.
//
// The staging areas of a graph's calls belong to it, since their addresses are in its nodes. While one of them is on its
// way to the host, a second sample would overwrite it: such a launch takes the plain executable, and its samples count as
// dropped.
#include <algorithm>
#include <functional>
#include <iterator>

#include "base/random.h"
#include "monitor/gap.h"
#include "watch/watch.h"

namespace assay::watch {

using monitor::Drop;

bool Watch::graph_reserve(int calls) {
  if (calls < 1 || calls > kMostGraphCalls) return false;
  graph_calls_ = calls;
  return true;
}

// All memory is allocated here: during a capture that is not allowed.
bool Watch::graph_begin() {
  // In the mode shadow with room for the trusted kernel's outputs, which are at most as large as the call's.
  const int64_t bytes = largest_call_ * (mode() == ASSAY_SHADOW ? 2 : 1);
  if (bytes == 0 || is_capturing_) return false;  // no call has been seen
  auto graph = std::make_unique<GraphCopies>();
  void* device = nullptr;
  if (runtime_.cudaMalloc(&device, static_cast<std::size_t>(bytes * graph_calls_)) != 0) {
    runtime_.cudaGetLastError();
    return false;
  }
  graph->device = static_cast<std::byte*>(device);
  for (int i = 0; i < graph_calls_; ++i) {
    auto area = std::make_unique<Area>();
    area->device = graph->device + i * bytes;
    area->capacity = bytes;
    graph->areas.push_back(std::move(area));
  }
  const std::lock_guard lock(graphs_mutex_);
  capturing_ = graph.get();
  graphs_.push_back(std::move(graph));
  is_capturing_ = true;
  return true;
}

void Watch::graph_end() {
  const std::lock_guard lock(graphs_mutex_);
  is_capturing_ = false;
  capturing_ = nullptr;
}

// Of a call that is captured. It is not made, so it is neither a call nor a sample; what cannot be copied is counted
// whenever the graph is launched.
uint64_t Watch::take_for_graph(void* const* args, Stream stream, uint64_t shape) {
  ring_->counters().calls.fetch_sub(1, std::memory_order_relaxed);
  if (!capturing_) return 0;
  ++capturing_->calls;
  if (capturing_->used == capturing_->areas.size()) return 0;  // more calls than were reserved
  auto call = call_.read(args);
  if (!call || is_refused_.load(std::memory_order_relaxed)) return 0;
  Area& area = *capturing_->areas[capturing_->used];
  const int64_t most = std::min(settings_.max_bytes, area.capacity.load());
  if (staged_bytes(*call, false) > most) return 0;
  remember(shape);
  // An area that was reserved before the mode became shadow has no room for the trusted kernel's outputs.
  area.is_shadow = mode() == ASSAY_SHADOW && staged_bytes(*call, true) <= most;
  area.call = std::move(*call);
  area.state = State::Taken;
  if (!copy_images(area, false, stream)) {
    area.state = State::Free;
    return 0;
  }
  return kStagingAreas + ++capturing_->used;
}

void Watch::graph_bind(void* with_copies) {
  const std::lock_guard lock(graphs_mutex_);
  for (const auto& graph : graphs_)  // an address that was used before belongs to a graph that is gone
    if (graph->executable == with_copies) graph->is_closed = true;
  if (!graphs_.empty() && !graphs_.back()->executable) graphs_.back()->executable = with_copies;
}

void Watch::graph_close(void* with_copies) {
  {
    const std::lock_guard lock(graphs_mutex_);
    for (const auto& graph : graphs_)
      if (graph->executable == with_copies) graph->is_closed = true;
  }
  wake();
}

// The graph of this executable. One that was never bound is the one that was captured last.
Watch::GraphCopies* Watch::copies_of(void* executable) {
  const std::lock_guard lock(graphs_mutex_);
  GraphCopies* unbound = nullptr;
  for (const auto& graph : graphs_) {
    if (graph->is_closed || graph.get() == capturing_) continue;
    if (graph->executable == executable) return graph.get();
    if (!graph->executable) unbound = graph.get();
  }
  if (unbound) unbound->executable = executable;
  return unbound;
}

// All of them, or none: another thread may be launching the same graph.
bool Watch::claim(const std::vector<Area*>& areas) {
  for (std::size_t i = 0; i < areas.size(); ++i) {
    State taken = State::Taken;
    if (areas[i]->state.compare_exchange_strong(taken, State::Launching)) continue;
    for (std::size_t j = 0; j < i; ++j) areas[j]->state = State::Taken;
    return false;
  }
  return true;
}

int Watch::graph_launch(std::span<Watch* const> watches, void* plain, void* with_copies, Stream stream) {
  Watch& first = *watches.front();
  const bool is_due = first.graph_left_.fetch_sub(1, std::memory_order_relaxed) <= 1;
  if (is_due) {
    Random random(first.random_.fetch_add(1, std::memory_order_relaxed));
    first.graph_left_.store(monitor::gap(random.uniform(), first.settings_.every), std::memory_order_relaxed);
  }
  const auto start = Clock::now();
  std::vector<GraphSample> samples;
  std::vector<Area*> all;
  for (Watch* watch : watches) {
    const GraphCopies* graph = watch->copies_of(with_copies);
    if (!graph) continue;
    const uint64_t calls = watch->ring_->counters().calls.fetch_add(graph->calls, std::memory_order_relaxed);
    if (!is_due) continue;
    GraphSample& sample = samples.emplace_back(GraphSample{watch, calls, {}});
    for (const auto& area : graph->areas)
      if (area->is_graph) sample.areas.push_back(area.get());
    all.insert(all.end(), sample.areas.begin(), sample.areas.end());
    // Calls that could not be copied when the graph was captured are samples that are lost.
    watch->ring_->counters().samples.fetch_add(graph->calls, std::memory_order_relaxed);
    for (std::size_t i = sample.areas.size(); i < graph->calls; ++i) watch->drop(Drop::Capturing);
  }
  if (all.empty()) return first.runtime_.cudaGraphLaunch(plain, stream);
  const bool is_claimed = claim(all);
  const int status = first.runtime_.cudaGraphLaunch(is_claimed ? with_copies : plain, stream);
  for (const GraphSample& sample : samples) sample.watch->finish(sample, is_claimed, status, stream);
  first.ring_->counters().overhead_ns.fetch_add(ns_since(start), std::memory_order_relaxed);
  return status;
}

void Watch::finish(const GraphSample& sample, bool is_claimed, int status, Stream stream) {
  for (std::size_t i = 0; i < sample.areas.size(); ++i) {
    Area& area = *sample.areas[i];
    if (!is_claimed) {  // the sample before is still on its way
      drop(Drop::StagingFull);
    } else if (status != 0) {
      area.state = State::Taken;
      drop(Drop::DeviceError);
    } else {
      area.number = sample.calls_before + i + 1;
      stage(area, stream);
    }
  }
}

// ---- the thread's side ----

std::vector<Watch::Area*> Watch::staged_by_graphs() {
  std::vector<Area*> staged;
  const std::lock_guard lock(graphs_mutex_);
  for (const auto& graph : graphs_)
    for (const auto& area : graph->areas)
      if (area->state == State::Staged) staged.push_back(area.get());
  return staged;
}

void Watch::free_closed_graphs() {
  std::vector<std::unique_ptr<GraphCopies>> closed;
  {
    const std::lock_guard lock(graphs_mutex_);
    const auto is_done = [](const std::unique_ptr<GraphCopies>& graph) {
      return graph->is_closed && std::ranges::none_of(graph->areas, [](const auto& area) {
               return area->state == State::Staged || area->state == State::Launching;
             });
    };
    const auto end = std::stable_partition(graphs_.begin(), graphs_.end(), std::not_fn(is_done));
    std::move(end, graphs_.end(), std::back_inserter(closed));
    graphs_.erase(end, graphs_.end());
  }
  for (const auto& graph : closed) {
    for (const auto& area : graph->areas)
      if (area->ready) runtime_.cudaEventDestroy(area->ready);
    runtime_.cudaFree(graph->device);
  }
}

}  // namespace assay::watch
