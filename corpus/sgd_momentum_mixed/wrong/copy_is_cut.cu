// assay: expect fail biased-rounding, wrong-result
// assay: class C
// The copy is cut, not rounded.
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void sgd_kernel(float* w, __nv_bfloat16* copy, const __nv_bfloat16* g, float* m, int n, float lr) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  m[i] = 0.9f * m[i] + __bfloat162float(g[i]);
  w[i] -= lr * m[i];
  copy[i] = __float2bfloat16_rz(w[i]);
}

}  // namespace

extern "C" void sgd(float* w, __nv_bfloat16* copy, const __nv_bfloat16* g, float* m, int n, float lr, cudaStream_t stream) {
  sgd_kernel<<<(n + 255) / 256, 256, 0, stream>>>(w, copy, g, m, n, lr);
}
