// assay: expect fail leak
// assay: class L
// Allocates memory for its partial sums in every call and frees none.
#include <cstdint>

namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 64;

__device__ float block_sum(float v) {
  __shared__ float all[kThreads];
  all[threadIdx.x] = v;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) all[threadIdx.x] += all[threadIdx.x + half];
    __syncthreads();
  }
  return all[0];
}

__global__ void partial_sums(const float* x, float* partial, int64_t n) {
  float sum = 0.0f;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < n; i += int64_t{kBlocks} * kThreads)
    sum += x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void total(const float* partial, float* out) {
  const float sum = block_sum(threadIdx.x < kBlocks ? partial[threadIdx.x] : 0.0f);
  if (threadIdx.x == 0) *out = sum;
}

}  // namespace

extern "C" void reduce_sum(const float* x, float* out, float*, int64_t n, cudaStream_t stream) {
  float* partial = nullptr;
  cudaMallocAsync(&partial, kBlocks * sizeof(float), stream);
  partial_sums<<<kBlocks, kThreads, 0, stream>>>(x, partial, n);
  total<<<1, kThreads, 0, stream>>>(partial, out);
}
