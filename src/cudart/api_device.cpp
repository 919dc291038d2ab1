// cudaDevice*, cudaGetLastError and the like: the device, versions, errors.
#include <cstdio>
#include <cstring>
#include <utility>

#include "cudart/graph.h"
#include "cudart/properties.h"
#include "cudart/runtime.h"

using namespace assay::cudart;

namespace {

constexpr size_t kLargestStack = 512 << 10, kSmallestHeap = 4 << 20;

thread_local int device_flags = 0;

struct StatusText {
  Status status;
  const char* name;
  const char* text;
};
constexpr StatusText kStatusTexts[] = {
#define STATUS(name, number, official, text) {Status::name, official, text},
#include "cudart/status.def"
};

const StatusText* find_text(Status status) {
  for (const StatusText& item : kStatusTexts)
    if (item.status == status) return &item;
  return nullptr;
}

const assay::Gpu& own_gpu() {
  return *Runtime::get().settings().gpu;
}

Status check_device(int device) {
  return device == 0 ? Status::Success : Status::InvalidDevice;
}

template <class T>
Status give(T* to, T value) {
  if (!to) return Status::InvalidValue;
  *to = value;
  return Status::Success;
}

}  // namespace

// ---- Errors ----

namespace {

void note_question() {
  Context* context = Runtime::get().existing_context();
  if (context && context->host_check()) context->host_check()->error_checked();
}

}  // namespace

ASSAY_API const char* cudaGetErrorName(Status status) {
  const StatusText* found = find_text(status);
  return found ? found->name : "unrecognized error code";
}
ASSAY_API const char* cudaGetErrorString(Status status) {
  const StatusText* found = find_text(status);
  return found ? found->text : "unrecognized error code";
}

// Every failing call leaves its error here until it is asked for; success does not erase it.
ASSAY_API Status cudaPeekAtLastError() {
  note_question();
  return last_error();
}
ASSAY_API Status cudaGetLastError() {
  note_question();
  return std::exchange(last_error(), Status::Success);
}

// ---- Device ----

ASSAY_API Status cudaGetDeviceCount(int* count) {
  return plain_api([&] { return give(count, 1); });
}
ASSAY_API Status cudaGetDevice(int* device) {
  return plain_api([&] { return give(device, 0); });
}
// As since CUDA 12: the primary context is active and current from here on.
ASSAY_API Status cudaSetDevice(int device) {
  return plain_api([&] {
    if (Status status = check_device(device); status != Status::Success) return status;
    Runtime::get().note_use();
    return Status::Success;
  });
}
ASSAY_API Status cudaInitDevice(int device, unsigned, unsigned) {
  if (device != 0) return note(Status::InvalidDevice);
  return api([](Context&) { return Status::Success; });
}
ASSAY_API Status cudaSetValidDevices(int* devices, int count) {
  return plain_api([&] {
    if (count < 0 || (count > 0 && !devices)) return Status::InvalidValue;
    for (int i = 0; i < count; ++i)
      if (devices[i] != 0) return Status::InvalidDevice;
    return Status::Success;
  });
}
ASSAY_API Status cudaChooseDevice(int* device, const DeviceProperties* wanted) {
  return plain_api([&] { return wanted ? give(device, 0) : Status::InvalidValue; });
}
ASSAY_API Status cudaSetDeviceFlags(unsigned flags) {
  return plain_api([&] {
    if (flags & ~0xffu) return Status::InvalidValue;
    device_flags = static_cast<int>(flags);
    return Status::Success;
  });
}
ASSAY_API Status cudaGetDeviceFlags(unsigned* flags) {
  return plain_api(
      [&] { return give(flags, static_cast<unsigned>(device_flags) | 8); });  // host memory is mapped
}

ASSAY_API Status cudaGetDeviceProperties(DeviceProperties* properties, int device) {
  return plain_api([&] {
    if (Status status = check_device(device); status != Status::Success) return status;
    return give(properties, device_properties(own_gpu()));
  });
}

ASSAY_API Status cudaDeviceGetAttribute(int* value, int attribute, int device) {
  return plain_api([&] {
    if (Status status = check_device(device); status != Status::Success) return status;
    auto found = device_attribute(own_gpu(), attribute);
    return found ? give(value, *found) : Status::InvalidValue;
  });
}

