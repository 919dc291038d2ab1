// libcudart.so.13 on the virtual GPU: the state of the process, and what every entry point shares.
//
// The entry points are grouped in api_*.cpp by theme. Each is a lambda in `api` (or `plain_api` when it
// needs no context), which turns whatever happens into a Status, remembers it for
// cudaGetLastError, and lets no exception out into the program.
#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <new>

#include "cudart/api.h"
#include "cudart/context.h"
#include "cudart/event_writer.h"
#include "cudart/modules.h"
#include "protocol/settings.h"

// A program compiled for per-thread default streams calls `name_ptsz`: handle 0 is then the thread's own.
#define ASSAY_API_PTSZ(name, parameters, ...)              \
  ASSAY_API assay::cudart::Status name##_ptsz parameters { \
    return name(__VA_ARGS__);                              \
  }

namespace assay::cudart {

class Runtime {
 public:
  // Never destroyed: programs call the runtime from their own static destructors.
  static Runtime& get();

  EventWriter& writer() { return writer_; }
  Modules& modules() { return modules_; }
  const protocol::Settings& settings() const { return settings_; }
  // Other settings than those of the environment, and a new device: for a process that was forked from one that had
  // no work on its own.
  void configure(protocol::Settings settings);
  // The context, made on first use.
  Context& context();
  Context* existing_context() { return context_.get(); }
  void reset_context();
  // In the child of a fork the device is gone.
  bool forked() const { return forked_; }
  // After a fault even a reset does not bring the device back to this process.
  bool lost() const { return lost_; }
  // Whether cudaFree counts as waiting for the device.
  std::atomic<bool> frees_wait{true};
  // Whether a call of the worker is under way whose launches are to be reported.
  std::atomic<bool> in_call{false};
  // Whether the program has called the runtime API itself, not only the driver API on top of it; and whether one of
  // these calls needed the device.
  bool called() const { return called_; }
  bool used() const { return used_; }
  void note_call();
  void note_use();

 private:
  Runtime();
  protocol::Settings settings_;
  EventWriter writer_;
  Modules modules_;
  std::mutex mutex_;
  std::shared_ptr<Context> context_;
  bool forked_ = false;
  bool lost_ = false;
  std::atomic<bool> called_ = false, used_ = false;
};

// What the runtime keeps for each thread.
struct ThreadState {
  Status last_error = Status::Success;
  bool in_driver = false;     // inside a call of the driver API (api.h)
  bool uses_runtime = false;  // has called a function of the runtime API that needs the device
};
ThreadState& thread_state();
// The calling thread's last error.
inline Status& last_error() {
  return thread_state().last_error;
}
// The status that a device fault gives to every call after it.
Status fault_status(const vgpu::FaultInfo& fault);
// The sticky status of the context: Success until the device faulted.
Status sticky_status(Context& context);

inline Status note(Status status) {
  if (status != Status::Success && status != Status::NotReady && !thread_state().in_driver)
    last_error() = status;
  return status;
}

template <class Body>
Status guarded(Body body) {
  try {
    return note(body());
  } catch (const std::bad_alloc&) {
    return note(Status::MemoryAllocation);
  } catch (const std::exception& error) {
    Runtime::get().writer().say(error.what());
    return note(Status::Unknown);
  }
}

// For entry points that need no context.
template <class Body>
Status plain_api(Body body) {
  return guarded([&]() -> Status {
    Runtime::get().note_call();
    return body();
  });
}

// For entry points that use the context: `body(Context&)` runs unless the device has faulted.
template <class Body>
Status api(Body body) {
  return guarded([&]() -> Status {
    Runtime& runtime = Runtime::get();
    if (runtime.forked()) return Status::InitializationError;
    if (runtime.lost()) return Status::DevicesUnavailable;
    runtime.note_use();
    Context& context = runtime.context();
    if (Status sticky = sticky_status(context); sticky != Status::Success) return sticky;
    return body(context);
  });
}

// Waits with `wait`, then lets out what the device printed and how it failed.
template <class Wait>
Status synchronised(Context& context, Wait wait) {
  wait();
  context.host_waited();
  context.flush_print();
  context.report_findings();
  return sticky_status(context);
}

// What handle 0 means to a *_ptsz entry point.
inline StreamHandle* own_stream(StreamHandle* stream) {
  return stream ? stream : kPerThreadStream;
}

// For entry points with a stream: `body(Context&, StreamHandle&)`.
template <class Body>
Status stream_api(StreamHandle* handle, Body body) {
  return api([&](Context& context) -> Status {
    StreamHandle* stream = context.stream(handle);
    return stream ? body(context, *stream) : Status::InvalidResourceHandle;
  });
}

// Names a function that is not provided, once, and says so.
Status not_supported(const char* function);

}  // namespace assay::cudart
