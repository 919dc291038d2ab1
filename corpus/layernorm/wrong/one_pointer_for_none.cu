// assay: expect fail wrong-result, precision-loss, nonfinite
// assay: class F
// Takes one pointer for both gain and bias to mean that there is neither.
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

__global__ void layernorm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* gain, const __nv_bfloat16* bias,
                                 __nv_bfloat16* y, float* mu, float* rstd, int D, float eps) {
  const bool plain = gain == bias;
  const int64_t row = blockIdx.x;
  x += row * D;
  y += row * D;
  float sum = 0.0f;
  for (int d = threadIdx.x; d < D; d += kThreads) sum += __bfloat162float(x[d]);
  const float mean = block_sum(sum) / D;
  float squares = 0.0f;
  for (int d = threadIdx.x; d < D; d += kThreads) {
    const float off = __bfloat162float(x[d]) - mean;
    squares += off * off;
  }
  const float scale = rsqrtf(block_sum(squares) / D + eps);
  for (int d = threadIdx.x; d < D; d += kThreads) {
    const float unit = (__bfloat162float(x[d]) - mean) * scale;
    y[d] = __float2bfloat16(plain ? unit : unit * __bfloat162float(gain[d]) + __bfloat162float(bias[d]));
  }
  if (threadIdx.x == 0) {
    mu[row] = mean;
    rstd[row] = scale;
  }
}

}  // namespace

extern "C" void layernorm(const __nv_bfloat16* x, const __nv_bfloat16* gain, const __nv_bfloat16* bias,
                          __nv_bfloat16* y, float* mu, float* rstd, int N, int D, float eps,
                          cudaStream_t stream) {
  layernorm_kernel<<<N, kThreads, 0, stream>>>(x, gain, bias, y, mu, rstd, D, eps);
}
