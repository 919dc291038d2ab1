// assay: expect fail wrong-result, nondeterministic, data-race
// assay: class I
// Each lane adds its sum to the warp's total by an exchange, taking what the lane before it left: right only if lanes
// come to the exchange in order.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWarps = 4;

__global__ void sum_rows(const float* x, float* y, int rows, int cols) {
  __shared__ float total[kWarps];
  const int warp = threadIdx.x / 32, row = blockIdx.x * kWarps + warp, lane = threadIdx.x % 32;
  if (lane == 0) total[warp] = 0.0f;
  __syncwarp();
  if (row >= rows) return;
  float sum = 0.0f;
  for (int j = lane; j < cols; j += 32) sum += x[int64_t{row} * cols + j];
  for (int step = 16; step > 1; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (lane < 2) {
    const float before = atomicExch(&total[warp], sum);
    if (lane == 1) y[row] = before + sum;
  }
}

}  // namespace

extern "C" void row_sum(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
  sum_rows<<<blocks, kWarps * 32, 0, stream>>>(x, y, rows, cols);
}
