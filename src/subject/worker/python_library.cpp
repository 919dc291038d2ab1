// The worker as a library that an interpreter loads (python/assay/worker/library.py): libassay-worker.so.
#include <unistd.h>

#include "protocol/hooks.h"
#include "protocol/lines.h"
#include "protocol/messages.h"
#include "protocol/protocol.h"
#include "subject/worker/runtime.h"
#include "subject/worker/worker.h"

#define FOR_PYTHON extern "C" __attribute__((visibility("default")))

namespace {

// The runtime that the preloaded library is; loaded on the first use.
const assay::worker::Runtime& runtime() {
  static const assay::worker::Runtime loaded = [] {
    assay::worker::Runtime found{};
    assay::worker::load(found, false);
    return found;
  }();
  return loaded;
}

}  // namespace

// Serves the command until it closes the socket; returns the exit status.
FOR_PYTHON int assay_worker_run(const assay::worker::PythonCalls* calls) {
  return assay::worker::run(calls);
}

// Settings of the runtime library, before the device is used.
FOR_PYTHON void assay_worker_configure(const char* settings) {
  if (runtime().assay_configure) runtime().assay_configure(settings);
}

// Copies an output that a function returned to where the command looks for it; a cudaError_t.
FOR_PYTHON int assay_worker_copy(void* to, const void* from, uint64_t bytes, void* stream) {
  return runtime().cudaMemcpyAsync(to, from, bytes, assay::worker::kDeviceToDevice, stream);
}

// Code is being compiled from here on, or no longer.
FOR_PYTHON void assay_worker_building(int begins) {
  assay::protocol::send_line(assay::protocol::kSocket, encode(assay::protocol::Building{begins != 0}));
}

// A finding about the subject's Python code.
FOR_PYTHON void assay_worker_report(int kind, int is_error, const char* text, const char* file, int line) {
  if (runtime().assay_report_python)
    runtime().assay_report_python(static_cast<assay_host_finding>(kind), is_error, text, file, line);
}

// Before a call of the function: notes which work waits for which.
FOR_PYTHON void assay_worker_watch_order() {
  if (runtime().assay_watch_order) runtime().assay_watch_order();
}

// After it: assay_work_left of protocol/hooks.h.
FOR_PYTHON int assay_worker_work_left(void* stream, char* kernel, uint64_t capacity,
                                      void (*frame)(const char* file, int line)) {
  return runtime().assay_work_left ? runtime().assay_work_left(stream, kernel, capacity, frame) : 0;
}
