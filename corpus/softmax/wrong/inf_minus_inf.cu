// assay: expect fail nonfinite
// assay: class H
// A lane that has seen nothing but -inf (or nothing) computes exp(-inf - -inf).
#include <cstdint>

namespace {

// The running maximum, and the sum of exp(x - maximum).
struct Running {
  float top, sum;
};

__device__ Running merge(Running a, Running b) {
  const float top = fmaxf(a.top, b.top);
  return {top, a.sum * expf(a.top - top) + b.sum * expf(b.top - top)};
}

__global__ void softmax_kernel(const float* x, float* y, int N, int C) {
  const int64_t row = int64_t{blockIdx.x} * 4 + threadIdx.y;
  if (row >= N) return;
  x += row * C;
  y += row * C;
  Running r = {-INFINITY, 0.0f};
  for (int c = threadIdx.x; c < C; c += 32) {
    const float v = x[c];
    r = merge(r, {v, isnan(v) ? v : 1.0f});
  }
  for (int step = 16; step > 0; step /= 2) {
    r = merge(r, {__shfl_xor_sync(~0u, r.top, step), __shfl_xor_sync(~0u, r.sum, step)});
  }
  for (int c = threadIdx.x; c < C; c += 32) y[c] = expf(x[c] - r.top) / r.sum;
}

}  // namespace

extern "C" void softmax(const float* x, float* y, int N, int C, cudaStream_t stream) {
  softmax_kernel<<<(N + 3) / 4, dim3(32, 4), 0, stream>>>(x, y, N, C);
}
