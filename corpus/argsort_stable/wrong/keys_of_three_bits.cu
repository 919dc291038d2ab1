// assay: expect fail wrong-result
// assay: class D
// Only three bits of the key are compared.
#include <cuda_runtime.h>

#include <cstdint>

namespace {

__global__ void argsort_kernel(const int* x, int* order, int N) {
  __shared__ int row[1024];
  x += int64_t{blockIdx.x} * N;
  order += int64_t{blockIdx.x} * N;
  for (int c = threadIdx.x; c < N; c += blockDim.x) row[c] = x[c] & 7;
  __syncthreads();
  for (int c = threadIdx.x; c < N; c += blockDim.x) {
    int before = 0;
    for (int k = 0; k < N; ++k) before += row[k] < row[c] || (row[k] == row[c] && k < c);
    order[before] = c;
  }
}

}  // namespace

extern "C" void argsort(const int* x, int* order, int M, int N, cudaStream_t stream) {
  argsort_kernel<<<M, 256, 0, stream>>>(x, order, N);
}
