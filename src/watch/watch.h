// libassay_monitor: what include/assay_monitor.h declares, as a class.
//
// A sampled call is copied in two steps. On the caller's stream, from device to device, into a staging area: inputs before
// the call, outputs after it, then an event. A thread of the monitor waits for the event, copies the staging area to the
// ring (monitor/ring.h) on a stream of its own, and notifies assayd. The caller pays for enqueueing the copies, and the
// device for making them.
//
//   staging area   Free ─► Taken (assay_before) ─► Staged (assay_after) ─► Free (the thread)
//
// Calls in a graph are copied by nodes of a second executable of that graph, into staging areas that belong to it. A launch
// that is sampled takes that executable, if none of its areas is still on its way (graph.cpp):
//
//   staging area of a graph   Taken ─► Launching (assay_graph_launch) ─► Staged ─► Taken (the thread)
//
// The thread also allocates staging areas, so that a caller never does: the first sample of a size is dropped while one
// of that size is made, and the next call of that shape is sampled instead.
#pragma once

#include <assay_monitor.h>

#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "contract/contract.h"
#include "monitor/ring.h"
#include "monitor/sample.h"
#include "monitor/settings.h"
#include "watch/link.h"
#include "watch/runtime.h"

namespace assay::watch {

using Mode = enum ::assay_mode;  // a function has that name as well

// Samples that may be on their way off the device at once. The host is often hundreds of calls ahead of the device, and a
// sample is on its way until the device has made its call.
inline constexpr std::size_t kStagingAreas = 16;
// Calls of one watch in one graph that can be sampled.
inline constexpr int kMostGraphCalls = 1024;
// Shapes whose first call is always sampled.
inline constexpr std::size_t kShapes = 64;

using Clock = std::chrono::steady_clock;

inline uint64_t ns_since(Clock::time_point start) {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

// Of images in a staging area: as fresh allocations have it.
inline int64_t aligned(int64_t bytes) {
  constexpr int64_t kAlignment = 256;
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class Watch {
 public:
  static Result<std::unique_ptr<Watch>> open(const std::string& contract, const std::string& certificate);
  ~Watch();

  void set_library(const std::string& path);
  const char* argument(int index) const;
  uint64_t before(void* const* args, Stream stream);
  void after(uint64_t ticket, Stream stream);
  bool shadow(uint64_t ticket, void** args, Stream stream);
  void set_mode(Mode mode) { mode_.store(mode, std::memory_order_relaxed); }
  Mode mode() const { return mode_.load(std::memory_order_relaxed); }
  void on_alarm(void (*call)(const char*, void*), void* context);
  bool graph_reserve(int calls);
  bool graph_begin();
  void graph_end();
  void graph_bind(void* with_copies);
  void graph_close(void* with_copies);
  // Of one graph that holds calls of all of these; how often it is sampled, the first one decides.
  static int graph_launch(std::span<Watch* const> watches, void* plain, void* with_copies, Stream stream);
  // A process that was forked has the watch of its parent: without a thread, and without a device.
  bool is_inherited() const;
  assay_counts count() const;
  bool flush(int milliseconds);

 private:
  enum class State : uint32_t { Free, Taken, Launching, Staged };
  struct Area {
    std::atomic<State> state{State::Free};
    std::byte* device = nullptr;  // written by the thread while the area is Taken by it
    std::atomic<int64_t> capacity{0};
    Event ready = nullptr;
    monitor::CallArguments call;
    uint64_t number = 0;
    bool is_shadow = false;
    bool is_graph = false;  // its copies are nodes of a graph: it stays with that graph
  };

  // The calls of this watch in one graph.
  struct GraphCopies {
    std::vector<std::unique_ptr<Area>> areas;  // reserved; those that a call has are `is_graph`
    std::byte* device = nullptr;               // of all areas
    std::size_t used = 0;
    uint64_t calls = 0;          // in the graph, with and without an area
    void* executable = nullptr;  // the one with copies; null: it is not known yet
    bool is_closed = false;      // the thread frees it
  };

  // Of one launch.
  struct GraphSample {
    Watch* watch = nullptr;
    uint64_t calls_before = 0;
    std::vector<Area*> areas;
  };

  Watch(contract::Contract contract, monitor::Settings settings, Runtime runtime);
  Result<void> start(const std::string& certificate);
  std::string description(const std::string& certificate) const;

  // The caller's side.
  bool is_due(void* const* args, uint64_t& shape);
  void draw_gap();
  bool is_new_shape(uint64_t shape) const;
  void remember(uint64_t shape);
  uint64_t take(void* const* args, Stream stream, uint64_t shape, uint64_t number);
  uint64_t take_for_graph(void* const* args, Stream stream, uint64_t shape);
  Area* area_of(uint64_t ticket);
  GraphCopies* copies_of(void* executable);
  static bool claim(const std::vector<Area*>& areas);
  void finish(const GraphSample& sample, bool is_claimed, int status, Stream stream);
  Area* area_for(int64_t bytes);
  bool copy_images(Area& area, bool after, Stream stream);
  void stage(Area& area, Stream stream);
  void drop(monitor::Drop reason);
  void wake() const;
  // Bytes of a staging area: the images, each at a multiple of kAlignment, and the outputs of the trusted kernel.
  static int64_t staged_bytes(const monitor::CallArguments& call, bool is_shadow);

  // The thread's side.
  void work();
  bool collect(bool is_last);
  std::vector<Area*> staged_by_graphs();
  void free_closed_graphs();
  void hand_over(Area& area);
  void grow();
  void hear(const std::string& message);
  void say_once(std::string message);

  contract::Contract contract_;
  monitor::Settings settings_;
  Runtime runtime_;
  monitor::CallShape call_;
  int device_ = 0;
  uint32_t forks_ = 0;  // of this process when the watch was opened
  std::optional<monitor::Ring> ring_;
  std::optional<Link> link_;
  std::string certificate_, library_;
  std::array<Area, kStagingAreas> areas_;
  Stream stream_ = nullptr;  // of the copies to the host

  std::atomic<int64_t> left_{0};  // calls until the next sample
  std::atomic<uint64_t> random_{0};
  std::array<std::atomic<uint64_t>, kShapes> shapes_{};
  std::atomic<int64_t> wanted_bytes_{0};  // of a staging area
  std::atomic<int64_t> largest_call_{0};  // bytes that observing it stages
  std::atomic<Mode> mode_{ASSAY_OBSERVE};
  std::atomic<bool> is_refused_{false};

  std::mutex graphs_mutex_;  // never held while waiting for the device
  std::vector<std::unique_ptr<GraphCopies>> graphs_;
  GraphCopies* capturing_ = nullptr;  // between graph_begin and graph_end
  std::atomic<bool> is_capturing_{false};
  std::atomic<int64_t> graph_left_{0};  // launches until the next sample
  std::atomic<int> graph_calls_{1};     // to reserve

  std::mutex alarm_mutex_;
  void (*alarm_)(const char*, void*) = nullptr;
  void* alarm_context_ = nullptr;
  std::string said_;

  int wake_ = -1;  // an eventfd
  std::atomic<bool> stop_{false};
  std::atomic<bool> hurry_{false};  // wait for the device: a flush is in progress
  std::thread thread_;
};

}  // namespace assay::watch
