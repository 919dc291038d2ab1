// assay: contract sum
// assay: expect no failure
// The last block resets it.
#include <cuda_runtime.h>

__device__ unsigned ticket;
__device__ float part[256];

__global__ void sum(const float* x, float* y, int n) {
  __shared__ float s[128];
  __shared__ bool last;
  float v = 0;
  for (int j = blockIdx.x * 128 + threadIdx.x; j < n; j += gridDim.x * 128) v += x[j];
  s[threadIdx.x] = v;
  __syncthreads();
  for (int o = 64; o > 0; o /= 2) {
    if (threadIdx.x < o) s[threadIdx.x] += s[threadIdx.x + o];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    part[blockIdx.x] = s[0];
    __threadfence();
    last = atomicAdd(&ticket, 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    __threadfence();
    float t = 0;
    for (int b = 0; b < gridDim.x; ++b) t += part[b];
    y[0] = t;
    ticket = 0;
  }
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  sum<<<min((n + 255) / 256, 200), 128, 0, stream>>>(x, y, n);
}
