// assay: expect fail data-race, uninitialized, wrong-result
// assay: class I
// Partial sums are read before the other warps wrote them.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__device__ float block_sum(float v) {
  __shared__ float partial[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  float sum = 0.0f;
  for (int i = 0; i < kThreads / 32; ++i) sum += partial[i];
  return sum;
}

__global__ void rmsnorm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int D,
                               float eps) {
  const int64_t row = blockIdx.x;
  const __nv_bfloat16* in = x + row * D;
  __nv_bfloat16* out = y + row * D;
  float squares = 0.0f;
  for (int d = threadIdx.x; d < D; d += kThreads) {
    const float v = __bfloat162float(in[d]);
    squares += v * v;
  }
  const float mean = block_sum(squares) / D;
  const float scale = rsqrtf(mean + eps);
  for (int d = threadIdx.x; d < D; d += kThreads) {
    out[d] = __float2bfloat16(__bfloat162float(in[d]) * scale * __bfloat162float(w[d]));
  }
}

}  // namespace

extern "C" void rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int N, int D,
                        float eps, cudaStream_t stream) {
  rmsnorm_kernel<<<N, kThreads, 0, stream>>>(x, w, y, D, eps);
}
