// assay: expect fail wrong-result, nonfinite
// assay: class H
// Masked columns are in the sum.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void softmax_kernel(const float* x, const uint8_t* mask, float* y, int rows, int cols) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += int64_t{row} * cols;
  y += int64_t{row} * cols;
  float largest = -INFINITY, sum = 0;
  for (int j = lane; j < cols; j += 32)
    if (!mask || mask[j]) largest = fmaxf(largest, x[j]);
  for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, step));
  for (int j = lane; j < cols; j += 32)
    sum += expf(x[j] - largest);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  for (int j = lane; j < cols; j += 32) y[j] = !mask || mask[j] ? expf(x[j] - largest) / sum : 0.0f;
}

}  // namespace

extern "C" void masked_softmax(const float* x, const uint8_t* mask, float* y, int rows, int cols, cudaStream_t stream) {
  softmax_kernel<<<(rows + 3) / 4, 128, 0, stream>>>(x, mask, y, rows, cols);
}
