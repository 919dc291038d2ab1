// assay: expect pass
// Tiles numbered along one axis, counted in 64 bits.
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

namespace {

__device__ bf16 sum(bf16 x, bf16 b) {
  return __float2bfloat16(__bfloat162float(x) + __bfloat162float(b));
}

// The same tiles, numbered along one axis.
__global__ void add_kernel(const bf16* x, const bf16* b, bf16* y, int rows, int cols, int across) {
  const int c = blockIdx.x % across * 64 + threadIdx.x;
  if (c >= cols) return;
  const bf16 bias = b[c];
  for (int k = threadIdx.y; k < 16; k += blockDim.y) {
    const int r = blockIdx.x / across * 16 + k;
    if (r < rows) y[int64_t{r} * cols + c] = sum(x[int64_t{r} * cols + c], bias);
  }
}

}  // namespace

extern "C" void add_bias(const bf16* x, const bf16* b, bf16* y, int rows, int cols, cudaStream_t stream) {
  const int across = (cols + 63) / 64;
  const int64_t tiles = int64_t{(rows + 15) / 16} * across;
  add_kernel<<<static_cast<unsigned>(tiles), dim3(64, 4), 0, stream>>>(x, b, y, rows, cols, across);
}
