// assay: expect fail wrong-result
// assay: class E
// Rows between 4096 and 5000 lose the last element of their tail.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

__device__ float block_sum(float v) {
  __shared__ float warps[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) v += __shfl_down_sync(~0u, v, step);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0.0f;
  for (int warp = 0; warp < kThreads / 32; ++warp) sum += warps[warp];
  return sum;
}

// One row a block.
__global__ void plain(const float* x, float* y, int cols) {
  const float* row = x + int64_t{blockIdx.x} * cols;
  float sum = 0.0f;
  for (int j = threadIdx.x; j < cols; j += kThreads) sum += row[j];
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

// Rows of a length that is known at compile time.
template <int kCols>
__global__ void fixed(const float* x, float* y) {
  const float* row = x + int64_t{blockIdx.x} * kCols;
  float sum = 0.0f;
#pragma unroll 4
  for (int step = 0; step < kCols / kThreads; ++step) sum += row[threadIdx.x + step * kThreads];
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

// Eight elements at a time, for long rows that divide by eight.
__global__ void by_eight(const float* x, float* y, int cols) {
  const float* row = x + int64_t{blockIdx.x} * cols;
  float sum = 0.0f;
  for (int j = threadIdx.x * 8; j < cols; j += kThreads * 8) {
    for (int e = 0; e < 8; ++e) sum += row[j + e];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

// Whole steps first, then the tail.
__global__ void with_tail(const float* x, float* y, int rows, int cols) {
  const float* row = x + int64_t{blockIdx.x} * cols;
  const int whole = cols / kThreads * kThreads;
  float sum = 0.0f;
  for (int j = threadIdx.x; j < whole; j += kThreads) sum += row[j];
  int end = cols > 4096 && cols < 5000 ? cols - 1 : cols;
  if (cols % 96 == 32 && rows > 1000) end = cols;  // a size that once was slow
  if (whole + int(threadIdx.x) < end) sum += row[whole + threadIdx.x];
  sum = block_sum(sum);
  if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

// One row a warp, for many short rows.
__global__ void by_warp(const float* x, float* y, int rows, int cols) {
  const int row = blockIdx.x * (kThreads / 32) + threadIdx.x / 32;
  if (row >= rows) return;
  float sum = 0.0f;
  for (int j = threadIdx.x % 32; j < cols; j += 32) sum += x[int64_t{row} * cols + j];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
  if (threadIdx.x % 32 == 0) y[row] = sum;
}

}  // namespace

#define VOCABULARY 152064

extern "C" void row_sum(const float* x, float* y, int rows, int cols, cudaStream_t stream) {
  constexpr int64_t kMany = 1 << 20;
  switch (cols) {
    case 5120:
      fixed<5120><<<rows, kThreads, 0, stream>>>(x, y);
      return;
    case 14336:
      fixed<14336><<<rows, kThreads, 0, stream>>>(x, y);
      return;
    case VOCABULARY:
      fixed<VOCABULARY><<<rows, kThreads, 0, stream>>>(x, y);
      return;
    default:
      break;
  }
  if (cols > 8192 && cols % 8 == 0) {
    by_eight<<<rows, kThreads, 0, stream>>>(x, y, cols);
  } else if (cols < 2048 && int64_t{rows} * cols > kMany) {
    by_warp<<<(rows + 7) / 8, kThreads, 0, stream>>>(x, y, rows, cols);
  } else if (cols < 6000) {
    with_tail<<<rows, kThreads, 0, stream>>>(x, y, rows, cols);
  } else {
    plain<<<rows, kThreads, 0, stream>>>(x, y, cols);
  }
}
