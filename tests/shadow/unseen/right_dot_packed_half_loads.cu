/* contract
title = "Dot products of rows, packed halves summed in fp32"
[kernel]
entry = "row_dot"
args = ["x", "w", "y", "N", "D", "stream"]
[dims]
N = { min = 1, max = 4096 }
D = { min = 2, max = 8192, multiple_of = 2 }
[tensors.x]
dtype = "f16"
shape = ["N", "D"]
values = "activations"
[tensors.w]
dtype = "f16"
shape = ["D"]
values = "weights"
[tensors.y]
dtype = "f16"
shape = ["N"]
role = "out"
[reference]
formula = "y[n] += x[n, d] * w[d]"
*/
#include <cuda_fp16.h>

#include <cstdint>

__global__ void kernel(const __half2* x, const __half2* w, __half* y, int half) {
  const int64_t row = blockIdx.x;
  float2 sum = make_float2(0.0f, 0.0f);
  for (int i = threadIdx.x; i < half; i += 32) {
    const float2 a = __half22float2(x[row * half + i]), b = __half22float2(w[i]);
    sum.x = fmaf(a.x, b.x, sum.x);
    sum.y = fmaf(a.y, b.y, sum.y);
  }
  float total = sum.x + sum.y;
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
  if (threadIdx.x == 0) y[row] = __float2half(total);
}

extern "C" void row_dot(const __half2* x, const __half2* w, __half* y, int N, int D, cudaStream_t stream) {
  kernel<<<N, 32, 0, stream>>>(x, w, y, D / 2);
}
