// assay: expect fail wrong-result, out-of-bounds
// assay: class E
// Of equal values only one is taken.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

constexpr int kWarps = 4;

// Before the other in the order: larger, or of equals the later one.
__device__ bool comes_before(float a, int i, float b, int j) {
  return a > b;
}

__global__ void topk_kernel(const float* x, float* value, int64_t* index, int M, int N, int K) {
  const int row = blockIdx.x * kWarps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= M) return;
  x += int64_t{row} * N;
  float last = INFINITY;
  int last_index = N;
  for (int k = 0; k < K; ++k) {
    float best = -INFINITY;
    int best_index = -1;
    for (int c = lane; c < N; c += 32)
      if (comes_before(last, last_index, x[c], c) && (x[c] > best || best_index < 0)) {
        best = x[c];
        best_index = c;
      }
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffu, best, step);
      const int other_index = __shfl_xor_sync(0xffffffffu, best_index, step);
      if (other_index >= 0 && (best_index < 0 || other > best)) {
        best = other;
        best_index = other_index;
      }
    }
    if (lane == 0) {
      value[int64_t{row} * K + k] = best;
      index[int64_t{row} * K + k] = best_index;
    }
    last = best;
    last_index = best_index;
  }
}

}  // namespace

extern "C" void topk(const float* x, float* value, int64_t* index, int M, int N, int K, cudaStream_t stream) {
  topk_kernel<<<(M + kWarps - 1) / kWarps, 32 * kWarps, 0, stream>>>(x, value, index, M, N, K);
}
