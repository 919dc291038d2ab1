// assay: contract counts
// assay: expect no failure
// Cleared in the call.
#include <cuda_runtime.h>

__global__ void count(const int* x, int* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(&y[x[i]], 1);
}

extern "C" void k(const int* x, int* y, int n, int b, cudaStream_t stream) {
  cudaMemsetAsync(y, 0, b * sizeof(int), stream);
  count<<<(n + 127) / 128, 128, 0, stream>>>(x, y, n);
}
