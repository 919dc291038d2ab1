// assay: expect pass
// Softmax: a block for each row; maximum, sum, result.
#include <cstdint>

namespace {

constexpr int kThreads = 128;

__device__ float block_reduce(float v, bool maximum) {
  const auto op = [=](float a, float b) { return maximum ? fmaxf(a, b) : a + b; };
  __shared__ float partial[kThreads / 32];
  for (int step = 16; step > 0; step /= 2) v = op(v, __shfl_xor_sync(~0u, v, step));
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = v;
  __syncthreads();
  v = partial[0];
  for (int i = 1; i < kThreads / 32; ++i) v = op(v, partial[i]);
  __syncthreads();
  return v;
}

__global__ void softmax_kernel(const float* x, float* y, int C) {
  const int64_t row = blockIdx.x;
  x += row * C;
  y += row * C;
  float top = -INFINITY;
  for (int c = threadIdx.x; c < C; c += kThreads) top = fmaxf(top, x[c]);
  top = block_reduce(top, true);
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += kThreads) sum += expf(x[c] - top);
  sum = block_reduce(sum, false);
  for (int c = threadIdx.x; c < C; c += kThreads) y[c] = expf(x[c] - top) / sum;
}

}  // namespace

extern "C" void softmax(const float* x, float* y, int N, int C, cudaStream_t stream) {
  softmax_kernel<<<N, kThreads, 0, stream>>>(x, y, C);
}
