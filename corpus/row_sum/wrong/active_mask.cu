// assay: expect fail uninitialized, wrong-result, nondeterministic
// assay: class I
// A warp adds its lanes' sums with the mask of the lanes that happen to be active: after a loop in which lanes did
// different amounts of work that need not be all of them.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWarps = 4;

__global__ void sum_rows(const float* x, float* y, int rows, int cols) {
  const int row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int j = lane; j < cols; j += 32) sum += x[int64_t{row} * cols + j];
  const unsigned mask = __activemask();
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(mask, sum, step);
  if (lane == 0) y[row] = sum;
}

}  // namespace

extern "C" void row_sum(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((rows + kWarps - 1) / kWarps);
  sum_rows<<<blocks, kWarps * 32, 0, stream>>>(x, y, rows, cols);
}
