// assay: expect fail data-race, wrong-result
// assay: class J
// The stored sum is read again with __ldg, whose cache may still hold the residual from before the store.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__global__ void add_rmsnorm_kernel(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* residual,
                                   __nv_bfloat16* y, int D, float eps) {
  __shared__ float partial[kThreads];
  const int64_t row = blockIdx.x;
  float squares = 0.0f;
  for (int d = threadIdx.x; d < D; d += kThreads) {
    const __nv_bfloat16 sum =
        __float2bfloat16(__bfloat162float(x[row * D + d]) + __bfloat162float(residual[row * D + d]));
    residual[row * D + d] = sum;
    squares += __bfloat162float(sum) * __bfloat162float(sum);
  }
  partial[threadIdx.x] = squares;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    __syncthreads();
  }
  const float scale = rsqrtf(partial[0] / D + eps);
  for (int d = threadIdx.x; d < D; d += kThreads) {
    y[row * D + d] =
        __float2bfloat16(__bfloat162float(__ldg(residual + row * D + d)) * scale * __bfloat162float(w[d]));
  }
}

}  // namespace

extern "C" void add_rmsnorm(const __nv_bfloat16* x, const __nv_bfloat16* w, __nv_bfloat16* residual,
                            __nv_bfloat16* y, int N, int D, float eps, cudaStream_t stream) {
  add_rmsnorm_kernel<<<N, kThreads, 0, stream>>>(x, w, residual, y, D, eps);
}
