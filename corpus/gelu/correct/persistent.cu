// assay: expect pass
// GELU: as many blocks as the GPU holds at once, whichever GPU it is; asked once for a process.
#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

namespace {

__device__ float gelu_tanh(float x) {
  const float u2 = 2.0f * 0.7978845608f * (x + 0.044715f * x * x * x);
  if (u2 >= 0.0f) return x / (1.0f + expf(-u2));
  const float e = expf(u2);
  return x * (e / (1.0f + e));
}

__global__ void gelu_kernel(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n) {
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride)
    y[i] = __float2bfloat16(gelu_tanh(__bfloat162float(x[i])));
}

}  // namespace

extern "C" void gelu(const __nv_bfloat16* x, __nv_bfloat16* y, int64_t n, cudaStream_t stream) {
  static const int resident = [] {
    int multiprocessors = 0, blocks = 0;
    cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, gelu_kernel, 256, 0);
    return multiprocessors * blocks;
  }();
  const int64_t blocks = std::min<int64_t>((n + 255) / 256, resident);
  gelu_kernel<<<blocks, 256, 0, stream>>>(x, y, n);
}
