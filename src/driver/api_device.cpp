// cuInit, cuDevice*, cuDriverGetVersion, cuGetError*: the device, versions, errors.
#include <algorithm>
#include <cstring>
#include <optional>

#include "driver/driver.h"

using namespace assay::driver;
using namespace assay::cudart;

namespace {

struct ResultName {
  Status status;
  const char* name;
};
constexpr ResultName kResultNames[] = {
#define RESULT(number, name) {static_cast<Status>(number), #name},
#include "driver/results.def"
};

const char* name_of(Status status) {
  for (const ResultName& item : kResultNames)
    if (item.status == status) return item.name;
  return nullptr;
}

int attribute_of(int attribute) {
  int value = 0;
  (void)cudaDeviceGetAttribute(&value, attribute, 0);
  return value;
}

// `body(properties)` of device 0.
template <class Body>
Status with_properties(int device, Body body) {
  return without_context([&] {
    DeviceProperties properties;
    if (Status status = cudaGetDeviceProperties(&properties, device); status != Status::Success)
      return status;
    return body(properties);
  });
}

Status give_uuid(char* uuid, int device) {
  return with_properties(device, [&](const DeviceProperties& properties) {
    if (!uuid) return Status::InvalidValue;
    std::memcpy(uuid, properties.uuid, sizeof properties.uuid);
    return Status::Success;
  });
}

}  // namespace

DRIVER_API Status cuInit(unsigned flags) {
  if (flags != 0) return Status::InvalidValue;
  initialise();
  return Status::Success;
}
DRIVER_API Status cuDriverGetVersion(int* version) {
  const InDriver inside;
  return cudaDriverGetVersion(version);
}

DRIVER_API Status cuGetErrorName(Status status, const char** name) {
  if (!name) return Status::InvalidValue;
  *name = name_of(status);
  return *name ? Status::Success : Status::InvalidValue;
}
DRIVER_API Status cuGetErrorString(Status status, const char** text) {
  if (!text) return Status::InvalidValue;
  *text = name_of(status) ? cudaGetErrorString(status) : nullptr;
  return *text ? Status::Success : Status::InvalidValue;
}

// ---- Devices ----

FORWARD_WITHOUT_CONTEXT(cuDeviceGetCount, (int* count), cudaGetDeviceCount(count))
DRIVER_API Status cuDeviceGet(int* device, int ordinal) {
  return without_context([&] { return ordinal == 0 ? give(device, 0) : Status::InvalidDevice; });
}
DRIVER_API Status cuDeviceGetName(char* name, int size, int device) {
  return with_properties(device, [&](const DeviceProperties& properties) {
    if (!name || size <= 0) return Status::InvalidValue;
    const size_t length = std::min(std::strlen(properties.name), static_cast<size_t>(size) - 1);
    std::memcpy(name, properties.name, length);
    name[length] = '\0';
    return Status::Success;
  });
}
DRIVER_API Status cuDeviceGetUuid(char* uuid, int device) {
  return give_uuid(uuid, device);
}
DRIVER_API Status cuDeviceGetUuid_v2(char* uuid, int device) {
  return give_uuid(uuid, device);
}
DRIVER_API Status cuDeviceTotalMem_v2(size_t* bytes, int device) {
  return with_properties(
      device, [&](const DeviceProperties& properties) { return give(bytes, properties.global_bytes); });
}
FORWARD_WITHOUT_CONTEXT(cuDeviceGetAttribute, (int* value, int attribute, int device),
                        cudaDeviceGetAttribute(value, attribute, device))
