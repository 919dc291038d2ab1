// assay: expect fail out-of-bounds, unwritten-output, wrong-result, data-race, clobbered-input, launch-failure
// assay: class D
// The offset of a row in bytes wraps at 2^32: half of the elements that 32 bits could count.
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

namespace {

__global__ void norm_kernel(const bf16* x, float* y, int rows, int cols) {
  const int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const bf16* own = reinterpret_cast<const bf16*>(reinterpret_cast<const char*>(x) + 2u * row * cols);
  float sum = 0.0f;
  for (int c = lane; c < cols; c += 32) {
    const float v = __bfloat162float(own[c]);
    sum += v * v;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (lane == 0) y[row] = sum;
}

}  // namespace

extern "C" void row_norm(const bf16* x, float* y, int rows, int cols, cudaStream_t stream) {
  norm_kernel<<<(rows + 7) / 8, 256, 0, stream>>>(x, y, rows, cols);
}
