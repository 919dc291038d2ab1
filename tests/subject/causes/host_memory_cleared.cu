// assay: contract twice
// assay: expect no failure
// The same with calloc.
#include <cuda_runtime.h>
#include <stdlib.h>

__global__ void scaled(const float* x, float* y, const float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i] + a;
}

extern "C" void k(const float* x, float* y, int n, cudaStream_t stream) {
  float* table = static_cast<float*>(calloc(4096, sizeof(float)));
  scaled<<<(n + 127) / 128, 128, 0, stream>>>(x, y, table[1000], n);
  free(table);
}
