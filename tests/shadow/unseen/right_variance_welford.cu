/* contract
title = "Variance of rows, Welford with merged lanes"
[kernel]
entry = "row_variance"
args = ["x", "y", "N", "D", "stream"]
[dims]
N = { min = 1, max = 4096 }
D = { min = 1, max = 4096 }
[tensors.x]
dtype = "bf16"
shape = ["N", "D"]
values = "activations"
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = """
mu[n] = mean[d](x[n, d])
y[n] = mean[d]((x[n, d] - mu[n])^2)
"""
*/
#include <cuda_bf16.h>

#include <cstdint>

__global__ void kernel(const __nv_bfloat16* x, float* y, int D) {
  const __nv_bfloat16* row = x + int64_t{blockIdx.x} * D;
  float count = 0.0f, mean = 0.0f, m2 = 0.0f;
  for (int d = threadIdx.x; d < D; d += 32) {
    const float v = __bfloat162float(row[d]);
    count += 1.0f;
    const float delta = v - mean;
    mean += delta / count;
    m2 += delta * (v - mean);
  }
  for (int step = 16; step > 0; step /= 2) {
    const float c = __shfl_xor_sync(~0u, count, step), m = __shfl_xor_sync(~0u, mean, step),
                q = __shfl_xor_sync(~0u, m2, step);
    const float all = count + c;
    if (all > 0.0f) {
      // Each pair merges in one order, so that both lanes agree.
      const bool low = (threadIdx.x & step) == 0;
      const float first = low ? mean : m, second = low ? m : mean;
      const float nf = low ? count : c, ns = low ? c : count;
      const float delta = second - first;
      mean = nf == 0.0f ? second : ns == 0.0f ? first : first + delta * (ns / all);
      m2 = nf == 0.0f || ns == 0.0f ? m2 + q : m2 + q + delta * delta * (nf * ns / all);
      count = all;
    }
  }
  if (threadIdx.x == 0) y[blockIdx.x] = m2 / static_cast<float>(D);
}

extern "C" void row_variance(const __nv_bfloat16* x, float* y, int N, int D, cudaStream_t stream) {
  kernel<<<N, 32, 0, stream>>>(x, y, D);
}
