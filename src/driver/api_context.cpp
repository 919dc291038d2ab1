// cuCtx*, cuDevicePrimaryCtx*.
#include "driver/driver.h"

using namespace assay::driver;
using namespace assay::cudart;

namespace {

constexpr unsigned kContextFlags = 0xff;
constexpr unsigned kContextApi = 3020;  // of every context that was not made with the API of CUDA 3.1

Status create(ContextHandle** context, unsigned flags, int device) {
  return without_context([&] {
    if (!context || (flags & ~kContextFlags)) return Status::InvalidValue;
    if (device != 0) return Status::InvalidDevice;
    *context = create_context(flags);
    push(*context);
    return Status::Success;
  });
}

Status check_device(int device) {
  return device == 0 ? Status::Success : Status::InvalidDevice;
}

// Some functions take a context, where null is the current one.
template <class Body>
Status with_context(ContextHandle* context, Body body) {
  return without_context([&]() -> Status {
    if (!context) {
      if (Status status = check_current(); status != Status::Success) return status;
      context = current();
    }
    return is_alive(context) ? body(*context) : Status::ContextIsDestroyed;
  });
}

}  // namespace

// ---- Created contexts ----

DRIVER_API Status cuCtxCreate(ContextHandle** context, unsigned flags, int device) {
  return create(context, flags, device);
}
DRIVER_API Status cuCtxCreate_v2(ContextHandle** context, unsigned flags, int device) {
  return create(context, flags, device);
}
// Which multiprocessors the context may use is a hint here.
DRIVER_API Status cuCtxCreate_v3(ContextHandle** context, void*, int, unsigned flags, int device) {
  return create(context, flags, device);
}
DRIVER_API Status cuCtxCreate_v4(ContextHandle** context, void*, unsigned flags, int device) {
  return create(context, flags, device);
}

DRIVER_API Status cuCtxDestroy_v2(ContextHandle* context) {
  return without_context([&] {
    if (!context) return Status::InvalidValue;
    return destroy_context(context) ? Status::Success : Status::DeviceUninitialized;
  });
}
DRIVER_API Status cuCtxDestroy(ContextHandle* context) {
  return cuCtxDestroy_v2(context);
}
DRIVER_API Status cuCtxAttach(ContextHandle** context, unsigned flags) {
  return in_context([&] {
    if (!context || flags != 0) return Status::InvalidValue;
    *context = current();
    ++(*context)->references;
    return Status::Success;
  });
}
DRIVER_API Status cuCtxDetach(ContextHandle* context) {
  return in_context([&] {
    if (!context || context != current() || context->is_primary) return Status::DeviceUninitialized;
    if (--context->references == 0) destroy_context(context);
    return Status::Success;
  });
}

// ---- The primary context ----

DRIVER_API Status cuDevicePrimaryCtxRetain(ContextHandle** context, int device) {
  return without_context([&] {
    if (Status status = check_device(device); status != Status::Success) return status;
    if (!context) return Status::InvalidValue;
    *context = retain_primary();
    return Status::Success;
  });
}
DRIVER_API Status cuDevicePrimaryCtxRelease_v2(int device) {
  return without_context([&] {
    if (Status status = check_device(device); status != Status::Success) return status;
    return release_primary() ? Status::Success : Status::DeviceUninitialized;
  });
}
DRIVER_API Status cuDevicePrimaryCtxRelease(int device) {
  return cuDevicePrimaryCtxRelease_v2(device);
}
DRIVER_API Status cuDevicePrimaryCtxReset_v2(int device) {
  return without_context([&] {
    if (Status status = check_device(device); status != Status::Success) return status;
    reset_primary();
    return Status::Success;
  });
}
DRIVER_API Status cuDevicePrimaryCtxReset(int device) {
  return cuDevicePrimaryCtxReset_v2(device);
}
DRIVER_API Status cuDevicePrimaryCtxSetFlags_v2(int device, unsigned flags) {
  return without_context([&] {
    if (Status status = check_device(device); status != Status::Success) return status;
    if (flags & ~kContextFlags) return Status::InvalidValue;
    primary_context()->flags = flags;
    return Status::Success;
  });
}
DRIVER_API Status cuDevicePrimaryCtxSetFlags(int device, unsigned flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}
DRIVER_API Status cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  return without_context([&] {
    if (Status status = check_device(device); status != Status::Success) return status;
    if (!flags || !active) return Status::InvalidValue;
    *flags = primary_context()->flags;
    *active = is_primary_active();
    return Status::Success;
  });
}

