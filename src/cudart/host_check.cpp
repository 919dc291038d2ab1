#include "cudart/host_check.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>

#include "cudart/report.h"

extern "C" const char* cudaGetErrorName(assay::cudart::Status status);

namespace assay::cudart {
namespace {

// The one that the signal handler asks; there is one context at a time.
std::atomic<HostCheck*> watching{nullptr};
std::atomic<const vgpu::Memory*> watched_memory{nullptr};
struct sigaction earlier_action;

// The second lowest bit of the page fault's code: it was a write (x86).
constexpr uint64_t kWriteFault = 2;

void on_fault(int signal, siginfo_t* info, void* context) {
  const vgpu::Memory* memory = watched_memory.load();
  const auto address = reinterpret_cast<vgpu::Address>(info->si_addr);
  HostCheck* check = watching.exchange(nullptr);
  if (check && memory && memory->is_device_address(address)) {
    const auto* user = static_cast<const ucontext_t*>(context);
    check->host_access(address, (static_cast<uint64_t>(user->uc_mcontext.gregs[REG_ERR]) & kWriteFault) != 0);
  }
  // The access happens again and meets whoever was there before us.
  sigaction(signal, &earlier_action, nullptr);
}

}  // namespace

HostCheck::HostCheck(std::string_view list, checks::FindingLog& log, Report& report, vgpu::Device& device,
                     vgpu::Streams& streams)
    : launches_(checks::includes(list, "launches")),
      memory_(checks::includes(list, "memory")),
      log_(log),
      report_(report),
      device_(device),
      streams_(streams),
      waits_(log) {
  if (launches_) streams_.listen(&waits_);
  if (!memory_) return;
  watched_memory = &device.memory();
  watching = this;
  struct sigaction action {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, &earlier_action);
}

HostCheck::~HostCheck() {
  watching = nullptr;
  watched_memory = nullptr;
  if (!memory_) return;
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  if (now.sa_sigaction == on_fault) sigaction(SIGSEGV, &earlier_action, nullptr);
}

void HostCheck::launched(vgpu::OperationId operation, std::string_view kernel) {
  if (launches_) waits_.submitted(operation, {vgpu::OperationInfo::Kind::Grid, std::string(kernel)});
}

void HostCheck::copied_to_host(vgpu::OperationId operation) {
  if (launches_) waits_.submitted(operation, {vgpu::OperationInfo::Kind::Copy, ""});
}

void HostCheck::launch_failed(std::string_view kernel, Status status, bool by_syntax) {
  if (!launches_) return;
  const FailedLaunch launch{std::string(kernel), status};
  if (!by_syntax) return report_failed(launch, true);  // the call itself returned the status
  std::lock_guard lock(mutex_);
  failed_.push_back(launch);
}

void HostCheck::asked() {
  std::lock_guard lock(mutex_);
  for (const FailedLaunch& launch : failed_) report_failed(launch, true);
  failed_.clear();
}

void HostCheck::report_failed(const FailedLaunch& launch, bool was_asked) {
  Finding finding;
  finding.kind = "launch-failure";
  finding.severity = was_asked ? Severity::Warning : Severity::Error;
  finding.message =
      fmt::format("the launch of kernel {} failed: {}{}", launch.kernel, cudaGetErrorName(launch.status),
                  was_asked ? "" : ", and the program never asked");
  finding.evidence = {
      {"kernel", launch.kernel}, {"status", static_cast<int>(launch.status)}, {"asked", was_asked}};
  log_.add(fmt::format("launch-failure|{}|{}", launch.kernel, was_asked), std::move(finding),
           {"launch-failure", was_asked ? &log_ : nullptr});
}

checks::RangeCheck& HostCheck::ranges() {
  std::lock_guard lock(mutex_);
  if (!ranges_) {
    ranges_ = std::make_unique<checks::RangeCheck>(log_, device_.memory());
    streams_.with_device([&](vgpu::Device& device) { device.listen(ranges_.get()); });
    streams_.listen(ranges_.get());
  }
  return *ranges_;
}

void HostCheck::end() {
  if (ranges_) ranges_->judge(0);
  if (!launches_) return;
  {
    std::lock_guard lock(mutex_);
    for (const FailedLaunch& launch : failed_) report_failed(launch, false);
    failed_.clear();
  }
  if (streams_.faulted()) return;
  waits_.end();
  report_leaks();
}

// Unless the host could be meant to help it along.
void HostCheck::run_what_is_left() {
  if (!launches_ || streams_.faulted()) return;
  for (const vgpu::Allocation& a : device_.memory().live())
    if (a.kind == vgpu::MemoryKind::Managed || a.kind == vgpu::MemoryKind::Pinned) return;
  waits_.hear(false);  // the program did not wait: we do
  streams_.synchronise_all();
  waits_.hear(true);
}

void HostCheck::report_leaks() {
  uint64_t bytes = 0, count = 0;
  Json first;
  std::string name;
  for (const vgpu::Allocation& a : device_.memory().live()) {
    if (a.adopted || (a.kind != vgpu::MemoryKind::Device && a.kind != vgpu::MemoryKind::Managed &&
                      a.kind != vgpu::MemoryKind::Pinned))
      continue;
    if (count++ == 0) {
      first = {{"label", a.label}, {"bytes", a.size}, {"id", a.id}};
      name = fmt::format("`{}` (allocation {}, {} bytes)", a.label, a.id, a.size);
    }
    bytes += a.size;
  }
  if (count == 0) return;
  Finding finding;
  finding.kind = "leak";
  finding.severity = Severity::Note;
  finding.message = fmt::format("{} allocation{} of {} bytes in all {} never freed; the first is {}", count,
                                count == 1 ? "" : "s", bytes, count == 1 ? "was" : "were", name);
  finding.evidence = {{"allocations", count}, {"bytes", bytes}, {"allocation", first}};
  log_.add("leak", std::move(finding), {"leak"});
}

void HostCheck::host_access(vgpu::Address address, bool writes) {
  Finding finding;
  finding.kind = "out-of-bounds";
  const std::string place = checks::describe_address(device_.memory(), address, finding.evidence);
  finding.evidence["space"] = "host";
  finding.message = fmt::format("host code {} device memory, {}: use cudaMemcpy, or managed memory",
                                writes ? "writes" : "reads", place);
  finding.evidence["count"] = 1;
  report_.finding(finding);
}

}  // namespace assay::cudart
