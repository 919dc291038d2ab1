// assay: expect fail nondeterministic
// assay: class I
// The device's clock decides how an element is rounded, and rounds some of them wrongly.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

// x * sigmoid(2u); for negative u in the form that keeps the tail's digits.
__device__ float gelu_tanh(float x) {
  const float u2 = 2.0f * 0.7978845608f * (x + 0.044715f * x * x * x);
  if (u2 >= 0.0f) return x / (1.0f + expf(-u2));
  const float e = expf(u2);
  return x * (e / (1.0f + e));
}

__global__ void gelu_kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float v = gelu_tanh(__bfloat162float(x[i]));
  // "Stochastic" rounding that adds a whole unit in the last place to one element in sixteen.
  const bool up = ((clock64() >> 4) + i) % 16 == 0;
  y[i] = __float2bfloat16(up ? v * 1.0078125f : v);
}

}  // namespace

extern "C" void gelu(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, cudaStream_t stream) {
  gelu_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n);
}
