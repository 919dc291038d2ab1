// assay: expect fail wrong-result, nonfinite
// assay: class K
// A misplaced parenthesis adds epsilon to the divisor; a row of zeros becomes NaN.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__device__ float block_sum(float v) {
  __shared__ float partial[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < kThreads / 32; ++i) sum += partial[i];
  return sum;
}

__global__ void rmsnorm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int D,
                               float eps) {
  const int64_t row = blockIdx.x;
  const __nv_bfloat16* in = x + row * D;
  __nv_bfloat16* out = y + row * D;
  float squares = 0.0f;
  for (int d = threadIdx.x; d < D; d += kThreads) {
    const float v = __bfloat162float(in[d]);
    squares += v * v;
  }
  const float mean = block_sum(squares) / (D + eps);
  const float scale = rsqrtf(mean);
  for (int d = threadIdx.x; d < D; d += kThreads) {
    out[d] = __float2bfloat16(__bfloat162float(in[d]) * scale * __bfloat162float(w[d]));
  }
}

}  // namespace

extern "C" void rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int N, int D,
                        float eps, cudaStream_t stream) {
  rmsnorm_kernel<<<N, kThreads, 0, stream>>>(x, w, y, D, eps);
}
