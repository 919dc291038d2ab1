// cuMem*, cuPointer*: allocation, pools, and what a pointer is.
#include <cstring>

#include "driver/driver.h"

using namespace assay::driver;
using namespace assay::cudart;

// ---- Allocation. Unlike the runtime, the driver refuses to allocate nothing on the device. ----

FORWARD(cuMemGetInfo_v2, (size_t * free, size_t* total), cudaMemGetInfo(free, total))
FORWARD(cuMemAlloc_v2, (void** pointer, size_t bytes),
        bytes ? cudaMalloc(pointer, bytes) : Status::InvalidValue)
FORWARD(cuMemFree_v2, (void* pointer), cudaFree(pointer))
FORWARD(cuMemAllocPitch_v2, (void** pointer, size_t* pitch, size_t width, size_t height, unsigned element),
        width&& height && (element == 4 || element == 8 || element == 16)
            ? cudaMallocPitch(pointer, pitch, width, height)
            : Status::InvalidValue)
FORWARD(cuMemAllocManaged, (void** pointer, size_t bytes, unsigned flags),
        bytes ? cudaMallocManaged(pointer, bytes, flags) : Status::InvalidValue)
FORWARD(cuMemAllocHost_v2, (void** pointer, size_t bytes), cudaMallocHost(pointer, bytes))
FORWARD(cuMemHostAlloc, (void** pointer, size_t bytes, unsigned flags), cudaHostAlloc(pointer, bytes, flags))
FORWARD(cuMemFreeHost, (void* pointer), cudaFreeHost(pointer))
FORWARD(cuMemHostRegister_v2, (void* pointer, size_t bytes, unsigned flags),
        cudaHostRegister(pointer, bytes, flags))
FORWARD(cuMemHostRegister, (void* pointer, size_t bytes, unsigned flags),
        cudaHostRegister(pointer, bytes, flags))
FORWARD(cuMemHostUnregister, (void* pointer), cudaHostUnregister(pointer))
FORWARD(cuMemHostGetDevicePointer_v2, (void** device, void* host, unsigned flags),
        cudaHostGetDevicePointer(device, host, flags))
FORWARD(cuMemHostGetFlags, (unsigned* flags, void* host), cudaHostGetFlags(flags, host))

FORWARD_STREAM(cuMemAllocAsync, (void** pointer, size_t bytes, StreamHandle* stream),
               cudaMallocAsync(pointer, bytes, stream))
FORWARD_STREAM(cuMemAllocFromPoolAsync,
               (void** pointer, size_t bytes, PoolHandle* pool, StreamHandle* stream),
               cudaMallocFromPoolAsync(pointer, bytes, pool, stream))
FORWARD_STREAM(cuMemFreeAsync, (void* pointer, StreamHandle* stream), cudaFreeAsync(pointer, stream))

// ---- Pools ----

FORWARD(cuMemGetDefaultMemPool, (PoolHandle * *pool, MemoryLocation* location, int allocation_kind),
        cudaMemGetDefaultMemPool(pool, location, allocation_kind))
FORWARD(cuMemGetMemPool, (PoolHandle * *pool, MemoryLocation* location, int allocation_kind),
        cudaMemGetMemPool(pool, location, allocation_kind))
FORWARD(cuMemSetMemPool, (MemoryLocation * location, int allocation_kind, PoolHandle* pool),
        cudaMemSetMemPool(location, allocation_kind, pool))
FORWARD(cuMemPoolCreate, (PoolHandle * *pool, const PoolProperties* properties),
        cudaMemPoolCreate(pool, properties))
FORWARD(cuMemPoolDestroy, (PoolHandle * pool), cudaMemPoolDestroy(pool))
FORWARD(cuMemPoolTrimTo, (PoolHandle * pool, size_t bytes), cudaMemPoolTrimTo(pool, bytes))
FORWARD(cuMemPoolGetAttribute, (PoolHandle * pool, PoolAttribute attribute, void* value),
        cudaMemPoolGetAttribute(pool, attribute, value))
FORWARD(cuMemPoolSetAttribute, (PoolHandle * pool, PoolAttribute attribute, void* value),
        cudaMemPoolSetAttribute(pool, attribute, value))
FORWARD(cuMemPoolGetAccess, (int* flags, PoolHandle* pool, MemoryLocation* location),
        cudaMemPoolGetAccess(flags, pool, location))
FORWARD(cuMemPoolSetAccess, (PoolHandle * pool, const AccessDescription* access, size_t count),
        cudaMemPoolSetAccess(pool, access, count))

// ---- Managed memory ----

namespace {

// Where a device is meant, -1 is the host.
MemoryLocation location_of(int device) {
  constexpr int kDevice = 1, kHost = 2;
  return device < 0 ? MemoryLocation{kHost, 0} : MemoryLocation{kDevice, device};
}

}  // namespace

FORWARD_STREAM(cuMemPrefetchAsync_v2,
               (void* pointer, size_t bytes, MemoryLocation location, unsigned flags, StreamHandle* stream),
               cudaMemPrefetchAsync(pointer, bytes, location, flags, stream))
FORWARD_STREAM(cuMemPrefetchAsync, (void* pointer, size_t bytes, int device, StreamHandle* stream),
               cudaMemPrefetchAsync(pointer, bytes, location_of(device), 0, stream))
FORWARD(cuMemAdvise_v2, (void* pointer, size_t bytes, int advice, MemoryLocation location),
        cudaMemAdvise(pointer, bytes, advice, location))
FORWARD(cuMemAdvise, (void* pointer, size_t bytes, int advice, int device),
        cudaMemAdvise(pointer, bytes, advice, location_of(device)))

// ---- Pointers ----

