// assay: expect fail wrong-result
// assay: class E
// The last T % 128 tokens are never looked at.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;
constexpr int kMaxPerThread = 4;  // D is at most 512

__global__ void row_sums(const __nv_bfloat16* dy, const int64_t* tokens, __nv_bfloat16* dw, int T, int D) {
  __shared__ int hits[kThreads];
  __shared__ int count;
  const int64_t v = blockIdx.x;
  float sum[kMaxPerThread] = {};
  for (int from = 0; from + kThreads <= T; from += kThreads) {
    if (threadIdx.x == 0) count = 0;
    __syncthreads();
    const int t = from + threadIdx.x;
    if (t < T && tokens[t] == v) hits[atomicAdd(&count, 1)] = t;
    __syncthreads();
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < kMaxPerThread; ++j) {
        const int d = threadIdx.x + j * kThreads;
        if (d < D) sum[j] += __bfloat162float(dy[int64_t{hits[i]} * D + d]);
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < kMaxPerThread; ++j) {
    const int d = threadIdx.x + j * kThreads;
    if (d < D) dw[v * D + d] = __float2bfloat16(sum[j]);
  }
}

}  // namespace

extern "C" void embedding_grad(const __nv_bfloat16* dy, const int64_t* tokens, __nv_bfloat16* dw, float*,
                               int T, int D, int V, cudaStream_t stream) {
  row_sums<<<V, kThreads, 0, stream>>>(dy, tokens, dw, T, D);
}
