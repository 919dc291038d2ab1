// cudaMalloc*, cudaFree*, cudaHost*: allocation, and what a pointer is.
#include <fmt/format.h>

#include "cudart/copy.h"
#include "cudart/properties.h"
#include "cudart/runtime.h"

using namespace assay::cudart;
using assay::vgpu::Address;
using assay::vgpu::MemoryKind;

namespace {

constexpr int kDeviceLocation = 1;
constexpr uint64_t kAlign = 512;  // of what cudaMalloc returns

// The function as the program called it: the driver API is a layer over this one.
const char* called(const char* in_runtime, const char* in_driver) {
  return thread_state().in_driver ? in_driver : in_runtime;
}

Status out_of_memory(Context& context, uint64_t size, const void* caller) {
  context.note_out_of_memory(size, caller);
  return Status::MemoryAllocation;
}

// `caller`: the place in the program that asks, for messages.
Status allocate(Context& context, uint64_t size, MemoryKind kind, const char* label, void*& pointer,
                const void* caller) {
  if (Status status = check_capture(context, nullptr); status != Status::Success) return status;
  pointer = nullptr;
  if (size == 0) return Status::Success;
  HostCheck* check = context.host_check();
  if (check && check->watch() && kind != MemoryKind::Device) check->watch()->prepare();
  auto address = context.memory().allocate(size, kAlign, kind, label);
  if (!address) return out_of_memory(context, size, caller);
  pointer = reinterpret_cast<void*>(*address);
  context.note_allocation(*address, caller);
  if (kind == MemoryKind::Device) context.fill_new(*address, size);
  return Status::Success;
}

// Freeing waits for the device, which may still use the memory.
Status release(Context& context, void* pointer) {
  if (Status status = check_capture(context, nullptr); status != Status::Success) return status;
  const assay::vgpu::UnseenWaits unseen(!Runtime::get().frees_wait);
  if (Status status = synchronised(context, [&] { context.streams().synchronise_all(); });
      status != Status::Success)
    return status;
  auto address = reinterpret_cast<Address>(pointer);
  context.pool_released(address);
  if (context.is_graph_memory(address)) return Status::Success;
  if (HostCheck* check = context.host_check(); check && check->watch()) check->watch()->forget(address);
  if (Activity* activity = context.activity()) activity->releasing(address);
  return context.memory().release(address) ? Status::Success : Status::InvalidValue;
}

std::optional<MemoryKind> kind_of(Context& context, const void* pointer) {
  auto allocation = context.memory().find(reinterpret_cast<Address>(pointer));
  return allocation ? std::optional(allocation->kind) : std::nullopt;
}

uint64_t round_up(uint64_t value, uint64_t to) {
  return (value + to - 1) / to * to;
}

Status host_allocate(void** pointer, size_t size, unsigned flags, const void* caller) {
  return api([&](Context& context) {
    if (!pointer || (flags & ~7u)) return Status::InvalidValue;
    Status status = allocate(context, size, MemoryKind::Pinned, called("cudaMallocHost", "cuMemAllocHost"),
                             *pointer, caller);
    if (status == Status::Success && *pointer) context.add_pinned(*pointer, {size, flags, false});
    return status;
  });
}

Status allocate_async(void** pointer, size_t size, PoolHandle* pool, StreamHandle* handle,
                      const void* caller) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!pointer) return Status::InvalidValue;
    if (!pool) pool = context.current_pool();
    if (!context.has(pool)) return Status::InvalidValue;
    if (Status status = check_capture(context, &stream); status != Status::Success) return status;
    *pointer = nullptr;
    if (size == 0) return Status::Success;
    auto address = context.memory().allocate(size, kAlign, MemoryKind::Device,
                                             called("cudaMallocAsync", "cuMemAllocAsync"));
    if (!address) return out_of_memory(context, size, caller);
    *pointer = reinterpret_cast<void*>(*address);
    context.note_allocation(*address, caller);
    context.fill_new(*address, size);
    context.pool_allocated(pool, *address, size);
    if (!stream.capture) return Status::Success;
    context.add_graph_memory(*address, size);
    AllocSpec spec;
    spec.params.bytes = size;
    spec.params.pointer = *pointer;
    return dispatch(context, &stream, spec);
  });
}

}  // namespace

