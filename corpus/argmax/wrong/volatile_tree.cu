// assay: expect fail data-race
// assay: class I
// The last warp compares on volatile shared memory without __syncwarp: right only while lanes run in step.
#include <cmath>
#include <cstdint>

namespace {

constexpr int kThreads = 64;

__global__ void argmax_kernel(const float* x, int64_t* at, int C) {
  __shared__ float values[kThreads];
  __shared__ int places[kThreads];
  const int64_t row = blockIdx.x;
  const int t = threadIdx.x;
  float value = -INFINITY;
  int place = C;  // none yet
  for (int c = t; c < C; c += kThreads) {
    const float v = x[row * C + c];
    if (place == C || v > value) {
      value = v;
      place = c;
    }
  }
  values[t] = value;
  places[t] = place;
  __syncthreads();
  if (t < 32) {
    volatile float* v = values;
    volatile int* p = places;
    for (int half = 32; half > 0; half /= 2) {
      const float other = v[t + half];
      const int other_place = p[t + half];
      if (t < half && (other > v[t] || (other == v[t] && other_place < p[t]))) {
        v[t] = other;
        p[t] = other_place;
      }
    }
  }
  if (t == 0) at[row] = places[0];
}

}  // namespace

extern "C" void argmax(const float* x, int64_t* at, int N, int C, cudaStream_t stream) {
  argmax_kernel<<<N, kThreads, 0, stream>>>(x, at, C);
}
