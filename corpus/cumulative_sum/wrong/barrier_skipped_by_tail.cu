// assay: expect fail barrier-divergence, deadlock, data-race, uninitialized, wrong-result
// assay: class I
// Threads without an element skip the barriers of the scan.
#include <cstdint>

namespace {

constexpr int kThreads = 256;

// A block for each row: chunks of 256 are scanned in shared memory, the carry goes on.
__global__ void scan_rows(const float* x, float* y, int L) {
  __shared__ float chunk[2][kThreads];
  const int64_t row = blockIdx.x;
  const int t = threadIdx.x;
  float carry = 0.0f;
  for (int from = 0; from < L; from += kThreads) {
    int side = 0;
    if (from + t < L) {
      chunk[side][t] = x[row * L + from + t];
      __syncthreads();
      for (int step = 1; step < kThreads; step *= 2) {
        chunk[1 - side][t] = t >= step ? chunk[side][t] + chunk[side][t - step] : chunk[side][t];
        side = 1 - side;
        __syncthreads();
      }
      y[row * L + from + t] = carry + chunk[side][t];
    }
    carry += chunk[side][kThreads - 1];
    __syncthreads();
  }
}

}  // namespace

extern "C" void cumulative_sum(const float* x, float* y, int N, int L, cudaStream_t stream) {
  scan_rows<<<N, kThreads, 0, stream>>>(x, y, L);
}
