// assay: expect pass
// A block for each row.
#include <cuda_bf16.h>

#include <cstdint>

using bf16 = __nv_bfloat16;

namespace {

__global__ void norm_kernel(const bf16* x, float* y, int64_t cols) {
  __shared__ float partial[4];
  const bf16* own = x + blockIdx.x * cols;
  float sum = 0.0f;
  for (int64_t c = threadIdx.x; c < cols; c += 128) {
    const float v = __bfloat162float(own[c]);
    sum += v * v;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x == 0) y[blockIdx.x] = partial[0] + partial[1] + partial[2] + partial[3];
}

}  // namespace

extern "C" void row_norm(const bf16* x, float* y, int rows, int cols, cudaStream_t stream) {
  norm_kernel<<<rows, 128, 0, stream>>>(x, y, cols);
}
