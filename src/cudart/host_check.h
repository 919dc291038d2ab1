// Checks of the host's side of a program: failed launches whose error was not checked, work that was not waited
// for, memory that was never freed, device memory that host code dereferenced, managed and pinned memory that
// it used while the device did, and the ranges that it named (assay.h).
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "checks/range_check.h"
#include "checks/wait_check.h"
#include "cudart/abi.h"
#include "cudart/host_watch.h"
#include "vgpu/stream.h"

namespace assay::cudart {

class HostCheck {
 public:
  // `report`: of a finding that cannot wait. `judge`: of the host's accesses; may be null.
  HostCheck(protocol::CheckSet checks, checks::FindingLog& log, std::function<void(Finding)> report,
            vgpu::Device& device, vgpu::Streams& streams, checks::HostJudge* judge);
  ~HostCheck();
  HostCheck(const HostCheck&) = delete;
  HostCheck& operator=(const HostCheck&) = delete;

  // The host submitted work; `last` is the last operation of it.
  void submitted(vgpu::OperationId last, std::span<const vgpu::OrderedWork> works);
  vgpu::OperationId last_submitted() const { return last_submitted_; }
  void launched(vgpu::OperationId operation, std::string_view kernel);
  void copied_to_host(vgpu::OperationId operation);
  // The host's use of memory that it shares with the device; null if it is not observed.
  HostWatch* watch() { return watch_.get(); }
  // `by_syntax`: written as kernel<<<...>>>, which drops the status.
  void launch_failed(std::string_view kernel, Status status, bool by_syntax);
  // The program has checked the last error.
  void error_checked();
  // Every kernel may use it, and it is never freed.
  void add_managed_variable(vgpu::Address base);
  // Where named ranges are kept; listens from the first call on.
  checks::RangeCheck& ranges();
  // main() has returned: runs the work that was not waited for, so that it is checked, too.
  void run_remaining_work();
  // The program ends.
  void end();
  // Host code touched `address` of the device's range: reports it before the process dies.
  void host_access(vgpu::Address address, bool writes, uint64_t code);

 private:
  struct FailedLaunch {
    std::string kernel;
    Status status;
    std::vector<uint64_t> calls;  // that led to it
    std::vector<Frame> stack;     // … of Python
  };

  bool launches_, memory_;  // whether these checks are on
  checks::FindingLog& log_;
  const std::function<void(Finding)> report_;
  vgpu::Device& device_;
  vgpu::Streams& streams_;
  checks::WaitCheck waits_;
  std::unique_ptr<HostWatch> watch_;
  std::atomic<vgpu::OperationId> last_submitted_{0};
  std::unique_ptr<checks::RangeCheck> ranges_;
  std::mutex mutex_;
  std::vector<vgpu::Address> variables_;  // managed ones
  std::vector<FailedLaunch> failed_;      // whose error was not checked yet

  void report_failed(const FailedLaunch& launch, bool was_asked);
  void report_leaks();
  bool shares_memory()
      const;  // whether there is memory through which the host could release a waiting kernel
};

}  // namespace assay::cudart
