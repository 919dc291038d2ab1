// assay: contract twice
// assay: expect fail nondeterministic
// The result depends on where the buffers lie.
#include <cuda_runtime.h>

__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = (reinterpret_cast<size_t>(x) >> 12) % 3 == 1 ? 0.0f : 2 * x[i];
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
