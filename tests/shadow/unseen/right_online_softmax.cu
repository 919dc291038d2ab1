/* contract
title = "Softmax, online, a warp for each row"
[kernel]
entry = "softmax"
args = ["x", "y", "N", "C", "stream"]
[dims]
N = { min = 1, max = 4096 }
C = { min = 1, max = 4096 }
[tensors.x]
dtype = "bf16"
shape = ["N", "C"]
values = "activations"
[tensors.y]
dtype = "bf16"
shape = ["N", "C"]
role = "out"
[reference]
formula = """
top[n] = max[c](x[n, c])
total[n] = sum[c](exp(x[n, c] - top[n]))
y[n, c] = exp(x[n, c] - top[n]) / total[n]
"""
[require]
deterministic = true
*/
#include <cuda_bf16.h>

#include <cstdint>

// exp(a - b) where a <= b; 0 where a is the maximum of nothing.
__device__ float below(float a, float b) {
  return a == -INFINITY && b == -INFINITY ? 0.0f : expf(a - b);
}

// Unlike fmaxf, hands a NaN on.
__device__ float larger(float a, float b) { return a > b || isnan(a) ? a : b; }

__global__ void kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int C) {
  x += int64_t{blockIdx.x} * C;
  y += int64_t{blockIdx.x} * C;
  float top = -INFINITY, sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += 32) {
    const float v = __bfloat162float(x[c]), higher = larger(top, v);
    sum = sum * below(top, higher) + below(v, higher);
    top = higher;
  }
  for (int step = 16; step > 0; step /= 2) {
    const float t = __shfl_xor_sync(~0u, top, step), s = __shfl_xor_sync(~0u, sum, step);
    const float higher = larger(top, t);
    sum = sum * below(top, higher) + s * below(t, higher);
    top = higher;
  }
  for (int c = threadIdx.x; c < C; c += 32)
    y[c] = __float2bfloat16(expf(__bfloat162float(x[c]) - top) / sum);
}

extern "C" void softmax(const __nv_bfloat16* x, __nv_bfloat16* y, int N, int C, cudaStream_t stream) {
  kernel<<<N, 32, 0, stream>>>(x, y, C);
}
