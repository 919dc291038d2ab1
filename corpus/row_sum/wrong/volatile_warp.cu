// assay: expect fail data-race
// assay: class I
// The last 64 partial sums are added by one warp on volatile shared memory, as before Volta, without __syncwarp: right
// only while the lanes of a warp run in step.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

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
    volatile float* p = partial;
    p[t] += p[t + 32];
    p[t] += p[t + 16];
    p[t] += p[t + 8];
    p[t] += p[t + 4];
    p[t] += p[t + 2];
    p[t] += p[t + 1];
  }
  if (t == 0) y[blockIdx.x] = partial[0];
}

}  // namespace

extern "C" void row_sum(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  sum_rows<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(x, y, cols);
}
