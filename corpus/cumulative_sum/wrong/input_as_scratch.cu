// assay: expect fail clobbered-input
// assay: class F
// The scan runs in the input itself, which holds its old values again when the call ends: nobody else may read it meanwhile.
#include <cstdint>

namespace {

constexpr int kThreads = 256;

// A block for each row: chunks of 256 are scanned in place, the carry goes on, and the chunk is restored.
__global__ void scan_rows(float* x, float* y, int L) {
  const int64_t row = blockIdx.x;
  const int t = threadIdx.x;
  float carry = 0.0f;
  for (int from = 0; from < L; from += kThreads) {
    const int64_t at = row * L + from + t;
    const bool inside = from + t < L;
    const float v = inside ? x[at] : 0.0f;
    float sum = v;
    for (int step = 1; step < kThreads; step *= 2) {
      __syncthreads();
      const float left = inside && t >= step ? x[at - step] : 0.0f;
      __syncthreads();
      sum += left;
      if (inside) x[at] = sum;
    }
    __syncthreads();
    if (inside) y[at] = carry + sum;
    carry += x[row * L + min(from + kThreads, L) - 1];
    __syncthreads();
    if (inside) x[at] = v;
    __syncthreads();
  }
}

}  // namespace

extern "C" void cumulative_sum(const float* x, float* y, int N, int L, cudaStream_t stream) {
  scan_rows<<<N, kThreads, 0, stream>>>(const_cast<float*>(x), y, L);
}
