// The gradient of an embedding table: every token adds its row of dy to its row of dw.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__global__ void add_rows(const __nv_bfloat16* dy, const int64_t* tokens, __nv_bfloat16* dw, int D) {
  const int64_t t = blockIdx.x;
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    atomicAdd(&dw[tokens[t] * D + d], dy[t * D + d]);
  }
}

}  // namespace

extern "C" void embedding_grad(const __nv_bfloat16* dy, const int64_t* tokens, __nv_bfloat16* dw, int T,
                               int D, int V, cudaStream_t stream) {
  cudaMemsetAsync(dw, 0, int64_t{V} * D * sizeof(__nv_bfloat16), stream);
  add_rows<<<T, 128, 0, stream>>>(dy, tokens, dw, D);
}
