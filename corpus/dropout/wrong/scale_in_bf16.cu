// assay: expect fail precision-loss, biased-rounding, low-precision-accumulation, wrong-result
// assay: class A
// The scale is rounded to bf16.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__global__ void dropout_kernel(const __nv_bfloat16* x, const uint8_t* keep, __nv_bfloat16* y, int64_t n,
                               float p) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const float scale = __bfloat162float(__float2bfloat16(1.0f / (1.0f - p)));
  y[i] = keep[i] ? __float2bfloat16(__bfloat162float(x[i]) * scale) : __float2bfloat16(0.0f);
}

}  // namespace

extern "C" int dropout(const __nv_bfloat16* x, const uint8_t* keep, __nv_bfloat16* y, int n, float p,
                       cudaStream_t stream) {
  if (n == 0) return 0;
  dropout_kernel<<<(n + 255) / 256, 256, 0, stream>>>(x, keep, y, n, p);
  return cudaGetLastError();
}
