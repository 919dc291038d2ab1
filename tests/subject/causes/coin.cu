// assay: contract twice
// assay: expect fail nondeterministic
// By the time of day as well, with two results: each call is wrong with an even chance.
#include <cuda_runtime.h>

__device__ unsigned long long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = now() / 64 % 2 == 0 ? 0.0f : 2 * x[i];
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
