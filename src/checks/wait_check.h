// Work that was not waited for: the program ended, and its results may never have arrived. Listens to streams
// only.
#pragma once

#include "checks/checks.h"
#include "checks/race_order.h"

namespace assay::checks {

class WaitCheck final : public vgpu::Listener {
 public:
  explicit WaitCheck(FindingLog& log) : log_(log) {}

  bool wants_accesses(ptx::Space) const override { return false; }
  void on_operation(const vgpu::OperationInfo& info) override;
  void on_host_wait(std::span<const uint64_t> operations) override;

  struct Work {
    vgpu::OperationInfo::Kind kind;
    std::string kernel;  // of a grid
  };
  // The host asked for something whose result it should wait for.
  void submitted(uint64_t operation, Work work);
  // Work that was not waited for.
  std::vector<uint64_t> unwaited();
  // Whether waits of the host count.
  void count_waits(bool on);
  // The program ends.
  void end();

 private:
  FindingLog& log_;
  std::mutex mutex_;
  OperationOrder order_;
  bool counts_waits_ = true;
  uint64_t last_ = 0;        // operation that began
  uint64_t host_point_ = 0;  // what comes before it, the host has waited for
  std::map<uint64_t, Work> unwaited_;

  bool is_waited_for(uint64_t operation);
};

}  // namespace assay::checks
