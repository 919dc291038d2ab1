// assay: expect fail wrong-result
// assay: class K
// The incoming gradient is taken to be one.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

// A warp for each row. lse is the row's log of the sum of exponentials, saved by the forward pass.
__global__ void gradients(const __nv_bfloat16* logits, const int64_t* targets, const float* lse,
                          const float* dloss, __nv_bfloat16* dlogits, int N, int C) {
  const int64_t row = int64_t{blockIdx.x} * 4 + threadIdx.y;
  if (row >= N) return;
  const int64_t target = targets[row];
  const float base = lse[row];
  for (int c = threadIdx.x; c < C; c += 32) {
    const float p = expf(__bfloat162float(logits[row * C + c]) - base);
    dlogits[row * C + c] = __float2bfloat16(c == target ? p - 1.0f : p);
  }
}

}  // namespace

extern "C" void cross_entropy_backward(const __nv_bfloat16* logits, const int64_t* targets, const float* lse,
                                       const float* dloss, __nv_bfloat16* dlogits, int N, int C,
                                       cudaStream_t stream) {
  gradients<<<(N + 3) / 4, dim3(32, 4), 0, stream>>>(logits, targets, lse, dloss, dlogits, N, C);
}
