// The macros of c10/macros/Macros.h that code outside torch uses.
#pragma once
#include <cassert>

#if defined(__CUDACC__)
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#else
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#endif
#define C10_LAUNCH_BOUNDS_0 __launch_bounds__(256, 4)
#define C10_LAUNCH_BOUNDS_1(THREADS) __launch_bounds__(THREADS)
#define C10_LAUNCH_BOUNDS_2(THREADS, BLOCKS) __launch_bounds__(THREADS, BLOCKS)
#define C10_RESTRICT __restrict
#define C10_ALWAYS_INLINE __attribute__((always_inline)) inline
#define C10_NOINLINE __attribute__((noinline))
#define C10_UNUSED __attribute__((unused))
#define C10_LIKELY(CONDITION) (__builtin_expect(static_cast<bool>(CONDITION), 1))
#define C10_UNLIKELY(CONDITION) (__builtin_expect(static_cast<bool>(CONDITION), 0))
#define C10_WARP_SIZE 32
#define CUDA_KERNEL_ASSERT(CONDITION) assert(CONDITION)
#define CUDA_KERNEL_ASSERT_MSG(CONDITION, MESSAGE) assert((CONDITION) && (MESSAGE))
#define C10_EXPORT __attribute__((visibility("default")))
#define C10_API
#define C10_CUDA_API
#define TORCH_API
#define TORCH_CUDA_API
#define TORCH_CUDA_CU_API
#define TORCH_CUDA_CPP_API
