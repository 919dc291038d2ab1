#include "cudart/runtime.h"

#include <pthread.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace assay::cudart {
namespace {

bool* forked_flag = nullptr;

// Runs after the destructors of the program's own objects, which may still free what they hold.
__attribute__((destructor)) void end_of_program() {
  if (!forked_flag || *forked_flag) return;
  Context* context = Runtime::get().existing_context();
  if (context && context->activity()) context->activity()->end();
  if (!context || !context->host_check()) return;
  context->host_check()->end();
  context->report_findings();
}

// A program whose settings cannot be read would run unchecked without a word: it ends instead.
protocol::Settings settings_or_exit() {
  auto settings = protocol::settings_from([](const char* name) -> const char* { return std::getenv(name); });
  if (settings) return *settings;
  std::fprintf(stderr, "assay: %s\n", settings.error().text().c_str());
  std::_Exit(2);
}

}  // namespace

Runtime& Runtime::get() {
  static Runtime* runtime = new Runtime;
  return *runtime;
}

Runtime::Runtime() : settings_(settings_or_exit()), writer_(settings_), modules_(writer_) {}

void Runtime::configure(protocol::Settings settings) {
  {
    std::lock_guard lock(mutex_);
    settings_ = std::move(settings);
    writer_.open(settings_);
    forked_ = false;
    if (context_) {
      // Of the process that this one was forked from: its threads are not here to be ended, so it stays as it is.
      new std::shared_ptr<Context>(std::move(context_));
      context_ = nullptr;
      for (const int handled : {SIGSEGV, SIGTRAP}) std::signal(handled, SIG_DFL);
    }
  }
  modules_.forget_loaded();
}

Context& Runtime::context() {
  std::lock_guard lock(mutex_);
  if (!context_) {
    context_ = std::make_shared<Context>(settings_, writer_);
    if (!forked_flag) {
      forked_flag = &forked_;
      pthread_atfork(nullptr, nullptr, [] { *forked_flag = true; });
      // Registered after everything that the program constructed before its first CUDA call.
      std::atexit([] {
        if (Context* context = get().existing_context(); context && !get().forked()) {
          context->report_precision();
          if (HostCheck* check = context->host_check()) check->run_remaining_work();
          context->streams().stop_background_work();
        }
      });
    }
  }
  return *context_;
}

void Runtime::reset_context() {
  std::lock_guard lock(mutex_);
  lost_ = context_ && context_->streams().faulted();
  context_.reset();
  used_ = false;
  modules_.forget_loaded();
}

void Runtime::note_use() {
  ThreadState& thread = thread_state();
  if (thread.in_driver || (thread.uses_runtime && used_)) return;
  thread.uses_runtime = true;
  called_ = used_ = true;
}

void Runtime::note_call() {
  if (!called_ && !thread_state().in_driver) called_ = true;
}

ThreadState& thread_state() {
  thread_local ThreadState state;
  return state;
}

Status fault_status(const vgpu::FaultInfo& fault) {
  using Kind = vgpu::FaultInfo::Kind;
  switch (fault.kind) {
    case Kind::None:
      return Status::Success;
    case Kind::IllegalAddress:
      return Status::IllegalAddress;
    case Kind::MisalignedAddress:
      return Status::MisalignedAddress;
    case Kind::InvalidAddressSpace:
      return Status::InvalidAddressSpace;
    case Kind::Trap:
      return Status::LaunchFailure;
    case Kind::Assert:
      return Status::Assert;
    case Kind::IllegalInstruction:
      return Status::IllegalInstruction;
    case Kind::Deadlock:
    case Kind::Livelock:
      return Status::LaunchTimeout;
    case Kind::StackOverflow:
      return Status::HardwareStackError;
    case Kind::HeapExhausted:
      return Status::LaunchFailure;
    case Kind::InvalidProgramCounter:
      return Status::InvalidPc;
  }
  return Status::LaunchFailure;
}

Status sticky_status(Context& context) {
  if (!context.streams().faulted()) return Status::Success;
  context.report_fault();
  return fault_status(context.streams().fault());
}

Status not_supported(const char* function) {
  return plain_api([&] {
    Runtime::get().writer().unsupported(function);
    return Status::NotSupported;
  });
}

}  // namespace assay::cudart
