// assay: expect fail concurrent-launch, data-race, wrong-result, unwritten-output, uninitialized, nondeterministic, stale-state
// assay: class F
// The number of blocks that are done is a variable of the module, which two calls at once share.
#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kBlocks = 64;

// One kernel: the block that finishes last adds up the others' sums, always in the same order.
__device__ unsigned finished;

__global__ void sum_kernel(const float* x, float* out, float* partial, int64_t n) {
  __shared__ float warps[kThreads / 32];
  __shared__ bool last;
  float sum = 0.0f;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += int64_t{kBlocks} * kThreads)
    sum += x[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = warps[0] + warps[1] + warps[2] + warps[3];
    __threadfence();
    last = atomicInc(&finished, kBlocks - 1) == kBlocks - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    float total = 0.0f;
    for (int i = 0; i < kBlocks; ++i) total += __ldcg(&partial[i]);
    *out = total;
  }
}

}  // namespace

extern "C" void reduce_sum(const float* x, float* out, float* workspace, int64_t n, cudaStream_t stream) {
  sum_kernel<<<kBlocks, kThreads, 0, stream>>>(x, out, workspace, n);
}
