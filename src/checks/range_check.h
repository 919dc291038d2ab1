// Ranges that a caller names: outputs that must be written in full, inputs that must not be written. `assay
// check` names the inputs of its contract, programs name ranges with include/assay.h.
//
// A write to an input is a finding when it happens: the bytes may be restored before anybody compares them. A
// store of the value that is there is a warning.
#pragma once

#include <atomic>
#include <thread>

#include "checks/checks.h"

namespace assay::checks {

class RangeCheck final : public vgpu::Listener {
 public:
  RangeCheck(FindingLog& log, const vgpu::Memory& memory) : log_(log), memory_(memory) {}

  // Counts from now on, for operations after `since`: every byte is to be written until judge().
  void expect_written(vgpu::Address address, uint64_t bytes, std::string name, uint64_t since);
  // Every write from now on until judge(), by operations after `since`, is a finding.
  void protect(vgpu::Address address, uint64_t bytes, std::string name, uint64_t since);
  // Reports what was not written of the ranges that begin at `address` (0: of all), and forgets them.
  void judge(vgpu::Address address);
  // The same without a report.
  void forget();

  bool wants_accesses(ptx::Space space) const override { return space == ptx::Space::Global; }
  void on_loads(const vgpu::Warp&, ptx::Space, std::span<const vgpu::ShapedLoad>) override {
  }  // writes are what counts
  void on_operation(const vgpu::OperationInfo& info) override;
  void on_operation_end(const vgpu::OperationInfo& info) override;
  void on_launch(const vgpu::LaunchInfo& info) override;
  void on_launch_end(const vgpu::LaunchInfo& info) override;
  void on_access(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access) override;
  void on_copy(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to,
               const vgpu::RangeInfo& from) override;
  void on_fill(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to) override;

 private:
  struct Range {
    vgpu::Address low = 0, high = 0;
    std::string name;
    uint64_t since = 0;
    bool expected = false;      // else protected
    std::vector<bool> written;  // by byte, of an expected one
  };
  // A write to a protected range whose effect is not known yet: an atomic's, a copy's or a fill's.
  struct Open {
    vgpu::Address address = 0;
    std::vector<std::byte> before;  // what was there
    const vgpu::Inst* inst = nullptr;
    uint64_t operation = 0;
    uint64_t launch = 0;
    std::thread::id thread;
    Finding finding;
  };
  // A store that left what was there, kept until its launch ends: the next one may be another's.
  struct Unchanged {
    uint64_t launch = 0;
    std::string key;
    Finding finding;
  };

  FindingLog& log_;
  const vgpu::Memory& memory_;
  std::atomic<uint64_t> version_{0};  // of ranges_; different in every object
  std::atomic<uint32_t> open_count_{0};
  std::mutex mutex_;  // of what follows
  std::vector<Range> ranges_;
  std::vector<Open> open_;
  std::map<const vgpu::Inst*, Unchanged> unchanged_;
  uint64_t starting_ = 0;                  // the grid that is about to start
  std::map<uint64_t, uint64_t> launches_;  // operations of launches under way

  void change_version();
  void add(Range range);
  bool lies_apart(const vgpu::Inst& inst, const vgpu::Access& access) const;
  void remember_gap(const vgpu::Inst& inst, vgpu::Address around) const;
  // Calls `hit(range)` for each protected range that a write of `operation` touches; marks expected ones.
  template <class Hit>
  void write(uint64_t operation, vgpu::Address low, uint64_t bytes, Hit hit);
  void write_lane(const vgpu::Warp& warp, const vgpu::Inst& inst, const vgpu::Access& access, uint32_t lane,
                  const Range& range);
  void write_rows(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to);
  template <class Which>
  void close(Which which);
  void report(const std::string& key, const vgpu::Inst* inst, uint64_t launch, Finding finding, bool changed);
  void report_unwritten(const Range& range);
};

}  // namespace assay::checks
