#include "cudart/host_check.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <mutex>
#include <thread>

#include "cudart/code_place.h"
#include "cudart/python_frames.h"

// NOLINTNEXTLINE(readability-redundant-declaration): only where it is compiled together with api_device.cpp
extern "C" const char* cudaGetErrorName(assay::cudart::Status status);

namespace assay::cudart {
namespace {

// The one that the signal handlers ask; there is one context at a time.
std::atomic<HostCheck*> watching{nullptr};
std::atomic<const vgpu::Memory*> watched_memory{nullptr};
struct sigaction earlier_fault, earlier_step;

// The second lowest bit of the page fault's code: it was a write (x86).
constexpr uint64_t kWriteFault = 2;
constexpr auto kLeftOver = std::chrono::seconds(5);

HostWatch* current_watch() {
  HostCheck* check = watching.load();
  return check ? check->watch() : nullptr;
}

void on_fault(int signal, siginfo_t* info, void* data) {
  const auto address = reinterpret_cast<vgpu::Address>(info->si_addr);
  auto& context = *static_cast<ucontext_t*>(data);
  const auto& registers = context.uc_mcontext.gregs;
  const bool writes = (static_cast<uint64_t>(registers[REG_ERR]) & kWriteFault) != 0;
  if (HostWatch* watch = current_watch(); watch && watch->note_fault(address, writes, context)) return;
  const vgpu::Memory* memory = watched_memory.load();
  HostCheck* check = watching.exchange(nullptr);
  if (check && memory && memory->is_device_address(address))
    check->host_access(address, writes, static_cast<uint64_t>(registers[REG_RIP]));
  // The access is repeated and reaches the handler that was installed before ours.
  sigaction(signal, &earlier_fault, nullptr);
}

void on_step(int signal, siginfo_t*, void* data) {
  if (HostWatch* watch = current_watch(); watch && watch->end_step(*static_cast<ucontext_t*>(data))) return;
  sigaction(signal, &earlier_step, nullptr);
  raise(signal);  // comes when this one has ended
}

void install(int signal, HostWatch::Handler handler, struct sigaction& earlier) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigfillset(&action.sa_mask);  // a handler of the program's that came between might fault itself
  sigaction(signal, &action, &earlier);
}

void remove(int signal, HostWatch::Handler handler, const struct sigaction& earlier) {
  struct sigaction now {};
  sigaction(signal, nullptr, &now);
  if (now.sa_sigaction == handler) sigaction(signal, &earlier, nullptr);
}

// The system calls of a child are not intercepted.
void open_in_children() {
  static std::once_flag once;
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] {
      if (HostWatch* watch = current_watch()) watch->open_all();
    });
  });
}

}  // namespace

HostCheck::HostCheck(protocol::CheckSet checks, checks::FindingLog& log, std::function<void(Finding)> report,
                     vgpu::Device& device, vgpu::Streams& streams, checks::HostJudge* judge)
    : launches_(checks.has(protocol::Check::Launches)),
      memory_(checks.has(protocol::Check::Memory)),
      log_(log),
      report_(std::move(report)),
      device_(device),
      streams_(streams),
      waits_(log) {
  if (launches_) streams_.listen(&waits_);
  if (judge && launches_)
    watch_ =
        std::make_unique<HostWatch>(*judge, device.memory(), streams, HostWatch::Handlers{on_fault, on_step});
  if (watch_) streams_.listen(watch_.get());
  if (!memory_ && !watch_) return;
  if (memory_) watched_memory = &device.memory();
  watching = this;
  install(SIGSEGV, on_fault, earlier_fault);
  if (!watch_) return;
  install(SIGTRAP, on_step, earlier_step);
  open_in_children();
}

HostCheck::~HostCheck() {
  const bool listened = memory_ || watch_, stepped = watch_ != nullptr;
  watch_.reset();
  watching = nullptr;
  watched_memory = nullptr;
  if (listened) remove(SIGSEGV, on_fault, earlier_fault);
  if (stepped) remove(SIGTRAP, on_step, earlier_step);
}

void HostCheck::submitted(vgpu::OperationId last, std::span<const vgpu::OrderedWork> works) {
  last_submitted_ = last;
  if (watch_) watch_->submitted(last, works);
}