namespace {

template <class T>
Status write(void* to, T value) {
  std::memcpy(to, &value, sizeof(T));  // NOLINT(bugprone-sizeof-expression): a pointer is a value here, too
  return Status::Success;
}
// Yes and no take four bytes.
Status write(void* to, bool value) {
  return write(to, value ? 1u : 0u);
}

Status attribute_of(const AllocationInfo& allocation, void* pointer, PointerAttribute attribute, void* to) {
  constexpr int kReadWrite = 3;
  const bool is_host = allocation.kind == PointerKind::Host,
             is_managed = allocation.kind == PointerKind::Managed;
  switch (attribute) {
    case PointerAttribute::Context:
      return write(to, current());
    case PointerAttribute::MemoryType:
      return write(to, is_host ? MemoryType::Host : MemoryType::Device);
    case PointerAttribute::DevicePointer:
      return write(to, pointer);
    case PointerAttribute::HostPointer:
      (void)write(to, is_host || is_managed ? pointer : nullptr);
      return is_host || is_managed ? Status::Success : Status::InvalidValue;
    case PointerAttribute::BufferId:
    case PointerAttribute::BlockId:
      return write(to, allocation.id);
    case PointerAttribute::IsManaged:
      return write(to, is_managed);
    case PointerAttribute::DeviceOrdinal:
      return write(to, 0);
    case PointerAttribute::RangeStart:
    case PointerAttribute::MappingBase:
      return write(to, allocation.start);
    case PointerAttribute::RangeSize:
    case PointerAttribute::MappingSize:
      return write(to, allocation.bytes);
    case PointerAttribute::Mapped:
      return write(to, true);
    case PointerAttribute::AllowedHandleTypes:
      return write(to, uint64_t{0});  // none can be exported
    case PointerAttribute::AccessFlags:
      return write(to, kReadWrite);
    case PointerAttribute::PoolHandle:
      return write(to, allocation.pool);
    case PointerAttribute::SyncMemops:
      return write(to, !is_host);
    case PointerAttribute::IsLegacyIpcCapable:
    case PointerAttribute::IsRdmaCapable:
    case PointerAttribute::IsHardwareDecompressCapable:
      return write(to, false);
    case PointerAttribute::P2PTokens:
      return assay_not_supported("CU_POINTER_ATTRIBUTE_P2P_TOKENS");
  }
  return Status::InvalidValue;
}

// What an attribute reads as for memory that CUDA knows nothing of, as an H200 answers.
Status foreign_attribute(void* pointer, PointerAttribute attribute, void* to) {
  constexpr int kNoDevice = -2;
  switch (attribute) {
    case PointerAttribute::HostPointer:
      return write(to, pointer);
    case PointerAttribute::DeviceOrdinal:
      return write(to, kNoDevice);
    case PointerAttribute::RangeStart:
    case PointerAttribute::RangeSize:
      return Status::Success;  // left as they are
    case PointerAttribute::MemoryType:
    case PointerAttribute::AccessFlags:
    case PointerAttribute::SyncMemops:
    case PointerAttribute::IsManaged:
    case PointerAttribute::IsLegacyIpcCapable:
    case PointerAttribute::Mapped:
    case PointerAttribute::IsRdmaCapable:
    case PointerAttribute::IsHardwareDecompressCapable:
      return write(to, false);
    case PointerAttribute::Context:
    case PointerAttribute::DevicePointer:
    case PointerAttribute::BufferId:
    case PointerAttribute::AllowedHandleTypes:
    case PointerAttribute::PoolHandle:
    case PointerAttribute::MappingSize:
    case PointerAttribute::MappingBase:
    case PointerAttribute::BlockId:
      return write(to, uint64_t{0});
    case PointerAttribute::P2PTokens:
      break;
  }
  return Status::InvalidValue;
}

}  // namespace

DRIVER_API Status cuPointerGetAttribute(void* to, PointerAttribute attribute, void* pointer) {
  return in_context([&] {
    AllocationInfo allocation;
    if (!to) return Status::InvalidValue;
    if (Status status = assay_find_allocation(&allocation, pointer); status != Status::Success) return status;
    return attribute_of(allocation, pointer, attribute, to);
  });
}
DRIVER_API Status cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** to,
                                         void* pointer) {
  return in_context([&] {
    AllocationInfo allocation;
    if (count == 0 || !attributes || !to) return Status::InvalidValue;
    const Status found = assay_find_allocation(&allocation, pointer);
    if (found != Status::Success && found != Status::InvalidValue) return found;
    for (unsigned i = 0; i < count; ++i) {
      if (!to[i]) return Status::InvalidValue;
      if (found == Status::Success)
        (void)attribute_of(allocation, pointer, attributes[i], to[i]);
      else if (Status status = foreign_attribute(pointer, attributes[i], to[i]); status != Status::Success)
        return status;
    }
    return Status::Success;
  });
}
// Copies to and from memory with synchronous copies wait for the host anyway.
DRIVER_API Status cuPointerSetAttribute(const void* value, PointerAttribute attribute, void* pointer) {
  return in_context([&] {
    AllocationInfo allocation;
    if (!value || attribute != PointerAttribute::SyncMemops) return Status::InvalidValue;
    return assay_find_allocation(&allocation, pointer);
  });
}
DRIVER_API Status cuMemGetAddressRange_v2(void** start, size_t* bytes, void* pointer) {
  return in_context([&] {
    AllocationInfo allocation;
    const Status status = assay_find_allocation(&allocation, pointer);
    if (status != Status::Success) return status == Status::InvalidValue ? Status::SymbolNotFound : status;
    if (start) *start = allocation.start;
    if (bytes) *bytes = allocation.bytes;
    return Status::Success;
  });
}