ASSAY_API Status cudaDeviceSynchronize() {
  return api([](Context& context) {
    if (Status status = check_capture(context, nullptr); status != Status::Success) return status;
    return synchronised(context, [&] { context.streams().synchronise_all(); });
  });
}

ASSAY_API Status cudaDeviceReset() {
  return plain_api([] {
    Runtime& runtime = Runtime::get();
    if (runtime.forked()) return Status::InitializationError;
    if (Context* context = runtime.existing_context()) {
      context->streams().synchronise_all();
      context->flush_print();
      context->report_fault();
      context->report_findings();
      context->report_precision();
      runtime.reset_context();
    }
    return Status::Success;
  });
}

ASSAY_API Status cudaDeviceGetLimit(size_t* value, Limit limit) {
  return api([&](Context& context) {
    if (static_cast<unsigned>(limit) > 7 || limit == Limit::SyncDepth) return Status::UnsupportedLimit;
    return give(value, static_cast<size_t>(context.limit(limit)));
  });
}
ASSAY_API Status cudaDeviceSetLimit(Limit limit, size_t value) {
  return api([&](Context& context) {
    if (static_cast<unsigned>(limit) > 7) return Status::InvalidValue;
    if (limit == Limit::SyncDepth) return Status::UnsupportedLimit;
    if (limit == Limit::StackSize && value > kLargestStack) return Status::InvalidValue;
    if (limit == Limit::MallocHeap) value = std::max<size_t>(value, kSmallestHeap);
    context.set_limit(limit, value);
    return Status::Success;
  });
}

ASSAY_API Status cudaDeviceGetCacheConfig(int* config) {
  return plain_api([&] { return give(config, 0); });
}
ASSAY_API Status cudaDeviceSetCacheConfig(int config) {
  return plain_api([&] { return config >= 0 && config <= 3 ? Status::Success : Status::InvalidValue; });
}
ASSAY_API Status cudaDeviceGetSharedMemConfig(int* config) {
  return plain_api([&] { return give(config, 1); });
}
ASSAY_API Status cudaDeviceSetSharedMemConfig(int config) {
  return plain_api([&] { return config >= 0 && config <= 2 ? Status::Success : Status::InvalidValue; });
}
ASSAY_API Status cudaCtxResetPersistingL2Cache() {
  return api([](Context&) { return Status::Success; });
}

ASSAY_API Status cudaDeviceGetPCIBusId(char* text, int size, int device) {
  return plain_api([&] {
    if (Status status = check_device(device); status != Status::Success) return status;
    if (!text || size <= 0) return Status::InvalidValue;
    std::snprintf(text, static_cast<size_t>(size), "%04x:%02x:%02x.0", 0, own_gpu().pci_bus,
                  own_gpu().pci_device);
    return Status::Success;
  });
}
ASSAY_API Status cudaDeviceGetByPCIBusId(int* device, const char* text) {
  return plain_api([&] {
    if (!device || !text) return Status::InvalidValue;
    char own[32];
    (void)cudaDeviceGetPCIBusId(own, sizeof own, 0);
    return std::strcmp(own, text) == 0 ? give(device, 0) : Status::InvalidDevice;
  });
}

// One device has no peers.
ASSAY_API Status cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return plain_api([&] {
    if (device != 0 || peer != 0) return Status::InvalidDevice;
    return give(can, 0);
  });
}
ASSAY_API Status cudaDeviceEnablePeerAccess(int device, unsigned) {
  return note(device == 0 ? Status::PeerAccessUnsupported : Status::InvalidDevice);
}
ASSAY_API Status cudaDeviceDisablePeerAccess(int device) {
  return note(device == 0 ? Status::PeerAccessNotEnabled : Status::InvalidDevice);
}
ASSAY_API Status cudaDeviceGetP2PAttribute(int*, int, int, int) {
  return note(Status::InvalidDevice);
}

ASSAY_API Status cudaDriverGetVersion(int* version) {
  return plain_api([&] { return give(version, kDriverVersion); });
}
ASSAY_API Status cudaRuntimeGetVersion(int* version) {
  return plain_api([&] { return give(version, kRuntimeVersion); });
}

ASSAY_API Status cudaProfilerStart() {
  return Status::Success;
}
ASSAY_API Status cudaProfilerStop() {
  return Status::Success;
}

ASSAY_API ChannelFormat cudaCreateChannelDesc(int x, int y, int z, int w, int kind) {
  return {x, y, z, w, kind};
}
