// assay: expect pass
#include <cuda_runtime.h>

namespace {

struct Best {
  float value;
  int index;
};

__device__ bool better(Best a, Best b) { return a.value > b.value || (a.value == b.value && a.index < b.index); }

__global__ void extreme_kernel(const float* x, Best* best, int rows, int cols) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  Best mine{-INFINITY, 0x7fffffff};
  for (int c = lane; c < cols; c += 32) {
    const Best other{x[static_cast<size_t>(row) * cols + c], c};
    if (better(other, mine)) mine = other;
  }
  for (int step = 16; step > 0; step /= 2) {
    const Best other{__shfl_xor_sync(0xffffffffu, mine.value, step), __shfl_xor_sync(0xffffffffu, mine.index, step)};
    if (better(other, mine)) mine = other;
  }
  if (lane == 0) best[row] = mine;
}

}  // namespace

extern "C" void row_extreme(const float* x, void* best, int rows, int cols, cudaStream_t stream) {
  extreme_kernel<<<(rows + 3) / 4, 128, 0, stream>>>(x, static_cast<Best*>(best), rows, cols);
}
