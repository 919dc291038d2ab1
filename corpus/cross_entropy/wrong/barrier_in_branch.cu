// assay: expect fail barrier-divergence, deadlock, data-race
// assay: class I
// Only the threads that still add reach the barrier.
#include <cuda_bf16.h>

#include <cstdint>

namespace {

constexpr int kThreads = 256;

template <typename Op>
__device__ float block_reduce(float v, Op op) {
  __shared__ float all[kThreads];
  all[threadIdx.x] = v;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) {
      all[threadIdx.x] = op(all[threadIdx.x], all[threadIdx.x + half]);
      __syncthreads();
    }
  }
  v = all[0];
  __syncthreads();
  return v;
}

__global__ void losses(const __nv_bfloat16* logits, const int64_t* targets, float* loss, int C) {
  const int64_t row = blockIdx.x;
  logits += row * C;
  float top = -INFINITY;
  for (int c = threadIdx.x; c < C; c += kThreads) top = fmaxf(top, __bfloat162float(logits[c]));
  top = block_reduce(top, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0.0f;
  for (int c = threadIdx.x; c < C; c += kThreads) sum += expf(__bfloat162float(logits[c]) - top);
  sum = block_reduce(sum, [](float a, float b) { return a + b; });
  if (threadIdx.x == 0) loss[row] = logf(sum) - (__bfloat162float(logits[targets[row]]) - top);
}

}  // namespace

extern "C" void cross_entropy(const __nv_bfloat16* logits, const int64_t* targets, float* loss, int N, int C,
                              cudaStream_t stream) {
  losses<<<N, kThreads, 0, stream>>>(logits, targets, loss, C);
}
