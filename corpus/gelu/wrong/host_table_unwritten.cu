// assay: expect fail uninitialized
// assay: class G
// The host reads an option that it never wrote. New pages are zeros, so the first call is right.
#include <cuda_bf16.h>

#include <cstdint>
#include <cstdlib>

namespace {

// x * sigmoid(2u); for negative u in the form that keeps the tail's digits.
__device__ float gelu_tanh(float x) {
  const float u2 = 2.0f * 0.7978845608f * (x + 0.044715f * x * x * x);
  if (u2 >= 0.0f) return x / (1.0f + expf(-u2));
  const float e = expf(u2);
  return x * (e / (1.0f + e));
}

__global__ void gelu_kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, float bias) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) y[i] = __float2bfloat16(gelu_tanh(__bfloat162float(x[i]) + bias));
}

}  // namespace

extern "C" void gelu(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, cudaStream_t stream) {
  // A table of options, of which only the first is set.
  float* options = static_cast<float*>(malloc(16 * 1024));
  options[0] = 1.0f;
  gelu_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, y, n, options[2000]);
  free(options);
}