// ---- What is current ----

DRIVER_API Status cuCtxGetCurrent(ContextHandle** context) {
  return without_context([&] { return give(context, current()); });
}
DRIVER_API Status cuCtxSetCurrent(ContextHandle* context) {
  return without_context([&] {
    if (context && !is_alive(context)) return Status::DeviceUninitialized;
    set_current(context);
    return Status::Success;
  });
}
DRIVER_API Status cuCtxPushCurrent_v2(ContextHandle* context) {
  return without_context([&] {
    if (!context) return Status::InvalidValue;
    if (!is_alive(context)) return Status::DeviceUninitialized;
    push(context);
    return Status::Success;
  });
}
DRIVER_API Status cuCtxPushCurrent(ContextHandle* context) {
  return cuCtxPushCurrent_v2(context);
}
DRIVER_API Status cuCtxPopCurrent_v2(ContextHandle** context) {
  return without_context([&] {
    ContextHandle* top = pop();
    if (!top) return Status::DeviceUninitialized;
    if (context) *context = top;
    return Status::Success;
  });
}
DRIVER_API Status cuCtxPopCurrent(ContextHandle** context) {
  return cuCtxPopCurrent_v2(context);
}

// ---- What is known of a context ----

FORWARD(cuCtxGetDevice, (int* device), give(device, 0))
DRIVER_API Status cuCtxGetDevice_v2(int* device, ContextHandle* context) {
  return with_context(context, [&](ContextHandle&) { return give(device, 0); });
}
FORWARD(cuCtxGetFlags, (unsigned* flags), give(flags, current()->flags))
DRIVER_API Status cuCtxSetFlags(unsigned flags) {
  return in_context([&] {
    if (flags & ~kContextFlags) return Status::InvalidValue;
    current()->flags = flags;
    return Status::Success;
  });
}
DRIVER_API Status cuCtxGetId(ContextHandle* context, unsigned long long* id) {
  return with_context(context, [&](ContextHandle& found) { return give<unsigned long long>(id, found.id); });
}
DRIVER_API Status cuCtxGetApiVersion(ContextHandle* context, unsigned* version) {
  return with_context(context, [&](ContextHandle&) { return give(version, kContextApi); });
}

FORWARD(cuCtxSynchronize, (), cudaDeviceSynchronize())
DRIVER_API Status cuCtxSynchronize_v2(ContextHandle* context) {
  return with_context(context, [&](ContextHandle&) { return cudaDeviceSynchronize(); });
}
FORWARD(cuCtxGetLimit, (size_t * value, Limit limit), cudaDeviceGetLimit(value, limit))
FORWARD(cuCtxSetLimit, (Limit limit, size_t value), cudaDeviceSetLimit(limit, value))
FORWARD(cuCtxGetCacheConfig, (int* config), cudaDeviceGetCacheConfig(config))
FORWARD(cuCtxSetCacheConfig, (int config), cudaDeviceSetCacheConfig(config))
FORWARD(cuCtxGetSharedMemConfig, (int* config), cudaDeviceGetSharedMemConfig(config))
FORWARD(cuCtxSetSharedMemConfig, (int config), cudaDeviceSetSharedMemConfig(config))
FORWARD(cuCtxGetStreamPriorityRange, (int* least, int* greatest),
        cudaDeviceGetStreamPriorityRange(least, greatest))
FORWARD(cuCtxResetPersistingL2Cache, (), cudaCtxResetPersistingL2Cache())

// One device has no peers.
DRIVER_API Status cuCtxEnablePeerAccess(ContextHandle* peer, unsigned flags) {
  return in_context([&] {
    if (!peer || !is_alive(peer)) return Status::DeviceUninitialized;
    return cudaDeviceEnablePeerAccess(0, flags);
  });
}
DRIVER_API Status cuCtxDisablePeerAccess(ContextHandle* peer) {
  return in_context([&] {
    if (!peer || !is_alive(peer)) return Status::DeviceUninitialized;
    return cudaDeviceDisablePeerAccess(0);
  });
}
