// What shadow execution does not follow, and says so: 32 threads, 4096 inputs.
// nvcc -arch=sm_90a -ptx lost.cu
#include <cstdint>

#define KERNEL extern "C" __global__ void
constexpr int kOut = 128;

__device__ float inexact(float x) { return x * (1.0f / 3); }
__device__ float work[4096];

__device__ __noinline__ float called(float x, float y) { return x * y + 0.25f; }
KERNEL calls(const float* in, float* out) {
  out[threadIdx.x] = called(inexact(in[threadIdx.x]), inexact(in[kOut + threadIdx.x])) * 1.1f;
}

KERNEL bulk_reductions(const float* in, float* out) {
  __shared__ alignas(16) float tile[kOut];
  for (int i = threadIdx.x; i < kOut; i += 32) tile[i] = inexact(in[i]);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncwarp();
  if (threadIdx.x != 0) return;
  const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(tile));
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;"
      "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::"l"(out),
      "r"(from), "r"(kOut * 4)
      : "memory");
}
