/* contract
title = "Variance of columns, two passes"
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
  float sum = 0.0f;
  for (int n = 0; n < N; ++n) sum += x[int64_t{n} * D + d];
  const float mean = sum / static_cast<float>(N);
  float squares = 0.0f;
  for (int n = 0; n < N; ++n) {
    const float off = x[int64_t{n} * D + d] - mean;
    squares = fmaf(off, off, squares);
  }
  y[d] = squares / static_cast<float>(N);
}

extern "C" void column_variance(const float* x, float* y, int N, int D, cudaStream_t stream) {
  kernel<<<(D + 63) / 64, 64, 0, stream>>>(x, y, N, D);
}