ASSAY_API Status cudaMalloc(void** pointer, size_t size) {
  return api([&, caller = __builtin_return_address(0)](Context& context) {
    return pointer ? allocate(context, size, MemoryKind::Device, called("cudaMalloc", "cuMemAlloc"), *pointer,
                              caller)
                   : Status::InvalidValue;
  });
}

ASSAY_API Status cudaFree(void* pointer) {
  return api([&](Context& context) {
    if (!pointer) return check_capture(context, nullptr);
    auto kind = kind_of(context, pointer);
    if (!kind || (*kind != MemoryKind::Device && *kind != MemoryKind::Managed)) return Status::InvalidValue;
    return release(context, pointer);
  });
}

ASSAY_API Status cudaMallocManaged(void** pointer, size_t size, unsigned flags) {
  return api([&, caller = __builtin_return_address(0)](Context& context) {
    if (!pointer || (flags != 1 && flags != 2)) return Status::InvalidValue;
    return allocate(context, size, MemoryKind::Managed, called("cudaMallocManaged", "cuMemAllocManaged"),
                    *pointer, caller);
  });
}

ASSAY_API Status cudaMallocPitch(void** pointer, size_t* pitch, size_t width, size_t height) {
  return api([&, caller = __builtin_return_address(0)](Context& context) {
    if (!pointer || !pitch) return Status::InvalidValue;
    *pitch = round_up(width, kTexturePitch);
    return allocate(context, *pitch * height, MemoryKind::Device,
                    called("cudaMallocPitch", "cuMemAllocPitch"), *pointer, caller);
  });
}

ASSAY_API Status cudaMalloc3D(PitchedPointer* pointer, Extent extent) {
  return api([&, caller = __builtin_return_address(0)](Context& context) {
    if (!pointer) return Status::InvalidValue;
    uint64_t pitch = round_up(extent.width, kTexturePitch);
    *pointer = {nullptr, pitch, extent.width, extent.height};
    return allocate(context, pitch * extent.height * extent.depth, MemoryKind::Device, "cudaMalloc3D",
                    pointer->pointer, caller);
  });
}

ASSAY_API Status cudaMallocHost(void** pointer, size_t size) {
  return host_allocate(pointer, size, 0, __builtin_return_address(0));
}
ASSAY_API Status cudaHostAlloc(void** pointer, size_t size, unsigned flags) {
  return host_allocate(pointer, size, flags, __builtin_return_address(0));
}

ASSAY_API Status cudaFreeHost(void* pointer) {
  return api([&](Context& context) {
    if (!pointer) return Status::Success;
    auto pinned = context.pinned(pointer);
    if (!pinned || pinned->first != pointer || pinned->second.registered) return Status::InvalidValue;
    Status status = release(context, pointer);
    context.remove_pinned(pointer);
    return status;
  });
}

ASSAY_API Status cudaHostRegister(void* pointer, size_t size, unsigned flags) {
  return api([&, caller = __builtin_return_address(0)](Context& context) {
    if (!pointer || size == 0 || (flags & ~15u)) return Status::InvalidValue;
    if (context.pinned(pointer)) return Status::HostMemoryAlreadyRegistered;
    if (where_is(context, pointer, size) != Where::Pageable) return Status::InvalidValue;
    auto address =
        context.memory().adopt_host(pointer, size, called("cudaHostRegister", "cuMemHostRegister"));
    if (!address) return Status::HostMemoryAlreadyRegistered;
    context.note_allocation(*address, caller);
    context.add_pinned(pointer, {size, flags, true});
    return Status::Success;
  });
}

ASSAY_API Status cudaHostUnregister(void* pointer) {
  return api([&](Context& context) {
    if (!pointer) return Status::InvalidValue;
    auto pinned = context.pinned(pointer);
    if (!pinned || !pinned->second.registered || pinned->first != pointer)
      return Status::HostMemoryNotRegistered;
    Status status = release(context, pointer);
    context.remove_pinned(pointer);
    return status;
  });
}

ASSAY_API Status cudaHostGetDevicePointer(void** device, void* host, unsigned flags) {
  return api([&](Context& context) {
    if (!device || flags != 0) return Status::InvalidValue;
    *device = nullptr;
    if (!context.pinned(host)) return Status::InvalidValue;
    *device = host;
    return Status::Success;
  });
}

