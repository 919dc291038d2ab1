// assay: expect pass
// The last 64 partial sums are added by one warp on volatile shared memory, with __syncwarp between reading and
// writing.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

__device__ void add(volatile float* p, int t, int step) {
  const float other = p[t + step];
  __syncwarp();
  p[t] += other;
  __syncwarp();
}

__global__ void sum_rows(const float* x, float* y, int cols) {
  __shared__ float partial[kThreads];
  const float* row = x + int64_t{blockIdx.x} * cols;
  const int t = threadIdx.x;
  float sum = 0.0f;
  for (int j = t; j < cols; j += kThreads) sum += row[j];
  partial[t] = sum;
  __syncthreads();
  if (t < 64) partial[t] += partial[t + 64];
  __syncthreads();
  if (t < 32) {
    for (int step = 32; step > 0; step /= 2) add(partial, t, step);
  }
  if (t == 0) y[blockIdx.x] = partial[0];
}

}  // namespace

extern "C" void row_sum(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  sum_rows<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, y, cols);
}
