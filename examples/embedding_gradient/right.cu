// The gradient of an embedding table through an RMSNorm, in one kernel.
//
// Forward: x[t] = w[tokens[t]], y[t] = x[t] * rstd[t] * g. A block takes one token: it recomputes
// rstd, forms the gradient of its row, and adds that into an fp32 copy of dw. Tokens repeat, so the
// add is atomic. A second kernel rounds the finished sums to bf16, once.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

namespace {

constexpr int kThreads = 128;

// The sums of a and of b over the block, known to every thread.
__device__ float2 block_sum(float2 v) {
  __shared__ float2 partial[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) {
    v.x += __shfl_xor_sync(~0u, v.x, step);
    v.y += __shfl_xor_sync(~0u, v.y, step);
  }
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  float2 sum = {0.0f, 0.0f};
  for (int i = 0; i < kThreads / 32; ++i) {
    sum.x += partial[i].x;
    sum.y += partial[i].y;
  }
  return sum;
}

__global__ void backward(const __nv_bfloat16* dy, const int64_t* tokens, const __nv_bfloat16* w,
                         const __nv_bfloat16* g, float* dw, float* dg, int D, float eps) {
  const int64_t t = blockIdx.x;
  const __nv_bfloat16* dy_row = dy + t * D;
  const __nv_bfloat16* w_row = w + tokens[t] * D;
  float* dw_row = dw + tokens[t] * D;

  float2 sums = {0.0f, 0.0f};  // of x^2, and of dy * g * x
  for (int d = threadIdx.x; d < D; d += kThreads) {
    const float x = __bfloat162float(w_row[d]);
    sums.x += x * x;
    sums.y += __bfloat162float(dy_row[d]) * __bfloat162float(g[d]) * x;
  }
  sums = block_sum(sums);
  const float rstd = rsqrtf(sums.x / D + eps);
  const float along = sums.y / D * rstd * rstd * rstd;

  for (int d = threadIdx.x; d < D; d += kThreads) {
    const float x = __bfloat162float(w_row[d]);
    const float up = __bfloat162float(dy_row[d]);
    const float dx = up * __bfloat162float(g[d]) * rstd - x * along;
    atomicAdd(&dw_row[d], dx);
    atomicAdd(&dg[d], up * x * rstd);
  }
}

__global__ void round_to_bf16(const float* from, __nv_bfloat16* to, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    to[i] = __float2bfloat16(from[i]);
  }
}

}  // namespace

extern "C" void embedding_rmsnorm_grad(const __nv_bfloat16* dy, const int64_t* tokens, const __nv_bfloat16* w,
                                       const __nv_bfloat16* g, __nv_bfloat16* dw, float* dg, void* workspace,
                                       int T, int D, int V, float eps, cudaStream_t stream) {
  const int64_t n = int64_t{V} * D;
  float* sums = static_cast<float*>(workspace);
  cudaMemsetAsync(sums, 0, n * sizeof(float), stream);
  cudaMemsetAsync(dg, 0, D * sizeof(float), stream);
  backward<<<T, kThreads, 0, stream>>>(dy, tokens, w, g, sums, dg, D, eps);
  const int64_t blocks = std::min((n + kThreads - 1) / kThreads, int64_t{4096});
  round_to_bf16<<<blocks, kThreads, 0, stream>>>(sums, dw, n);
}