ASSAY_API Status cudaHostGetFlags(unsigned* flags, void* host) {
  return api([&](Context& context) {
    auto pinned = context.pinned(host);
    if (!flags || !pinned) return Status::InvalidValue;
    *flags = pinned->second.flags | 2;  // always mapped
    return Status::Success;
  });
}

ASSAY_API Status cudaMallocAsync(void** pointer, size_t size, StreamHandle* stream) {
  return allocate_async(pointer, size, nullptr, stream, __builtin_return_address(0));
}
ASSAY_API_PTSZ(cudaMallocAsync, (void** pointer, size_t size, StreamHandle* stream), pointer, size,
               own_stream(stream))
ASSAY_API Status cudaMallocFromPoolAsync(void** pointer, size_t size, PoolHandle* pool,
                                         StreamHandle* stream) {
  return allocate_async(pointer, size, pool, stream, __builtin_return_address(0));
}
ASSAY_API_PTSZ(cudaMallocFromPoolAsync, (void** pointer, size_t size, PoolHandle* pool, StreamHandle* stream),
               pointer, size, pool, own_stream(stream))

ASSAY_API Status cudaFreeAsync(void* pointer, StreamHandle* handle) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (!pointer) return Status::Success;
    auto address = reinterpret_cast<Address>(pointer);
    auto allocation = context.memory().find(address);
    if (!allocation || allocation->base != address || allocation->kind != MemoryKind::Device)
      return Status::InvalidValue;
    if (Status status = check_capture(context, &stream); status != Status::Success) return status;
    if (stream.capture) return dispatch(context, &stream, FreeSpec{pointer});
    context.pool_released(address);
    if (context.is_graph_memory(address)) return Status::Success;
    if (Activity* activity = context.activity()) activity->release_called(address);
    context.streams().submit(stream.id, assay::vgpu::ReleaseWork{address});
    return Status::Success;
  });
}
ASSAY_API_PTSZ(cudaFreeAsync, (void* pointer, StreamHandle* stream), pointer, own_stream(stream))

ASSAY_API Status cudaMemGetInfo(size_t* free, size_t* total) {
  return api([&](Context& context) {
    if (!free || !total) return Status::InvalidValue;
    *total = context.memory().capacity();
    *free = *total - std::min(*total, context.memory().used());
    return Status::Success;
  });
}

ASSAY_API Status cudaPointerGetAttributes(PointerAttributes* attributes, const void* pointer) {
  return api([&](Context& context) {
    if (!attributes) return Status::InvalidValue;
    *attributes = {};
    attributes->device = -2;
    void* same = const_cast<void*>(pointer);
    auto kind = kind_of(context, pointer);
    if (!kind) {
      attributes->host_pointer = same;
      return Status::Success;
    }
    attributes->device = 0;
    attributes->device_pointer = same;
    switch (*kind) {
      case MemoryKind::Managed:
        attributes->kind = PointerKind::Managed;
        attributes->host_pointer = same;
        break;
      case MemoryKind::Pinned:
        attributes->kind = PointerKind::Host;
        attributes->host_pointer = same;
        break;
      default:
        attributes->kind = PointerKind::Device;
    }
    return Status::Success;
  });
}

ASSAY_API Status cudaGetSymbolAddress(void** pointer, const void* symbol) {
  return api([&](Context& context) {
    if (!pointer) return Status::InvalidValue;
    Variable variable;
    Status status = Runtime::get().modules().variable(symbol, context, variable);
    if (status == Status::Success) *pointer = reinterpret_cast<void*>(variable.address);
    return status;
  });
}

ASSAY_API Status cudaGetSymbolSize(size_t* size, const void* symbol) {
  return api([&](Context& context) {
    if (!size) return Status::InvalidValue;
    Variable variable;
    Status status = Runtime::get().modules().variable(symbol, context, variable);
    if (status == Status::Success) *size = variable.size;
    return status;
  });
}

// ---- Managed memory: host and device share it, so hints about its place change nothing ----

