// assay: contract twice
// assay: expect fail timeout
// assay: line here
// The loop counter wraps before it reaches n, where n is above 255.
#include <cuda_runtime.h>

__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float s = 0;
  for (unsigned char j = 0; j < n; ++j)  // here
    s = fmaf(s, 0.5f, x[i]);
  y[i] = 2 * x[i] + (s == 12345.0f ? 1.0f : 0.0f);
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
