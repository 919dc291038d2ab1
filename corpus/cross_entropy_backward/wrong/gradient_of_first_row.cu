// assay: expect fail wrong-result
// assay: class K
// The incoming gradient is treated as a scalar.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

// A thread for each element; the row is found by division.
__global__ void gradients(const __nv_bfloat16* logits, const int64_t* targets, const float* lse,
                          const float* dloss, __nv_bfloat16* dlogits, int64_t count, int C) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int64_t row = i / C;
  const float x = __bfloat162float(logits[i]) - lse[row];
  const float g = i - row * C == targets[row] ? expm1f(x) : expf(x);
  dlogits[i] = __float2bfloat16(g * dloss[0]);
}

}  // namespace

extern "C" void cross_entropy_backward(const __nv_bfloat16* logits, const int64_t* targets, const float* lse,
                                       const float* dloss, __nv_bfloat16* dlogits, int N, int C,
                                       cudaStream_t stream) {
  const int64_t count = int64_t{N} * C;
  gradients<<<(count + 255) / 256, 256, 0, stream>>>(logits, targets, lse, dloss, dlogits, count, C);
}
