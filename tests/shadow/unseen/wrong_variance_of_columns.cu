/* contract
title = "Variance of columns"
[kernel]
entry = "column_variance"
args = ["x", "y", "N", "D", "stream"]
[dims]
N = { min = 2, max = 4096 }
D = { min = 1, max = 2048 }
[tensors.x]
dtype = "f32"
shape = ["N", "D"]
values = "activations"
[tensors.y]
dtype = "f32"
shape = ["D"]
role = "out"
[reference]
formula = """
mu[d] = mean[n](x[n, d])
y[d] = mean[n]((x[n, d] - mu[d])^2)
"""
*/
#include <cstdint>

__global__ void kernel(const float* x, float* y, int N, int D) {
  const int d = blockIdx.x * blockDim.x + threadIdx.x;
  if (d >= D) return;
  float s = 0.0f, q = 0.0f;
  for (int n = 0; n < N; ++n) {
    const float v = x[int64_t{n} * D + d];
    s += v;
    q = fmaf(v, v, q);  // loses precision
  }
  const float mu = s / static_cast<float>(N);
  y[d] = q / static_cast<float>(N) - mu * mu;  // loses precision
}

extern "C" void column_variance(const float* x, float* y, int N, int D, cudaStream_t stream) {
  kernel<<<(D + 63) / 64, 64, 0, stream>>>(x, y, N, D);
}
