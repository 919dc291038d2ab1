// cuMemcpy*, cuMemset*: everything that moves or fills memory.
#include "driver/copy.h"
#include "driver/driver.h"

using namespace assay::driver;
using namespace assay::cudart;

// ---- Flat copies ----

// A copy that waits, with its variant for per-thread default streams.
#define FORWARD_COPY(name, parameters, ...)          \
  FORWARD(name, parameters, cudaMemcpy(__VA_ARGS__)) \
  FORWARD(name##_ptds, parameters, cudaMemcpy_ptds(__VA_ARGS__))
#define FORWARD_COPY_ASYNC(name, parameters, ...) \
  FORWARD_STREAM(name, parameters, cudaMemcpyAsync(__VA_ARGS__, stream))

FORWARD_COPY(cuMemcpy, (void* to, const void* from, size_t bytes), to, from, bytes, CopyKind::Default)
FORWARD_COPY(cuMemcpyHtoD_v2, (void* to, const void* from, size_t bytes), to, from, bytes,
             CopyKind::HostToDevice)
FORWARD_COPY(cuMemcpyDtoH_v2, (void* to, const void* from, size_t bytes), to, from, bytes,
             CopyKind::DeviceToHost)
FORWARD_COPY(cuMemcpyDtoD_v2, (void* to, const void* from, size_t bytes), to, from, bytes,
             CopyKind::DeviceToDevice)
FORWARD_COPY(cuMemcpyPeer, (void* to, void*, const void* from, void*, size_t bytes), to, from, bytes,
             CopyKind::Default)
FORWARD_COPY_ASYNC(cuMemcpyAsync, (void* to, const void* from, size_t bytes, StreamHandle* stream), to, from,
                   bytes, CopyKind::Default)
FORWARD_COPY_ASYNC(cuMemcpyHtoDAsync_v2, (void* to, const void* from, size_t bytes, StreamHandle* stream), to,
                   from, bytes, CopyKind::HostToDevice)
FORWARD_COPY_ASYNC(cuMemcpyDtoHAsync_v2, (void* to, const void* from, size_t bytes, StreamHandle* stream), to,
                   from, bytes, CopyKind::DeviceToHost)
FORWARD_COPY_ASYNC(cuMemcpyDtoDAsync_v2, (void* to, const void* from, size_t bytes, StreamHandle* stream), to,
                   from, bytes, CopyKind::DeviceToDevice)
FORWARD_COPY_ASYNC(cuMemcpyPeerAsync,
                   (void* to, void*, const void* from, void*, size_t bytes, StreamHandle* stream), to, from,
                   bytes, CopyKind::Default)

FORWARD_STREAM(cuMemcpyBatchAsync_v2,
               (void** to, void** from, size_t* bytes, size_t count, void* attributes, size_t* indices,
                size_t attribute_count, StreamHandle* stream),
               cudaMemcpyBatchAsync(to, from, bytes, count, attributes, indices, attribute_count, stream))
// Before CUDA 13 it also said which copy failed; here none does after the arguments were checked.
FORWARD_STREAM(cuMemcpyBatchAsync,
               (void** to, void** from, size_t* bytes, size_t count, void* attributes, size_t* indices,
                size_t attribute_count, size_t*, StreamHandle* stream),
               cudaMemcpyBatchAsync(to, from, bytes, count, attributes, indices, attribute_count, stream))

// ---- Copies of two and three dimensions ----

namespace {

enum class Waits : bool { No, Yes };

Status copy_deep(const DriverCopy3D* copy, StreamHandle* stream, Waits waits) {
  return in_context([&] {
    Copy3D params;
    if (!copy) return Status::InvalidValue;
    if (Status status = runtime_copy(*copy, params); status != Status::Success) return status;
    if (waits == Waits::No) return cudaMemcpy3DAsync(&params, stream);
    return stream == kPerThreadStream ? cudaMemcpy3D_ptds(&params) : cudaMemcpy3D(&params);
  });
}

Status copy_flat(const DriverCopy2D* copy, StreamHandle* stream, Waits waits) {
  if (!copy) return Status::InvalidValue;
  const DriverCopy3D deep = deepened(*copy);
  return copy_deep(&deep, stream, waits);
}

}  // namespace

// A copy that the caller waits for, and one that it does not; each on the legacy stream and on the thread's own.
#define WAITED_COPY(symbol, Copy, copy_by)              \
  DRIVER_API Status symbol(const Copy* copy) {          \
    return copy_by(copy, kLegacyStream, Waits::Yes);    \
  }                                                     \
  DRIVER_API Status symbol##_ptds(const Copy* copy) {   \
    return copy_by(copy, kPerThreadStream, Waits::Yes); \
  }