namespace {

Status managed_hint(const void* pointer, size_t bytes, const MemoryLocation* location, StreamHandle* handle) {
  return stream_api(handle, [&](Context& context, StreamHandle& stream) {
    if (location && location->kind == kDeviceLocation && location->id != 0) return Status::InvalidDevice;
    Where where = where_is(context, pointer, bytes);
    if (bytes == 0 || where != Where::Managed) return Status::InvalidValue;
    return dispatch(context, &stream, EmptySpec{});
  });
}

}  // namespace

ASSAY_API Status cudaMemPrefetchAsync(const void* pointer, size_t bytes, MemoryLocation location, unsigned,
                                      StreamHandle* stream) {
  return managed_hint(pointer, bytes, &location, stream);
}
ASSAY_API_PTSZ(cudaMemPrefetchAsync,
               (const void* pointer, size_t bytes, MemoryLocation location, unsigned flags,
                StreamHandle* stream),
               pointer, bytes, location, flags, own_stream(stream))

ASSAY_API Status cudaMemAdvise(const void* pointer, size_t bytes, int advice, MemoryLocation) {
  return api([&](Context& context) {
    if (advice < 1 || advice > 6 || bytes == 0 || where_is(context, pointer, bytes) != Where::Managed)
      return Status::InvalidValue;
    return Status::Success;
  });
}

ASSAY_API Status cudaStreamAttachMemAsync(StreamHandle* stream, void* pointer, size_t, unsigned) {
  return managed_hint(pointer, 1, nullptr, stream);
}
ASSAY_API_PTSZ(cudaStreamAttachMemAsync, (StreamHandle * stream, void* pointer, size_t bytes, unsigned flags),
               own_stream(stream), pointer, bytes, flags)

// ---- Pools ----

ASSAY_API Status cudaDeviceGetDefaultMemPool(PoolHandle** pool, int device) {
  return api([&](Context& context) {
    if (!pool) return Status::InvalidValue;
    if (device != 0) return Status::InvalidDevice;
    *pool = context.default_pool();
    return Status::Success;
  });
}

ASSAY_API Status cudaDeviceGetMemPool(PoolHandle** pool, int device) {
  return api([&](Context& context) {
    if (!pool) return Status::InvalidValue;
    if (device != 0) return Status::InvalidDevice;
    *pool = context.current_pool();
    return Status::Success;
  });
}

ASSAY_API Status cudaDeviceSetMemPool(int device, PoolHandle* pool) {
  return api([&](Context& context) {
    if (device != 0) return Status::InvalidDevice;
    if (!context.has(pool)) return Status::InvalidValue;
    context.current_pool() = pool;
    return Status::Success;
  });
}

namespace {

// Pools of other places than device memory are not provided.
Status check_pool_place(const MemoryLocation* location, int allocation_kind) {
  constexpr int kPinned = 1;
  if (!location) return Status::InvalidValue;
  if (location->kind == kDeviceLocation && location->id != 0) return Status::InvalidDevice;
  if (location->kind == kDeviceLocation && allocation_kind == kPinned) return Status::Success;
  return not_supported("a pool of memory outside the device");
}

}  // namespace

ASSAY_API Status cudaMemGetDefaultMemPool(PoolHandle** pool, MemoryLocation* location, int allocation_kind) {
  if (Status status = check_pool_place(location, allocation_kind); status != Status::Success)
    return note(status);
  return cudaDeviceGetDefaultMemPool(pool, 0);
}
ASSAY_API Status cudaMemGetMemPool(PoolHandle** pool, MemoryLocation* location, int allocation_kind) {
  if (Status status = check_pool_place(location, allocation_kind); status != Status::Success)
    return note(status);
  return cudaDeviceGetMemPool(pool, 0);
}
ASSAY_API Status cudaMemSetMemPool(MemoryLocation* location, int allocation_kind, PoolHandle* pool) {
  if (Status status = check_pool_place(location, allocation_kind); status != Status::Success)
    return note(status);
  return cudaDeviceSetMemPool(0, pool);
}

ASSAY_API Status cudaMemPoolCreate(PoolHandle** pool, const PoolProperties* properties) {
  return api([&](Context& context) {
    if (!pool || !properties || properties->allocation_kind != 1) return Status::InvalidValue;
    if (properties->handle_kinds != 0) return not_supported("cudaMemPoolCreate with shareable handles");
    if (properties->location.kind == 1 && properties->location.id != 0) return Status::InvalidDevice;
    *pool = context.create_pool(*properties);
    return Status::Success;
  });
}

