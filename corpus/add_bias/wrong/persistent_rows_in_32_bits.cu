// assay: expect fail timeout, out-of-bounds, unwritten-output, wrong-result, data-race
// assay: class D
// Blocks stride over the rows; the offset of a row is a product of 32 bits.
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

namespace {

__global__ void add_kernel(const bf16* x, const bf16* b, bf16* y, int rows, int cols) {
  for (int r = blockIdx.x; r < rows; r += gridDim.x)
    for (int c = threadIdx.x; c < cols; c += blockDim.x)
      y[r * cols + c] = __float2bfloat16(__bfloat162float(x[r * cols + c]) + __bfloat162float(b[c]));
}

}  // namespace

extern "C" void add_bias(const bf16* x, const bf16* b, bf16* y, int rows, int cols, cudaStream_t stream) {
  add_kernel<<<264, 256, 0, stream>>>(x, b, y, rows, cols);
}
