// assay: expect fail wrong-result
// assay: class K
// The projection lacks a factor of the scale; at a scale of one nobody sees it.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 128;

__device__ float block_sum(float v) {
  __shared__ float partial[kThreads / 32];
  __syncthreads();  // the previous call's readers are done
  for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < kThreads / 32; ++i) sum += partial[i];
  return sum;
}

__global__ void backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* w,
                         __nv_bfloat16* dx, float* dw, int D, float eps) {
  const int64_t row = blockIdx.x;
  dy += row * D;
  x += row * D;
  dx += row * D;
  float squares = 0.0f, dot = 0.0f;
  for (int d = threadIdx.x; d < D; d += kThreads) {
    const float v = __bfloat162float(x[d]);
    squares += v * v;
    dot += __bfloat162float(dy[d]) * __bfloat162float(w[d]) * v;
  }
  squares = block_sum(squares);
  dot = block_sum(dot);
  const float scale = rsqrtf(squares / D + eps);
  const float along = dot / D * scale * scale;
  for (int d = threadIdx.x; d < D; d += kThreads) {
    const float v = __bfloat162float(x[d]);
    const float up = __bfloat162float(dy[d]);
    dx[d] = __float2bfloat16(up * __bfloat162float(w[d]) * scale - v * along);
    atomicAdd(&dw[d], up * v * scale);
  }
}

}  // namespace

extern "C" void rmsnorm_backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* w,
                                 __nv_bfloat16* dx, float* dw, float*, int N, int D, float eps,
                                 cudaStream_t stream) {
  cudaMemsetAsync(dw, 0, D * sizeof(float), stream);
  backward<<<N, kThreads, 0, stream>>>(dy, x, w, dx, dw, D, eps);
}
