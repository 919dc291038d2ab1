// assay: expect fail wrong-result, nondeterministic
// assay: class I
// The first lane of each warp adds to the block's bins by a volatile read and a volatile write: warps that come between
// the two lose a count.
#include <cstdint>

namespace {

__global__ void clear(int32_t* counts, int B) {
  const int b = blockIdx.x * blockDim.x + threadIdx.x;
  if (b < B) counts[b] = 0;
}

__global__ void count_kernel(const int32_t* x, int32_t* counts, int n, int B) {
  extern __shared__ int32_t bins[];
  for (int b = threadIdx.x; b < B; b += blockDim.x) bins[b] = 0;
  __syncthreads();
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int32_t value = i < n ? x[i] : -1;
  volatile int32_t* mine = bins;
  for (int lane = 0; lane < 32; ++lane) {
    const int32_t v = __shfl_sync(~0u, value, lane);
    if (threadIdx.x % 32 == 0 && v >= 0) mine[v] = mine[v] + 1;
  }
  __syncthreads();
  for (int b = threadIdx.x; b < B; b += blockDim.x)
    if (bins[b] > 0) atomicAdd(&counts[b], bins[b]);
}

}  // namespace

extern "C" void histogram(const int32_t* x, int32_t* counts, int n, int B, cudaStream_t stream) {
  clear<<<(B + 255) / 256, 256, 0, stream>>>(counts, B);
  count_kernel<<<(static_cast<int64_t>(n) + 255) / 256, 256, B * sizeof(int32_t), stream>>>(x, counts, n, B);
}
