// assay: expect fail biased-rounding, wrong-result
// assay: class C
// All of f32 is stored: who reads it as tf32 cuts the last 13 bits off.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ float rounded(float x) {
  return x;
}

__global__ void round_kernel(const float* x, float scale, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = rounded(scale * x[i]);
}

}  // namespace

extern "C" void round_tf32(const float* x, float scale, float* y, int n, cudaStream_t stream) {
  round_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, scale, y, n);
}
