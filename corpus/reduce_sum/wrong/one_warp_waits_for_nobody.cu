// assay: expect fail data-race, stream-order, wrong-result, uninitialized, nondeterministic, stale-state
// assay: class I
// Only the thread that stores the sum waits.
#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kBlocks = 64;

__global__ void partial_sums(const float* x, float* partial, int64_t n) {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
  __shared__ float warps[kThreads / 32];
  float sum = 0.0f;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += int64_t{kBlocks} * kThreads)
    sum += x[i];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) partial[blockIdx.x] = warps[0] + warps[1] + warps[2] + warps[3];
}

// May start before the sums are there.
__global__ void total_sum(const float* partial, float* out) {
  float sum = partial[threadIdx.x] + partial[threadIdx.x + 32];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x == 0) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    *out = sum;
  }
}

}  // namespace

extern "C" void reduce_sum(const float* x, float* out, float* workspace, int64_t n, cudaStream_t stream) {
  partial_sums<<<kBlocks, kThreads, 0, stream>>>(x, workspace, n);
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(32);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  cudaLaunchKernelEx(&config, total_sum, const_cast<const float*>(workspace), out);
}
