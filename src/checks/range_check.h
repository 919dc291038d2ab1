// Ranges that a caller names: outputs that must be written in full, inputs that must not be written.
#pragma once

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
  bool empty();

  bool hears_accesses(ptx::Space space) const override { return space == ptx::Space::Global; }
  void on_loads(const vgpu::Warp&, ptx::Space, std::span<const vgpu::ShapedLoad>) override {
  }  // writes are what counts
  void on_operation(const vgpu::OperationInfo& info) override;
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

  FindingLog& log_;
  const vgpu::Memory& memory_;
  std::mutex mutex_;
  std::vector<Range> ranges_;
  uint64_t starting_ = 0;                  // the grid that is about to start
  std::map<uint64_t, uint64_t> launches_;  // operations of launches under way

  // Calls `hit(range)` for each protected range that a write of `operation` touches; marks expected ones.
  template <class Hit>
  void write(uint64_t operation, vgpu::Address low, uint64_t bytes, Hit hit);
  void write_rows(const vgpu::OperationInfo& info, const vgpu::RangeInfo& to);
  void report_unwritten(const Range& range);
};

}  // namespace assay::checks
