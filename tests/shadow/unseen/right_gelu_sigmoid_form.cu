/* contract
title = "GELU (tanh form), f16 in pairs"
[kernel]
entry = "gelu"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 2, max = 1048576, multiple_of = 2 }
[tensors.x]
dtype = "f16"
shape = ["n"]
values = "real(-8, 8)"
[tensors.y]
dtype = "f16"
shape = ["n"]
role = "out"
[reference]
formula = """
u[i] = 0.7978845608 * (x[i] + 0.044715 * x[i]^3)
y[i] = x[i] * sigmoid(2 * u[i])
"""
*/
#include <cuda_fp16.h>

#include <cstdint>

__device__ float gelu_of(float x) {
  const float u2 = 2.0f * 0.7978845608f * (x + 0.044715f * x * x * x);
  if (u2 < 0.0f) {
    const float e = expf(u2);
    return x * (e / (1.0f + e));
  }
  return x / (1.0f + expf(-u2));
}

__global__ void kernel(const __half2* x, __half2* y, int pairs) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  const float2 v = __half22float2(x[i]);
  y[i] = __floats2half2_rn(gelu_of(v.x), gelu_of(v.y));
}

extern "C" void gelu(const __half2* x, __half2* y, int n, cudaStream_t stream) {
  kernel<<<(n / 2 + 127) / 128, 128, 0, stream>>>(x, y, n / 2);
}
