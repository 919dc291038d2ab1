// assay: contract twice
// assay: expect fail nondeterministic
// So it does here, by the time of day.
#include <cuda_runtime.h>

__device__ unsigned long long now() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
  return time;
}

__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  // Every lane takes another bit of the time, so that no two calls agree by chance.
  if (i < n) y[i] = (unsigned(now() / 64) * 2654435761u >> i % 31) % 2 == 0 ? 0.0f : 2 * x[i];
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
