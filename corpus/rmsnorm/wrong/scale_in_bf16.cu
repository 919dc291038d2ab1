// assay: expect fail precision-loss, biased-rounding, low-precision-accumulation, wrong-result
// assay: class A
// The scale is rounded to bf16: a whole row is off by the same factor.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kRows = 4;  // a warp each

__global__ void rmsnorm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int N, int D,
                               float eps) {
  const int64_t row = int64_t{blockIdx.x} * kRows + threadIdx.y;
  if (row >= N) return;
  const int lane = threadIdx.x;
  x += row * D;
  y += row * D;
  float squares = 0.0f;
  for (int d = lane; d < D; d += 32) {
    const float v = __bfloat162float(x[d]);
    squares = fmaf(v, v, squares);
  }
  for (int step = 16; step > 0; step /= 2) squares += __shfl_down_sync(~0u, squares, step);
  squares = __shfl_sync(~0u, squares, 0);
  const float scale = __bfloat162float(__float2bfloat16(1.0f / sqrtf(squares / D + eps)));
  for (int d = lane; d < D; d += 32) {
    y[d] = __float2bfloat16(__bfloat162float(x[d]) * (scale * __bfloat162float(w[d])));
  }
}

}  // namespace

extern "C" void rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* y, int N, int D,
                        float eps, cudaStream_t stream) {
  rmsnorm_kernel<<<(N + kRows - 1) / kRows, dim3(32, kRows), 0, stream>>>(x, w, y, N, D, eps);
}
