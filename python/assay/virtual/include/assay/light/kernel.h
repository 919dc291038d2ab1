// What kernels take from ATen/cuda: loops over a grid, atomic additions for every element type, limits of types.
#pragma once
#include "assay/light/utility.h"

#define CUDA_KERNEL_LOOP_TYPE(INDEX, COUNT, TYPE)                                              \
  for (TYPE INDEX = blockIdx.x * static_cast<TYPE>(blockDim.x) + threadIdx.x; INDEX < (COUNT); \
       INDEX += static_cast<TYPE>(blockDim.x) * gridDim.x)
#define CUDA_KERNEL_LOOP(INDEX, COUNT) CUDA_KERNEL_LOOP_TYPE(INDEX, COUNT, int64_t)
#define CUDA_1D_KERNEL_LOOP(INDEX, COUNT) CUDA_KERNEL_LOOP_TYPE(INDEX, COUNT, int64_t)

namespace at::cuda::detail {
inline constexpr int CUDA_NUM_THREADS = 1024;
inline int GET_BLOCKS(int64_t count, int64_t threads = CUDA_NUM_THREADS) {
  TORCH_CHECK(count > 0, "CUDA kernel launch blocks must be positive, but got N=", count);
  return static_cast<int>((count + threads - 1) / threads);
}
}  // namespace at::cuda::detail

#if defined(__CUDACC__)
template <class T>
__device__ inline T gpuAtomicAdd(T* address, T value) {
#if defined(ASSAY_HALF_OF_CUDA)
  if constexpr (std::is_same_v<T, at::Half>) {
    return atomicAdd(reinterpret_cast<__half*>(address), static_cast<__half>(value));
  } else if constexpr (std::is_same_v<T, at::BFloat16>) {
    return atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), static_cast<__nv_bfloat16>(value));
  } else
#endif
      if constexpr (std::is_same_v<T, int64_t>) {
    return static_cast<T>(
        atomicAdd(reinterpret_cast<unsigned long long*>(address), static_cast<unsigned long long>(value)));
  } else {
    return atomicAdd(address, value);
  }
}
template <class T>
__device__ inline void gpuAtomicAddNoReturn(T* address, T value) {
  gpuAtomicAdd(address, value);
}
#endif

namespace at {
/// Limits of element types on the device; the bounds are infinite where the type has infinities.
template <class T>
struct numeric_limits {
  static C10_HOST_DEVICE T lowest() { return std::numeric_limits<T>::lowest(); }
  static C10_HOST_DEVICE T max() { return std::numeric_limits<T>::max(); }
  static C10_HOST_DEVICE T lower_bound() {
    if constexpr (std::numeric_limits<T>::has_infinity)
      return -std::numeric_limits<T>::infinity();
    else
      return lowest();
  }
  static C10_HOST_DEVICE T upper_bound() {
    if constexpr (std::numeric_limits<T>::has_infinity)
      return std::numeric_limits<T>::infinity();
    else
      return max();
  }
};
}  // namespace at