DRIVER_API Status cuDeviceComputeCapability(int* major, int* minor, int device) {
  return with_properties(device, [&](const DeviceProperties& properties) {
    if (!major || !minor) return Status::InvalidValue;
    *major = properties.major;
    *minor = properties.minor;
    return Status::Success;
  });
}
DRIVER_API Status cuDeviceGetProperties(LegacyProperties* legacy, int device) {
  constexpr int kClockRate = 13;
  return with_properties(device, [&](const DeviceProperties& found) {
    if (!legacy) return Status::InvalidValue;
    *legacy = {.max_threads = found.max_threads_per_block,
               .max_block = {found.max_block[0], found.max_block[1], found.max_block[2]},
               .max_grid = {found.max_grid[0], found.max_grid[1], found.max_grid[2]},
               .shared_per_block = static_cast<int>(found.shared_per_block),
               .const_bytes = static_cast<int>(found.const_bytes),
               .warp_size = found.warp_size,
               .max_pitch = static_cast<int>(found.max_pitch),
               .registers_per_block = found.registers_per_block,
               .clock_khz = attribute_of(kClockRate),
               .texture_alignment = static_cast<int>(found.texture_alignment)};
    return Status::Success;
  });
}
// Nothing restricts a context to some multiprocessors here.
DRIVER_API Status cuDeviceGetExecAffinitySupport(int* supported, int, int device) {
  return with_properties(device, [&](const DeviceProperties&) { return give(supported, 0); });
}

FORWARD_WITHOUT_CONTEXT(cuDeviceGetPCIBusId, (char* text, int size, int device),
                        cudaDeviceGetPCIBusId(text, size, device))
FORWARD_WITHOUT_CONTEXT(cuDeviceGetByPCIBusId, (int* device, const char* text),
                        cudaDeviceGetByPCIBusId(device, text))
FORWARD_WITHOUT_CONTEXT(cuDeviceCanAccessPeer, (int* can, int device, int peer),
                        cudaDeviceCanAccessPeer(can, device, peer))
FORWARD_WITHOUT_CONTEXT(cuDeviceGetP2PAttribute, (int* value, int attribute, int from, int to),
                        cudaDeviceGetP2PAttribute(value, attribute, from, to))

FORWARD_WITHOUT_CONTEXT(cuDeviceGetDefaultMemPool, (PoolHandle * *pool, int device),
                        cudaDeviceGetDefaultMemPool(pool, device))
FORWARD_WITHOUT_CONTEXT(cuDeviceGetMemPool, (PoolHandle * *pool, int device),
                        cudaDeviceGetMemPool(pool, device))
FORWARD_WITHOUT_CONTEXT(cuDeviceSetMemPool, (int device, PoolHandle* pool),
                        cudaDeviceSetMemPool(device, pool))
FORWARD_WITHOUT_CONTEXT(cuDeviceGetGraphMemAttribute, (int device, int attribute, void* value),
                        cudaDeviceGetGraphMemAttribute(device, attribute, value))
FORWARD_WITHOUT_CONTEXT(cuDeviceSetGraphMemAttribute, (int device, int attribute, void* value),
                        cudaDeviceSetGraphMemAttribute(device, attribute, value))
FORWARD_WITHOUT_CONTEXT(cuDeviceGraphMemTrim, (int device), cudaDeviceGraphMemTrim(device))

FORWARD_WITHOUT_CONTEXT(cuProfilerStart, (), cudaProfilerStart())
FORWARD_WITHOUT_CONTEXT(cuProfilerStop, (), cudaProfilerStop())

// ---- Logs: this driver writes none ----

namespace {

char log_handle;  // what the program holds

}  // namespace

DRIVER_API Status cuLogsRegisterCallback(void* callback, void*, void** handle) {
  return without_context([&] { return callback ? give<void*>(handle, &log_handle) : Status::InvalidValue; });
}
DRIVER_API Status cuLogsUnregisterCallback(void* handle) {
  return without_context([&] { return handle == &log_handle ? Status::Success : Status::InvalidValue; });
}
DRIVER_API Status cuLogsCurrent(unsigned* position, unsigned flags) {
  return without_context([&] { return flags == 0 ? give(position, 0u) : Status::InvalidValue; });
}
