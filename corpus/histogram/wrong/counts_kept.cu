// assay: expect fail uninitialized
// assay: class G
// The result is added to what was there. What no input falls on is never written at all.
#include <algorithm>
#include <cstdint>

namespace {

__global__ void count_kernel(const int32_t* x, int32_t* counts, int64_t n, int B) {
  extern __shared__ int32_t bins[];
  for (int b = threadIdx.x; b < B; b += blockDim.x) bins[b] = 0;
  __syncthreads();
  const int64_t stride = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += stride)
    atomicAdd(&bins[x[i]], 1);
  __syncthreads();
  for (int b = threadIdx.x; b < B; b += blockDim.x) {
    if (bins[b] != 0) atomicAdd(&counts[b], bins[b]);
  }
}

}  // namespace

extern "C" void histogram(const int32_t* x, int32_t* counts, int n, int B, cudaStream_t stream) {
  const int blocks = std::min((n + 1023) / 1024, 256);
  count_kernel<<<blocks, 256, B * sizeof(int32_t), stream>>>(x, counts, n, B);
}
