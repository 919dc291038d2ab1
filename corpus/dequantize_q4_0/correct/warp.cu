// assay: expect pass
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

namespace {

struct Block {
  __half scale;
  uint8_t quants[16];
};
static_assert(sizeof(Block) == 18);

__global__ void gemv_kernel(const Block* blocks, const float* x, float* y, int N, int K) {
  const int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= N) return;
  const int count = K / 32;
  float sum = 0;
  for (int b = lane; b < count; b += 32) {
    const Block& block = blocks[static_cast<size_t>(row) * count + b];
    float part = 0;
    for (int j = 0; j < 16; ++j)
      part += (int(block.quants[j] & 15) - 8) * x[32 * b + j] + (int(block.quants[j] >> 4) - 8) * x[32 * b + 16 + j];
    sum += __half2float(block.scale) * part;
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
  if (lane == 0) y[row] = sum;
}

}  // namespace

extern "C" void gemv_q4_0(const void* blocks, const float* x, float* y, int N, int K, cudaStream_t stream) {
  gemv_kernel<<<(N + 3) / 4, 128, 0, stream>>>(static_cast<const Block*>(blocks), x, y, N, K);
}
