// assay: expect fail out-of-bounds, wrong-result, unwritten-output
// assay: class F
// The output is written with the leading dimension of the input.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__device__ float over_warp(float sum) {
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  return sum;
}

__global__ void layernorm_kernel(const float* x, float* y, int rows, int cols, int ld) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += int64_t{row} * ld;
  y += int64_t{row} * ld;
  float sum = 0, squares = 0;
  for (int j = lane; j < cols; j += 32) sum += x[j];
  const float mean = over_warp(sum) / cols;
  for (int j = lane; j < cols; j += 32) squares += (x[j] - mean) * (x[j] - mean);
  const float factor = rsqrtf(over_warp(squares) / cols + 1e-5f);
  for (int j = lane; j < cols; j += 32) y[j] = (x[j] - mean) * factor;
}

}  // namespace

extern "C" void layernorm(const float* x, float* y, int rows, int cols, int ld, cudaStream_t stream) {
  layernorm_kernel<<<(rows + 3) / 4, 128, 0, stream>>>(x, y, rows, cols, ld);
}
