// assay: expect fail biased-rounding, wrong-result
// assay: class C
// The last 13 bits are cut off.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ float rounded(float x) {
  return __uint_as_float(__float_as_uint(x) & 0xffffe000u);
}

__global__ void round_kernel(const float* x, float scale, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = rounded(scale * x[i]);
}

}  // namespace

extern "C" void round_tf32(const float* x, float scale, float* y, int n, cudaStream_t stream) {
  round_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, scale, y, n);
}
