// assay: expect fail wrong-result
// assay: class E
// Only the first 65536 elements of a row are added.
#include <cuda_runtime.h>

#include <cstdint>

// Short rows by one thread, long rows by the whole block.
constexpr int kLong = 256;
__global__ void rows(const float* val, const int* col, const int* off, const float* x, float* y, int R) {
  __shared__ int queue[128];
  __shared__ int count;
  __shared__ float part[128];
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  const int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r < R) {
    const int begin = off[r], end = off[r + 1];
    if (end - begin > kLong) {
      queue[atomicAdd(&count, 1)] = r;
    } else {
      float sum = 0.0f;
      for (int j = begin; j < end; ++j) sum += val[j] * x[col[j]];
      y[r] = sum;
    }
  }
  __syncthreads();
  const int n = count;
  for (int i = 0; i < n; ++i) {
    const int row = queue[i];
    float sum = 0.0f;
    for (int j = off[row] + threadIdx.x; j < off[row + 1]; j += blockDim.x)
      if (j - off[row] < 65536) sum += val[j] * x[col[j]];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
      if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) y[row] = part[0];
    __syncthreads();
  }
}
extern "C" void spmv(const float* val, const int* col, const int* off, const float* x, float* y, int R,
                     cudaStream_t stream) {
  rows<<<(R + 127) / 128, 128, 0, stream>>>(val, col, off, x, y, R);
}
