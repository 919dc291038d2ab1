// assay: expect pass
// Prefix sum: one block walks over the vector.
#include <cstdint>

namespace {

// One block walks over the vector, 256 elements at a time.
__global__ void scan(const int* x, int* y, int n) {
  __shared__ int sums[256];
  const int t = threadIdx.x;
  int carry = 0;
  for (int from = 0; from < n; from += 256) {
    sums[t] = from + t < n ? x[from + t] : 0;
    __syncthreads();
    for (int step = 1; step < 256; step *= 2) {
      const int left = t >= step ? sums[t - step] : 0;
      __syncthreads();
      sums[t] += left;
      __syncthreads();
    }
    if (from + t < n) y[from + t] = carry + sums[t];
    carry += sums[255];
    __syncthreads();
  }
}

}  // namespace

extern "C" void prefix_sum(const int* x, int* y, void*, int n, cudaStream_t stream) {
  scan<<<1, 256, 0, stream>>>(x, y, n);
}
