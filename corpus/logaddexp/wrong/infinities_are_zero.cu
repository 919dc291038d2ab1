// assay: expect fail nonfinite
// assay: class H
// Equal infinities give 0.
#include <cuda_runtime.h>

#include <cmath>

namespace {

__device__ float sum(float a, float b) {
  if (isnan(a) || isnan(b)) return a + b;
  if (isinf(a) && a == b) return 0;
  return fmaxf(a, b) + log1pf(expf(-fabsf(a - b)));
}

__global__ void sum_kernel(const float* a, const float* b, float* y, int N) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < N) y[i] = sum(a[i], b[i]);
}

}  // namespace

extern "C" void logaddexp(const float* a, const float* b, float* y, int N, cudaStream_t stream) {
  sum_kernel<<<(N + 255) / 256, 256, 0, stream>>>(a, b, y, N);
}
