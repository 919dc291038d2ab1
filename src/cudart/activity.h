// What the program does with the device over time, as events (Settings::report_activity): allocations with the host
// code that made them, launches, copies and fills with their times, and what became of each allocation's bytes.
//
// Reads are marked for each allocation (read_marks.h), as the engine marks written bytes. It sees accesses only if checks
// are on; without them, bytes are not counted.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "protocol/event.h"
#include "protocol/event_log.h"
#include "vgpu/device.h"
#include "vgpu/stream.h"
#include "vgpu/watch.h"

namespace assay::cudart {

class EventWriter;

class Activity final : public vgpu::Listener {
 public:
  // `counts`: whether accesses are heard.
  Activity(EventWriter& writer, vgpu::Device& device, bool counts);
  ~Activity() override;

  double now() const;
  // Host code, as a number for events: its calls, innermost first, or its stack of Python, unless that is 0.
  uint64_t stack(const std::vector<uint64_t>& calls, uint64_t python);
  void allocated(const vgpu::Allocation& made, uint64_t stack);
  void out_of_memory(uint64_t bytes, uint64_t stack);
  // The host asked for memory to be given back, which happens later, in the order of a stream.
  void release_called(vgpu::Address base);
  void releasing(vgpu::Address base);
  // The host has asked for `count` operations, of which `last` is the last; `called`: when it began to.
  void submitted(vgpu::OperationId last, std::size_t count, double called);
  void grid_ended(const vgpu::GridRun& run, const std::string& fault);
  // The program ends: what it still holds.
  void end();

  bool wants_accesses(ptx::Space space) const override { return counts_ && space == ptx::Space::Global; }
  void on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access) override;
  void on_loads(const vgpu::Warp& warp, ptx::Space space, std::span<const vgpu::ShapedLoad> loads) override;
  void on_launch_end(const vgpu::LaunchInfo& info) override;
  void on_operation(const vgpu::OperationInfo& info) override;
  void on_operation_end(const vgpu::OperationInfo& info) override;
  void on_copy(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to,
               const vgpu::RangeInfo& from) override;
  void on_fill(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to) override;

 private:
  struct Use;     // of an allocation
  struct Writer;  // an instruction that stores
  struct Site;    // an instruction, as a thread of the engine last saw it
  struct Read;    // memory that an instruction reads
  struct Thread;  // what such a thread remembers
  struct Cursor;  // an event of a warp
  // What the host has asked for in one call: operations (last - count, last].
  struct Submission {
    vgpu::OperationId last = 0;
    std::size_t count = 0;
    double called = 0, returned = 0;
  };
  struct Operation {
    protocol::OperationRecord record{};
    Use *from = nullptr, *to = nullptr;  // of a copy or fill
  };
  using UnderWay = std::vector<Operation>;

  Use* use_of(vgpu::Address address) const;
  Site& site(const Cursor& at, const vgpu::Inst& inst, vgpu::Address address);
  void look_up(Site& site, const Cursor& at, const vgpu::Inst& inst, vgpu::Address address);
  void used(Use& use);
  void was_read(const Cursor& at, const vgpu::Inst& inst, vgpu::Address address, uint64_t bytes);
  uint32_t accessed(const Cursor& at, const vgpu::Warp& warp, const vgpu::Inst& inst,
                    const vgpu::Access& access, uint32_t lanes);
  void wrote(const vgpu::Warp& warp, const vgpu::Inst& inst, Site& site);
  void grow(Thread& thread, const Read& read);
  void wait(Thread& thread, const Read& read);
  void mark_waiting(Thread& thread);
  void mark_all(Thread& thread);
  const Writer* new_writer(const vgpu::Warp& warp, const vgpu::Inst& inst);
  void was_read(Use& use, const vgpu::RangeInfo& range);
  void moves(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to, const vgpu::RangeInfo* from);
  bool is_host(const vgpu::RangeInfo& range) const;
  void report_release(const Use& use, bool is_held);
  void add_submission(protocol::OperationRecord& event);
  UnderWay::iterator under_way(vgpu::OperationId id);
  void end_operation(UnderWay::iterator operation, protocol::TextId fault);
  uint64_t new_stack(protocol::StackEvent event);

  EventWriter& writer_;
  const vgpu::Memory& memory_;
  const bool counts_;
  const std::chrono::steady_clock::time_point began_;
  std::vector<Thread> threads_;  // by the number of the engine's worker
  std::mutex mutex_;
  std::map<std::vector<uint64_t>, uint64_t> native_stacks_;
  std::map<uint64_t, uint64_t> python_stacks_;
  uint64_t stacks_ = 0;
  std::vector<Submission> single_;  // of one operation, by its number: a ring
  std::deque<Submission> graphs_;
  UnderWay under_way_;                 // few
  protocol::OperationRecord ended_{};  // the grid that has just ended
  std::vector<Use*> touched_;          // by grids that run
  std::atomic<uint64_t> launches_ended_{0};
  std::unordered_map<uint64_t, std::deque<Writer>> writers_;  // by launch
  mutable std::shared_mutex uses_mutex_;
  std::map<vgpu::Address, std::unique_ptr<Use>> uses_;  // by base
};

}  // namespace assay::cudart
