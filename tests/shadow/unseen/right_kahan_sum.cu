/* contract
title = "Sum of rows, compensated"
[kernel]
entry = "row_sum"
args = ["x", "y", "N", "D", "stream"]
[dims]
N = { min = 1, max = 4096 }
D = { min = 1, max = 8192 }
[tensors.x]
dtype = "f32"
shape = ["N", "D"]
values = "activations"
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "y[n] = sum[d](x[n, d])"
*/
#include <cstdint>

__global__ void kernel(const float* x, float* y, int N, int D) {
  const int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n >= N) return;
  float sum = 0.0f, lost = 0.0f;
  for (int d = 0; d < D; ++d) {
    const float term = x[n * D + d] - lost;
    const float next = sum + term;
    const float rest = (next - sum) - term;
    lost = isfinite(rest) ? rest : 0.0f;
    sum = next;
  }
  y[n] = sum;
}

extern "C" void row_sum(const float* x, float* y, int N, int D, cudaStream_t stream) {
  kernel<<<(N + 63) / 64, 64, 0, stream>>>(x, y, N, D);
}
