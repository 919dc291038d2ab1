// assay: contract twice
// assay: expect fail out-of-bounds wrong-result nonfinite
// assay: options --keep-going
// Beyond 5000 elements one too many is read; a tail of 7 is doubled twice; and NaN is hidden.
#include <cuda_runtime.h>

__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i < n + (n > 5000) ? x[i] : 0.0f;
  if (n % 8 == 7 && i == n - 1) v *= 2;
  if (i < n) y[i] = 2 * fmaxf(v, -1e30f);
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
