// assay: expect pass
// LayerNorm backward: a block for each row, then a thread for each column.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

__device__ float block_sum(float v) {
  __shared__ float partial[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < kThreads / 32; ++i) sum += partial[i];
  __syncthreads();
  return sum;
}

__global__ void rows(const float* dy, const float* x, const float* gain, const float* mu, const float* rstd,
                     float* dx, int D) {
  const int64_t row = blockIdx.x;
  const float mean = mu[row], scale = rstd[row];
  dy += row * D;
  x += row * D;
  dx += row * D;
  float sum = 0.0f, dot = 0.0f;
  for (int d = threadIdx.x; d < D; d += kThreads) {
    const float up = dy[d] * gain[d];
    sum += up;
    dot += up * (x[d] - mean) * scale;
  }
  sum = block_sum(sum) / D;
  dot = block_sum(dot) / D;
  for (int d = threadIdx.x; d < D; d += kThreads) {
    const float unit = (x[d] - mean) * scale;
    dx[d] = scale * (dy[d] * gain[d] - sum - unit * dot);
  }
}

__global__ void columns(const float* dy, const float* x, const float* mu, const float* rstd, float* dgain,
                        float* dbias, int N, int D) {
  const int d = blockIdx.x * blockDim.x + threadIdx.x;
  if (d >= D) return;
  float gains = 0.0f, biases = 0.0f;
  for (int64_t n = 0; n < N; ++n) {
    const float up = dy[n * D + d];
    biases += up;
    gains += up * (x[n * D + d] - mu[n]) * rstd[n];
  }
  dgain[d] = gains;
  dbias[d] = biases;
}

}  // namespace

extern "C" void layernorm_backward(const float* dy, const float* x, const float* gain, const float* mu,
                                   const float* rstd, float* dx, float* dgain, float* dbias, int N, int D,
                                   cudaStream_t stream) {
  rows<<<N, kThreads, 0, stream>>>(dy, x, gain, mu, rstd, dx, D);
  columns<<<(D + 63) / 64, 64, 0, stream>>>(dy, x, mu, rstd, dgain, dbias, N, D);
}
