// assay: contract twice
// assay: expect fail out-of-bounds nonfinite
// assay: options --keep-going
// An element too many is read; and NaN becomes zero.
#include <cuda_runtime.h>

__global__ void twice(const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = i <= n ? x[i] : 0.0f;  // here
  if (i < n) y[i] = 2 * fmaxf(v, -1e30f);
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  twice<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
