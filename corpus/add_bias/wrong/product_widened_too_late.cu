// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// The product is made in 32 bits and widened afterwards.
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

namespace {

__device__ bf16 sum(bf16 x, bf16 b) {
  return __float2bfloat16(__bfloat162float(x) + __bfloat162float(b));
}

// Tiles of 64 columns and 16 rows; row tiles on x, which has room for 2^31, column tiles on y.
__global__ void add_kernel(const bf16* x, const bf16* b, bf16* y, int rows, int cols) {
  const int c = blockIdx.y * 64 + threadIdx.x;
  if (c >= cols) return;
  const bf16 bias = b[c];
  for (int k = threadIdx.y; k < 16; k += blockDim.y) {
    const int r = blockIdx.x * 16 + k;
    if (r < rows) y[int64_t{r * cols} + c] = sum(x[int64_t{r * cols} + c], bias);
  }
}

}  // namespace

extern "C" void add_bias(const bf16* x, const bf16* b, bf16* y, int rows, int cols, cudaStream_t stream) {
  add_kernel<<<dim3((rows + 15) / 16, (cols + 63) / 64), dim3(64, 4), 0, stream>>>(x, b, y, rows, cols);
}
