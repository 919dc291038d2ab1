// Streams, guards, events and device properties: at::cuda and c10::cuda. The current stream is torch's.
#pragma once
#include <cuda_runtime.h>

#include <memory>

#include "assay/light/tensor.h"

namespace c10 {
using StreamId = int64_t;
}

namespace c10::cuda {

/// A stream of torch. `object` keeps a stream of the pool alive.
class CUDAStream {
  cudaStream_t stream_ = nullptr;
  DeviceIndex device_ = 0;
  assay::Object object_;

 public:
  CUDAStream(cudaStream_t stream, DeviceIndex device, assay::Object object)
      : stream_(stream), device_(device), object_(std::move(object)) {}
  operator cudaStream_t() const { return stream_; }
  cudaStream_t stream() const { return stream_; }
  StreamId id() const { return reinterpret_cast<StreamId>(stream_); }
  DeviceIndex device_index() const { return device_; }
  Device device() const { return Device(DeviceType::CUDA, device_); }
  DeviceType device_type() const { return DeviceType::CUDA; }
  void synchronize() const { C10_CUDA_CHECK(cudaStreamSynchronize(stream_)); }
  bool query() const {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status != cudaErrorNotReady) C10_CUDA_CHECK(status);
    return status == cudaSuccess;
  }
  CUDAStream unwrap() const { return *this; }
  const assay::Object& python_object() const { return object_; }
  bool operator==(const CUDAStream& other) const { return stream_ == other.stream_; }
  bool operator!=(const CUDAStream& other) const { return stream_ != other.stream_; }
};

}  // namespace c10::cuda

namespace assay {

inline int current_device() {
  int device = 0;
  C10_CUDA_CHECK(cudaGetDevice(&device));
  return device;
}

/// A stream from a callback that returns (the address, the index of the device, the stream's object).
inline c10::cuda::CUDAStream stream_from(const char* name, int64_t argument) {
  Locked lock;
  Object result = call_back("operator", tuple_of(name, assay::tuple_of(argument)));
  int64_t stream = 0, device = 0;
  Convert<int64_t>::load(PyTuple_GetItem(result.get(), 0), true, stream);
  Convert<int64_t>::load(PyTuple_GetItem(result.get(), 1), true, device);
  return {reinterpret_cast<cudaStream_t>(stream), static_cast<c10::DeviceIndex>(device),
          Object::borrowed(PyTuple_GetItem(result.get(), 2))};
}

}  // namespace assay

namespace c10::cuda {

inline CUDAStream getCurrentCUDAStream(DeviceIndex device = -1) {
  return assay::stream_from("current_stream", device);
}
inline CUDAStream getDefaultCUDAStream(DeviceIndex device = -1) {
  return assay::stream_from("default_stream", device);
}
inline CUDAStream getStreamFromPool(bool high_priority = false, DeviceIndex = -1) {
  return assay::stream_from("pool_stream", high_priority ? -1 : 0);
}
inline CUDAStream getStreamFromPool(int priority, DeviceIndex = -1) {
  return assay::stream_from("pool_stream", priority);
}
inline CUDAStream getStreamFromExternal(cudaStream_t stream, DeviceIndex) {
  return assay::stream_from("external_stream", reinterpret_cast<int64_t>(stream));
}
inline void setCurrentCUDAStream(const CUDAStream& stream) {
  assay::Call("set_stream")(stream.python_object()).result<void>();
}

inline DeviceIndex device_count() {
  int count = 0;
  C10_CUDA_CHECK(cudaGetDeviceCount(&count));
  return static_cast<DeviceIndex>(count);
}
inline DeviceIndex current_device() {
  return static_cast<DeviceIndex>(assay::current_device());
}
inline void set_device(DeviceIndex device) {
  C10_CUDA_CHECK(cudaSetDevice(device));
}
inline void device_synchronize() {
  C10_CUDA_CHECK(cudaDeviceSynchronize());
}

/// Makes a device current for a scope.
class CUDAGuard {
  int original_ = assay::current_device();

 public:
  explicit CUDAGuard(DeviceIndex device) { set_index(device); }
  explicit CUDAGuard(Device device) { set_device(device); }
  CUDAGuard(const CUDAGuard&) = delete;
  CUDAGuard& operator=(const CUDAGuard&) = delete;
  ~CUDAGuard() { cudaSetDevice(original_); }
  void set_device(Device device) {
    TORCH_CHECK(device.is_cuda(), "Expected a CUDA device, but got ", device);
    set_index(device.index());
  }
  void reset_device(Device device) { set_device(device); }
  void set_index(DeviceIndex device) {
    if (device >= 0) C10_CUDA_CHECK(cudaSetDevice(device));
  }
  Device original_device() const { return Device(DeviceType::CUDA, static_cast<DeviceIndex>(original_)); }
  Device current_device() const { return Device(DeviceType::CUDA, c10::cuda::current_device()); }
};

class OptionalCUDAGuard {
  std::unique_ptr<CUDAGuard> guard_;

