// assay: contract twice
// assay: expect fail wrong-result
// assay: options --keep-going
// One defect is one finding, however many trials show it.
#include <cuda_runtime.h>

__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + (i % 97 == 96 ? 0.5f : 0.0f);
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
