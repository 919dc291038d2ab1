/* contract
title = "AdamW step, four at a time"
[kernel]
entry = "adamw"
args = ["p", "m", "v", "g", "n", "lr", "beta1", "beta2", "stream"]
[dims]
n = { min = 4, max = 1048576, multiple_of = 4 }
[tensors.p]
dtype = "f32"
shape = ["n"]
values = "weights"
role = "inout"
[tensors.m]
dtype = "f32"
shape = ["n"]
values = "gradients"
role = "inout"
[tensors.v]
dtype = "f32"
shape = ["n"]
values = "real(1e-10, 1)"
role = "inout"
[tensors.g]
dtype = "bf16"
shape = ["n"]
values = "gradients"
[scalars]
lr = { dtype = "f32", value = 0.001 }
beta1 = { dtype = "f32", value = 0.9 }
beta2 = { dtype = "f32", value = 0.999 }
[reference]
formula = """
m[i] = beta1 * m[i] + (1 - beta1) * g[i]
v[i] = beta2 * v[i] + (1 - beta2) * g[i]^2
p[i] = p[i] - lr * (m[i] / (sqrt(v[i]) + 1e-8) + 0.01 * p[i])
"""
*/
#include <cuda_bf16.h>

#include <cstdint>

__device__ void step(float& p, float& m, float& v, float g, float lr, float b1, float b2) {
  m = b1 * m + (1.0f - b1) * g;
  v = b2 * v + (1.0f - b2) * g * g;
  p -= lr * (m / (sqrtf(v) + 1e-8f) + 0.01f * p);
}

__global__ void kernel(float4* p, float4* m, float4* v, const __nv_bfloat162* g, int n4, float lr, float b1,
                       float b2) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n4) return;
  float4 pp = p[i], mm = m[i], vv = v[i];
  const float2 low = __bfloat1622float2(g[2 * i]), high = __bfloat1622float2(g[2 * i + 1]);
  step(pp.x, mm.x, vv.x, low.x, lr, b1, b2);
  step(pp.y, mm.y, vv.y, low.y, lr, b1, b2);
  step(pp.z, mm.z, vv.z, high.x, lr, b1, b2);
  step(pp.w, mm.w, vv.w, high.y, lr, b1, b2);
  p[i] = pp, m[i] = mm, v[i] = vv;
}

extern "C" void adamw(float4* p, float4* m, float4* v, const __nv_bfloat162* g, int n, float lr, float beta1,
                      float beta2, cudaStream_t stream) {
  kernel<<<(n / 4 + 127) / 128, 128, 0, stream>>>(p, m, v, g, n / 4, lr, beta1, beta2);
}