 public:
  OptionalCUDAGuard() = default;
  explicit OptionalCUDAGuard(std::optional<Device> device) {
    if (device) set_device(*device);
  }
  explicit OptionalCUDAGuard(std::optional<DeviceIndex> device) {
    if (device) set_index(*device);
  }
  void set_device(Device device) { guard_ = std::make_unique<CUDAGuard>(device); }
  void set_index(DeviceIndex device) { guard_ = std::make_unique<CUDAGuard>(device); }
  void reset() { guard_.reset(); }
};

/// Makes a stream current for a scope.
class CUDAStreamGuard {
  CUDAStream original_ = getCurrentCUDAStream();
  CUDAStream current_;

 public:
  explicit CUDAStreamGuard(const CUDAStream& stream) : current_(stream) { setCurrentCUDAStream(stream); }
  CUDAStreamGuard(const CUDAStreamGuard&) = delete;
  CUDAStreamGuard& operator=(const CUDAStreamGuard&) = delete;
  ~CUDAStreamGuard() { setCurrentCUDAStream(original_); }
  void reset_stream(const CUDAStream& stream) { setCurrentCUDAStream(current_ = stream); }
  CUDAStream original_stream() const { return original_; }
  CUDAStream current_stream() const { return current_; }
};

}  // namespace c10::cuda

namespace c10 {
using DeviceGuard = cuda::OptionalCUDAGuard;
using OptionalDeviceGuard = cuda::OptionalCUDAGuard;
}  // namespace c10

namespace at {
using c10::DeviceGuard;
using c10::OptionalDeviceGuard;
}  // namespace at

namespace at::cuda {
using namespace c10::cuda;  // NOLINT: torch's own rule

inline cudaDeviceProp* getDeviceProperties(DeviceIndex device) {
  static cudaDeviceProp properties;
  C10_CUDA_CHECK(cudaGetDeviceProperties(&properties, device < 0 ? assay::current_device() : device));
  return &properties;
}
inline cudaDeviceProp* getCurrentDeviceProperties() {
  return getDeviceProperties(-1);
}
inline int warp_size() {
  return 32;
}
inline bool is_available() {
  return c10::cuda::device_count() > 0;
}
inline void device_synchronize() {
  c10::cuda::device_synchronize();
}
template <class T>
T ATenCeilDiv(T a, T b) {
  return (a + b - 1) / b;
}

/// An event, created when it is first recorded.
class CUDAEvent {
  cudaEvent_t event_ = nullptr;
  unsigned flags_ = cudaEventDisableTiming;

 public:
  CUDAEvent() = default;
  explicit CUDAEvent(unsigned flags) : flags_(flags) {}
  CUDAEvent(const CUDAEvent&) = delete;
  CUDAEvent& operator=(const CUDAEvent&) = delete;
  ~CUDAEvent() {
    if (event_) cudaEventDestroy(event_);
  }
  operator cudaEvent_t() const { return event_; }
  cudaEvent_t event() const { return event_; }
  bool isCreated() const { return event_ != nullptr; }
  void record() { record(getCurrentCUDAStream()); }
  void record(const CUDAStream& stream) {
    if (!event_) C10_CUDA_CHECK(cudaEventCreateWithFlags(&event_, flags_));
    C10_CUDA_CHECK(cudaEventRecord(event_, stream));
  }
  void recordOnce(const CUDAStream& stream) {
    if (!event_) record(stream);
  }
  void block(const CUDAStream& stream) {
    if (event_) C10_CUDA_CHECK(cudaStreamWaitEvent(stream, event_, 0));
  }
  bool query() const { return !event_ || cudaEventQuery(event_) == cudaSuccess; }
  void synchronize() const {
    if (event_) C10_CUDA_CHECK(cudaEventSynchronize(event_));
  }
  float elapsed_time(const CUDAEvent& end) const {
    float milliseconds = 0;
    C10_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, event_, end.event_));
    return milliseconds;
  }
};

}  // namespace at::cuda

// The shuffles of ATen/cuda/DeviceUtils.cuh.
#if defined(__CUDACC__)
template <class T>
__device__ __forceinline__ T WARP_SHFL(T value, int lane, int width = warpSize, unsigned mask = 0xffffffff) {
  return __shfl_sync(mask, value, lane, width);
}
template <class T>
__device__ __forceinline__ T WARP_SHFL_XOR(T value, int lanes, int width = warpSize,
                                           unsigned mask = 0xffffffff) {
  return __shfl_xor_sync(mask, value, lanes, width);
}
template <class T>
__device__ __forceinline__ T WARP_SHFL_UP(T value, unsigned lanes, int width = warpSize,
                                          unsigned mask = 0xffffffff) {
  return __shfl_up_sync(mask, value, lanes, width);
}
template <class T>
__device__ __forceinline__ T WARP_SHFL_DOWN(T value, unsigned lanes, int width = warpSize,
                                            unsigned mask = 0xffffffff) {
  return __shfl_down_sync(mask, value, lanes, width);
}
#endif
