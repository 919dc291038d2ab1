// assay: expect pass
// Warps stride over the rows; the offset of a row is a product of 64 bits.
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

namespace {

__global__ void norm_kernel(const bf16* x, float* y, int rows, int cols) {
  const int lane = threadIdx.x % 32;
  for (int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32; row < rows; row += gridDim.x * blockDim.x / 32) {
    const bf16* own = x + int64_t{row} * cols;
    float sum = 0.0f;
    for (int c = lane; c < cols; c += 32) {
      const float v = __bfloat162float(own[c]);
      sum += v * v;
    }
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (lane == 0) y[row] = sum;
  }
}

}  // namespace

extern "C" void row_norm(const bf16* x, float* y, int rows, int cols, cudaStream_t stream) {
  norm_kernel<<<264, 256, 0, stream>>>(x, y, rows, cols);
}
