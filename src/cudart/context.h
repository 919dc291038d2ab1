// A context: one virtual device with its streams, and the handles that the program holds.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "checks/block_sample.h"
#include "checks/checks.h"
#include "cudart/abi.h"
#include "cudart/activity.h"
#include "cudart/growth.h"
#include "cudart/host_check.h"
#include "protocol/settings.h"
#include "shadow/shadow.h"
#include "vgpu/device.h"
#include "vgpu/stream.h"

namespace assay::cudart {

class EventWriter;
struct Capture;

struct StreamHandle {
  vgpu::StreamId id = 0;
  unsigned flags = 0;  // 1: non-blocking
  int priority = 0;
  std::shared_ptr<Capture> capture;       // while it captures
  std::vector<GraphNode*> capture_after;  // what its next captured node comes after
  std::map<AttributeId, AttributeValue> attributes;
};

struct EventHandle {
  std::shared_ptr<vgpu::StreamEvent> event;
  unsigned flags = 0;                // 1: blocking wait, 2: no timing, 4: between processes
  std::shared_ptr<Capture> capture;  // recorded in a capture
  std::vector<GraphNode*> capture_after;
};

struct PoolHandle {
  PoolProperties properties{};
  uint64_t release_threshold = 0;
  int reuse[3] = {1, 1, 1};
  uint64_t used = 0, used_high = 0, reserved_high = 0;
};

// Pinned host memory: what cudaHostGetFlags says of it, and whether we allocated it.
struct PinnedRange {
  uint64_t size = 0;
  unsigned flags = 0;
  bool registered = false;  // by cudaHostRegister: not ours
};

class Context {
 public:
  Context(const protocol::Settings& settings, EventWriter& writer);
  ~Context();

  vgpu::Device& device() { return *device_; }
  vgpu::Streams& streams() { return *streams_; }
  vgpu::Memory& memory() { return device_->memory(); }

  // The stream behind a handle, null when there is none. 0 and 1 are the default stream, 2 the
  // calling thread's own.
  StreamHandle* stream(StreamHandle* handle);
  StreamHandle* create_stream(unsigned flags, int priority);
  bool destroy_stream(StreamHandle* handle);
  std::vector<StreamHandle*> capturing_streams();

  EventHandle* create_event(unsigned flags);
  bool has(EventHandle* handle);
  bool destroy_event(EventHandle* handle);

  PoolHandle* default_pool() { return &default_pool_; }
  PoolHandle*& current_pool() { return current_pool_; }
  PoolHandle* create_pool(const PoolProperties& properties);
  bool has(PoolHandle* handle);
  bool destroy_pool(PoolHandle* handle);
  // Which pool an asynchronous allocation came from.
  void pool_allocated(PoolHandle* pool, vgpu::Address address, uint64_t size);
  void pool_released(vgpu::Address address);
  PoolHandle* pool_of(vgpu::Address address);  // null: none

  // Memory of graphs keeps its address from launch to launch: freeing it gives nothing back.
  void add_graph_memory(vgpu::Address address, uint64_t size);
  bool is_graph_memory(vgpu::Address address);
  uint64_t graph_bytes();

  void add_pinned(void* host, PinnedRange range);
  std::optional<std::pair<void*, PinnedRange>> pinned(const void* host);
  bool remove_pinned(void* host);

  uint64_t limit(Limit limit);
  void set_limit(Limit limit, uint64_t value);

  // Device printf: collected while kernels run, written when the host synchronises.
  void flush_print();
  // Writes out a new fault once.
  void report_fault();
  // Writes out what the checks have found since the last time.
  void report_findings();
  // Remembers which place of the program asked for an allocation, if something observes the program.
  void note_allocation(vgpu::Address base, const void* caller);
  void note_out_of_memory(uint64_t bytes, const void* caller);
  // What new memory of the device holds, a pattern repeated; none: zeros, or whatever was there.
  void set_new_content(std::optional<uint64_t> pattern) { new_content_ = pattern; }
  void fill_new(vgpu::Address base, uint64_t bytes);
  // What the program does over time; null if it is not recorded.
  Activity* activity() { return activity_.get(); }
  // What is watched of the host's side; null when nothing is.
  HostCheck* host_check() { return host_check_.get(); }
  // The host has waited for something.
  void host_waited();
  // Writes out where precision was lost since the last time, when that is watched.
  void report_precision();

  // What the caller's calls leave behind (growth.h).
  Growth& growth() { return growth_; }
  std::size_t stream_count();
  std::size_t event_count();
  // The host code that made an allocation.
  evidence::HostPlace maker_of(uint64_t allocation);
  // Writes out a finding.
  void report(Finding finding);
  // Runs a sample of the blocks of launches when it is asked to; null where nothing is watched.
  checks::BlockSample* sample() { return sample_.get(); }

 private:
  void listen(protocol::CheckSet checks);
  // Runs a launch under other schedules first, and reports what differs.
  void compare_schedules(const vgpu::GridWork& work, uint64_t count);
  void report_other_races();
  void add_origins(Finding& finding);  // the host code that launched and allocated what it is about

  EventWriter& writer_;
  std::mutex mutex_;
  checks::FindingLog findings_;
  bool races_under_schedules_ = false;           // they are watched
  std::vector<Finding> other_races_;             // under other schedules, of the launch under way
  std::set<std::pair<std::string, int>> raced_;  // lines of races that were reported
  std::unique_ptr<checks::BlockSample> sample_;
  std::vector<std::unique_ptr<vgpu::Listener>> checks_;
  std::unique_ptr<shadow::Shadow> shadow_;  // null: precision is not watched
  std::unique_ptr<Activity> activity_;
  std::unique_ptr<vgpu::Device> device_;
  std::unique_ptr<vgpu::Streams> streams_;
  std::optional<uint64_t> new_content_;
  std::unique_ptr<HostCheck> host_check_;
  StreamHandle legacy_;
  std::unordered_map<uint64_t, std::unique_ptr<StreamHandle>> per_thread_;
  std::unordered_map<StreamHandle*, std::unique_ptr<StreamHandle>> stream_handles_;
  std::unordered_map<EventHandle*, std::unique_ptr<EventHandle>> events_;
  std::unordered_map<PoolHandle*, std::unique_ptr<PoolHandle>> pools_;
  PoolHandle default_pool_;
  PoolHandle* current_pool_ = &default_pool_;
  std::unordered_map<vgpu::Address, std::pair<PoolHandle*, uint64_t>> pooled_;
  std::unordered_map<vgpu::Address, uint64_t> graph_memory_;
  std::map<std::byte*, PinnedRange> pinned_;
  std::map<Limit, uint64_t> limits_;
  // Who asked for an allocation: the calls, or the Python stack where there is one.
  struct Maker {
    std::vector<uint64_t> calls;
    uint64_t python_stack = 0;
  };
  static Maker maker_at(const void* caller);
  std::unordered_map<uint64_t, Maker> allocated_by_;  // by the id of an allocation
  Growth growth_;
  std::mutex print_mutex_;
  std::string printed_;
  std::atomic<bool> fault_reported_{false};
};

}  // namespace assay::cudart
