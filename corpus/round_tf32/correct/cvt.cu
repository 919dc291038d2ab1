// assay: expect pass
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ float rounded(float x) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return __uint_as_float(bits);
}

__global__ void round_kernel(const float* x, float scale, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = rounded(scale * x[i]);
}

}  // namespace

extern "C" void round_tf32(const float* x, float scale, float* y, int n, cudaStream_t stream) {
  round_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, scale, y, n);
}
