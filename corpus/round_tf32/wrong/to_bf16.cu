// assay: expect fail precision-loss, wrong-result
// assay: class A
// Rounded to the eight bits of bf16.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ float rounded(float x) {
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  return __uint_as_float((bits + 0x7fffu + ((bits >> 16) & 1)) & 0xffff0000u);
}

__global__ void round_kernel(const float* x, float scale, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = rounded(scale * x[i]);
}

}  // namespace

extern "C" void round_tf32(const float* x, float scale, float* y, int n, cudaStream_t stream) {
  round_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, scale, y, n);
}
