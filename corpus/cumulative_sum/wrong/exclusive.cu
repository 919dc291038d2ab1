// assay: expect fail wrong-result, precision-loss
// assay: class K
// The element itself is left out.
#include <cstdint>

namespace {

// A warp for each row, 32 elements at a time.
__global__ void scan_rows(const float* x, float* y, int N, int L) {
  const int64_t row = int64_t{blockIdx.x} * 4 + threadIdx.y;
  if (row >= N) return;
  const int lane = threadIdx.x;
  float carry = 0.0f;
  for (int from = 0; from < L; from += 32) {
    float v = from + lane < L ? x[row * L + from + lane] : 0.0f;
    for (int step = 1; step < 32; step *= 2) {
      const float left = __shfl_up_sync(~0u, v, step);
      if (lane >= step) v += left;
    }
    if (from + lane < L) y[row * L + from + lane] = carry + v - x[row * L + from + lane];
    carry += __shfl_sync(~0u, v, 31);
  }
}

}  // namespace

extern "C" void cumulative_sum(const float* x, float* y, int N, int L, cudaStream_t stream) {
  scan_rows<<<(N + 3) / 4, dim3(32, 4), 0, stream>>>(x, y, N, L);
}
