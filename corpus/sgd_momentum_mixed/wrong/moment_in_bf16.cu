// assay: expect fail precision-loss, wrong-result, biased-rounding, low-precision-accumulation
// assay: class A
// The moment is rounded to bf16.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void sgd_kernel(float* w, __nv_bfloat16* copy, const __nv_bfloat16* g, float* m, int n, float lr) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  m[i] = __bfloat162float(__float2bfloat16(0.9f * m[i] + __bfloat162float(g[i])));
  w[i] -= lr * m[i];
  copy[i] = __float2bfloat16(w[i]);
}

}  // namespace

extern "C" void sgd(float* w, __nv_bfloat16* copy, const __nv_bfloat16* g, float* m, int n, float lr, cudaStream_t stream) {
  sgd_kernel<<<(n + 255) / 256, 256, 0, stream>>>(w, copy, g, m, n, lr);
}
