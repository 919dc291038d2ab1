// assay: expect fail wrong-result, unwritten-output, uninitialized
// assay: class L
// Each block takes an equal share, counted for the 132 multiprocessors of an H200; the grid has as many blocks as there are.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

__device__ float gelu_tanh(float x) {
  const float u2 = 2.0f * 0.7978845608f * (x + 0.044715f * x * x * x);
  if (u2 >= 0.0f) return x / (1.0f + expf(-u2));
  const float e = expf(u2);
  return x * (e / (1.0f + e));
}

__global__ void gelu_kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n) {
  const int64_t share = (n + 131) / 132;
  const int64_t end = min(n, (blockIdx.x + 1) * share);
  for (int64_t i = blockIdx.x * share + threadIdx.x; i < end; i += blockDim.x)
    y[i] = __float2bfloat16(gelu_tanh(__bfloat162float(x[i])));
}

}  // namespace

extern "C" void gelu(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, cudaStream_t stream) {
  int multiprocessors = 0;
  cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
  gelu_kernel<<<multiprocessors, 256, 0, stream>>>(x, y, n);
}
