// assay: expect fail low-precision-accumulation, wrong-result
// assay: class A
// The sums are kept in bf16: once a row is 256 times larger than what is added, adding is lost.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__global__ void add_rows(const __nv_bfloat16* dy, const int64_t* tokens, __nv_bfloat16* sums, int D) {
  const int64_t t = blockIdx.x;
  const int64_t row = tokens[t];
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    atomicAdd(&sums[row * D + d], dy[t * D + d]);
  }
}

}  // namespace

extern "C" void embedding_grad(const __nv_bfloat16* dy, const int64_t* tokens, __nv_bfloat16* dw, float*,
                               int T, int D, int V, cudaStream_t stream) {
  const int64_t n = int64_t{V} * D;
  cudaMemsetAsync(dw, 0, n * sizeof(__nv_bfloat16), stream);
  add_rows<<<T, 128, 0, stream>>>(dy, tokens, dw, D);
}
