// The gradient of an embedding table: every token adds its row of dy to its row of dw.
// The sums are kept in fp32 and rounded once.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

namespace {

__global__ void add_rows(const __nv_bfloat16* dy, const int64_t* tokens, float* sums, int D) {
  const int64_t t = blockIdx.x;
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    atomicAdd(&sums[tokens[t] * D + d], __bfloat162float(dy[t * D + d]));
  }
}

__global__ void round_to_bf16(const float* sums, __nv_bfloat16* dw, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride) {
    dw[i] = __float2bfloat16(sums[i]);
  }
}

}  // namespace

extern "C" void embedding_grad(const __nv_bfloat16* dy, const int64_t* tokens, __nv_bfloat16* dw, int T,
                               int D, int V, cudaStream_t stream) {
  const int64_t n = int64_t{V} * D;
  float* sums = nullptr;
  cudaMallocAsync(&sums, n * sizeof(float), stream);
  cudaMemsetAsync(sums, 0, n * sizeof(float), stream);
  add_rows<<<T, 128, 0, stream>>>(dy, tokens, sums, D);
  const int64_t blocks = std::min((n + 255) / 256, int64_t{4096});
  round_to_bf16<<<blocks, 256, 0, stream>>>(sums, dw, n);
  cudaFreeAsync(sums, stream);
}
