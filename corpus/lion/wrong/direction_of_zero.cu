// assay: expect fail wrong-result
// assay: class H
// A step of 0 counts as positive.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void lion_kernel(float* p, const float* g, float* m, int n, float lr) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float step = 0.9f * m[i] + 0.1f * g[i];
  const float direction = step > 0.0f ? 1.0f : step < 0.0f ? -1.0f : step == 0.0f ? 1.0f : step;
  p[i] -= lr * (direction + 0.1f * p[i]);
  m[i] = 0.99f * m[i] + 0.01f * g[i];
}

}  // namespace

extern "C" void lion(float* p, const float* g, float* m, int n, float lr, cudaStream_t stream) {
  lion_kernel<<<(n + 255) / 256, 256, 0, stream>>>(p, g, m, n, lr);
}
