// assay: expect fail out-of-bounds, wrong-result
// assay: class D
// Tokens from 32768 on become negative.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__global__ void add_rows(const __nv_bfloat16* dy, const int64_t* tokens, float* sums, int D) {
  const int64_t t = blockIdx.x;
  const int64_t row = static_cast<int16_t>(tokens[t]);
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    atomicAdd(&sums[row * D + d], __bfloat162float(dy[t * D + d]));
  }
}

__global__ void round_sums(const float* sums, __nv_bfloat16* dw, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < n) dw[i] = __float2bfloat16(sums[i]);
}

}  // namespace

extern "C" void embedding_grad(const __nv_bfloat16* dy, const int64_t* tokens, __nv_bfloat16* dw,
                               float* workspace, int T, int D, int V, cudaStream_t stream) {
  const int64_t n = int64_t{V} * D;
  cudaMemsetAsync(workspace, 0, n * sizeof(float), stream);
  add_rows<<<T, 128, 0, stream>>>(dy, tokens, workspace, D);
  round_sums<<<(n + 255) / 256, 256, 0, stream>>>(workspace, dw, n);
}
