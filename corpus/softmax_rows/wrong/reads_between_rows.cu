// assay: expect fail wrong-result, nonfinite, uninitialized
// assay: class F
// The maximum is taken over the whole leading dimension.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWarps = 4;

__global__ void softmax_kernel(const float* x, float* y, int rows, int cols, int ldx, int ldy) {
  const int row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  x += int64_t{row} * ldx;
  y += int64_t{row} * ldy;
  float largest = -INFINITY;
  for (int j = lane; j < (row + 1 < rows ? ldx : cols); j += 32) {
    const float value = x[j];
    largest = value > largest || value != value ? value : largest;
  }
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, largest, step);
    largest = other > largest || other != other ? other : largest;
  }
  float sum = 0;
  for (int j = lane; j < cols; j += 32) sum += expf(x[j] - largest);
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  for (int j = lane; j < cols; j += 32) y[j] = expf(x[j] - largest) / sum;
}

}  // namespace

extern "C" void softmax_rows(const float* x, float* y, int rows, int cols, int ldx, int ldy, cudaStream_t stream) {
  softmax_kernel<<<(rows + kWarps - 1) / kWarps, 32 * kWarps, 0, stream>>>(x, y, rows, cols, ldx, ldy);
}