#define QUEUED_COPY(symbol, Copy, copy_by)                                  \
  DRIVER_API Status symbol(const Copy* copy, StreamHandle* stream) {        \
    return copy_by(copy, stream, Waits::No);                                \
  }                                                                         \
  DRIVER_API Status symbol##_ptsz(const Copy* copy, StreamHandle* stream) { \
    return copy_by(copy, own_stream(stream), Waits::No);                    \
  }
WAITED_COPY(cuMemcpy2D_v2, DriverCopy2D, copy_flat)
WAITED_COPY(cuMemcpy2DUnaligned_v2, DriverCopy2D, copy_flat)
QUEUED_COPY(cuMemcpy2DAsync_v2, DriverCopy2D, copy_flat)
WAITED_COPY(cuMemcpy3D_v2, DriverCopy3D, copy_deep)
QUEUED_COPY(cuMemcpy3DAsync_v2, DriverCopy3D, copy_deep)
WAITED_COPY(cuMemcpy3DPeer, DriverCopy3D, copy_deep)  // all contexts are on one device
QUEUED_COPY(cuMemcpy3DPeerAsync, DriverCopy3D, copy_deep)

// ---- Fills ----

namespace {

template <class Element>
Status fill(void* to, size_t pitch, Element value, size_t width, size_t height, StreamHandle* stream,
            Waits waits) {
  return in_context([&] {
    const MemsetParams params{to, pitch, value, sizeof(Element), width, height};
    if (reinterpret_cast<uintptr_t>(to) % sizeof(Element) != 0) return Status::InvalidValue;
    return assay_fill(&params, stream, waits == Waits::Yes);
  });
}

}  // namespace

// The four entry points of a fill of one dimension, and the four of one of two.
#define FILL(bits, Element)                                                                               \
  DRIVER_API Status cuMemsetD##bits##_v2(void* to, Element value, size_t count) {                         \
    return fill(to, 0, value, count, 1, kLegacyStream, Waits::Yes);                                       \
  }                                                                                                       \
  DRIVER_API Status cuMemsetD##bits##_v2_ptds(void* to, Element value, size_t count) {                    \
    return fill(to, 0, value, count, 1, kPerThreadStream, Waits::Yes);                                    \
  }                                                                                                       \
  DRIVER_API Status cuMemsetD##bits##Async(void* to, Element value, size_t count, StreamHandle* stream) { \
    return fill(to, 0, value, count, 1, stream, Waits::No);                                               \
  }                                                                                                       \
  DRIVER_API Status cuMemsetD##bits##Async_ptsz(void* to, Element value, size_t count,                    \
                                                StreamHandle* stream) {                                   \
    return fill(to, 0, value, count, 1, own_stream(stream), Waits::No);                                   \
  }                                                                                                       \
  DRIVER_API Status cuMemsetD2D##bits##_v2(void* to, size_t pitch, Element value, size_t width,           \
                                           size_t height) {                                               \
    return fill(to, pitch, value, width, height, kLegacyStream, Waits::Yes);                              \
  }                                                                                                       \
  DRIVER_API Status cuMemsetD2D##bits##_v2_ptds(void* to, size_t pitch, Element value, size_t width,      \
                                                size_t height) {                                          \
    return fill(to, pitch, value, width, height, kPerThreadStream, Waits::Yes);                           \
  }                                                                                                       \
  DRIVER_API Status cuMemsetD2D##bits##Async(void* to, size_t pitch, Element value, size_t width,         \
                                             size_t height, StreamHandle* stream) {                       \
    return fill(to, pitch, value, width, height, stream, Waits::No);                                      \
  }                                                                                                       \
  DRIVER_API Status cuMemsetD2D##bits##Async_ptsz(void* to, size_t pitch, Element value, size_t width,    \
                                                  size_t height, StreamHandle* stream) {                  \
    return fill(to, pitch, value, width, height, own_stream(stream), Waits::No);                          \
  }
FILL(8, unsigned char)
FILL(16, unsigned short)
FILL(32, unsigned)
