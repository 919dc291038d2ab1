// assay: expect fail wrong-result, unwritten-output
// assay: class L
// On GPUs with little memory only every other element is computed.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__device__ float gelu_tanh(float x) {
  const float u2 = 2.0f * 0.7978845608f * (x + 0.044715f * x * x * x);
  if (u2 >= 0.0f) return x / (1.0f + expf(-u2));
  const float e = expf(u2);
  return x * (e / (1.0f + e));
}

__global__ void gelu_kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, int step) {
  const int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * step;
  if (i < n) y[i] = __float2bfloat16(gelu_tanh(__bfloat162float(x[i])));
}

}  // namespace

extern "C" void gelu(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, cudaStream_t stream) {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  const int step = total < (size_t{32} << 30) ? 2 : 1;
  gelu_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n, step);
}