void HostCheck::launched(vgpu::OperationId operation, std::string_view kernel) {
  if (launches_) waits_.submitted(operation, {vgpu::OperationInfo::Kind::Grid, std::string(kernel)});
}

void HostCheck::copied_to_host(vgpu::OperationId operation) {
  if (launches_) waits_.submitted(operation, {vgpu::OperationInfo::Kind::Copy, ""});
}

void HostCheck::launch_failed(std::string_view kernel, Status status, bool by_syntax) {
  if (!launches_) return;
  const FailedLaunch launch{std::string(kernel), status, calls_into_library(), python_frames(python_stack())};
  if (!by_syntax) return report_failed(launch, true);  // the call itself returned the status
  std::lock_guard lock(mutex_);
  failed_.push_back(launch);
}

void HostCheck::error_checked() {
  std::lock_guard lock(mutex_);
  for (const FailedLaunch& launch : failed_) report_failed(launch, true);
  failed_.clear();
}

void HostCheck::report_failed(const FailedLaunch& launch, bool was_asked) {
  evidence::Launch evidence;
  evidence.kernel = launch.kernel;
  evidence.status = static_cast<int>(launch.status);
  evidence.status_name = cudaGetErrorName(launch.status);
  evidence.asked = was_asked;
  evidence.host.stack = launch.stack;
  for (uint64_t call : launch.calls) evidence.host.calls.push_back(place_in_code(call - 1));
  Finding finding = checks::finding_of(Kind::LaunchFailure, {}, std::move(evidence));
  if (was_asked) finding.severity = Severity::Warning;
  log_.add(fmt::format("{}|{}|{}", to_string(Kind::LaunchFailure), launch.kernel, was_asked),
           std::move(finding), {Kind::LaunchFailure, was_asked ? &log_ : nullptr});
}

void HostCheck::add_managed_variable(vgpu::Address base) {
  variables_.push_back(base);
  if (watch_) watch_->add_variable(base);
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
  if (watch_) watch_->judge();
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

bool HostCheck::shares_memory() const {
  for (const vgpu::Allocation& a : device_.memory().live())
    if (a.kind == vgpu::MemoryKind::Managed || a.kind == vgpu::MemoryKind::Pinned) return true;
  return false;
}

// A kernel may wait for the host, which has ended, forever: it gets some time only.
void HostCheck::run_remaining_work() {
  if (!launches_ || streams_.faulted()) return;
  waits_.count_waits(false);  // the program did not wait: we do
  if (shares_memory()) {
    const auto end = std::chrono::steady_clock::now() + kLeftOver;
    for (vgpu::OperationId operation : waits_.unwaited())
      while (!streams_.poll(operation) && !streams_.faulted() && std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
  } else {
    streams_.synchronise_all();
  }
  waits_.count_waits(true);
}

// What a Python program still holds at its end is not leaked: Python frees what is no longer referenced, and leaves the rest.
void HostCheck::report_leaks() {
  if (has_python()) return;
  evidence::Launch evidence;
  evidence::Growth& growth = evidence.growth.emplace();
  growth.what = "memory";
  for (const vgpu::Allocation& a : device_.memory().live()) {
    if (a.adopted || (a.kind != vgpu::MemoryKind::Device && a.kind != vgpu::MemoryKind::Managed &&
                      a.kind != vgpu::MemoryKind::Pinned))
      continue;
    if (std::find(variables_.begin(), variables_.end(), a.base) != variables_.end()) continue;
    if (growth.allocations++ == 0) evidence.allocation = checks::allocation_of(a);
    growth.held += a.size;
  }
  if (growth.allocations == 0) return;
  Finding finding = checks::finding_of(Kind::Leak, {}, std::move(evidence));
  finding.severity = Severity::Note;
  log_.add(std::string(to_string(Kind::Leak)), std::move(finding), {Kind::Leak});
}

void HostCheck::host_access(vgpu::Address address, bool writes, uint64_t code) {
  evidence::Access evidence;
  evidence.access = writes ? evidence::AccessKind::Write : evidence::AccessKind::Read;
  evidence.place = checks::place_of(device_.memory(), address);
  evidence.place.space = evidence::Space::Host;
  evidence.host.calls = {place_in_code(code)};
  report_(checks::finding_of(Kind::OutOfBounds, {}, std::move(evidence)));
}

}  // namespace assay::cudart
