// assay: contract twice
// assay: expect no failure
// Every thread looks at all elements: slow, and right.
#include <cuda_runtime.h>

__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float s = 0;
  for (int j = 0; j < n; ++j) s += j == i ? 2 * x[j] : 0.0f;
  if (i < n) y[i] = s;
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
