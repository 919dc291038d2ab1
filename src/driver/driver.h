// libcuda.so.1 on the virtual GPU: what every entry point of the driver API shares.
//
// The library is a thin layer over the runtime's (cudart/api.h), which owns the device, its memory, streams, graphs and
// modules. Handles of both APIs are the same pointers and status codes the same numbers, so most entry points forward
// to their namesake. What this library keeps is what only the driver API has: contexts and which of them is current
// on a thread (context.h), and the state of the linker.
//
// The entry points are grouped in api_*.cpp by theme, in the same themes as the runtime's:
//
//   FORWARD(cuMemFree_v2, (void* pointer), cudaFree(pointer))
//   FORWARD_STREAM(cuMemFreeAsync, (void* pointer, StreamHandle* stream), cudaFreeAsync(pointer, stream))
//
// symbols.def lists all functions of the API. Those that are not provided are defined in missing.cpp.
#pragma once

#include "cudart/api.h"
#include "driver/abi.h"
#include "driver/context.h"

#define DRIVER_API extern "C" __attribute__((visibility("default")))

namespace assay::driver {

using cudart::Status;

// Some errors exist in the runtime API only.
inline Status driver_status(Status status) {
  switch (status) {
    case Status::InvalidPitchValue:
    case Status::InvalidMemcpyDirection:
    case Status::MissingConfiguration:
      return Status::InvalidValue;
    case Status::InvalidSymbol:
      return Status::SymbolNotFound;
    case Status::InvalidDeviceFunction:
      return Status::InvalidResourceHandle;
    default:
      return status;
  }
}

// Tells the runtime that a call comes from the driver API.
class InDriver {
 public:
  InDriver() : flag_(*cudart::assay_in_driver()), before_(flag_) { flag_ = true; }
  ~InDriver() { flag_ = before_; }
  InDriver(const InDriver&) = delete;
  InDriver& operator=(const InDriver&) = delete;

 private:
  bool& flag_;
  bool before_;
};

// For entry points that need no context, only an initialised driver.
template <class Body>
Status without_context(Body body) {
  if (!is_initialised()) return Status::InitializationError;
  const InDriver inside;
  return driver_status(body());
}

// For entry points that work in the current context of the thread.
template <class Body>
Status in_context(Body body) {
  if (Status status = check_current(); status != Status::Success) return status;
  const InDriver inside;
  return driver_status(body());
}

template <class T>
Status give(T* to, T value) {
  if (!to) return Status::InvalidValue;
  *to = value;
  return Status::Success;
}

// What handle 0 means to entry points compiled for per-thread default streams.
inline cudart::StreamHandle* own_stream(cudart::StreamHandle* stream) {
  return stream ? stream : cudart::kPerThreadStream;
}

}  // namespace assay::driver

#define FORWARD(name, parameters, ...)                             \
  DRIVER_API assay::cudart::Status name parameters {               \
    return assay::driver::in_context([&] { return __VA_ARGS__; }); \
  }
// With its variant for per-thread default streams; the parameter is called `stream`.
#define FORWARD_STREAM(name, parameters, ...)                      \
  FORWARD(name, parameters, __VA_ARGS__)                           \
  DRIVER_API assay::cudart::Status name##_ptsz parameters {        \
    stream = assay::driver::own_stream(stream);                    \
    return assay::driver::in_context([&] { return __VA_ARGS__; }); \
  }
// Before anything is current.
#define FORWARD_WITHOUT_CONTEXT(name, parameters, ...)                  \
  DRIVER_API assay::cudart::Status name parameters {                    \
    return assay::driver::without_context([&] { return __VA_ARGS__; }); \
  }
