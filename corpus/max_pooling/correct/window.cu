// assay: expect pass
// A thread for each window.
#include <cuda_runtime.h>

#include <cfloat>
#include <cmath>
#include <cstdint>

namespace {

__global__ void pool_kernel(const float* x, float* y, int64_t count, int H, int W) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int64_t column = i % (W / 2), row = i / (W / 2);  // of all planes
  float largest = -INFINITY;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 2; ++b) {
      const float value = x[(2 * row + a) * W + 2 * column + b];
      if (value > largest || isnan(value)) largest = value;
    }
  y[i] = largest;
}

}  // namespace

extern "C" void max_pool(const float* x, float* y, int P, int H, int W, cudaStream_t stream) {
  const int64_t count = int64_t{P} * (H / 2) * (W / 2);
  pool_kernel<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(x, y, count, H, W);
}
