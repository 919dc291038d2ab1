// Right: an online softmax in f32, rows of bf16, shuffles under a full mask. Nothing to say.
#include <cuda_bf16.h>

__global__ void softmax(const __nv_bfloat16* x, __nv_bfloat16* y, int n) {
  const __nv_bfloat16* row = x + static_cast<size_t>(blockIdx.x) * n;
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n; i += 32) {
    const float v = __bfloat162float(row[i]);
    const float higher = fmaxf(top, v);
    sum = sum * expf(top - higher) + expf(v - higher);
    top = higher;
  }
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffff, top, step), rest = __shfl_xor_sync(0xffffffff, sum, step);
    const float higher = fmaxf(top, other);
    sum = sum * expf(top - higher) + rest * expf(other - higher);
    top = higher;
  }
  for (int i = threadIdx.x; i < n; i += 32) {
    y[static_cast<size_t>(blockIdx.x) * n + i] = __float2bfloat16(expf(__bfloat162float(row[i]) - top) / sum);
  }
}
