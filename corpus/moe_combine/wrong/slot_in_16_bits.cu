// assay: expect fail wrong-result
// assay: class D
// The number of a slot is kept in 16 bits: those beyond 32767 count as not sent.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void combine_kernel(const __nv_bfloat16* x, const int* slot, const float* weight, __nv_bfloat16* y, int K, int D) {
  const int64_t t = blockIdx.x;
  for (int d = threadIdx.x; d < D; d += blockDim.x) {
    float sum = 0;
    for (int k = 0; k < K; ++k) {
      const int16_t from = static_cast<int16_t>(slot[t * K + k]);
      if (from >= 0) sum += weight[t * K + k] * __bfloat162float(x[int64_t{from} * D + d]);
    }
    y[t * D + d] = __float2bfloat16(sum);
  }
}

}  // namespace

extern "C" void moe_combine(const __nv_bfloat16* x, const int* slot, const float* weight, __nv_bfloat16* y, int T, int K, int S,
                            int D, cudaStream_t stream) {
  combine_kernel<<<T, 128, 0, stream>>>(x, slot, weight, y, K, D);
}
