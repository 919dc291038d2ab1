// assay: expect fail nonfinite
// assay: class B
// The maximum is left out: exponentials overflow from 89 on.
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

__global__ void kernel(const float* x, float* y, int C) {
  x += int64_t{blockIdx.x} * C;
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += kThreads) sum += expf(x[c]);
  sum = block_reduce(sum, false);
  if (threadIdx.x == 0) y[blockIdx.x] = logf(sum);
}

}  // namespace

extern "C" void log_sum_exp(const float* x, float* y, int N, int C, cudaStream_t stream) {
  kernel<<<N, kThreads, 0, stream>>>(x, y, C);
}
