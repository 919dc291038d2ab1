// assay: contract twice
// assay: expect no failure
// Reading the clock is no error.
#include <cuda_runtime.h>

__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  long long begin = clock64();
  if (i < n) y[i] = 2 * x[i];
  if (clock64() < begin) y[0] = 0;
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
