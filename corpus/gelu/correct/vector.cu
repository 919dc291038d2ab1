// assay: expect pass
// GELU: 16-byte vectors in a grid-stride loop, a scalar tail.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

namespace {

__device__ float gelu_tanh(float x) {
  const float u2 = 1.5957691216f * x * (1.0f + 0.044715f * x * x);
  const float e = expf(-fabsf(u2));
  return u2 < 0.0f ? x * e / (1.0f + e) : x / (1.0f + e);
}

// Eight elements at a time, and the rest one by one. The tensors are 16-byte aligned.
__global__ void gelu_kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (int64_t i = first; i < n / 8; i += stride) {
    uint4 raw = reinterpret_cast<const uint4*>(x)[i];
    __nv_bfloat16* v = reinterpret_cast<__nv_bfloat16*>(&raw);
    for (int j = 0; j < 8; ++j) v[j] = __float2bfloat16(gelu_tanh(__bfloat162float(v[j])));
    reinterpret_cast<uint4*>(y)[i] = raw;
  }
  for (int64_t i = n / 8 * 8 + first; i < n; i += stride)
    y[i] = __float2bfloat16(gelu_tanh(__bfloat162float(x[i])));
}

}  // namespace

extern "C" void gelu(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, cudaStream_t stream) {
  const int64_t blocks = std::min((n + 2047) / 2048, int64_t{1024});
  gelu_kernel<<<blocks, 256, 0, stream>>>(x, y, n);
}
