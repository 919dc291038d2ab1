/* contract
title = "Softplus"
[kernel]
entry = "soft"
args = ["x", "y", "n", "stream"]
[dims]
n = { min = 1, max = 1048576 }
[tensors.x]
dtype = "f32"
shape = ["n"]
values = "real(-20, 20)"
[tensors.y]
dtype = "f32"
shape = ["n"]
role = "out"
[reference]
formula = "y[i] = softplus(x[i])"
*/
#include <cstdint>

__global__ void kernel(const float* x, float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float e = expf(x[i]);
  const float more = 1.0f + e;  // loses precision
  y[i] = logf(more);
}

extern "C" void soft(const float* x, float* y, int n, cudaStream_t stream) {
  kernel<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