ASSAY_API Status cudaMemPoolDestroy(PoolHandle* pool) {
  return api([&](Context& context) {
    if (pool == context.default_pool()) return Status::InvalidValue;
    return context.destroy_pool(pool) ? Status::Success : Status::InvalidValue;
  });
}

ASSAY_API Status cudaMemPoolTrimTo(PoolHandle* pool, size_t) {
  return api([&](Context& context) { return context.has(pool) ? Status::Success : Status::InvalidValue; });
}

ASSAY_API Status cudaMemPoolSetAccess(PoolHandle* pool, const AccessDescription*, size_t) {
  return api([&](Context& context) { return context.has(pool) ? Status::Success : Status::InvalidValue; });
}

ASSAY_API Status cudaMemPoolGetAccess(int* flags, PoolHandle* pool, MemoryLocation* location) {
  return api([&](Context& context) {
    if (!flags || !location || !context.has(pool)) return Status::InvalidValue;
    *flags = location->kind == 1 && location->id == 0 ? 3 : 0;
    return Status::Success;
  });
}

ASSAY_API Status cudaMemPoolGetAttribute(PoolHandle* pool, PoolAttribute attribute, void* value) {
  return api([&](Context& context) {
    if (!value || !context.has(pool)) return Status::InvalidValue;
    auto number = static_cast<int>(attribute);
    auto set = [&](uint64_t found) { *static_cast<uint64_t*>(value) = found; };
    switch (attribute) {
      case PoolAttribute::ReuseFollowEvents:
      case PoolAttribute::ReuseOpportunistic:
      case PoolAttribute::ReuseInternal:
        *static_cast<int*>(value) = pool->reuse[number - 1];
        break;
      case PoolAttribute::ReleaseThreshold:
        set(pool->release_threshold);
        break;
      case PoolAttribute::ReservedCurrent:
      case PoolAttribute::UsedCurrent:
        set(pool->used);
        break;
      case PoolAttribute::ReservedHigh:
        set(pool->reserved_high);
        break;
      case PoolAttribute::UsedHigh:
        set(pool->used_high);
        break;
      default:
        return Status::InvalidValue;
    }
    return Status::Success;
  });
}

ASSAY_API Status cudaMemPoolSetAttribute(PoolHandle* pool, PoolAttribute attribute, void* value) {
  return api([&](Context& context) {
    if (!value || !context.has(pool)) return Status::InvalidValue;
    switch (attribute) {
      case PoolAttribute::ReuseFollowEvents:
      case PoolAttribute::ReuseOpportunistic:
      case PoolAttribute::ReuseInternal:
        pool->reuse[static_cast<int>(attribute) - 1] = *static_cast<int*>(value);
        break;
      case PoolAttribute::ReleaseThreshold:
        pool->release_threshold = *static_cast<uint64_t*>(value);
        break;
      case PoolAttribute::ReservedHigh:
        pool->reserved_high = pool->used;
        break;
      case PoolAttribute::UsedHigh:
        pool->used_high = pool->used;
        break;
      default:
        return Status::InvalidValue;
    }
    return Status::Success;
  });
}

// ---- Memory of graphs: all of it stays reserved, and counts as used ----

ASSAY_API Status cudaDeviceGetGraphMemAttribute(int device, int attribute, void* value) {
  return api([&](Context& context) {
    if (device != 0) return Status::InvalidDevice;
    if (!value || attribute < 0 || attribute > 3) return Status::InvalidValue;
    *static_cast<uint64_t*>(value) = context.graph_bytes();
    return Status::Success;
  });
}

ASSAY_API Status cudaDeviceSetGraphMemAttribute(int device, int attribute, void* value) {
  return api([&](Context&) {
    if (device != 0) return Status::InvalidDevice;
    return value && (attribute == 1 || attribute == 3) ? Status::Success : Status::InvalidValue;
  });
}

ASSAY_API Status cudaDeviceGraphMemTrim(int device) {
  return api([&](Context&) { return device == 0 ? Status::Success : Status::InvalidDevice; });
}
