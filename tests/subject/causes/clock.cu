// assay: contract twice
// assay: expect fail nondeterministic
// The result depends on when the kernel runs, not on earlier calls.
#include <cuda_runtime.h>

__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + ((clock64() >> 6) % 7 == 3 ? 1.0f : 0.0f);
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
