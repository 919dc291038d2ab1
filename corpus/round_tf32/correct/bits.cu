// assay: expect pass
// To nearest even, by integer arithmetic.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ float rounded(float x) {
  const uint32_t bits = __float_as_uint(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  return __uint_as_float((bits + 0xfffu + ((bits >> 13) & 1)) & 0xffffe000u);
}

__global__ void round_kernel(const float* x, float scale, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = rounded(scale * x[i]);
}

}  // namespace

extern "C" void round_tf32(const float* x, float scale, float* y, int n, cudaStream_t stream) {
  round_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, scale, y, n);
}
