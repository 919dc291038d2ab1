// assay: expect fail wrong-result
// assay: class K
// The least frequent value is found.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void mode_kernel(const uint8_t* x, int* count, int* value, int N) {
  __shared__ int bins[16];
  if (threadIdx.x < 16) bins[threadIdx.x] = 0;
  __syncthreads();
  for (int j = threadIdx.x; j < N; j += blockDim.x) atomicAdd(&bins[x[int64_t{blockIdx.x} * N + j]], 1);
  __syncthreads();
  if (threadIdx.x < 16) count[int64_t{blockIdx.x} * 16 + threadIdx.x] = bins[threadIdx.x];
  if (threadIdx.x != 0) return;
  int best = 15;
  for (int b = 14; b >= 0; --b)
    if (bins[b] < bins[best]) best = b;
  value[blockIdx.x] = best;
}

}  // namespace

extern "C" void mode(const uint8_t* x, int* count, int* value, int M, int N, cudaStream_t stream) {
  mode_kernel<<<M, 64, 0, stream>>>(x, count, value, N);
}
