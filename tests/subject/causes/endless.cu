// assay: contract twice
// assay: expect fail timeout
// assay: line here
// One thread never leaves its loop.
#include <cuda_runtime.h>

__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
  if (i == n - 1)
    while (n > -5) {  // here
      n |= 1;
    }
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
