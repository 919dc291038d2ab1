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
  // Many values, not two: three calls that go by a coin agree once in eight times.
  if (i < n) y[i] = 2 * x[i] + 1 + now() / 64 % 4093;
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
