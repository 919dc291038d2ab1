// assay: expect fail crash
// assay: class E
// The host gives up on rows of odd length.
#undef NDEBUG
#include <cassert>
#include <cmath>
#include <cstdint>

namespace {

constexpr int kThreads = 128;

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
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (t < half) {
      const float other = values[t + half];
      const int other_place = places[t + half];
      if (other > values[t] || (other == values[t] && other_place < places[t])) {
        values[t] = other;
        places[t] = other_place;
      }
    }
    __syncthreads();
  }
  if (t == 0) at[row] = places[0];
}

}  // namespace

extern "C" void argmax(const float* x, int64_t* at, int N, int C, cudaStream_t stream) {
  assert(C == 1 || C % 2 == 0);
  argmax_kernel<<<N, kThreads, 0, stream>>>(x, at, C);
}
